"""What learners read of a log: its context as it came or encoded, features of actions, weights, training rows.

Training rows have a form that does not depend on how the log is held. Where contexts are coarse (every column takes at
most a tenth as many values as the log has units), models that say so are fitted on distinct rows with counts, sorted:
rows, cells and streamed blocks of the same log then give the same training table, bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import is_constant, picked
from offpolicy.models.fitting.encode import Encoded, PlainTable, encode_table
from offpolicy.models.fitting.predictions import take_rows

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.log import Log

COARSE = 0.1


@dataclass(frozen=True)
class Abilities:
    """What a model may declare, as attributes of these names; a user's own needs none of them.

    Attributes
    ----------
    wants_encoded, wants_native : bool
        Whether it reads contexts encoded as numbers, or as they came.
    ignores_context, merges_rows : bool
        Whether it reads no contexts; whether equal training rows may be one row with a count.
    sees_targets, sees_step : bool
        Whether it is told what the policies would do, and the step of an episode.
    counts_everyone : bool
        Whether it only counts, so that all units may train what predicts them.
    groups : callable or None
        Groups of rows inside which it counts, of a log and rows; None: batches.
    moves : bool
        Whether its fits predict other rows than those they were fitted to.
    one_step : model of the reward or None
        What it is where an episode is one decision.
    time : {"pooled", "step"}
        Whether steps have models of their own.
    bins_blocks, counts_blocks : bool
        Whether blocks are binned into one dataset that all fits share; whether actions are counted block by block.
    fit_on_spark : callable or None
        Fits where Spark holds the rows.
    """

    wants_encoded: bool = False
    wants_native: bool = False
    ignores_context: bool = False
    merges_rows: bool = False
    sees_targets: bool = False
    sees_step: bool = False
    counts_everyone: bool = False
    groups: Any = None
    moves: bool = False
    one_step: Any = None
    time: str = "pooled"
    bins_blocks: bool = False
    counts_blocks: bool = False
    fit_on_spark: Any = None


def abilities(model: Any) -> Abilities:
    """What a model declares; asked here and nowhere else.

    >>> abilities(None).merges_rows
    False
    """
    declared: dict[str, Any] = {f.name: getattr(model, f.name, f.default) for f in fields(Abilities)}
    return Abilities(**declared)


@dataclass(eq=False)
class Tables:
    """Learner tables of one log, made once."""

    log: Log
    _tables: dict[bool, Any] = field(default_factory=dict, repr=False)

    def with_reward(self, log: Log) -> Tables:
        """The tables of the same rows with another reward; what does not depend on it is shared."""
        other = Tables(log, self._tables)
        vars(other).update({k: v for k, v in vars(self).items() if k in {"codes", "_coarse"}})
        return other

    def of(self, *, encoded: bool) -> Any:
        """The learner table of the distinct contexts, as it came or encoded as numbers."""
        if encoded not in self._tables:
            context = self.log.context
            self._tables[encoded] = encode_table(context.coded_table) if encoded else context.learner_table
        return self._tables[encoded]

    def for_model(self, model: Any) -> Any:
        """The table in the form that a model declares to read."""
        return self.of(encoded=abilities(model).wants_encoded)

    def rows(self, model: Any, positions: Ints) -> Any:
        """Rows of the table for some decisions."""
        if abilities(model).ignores_context:
            return np.empty((len(positions), 0))
        table = self.for_model(model)
        # A copy of the whole table would be the largest array of a full-sample fit.
        whole = len(positions) == len(table) and bool((np.diff(positions) == 1).all())
        return table if whole else take_rows(table, positions)

    @cached_property
    def of_action(self) -> ActionColumns | None:
        """Columns of the actions' features, where the log has any."""
        own: ActionColumns | None = self.log.space.beside(self.log)
        return own

    def pairs(self, model: Any, positions: Ints, codes: Ints) -> Any:
        """Rows of the table for some pairs of a context and an action, with the features of the action."""
        table = self.rows(model, positions)
        return table if self.of_action is None else self.of_action.beside(table, codes)

    def mass(self, rows: Ints) -> Floats | None:
        """Weight of decisions in a fit: analysis weight × count; None when all are 1."""
        parts = [p for p in (self._each("weight", rows), self._each("count", rows)) if p is not None]
        if not parts:
            return None
        return np.asarray(parts[0] if len(parts) == 1 else parts[0] * parts[1], dtype=np.float64)

    def count(self, rows: Ints) -> Floats | None:
        """How many units each decision stands for; None when one each."""
        return self._each("count", rows)

    def both(self, rows: Ints) -> tuple[Floats, Floats]:
        """Weight and count of decisions, as arrays."""
        weight, count = self.mass(rows), self.count(rows)
        one = np.ones(len(rows))
        return one if weight is None else weight, one if count is None else count

    def _each(self, name: str, rows: Ints) -> Floats | None:
        values = getattr(self.log, name)
        if is_constant(values):
            return None  # a learner gets weights only where they differ
        unit = self._unit if name == "weight" else 1.0
        values = part_of(values, rows if self._single else self.log.layout.unit[rows])
        return np.asarray(values if unit == 1.0 else values / unit)

    @cached_property
    def _unit(self) -> float:
        """The mean analysis weight: all weights 0.001 say what all weights 1 say."""
        return unit_of(self.log.weight, self.log.count)

    @property
    def _single(self) -> bool:
        return bool(self.log.layout.is_single)

    # -- canonical training rows ---------------------------------------------------------------------

    def merges(self, model: Any) -> bool:
        """Whether a model is fitted on distinct rows with counts: it says so, and contexts are coarse."""
        able = abilities(model).merges_rows and self._single
        # Numbers seldom repeat: there is nothing to merge.
        return able and self.log.space.finite and self._coarse

    @cached_property
    def _coarse(self) -> bool:
        log = self.log
        units = float(log.count.sum()) if log.is_counted else float(len(log.action))
        return is_coarse(self.of(encoded=True).matrix, units)

    @cached_property
    def codes(self) -> Ints:
        """(n,) rank of each row's context among the distinct ones."""
        ranks = context_codes(self.of(encoded=True).matrix)
        return np.asarray(ranks[self.log.context.positions(np.arange(len(self.log.action)))])

    @cached_property
    def _order(self) -> Ints:
        return sorted_rows(self.codes, self.log.action, self.log.reward)

    def in_order(self, rows: Ints) -> Ints:
        """The same rows in the order of context, action and reward."""
        if len(rows) == len(self._order):
            return self._order
        chosen = np.zeros(len(self._order), dtype=bool)
        chosen[rows] = True
        return np.asarray(self._order[chosen[self._order]])


