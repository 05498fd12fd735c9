"""Very many counted rows (a, x) as few: rows that share a cell become the points of `quadrature`.

Cells are rectangles of bins of a and of x that do not depend on the order of the rows or on how they are
counted. None reaches across a = 0, nor across a given value of x, whose rows are a cell of their own. The
points of a cell lie where its units do; a cell for which they would not is cut finer, and as a last resort
keeps its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.intervals.quadrature import CellSums, bins, blocks, points

if TYPE_CHECKING:
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
