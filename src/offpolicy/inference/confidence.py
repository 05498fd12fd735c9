"""Confidence intervals of an `Estimate` by name; ``auto`` picks by stated rules and says what and why.

``auto`` follows `intervals.choose`. A difference for which these rules find too little evidence may still be
bracketed: each of its two parts gets its own interval at level (1 + level)/2, and the two hold together with
probability at least ``level`` (Bonferroni). A lift (value − base)/|base| is refused where the base's interval
holds 0. Where the evidence on both parts is plentiful it is Fieller's: every lift l for which a test does not reject
that value = base + l |base|. Elsewhere it follows the rules of a difference over a base at least ten standard errors
from 0, and over a nearer one comes from the parts' own intervals. An estimate whose bias is not in its standard error
takes the interval of its reference, widened to hold its own value, or none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference import intervals
from offpolicy.inference.arithmetic import combined, is_plentiful, widened
from offpolicy.inference.figures import level_text
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.rules import automatic, by_name, critical, holding
from offpolicy.inference.intervals.sample import Interval, Sample, check_level

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate

ALIASES = {
    "bernstein": "empirical-bernstein",
    "anytime": "confidence-sequence",
    "adaptive": "batch-stabilized",
    "percentile": "bootstrap",
}
FROM_SCORES = ("normal", "t", "empirical-likelihood", "cautious-likelihood")
FROM_WEIGHTS = ("cressie-read", "clopper-pearson", "confidence-sequence")
BOUNDED = ("empirical-bernstein", "hoeffding")
RESAMPLED = ("bootstrap", "bca")
BATCHED = ("batch-pooled", "batch-stabilized")
RATIOS = ("delta", "fieller", "log-scale")
METHODS = ("auto", *FROM_SCORES, *FROM_WEIGHTS, *BOUNDED, *RESAMPLED, *BATCHED, *RATIOS)
NEAR_ZERO = 10.0
PLENTIFUL = ("normal", "t")


def interval(
    estimate: Estimate, level: float, method: str, evidence: Evidence | None, seed: int
) -> Interval:
    """Interval of an estimate by a method of `METHODS` or one of its aliases."""
    check_level(level)
    name = ALIASES.get(method, method)
    if name not in METHODS:
        known = [*METHODS, *ALIASES]
        raise UsageError(
            f"method={method!r}: no interval is called so.{did_you_mean(method, known)}"
        )
    if not estimate.is_defined:
        return Interval(math.nan, math.nan, level, name, "not identified", sufficient=False)
    if name in RATIOS:
        return _ratio(estimate, level, name)
    if name in BATCHED:
        return widened(_batched(estimate, level, name), estimate)
    if name in RESAMPLED:
        draw = intervals.bca if name == "bca" else intervals.bootstrap
        return widened(draw(estimate.sample(), level, seed=seed), estimate)
    return _from_sample(name, estimate, level, evidence)


def _from_sample(
    name: str, estimate: Estimate, level: float, evidence: Evidence | None
) -> Interval:
    if name == "auto" and estimate.relation == "sum":
        return combined(estimate, level)
    sample = estimate.sample()
    if name == "auto":
        return _auto(estimate, sample, evidence, level)
    if name in BOUNDED:
        return widened(_bounded(name, sample, evidence, level), estimate)
    if name in FROM_WEIGHTS and (
        evidence is None or evidence.weights is None or not evidence.is_value
    ):
        raise UsageError(
            f"method={name!r} needs the weights and rewards of independent, equally weighted units, "
            f"which {estimate.label} does not have. Use 'empirical-likelihood' or 'bca'."
        )
    _need_range(name, evidence)
    return widened(by_name(name, sample, evidence, level), estimate)


def _need_range(name: str, evidence: Evidence | None) -> None:
    if name in FROM_WEIGHTS:
        assert evidence is not None
        evidence = evidence.completed()
        if evidence.reward_low is None or evidence.reward_high is None:
            raise UsageError(
                f"method={name!r} needs the range of the rewards: reward_range=(low, high)."
            )
        if name == "cressie-read" and evidence.weight_high is None:
            raise UsageError(
                f"method={name!r} needs the largest weight that can occur: weight_high=…."
            )


def _auto(estimate: Estimate, sample: Sample, evidence: Evidence | None, level: float) -> Interval:
    if estimate.parts is not None and estimate.parts[0].is_same_as(estimate.parts[1]):
        return Interval(0.0, 0.0, level, "exact", "the two are the same on every unit of the log")
    if estimate.bias:
        return _referred(estimate, level)
    if estimate.relation == "lift":
        return _lift(estimate, sample, evidence, level)
    return _ruled(estimate, automatic(sample, evidence, level), level)


def _ruled(estimate: Estimate, interval: Interval, level: float) -> Interval:
    """The interval that the rules give the scores; from those of the parts where it is refused."""
    parts = estimate.parts or ()
    # Of a sum no evidence is known but what the rules of its terms say.
    blind = any(part.relation in {"scaled", "sum"} for part in parts)
    if blind and not all(is_plentiful(part, level) for part in parts):
        interval = replace(interval, sufficient=False, note="a term of it has too few large scores")
    if interval.sufficient or not parts:
        return widened(interval, estimate)
    return _bracket(estimate, level) or interval


def no_base(base: Estimate, level: float) -> str | None:
    """Why a lift over ``base`` is undefined; None where it is defined."""
    interval = base.interval(level)
    if not interval.sufficient:
        return f"the lift is undefined: {base.label} has no interval ({interval.reason})"
    if interval.covers(0.0):
        return (
            f"the lift is undefined: the {level_text(level)} interval of {base.label} "
            f"({interval.low:.4g} to {interval.high:.4g}) holds 0"
        )
    return None


def _lift(estimate: Estimate, sample: Sample, evidence: Evidence | None, level: float) -> Interval:
    """Interval of a lift: Fieller's where evidence is plentiful, else by its linearized score or its parts."""
    assert estimate.parts is not None
    base = estimate.parts[1]
    if (why := no_base(base, level)) is not None:
        return Interval(-math.inf, math.inf, level, "none", why, sufficient=False)
    linear = automatic(sample, evidence, level)
    balanced = linear.sufficient and linear.method in PLENTIFUL
    if balanced and all(is_plentiful(part, level) for part in estimate.parts):
        # Then v − (1 + lift) b is normal for every lift, however far the base is from 0.
        made = _ratio(estimate, level, "fieller")
        return replace(made, note="; ".join(filter(None, (linear.note, made.note))))
    if abs(base.value) < NEAR_ZERO * base.std_error:
        return _near_zero(estimate, level)
    return _ruled(estimate, linear, level)


