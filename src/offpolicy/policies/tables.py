"""Policies that are data: probability columns, tables by state, tables of (context, action, probability)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError, first_rows
from offpolicy.logs.actions import by_label
from offpolicy.policies.distribution import SUM_TOLERANCE, action_codes, check_rows, keys, positions, require_actions
from offpolicy.policies.protocol import bound, column, key_columns, n_rows, numeric_columns, only_column

if TYPE_CHECKING:
    from collections.abc import Hashable

    from offpolicy._arrays import Array, Bools, Floats, Ints


@checks_arguments
@dataclass(frozen=True, eq=False)
class ProbabilityColumns:
    """Read the probabilities from columns of the context.

    Parameters
    ----------
    columns
        A mapping from action to column name, or one name per action. Names made of one prefix and the labels are
        matched by label, others by the order of the log's actions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"p_a": [0.25, 1.0], "p_b": [0.75, 0.0]})
    >>> ProbabilityColumns({"a": "p_a", "b": "p_b"}).bind(("b", "a")).probabilities(frame).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """

    columns: Sequence[str] | Mapping[Any, str]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not isinstance(self.columns, Sequence | Mapping):
            raise UsageError(
                "The 'columns' parameter of ProbabilityColumns must be a list of column names or a "
                f"mapping from action to column name. Got {self.columns!r} instead."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> ProbabilityColumns:
        """Return the policy for these actions, in this order."""
        if isinstance(self.columns, Mapping):
            require_actions(self.columns, actions, "ProbabilityColumns", every=True)
            names = [self.columns[action] for action in actions]
        else:
            names = list(by_label(self.columns, actions))
        if len(names) != len(actions):
            raise PolicyError(
                f"ProbabilityColumns names {len(names)} columns, but the log has {len(actions)} "
                "actions. Name one column per action, or give a mapping from action to column."
            )
        return replace(self, columns=names, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the columns, checked: (n, K)."""
        K = len(bound(self.actions, self))
        values = numeric_columns(context, list(self.columns), "ProbabilityColumns")
        return check_rows(values, (n_rows(context), K), "ProbabilityColumns")


@checks_arguments
@dataclass(frozen=True, eq=False)
class StateTable:
    """Look the probabilities up by state: row s of the table is the distribution in state s.

    Parameters
    ----------
    table
        (S, K) probabilities in the order of the log's actions, for states 0 … S−1.

    Examples
    --------
    >>> StateTable([[1.0, 0.0], [0.5, 0.5]]).probabilities(np.array([1, 0])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """

    table: Any
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        shape = np.shape(self.table)
        if len(shape) != 2:
            raise UsageError(f"The 'table' parameter of StateTable must have shape (S, K). Got {shape} instead.")
        object.__setattr__(self, "table", check_rows(self.table, (shape[0], shape[1]), "StateTable"))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the row of each state; (n, K)."""
        states = _states(context, len(self.table), "StateTable")
        rows: Floats = self.table[states]
        return rows


@checks_arguments
@dataclass(frozen=True, eq=False)
class StateChoices:
    """One action per state: entry s is the label of the action taken in state s.

    Examples
    --------
    >>> StateChoices(["b", "a"]).bind(("a", "b")).choices(np.array([0, 0, 1])).tolist()
    [1, 1, 0]
    """

    labels: Any
    codes: Ints | None = field(default=None, kw_only=True, repr=False)

    def bind(self, actions: tuple[Hashable, ...]) -> StateChoices:
        """Return the policy for these actions, in this order."""
        labels = np.asarray(self.labels)
        codes = action_codes(labels, actions, "one action per state", len(labels))
        return replace(self, codes=codes)

    def choices(self, context: Any) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        assert self.codes is not None
        return np.asarray(self.codes[_states(context, len(self.codes), "one action per state")])


def _states(context: Any, n_states: int, what: str) -> Ints:
    """States 0 … S − 1 of a context."""
    states = only_column(context, what)
    if states.dtype.kind not in "iu":
        raise PolicyError(f"{what} needs states 0, 1, 2, …. Got states of type {states.dtype} instead.")
    outside = (states < 0) | (states >= n_states)
    if outside.any():
        raise PolicyError(
            f"{what} has {n_states} rows, one for each state 0 … {n_states - 1}; "
            f"{first_rows(outside, states)} are not among them. Give it a row for every state."
        )
    return np.asarray(states)


@checks_arguments
@dataclass(frozen=True, eq=False)
class Table:
    """Look the probabilities up in a table with one row per context and action.

    An action without a row for a context has probability 0 there. A context of the log that the
    table does not have raises, and so do rows that are doubled or do not sum to 1.

    Parameters
    ----------
    frame
        A pandas, polars or pyarrow table.
    context
        Columns that identify a context, with the same names in the log. When the log's context is
        an array, its columns in order.
    action, probability
        Columns of the action's label and of its probability.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"device": ["tv", "tv", "phone"], "ad": ["a", "b", "b"], "p": [0.25, 0.75, 1.0]}
    ... )
    >>> policy = Table(table, context=["device"], action="ad", probability="p").bind(("a", "b"))
    >>> policy.probabilities(pd.DataFrame({"device": ["phone", "tv"]})).tolist()
    [[0.0, 1.0], [0.25, 0.75]]
    """

    frame: Any
    context: Sequence[str]
    action: str
    probability: str
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.context, str):
            raise UsageError(
                "The 'context' parameter of Table must be a list of column names. "
                f"Got {self.context!r} instead; write [{self.context!r}]."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> BoundTable:
        """Return the policy for these actions, in this order, its rows checked."""
        m = n_rows(self.frame)
        if m == 0:
            raise PolicyError("Table: the table of probabilities has no rows.")
        codes = action_codes(column(self.frame, self.action, "Table"), actions, "Table", m)
        p = numeric_columns(self.frame, [self.probability], "Table")[:, 0]
        bad = ~(np.isfinite(p) & (p >= 0))
        if bad.any():
            raise PolicyError(
                f"Table: column {self.probability!r} has missing or negative probabilities in {first_rows(bad, p)}."
            )
        steps, ids = _index(key_columns(self.frame, self.context, "Table"), m)
        cell = ids * len(actions) + codes
        first = np.unique(cell, return_index=True)[1]
        if len(first) < m:
            doubled = np.ones(m, dtype=np.bool_)
            doubled[first] = False
            raise PolicyError(f"Table: a (context, action) pair appears twice: {first_rows(doubled)}. Keep one.")
        rows = np.zeros((int(ids.max()) + 1, len(actions)))
        rows[ids, codes] = p
        off = (np.abs(rows.sum(axis=1) - 1) > SUM_TOLERANCE)[ids]
        if off.any():
            raise PolicyError(
                f"Table: the probabilities of a context do not sum to 1: {first_rows(off, rows.sum(axis=1)[ids])}."
            )
        return BoundTable(rows, steps, tuple(self.context), tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Raise: a table has an order of actions only once it is bound."""
        bound(None, self)
        raise AssertionError  # pragma: no cover


