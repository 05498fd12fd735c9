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
from functools import singledispatch
from typing import TYPE_CHECKING

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.expression import Difference, Lift, Multiple, Score, Sum, is_same, stretched
from offpolicy.inference.figures import level_text
from offpolicy.inference.intervals.rules import automatic, critical, holding
from offpolicy.inference.intervals.sample import Interval, check_level
from offpolicy.inference.methods import fieller
from offpolicy.inference.registry import Asked, declared, method_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.inference.estimate import Alternative, Estimate
    from offpolicy.inference.intervals.evidence import Evidence

NEAR_ZERO = 10.0


def interval(
    estimate: Estimate,
    level: float,
    method: str,
    reward_range: tuple[float, float] | None = None,
    weight_high: float | None = None,
    seed: int = 0,
) -> Interval:
    """Interval of an estimate by a registered method or one of its aliases."""
    if isinstance(estimate.of, Multiple):
        (part,), (factor,) = estimate.of.parts, estimate.of.factors
        own = part.interval(level, method, reward_range=reward_range, weight_high=weight_high, seed=seed)
        return stretched(own, factor)
    evidence = _evidence(estimate, reward_range, weight_high)
    check_level(level)
    chosen = None if method == "auto" else method_named(method)
    if not estimate.is_defined:
        name = "auto" if chosen is None else chosen.name
        return Interval(math.nan, math.nan, level, name, "no estimate", sufficient=False)
    if chosen is None:
        return ruled(estimate.of, estimate, evidence, level)
    if chosen.make is None:
        raise UsageError(f"method={method!r} is a one-sided bound for selection: op.select(ev, method={method!r}).")
    made = chosen.make(Asked(estimate, level, evidence, seed))
    if not isinstance(made, Interval):
        raise UsageError(
            f"the interval {chosen.name!r} returned a {type(made).__name__}. Return an offpolicy Interval."
        )
    return widened(made, estimate)


def _evidence(e: Estimate, reward_range: tuple[float, float] | None, weight_high: float | None) -> Evidence | None:
    """What is known besides the scores, with the ranges that were given; one that a reward contradicts is refused."""
    if e.evidence is None:
        return None
    evidence = e.table.evidence(e.evidence)
    if reward_range is not None:
        low, high = reward_range
        reward = e.table.columns[e.evidence.reward] / e.evidence.scale
        bad = (reward < low) | (reward > high)
        if bad.any():
            raise DataError(
                f"reward_range=({low:g}, {high:g}): the reward is outside in "
                f"{first_rows(bad, reward)}. Give a range that contains every possible reward."
            )
        evidence = replace(evidence, reward_low=low, reward_high=high)
    return evidence if weight_high is None else replace(evidence, weight_high=weight_high)


@singledispatch
def ruled(_: Score, estimate: Estimate, evidence: Evidence | None, level: float) -> Interval:
    """The interval that the stated rules give an estimate, by what it is made of."""
    if estimate.bias:
        return _referred(estimate, level)
    made = widened(automatic(estimate.sample(), evidence, level), estimate)
    return _possible(made, estimate, evidence)


@ruled.register(Difference)
def _(of: Difference, estimate: Estimate, evidence: Evidence | None, level: float) -> Interval:
    if is_same(*of.parts):
        return _same(level)
    if estimate.bias:
        return _referred(estimate, level)
    made = _or_bracket(of, estimate, automatic(estimate.sample(), evidence, level), level)
    return _possible(made, estimate, evidence)


@ruled.register(Lift)
def _(of: Lift, estimate: Estimate, evidence: Evidence | None, level: float) -> Interval:
    """Fieller's where evidence is plentiful, else by its linearized score or its parts."""
    if is_same(*of.parts):
        return _same(level)
    if estimate.bias:
        return _referred(estimate, level)
    base = of.parts[1]
    if (why := no_base(base, level)) is not None:
        return _refused(level, why)
    sample = estimate.sample()
    linear = automatic(sample, evidence, level)
    if declared(linear).balanced and all(is_plentiful(part, level) for part in of.parts):
        # Then v − (1 + lift) b is normal for every lift, however far the base is from 0.
        made = widened(fieller(estimate, level, critical(level, sample.total)), estimate)
        return replace(made, note="; ".join(filter(None, (linear.note, made.note))))
    if abs(base.value) >= NEAR_ZERO * base.std_error:
        return _or_bracket(of, estimate, linear, level)
    reasons = [part.interval((1 + level) / 2).reason for part in of.parts]
    why = next(filter(None, reasons), "the base may be 0 at the level needed for both parts")
    return _bracket(of, level) or _refused(level, why)


@ruled.register(Sum)
def _(of: Sum, estimate: Estimate, _: Evidence | None, level: float) -> Interval:
    """From paired scores where the interval of every term is a normal one, else from the terms' own, by Bonferroni."""
    if all(is_plentiful(part, level) for part in of.parts):
        made = automatic(estimate.sample(), None, level)
        if made.sufficient:
            return widened(made, estimate)
    number = len(of.parts)
    each = round(1 - (1 - level) / number, 15)
    ends = [part.interval(each) for part in of.parts]
    for part, own in zip(of.parts, ends, strict=True):
        if not own.sufficient:
            return _refused(level, f"{part.label} has no interval: {own.reason}")
    moved = [stretched(i, c) for i, c in zip(ends, of.factors, strict=True)]
    methods = ", ".join(dict.fromkeys(i.method for i in ends))
    note = f"a few large scores drive one term; combined from the intervals of all {number} terms ({methods})"
    low, high = math.fsum(i.low for i in moved), math.fsum(i.high for i in moved)
    return Interval(low, high, level, "bonferroni", note)


