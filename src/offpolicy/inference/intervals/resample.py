"""Bootstrap intervals: percentile and BCa (Efron 1987), clusters resampled whole.

A replicate draws N units with replacement: multinomial frequencies over the rows of a compressed
sample, indices otherwise. Replicates are made in chunks, so memory does not grow with their
number. The acceleration of BCa is the jackknife's, in closed form for ratios:

    θ₍₋g₎ = (Σ num − num_g) / (Σ den − den_g)
    a = Σ c (θ̄ − θ₍₋g₎)³ / (6 [Σ c (θ̄ − θ₍₋g₎)²]^{3/2})
"""

from __future__ import annotations

import numpy as np
from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import Floats, Interval, Sample, check_level
from offpolicy.inference.intervals.wald import NO_VARIATION

CHUNK = 1 << 21  # draws held in memory at once


def replicates(sample: Sample, *, number: int = 2000, seed: int = 0) -> Floats:
    """Draw ``number`` bootstrap values of the estimate.

    Replicates whose denominators sum to 0 come back as NaN.

    >>> replicates(Sample.of_mean([1.0, 1.0]), number=3)
    array([1., 1., 1.])
    """
    if number < 1:
        raise UsageError(f"The 'number' of replicates must be at least 1. Got {number} instead.")
    sample = sample.observed()
    rng = np.random.default_rng(seed)
    columns = np.stack([sample.numerator, sample.denominator], axis=1)
    rows = len(columns)
    sums = np.empty((number, 2))
    step = max(1, CHUNK // rows)
    for start in range(0, number, step):
        size = min(step, number - start)
        if sample.count is None:
            drawn = rng.integers(0, rows, size=(size, rows))
            sums[start : start + size, 0] = sample.numerator[drawn].sum(axis=1)
            sums[start : start + size, 1] = sample.denominator[drawn].sum(axis=1)
        else:
            whole, shares = _shares(sample.count)
            sums[start : start + size] = rng.multinomial(whole, shares, size=size) @ columns
    with np.errstate(divide="ignore", invalid="ignore"):
        values: Floats = sums[:, 0] / sums[:, 1]
    values[~(sums[:, 1] > 0)] = np.nan
    return values


def bootstrap(
    sample: Sample, level: float = 0.95, *, number: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval.

    >>> i = bootstrap(Sample.of_mean([0.0, 1.0], count=[50, 50]), seed=1)
    >>> 0.38 < i.low < 0.42 < 0.58 < i.high < 0.62
    True
    """
    check_level(level)
    values, note = _usable(replicates(sample, number=number, seed=seed))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, "bootstrap", note)


def bca(sample: Sample, level: float = 0.95, *, number: int = 2000, seed: int = 0) -> Interval:
    """Bias-corrected and accelerated bootstrap interval (second-order correct).

    >>> i = bca(Sample.of_mean([0.0, 1.0], count=[90, 10]), seed=1)
    >>> i.low < 0.1 < i.high and i.high - 0.1 > 0.1 - i.low
    True
    """
    check_level(level)
    values, note = _usable(replicates(sample, number=number, seed=seed))
    estimate = sample.estimate
    below = np.mean(values < estimate) + 0.5 * np.mean(values == estimate)
    if not 0 < below < 1:
        return Interval(
            float(values.min()), float(values.max()), level, "bca",
            "every replicate lies on one side of the estimate; the replicates' range is given",
        )  # fmt: skip
    bias = float(special.ndtri(below))
    speed = acceleration(sample)
    z = special.ndtri([(1 - level) / 2, (1 + level) / 2])
    at = special.ndtr(bias + (bias + z) / (1 - speed * (bias + z)))
    low, high = np.quantile(values, np.clip(at, 0, 1))
    return Interval(float(low), float(high), level, "bca", note)


def acceleration(sample: Sample) -> float:
    """Jackknife acceleration of a ratio of sums; 0 when no unit can be left out."""
    sample = sample.observed()
    c = sample.counts
    rest = float(c @ sample.denominator) - sample.denominator
    if not rest.min() > 0:
        return 0.0
    without = (float(c @ sample.numerator) - sample.numerator) / rest
    gap = float(c @ without) / sample.total - without
    square = float(c @ gap**2)
    return float(c @ gap**3) / (6 * square**1.5) if square > 0 else 0.0


def _shares(count: Floats) -> tuple[int, Floats]:
    total = float(count.sum())
    if abs(total - round(total)) > 1e-6 * max(total, 1):
        raise UsageError(
            f"The bootstrap needs whole counts; they sum to {total}. Counts are frequencies; "
            "put fractional weights into the numerator and denominator."
        )
    return round(total), count / total


def _usable(values: Floats) -> tuple[Floats, str]:
    lost = int(np.isnan(values).sum())
    if lost == len(values):
        raise UsageError("No bootstrap replicate has a positive denominator.")
    note = f"{lost} of {len(values)} replicates had no weight and were left out" if lost else ""
    kept = values[~np.isnan(values)]
    return kept, note or (NO_VARIATION if kept.min() == kept.max() else "")