@dataclass(frozen=True, eq=False)
class BoundTable:
    """A `Table` that knows the log's actions: distributions of its contexts, and where each is."""

    rows: Floats  # (contexts, K)
    steps: tuple[tuple[dict[Any, int], Ints], ...]  # per key column: its values, and pairs in use
    context: tuple[str, ...]
    actions: tuple[Hashable, ...]
    respects_eligible: ClassVar[bool] = False

    def bind(self, actions: tuple[Hashable, ...]) -> BoundTable:
        """Return the policy with its columns in the order of ``actions``."""
        require_actions(self.actions, actions, "Table")
        rows = np.zeros((len(self.rows), len(actions)))
        rows[:, [actions.index(a) for a in self.actions]] = self.rows
        return replace(self, rows=rows, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the table's distribution for each row; (n, K)."""
        n = n_rows(context)
        columns = key_columns(context, self.context, "Table")
        ids = np.zeros(n, dtype=np.int64)
        for values, (known, pairs) in zip(columns, self.steps, strict=True):
            code = positions(values, known)
            pair = np.where((ids < 0) | (code < 0), -1, ids * len(known) + code)
            ids = np.searchsorted(pairs, pair)
            ids = np.where(pairs[np.minimum(ids, len(pairs) - 1)] == pair, ids, -1)
        if (ids < 0).any():
            row = int((ids < 0).argmax())
            shown = {k: v[row] for k, v in zip(self.context, columns, strict=True)}
            raise PolicyError(
                f"Table has no distribution for the context of {first_rows(ids < 0)}: {shown}. "
                "Add these contexts to the table."
            )
        return self.rows[ids]


def _index(columns: list[Array], m: int) -> tuple[tuple[tuple[dict[Any, int], Ints], ...], Ints]:
    """Number the distinct rows of key columns, column by column so that no product overflows."""
    ids = np.zeros(m, dtype=np.int64)
    steps = []
    for values in columns:
        known: dict[Any, int] = {}
        for key in keys(values):
            known.setdefault(key, len(known))
        pairs, ids = np.unique(ids * len(known) + positions(values, known), return_inverse=True)
        steps.append((known, pairs))
    return tuple(steps), ids
