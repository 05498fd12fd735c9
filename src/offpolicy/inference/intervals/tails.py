"""How heavy tails are: of importance weights, and of the rewards of the whole log.

How heavy importance weights are: effective sample size and the Pareto tail index.

Effective sample size (Kish): (Σ c w)² / Σ c w². Tail index k̂: generalized Pareto distribution
fitted to the largest min(N/5, 3√N) weights (Zhang & Stephens 2009, as used for Pareto-smoothed
importance sampling by Vehtari et al. 2024). Moments of order below 1/k exist: above 0.5 the
variance is in doubt, above 0.7 the estimate itself is unreliable at any realistic sample size.

What the rewards of the whole log say about units that one policy has not met yet.

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

from offpolicy._arrays import or_ones, quantiles
from offpolicy.errors import DataError, first_rows
from offpolicy.inference.intervals.sample import Floats, column, frequencies

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from offpolicy._arrays import Floats


LEVELS = 5
HEAVY_TAIL = 0.7
NO_FOURTH_MOMENT = 0.25  # Pareto index from which on a variance cannot be estimated well
VISIBLE = 0.05


def effective_size(weights: ArrayLike, count: ArrayLike | None = None) -> float:
    """Kish's effective sample size; 0 when no weight is positive.

    >>> effective_size([1.0, 1.0, 1.0]), effective_size([0.0, 50.0], count=[98, 2])
    (3.0, 2.0)
    """
    w = column("weights", weights)
    c = frequencies(count, len(w))
    square = float(c @ (w * w))
    return float(c @ w) ** 2 / square if square > 0 else 0.0


def tail_index(weights: ArrayLike, count: ArrayLike | None = None) -> float:
    """Pareto tail index k̂ of the weights; NaN when fewer than 5 units lie beyond the threshold.

    A lattice of few weight levels (products of constant ratios) has no shape to fit: NaN as well
    when fewer than 5 different weights lie beyond the threshold. A finite set of weight levels has no
    tail: where the threshold is also the maximum, nothing exceeds it and the index is minus infinity.

    >>> rng = np.random.default_rng(0)
    >>> 0.4 < tail_index(rng.pareto(2.0, size=100_000) + 1) < 0.6
    True
    """
    w = column("weights", weights)
    if (w < 0).any():
        raise DataError(f"weights: {first_rows(w < 0, w)} are negative.")
    c = frequencies(count, len(w))
    total = float(c.sum())
    # Counts of a condensed sample sum to a whole number but for rounding.
    size = math.ceil(min(0.2 * total, 3 * math.sqrt(total)) - 1e-6)
    if size < 5:
        return math.nan
    excess, c = _exceedances(w, c, size)
    if len(excess) == 0:
        return -math.inf
    # Equal weights may differ in their last bits.
    levels = len(np.unique(np.round(excess / float(excess.max()), 9)))
    enough = float(c.sum()) >= 5 and levels >= LEVELS
    return generalized_pareto(excess, c)[0] if enough else math.nan


def tail_is_visible(weights: ArrayLike, count: ArrayLike | None = None) -> bool:
    """Whether the largest weight carries as much of the total as that of a heavy tail would.

    The largest of n Pareto weights with index k carries about (1 − k) n^(k − 1) of their total. A fitted
    index above 0.7 whose largest weight carries less than 0.3 n^(−0.3), and less than 5%, describes a
    tail that ends: nothing seen so far leans on a few units.

    >>> tail_is_visible([1.0] * 99 + [2.0]), tail_is_visible([1.0] * 99 + [50.0])
    (False, True)
    """
    w = column("weights", weights)
    c = frequencies(count, len(w))
    total = float(c @ w)
    if total == 0:
        return False
    limit = min(VISIBLE, (1 - HEAVY_TAIL) * math.exp((HEAVY_TAIL - 1) * math.log(float(c.sum()))))
    return bool(float(w[c > 0].max()) / total > limit)


def median(values: Floats, count: Floats | None = None) -> float:
    """The middle of the lower and the upper median, which mirrors with the values.

    A row that stands for many counts as many, so that a compressed log is judged as its rows are.

    >>> median(np.array([1.0, 2.0, 4.0, 9.0])), median(-np.array([1.0, 2.0, 4.0, 9.0]))
    (3.0, -3.0)
    """
    lower, upper = quantiles(values, [0.5], count)[0], -quantiles(-values, [0.5], count)[0]
    return float(lower + upper) / 2


def has_heavy_tail(rewards: Floats, count: Floats | None = None) -> bool:
    """Whether rewards lie so far from their median that their variance cannot be estimated well."""
    return tail_index(np.abs(rewards - median(rewards, count)), count) > NO_FOURTH_MOMENT


def generalized_pareto(excess: ArrayLike, count: ArrayLike | None = None) -> tuple[float, float]:
    """Fit shape k and scale σ of a generalized Pareto distribution to positive excesses.

    Zhang and Stephens' (2009) quasi-Bayesian estimate; k > 0 means a heavy tail.

    >>> rng = np.random.default_rng(1)
    >>> k, scale = generalized_pareto(rng.exponential(2.0, size=20_000))
    >>> abs(k) < 0.03, abs(scale - 2) < 0.1
    (True, True)
    """
    x = column("excess", excess)
    c = frequencies(count, len(x))
    if x.min() <= 0:
        raise DataError(f"excess: {first_rows(x <= 0, x)} are not positive.")
    order = np.argsort(x)
    x, c = x[order], c[order]
    total = float(c.sum())
    quartile = x[np.searchsorted(np.cumsum(c), math.floor(total / 4 + 0.5))]
    points = 30 + int(math.sqrt(total))
    j = np.arange(1, points + 1) - 0.5
    b = 1 / x[-1] + (1 - np.sqrt(points / j)) / (3 * quartile)
    # b = 0 is the exponential limit of the profile; a hair beside it the formula is stable.
    b = np.where(np.abs(b * x[-1]) < 1e-10, 1e-10 / x[-1], b)
    shape = np.log1p(-np.outer(b, x)) @ c / total
    profile = total * (np.log(-b / shape) - shape - 1)
    share = np.exp(profile - profile.max())
    best = float(share @ b / share.sum())
    k = float(np.log1p(-best * x) @ c) / total
    return k, -k / best


def _exceedances(w: Floats, c: Floats, size: int) -> tuple[Floats, Floats]:
    """Distances above the (size + 1)-th largest unit, and their frequencies."""
    # Only rows among the largest `size + 1` units matter, and each row stands for at least
    # one unit once empty rows are gone.
    w, c = w[c > 0], c[c > 0]
    if len(w) > 4 * (size + 1) and float(c.min()) >= 1:
        top = np.argpartition(w, len(w) - size - 1)[len(w) - size - 1 :]
        w, c = w[top], c[top]
    order = np.argsort(-w)
    w, c = w[order], c[order]
    cut = w[min(int(np.searchsorted(np.cumsum(c), size + 1 - 1e-9)), len(w) - 1)]
    excess = w - cut
    # Weights that differ from the threshold in their last bits do not exceed it.
    above = excess > max(1e-12 * abs(cut), 1e-9 * float(excess[0]))
    return excess[above], c[above]


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
        m = or_ones(mass, len(weights))
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
