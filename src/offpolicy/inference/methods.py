"""The library's own interval methods, registered: what each needs, and what it declares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference import intervals
from offpolicy.inference.expression import Lift, plain_difference
from offpolicy.inference.intervals.betting import gain_lower_bound, value_lower_bound
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.exact import implicit_exploration
from offpolicy.inference.intervals.rules import MANY_UNITS, RULES, Rule, critical, holding
from offpolicy.inference.intervals.sample import Interval, Sample
from offpolicy.inference.registry import Asked, Bet, Make, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.adaptive import Batches, Combined


def _ruled(name: str, rule: Rule) -> Make:
    """A method that the rules of ``auto`` may name, asked for by its name."""

    def make(asked: Asked) -> Interval:
        evidence = asked.evidence
        if rule.of_value and (evidence is None or evidence.weights is None or not evidence.is_value):
            what = "is for the value of one policy, not for a difference or a lift; it"
            lead = f"{what} " if asked.estimate.of.parts else ""
            raise UsageError(
                f"method={name!r} {lead}needs the weights and rewards of independent, equally "
                f"weighted units, which {asked.estimate.label} does not have. Use 'empirical-likelihood' or 'bca'."
            )
        known = (evidence or Evidence()).completed()
        if "rewards" in rule.needs and not known.bounded_rewards:
            first = "weights, rewards and " if known.weights is None else ""
            raise UsageError(f"method={name!r} needs {first}the range of the rewards: reward_range=(low, high).")
        if "weights" in rule.needs and known.weight_high is None:
            raise UsageError(f"method={name!r} needs the largest possible weight: weight_high=….")
        return rule.make(asked.sample, known, asked.level)

    return make


def _bounded(name: str, bound: Callable[..., Interval]) -> Make:
    """Finite-sample bound: of scores of known range, else of w·r with known ranges of w and r."""

    def make(asked: Asked) -> Interval:
        sample, level = asked.sample, asked.level
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

    return make


def _batched(name: str, combine: Callable[[Batches], Combined]) -> Make:
    """A combination of batches, for logs whose policy learned from batch to batch."""

    def make(asked: Asked) -> Interval:
        estimate, units = asked.estimate, asked.estimate.units
        if not (units.has_batches and units.are_plain):
            raise UsageError(f"method={name!r} needs a log with batch= and without clusters or analysis weights.")
        if estimate.looks_at_others:
            raise UsageError(
                f"method={name!r} needs scores that are unbiased in every batch, given earlier batches. The scores "
                f"of {estimate.label} use means over the whole log, so later batches affect earlier ones, and "
                "intervals get too narrow when an arm is dropped. Use IPW or DML, or the default interval."
            )
        if estimate.scored is not None:
            raise UsageError(f"method={name!r} does not work for half-sample estimates.")
        codes = np.unique(units.batch, return_inverse=True)[1]
        return combine(intervals.summarize(estimate.psi.mean(axis=0), codes, units.count)).interval(asked.level)

    return make


def _of_lift(name: str, make: Callable[[intervals.Pair, float, float], Interval]) -> Make:
    """An interval of two means with their covariance, the level, and the critical value of so many units."""

    def made(asked: Asked) -> Interval:
        e = asked.estimate
        if not isinstance(e.of, Lift):
            raise UsageError(f"method={name!r} is for a lift: e.lift(other).interval(method={name!r}).")
        quantile = critical(asked.level, asked.sample.total)
        return _of_sign(e.of, make(pair_of(*e.of.parts), asked.level, quantile))

    return made


def fieller(lift: Estimate, level: float, quantile: float) -> Interval:
    """Fieller's interval of a lift with a critical value: every l with |v − b − l |b|| ≤ quantile · its s.e."""
    assert isinstance(lift.of, Lift)
    return _of_sign(lift.of, intervals.fieller(pair_of(*lift.of.parts), level, quantile))


def _of_sign(lift: Lift, interval: Interval) -> Interval:
    """An interval of e/d − 1 as one of (e − d)/|d|, which is −(e/d − 1) for a negative base."""
    return interval if lift.parts[1].value >= 0 else replace(interval, low=-interval.high, high=-interval.low)


def pair_of(top: Estimate, bottom: Estimate) -> intervals.Pair:
    """Two estimates of the same units with their joint covariance."""
    difference = plain_difference(top, bottom)
    a, b = top.score_error**2, bottom.score_error**2
    # Polarisation keeps clusters, weights and repetitions as the standard errors have them.
    covariance = (a + b - difference.score_error**2) / 2
    limit = math.sqrt(a * b)
    return intervals.Pair(top.value, bottom.value, a, b, min(max(covariance, -limit), limit))


