"""The engine of checks that test E[g] = 0: z-scores that keep their level, and the furthest of several.

Summands may be skewed, few, or come in clusters. The t statistic of a skewed mean is itself skewed, the other way:
weights that are mostly 0 and sometimes large have a mean that lies "significantly" below its expectation far too often.
Hall's (1992) cubic transformation takes the leading term of that away and stays monotone; Student's distribution
allows for few units. The largest of several z-scores is adjusted for their number (Bonferroni).

Sums of the same rows in another order, or of counted rows, differ by rounding: what is 0 but for rounding
counts as 0, and of several that are equal but for rounding the first is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats
    from offpolicy.inference.intervals.sample import Sample

MANY = 1000  # units from which on Student's quantiles are the normal ones
ROUNDING = 1e-12
EVERY = np.ones((), dtype=bool)
SMALLEST_BATCH = 20  # units from which on a batch is judged by itself


@dataclass(frozen=True)
class Furthest:
    """The z-score that is furthest from 0.

    Attributes
    ----------
    place : int
        Where it stands, in a flat array.
    z : float
        0 where none counts.
    tests : int
        How many were looked at.
    """

    place: int
    z: float
    tests: int

    @property
    def value(self) -> float:
        """|z| adjusted for the number of tests."""
        return adjusted_z(self.z, self.tests)

    @property
    def p(self) -> float:
        """Adjusted two-sided p-value."""
        return float(min(1.0, self.tests * two_sided(self.z)))


def furthest(z: Array, usable: Bools = EVERY, counts: Bools = EVERY) -> Furthest:
    """The largest |z| of those that are usable; one that does not count (too small to matter) is taken for 0.

    >>> furthest(np.array([1.0, -3.0, 9.0]), np.array([True, True, False]))
    Furthest(place=1, z=-3.0, tests=2)
    """
    usable = np.broadcast_to(usable, z.shape)
    counts = np.broadcast_to(counts, z.shape)
    place = first_largest(np.where(usable, np.where(counts, np.abs(z), 0.0), -1.0).ravel())
    top = float(z.flat[place]) if counts.flat[place] else 0.0
    return Furthest(place, top, int(usable.sum()))


def z_score(mean: float, std_error: float, null: float) -> float:
    """(mean − null) / std_error, infinite where a mean without spread misses the null.

    >>> z_score(1.5, 0.1, 1.0), z_score(0.0, 0.0, 1.0), z_score(1.0, 0.0, 1.0)
    (5.0, -inf, 0.0)
    """
    gap, tiny = mean - null, ROUNDING * (abs(mean) + abs(null))
    if null != 0 and abs(gap) <= tiny:
        return 0.0
    if std_error > tiny:
        return gap / std_error
    return 0.0 if abs(gap) <= ROUNDING else math.copysign(math.inf, gap)


def mean_z(sample: Sample, null: float) -> float:
    """How far a mean is from ``null``, as a standard normal variable if that is its expectation."""
    error = sample.std_error
    gap = sample.estimate - null
    if error <= 1e-12 * (abs(sample.estimate) + abs(null)):
        return 0.0 if abs(gap) <= 1e-12 * max(1.0, abs(null)) else math.copysign(math.inf, gap)
    z = symmetric(gap / error, skew_of(sample.residual, sample.count))
    return normal_from_student(z, sample.total)


def symmetric(z: float, skew: float) -> float:
    """Hall's transformation of a t statistic; ``skew`` is the skewness of the sum, Σx³ / (Σx²)^1.5.

    >>> symmetric(-4.0, 0.0), round(symmetric(-4.0, 0.2), 2)
    (-4.0, -2.99)
    """
    if not math.isfinite(z):
        return z
    return z + skew * z * z / 3 + skew * skew * z**3 / 27 + skew / 6


def deficit_z(z: Floats, third: Floats, second: Floats) -> Floats:
    """z-scores of sums of terms that are mostly small: where one is negative, the large terms may not have come yet.

    ``second`` and ``third`` are the sums Σx² and Σx³. An excess stays as it is.

    >>> deficit_z(np.array([3.0, -4.0]), np.array([0.2, 0.2]), np.ones(2)).round(2).tolist()
    [3.0, -2.99]
    """
    size = np.maximum(second, 0.0) ** 1.5
    skew = np.divide(third, size, out=np.zeros(len(z)), where=size > 0)
    pairs = zip(z.tolist(), skew.tolist(), strict=True)
    return np.array([x if x >= 0 else min(0.0, symmetric(x, s)) for x, s in pairs])


def skew_of(residual: Floats, count: Floats | None = None) -> float:
    """Skewness of a sum of independent terms: Σ x³ / (Σ x²)^1.5.

    >>> skew_of(np.array([1.0, -1.0]))
    0.0
    """
    square = residual * residual
    if count is None:
        second, third = float(square.sum()), float(square @ residual)
    else:
        second, third = float(count @ square), float(count @ (square * residual))
    return third / second**1.5 if second > 0 else 0.0


def normal_from_student(z: float, units: float) -> float:
    """The normal quantile of a Student statistic of ``units`` independent units.

    >>> round(normal_from_student(3.0, 5), 2), normal_from_student(3.0, 5000)
    (2.05, 3.0)
    """
    if units >= MANY or not math.isfinite(z) or units < 2:
        return z
    tail = float(special.stdtr(units - 1, -abs(z)))
    return math.copysign(-float(special.ndtri(tail)), z) if tail > 0 else z


def two_sided(z: float) -> float:
    """p-value of a standard normal variable.

    >>> round(two_sided(-1.959964), 3)
    0.05
    """
    return float(special.erfc(abs(z) / math.sqrt(2)))


def adjusted_z(z: float, tests: int) -> float:
    """|z| of the Bonferroni-adjusted two-sided p-value of the largest of several z-scores.

    >>> round(adjusted_z(3.0, 1), 6), round(adjusted_z(3.0, 100), 2), adjusted_z(1.0, 10)
    (3.0, 1.1, 0.0)
    """
    size = abs(z)
    if size > 30 or tests <= 1:  # there the adjustment is negligible, and p below any float
        return size
    return -float(special.ndtri(min(1.0, tests * two_sided(size)) / 2)) + 0.0


def surely_above(index: float, size: float) -> float:
    """Lower 99% bound of a generalized Pareto index fitted to ``size`` exceedances.

    Its standard error is (1 + k)/√size (Smith 1987).

    >>> round(surely_above(0.7, 150), 2)
    0.38
    """
    return index - 2.326 * max(0.0, 1 + index) / math.sqrt(size)


def exceedances(total: float) -> float:
    """How many units a tail index of ``total`` units is fitted to."""
    return max(5.0, min(0.2 * total, 3 * math.sqrt(total)))


def first_largest(values: Floats) -> int:
    """Place of the largest value; of several equal but for rounding, of the first.

    >>> first_largest(np.array([1.0, 0.3 / 0.1, 3.0]))
    1
    """
    top = float(values.max())
    if not math.isfinite(top):
        return int(np.argmax(values))
    return int(np.argmax(values >= top - 1e-9 * abs(top)))


def same_but_rounding(values: Floats) -> Floats:
    """Values rounded so coarsely that the last digits of a computation are gone: nine digits of their range.

    >>> np.unique(same_but_rounding(np.array([0.1 + 0.2, 0.3, 1.0]))).tolist()
    [0.3, 1.0]
    """
    span = float(np.abs(values).max(initial=0.0))
    if span == 0:
        return values
    digits = 9 - math.ceil(math.log10(span))
    return np.round(values, digits)
