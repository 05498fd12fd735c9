"""Confidence intervals of an `Estimate` by name; ``auto`` picks by stated rules and says what and why.

``auto`` follows `intervals.choose`. A difference for which these rules find too little evidence may still be
bracketed: each of its two parts gets its own interval at level (1 + level)/2, and the two hold together with
probability at least ``level`` (Bonferroni). A lift (value − base)/|base| is refused where the base's interval
holds 0. Where the evidence on both parts is plentiful it is Fieller's: every lift l for which a test does not reject
that value = base + l |base|. Elsewhere it follows the rules of a difference over a base at least ten standard errors
from 0, and over a nearer one comes from the parts' own intervals. An estimate whose bias is not in its standard error
takes the interval of its reference, widened to hold its own value, or none.

P-values come from inverting intervals: the smallest α whose interval at level 1 − α leaves the null out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference import intervals
from offpolicy.inference.arithmetic import combined, is_plentiful, widened
from offpolicy.inference.figures import level_text
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.rules import MANY_UNITS, automatic, by_name, critical, holding
from offpolicy.inference.intervals.sample import Interval, Sample, check_level
from offpolicy.inference.registry import Asked, Make, is_balanced, method_named, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.inference.estimate import Alternative, Estimate


NEAR_ZERO = 10.0


def interval(estimate: Estimate, level: float, method: str, evidence: Evidence | None, seed: int) -> Interval:
    """Interval of an estimate by a registered method or one of its aliases."""
    check_level(level)
    chosen = None if method == "auto" else method_named(method)
    if not estimate.is_defined:
        name = "auto" if chosen is None else chosen.name
        return Interval(math.nan, math.nan, level, name, "not identified", sufficient=False)
    if chosen is None or chosen.make is None:
        if estimate.relation == "sum":
            return combined(estimate, level)
        return _auto(estimate, estimate.sample(), evidence, level)
    made = chosen.make(Asked(estimate, level, evidence, seed))
    if not isinstance(made, Interval):
        raise UsageError(f"the interval {chosen.name!r} gave a {type(made).__name__}. Return an offpolicy Interval.")
    return widened(made, estimate)


def _from_scores(name: str) -> Make:
    """A method that needs nothing but scores, or the ranges of weights and rewards."""

    def make(asked: Asked) -> Interval:
        _need_range(name, asked.evidence)
        return by_name(name, asked.sample, asked.evidence, asked.level)

    return make


def _from_weights(name: str) -> Make:
    """A method for the value of one policy, from its weights and rewards."""

    def make(asked: Asked) -> Interval:
        evidence = asked.evidence
        if evidence is None or evidence.weights is None or not evidence.is_value:
            what = "is about the value of one policy, not a difference or a lift; it"
            lead = what if asked.estimate.relation is not None else ""
            raise UsageError(
                f"method={name!r} {lead + ' ' if lead else ''}needs the weights and rewards of independent, equally "
                f"weighted units, which {asked.estimate.label} does not have. Use 'empirical-likelihood' or 'bca'."
            )
        _need_range(name, evidence)
        return by_name(name, asked.sample, evidence, asked.level)

    return make


def _need_range(name: str, evidence: Evidence | None) -> None:
    needs = NEEDS.get(name, ())
    known = (evidence or Evidence()).completed()
    if "rewards" in needs and not known.bounded_rewards:
        first = "weights, rewards and " if known.weights is None else ""
        raise UsageError(f"method={name!r} needs {first}the range of the rewards: reward_range=(low, high).")
    if "weights" in needs and known.weight_high is None:
        raise UsageError(f"method={name!r} needs the largest weight that can occur: weight_high=….")


def _auto(estimate: Estimate, sample: Sample, evidence: Evidence | None, level: float) -> Interval:
    if estimate.parts is not None and estimate.parts[0].is_same_as(estimate.parts[1]):
        return Interval(0.0, 0.0, level, "exact", "the two are the same on every unit of the log")
    if estimate.bias:
        return _referred(estimate, level)
    if estimate.relation == "lift":
        return _lift(estimate, sample, evidence, level)
    return _possible(_ruled(estimate, automatic(sample, evidence, level), level), estimate, evidence)


def _possible(interval: Interval, estimate: Estimate, evidence: Evidence | None) -> Interval:
    """The part of an interval that the range of the rewards allows: a share of clicks is not above 1."""
    ends = None if evidence is None else evidence.completed()
    if ends is None or ends.reward_low is None or ends.reward_high is None:
        return interval
    low, high = ends.reward_low, ends.reward_high
    if estimate.relation == "difference":
        low, high = low - high, high - low
    if not interval.sufficient or interval.low >= high or interval.high <= low:
        return interval
    cut = [f"{end:g}" for end in (low, high) if interval.low < end < interval.high]
    if not cut:
        return interval
    note = f"{interval.note}; cut at {' and '.join(cut)}, beyond which no mean of these rewards lies"
    return replace(interval, low=max(interval.low, low), high=min(interval.high, high), note=note)


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
    if is_balanced(linear) and all(is_plentiful(part, level) for part in estimate.parts):
        # Then v − (1 + lift) b is normal for every lift, however far the base is from 0.
        made = widened(_ratio(estimate, level, "fieller"), estimate)
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


def _bounded(asked: Asked, name: str) -> Interval:
    """Finite-sample bound: of scores of known range, else of w·r with known ranges of w and r."""
    sample, level = asked.sample, asked.level
    bound = intervals.hoeffding if name == "hoeffding" else intervals.empirical_bernstein
    evidence = (asked.evidence or Evidence()).completed()
    if evidence.score_low is not None and evidence.score_high is not None:
        return bound(sample, level, low=evidence.score_low, high=evidence.score_high)
    w, r, top = evidence.weights, evidence.rewards, evidence.weight_high
    low, high = evidence.reward_low, evidence.reward_high
    if w is None or r is None or low is None or high is None or top is None:
        raise UsageError(
            f"method={name!r} needs the ranges of rewards and weights: reward_range=(low, high) and weight_high=…."
        )
    if not evidence.is_value:
        raise UsageError(f"method={name!r} is for the value of one policy.")
    product = Sample.of_mean(w * r, evidence.count)
    interval = bound(product, level, low=min(0.0, top * low), high=max(0.0, top * high))
    note = f"{interval.note}; of the importance-weighted mean"
    return holding(replace(interval, note=note), sample.estimate)


def _batched(asked: Asked, name: str) -> Interval:
    estimate, level = asked.estimate, asked.level
    units = estimate.units
    if not (units.has_batches and units.are_plain):
        raise UsageError(f"method={name!r} needs a log with batch= and without clusters or analysis weights.")
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
    return interval


def pair_of(top: Estimate, bottom: Estimate) -> intervals.Pair:
    """Two estimates of the same units with their joint covariance."""
    difference = top.plain_difference(bottom)
    a, b = top.score_error**2, bottom.score_error**2
    # Polarisation keeps clusters, weights and repetitions as the standard errors have them.
    covariance = (a + b - difference.score_error**2) / 2
    limit = math.sqrt(a * b)
    return intervals.Pair(top.value, bottom.value, a, b, min(max(covariance, -limit), limit))


NEEDS = {
    "bounded-likelihood": ("rewards",),
    "clopper-pearson": ("rewards",),
    "confidence-sequence": ("rewards",),
    "cressie-read": ("rewards", "weights"),
}
register("normal", _from_scores("normal"), balanced=True, shares=True)
register("t", _from_scores("t"), balanced=True, shares=True)
register("exact", balanced=True)
register("empirical-likelihood", _from_scores("empirical-likelihood"))
register("cautious-likelihood", _from_scores("cautious-likelihood"))
register("bounded-likelihood", _from_scores("bounded-likelihood"))
register("cressie-read", _from_weights("cressie-read"))
register("clopper-pearson", _from_weights("clopper-pearson"))
register("confidence-sequence", _from_weights("confidence-sequence"), aliases=("anytime",))
register("empirical-bernstein", lambda asked: _bounded(asked, "empirical-bernstein"), aliases=("bernstein",))
register("hoeffding", lambda asked: _bounded(asked, "hoeffding"))
register(
    "bootstrap", lambda asked: intervals.bootstrap(asked.sample, asked.level, seed=asked.seed), aliases=("percentile",)
)
register("bca", lambda asked: intervals.bca(asked.sample, asked.level, seed=asked.seed))
register("batch-pooled", lambda asked: _batched(asked, "batch-pooled"))
register("batch-stabilized", lambda asked: _batched(asked, "batch-stabilized"), aliases=("adaptive",))
register("delta", lambda asked: _ratio(asked.estimate, asked.level, "delta"))
register("fieller", lambda asked: _ratio(asked.estimate, asked.level, "fieller"), shares=True)
register("log-scale", lambda asked: _ratio(asked.estimate, asked.level, "log-scale"))


SMALLEST = 1e-12  # p-values below are given as this
USUAL = 0.05
NEAR = 1e-7  # standard errors within which an end of an interval is found


def p_value(estimate: Estimate, null: float, alternative: Alternative, method: str) -> float:
    """P-value of one estimate; see `Estimate.p_value`."""
    if not estimate.is_defined:
        return math.nan
    usual = estimate.interval(1 - USUAL, method)
    if not usual.sufficient:
        return math.nan
    if usual.method == "exact":  # two policies that are the same on every unit differ by 0 for certain
        both = 1.0 if usual.covers(null) else 0.0
    else:
        both = _wald(estimate, null, usual.method)
        far = max(min(both, 1 - 1e-9), SMALLEST)
        if both < 0 or estimate.interval(1 - far, method).method != usual.method:
            both = _inverted(estimate, null, method, excluded=not usual.covers(null))
    if alternative == "two-sided":
        return both
    above = estimate.value > null
    return both / 2 if above == (alternative == "greater") else 1 - both / 2


def _wald(estimate: Estimate, null: float, method: str) -> float:
    """P-value of a normal, Student or Fieller interval; −1 for the others."""
    from scipy import special

    if method not in {"normal", "t", "fieller"}:
        return -1.0
    gap = estimate.value - null
    if abs(gap) <= estimate.allowance:  # what smoothing may have moved it by
        return 1.0
    null += math.copysign(estimate.allowance, gap)
    z = _distance(estimate, null, method)
    total = estimate.sample().total
    if method == "normal" or (method == "fieller" and total >= MANY_UNITS):
        return float(2 * special.ndtr(-z))
    return float(2 * special.stdtr(total - 1, -z * math.sqrt((total - 1) / total)))


def _distance(estimate: Estimate, null: float, method: str) -> float:
    """Standard errors between an estimate and a null; of a lift, those of the combination that the null makes 0."""
    gap, error = abs(estimate.value - null), estimate.score_error
    if method == "fieller":
        assert estimate.parts is not None
        pair = pair_of(*estimate.parts)
        ratio = 1 + math.copysign(1.0, pair.denominator) * null  # (e − d)/|d| = null where e = ratio · d
        gap, error = abs(pair.numerator - ratio * pair.denominator), pair.error_at(ratio)
    if error == 0:
        return 0.0 if gap == 0 else math.inf
    return gap / error


def _inverted(estimate: Estimate, null: float, method: str, *, excluded: bool) -> float:
    """The α at which an end of the interval meets the null, on the side of 0.05 that the 95% interval says.

    The rules may take another method far out, where normal tails are not to be trusted; each step therefore asks
    for the interval that would be printed. In z = Φ⁻¹(1 − α/2) its ends are nearly straight lines.
    """
    from scipy import special

    def beyond(z: float) -> float:
        """How far the null lies outside of the interval; negative inside, or where it is refused."""
        interval = estimate.interval(1 - 2 * float(special.ndtr(-z)), method)
        if not interval.sufficient:
            return -(abs(estimate.value - null) + estimate.std_error)
        return max(interval.low - null, null - interval.high)

    usual, smallest, largest = (-float(special.ndtri(a / 2)) for a in (USUAL, SMALLEST, 1 - 1e-9))
    near, far = (usual, smallest) if excluded else (largest, usual)
    at_near, at_far = beyond(near), beyond(far)
    if excluded and at_far > 0:
        return SMALLEST
    if not excluded and at_near <= 0:
        return 1.0
    z = crossing(beyond, (near, far), (at_near, at_far))
    return 2 * float(special.ndtr(-z))


def crossing(f: Callable[[float], float], ends: tuple[float, float], values: tuple[float, float]) -> float:
    """Where a falling function changes its sign: false position that halves what stays (Illinois), and bisection.

    >>> round(crossing(lambda x: 2 - x * x, (0.0, 2.0), (2.0, -2.0)), 6)
    1.414214
    """
    (low, high), (above, below) = ends, values
    x, kept = low, 0
    for step in range(100):
        before = x
        x = (low + high) / 2 if step % 8 == 7 else low + (high - low) * above / (above - below)
        if abs(x - before) <= NEAR or high - low <= NEAR:
            return x
        value = f(x)
        if value > 0:
            low, above = x, value
            below /= 2 if kept > 0 else 1
            kept = 1
        else:
            high, below = x, value
            above /= 2 if kept < 0 else 1
            kept = -1
    return x
