"""Anytime-valid confidence sequence for an importance-weighted value, by betting.

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
(`quadrature.lower_points`), so that the limits can only move outwards, by less than 10⁻⁶ of the width.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import DataError
from offpolicy.inference.intervals.quadrature import bins, lower_points
from offpolicy.inference.intervals.roots import increasing_root
from offpolicy.inference.intervals.sample import Floats, Interval, check_level
from offpolicy.inference.intervals.weight_likelihood import check_weight_high, weighted_rewards

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
