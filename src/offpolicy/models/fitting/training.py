"""Training rows in a form that does not depend on how the log is held.

Where contexts are coarse (every column takes at most a tenth as many values as the log has units), models that
say so are fitted on distinct rows with counts, sorted: rows, cells and streamed blocks of the same log then give
the same training table, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints

COARSE = 0.1


@dataclass(frozen=True, eq=False)
class Part:
    """Some training rows: their positions, and the weight and count that each has in the part."""

    rows: Ints
    weight: Floats | None
    count: Floats | None


def unit_of(weight: Floats, count: Floats) -> float:
    """The mean analysis weight, by which training weights are divided: no learner should hang on their unit.

    It is rounded, so that rows, cells and blocks, which add in other orders, divide by the same number.

    >>> unit_of(np.array([0.001, 0.003]), np.ones(2))
    0.002
    """
    return float(f"{float((weight * count).sum() / count.sum()):.8g}") or 1.0


def is_coarse(matrix: Floats, units: float) -> bool:
    """Whether contexts repeat so much that distinct rows with counts are the better training set.

    >>> is_coarse(np.array([[0.0], [1.0]]), 100), is_coarse(np.arange(100.0)[:, None], 100)
    (True, False)
    """
    return all(len(np.unique(column)) <= COARSE * units for column in matrix.T)


def context_codes(matrix: Floats) -> Ints:
    """(m,) rank of each row among the distinct rows, in lexicographic order; missing values come last.

    >>> context_codes(np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]])).tolist()
    [1, 0, 1]
    """
    code = np.zeros(len(matrix), dtype=np.int64)
    for column in matrix.T:
        values, place = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + place, return_inverse=True)[1]
    return code


def sorted_rows(context: Ints, action: Ints, reward: Floats) -> Ints:
    """Positions in the order of context, action and reward."""
    pair = context * (int(action.max(initial=0)) + 1) + action
    ordered = bool(((pair[1:] > pair[:-1]) | ((pair[1:] == pair[:-1]) & (reward[1:] >= reward[:-1]))).all())
    return np.arange(len(pair)) if ordered else np.lexsort([reward, pair])


def merged(columns: tuple[Array, ...], rows: Ints, weight: Floats, count: Floats) -> Part:
    """Runs of rows that are equal in every column as one row each, with summed weights and counts."""
    new = np.zeros(len(rows), dtype=bool)
    new[:1] = True
    for values in columns:
        column = values[rows]
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    return Part(rows[starts], np.add.reduceat(weight, starts), np.add.reduceat(count, starts))


def held_out(
    n: int, weight: Floats | None, count: Floats | None, *, share: float, seed: int, limit: int | None = None
) -> tuple[Part, Part]:
    """A validation part of about ``share`` of the units, and the rest; of at most ``limit`` rows.

    Units that a row stands for are drawn one by one, so that a row may be in both parts.

    >>> held, rest = held_out(4, None, None, share=0.25, seed=0)
    >>> len(held.rows), len(rest.rows)
    (1, 3)
    """
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(n)[:limit]
    if count is None:
        cut = max(1, round(share * len(chosen)))
        return _part(np.sort(chosen[:cut]), weight), _part(np.sort(chosen[cut:]), weight)
    chosen = np.sort(chosen)
    units = count[chosen]
    drawn = rng.binomial(units.astype(np.int64), share).astype(np.float64)
    return _thinned(chosen, weight, units, drawn), _thinned(chosen, weight, units, units - drawn)


def _part(rows: Ints, weight: Floats | None) -> Part:
    return Part(rows, None if weight is None else weight[rows], None)


def _thinned(rows: Ints, weight: Floats | None, units: Floats, drawn: Floats) -> Part:
    some = drawn > 0
    rows, units, drawn = rows[some], units[some], drawn[some]
    mass: Any = units if weight is None else weight[rows]
    return Part(rows, np.asarray(mass * drawn / units), drawn)
