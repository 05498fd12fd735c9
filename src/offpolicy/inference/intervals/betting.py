"""Bounds by betting on weights and rewards: of a value, of a gain, and a sequence that may be looked at daily.

Lower bounds of a value, and of a gain over the logging policy, by betting on weight and reward together.

Rewards r are scaled to [0, 1], weights w have mean 1, and no weight is above W. For any λ > 0 and any β,

    x = w r + β (1 − w)    has the mean of w r, the value m;
    x = (w − 1)(r − β)     has the mean of (w − 1) r, the gain d over the logging policy,

and as long as no factor can be negative, Π (1 + λ x)/(1 + λ m) has mean 1 at the true m: by Markov's inequality it is
above 1/δ with probability at most δ, at any number of units. β = 0 is logarithmic smoothing (Sakhi, Aouali,
Alquier and Chopin 2024); β > 0 takes out what heavy and light weights explain of x, as a self-normalized estimate
does, and asks for λ β (W − 1) < 1, so that it needs W. (Betting on w − 1 beside w r: Karampatziakis, Mineiro and
Ramdas 2021.) Nobody knows the best λ and β beforehand, so the wealth is spread over a few: the weighted average of the
products has mean 1 as well. Grid and shares are fixed before the rewards are seen.

Anytime-valid confidence sequence for an importance-weighted value, by betting.

Rewards are scaled to [0, 1]. At the true value m each of x = w r (mean m) and, when the largest
weight W is known, x' = W − w(1 − r) (mean W − 1 + m) has a known mean given the past, whatever
the logging policy learned. A bettor with wealth 1 who puts the fraction f on it holds the
martingale

    K(m) = Σ_k π_k Π_t (1 − f_k + f_k x_t/m)

and by Ville's inequality P(some t has K_t(m) ≥ 2/α) ≤ α/2. The lower limit is the smallest m the
bettors have not refuted; the upper limit mirrors r to 1 − r. (Waudby-Smith & Ramdas 2023;
Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro 2022, who note that no upper bound on w is
needed.) The fractions are a fixed grid, so the result does not depend on the order of the units
and counts enter as powers. Very many different values stand as fewer points against which nobody wins more
(`cells.lower_points`), so that the limits can only move outwards, by less than 10⁻⁶ of the width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.optimize import brentq

from offpolicy.errors import DataError
from offpolicy.inference.intervals.cells import bins, lower_points
from offpolicy.inference.intervals.likelihood import increasing_root
from offpolicy.inference.intervals.sample import Floats, Interval, check_level, frequencies
from offpolicy.inference.intervals.weight_likelihood import check_weight_high, weighted_rewards

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


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

    return _lowest(bet, frequencies(count, len(weight)), rate, weight_high, (0.0, 1.0))


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

    return _lowest(bet, frequencies(count, len(weight)), rate, weight_high, (-1.0, 1.0))


def exceeds_one(weight: Floats, rate: float, count: Floats | None = None) -> bool:
    """Whether weights contradict a mean of at most 1; where it is 1, with probability at most ``rate``.

    >>> exceeds_one(np.full(400, 1.5), 0.001), exceeds_one(np.tile([0.0, 2.0], 200), 0.001)
    (True, False)
    """
    c = frequencies(count, len(weight))
    root = math.sqrt(float(c.sum()))
    bets = [(share, stake / root, weight) for stake, share in STAKES.items()]
    return _surplus(bets, c, rate)(1.0) > 0


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


FRACTIONS = np.concatenate([[0.99], 0.5 ** np.arange(1, 22)])
#: Fractions of the sequence, alike.
EVEN = (FRACTIONS, np.full(len(FRACTIONS), -math.log(len(FRACTIONS))))
DISTINCT = 20_000  # more distinct values than this become fewer points, in the conservative direction


def confidence_sequence(
    weights: ArrayLike,
    rewards: ArrayLike,
    count: ArrayLike | None = None,
    level: float = 0.95,
    *,
    reward_low: float,
    reward_high: float,
    weight_high: float | None = None,
) -> Interval:
    """Interval that may be looked at after every unit, while the logging policy keeps learning.

    All intervals of the sequence cover the value together with probability ``level``: stopping when
    one likes what one sees is allowed. Needs weights with conditional mean 1 given the past (known
    propensities), and a value that does not change over time.

    Parameters
    ----------
    weights, rewards : array of shape (G,)
        Importance weights and rewards of all units up to now.
    count : array of shape (G,), optional
        Frequencies.
    level : float
        Coverage of the whole sequence.
    reward_low, reward_high : float
        Range of the rewards.
    weight_high : float, optional
        Largest weight that can occur at any time; makes the interval shorter for rare events.

    Examples
    --------
    >>> i = confidence_sequence([1.0, 1.0], [0.0, 1.0], [500, 500], reward_low=0, reward_high=1)
    >>> i.low < 0.5 < i.high, i.width < 0.15
    (True, True)
    """
    check_level(level)
    w, r, c = weighted_rewards(weights, rewards, count, reward_low, reward_high)
    if weight_high is not None:
        check_weight_high(w, weight_high)
    span = reward_high - reward_low
    scaled = (r - reward_low) / span
    threshold = math.log(2 / (1 - level))
    low = _lower(w * scaled, w * (1 - scaled), c, weight_high, threshold)
    high = 1 - _lower(w * (1 - scaled), w * scaled, c, weight_high, threshold)
    if low > high:
        raise DataError(
            "no value in the reward range is compatible with weights of mean 1: the weights "
            f"average {float(c @ w / c.sum()):.4g}. Check the propensities."
        )
    note = "valid at every look and under adaptive logging with known propensities"
    return Interval(reward_low + span * low, reward_low + span * high, level, "confidence-sequence", note)


def _lower(gain: Floats, loss: Floats, c: Floats, weight_high: float | None, threshold: float) -> float:
    """Smallest mean of ``gain`` in [0, 1] that the bettors have not refuted."""
    x, cx = _coarsen(gain, c)
    families = [(x, cx, 0.0)]
    mean = float(cx @ x) / float(cx.sum())
    if weight_high is not None:
        y, cy = _coarsen(np.maximum(weight_high - loss, 0.0), c)
        families.append((y, cy, weight_high - 1))
        mean = max(mean, 1 - weight_high + float(cy @ y) / float(cy.sum()))
    goal = threshold + math.log(len(families))

    def shortage(log_m: float) -> tuple[float, float]:
        m = math.exp(log_m)
        parts = [_log_wealth(x, c, shift + m, *EVEN) for x, c, shift in families]
        values = np.array([p[0] for p in parts])
        top = float(special.logsumexp(values))
        slope = float(np.exp(values - top) @ np.array([p[1] for p in parts]))
        return goal - top, -slope * m

    # Nobody wins against a mean at or above the observed ones.
    upper = math.log(min(max(mean, 1e-300), 1.0))
    floor = upper - 40.0
    if mean <= 0 or shortage(floor)[0] >= 0:
        return 0.0
    if shortage(upper)[0] <= 0:
        return 1.0
    root = increasing_root(shortage, floor, upper, upper - 1e-3, tolerance=1e-12)
    return math.exp(root)


def _log_wealth(x: Floats, c: Floats, m: float, fractions: Floats, log_shares: Floats) -> tuple[float, float]:
    """Log of the mixture's wealth against mean ``m``, and its derivative in m."""
    ratio = x / m
    stake = fractions[:, None] * ratio
    factor = (1 - fractions)[:, None] + stake
    logs = np.log(factor) @ c + log_shares
    slopes = -((stake / factor) @ c) / m
    top = float(special.logsumexp(logs))
    share = np.exp(logs - top)
    return top, float(share @ slopes)


def _coarsen(x: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Merge equal values; many different ones become fewer points that win no more than they do."""
    values, inverse = np.unique(x, return_inverse=True)
    count = np.bincount(inverse, weights=c, minlength=len(values)).astype(np.float64)
    if len(values) <= DISTINCT:
        return values, count
    total = float(count.sum())
    mean = float(count @ values) / total
    deviation = math.sqrt(float(count @ (values - mean) ** 2) / total)
    cell = bins(values - mean, deviation, DISTINCT // 2)
    return lower_points(values, count, cell, DISTINCT // 2)
