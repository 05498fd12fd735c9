"""`Store`: what all questions about one log share, by keys that say all that each thing depends on; and how it travels.

Of a pickled evaluation columns and facts travel; connections and functions that cannot be pickled stay behind.
"""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.columns.keys import Keys, Tokens
from offpolicy.columns.store import Columns
from offpolicy.errors import UsageError
from offpolicy.inference.score_table import ScoreTable

if TYPE_CHECKING:
    from offpolicy.inference.score_table import Units
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.tables import Tables
    from offpolicy.policies.target import Target


@dataclass(eq=False)
class Store:
    """What all questions about one log share.

    Attributes
    ----------
    log : log
        As it was opened, with the first metric as its reward.
    columns, fits, sums, said : by key
        Predictions; fitted models; what adds up over blocks; what models and scores have to say.
    estimates : {key: Estimate}
        Over the table of scores.
    policies : {(name, what): policy}
        Policies, adapted from the form they came in; targets likewise.
    """

    log: Log
    opening: Any = None  # all that the log looked at when it was opened
    asked_of: Any = None  # the log as the user has it
    columns: Columns = field(default_factory=Columns)
    fits: dict[Any, Any] = field(default_factory=dict)
    sums: dict[Any, Any] = field(default_factory=dict)
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
    replayed: Any = None  # how learners were trained on the log, where its policies are learners

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


class LeftBehindError(UsageError, AttributeError):
    """What was asked for did not travel; to whoever looks for a capability it is not there."""


class LeftBehind:
    """Stands for what did not travel: whoever needs it is told so."""

    def __init__(self, what: str) -> None:
        self.what = what

    def _error(self) -> LeftBehindError:
        return LeftBehindError(
            f"this evaluation was pickled without {self.what}, which another process cannot load. Its estimates "
            "are available; for anything that needs the log or the policy again, call op.evaluate."
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise self._error()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "what":
            raise AttributeError(name)
        raise self._error()


OURS = {"offpolicy", "builtins", "numpy", "functools", "collections", "pathlib", "dataclasses"}


class _Packer(pickle.Pickler):
    """Pickles what can be, and marks the places of the rest."""

    def reducer_override(self, value: Any) -> Any:
        """How to pickle a value; plain ones are left to the pickler."""
        if isinstance(value, np.ndarray | np.generic):
            return NotImplemented
        if isinstance(value, type | FunctionType):
            return NotImplemented if _is_importable(value) else _left(value)
        try:
            if type(value).__module__.split(".")[0] in OURS:
                return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            # What somebody else wrote is taken as a whole, if it comes back at all.
            data = pickle.dumps(value)
            pickle.loads(data)  # noqa: S301
        except Exception:  # noqa: BLE001 whatever an object says to being pickled, it does not travel
            return _left(value)
        return pickle.loads, (data,)


def _left(value: Any) -> tuple[Any, ...]:
    own = value if isinstance(value, type | FunctionType) else type(value)
    return LeftBehind, (f"{own.__module__}.{own.__qualname__}",)


def _is_importable(value: Any) -> bool:
    """Whether another process finds it by its name."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def packed(state: Any) -> bytes:
    """A state as bytes.

    >>> unpacked(packed([1, len]))[0], type(unpacked(packed(lambda: 0))).__name__
    (1, 'LeftBehind')
    """
    target = io.BytesIO()
    _Packer(target, pickle.HIGHEST_PROTOCOL).dump(state)
    return target.getvalue()


def unpacked(data: bytes) -> Any:
    """The state again."""
    return pickle.loads(data)  # noqa: S301
