"""P-values by inverting intervals: the smallest α whose interval at level 1 − α leaves the null out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offpolicy.inference.confidence import pair_of
from offpolicy.inference.intervals.rules import MANY_UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.inference.estimate import Alternative, Estimate

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
