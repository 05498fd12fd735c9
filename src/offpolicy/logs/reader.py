"""The one reader of tables: columns by their roles, in the order of units, as the parts of a log.

`settled` is the door that all logs come through, those of arrays as well: it checks every column, and puts in the
columns of units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, an, first_rows, numbered
from offpolicy.logs import checks, episodes
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.given import order_of_ids, unit_numbers
from offpolicy.logs.kinds import Logged
from offpolicy.logs.log import changed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.log import L, Log
    from offpolicy.logs.roles import Roles

LABELS = ("batch", "cluster", "fold")
NUMBERS = ("weight", "keep_probability", "count")


@dataclass(frozen=True)
class Names:
    """What the parts of a log are called by their owner, for messages, models and reports."""

    action: str = "action"
    reward: str = "reward"
    propensity: str = "propensity"
    batch: str = "batch"
    cluster: str = "cluster"


def name_of(columns: Sequence[str]) -> str:
    """Several columns in a few words.

    >>> name_of(["p_a", "p_b", "p_c", "p_d"])
    'p_a, p_b, p_c, …'
    """
    return ", ".join(columns[:3]) + (", …" if len(columns) > 3 else "")


def names_of(roles: Roles) -> Names:
    """What the owner calls the parts of a log."""
    propensity = roles.propensity if isinstance(roles.propensity, str) else name_of(roles.distribution)
    return Names(
        roles.action, roles.reward, propensity or "propensity", roles.batch or "batch", roles.cluster or "cluster"
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """A table that was read.

    Attributes
    ----------
    columns : Columns
        All of them, in the order of units.
    space : ActionSpace
        What an action is.
    parts : dict
        Fields of the log: those of decisions, and who its units are.
    given : {role: (n,) array}
        Columns of units.
    lengths : (n,) int array
        Decisions of each unit.
    """

    columns: Columns
    roles: Roles
    space: ActionSpace
    parts: dict[str, Any]
    given: dict[str, Array]
    lengths: Ints

    def flags(self, name: str | None) -> Array | None:
        """A column of flags, where one was named."""
        return None if name is None else self.columns.values(name)


def read(frame: Any, roles: Roles, *, discrete: bool | None = False, beside: tuple[str, ...] = ()) -> Rows:
    """Read a table, one row per decision.

    Parameters
    ----------
    discrete : bool or None
        Whether contexts are ids: distinct rows and an index; None: by what the columns hold.
    beside : tuple of str
        Columns that are seen besides the context.
    """
    columns = Columns(frame)
    checks.not_empty(len(columns))
    roles.check(columns.names, "frame")
    order, unit, lengths = _order(columns, roles)
    source = columns.separate() if order is None else columns.rows(order)  # the caller may change theirs
    with numbered(order):
        made = _read(Columns(source), roles, lengths, discrete=discrete, beside=beside)
    moved = None if order is None or bool((np.diff(order) > 0).all()) else order
    return replace(made, parts={**made.parts, "unit": unit, "source": source, "row_order": moved})


def _read(columns: Columns, roles: Roles, lengths: Ints, *, discrete: bool | None, beside: tuple[str, ...]) -> Rows:
    """Columns by their roles, of rows that are in the order of units."""
    action, rewards = roles.action, roles.rewards
    space, taken = roles.space.read(
        Logged(action, lambda: columns.values(action), lambda: columns.numeric(action, "action"))
    )
    propensity: Any = None
    names = names_of(roles)
    if isinstance(roles.propensity, str):
        propensity = columns.numeric(roles.propensity, "propensity")
    elif roles.propensity is not None:
        whole = space.whole_columns(roles.propensity)
        propensity = np.column_stack([columns.numeric(c, "propensity") for c in whole])
        names = replace(names, propensity=name_of(whole))
    eligible = None
    if roles.eligible is not None:
        eligible = checks.eligible_from_lists(columns.lists(roles.eligible), space.labels, roles.eligible)
    parts = {
        "context": _contexts(columns, [*roles.context, *beside], discrete=discrete),
        "action": taken,
        "reward": columns.numeric(rewards[0], "reward"),
        "further": {each: columns.numeric(each, "reward") for each in rewards[1:]},
        "propensity": propensity,
        "eligible": eligible,
        "names": names,
    }
    given = {role: columns.values(name) for role in LABELS if (name := getattr(roles, role)) is not None}
    given |= {role: columns.numeric(name, role) for role in NUMBERS if (name := getattr(roles, role)) is not None}
    if roles.unit is not None:
        given = {role: _of_units(values, role, roles, lengths) for role, values in given.items()}
    return Rows(columns, roles, space, parts, given, lengths)


def _order(columns: Columns, roles: Roles) -> tuple[Ints | None, Ints | None, Ints]:
    """Rows in the order of units, the numbers of these, and how many rows each has."""
    if roles.unit is not None:
        words = (roles.word("unit"), roles.word("step"))
        ids, codes = checks.groups(columns.values(roles.unit), roles.unit, words[0])
        times = None if roles.step is None else columns.numeric(roles.step, words[1])
        order = episodes.order_of(codes, times, roles.unit, roles.step or "step", words)
        return order, unit_numbers(ids), np.bincount(codes).astype(np.int64)
    one = np.broadcast_to(np.int64(1), len(columns))
    if roles.id is None:
        return None, None, one
    values = columns.values(roles.id)
    order = order_of_ids(checks.check(values, roles.id, "id"), roles.id)
    return order, unit_numbers(values)[order], one


def _of_units(values: Array, role: str, roles: Roles, lengths: Ints) -> Array:
    """One entry per unit, of a column that must not change inside one."""
    first = np.cumsum(lengths) - lengths
    differs = values != np.repeat(values[first], lengths)
    if differs.any():
        unit = roles.word("unit")
        raise DataError(
            f"column {getattr(roles, role)!r}: the {role} changes within {an(unit)} in {first_rows(differs)}. It "
            f"must be the same in the whole {unit}."
        )
    return np.asarray(values[first])


def _contexts(columns: Columns, names: list[str], *, discrete: bool | None) -> Context:
    """Contexts as a frame of rows, or of distinct rows when every column holds ids."""
    if not names:
        return Context(np.empty((len(columns), 0)))
    table = Context.from_frame(columns.subset(names))
    codes = []
    for name in names if discrete is not False else ():
        values = columns.values(name)
        if discrete is None and values.dtype.kind not in "biuOUS":
            break
        codes.append(checks.groups(values, name, "state")[1])
    if len(codes) < len(names):
        return table
    _, first, index = np.unique(np.column_stack(codes), axis=0, return_index=True, return_inverse=True)
    if discrete is None and len(names) > 1 and 2 * len(first) > len(columns):
        return table
    return Context.from_frame(table.native(first), index.reshape(-1).astype(np.int64))


def settled(log: L, given: Mapping[str, Array], called: Any = None, *, unseen: Collection[str] = ()) -> L:
    """Check every column of a log, and put in its columns of units.

    Parameters
    ----------
    given : {role: (n,) array}
        Columns of units: batch, cluster, fold, weight, keep_probability, count.
    called : Roles, optional
        What the owner calls them; default: by their roles.
    unseen : names of metrics
        Rewards that are not seen in every row, which their outcome checks.
    """
    _check_lengths(log, given)
    with numbered(log.row_order):
        return _settled(log, given, called, unseen)


def _settled(log: L, given: Mapping[str, Array], called: Any, unseen: Collection[str]) -> L:
    def name(role: str) -> str:
        return getattr(called, role, None) or role

    for metric, values in log.metrics.items():
        if metric not in unseen:
            checks.check(values, metric, "reward")
    propensity, whole = log.space.logged_propensity(log.propensity, log.action, log.names.propensity)
    if log.eligible is not None:
        checks.logged_is_eligible(log.eligible, log.action, name("eligible"))
    columns: dict[str, Any] = {}
    for role, values in given.items():
        if role in LABELS:
            labels, columns[role] = checks.groups(values, name(role), role)
            columns |= {"batch_labels": labels} if role == "batch" else {}
            columns |= {"unit": unit_numbers(labels)[columns[role]]} if role == "cluster" else {}
        else:
            columns[role] = checks.check(values, name(role), role.replace("_", "-"))
    if "fold" in columns:
        columns["fold"] = columns["fold"][None, :]
    if "keep_probability" in columns:
        columns["weight"] = columns.get("weight", 1.0) * (1.0 / columns.pop("keep_probability"))
    return changed(log, propensity=propensity, distribution=whole, **columns)


def _check_lengths(log: Log, given: Mapping[str, Array]) -> None:
    """Every column has one entry per decision, or per unit."""
    n = log.layout.n_units
    rows: dict[str, Any] = {"context": log.context, **log.metrics}
    rows |= {} if log.propensity is None else {"propensity": log.propensity}
    checks.same_length(log.rows, {name: len(values) for name, values in rows.items()})
    for role, values in given.items():
        if values.shape != (n,) and not log.unit_kind.decides_once:
            each = log.unit_kind.unit
            raise DataError(f"{role!r} has shape {values.shape}. Give one entry per {each} ({n:,}).")
    checks.same_length(n, {role: len(values) for role, values in given.items()})


def measured(values: Mapping[str, Any]) -> dict[str, Floats]:
    """Arrays of numbers that were given, by their roles."""
    return {role: checks.one_dimensional(x, role, role) for role, x in values.items() if x is not None}


def labelled(values: Mapping[str, Any]) -> dict[str, Array]:
    """Arrays of labels that were given, by their roles."""
    arrays = {role: np.asarray(x) for role, x in values.items() if x is not None}
    for role, array in arrays.items():
        if array.ndim != 1:
            raise DataError(f"{role!r} must be one label per row. Got shape {array.shape}.")
    return arrays
