"""What learners read of a log: its context as it came or encoded, weights, and canonical training rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import is_constant
from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.fitting.predictions import take_rows
from offpolicy.models.fitting.training import context_codes, is_coarse, sorted_rows, unit_of

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.action_columns import ActionColumns


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
        return self.of(encoded=bool(getattr(model, "wants_encoded", False)))

    def rows(self, model: Any, positions: Ints) -> Any:
        """Rows of the table for some decisions."""
        if getattr(model, "ignores_context", False):
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
        able = bool(getattr(model, "merges_rows", False)) and self._single
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


def tables_of(nuisances: Any) -> Tables:
    """What learners read of the log that these nuisances are of."""
    return Tables(nuisances.log)


def part_of(values: Array, rows: Ints) -> Array:
    """Values of some rows: without a copy where these are all rows, in order."""
    whole = len(rows) == len(values) and bool((rows[1:] > rows[:-1]).all())
    return values if whole else values[rows]
