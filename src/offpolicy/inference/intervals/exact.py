"""Intervals that need no large sample: of bounded scores, and of binary rewards.

Finite-sample intervals for the mean of bounded scores: no large-sample argument at all.

Hoeffding (1963): half width (high − low)·√(log(2/α) / 2N). Empirical Bernstein (Maurer & Pontil
2009, Theorem 4, both sides): √(2V log(4/α)/N) + 7(high − low) log(4/α) / 3(N − 1), with V the
sample variance. Implicit exploration (Gabbianelli, Neu and Papini 2024), for units x ≥ 0 without an upper end: since
log(1 + 2γx) ≥ 2γx/(1 + γx), the mean lies below mean(x/(1 + γx)) − log(1/α)/(2γN) with probability at most α.

Clopper–Pearson-style intervals for binary rewards, also importance-weighted.

One weight level: given which n units matched, the successes x among them are binomial, so

    [Beta⁻¹(α/2; x, n − x + 1), Beta⁻¹(1 − α/2; x + 1, n − x)]            (Clopper & Pearson 1934)

is exact. Several levels: the rarer outcome is a weighted sum of near-Poisson counts, whose gamma
interval with one more unseen success at the largest weight (Fay & Feuer 1997) is, with s = Σ w x,
v = Σ w² x and D = Σ w,

    [Γ⁻¹(α/2; s²/v)·v/s, Γ⁻¹(1 − α/2; (s + w_max)²/(v + w_max²))·(v + w_max²)/(s + w_max)] / D
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.intervals.sample import Floats, Interval, Sample, check_level, column, frequencies
from offpolicy.inference.intervals.weight_likelihood import check_weight_high, weighted_rewards

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


GUARANTEE = "finite-sample guarantee for independent units; needs only the range of the scores"


def hoeffding(sample: Sample, level: float = 0.95, *, low: float, high: float) -> Interval:
    """Hoeffding's interval for scores known to lie in [low, high].

    >>> i = hoeffding(Sample.of_mean([0.0, 1.0], count=[50, 50]), low=0, high=1)
    >>> round(i.low, 3), round(i.high, 3)
    (0.364, 0.636)
    """
    check_level(level)
    _bounded_scores(sample, low, high)
    half = (high - low) * math.sqrt(math.log(2 / (1 - level)) / (2 * sample.total))
    ends = max(sample.estimate - half, low), min(sample.estimate + half, high)
    return Interval(*ends, level, "hoeffding", GUARANTEE)


def empirical_bernstein(sample: Sample, level: float = 0.95, *, low: float, high: float) -> Interval:
    """Maurer and Pontil's empirical Bernstein interval for scores in [low, high].

    >>> s = Sample.of_mean([0.0, 1.0], count=[9900, 100])
    >>> empirical_bernstein(s, low=0, high=1).width < hoeffding(s, low=0, high=1).width
    True
    """
    check_level(level)
    x = _bounded_scores(sample, low, high)
    total = sample.total
    if total <= 1:
        raise UsageError("An empirical Bernstein interval needs at least 2 independent units.")
    variance = float(sample.counts @ (x - sample.estimate) ** 2) / (total - 1)
    log_term = math.log(4 / (1 - level))
    half = math.sqrt(2 * variance * log_term / total)
    half += 7 * (high - low) * log_term / (3 * (total - 1))
    ends = max(sample.estimate - half, low), min(sample.estimate + half, high)
    return Interval(*ends, level, "empirical-bernstein", GUARANTEE)


def implicit_exploration(x: Floats, rate: float, count: Floats | None = None) -> float:
    """Lower bound of the mean of units x ≥ 0 that lies above it with probability at most ``rate``.

    γ = 1/(2√N), as published, of units divided by nothing: rewards should be scaled to [0, 1].

    >>> round(implicit_exploration(np.array([0.0, 1.0]), 0.05, np.array([500.0, 500.0])), 2)
    0.4
    """
    c = frequencies(count, len(x))
    total = float(c.sum())
    gamma = 0.5 / math.sqrt(total)
    smoothed = float(c @ (x / (1 + gamma * x))) / total
    return max(0.0, smoothed - math.log(1 / rate) / (2 * gamma * total))


def _bounded_scores(sample: Sample, low: float, high: float) -> Floats:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"The range of the scores must be finite, low < high. Got [{low}, {high}].")
    if not sample.is_mean:
        raise UsageError(
            "This bound holds for means of bounded units; these units have different sizes "
            "(clusters or weights). Use empirical likelihood or a bootstrap."
        )
    x = sample.numerator / sample.denominator
    tolerance = 1e-9 * (high - low)
    bad = (x < low - tolerance) | (x > high + tolerance)
    if bad.any():
        raise DataError(f"scores: {first_rows(bad, x)} are outside the range [{low}, {high}].")
    return np.asarray(x, dtype=np.float64)


def clopper_pearson(
    rewards: ArrayLike,
    weights: ArrayLike | None = None,
    count: ArrayLike | None = None,
    level: float = 0.95,
    *,
    weight_high: float | None = None,
    reward_low: float = 0.0,
    reward_high: float = 1.0,
) -> Interval:
    """Interval for E[w r] with two-valued rewards.

    Exact when every matched unit has the same weight (and that is the only positive weight that
    can occur). Otherwise the gamma interval: conservative wherever it has been tried, without a
    proof; it treats successes as rare and costs width when they are not.

    Parameters
    ----------
    rewards : array of shape (G,)
        ``reward_low`` or ``reward_high``.
    weights : array of shape (G,), optional
        Importance weights whose mean is 1 in the population; ones by default.
    count : array of shape (G,), optional
        Frequencies.
    level : float
        Nominal coverage.
    weight_high : float, optional
        Largest weight that can occur; the largest observed one by default.
    reward_low, reward_high : float
        The two values of the reward.

    Examples
    --------
    >>> i = clopper_pearson([0, 1], count=[95, 5])
    >>> round(i.low, 4), round(i.high, 4)
    (0.0164, 0.1128)
    """
    check_level(level)
    r = column("rewards", rewards)
    w = np.ones_like(r) if weights is None else column("weights", weights, len(r))
    w, r, c = weighted_rewards(w, r, count, reward_low, reward_high)
    bad = (r != reward_low) & (r != reward_high)
    if bad.any():
        raise DataError(
            f"rewards: {first_rows(bad, r)} are neither {reward_low:g} nor {reward_high:g}; "
            "this interval is for two-valued rewards."
        )
    matched = w > 0
    span = reward_high - reward_low
    if not matched.any():
        note = "no unit has a positive weight, so the data cannot say"
        return Interval(reward_low, reward_high, level, "clopper-pearson", note)
    w, c, won = w[matched], c[matched], (r[matched] == reward_high).astype(np.float64)
    if weight_high is not None:
        check_weight_high(w, weight_high)
    top = float(w.max()) if weight_high is None else weight_high
    if np.ptp(w) <= 1e-9 * top and float(w[0]) >= top * (1 - 1e-9):
        low, high = _binomial(float(c @ won), float(c.sum()), level)
        note = f"exact for the {c.sum():,.0f} units with a positive weight, which all have the same weight"
    else:
        low, high = _weighted(w, won, c, top, level)
        note = f"gamma interval for weighted rare outcomes, weights up to {top:g}"
    return Interval(reward_low + span * low, reward_low + span * high, level, "clopper-pearson", note)


def _binomial(successes: float, trials: float, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    failures = trials - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes > 0 else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures > 0 else 1.0
    return low, high


def _weighted(w: Floats, won: Floats, c: Floats, top: float, level: float) -> tuple[float, float]:
    # Successes that are exactly half are not the common outcome by rounding.
    if float(c @ (w * (won - 0.5))) > 1e-9 * float(c @ w):
        low, high = _gamma(w, 1 - won, c, top, level)
        return 1 - high, 1 - low
    return _gamma(w, won, c, top, level)


def _gamma(w: Floats, rare: Floats, c: Floats, top: float, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    cw = c * w
    total = float(cw.sum())
    hits = float(cw @ rare)
    # Where success rates differ between weight levels the spread exceeds the Poisson one.
    spread = max(float(cw @ (w * rare)), float(cw @ (w * (rare - hits / total) ** 2)))
    low = 0.0
    if hits > 0 and spread > 0:  # squares of weights of next to nothing are 0
        low = float(special.gammaincinv(hits**2 / spread, tail)) * spread / hits
    more, wider = hits + top, spread + top**2
    high = float(special.gammaincinv(more**2 / wider, 1 - tail)) * wider / more
    return min(low / total, 1.0), min(high / total, 1.0)
