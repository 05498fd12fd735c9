"""Few counted points with the moments of many: Gauss quadrature inside cells.

A cell holds units (a, b): size and sum of scores, or importance weight and weighted reward. Its units are
replaced by at most four points, made from sums over the cell alone:

- two values of a that match Σ1, Σa, Σa², Σa³ (Gauss, so that they lie between the units');
- b on the regression line of b on a, which keeps Σb and Σab;
- around the line two points instead of one, with the second and third moment of what is left of b, in
  proportion to a; they keep Σb² (and Σb³ where a is constant).

A smooth function of (a, b) then has the same sum over the points as over the units, up to the mixed third and
the fourth power of the width of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Ints
    from offpolicy.inference.intervals.sample import Floats

BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over the units of each of C cells, of a and b measured from an origin of the cell.

    Attributes
    ----------
    n, a, b, aa, ab, bb, aaa, aab, abb, bbb : array of shape (C,)
        Σ1, Σa, Σb, Σa², Σab, … Σb³. An origin near the units keeps these sums exact.
    origin_a, origin_b : array of shape (C,)
        The origins.
    """

    n: Floats
    a: Floats
    b: Floats
    aa: Floats
    ab: Floats
    bb: Floats
    aaa: Floats
    aab: Floats
    abb: Floats
    bbb: Floats
    origin_a: Floats
    origin_b: Floats

    @classmethod
    def of(cls, cell: Ints, number: int, a: Floats, b: Floats, c: Floats) -> CellSums:
        """Sums of counted units; ``cell`` gives the cell 0, …, number − 1 of each.

        >>> s = CellSums.of(np.array([0, 0]), 1, np.ones(2), np.array([1.0, 3.0]), np.ones(2))
        >>> float((s.b + s.n * s.origin_b)[0])
        4.0
        """
        sums = np.zeros((12, number))
        # Any unit of the cell will do; cells whose units are all alike then come out without rounding.
        sums[10][cell], sums[11][cell] = a, b
        for rows in blocks(len(cell)):
            k, weight = cell[rows], c[rows]
            x, y = a[rows] - sums[10][k], b[rows] - sums[11][k]
            wx, wy = weight * x, weight * y
            wxx, wxy, wyy = wx * x, wx * y, wy * y
            columns = (weight, wx, wy, wxx, wxy, wyy, wxx * x, wxx * y, wxy * y, wyy * y)
            for total, values in zip(sums, columns, strict=False):
                np.add.at(total, k, values)
        return cls(*sums)


@dataclass(frozen=True, eq=False)
class Points:
    """Counted points (a, b), (4, C); points of no count belong to cells that need fewer than four."""

    count: Floats
    a: Floats
    b: Floats


def two_points(variance: Floats, third: Floats) -> tuple[Floats, Floats, Floats]:
    """Deviations from the mean of two points with given central moments, and the share of the first.

    >>> near, far, share = two_points(np.array([0.09]), np.array([0.072]))  # 9 in 10 at 0, 1 in 10 at 1
    >>> [round(float(x[0]), 12) for x in (near, far, share)]
    [-0.1, 0.9, 0.9]
    """
    deviation = np.sqrt(np.maximum(variance, 0.0))
    spread = deviation > 0
    skewness = np.divide(third, deviation**3, out=np.zeros_like(third), where=spread)
    half = np.abs(skewness) / 2
    reach = half + np.sqrt(1 + half * half)
    side = np.where(skewness < 0, -1.0, 1.0)
    share = reach * reach / (1 + reach * reach)
    return -side * deviation / reach, side * deviation * reach, np.where(spread, share, 1.0)


