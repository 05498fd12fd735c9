"""`Store`: what all questions about one log share, by keys that say all that each thing depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offpolicy.columns.keys import Keys, Tokens
from offpolicy.columns.store import Columns
from offpolicy.inference.score_table import ScoreTable

if TYPE_CHECKING:
    from offpolicy.inference.score_table import Units
    from offpolicy.models.fitting.tables import Tables
    from offpolicy.policies.target import Target


@dataclass(eq=False)
class Store:
    """What all questions about one log share.

    Attributes
    ----------
    log : log
        As it was opened, with the first metric as its reward.
    columns, fits, said : by key
        Predictions; fitted models; sums and what models have to say.
    estimates : {key: Estimate}
        Over the table of scores.
    policies : {(name, what): policy}
        Policies, adapted from the form they came in; targets likewise.
    """

    log: Any
    opening: Any = None  # all that the log looked at when it was opened
    asked_of: Any = None  # the log as the user has it
    columns: Columns = field(default_factory=Columns)
    fits: dict[Any, Any] = field(default_factory=dict)
    said: dict[Any, Any] = field(default_factory=dict)
    estimates: dict[Any, Any] = field(default_factory=dict)
    policies: dict[Any, Any] = field(default_factory=dict)
    targets: dict[Any, Target] = field(default_factory=dict)
    tables: dict[str, Tables] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    table: ScoreTable | None = None
    rows: Any = None  # all rows of a stream without their contexts, once they have come
    chosen: dict[Any, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Without fitted models and what learners read: these are made again."""
        return {**vars(self), "fits": {}, "tables": {}}

    def scores(self, units: Units) -> ScoreTable:
        """The one table of scores: estimates of all questions are paired unit by unit."""
        if self.table is None:
            self.table = ScoreTable(units)
        return self.table

    def tables_of(self, nuisances: Any) -> Tables:
        """What learners read of the log, made once for all questions."""
        metric = nuisances.log.names.reward
        if metric not in self.tables:
            first = next(iter(self.tables.values()), None)
            log = nuisances.log
            self.tables[metric] = nuisances.tables if first is None else first.with_reward(log)
        return self.tables[metric]


@dataclass(eq=False)
class Said:
    """Sums, and what models say of columns, by their names in one question, kept by their keys."""

    said: dict[Any, Any]
    key: Keys

    def __getitem__(self, name: Any) -> Any:
        return self.said[self.key(name)]

    def __setitem__(self, name: Any, value: Any) -> None:
        self.said[self.key(name)] = value

    def __contains__(self, name: object) -> bool:
        return self.key(name) in self.said

    def get(self, name: Any, default: Any = None) -> Any:
        """What is said of a column, or a default."""
        return self.said.get(self.key(name), default)

    def pop(self, name: Any, default: Any = None) -> Any:
        """The same, and let it go."""
        return self.said.pop(self.key(name), default)
