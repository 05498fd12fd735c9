"""Root of an increasing function by Newton steps that never leave a shrinking bracket."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def increasing_root(
    function: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    start: float,
    *,
    tolerance: float = 1e-13,
    steps: int = 200,
) -> float:
    """Solve f(x) = 0 on [low, high] for an increasing f given as (value, derivative).

    The ends are not evaluated: when f has no sign change the search ends at the nearer end.
    """
    x = min(max(start, low), high)
    for _ in range(steps):
        value, slope = function(x)
        if value == 0:
            return x
        if value < 0:
            low = x
        else:
            high = x
        step = x - value / slope if slope > 0 else low
        # A step outside the bracket means that the local slope misleads: halve instead.
        nxt = step if low < step < high else 0.5 * (low + high)
        if abs(nxt - x) <= tolerance * max(abs(nxt), 1e-300) or high - low <= 0:
            return nxt
        x = nxt
    return x
