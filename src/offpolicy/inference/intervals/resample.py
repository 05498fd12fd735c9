"""Bootstrap intervals: percentile and BCa (Efron 1987), clusters resampled whole.

A replicate draws N units with replacement; θ* = θ̂ + Σ e* / Σ den*, with e = num − θ̂ den. Units are drawn by
their rank in e, so that rows, counted rows and any order of them give the same draws for the same seed.

Of more than 8,192 units only the 2,048 lowest and the 2,048 highest are drawn one by one. The draws from
between are summed at once: normal with the mean and variance of the units between, and the first
Cornish–Fisher term for their skewness γ,

    Σ e* = K m + √(K v) · (z + γ (z² − 1) / (6 √K)).

At least 2,048 units lie as far out as any between, so those add no more than 1/√2048 = 0.02 to the
skewness of the estimate, and what the expansion leaves out is of the order of its square.

The acceleration of BCa is the jackknife's, in closed form for ratios: with g = e / (Σ den − den) minus its
mean, a = Σ c g³ / (6 [Σ c g²]^{3/2}).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import Floats, Interval, Sample, check_level
from offpolicy.inference.intervals.wald import NO_VARIATION

if TYPE_CHECKING:
    from offpolicy._arrays import Ints

ONE_BY_ONE = 8192  # samples of more units than this are drawn in part
TAIL = 2048  # units at either end that are drawn one by one in any case
CHUNK = 1 << 21  # draws held in memory at once


def replicates(sample: Sample, *, number: int = 2000, seed: int = 0) -> Floats:
    """Draw ``number`` bootstrap values of the estimate.

    Replicates whose denominators sum to 0 come back as NaN.

    >>> replicates(Sample.of_mean([1.0, 1.0]), number=3)
    array([1., 1., 1.])
    """
    if number < 1:
        raise UsageError(f"The 'number' of replicates must be at least 1. Got {number} instead.")
    urn = _urn(sample)
    rng = np.random.default_rng(seed)
    sums = np.zeros((number, 2))
    drawn = np.full(number, urn.total)
    if urn.middle is not None:
        normals = rng.standard_normal((number, 2))
        drawn = rng.binomial(urn.total, len(urn.units) / urn.total, size=number)
        sums += _middle_sums(urn.middle, urn.total - drawn, normals)
    step = max(1, CHUNK // len(urn.units))
    for start in range(0, number, step):
        sizes = drawn[start : start + step]
        places = rng.integers(0, len(urn.units), size=int(sizes.sum()))
        replicate = np.repeat(np.arange(len(sizes)), sizes)
        for k in (0, 1):
            unit = urn.units[:, k][places]
            sums[start : start + step, k] += np.bincount(replicate, unit, minlength=len(sizes))
    with np.errstate(divide="ignore", invalid="ignore"):
        values: Floats = sample.estimate + sums[:, 0] / sums[:, 1]
    values[~(sums[:, 1] > 0)] = np.nan
    return values


def bootstrap(sample: Sample, level: float = 0.95, *, number: int = 2000, seed: int = 0) -> Interval:
    """Percentile bootstrap interval.

    >>> i = bootstrap(Sample.of_mean([0.0, 1.0], count=[50, 50]), seed=1)
    >>> 0.38 < i.low < 0.42 < 0.58 < i.high < 0.62
    True
    """
    check_level(level)
    return _quantiles(sample, level, "bootstrap", number, seed)


def bca(sample: Sample, level: float = 0.95, *, number: int = 2000, seed: int = 0) -> Interval:
    """Bias-corrected and accelerated bootstrap interval (second-order correct).

    >>> i = bca(Sample.of_mean([0.0, 1.0], count=[90, 10]), seed=1)
    >>> i.low < 0.1 < i.high and i.high - 0.1 > 0.1 - i.low
    True
    """
    check_level(level)
    return _quantiles(sample, level, "bca", number, seed)


def acceleration(sample: Sample) -> float:
    """Jackknife acceleration of a ratio of sums; 0 when no unit can be left out.

    >>> round(acceleration(Sample.of_mean([0.0, 0.0, 0.0, 1.0])), 4)
    0.0962
    """
    c = sample.counts
    rest = float(c @ sample.denominator) - sample.denominator
    if not rest.min() > 0:
        return 0.0
    gap = sample.residual / rest
    gap -= float(c @ gap) / sample.total
    square = float(c @ gap**2)
    return float(c @ gap**3) / (6 * square**1.5) if square > 0 else 0.0


def _quantiles(sample: Sample, level: float, method: str, number: int, seed: int) -> Interval:
    values = replicates(sample, number=number, seed=seed)
    lost = np.isnan(values)
    if lost.all():
        raise UsageError("No bootstrap replicate has a positive denominator.")
    note = f"{lost.sum()} of {number} replicates had no weight and were left out" if lost.any() else ""
    values = values[~lost]
    flat = bool(values.min() == values.max())
    at = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "bca" and not flat:
        shifted = _shifted(sample, values, at)
        if shifted is None:
            note = "all replicates are on one side of the estimate; the interval is their range"
        at = np.array([0.0, 1.0]) if shifted is None else shifted
    low, high = np.quantile(values, at)
    note = note or (NO_VARIATION if flat else "")
    return Interval(float(low), float(high), level, method, note, sufficient=not flat)


def _shifted(sample: Sample, values: Floats, at: Floats) -> Floats | None:
    """Shares of the replicates at which a BCa interval ends."""
    away = values - sample.estimate
    # Replicates equal to the estimate but for rounding count half on either side.
    close = 1e-9 * float(np.abs(away).max())
    below = float(np.mean(away < -close) + 0.5 * np.mean(np.abs(away) <= close))
    if not 0 < below < 1:
        return None
    bias = float(special.ndtri(below))
    z = bias + special.ndtri(at)
    shares = special.ndtr(bias + z / (1 - acceleration(sample) * z))
    return np.asarray(np.clip(shares, 0, 1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Middle:
    """Moments of the units that are not drawn one by one."""

    mean: Floats
    variance: float
    skewness: float
    slope: float  # of den on e
    spread: float  # standard deviation of den around that line


@dataclass(frozen=True, eq=False)
class _Urn:
    """What is drawn from: (e, den) of single units in the order of e, and the moments of the others."""

    total: int
    units: Floats
    middle: _Middle | None = None


def _urn(sample: Sample) -> _Urn:
    total, c = _whole(sample.total), sample.counts
    columns = np.stack([sample.residual, sample.denominator], axis=1)
    if total <= ONE_BY_ONE:
        return _Urn(total, columns[_first_units(_ranked(columns), c, total)[0]])
    low, below = _first_units(_lowest(columns[:, 0], c), c, TAIL)
    high, above = _first_units(_lowest(-columns[:, 0], c), c, TAIL)
    units = columns[np.concatenate([low, high[::-1]])]
    return _Urn(total, units, _moments(columns, np.maximum(c - below - above, 0.0)))


def _ranked(columns: Floats) -> Ints:
    """Order of the rows by e; among equal e by den, whatever the rounding of e."""
    e = columns[:, 0]
    scale = float(np.abs(e).max()) or 1.0
    return np.lexsort((columns[:, 1], np.round(e / scale, 9)))


def _lowest(e: Floats, c: Floats) -> Ints:
    """Rows with the lowest e, in order, that hold at least ``TAIL`` units."""
    rows = np.arange(len(e))
    if len(e) > TAIL:
        rows = np.argpartition(e, TAIL)[:TAIL]
        if float(c[rows].sum()) < TAIL:
            rows = np.arange(len(e))
    return np.asarray(rows[np.argsort(e[rows], kind="stable")])


def _first_units(rows: Ints, c: Floats, number: int) -> tuple[Ints, Floats]:
    """Row of each of the first ``number`` units, and how many units they take from every row."""
    ends = np.cumsum(c[rows])
    units = rows[np.minimum(np.searchsorted(ends, np.arange(number) + 0.5), len(rows) - 1)]
    taken = np.zeros(len(c))
    taken[rows] = np.clip(number - (ends - c[rows]), 0.0, c[rows])
    return units, taken


def _moments(columns: Floats, c: Floats) -> _Middle:
    total = float(c.sum())
    mean = c @ columns / total
    e, d = columns[:, 0] - mean[0], columns[:, 1] - mean[1]
    variance, cross = float(c @ (e * e)) / total, float(c @ (e * d)) / total
    if variance == 0:
        return _Middle(mean, 0.0, 0.0, 0.0, math.sqrt(float(c @ (d * d)) / total))
    skewness = float(c @ (e * e * e)) / total / variance**1.5
    left = float(c @ (d * d)) / total - cross**2 / variance
    return _Middle(mean, variance, skewness, cross / variance, math.sqrt(max(left, 0.0)))


def _middle_sums(middle: _Middle, number: Ints, normals: Floats) -> Floats:
    """Sums of e and den over ``number`` units drawn from the middle."""
    root, z = np.sqrt(np.maximum(number, 1)), normals[:, 0]
    away = root * math.sqrt(middle.variance) * (z + middle.skewness * (z * z - 1) / (6 * root))
    size = middle.slope * away + root * middle.spread * normals[:, 1]
    return np.asarray(number[:, None] * middle.mean + np.stack([away, size], axis=1))


def _whole(total: float) -> int:
    if abs(total - round(total)) > 1e-6 * max(total, 1):
        raise UsageError(
            f"The bootstrap needs whole counts; they sum to {total}. Counts are frequencies; "
            "put fractional weights into the numerator and denominator."
        )
    return round(total)
