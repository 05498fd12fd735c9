"""What queries tell of a log before any of it is read: one pass that counts bad rows and learns what rows share.

The checks are those of a log in memory (`offpolicy.logs.checks`); examples are values (with ids where the log has
them) instead of row numbers, which rows behind a query engine do not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.engine import Engine, ibis_module
from offpolicy.engines.table import levels_of, number
from offpolicy.errors import DataError
from offpolicy.logs.actions import distribution_columns
from offpolicy.logs.checks import COLUMN, EMPTY, Finding, check_ends, distributions, probabilities
from offpolicy.logs.reader import name_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.roles import Roles

EXAMPLES = 3
MANY_IDS = 2_000_000
CLEARLY_FEWER = 0.9
KEYS = ("batch", "cluster", "id", "fold")


@dataclass(frozen=True)
class Facts:
    """What queries learned.

    Attributes
    ----------
    rows, n : int
        Decisions, and units.
    space : ActionSpace
        The actions, as a log in memory has them.
    logged : tuple
        The actions that were logged, a part of ``labels``.
    longest : int
        Decisions of the longest unit.
    repeats : bool
        Whether some unit has an action twice.
    levels : dict
        Sorted distinct values of each text column of the context.
    distinct : dict
        About how many distinct values each context column and the reward (the widest metric) have.
    nulls : dict
        Missing values of each context column.
    """

    rows: int
    n: int
    space: ActionSpace
    logged: tuple[Any, ...] = ()
    longest: int = 1
    repeats: bool = True
    levels: dict[str, list[Any]] = field(default_factory=dict)
    distinct: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The K actions, sorted as logs in memory sort them."""
        return self.space.labels


def facts_of_rows(engine: Engine, table: Any, roles: Roles, unseen: Collection[str] = ()) -> Facts:
    """Check every row of a log of single decisions, and learn what compressing it needs to know.

    Parameters
    ----------
    unseen : names of metrics
        Rewards that may be missing.

    Raises
    ------
    DataError
        For the first kind of bad row, with how many there are and examples.
    """
    known, logged = _listed(engine, table, roles)
    findings, ends = _findings(table, roles, known.labels, engine, unseen), _measured(roles)
    queries = {"rows": table.count()}
    for i, (_, each) in enumerate(findings):
        # A comparison with NULL is NULL: only rows known to be bad count.
        queries[f"bad{i}"] = each.bad.fill_null(False).cast("int32").sum()
    for j, (name, role) in enumerate(ends.items()):
        column = number(table[name], role)
        queries |= {f"min{j}": column.min(), f"max{j}": column.max()}
    for j, name in enumerate((*roles.context, *roles.rewards)):
        queries[f"nulls{j}"] = table[name].isnull().cast("int32").sum()
        queries[f"distinct{j}"] = table[name].approx_nunique()
    if roles.id is not None:
        queries["ids"] = table[roles.id].approx_nunique()
    row = engine.table(table.aggregate(**queries)).to_pylist()[0]
    n = int(row["rows"])
    if n == 0:
        raise DataError(EMPTY)
    bounds = {name: (row[f"min{j}"], row[f"max{j}"]) for j, name in enumerate(ends)}
    for i, (name, each) in enumerate(findings):
        if row[f"bad{i}"]:
            largest = bounds.get(name, (None, None))[1]
            where = _where(engine, table, roles, each, int(row[f"bad{i}"]), n)
            raise DataError(each.says(where, np.inf if largest is None else float(largest)))
    _check_ends(roles, bounds, ends)
    _check_ids(engine, table, roles, n, int(row.get("ids", n)))
    if known.numeric:
        known = known.scanned(np.array(bounds[roles.action], dtype=np.float64), [], roles.action)
    width = len(roles.context)
    distinct = {name: int(row[f"distinct{j}"]) for j, name in enumerate(roles.context)}
    distinct["reward"] = max(int(row[f"distinct{width + j}"]) for j in range(len(roles.rewards)))
    nulls = {name: int(row[f"nulls{j}"]) for j, name in enumerate(roles.context)}
    return Facts(n, n, known, logged, distinct=distinct, nulls=nulls)


def _check_ends(roles: Roles, bounds: dict[str, Any], ends: dict[str, str]) -> None:
    """The ends of rewards and weights; a reward that is seen in part may be missing in all rows."""
    for name in (*roles.rewards, *(() if roles.weight is None else (roles.weight,))):
        low, high = bounds[name]
        if low is not None:
            check_ends(low, high, name, ends[name])


def _measured(roles: Roles) -> dict[str, str]:
    """{column: role} of the numbers whose ends are asked for."""
    columns = dict.fromkeys(roles.rewards, "reward")
    columns |= {roles.action: "action"} if roles.space.numeric else {}
    for role in ("weight", "propensity", "keep_probability"):
        columns |= {name: role} if isinstance(name := getattr(roles, role), str) else {}
    return columns