def _refused(level: float, why: str) -> Interval:
    return Interval(-math.inf, math.inf, level, "none", why, sufficient=False)


def _same(level: float) -> Interval:
    return Interval(0.0, 0.0, level, "exact", "the two are equal on every unit of the log")


def is_plentiful(e: Estimate, level: float) -> bool:
    """Whether an estimate's own rules say that its scores are balanced and its units many."""
    return declared(e.interval(level)).balanced


def widened(interval: Interval, estimate: Estimate) -> Interval:
    """An interval that allows for the bias of smoothing, where the estimate has some."""
    room = estimate.allowance
    if room == 0:
        return interval
    note = f"widened by {room:.3g} on both sides to allow for smoothing bias"
    return replace(
        interval,
        low=interval.low - room,
        high=interval.high + room,
        note="; ".join(filter(None, (interval.note, note))),
    )


def _possible(interval: Interval, estimate: Estimate, evidence: Evidence | None) -> Interval:
    """The part of an interval that the range of the rewards allows: a share of clicks is not above 1."""
    ends = None if evidence is None else evidence.completed()
    if ends is None or ends.reward_low is None or ends.reward_high is None:
        return interval
    low, high = estimate.of.possible(ends.reward_low, ends.reward_high)
    if not interval.sufficient or interval.low >= high or interval.high <= low:
        return interval
    cut = [f"{end:g}" for end in (low, high) if interval.low < end < interval.high]
    if not cut:
        return interval
    note = f"{interval.note}; cut at {' and '.join(cut)}, the limit for a mean of these rewards"
    return replace(interval, low=max(interval.low, low), high=min(interval.high, high), note=note)


def _or_bracket(of: Difference | Lift, estimate: Estimate, interval: Interval, level: float) -> Interval:
    """The interval that the rules give the scores; from those of the parts where it is refused."""
    blind = any(isinstance(part.of, Sum) for part in of.parts)
    if blind and not all(is_plentiful(part, level) for part in of.parts):
        interval = replace(interval, sufficient=False, note="one of its terms has too few large scores")
    if interval.sufficient:
        return widened(interval, estimate)
    return _bracket(of, level) or interval


def no_base(base: Estimate, level: float) -> str | None:
    """Why a lift over ``base`` is undefined; None where it is defined."""
    interval = base.interval(level)
    if not interval.sufficient:
        return f"the lift is undefined: {base.label} has no interval ({interval.reason})"
    if interval.covers(0.0):
        return (
            f"the lift is undefined: the {level_text(level)} interval of {base.label} "
            f"({interval.low:.4g} to {interval.high:.4g}) contains 0"
        )
    return None


def _referred(estimate: Estimate, level: float) -> Interval:
    """The reference's interval, widened to hold the estimate; refused where there is none."""
    reference = estimate.reference
    if reference is None or not reference.is_defined:
        remedy = "Also compute DML, whose interval bounds it"
        why = f"{estimate.bias}. {remedy}"
        return _refused(level, why)
    interval = reference.interval(level)
    note = f"{estimate.bias}; the interval is that of {reference.label}, widened to contain this value"
    if not interval.sufficient:
        return replace(interval, note=f"{estimate.bias}, and {reference.label}: {interval.reason}")
    return replace(holding(interval, estimate.value), method="bias-aware", note=note)


def _bracket(of: Difference | Lift, level: float) -> Interval | None:
    """Bonferroni interval from the intervals of the two parts; None when one of them is refused."""
    ends = [part.interval((1 + level) / 2) for part in of.parts]
    if not all(i.sufficient for i in ends):
        return None
    (a, b), (c, d) = ends
    note = f"a few large scores drive it; combined from both intervals ({ends[0].method}, {ends[1].method})"
    if isinstance(of, Difference):
        return Interval(a - d, b - c, level, "bonferroni", note)
    if c <= 0 <= d:
        return None
    corners = [(x - y) / abs(y) for x in (a, b) for y in (c, d)]
    return Interval(min(corners), max(corners), level, "bonferroni", note)


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
    rule = declared(usual)
    if rule.certain:  # two policies that are the same on every unit differ by 0 for certain
        both = 1.0 if usual.covers(null) else 0.0
    else:
        both = math.nan if rule.p_value is None else rule.p_value(estimate, null)
        far = max(min(both, 1 - 1e-9), SMALLEST)
        if math.isnan(both) or estimate.interval(1 - far, method).method != usual.method:
            both = _inverted(estimate, null, method, excluded=not usual.covers(null))
    if alternative == "two-sided":
        return both
    above = estimate.value > null
    return both / 2 if above == (alternative == "greater") else 1 - both / 2


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
