"""How far a mean is from what it should be, in standard errors, and which of several is furthest.

Sums of the same rows in another order, or of counted rows, differ by rounding: what is 0 but for rounding
counts as 0, and of several that are equal but for rounding the first is taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

ROUNDING = 1e-12
SMALLEST_BATCH = 20  # units from which on a batch is judged by itself


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


def adjusted_z(z: float, tests: int) -> float:
    """|z| of the Bonferroni-adjusted two-sided p-value of the largest of several z-scores.

    >>> round(adjusted_z(3.0, 1), 6), round(adjusted_z(3.0, 100), 2), adjusted_z(1.0, 10)
    (3.0, 1.1, 0.0)
    """
    size = abs(z)
    if size > 30 or tests <= 1:  # there the adjustment is negligible, and p below any float
        return size
    return -float(special.ndtri(min(1.0, tests * special.erfc(size / math.sqrt(2))) / 2)) + 0.0


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