def facts_of_units(engine: Engine, table: Any, roles: Roles, *, repeats: bool) -> Facts:
    """Numbers of units and rows, and the actions; rows are checked when they are read.

    ``repeats``: whether to ask if some unit has an action twice.
    """
    counts = table.group_by(roles.unit).aggregate(rows=table.count())
    found = engine.table(
        counts.aggregate(n=counts.count(), rows=counts.rows.sum(), longest=counts.rows.max())
    ).to_pylist()[0]
    if not found["n"]:
        raise DataError(EMPTY)
    known, logged = _listed(engine, table, roles)
    twice = True
    if repeats:
        pairs = table.group_by([roles.unit, roles.action]).aggregate(times=table.count())
        twice = engine.table(pairs.aggregate(times=pairs.times.max()))["times"][0].as_py() > 1
    levels = levels_of(engine, table, {name: name for name in roles.context})
    return Facts(int(found["rows"]), int(found["n"]), known, logged, int(found["longest"]), bool(twice), levels)


def _listed(engine: Engine, table: Any, roles: Roles) -> tuple[ActionSpace, tuple[Any, ...]]:
    """The actions, where they can be counted, and which of them were logged."""
    if roles.space.numeric:
        return roles.space, ()
    counted = engine.table(table.group_by(action=table[roles.action]).aggregate(times=table.count()))
    values = np.empty(counted.num_rows, dtype=object)
    values[:] = counted["action"].to_pylist()
    return roles.space.scanned(values, counted["times"].to_pylist(), roles.action), tuple(values)


def _check_ids(engine: Engine, table: Any, roles: Roles, n: int, about: int) -> None:
    """Ids tell rows apart. Of very many rows they are counted only where they look repeated."""
    if roles.id is None or (n > MANY_IDS and about > CLEARLY_FEWER * n):
        return
    ids = int(engine.table(table.aggregate(ids=table[roles.id].nunique()))["ids"][0].as_py())
    if ids < n:
        raise DataError(
            f"column {roles.id!r}: {n - ids:,} of {n:,} rows repeat the id of another row. An id must be "
            "unique: remove repeated rows, or name the column that groups rows with cluster=."
        )


def _findings(
    table: Any, roles: Roles, labels: tuple[Any, ...], engine: Engine, unseen: Collection[str]
) -> list[tuple[str, Finding]]:
    """What must not be in any row, by column."""

    def gone(column: Any) -> Any:
        may_be_nan = engine.has_nan and column.type().is_floating()
        return column.isnull() | column.isnan() if may_be_nan else column.isnull()

    found: list[tuple[str, Finding]] = []

    def check(name: str, role: str, what: str = "") -> None:
        column = table[name] if role in KEYS else number(table[name], role)
        found.extend((name, each) for each in COLUMN[what or role](column, gone(column), name, role))

    for name in roles.rewards:
        check(name, "reward", "partly observed reward" if name in unseen else "")
    if roles.space.numeric:
        check(roles.action, "action")
    if isinstance(roles.propensity, str):
        check(roles.propensity, "propensity", "propensity" if roles.space.finite else "density")
    elif roles.propensity is not None:
        by_label = distribution_columns(roles.propensity, labels)
        whole = [number(table[name], "propensity") for name in by_label.values()]
        called = name_of(list(by_label.values()))
        found += [("", each) for each in distributions(whole, [gone(p) for p in whole], called)]
        taken = ibis_module().cases(*((table[roles.action] == a, p) for a, p in zip(labels, whole, strict=True)))
        found.append(("", probabilities(taken, taken.isnull(), called, "propensity")[1]))
    for role in ("weight", "keep_probability", *KEYS):
        if getattr(roles, role) is not None:
            check(getattr(roles, role), role.replace("_", "-"))
    return found


def _where(engine: Engine, table: Any, roles: Roles, finding: Finding, count: int, n: int) -> str:
    """Such as "3 of 1,000 values (first: id 17 = 25.0, …)"."""
    columns: dict[str, Any] = {}
    if roles.id is not None:
        columns["id"] = table[roles.id]
    if finding.shown is not None:
        columns["value"] = finding.shown
    text = f"{count:,} of {n:,} values"
    if not columns:
        return text
    bad = table.mutate(bad_row=finding.bad, **{f"shown_{k}": v for k, v in columns.items()})
    bad = bad.filter(bad.bad_row).select(**{k: bad[f"shown_{k}"] for k in columns})
    if "id" in columns:
        bad = bad.order_by("id")
    shown = []
    for row in engine.table(bad.limit(EXAMPLES)).to_pylist():
        name = f"id {row['id']!r}" if "id" in row else ""
        value = repr(row["value"]) if "value" in row else ""
        shown.append(" = ".join(part for part in (name, value) if part))
    more = ", …" if count > EXAMPLES else ""
    word = "first" if "id" in columns else "such as"
    return f"{text} ({word}: {', '.join(shown)}{more})"