def points(sums: CellSums) -> Points:
    """Points that stand for the units of each cell.

    >>> a, b = np.array([1.0, 1.0, 2.0, 2.0, 2.0]), np.array([0.0, 1.0, 0.0, 2.0, 2.0])
    >>> p = points(CellSums.of(np.zeros(5, dtype=int), 1, a, b, np.ones(5)))
    >>> [round(float((p.count * x).sum()), 9) for x in (p.a, p.a**3, p.b, p.a * p.b, p.b**2)]
    [8.0, 26.0, 5.0, 9.0, 9.0]
    """
    n, a, b = sums.n, sums.a / sums.n, sums.b / sums.n
    aa, aaa = _central(n, sums.a, sums.aa, sums.aaa)
    slope = np.divide(sums.ab / n - a * b, aa, out=np.zeros_like(a), where=aa > 0)
    low, high, share = two_points(aa, aaa)
    away, mass = np.stack([low, high]), np.stack([share, 1 - share])
    column, line = sums.origin_a + a + away, sums.origin_b + b + slope * away
    # Rewards spread around the line in proportion to the weight they are multiplied by.
    scale = np.sqrt((mass * column**2).sum(axis=0))
    unit = np.divide(np.abs(column), scale, out=np.ones_like(column), where=scale > 0)
    square, cube = _around_line(sums, slope)
    near, far, part = two_points(square, cube / (mass * unit**3).sum(axis=0))
    return Points(
        n * np.concatenate([mass * part, mass * (1 - part)]),
        np.concatenate([column, column]),
        np.concatenate([line + unit * near, line + unit * far]),
    )


def _around_line(sums: CellSums, slope: Floats) -> tuple[Floats, Floats]:
    """Second and third central moment of b − slope · a."""
    first = sums.b - slope * sums.a
    second = sums.bb - 2 * slope * sums.ab + slope**2 * sums.aa
    third = sums.bbb - 3 * slope * (sums.abb - slope * sums.aab) - slope**3 * sums.aaa
    square, cube = _central(sums.n, first, second, third)
    # What is left of units on a line is rounding.
    return np.where(square * sums.n > 1e-12 * sums.bb, square, 0.0), cube


def _central(n: Floats, first: Floats, second: Floats, third: Floats) -> tuple[Floats, Floats]:
    """Second and third central moment from sums of powers."""
    mean = first / n
    square = np.maximum(second / n - mean**2, 0.0)
    return square, np.asarray(third / n - 3 * mean * second / n + 2 * mean**3)


def bins(away: Floats, scale: float, number: int) -> Ints:
    """Bin 0, …, number − 1 of each value: narrow within a few scales of 0, wider far out.

    >>> bins(np.array([-1e9, 0.0, 0.1, 1e9]), 1.0, 64).tolist()
    [0, 32, 34, 63]
    """
    z = away / (scale or 1.0)
    z /= 1 + np.abs(z)
    return np.minimum(((z + 1) * (number / 2)).astype(np.int64), number - 1)


def blocks(length: int) -> Iterator[slice]:
    """Slices of so many rows that what is made from them stays in the processor's cache.

    >>> [(s.start, s.stop) for s in blocks(40_000)]
    [(0, 32768), (32768, 65536)]
    """
    return (slice(start, start + BLOCK) for start in range(0, length, BLOCK))


def lower_points(x: Floats, c: Floats, cell: Ints, number: int) -> tuple[Floats, Floats]:
    """Points over which log(1 + s x), s > 0, sums to no more than over the units (Gauss–Radau).

    Two per cell: its smallest value, and another one so that Σ1, Σx and Σx² are kept. What is left has the
    sign of the third derivative, which is positive.

    >>> x, count = lower_points(np.array([1.0, 2.0, 3.0]), np.ones(3), np.zeros(3, dtype=int), 1)
    >>> x.round(3).tolist(), count.round(3).tolist()
    ([1.0, 2.667], [1.2, 1.8])
    """
    start = np.full(number, np.inf)
    np.minimum.at(start, cell, x)
    away = x - start[cell]
    n, first, second = (np.bincount(cell, weights=w, minlength=number) for w in (c, c * away, c * away * away))
    mass = np.divide(first**2, second, out=np.zeros(number), where=second > 0)
    other = np.divide(second, first, out=np.zeros(number), where=second > 0)
    count = np.concatenate([n - mass, mass])
    values = np.concatenate([start, start + other])
    return values[count > 0], count[count > 0]
