"""What the rewards of the whole log say about units that one policy has not met yet.

An arm that was shown five hundred times need not have met a loss that one impression in three hundred brings. Let
the target's units draw what is left of their rewards (R, or R − q where a model predicts q) from the whole log:
with m₂, m₃ the central moments of these residuals and |m|₃ the absolute third one, the estimate Σ w e would have
the skewness

    κ = max(|m₃|, |m|₃ − 1.6 m₂^{3/2}) Σ |w|³ / (m₂ Σ w²)^{3/2}.

1.6 = √(8/π) is what a normal distribution has: the second term sees tails that are heavy on both sides. κ does not
change with r → c r + d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

NORMAL = math.sqrt(8 / math.pi)
ROUNDING = 1e-9

SMALLEST = 1e-50


@dataclass(frozen=True)
class Moments:
    """Central moments and extremes of the residuals of all units of a log.

    Attributes
    ----------
    second, third, absolute : float
        E e², E e³ and E |e|³ of the centered residuals.
    low, high : float
        The extreme ones.
    """

    second: float
    third: float
    absolute: float
    low: float
    high: float

    @classmethod
    def of(cls, residual: Floats, mass: Floats | None = None) -> Moments:
        """Moments of a column; rows count by their mass, and those without a prediction (NaN) not at all.

        >>> m = Moments.of(np.array([-1.0, 1.0]))
        >>> m.second, m.third, m.absolute
        (1.0, 0.0, 1.0)
        """
        there = np.isfinite(residual)
        m = there.astype(np.float64) if mass is None else np.where(there, mass, 0.0)
        residual = np.where(there, residual, 0.0)
        total = float(m.sum())
        # Sums of cubes stay in range: everything is in units of the largest residual.
        largest = float(np.abs(residual).max()) or 1.0
        e = residual / largest
        e = e - float(m @ e) / total
        if float(np.abs(e).max()) <= ROUNDING:
            e = np.zeros_like(e)
        square = e * e
        second, third = float(m @ square) / total, float(m @ (square * e)) / total
        absolute = float(m @ (square * np.abs(e))) / total
        seen = e[m > 0]
        return cls(
            second * largest**2 if largest < 1e100 else math.inf,
            third * largest**3 if largest < 1e100 else math.inf,
            absolute * largest**3 if largest < 1e100 else math.inf,
            float(seen.min()) * largest,
            float(seen.max()) * largest,
        )


@dataclass(frozen=True)
class Pool:
    """How the whole log's residuals would carry an estimate.

    Attributes
    ----------
    skewness : float
        κ of the estimate, had its units drawn their residuals from the whole log.
    low, high : float
        The log's extreme residuals at the weight of a typical unit of the target, Σ |w|³ / Σ w².
    """

    skewness: float
    low: float
    high: float

    @classmethod
    def of(cls, moments: Moments, weights: Floats, mass: Floats | None = None) -> Pool:
        """Residuals of a log at the weights of a target.

        >>> losses = Moments.of(np.array([1.0, -200.0]), np.array([996.0, 4.0]))
        >>> round(Pool.of(losses, np.ones(1000)).skewness, 2)
        0.5
        """
        m = np.ones(len(weights)) if mass is None else mass
        w = np.abs(weights)
        top = float(w.max())
        # Powers of very small or large weights leave the range of a float: shares of the largest do not.
        top = 1.0 if top == 0 or SMALLEST < top < 1 / SMALLEST else top
        w = w / top
        square, cube = float(m @ (w * w)), float(m @ (w * w * w))
        if square == 0 or moments.second == 0:
            return cls(0.0, 0.0, 0.0)
        if not math.isfinite(moments.second):
            return cls(1.0, moments.low, moments.high)
        deviation = math.sqrt(moments.second)
        shape = max(abs(moments.third), moments.absolute - NORMAL * deviation**3) / deviation**3
        typical = top * cube / square
        low, high = moments.low, moments.high
        if float(weights.min()) < 0:  # a difference: what one policy loses the other may gain
            low, high = min(low, -high), max(high, -low)
        return cls(max(shape, 0.0) * cube / square**1.5, typical * low, typical * high)
