"""Tests of means that keep their level when summands are skewed, few, or come in clusters.

The t statistic of a skewed mean is itself skewed, the other way: weights that are mostly 0 and sometimes large
have a mean that lies "significantly" below its expectation far too often. Hall's (1992) cubic transformation
takes the leading term of that away and stays monotone; Student's distribution allows for few units.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy import special

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.inference.intervals.sample import Sample

MANY = 1000  # units from which on Student's quantiles are the normal ones


def symmetric(z: float, skew: float) -> float:
    """Hall's transformation of a t statistic; ``skew`` is the skewness of the sum, Σx³ / (Σx²)^1.5.

    >>> symmetric(-4.0, 0.0), round(symmetric(-4.0, 0.2), 2)
    (-4.0, -2.99)
    """
    if not math.isfinite(z):
        return z
    return z + skew * z * z / 3 + skew * skew * z**3 / 27 + skew / 6


def skew_of(residual: Floats, count: Floats | None = None) -> float:
    """Skewness of a sum of independent terms: Σ x³ / (Σ x²)^1.5.

    >>> import numpy as np
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


def mean_z(sample: Sample, null: float) -> float:
    """How far a mean is from ``null``, as a standard normal variable if that is its expectation."""
    error = sample.std_error
    gap = sample.estimate - null
    if error <= 1e-12 * (abs(sample.estimate) + abs(null)):
        return 0.0 if abs(gap) <= 1e-12 * max(1.0, abs(null)) else math.copysign(math.inf, gap)
    z = symmetric(gap / error, skew_of(sample.residual, sample.count))
    return normal_from_student(z, sample.total)


def two_sided(z: float) -> float:
    """p-value of a standard normal variable.

    >>> round(two_sided(-1.959964), 3)
    0.05
    """
    return float(special.erfc(abs(z) / math.sqrt(2)))


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
