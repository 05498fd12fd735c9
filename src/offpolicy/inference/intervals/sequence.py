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
and counts enter as powers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.intervals.roots import increasing_root
from offpolicy.inference.intervals.sample import Floats, Interval, check_level
from offpolicy.inference.intervals.weight_likelihood import check_weight_high, weighted_rewards

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FRACTIONS = np.concatenate([[0.99], 0.5 ** np.arange(1, 22)])
DISTINCT = 20_000  # more distinct values than this are rounded, in the conservative direction
MANTISSA = 2.0**11


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
    return Interval(
        reward_low + span * low, reward_low + span * high, level, "confidence-sequence", note
    )


def confidence_path(
    weights: ArrayLike,
    rewards: ArrayLike,
    looks: ArrayLike,
    level: float = 0.95,
    *,
    reward_low: float,
    reward_high: float,
    weight_high: float | None = None,
) -> list[Interval]:
    """Confidence sequence at several looks: after the first ``looks[j]`` units, in time order.

    Each interval is intersected with the earlier ones, which keeps the joint guarantee.

    >>> path = confidence_path([1.0] * 99, [0.0] * 99, [9, 99], reward_low=0, reward_high=1)
    >>> path[1].high < path[0].high
    True
    """
    w = np.asarray(weights, dtype=np.float64)
    r = np.asarray(rewards, dtype=np.float64)
    path: list[Interval] = []
    low, high = reward_low, reward_high
    for look in np.asarray(looks, dtype=np.int64):
        if not 0 < look <= len(w):
            raise UsageError(f"A look after {look} units is outside the {len(w)} units given.")
        i = confidence_sequence(
            w[:look], r[:look], None, level,
            reward_low=reward_low, reward_high=reward_high, weight_high=weight_high,
        )  # fmt: skip
        low, high = max(low, i.low), min(high, i.high)
        if low > high:
            raise DataError(
                "the sequence has become empty: the value changes over time or weights do not "
                "average 1. Check the propensities and the drift of the estimate."
            )
        path.append(Interval(low, high, level, i.method, i.note))
    return path


def _lower(
    gain: Floats, loss: Floats, c: Floats, weight_high: float | None, threshold: float
) -> float:
    """Smallest mean of ``gain`` in [0, 1] that the bettors have not refuted."""
    x, cx = _coarsen(gain, c, down=True)
    families = [(x, cx, 0.0)]
    mean = float(cx @ x) / float(cx.sum())
    if weight_high is not None:
        y, cy = _coarsen(loss, c, down=False)
        families.append((np.maximum(weight_high - y, 0.0), cy, weight_high - 1))
        mean = max(mean, 1 - float(cy @ y) / float(cy.sum()))
    goal = threshold + math.log(len(families))

    def shortage(log_m: float) -> tuple[float, float]:
        m = math.exp(log_m)
        parts = [_log_wealth(x, c, shift + m) for x, c, shift in families]
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


def _log_wealth(x: Floats, c: Floats, m: float) -> tuple[float, float]:
    """Log of the mixture's wealth against mean ``m``, and its derivative in m."""
    ratio = x / m
    stake = FRACTIONS[:, None] * ratio
    held = (1 - FRACTIONS)[:, None] + stake
    logs = np.log(held) @ c
    slopes = -((stake / held) @ c) / m
    top = float(special.logsumexp(logs))
    share = np.exp(logs - top)
    return top - math.log(len(FRACTIONS)), float(share @ slopes)


def _coarsen(x: Floats, c: Floats, *, down: bool) -> tuple[Floats, Floats]:
    """Merge equal values; round to 11 bits first when there are very many."""
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) > DISTINCT:
        mantissa, exponent = np.frexp(x)
        rounded = (np.floor if down else np.ceil)(mantissa * MANTISSA) / MANTISSA
        values, inverse = np.unique(np.ldexp(rounded, exponent), return_inverse=True)
    return values, np.bincount(inverse, weights=c, minlength=len(values)).astype(np.float64)
