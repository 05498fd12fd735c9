"""Finite-sample intervals for the mean of bounded scores: no large-sample argument at all.

Hoeffding (1963): half width (high − low)·√(log(2/α) / 2N). Empirical Bernstein (Maurer & Pontil
2009, Theorem 4, both sides): √(2V log(4/α)/N) + 7(high − low) log(4/α) / 3(N − 1), with V the
sample variance. Implicit exploration (Gabbianelli, Neu and Papini 2024), for units x ≥ 0 without an upper end: since
log(1 + 2γx) ≥ 2γx/(1 + γx), the mean lies below mean(x/(1 + γx)) − log(1/α)/(2γN) with probability at most α.
"""

from __future__ import annotations

import math

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.intervals.sample import Floats, Interval, Sample, check_level

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
    c = np.ones(len(x)) if count is None else count
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