def _near_zero(estimate: Estimate, level: float) -> Interval:
    """A lift of thin evidence over a base that is less than ten standard errors from 0."""
    assert estimate.parts is not None
    reasons = [part.interval((1 + level) / 2).reason for part in estimate.parts]
    why = next(filter(None, reasons), "the base may be 0 at the level that both parts need")
    refused = Interval(-math.inf, math.inf, level, "none", why, sufficient=False)
    return _bracket(estimate, level) or refused


def _referred(estimate: Estimate, level: float) -> Interval:
    """The reference's interval, widened to hold the estimate; refused where there is none."""
    reference = estimate.reference
    if reference is None or not reference.is_defined:
        remedy = "Compute DML as well, whose interval bounds it"
        why = f"{estimate.bias}. {remedy}"
        return Interval(-math.inf, math.inf, level, "none", why, sufficient=False)
    interval = reference.interval(level)
    note = f"{estimate.bias}; the interval is that of {reference.label}, widened to hold this value"
    if not interval.sufficient:
        return replace(interval, note=f"{estimate.bias}, and {reference.label}: {interval.reason}")
    return replace(holding(interval, estimate.value), method="bias-aware", note=note)


def _bracket(estimate: Estimate, level: float) -> Interval | None:
    """Bonferroni interval from the intervals of the two parts; None when one of them is refused."""
    assert estimate.parts is not None
    ends = [part.interval((1 + level) / 2) for part in estimate.parts]
    if not all(i.sufficient for i in ends):
        return None
    (a, b), (c, d) = ends
    note = f"few large scores carry it; from the intervals of both parts ({ends[0].method}, {ends[1].method})"
    if estimate.relation == "difference":
        return Interval(a - d, b - c, level, "bonferroni", note)
    if c <= 0 <= d:
        return None
    corners = [(x - y) / abs(y) for x in (a, b) for y in (c, d)]
    return Interval(min(corners), max(corners), level, "bonferroni", note)


