"""P-values by inverting intervals: the smallest α whose interval at level 1 − α leaves the null out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Alternative, Estimate

SMALLEST = 1e-12  # p-values below are given as this
USUAL = 0.05


def p_value(estimate: Estimate, null: float, alternative: Alternative, method: str) -> float:
    """P-value of one estimate; see `Estimate.p_value`."""
    if not estimate.is_defined:
        return math.nan
    usual = estimate.interval(1 - USUAL, method)
    if not usual.sufficient:
        return math.nan
    if (
        usual.method == "exact"
    ):  # two policies that are the same on every unit differ by 0 for certain
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
    """P-value of a normal or Student interval; −1 for the others, and for a bias that these do not know."""
    from scipy import special

    if method not in {"normal", "t"}:
        return -1.0
    if estimate.std_error == 0:
        return float(estimate.value == null)
    z = abs(estimate.value - null) / estimate.std_error
    if method == "normal":
        return float(2 * special.ndtr(-z))
    total = estimate.sample().total
    return float(2 * special.stdtr(total - 1, -z * math.sqrt((total - 1) / total)))


def _inverted(estimate: Estimate, null: float, method: str, *, excluded: bool) -> float:
    """Bisection on the logarithm of α, on the side of 0.05 that the 95% interval says.

    The rules may take another method far out, where normal tails are not to be trusted; each step therefore asks
    for the interval that would be printed.
    """

    def leaves_out(alpha: float) -> bool:
        interval = estimate.interval(1 - alpha, method)
        return interval.sufficient and not interval.covers(null)

    if excluded and leaves_out(SMALLEST):
        return SMALLEST
    low, high = (SMALLEST, USUAL) if excluded else (USUAL, 1 - 1e-9)
    if not excluded and not leaves_out(high):
        return 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        if leaves_out(middle):
            high = middle
        else:
            low = middle
        if high / low < 1 + 1e-6:
            break
    return high if excluded else low
