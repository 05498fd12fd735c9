"""Empirical likelihood of an importance-weighted value with known ranges of weight and reward.

The region holds every value E_P[w r] of a distribution P on [0, w_max] × [r_min, r_max] that
respects E_P[w] = 1 and whose likelihood is at least exp(−crit/2) of the best such P
(Karampatziakis, Langford & Mineiro 2020, "Empirical likelihood for contextual bandits"; the
likelihood member of the Cressie–Read family). P may put mass where nothing was seen, so a sample
without large weights does not fool it. By duality the upper end is a convex problem in two
non-negative numbers, with y = w (r_max − r):

    d = a (1 − w/w_max) + b w/w_max + y
    upper = r_max + min_{a,b ≥ 0} a (1 − 1/w_max) + b/w_max − exp(mean log d − M − crit/2N)

where M = max_β mean log(1 + β(w − 1)) is the cost of E_P[w] = 1 alone. The lower end mirrors r.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.intervals.dual import Program, minimum
from offpolicy.inference.intervals.likelihood import critical
from offpolicy.inference.intervals.roots import increasing_root
from offpolicy.inference.intervals.sample import Floats, Interval, check_level, column, frequencies

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def cressie_read(
    weights: ArrayLike,
    rewards: ArrayLike,
    count: ArrayLike | None = None,
    level: float = 0.95,
    *,
    weight_high: float,
    reward_low: float,
    reward_high: float,
) -> Interval:
    """Dual-likelihood interval for E[w r] that knows E[w] = 1 and the ranges of w and r.

    Parameters
    ----------
    weights, rewards : array of shape (G,)
        Importance weight (product over steps for a trajectory) and reward of each unit.
    count : array of shape (G,), optional
        How many identical independent units each row stands for.
    level : float
        Nominal coverage.
    weight_high : float
        Largest weight that can occur (not only that did occur), at least 1.
    reward_low, reward_high : float
        Range of the rewards.

    Examples
    --------
    Twenty rows matched an arm shown 2% of the time and nobody clicked:

    >>> ranges = {"weight_high": 50, "reward_low": 0, "reward_high": 1}
    >>> i = cressie_read([0.0, 50.0], [0.0, 0.0], [980, 20], **ranges)
    >>> i.low, round(i.high, 3)
    (0.0, 0.092)
    """
    check_level(level)
    w, r, c = weighted_rewards(weights, rewards, count, reward_low, reward_high)
    check_weight_high(w, weight_high)
    total = float(c.sum())
    if total <= 1:
        raise UsageError("A likelihood interval needs at least 2 independent units.")
    share = c / total
    cost = _normalization_cost(w, share, weight_high) + critical(level, total) / (2 * total)
    span = reward_high - reward_low
    lost = _shortfall(w, (reward_high - r) / span, share, weight_high, cost)
    won = _shortfall(w, (r - reward_low) / span, share, weight_high, cost)
    # The program's optimum is the bound up to rounding; a value cannot leave the reward range.
    high = min(max(reward_high - span * lost, reward_low), reward_high)
    low = min(max(reward_low + span * won, reward_low), reward_high)
    note = f"uses mean weight 1, weights in [0, {weight_high:g}]"
    return Interval(low, high, level, "cressie-read", note)


def weighted_rewards(
    weights: ArrayLike, rewards: ArrayLike, count: ArrayLike | None, low: float, high: float
) -> tuple[Floats, Floats, Floats]:
    """Checked weights, rewards and frequencies without the rows whose count is 0."""
    w = column("weights", weights)
    r = column("rewards", rewards, len(w))
    c = frequencies(count, len(w))
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"The reward range must be finite, low < high. Got [{low}, {high}].")
    if (w < 0).any():
        raise DataError(f"weights: {first_rows(w < 0, w)} are negative.")
    bad = (r < low) | (r > high)
    if bad.any():
        raise DataError(f"rewards: {first_rows(bad, r)} are outside the range [{low}, {high}].")
    keep = c > 0
    return (w, r, c) if keep.all() else (w[keep], r[keep], c[keep])


def check_weight_high(w: Floats, weight_high: float) -> None:
    """Refuse a bound that a weight exceeds, or that contradicts a mean weight of 1."""
    if not (math.isfinite(weight_high) and weight_high >= 1):
        raise UsageError(f"The 'weight_high' parameter must be a finite float of at least 1. Got {weight_high}.")
    bad = w > weight_high * (1 + 1e-12)
    if bad.any():
        raise DataError(f"weights: {first_rows(bad, w)} are above weight_high = {weight_high}.")


def _normalization_cost(w: Floats, share: Floats, top: float) -> float:
    """M = max over β of mean log(1 + β(w − 1)), β keeping every weight in [0, top] possible."""
    if top == 1:
        if (w < 1).any():
            raise DataError(
                f"weights: {first_rows(w < 1, w)} are below 1, although weight_high = 1 and a mean "
                "weight of 1 leave no room for them."
            )
        return 0.0

    def minus_slope(beta: float) -> tuple[float, float]:
        ratio = (w - 1) / (1 + beta * (w - 1))
        return -float(share @ ratio), float(share @ (ratio * ratio))

    # Just inside the ends: an observed weight 0 (or top) makes the slope infinite there.
    low, high = -1 / (top - 1), 1.0
    beta = increasing_root(minus_slope, low * (1 - 1e-12), high - 1e-12, 0.0)
    return float(share @ np.log1p(beta * (w - 1)))


def _shortfall(w: Floats, gap: Floats, share: Floats, top: float, cost: float) -> float:
    """Smallest E_P[w·gap] in the region, gap = distance from one end of the reward range."""
    y = w * gap
    if y.max() <= 0:
        return 0.0
    return -minimum(Program(1 - w / top, w / top, y, share, (1 - 1 / top, 1 / top), cost))