def _bounded(name: str, sample: Sample, evidence: Evidence | None, level: float) -> Interval:
    """Finite-sample bound: of scores of known range, else of w·r with known ranges of w and r."""
    bound = intervals.hoeffding if name == "hoeffding" else intervals.empirical_bernstein
    evidence = (evidence or Evidence()).completed()
    if evidence.score_low is not None and evidence.score_high is not None:
        return bound(sample, level, low=evidence.score_low, high=evidence.score_high)
    w, r, top = evidence.weights, evidence.rewards, evidence.weight_high
    low, high = evidence.reward_low, evidence.reward_high
    if w is None or r is None or low is None or high is None or top is None:
        raise UsageError(
            f"method={name!r} needs the ranges of rewards and weights: reward_range=(low, high) and "
            "weight_high=…."
        )
    if not evidence.is_value:
        raise UsageError(f"method={name!r} is for the value of one policy.")
    product = Sample.of_mean(w * r, evidence.count)
    interval = bound(product, level, low=min(0.0, top * low), high=max(0.0, top * high))
    note = f"{interval.note}; of the importance-weighted mean"
    return holding(replace(interval, note=note), sample.estimate)


def _batched(estimate: Estimate, level: float, name: str) -> Interval:
    units = estimate.units
    if not (units.has_batches and units.are_plain):
        raise UsageError(
            f"method={name!r} needs a log with batch= and without clusters or analysis weights."
        )
    if estimate.looks_at_others:
        raise UsageError(
            f"method={name!r} needs scores whose mean is right in every batch, given those before it. The scores of "
            f"{estimate.label} rest on means over the whole log, which later batches decide: an arm that dies out "
            "leaves them too sure. Use IPW or DML, or the default interval."
        )
    psi = estimate.psi.mean(axis=0)
    batch, count = units.batch, units.count
    if estimate.scored is not None:
        raise UsageError(f"method={name!r} is not for half-sample estimates.")
    summary = intervals.summarize(psi, np.unique(batch, return_inverse=True)[1], count)
    combine = intervals.pooled if name == "batch-pooled" else intervals.stabilized
    return combine(summary).interval(level)


def _ratio(estimate: Estimate, level: float, name: str) -> Interval:
    if estimate.relation != "lift" or estimate.parts is None:
        raise UsageError(f"method={name!r} is for a lift: e.lift(other).interval(method={name!r}).")
    if name == "fieller":
        return fieller(estimate, level, critical(level, estimate.sample().total))
    make = intervals.delta if name == "delta" else intervals.log_scale
    return _of_sign(estimate, make(pair_of(*estimate.parts), level))


def fieller(lift: Estimate, level: float, quantile: float) -> Interval:
    """Fieller's interval of a lift with a critical value: every l with |v − b − l |b|| ≤ quantile · its s.e."""
    assert lift.parts is not None
    return _of_sign(lift, intervals.fieller(pair_of(*lift.parts), level, quantile))


def _of_sign(lift: Estimate, interval: Interval) -> Interval:
    """An interval of e/d − 1 as one of (e − d)/|d|, which is −(e/d − 1) for a negative base."""
    assert lift.parts is not None
    if lift.parts[1].value < 0:
        interval = replace(interval, low=-interval.high, high=-interval.low)
    return widened(interval, lift)


def pair_of(top: Estimate, bottom: Estimate) -> intervals.Pair:
    """Two estimates of the same units with their joint covariance."""
    difference = top - bottom
    a, b = top.std_error**2, bottom.std_error**2
    # Polarisation keeps clusters, weights and repetitions as the standard errors have them.
    covariance = (a + b - difference.std_error**2) / 2
    limit = math.sqrt(a * b)
    return intervals.Pair(top.value, bottom.value, a, b, min(max(covariance, -limit), limit))
