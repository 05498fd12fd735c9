"""Very many counted rows (a, x) as few: rows that share a cell become points with its moments (Gauss quadrature).

Cells are rectangles of bins of a and of x that do not depend on the order of the rows or on how they are
counted. None reaches across a = 0, nor across a given value of x, whose rows are a cell of their own. The
points of a cell lie where its units do; a cell for which they would not is cut finer, and as a last resort
keeps its rows.

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

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Bools, Floats, Ints


FINE = 4096  # bins of an axis
COARSER = 5  # powers of 2 by which bins are wider where both axes vary
FEW = 16  # bins up to which an axis counts as constant
KINDS = 9  # signs of a, times the side of the middle that x is on
POINTS = 4  # of a cell
DENSE = 1 << 22  # cells up to which they are numbered without sorting


@dataclass(frozen=True, eq=False)
class Table:
    """Counted rows (a, x): sizes and scores of units, or weights and rewards.

    Attributes
    ----------
    a, x, count : array of shape (G,)
    """

    a: Floats
    x: Floats
    count: Floats

    def at(self, rows: Array) -> Table:
        """Some of the rows."""
        return Table(self.a[rows], self.x[rows], self.count[rows])

    def joined(self, other: Table) -> Table:
        """These rows and others."""
        columns = ((self.a, other.a), (self.x, other.x), (self.count, other.count))
        return Table(*(np.concatenate(pair) for pair in columns))

    def merged(self) -> Table:
        """Equal rows as one with the sum of their counts.

        >>> t = Table(np.ones(3), np.array([2.0, 5.0, 2.0]), np.ones(3)).merged()
        >>> t.x.tolist(), t.count.tolist()
        ([2.0, 5.0], [2.0, 1.0])
        """
        order = np.lexsort((self.x, self.a))
        a, x = self.a[order], self.x[order]
        first = np.flatnonzero(np.append(True, (np.diff(a) != 0) | (np.diff(x) != 0)))
        return Table(a[first], x[first], np.add.reduceat(self.count[order], first))


@dataclass(frozen=True)
class Scale:
    """Where x is, how far it spreads, and a value that no cell reaches across."""

    center: float
    deviation: float
    middle: float = -math.inf


@dataclass(frozen=True, eq=False)
class _Coded:
    """Rows with the bin of a (column) and the bin of x, by kind (strip)."""

    table: Table
    column: Array
    strip: Array

    def at(self, rows: Array) -> _Coded:
        return _Coded(self.table.at(rows), self.column[rows], self.strip[rows])


@dataclass(frozen=True)
class _Reach:
    """Range of a (x − center) over the rows: no point may lie farther out."""

    center: float
    low: float
    high: float


def pointed(table: Table, scale: Scale) -> Table:
    """Points of the cells of a table.

    >>> rng = np.random.default_rng(0)
    >>> many = Table(np.ones(50_000), rng.normal(size=50_000), np.ones(50_000))
    >>> few = pointed(many, Scale(0.0, 1.0))
    >>> len(few.x) < 10_000, math.isclose(few.count @ few.x**3, (many.x**3).sum())
    (True, True)
    """
    a, x, c = table.a, table.x, table.count
    mean = float(c @ a) / float(c.sum())
    deviation = math.sqrt(float(c @ (a - mean) ** 2) / float(c.sum()))
    column, strip = np.empty(len(a), dtype=np.int32), np.empty(len(a), dtype=np.int32)
    low, high = math.inf, -math.inf
    for k in blocks(len(a)):
        away = x[k] - scale.center
        column[k] = bins(a[k] - mean, deviation, FINE)
        kind = 3 * np.sign(a[k]) + np.sign(x[k] - scale.middle) + 4
        strip[k] = KINDS * bins(away, scale.deviation, FINE) + kind
        away *= a[k]
        low, high = min(low, float(away.min())), max(high, float(away.max()))
    coded = _Coded(table, column, strip)
    across, along = (np.flatnonzero(_marked(codes, FINE * KINDS)) for codes in (column, strip))
    both_vary = min(len(across), len(np.unique(along // KINDS))) > FEW
    return _pointed(coded, _Reach(scale.center, low, high), COARSER if both_vary else 0)


def _pointed(coded: _Coded, reach: _Reach, coarser: int) -> Table:
    a, x = coded.table.a, coded.table.x
    cell, low, high = _cells(coded, coarser)
    p = points(CellSums.of(cell, len(low), a, np.where(a == 0, x, a * x), coded.table.count))
    value = np.divide(p.b, p.a, out=p.b.copy(), where=p.a != 0)
    live = p.count > 0
    fits = _within(value, low, high) & _within(p.a * (value - reach.center), reach.low, reach.high)
    outside = (live & ~fits).any(axis=0)
    small = np.bincount(cell) <= POINTS
    finer = outside & ~small if coarser else np.zeros_like(small)
    raw = (small | outside) & ~finer
    live &= ~(raw | finer)
    made = Table(p.a[live], np.clip(value, low, high)[live], p.count[live])
    made = made.joined(coded.table.at(raw[cell]))
    return made.joined(_pointed(coded.at(finer[cell]), reach, 0)) if finer.any() else made


def _within(value: Floats, low: Floats | float, high: Floats | float) -> Bools:
    """Whether values lie in a range, but for rounding."""
    slack = 1e-9 * np.subtract(high, low) + 1e-12 * np.maximum(np.abs(low), np.abs(high))
    return np.asarray((value >= low - slack) & (value <= high + slack))


def _cells(coded: _Coded, coarser: int) -> tuple[Ints, Floats, Floats]:
    """Cell of each row, and the range of x in the strip of each cell."""
    codes = np.arange(FINE * KINDS)
    columns, column = _ranks(coded.column, np.arange(FINE) >> coarser)
    strips, strip = _ranks(coded.strip, (codes // KINDS >> coarser) * KINDS + codes % KINDS)
    low, high = np.full(strips, np.inf), np.full(strips, -np.inf)
    x, cell = coded.table.x, np.empty(len(coded.column), dtype=np.int64)
    for k in blocks(len(cell)):
        place = strip[coded.strip[k]]
        np.minimum.at(low, place, x[k])
        np.maximum.at(high, place, x[k])
        cell[k] = column[coded.column[k]] * strips + place
    if columns * strips > DENSE:
        present, cell = np.unique(cell, return_inverse=True)
    else:
        marked = _marked(cell, columns * strips)
        present, rank = np.flatnonzero(marked), np.cumsum(marked) - 1
        for k in blocks(len(cell)):
            cell[k] = rank[cell[k]]
    return cell, low[present % strips], high[present % strips]


def _ranks(codes: Array, coarse: Ints) -> tuple[int, Ints]:
    """Number of coarse codes that occur, and the rank among them of every fine code."""
    present = np.unique(coarse[_marked(codes, len(coarse))])
    return len(present), np.searchsorted(present, coarse)


def _marked(codes: Array, size: int) -> Bools:
    marked = np.zeros(size, dtype=bool)
    marked[codes] = True
    return marked


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
                if values.any():  # sizes are mostly alike
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