def part_of(values: Array, rows: Ints) -> Array:
    """Values of some rows: without a copy where these are all rows, in order."""
    whole = len(rows) == len(values) and bool((rows[1:] > rows[:-1]).all())
    return values if whole else values[rows]


@dataclass(frozen=True, eq=False)
class ActionColumns:
    """The features of the K actions in the forms of learner tables."""

    features: ActionFeatures

    @cached_property
    def encoded(self) -> Encoded:
        """Numbers, and codes of texts."""
        return encode_table(self.features.table)

    @cached_property
    def numbers(self) -> Floats:
        """(K, d) numbers; texts as 0/1 columns."""
        plain = PlainTable.learn(self.features.table, None, keeps_categories=False)
        return np.asarray(plain.transform(self.features.table), dtype=np.float64)

    def beside(self, X: Any, codes: Ints) -> Any:
        """Rows of a context table with the features of one action each as further columns."""
        if isinstance(X, Encoded):
            own = self.encoded
            width = X.matrix.shape[1]
            return Encoded(
                np.column_stack([X.matrix, own.matrix[codes]]),
                (*X.categorical, *(width + j for j in own.categorical)),
                own.matrix.shape[1],
            )
        if not hasattr(X, "iloc"):
            return np.column_stack([np.asarray(X, dtype=np.float64), self.numbers[codes]])
        import pandas as pd

        own = self.features.table.iloc[codes].set_axis(X.index)
        return pd.concat([X, own], axis=1)


@dataclass(frozen=True, eq=False)
class TrainingRows:
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


def merged(columns: tuple[Array, ...], rows: Ints, weight: Floats, count: Floats) -> TrainingRows:
    """Runs of rows that are equal in every column as one row each, with summed weights and counts."""
    new = np.zeros(len(rows), dtype=bool)
    new[:1] = True
    for values in columns:
        column = values[rows]
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    return TrainingRows(rows[starts], np.add.reduceat(weight, starts), np.add.reduceat(count, starts))


def held_out(
    n: int, weight: Floats | None, count: Floats | None, *, share: float, seed: int, limit: int | None = None
) -> tuple[TrainingRows, TrainingRows]:
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


def _part(rows: Ints, weight: Floats | None) -> TrainingRows:
    return TrainingRows(rows, picked(weight, rows), None)


def _thinned(rows: Ints, weight: Floats | None, units: Floats, drawn: Floats) -> TrainingRows:
    some = drawn > 0
    rows, units, drawn = rows[some], units[some], drawn[some]
    mass: Any = units if weight is None else weight[rows]
    return TrainingRows(rows, np.asarray(mass * drawn / units), drawn)
