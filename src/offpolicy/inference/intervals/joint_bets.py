"""Lower bounds of a value, and of a gain over the logging policy, by betting on weight and reward together.

Rewards r are scaled to [0, 1], weights w have mean 1, and no weight is above W. For any λ > 0 and any β,

    x = w r + β (1 − w)    has the mean of w r, the value m;
    x = (w − 1)(r − β)     has the mean of (w − 1) r, the gain d over the logging policy,

and as long as no factor can be negative, Π (1 + λ x)/(1 + λ m) has mean 1 at the true m: by Markov's inequality it is
above 1/δ with probability at most δ, at any number of units. β = 0 is logarithmic smoothing (Sakhi, Aouali,
Alquier and Chopin 2024); β > 0 takes out what heavy and light weights explain of x, as a self-normalized estimate
does, and asks for λ β (W − 1) < 1, so that it needs W. (Betting on w − 1 beside w r: Karampatziakis, Mineiro and
Ramdas 2021.) Nobody knows the best λ and β beforehand, so the wealth is spread over a few: the weighted average of the
products has mean 1 as well. Grid and shares are fixed before the rewards are seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.optimize import brentq

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.inference.intervals.sample import Floats

#: λ √n and the share of the wealth that is put on it: the best λ for units of variance V is √(2 log(1/δ) / (n V)); the
#: large ones are for rare rewards, whose V is small. They bet on the reward alone, β = 0, and serve by themselves
#: where no largest weight is known. Shares were weighed on logs of the study `selection` (not those of its tables).
STAKES = {0.25: 0.25, 1.0: 0.3, 4.0: 0.2, 16.0: 0.1, 64.0: 0.06, 256.0: 0.05, 1024.0: 0.04}
#: The same for the others, where it is; and β, the reward that is expected whatever is done. Every β gets as much as 0.
JOINT_STAKES = {0.25: 0.3, 1.0: 0.35, 4.0: 0.25, 16.0: 0.1}
EXPECTED = (1 / 3, 2 / 3, 1.0)
#: Share of its wealth that a bettor can lose to one unit, at most.
MOST_LOST = 0.95


def value_lower_bound(
    weight: Floats, reward: Floats, rate: float, count: Floats | None = None, *, weight_high: float | None = None
) -> float:
    """Lower bound of E[w r], above it with probability at most ``rate``; rewards of at least 0 and mean at most 1.

    Parameters
    ----------
    weight, reward : (n,) arrays
    rate : float
    count : (n,) array, optional
        How many units each row stands for.
    weight_high : float, optional
        Largest weight that can occur; without it the bound is wider.

    Examples
    --------
    >>> w, r = np.tile([0.2, 1.8], 500), np.repeat([0.0, 1.0], 500)
    >>> low, lower = value_lower_bound(w, r, 0.05, weight_high=1.8), value_lower_bound(w, r, 0.05)
    >>> bool(lower < low < 0.5)
    True
    """

    def bet(stake: float, beta: float) -> tuple[float, Floats]:
        if beta == 0:
            return stake, weight * reward
        assert weight_high is not None
        worst = beta * max(weight_high - 1, 0.0)
        return _at_most(stake, worst), weight * reward + beta * (1 - weight)

    return _lowest(bet, _count(weight, count), rate, weight_high, (0.0, 1.0))


def gain_lower_bound(
    weight: Floats, reward: Floats, rate: float, count: Floats | None = None, *, weight_high: float | None = None
) -> float:
    """Lower bound of E[(w − 1) r], above it with probability at most ``rate``; rewards in [0, 1].

    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=400)
    >>> gain_lower_bound(2.0 * a, a * (rng.random(400) < 0.8), 0.05, weight_high=2.0) > 0.25
    True
    """

    def bet(stake: float, beta: float) -> tuple[float, Floats]:
        worst = 0.0 if weight_high is None else beta * (weight_high - 1)
        # A gain of nearly −1 has to be possible as well.
        return _at_most(stake, max(worst, 1.0)), (weight - 1) * (reward - beta)

    return _lowest(bet, _count(weight, count), rate, weight_high, (-1.0, 1.0))


def exceeds_one(weight: Floats, rate: float, count: Floats | None = None) -> bool:
    """Whether weights contradict a mean of at most 1; where it is 1, with probability at most ``rate``.

    >>> exceeds_one(np.full(400, 1.5), 0.001), exceeds_one(np.tile([0.0, 2.0], 200), 0.001)
    (True, False)
    """
    c = _count(weight, count)
    root = math.sqrt(float(c.sum()))
    bets = [(share, stake / root, weight) for stake, share in STAKES.items()]
    return _surplus(bets, c, rate)(1.0) > 0


def _count(weight: Floats, count: Floats | None) -> Floats:
    return np.ones(len(weight)) if count is None else count


def _at_most(stake: float, worst: float) -> float:
    """The stake, or less, so that a unit of −``worst`` loses no more than it may."""
    return stake if worst * stake <= MOST_LOST else MOST_LOST / worst


def _surplus(bets: list[tuple[float, float, Floats]], count: Floats, rate: float) -> Callable[[float], float]:
    """Log of what the bettors have won together against a mean, less what refutes it; bets are (share, λ, x)."""
    total = float(count.sum())
    stakes = np.array([stake for _, stake, _ in bets])
    won = np.array([float(count @ np.log1p(stake * x)) + math.log(share) for share, stake, x in bets])
    goal = math.log(sum(share for share, _, _ in bets) / rate)
    return lambda mean: float(special.logsumexp(won - total * np.log1p(stakes * mean))) - goal


def _lowest(
    bet: Callable[[float, float], tuple[float, Floats]],
    count: Floats,
    rate: float,
    weight_high: float | None,
    ends: tuple[float, float],
) -> float:
    """Smallest mean within the ends that the bettors together have not refuted."""
    grid = [(share, stake, 0.0) for stake, share in STAKES.items()]
    if weight_high is not None:
        grid += [(share, stake, b) for stake, share in JOINT_STAKES.items() for b in EXPECTED]
    root = math.sqrt(float(count.sum()))
    bets = [(share, *bet(stake / root, b)) for share, stake, b in grid]
    surplus = _surplus(bets, count, rate)
    low, high = ends
    if surplus(low) <= 0:
        return low
    if surplus(high) >= 0:
        return high
    return float(brentq(surplus, low, high, xtol=1e-12))