def _wald(
    is_normal: Callable[[float], bool], distance: Callable[[Estimate, float], tuple[float, float]]
) -> Callable[[Estimate, float], float]:
    """The two-sided p-value of a Wald interval, beyond what smoothing may have moved the estimate by."""

    def p_value(estimate: Estimate, null: float) -> float:
        gap = estimate.value - null
        if abs(gap) <= estimate.allowance:
            return 1.0
        away, error = distance(estimate, null + math.copysign(estimate.allowance, gap))
        z = away / error if error else (math.inf if away else 0.0)
        total = estimate.sample().total
        if is_normal(total):
            return float(2 * special.ndtr(-z))
        return float(2 * special.stdtr(total - 1, -z * math.sqrt((total - 1) / total)))

    return p_value


def _from_null(estimate: Estimate, null: float) -> tuple[float, float]:
    return abs(estimate.value - null), estimate.score_error


def _of_combination(lift: Estimate, null: float) -> tuple[float, float]:
    """Of a lift: of the combination e − ratio · d that the null makes 0."""
    pair = pair_of(*lift.of.parts)
    ratio = 1 + math.copysign(1.0, pair.denominator) * null  # (e − d)/|d| = null where e = ratio · d
    return abs(pair.numerator - ratio * pair.denominator), pair.error_at(ratio)


def _smoothing(bet: Bet) -> float:
    """Logarithmic smoothing, from a bet on weight and reward together."""
    bound = gain_lower_bound if bet.less_logged else value_lower_bound
    return bound(bet.weight, bet.earned, bet.rate, bet.count, weight_high=bet.weight_high)


def _units(bet: Bet) -> tuple[Floats, float]:
    """Units of at least 0, and what their mean is more than the bounded quantity."""
    if bet.less_logged:
        return np.maximum(1 + (bet.weight - 1) * bet.earned, 0.0), 1.0
    return bet.weight * bet.earned, 0.0


def _exploration(bet: Bet) -> float:
    z, more = _units(bet)
    return implicit_exploration(z, bet.rate, bet.count) - more


def _bernstein(bet: Bet) -> float:
    if bet.weight_high is None:
        raise UsageError(
            "method='bernstein' needs the largest possible weight, which is known only with the propensities "
            "of all actions. Use method='smoothing'."
        )
    z, more = _units(bet)
    top = max(1.0, bet.weight_high)
    return intervals.empirical_bernstein(Sample.of_mean(z, bet.count), 1 - 2 * bet.rate, low=0.0, high=top).low - more


CLOSED = {"normal": _wald(lambda total: True, _from_null), "t": _wald(lambda total: False, _from_null)}  # noqa: ARG005
OTHER_NAMES = {"confidence-sequence": ("anytime",)}
ASKED_OTHERWISE = ("empirical-bernstein", "none")
for _name, _rule in RULES.items():
    if _name not in ASKED_OTHERWISE:
        _wide = {"balanced": _rule.wald, "shares": _rule.wald, "p_value": CLOSED.get(_name)}
        register(_name, _ruled(_name, _rule), aliases=OTHER_NAMES.get(_name, ()), **_wide)
register("exact", balanced=True, certain=True)
register(
    "empirical-bernstein",
    _bounded("empirical-bernstein", intervals.empirical_bernstein),
    aliases=("bernstein",),
    bound=_bernstein,
    says="empirical Bernstein",
)
register("hoeffding", _bounded("hoeffding", intervals.hoeffding))
register("smoothing", bound=_smoothing, says="logarithmic smoothing")
register("exploration", bound=_exploration, says="implicit exploration")
register(
    "bootstrap", lambda asked: intervals.bootstrap(asked.sample, asked.level, seed=asked.seed), aliases=("percentile",)
)
register("bca", lambda asked: intervals.bca(asked.sample, asked.level, seed=asked.seed))
register("batch-pooled", _batched("batch-pooled", intervals.pooled))
register("batch-stabilized", _batched("batch-stabilized", intervals.stabilized), aliases=("adaptive",))
register("delta", _of_lift("delta", lambda pair, level, _: intervals.delta(pair, level)))
register(
    "fieller",
    _of_lift("fieller", intervals.fieller),
    shares=True,
    p_value=_wald(lambda total: total >= MANY_UNITS, _of_combination),
)
register("log-scale", _of_lift("log-scale", lambda pair, level, _: intervals.log_scale(pair, level)))
