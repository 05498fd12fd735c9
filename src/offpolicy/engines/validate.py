"""Checks of a log by queries: one pass that counts bad rows, then examples of the first kind found.

The sentences are those of a log in memory; examples are values (with ids where the log has them) instead
of row numbers, which rows behind a query engine do not have.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.engine import Engine, ibis_module
from offpolicy.engines.roles import Roles, normalized, number
from offpolicy.errors import DataError
from offpolicy.logs import messages
from offpolicy.logs.actions import distribution_columns
from offpolicy.logs.bandit import name_of
from offpolicy.logs.checks import LARGEST, SMALLEST, SUM_TOLERANCE, computable

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.logs.kinds import ActionSpace

EXAMPLES = 3
MANY_IDS = 2_000_000
CLEARLY_FEWER = 0.9


@dataclass(frozen=True)
class Facts:
    """What the checking pass learned.

    Attributes
    ----------
    n : int
        Rows.
    space : ActionSpace
        The actions, as `BanditLog` has them.
    logged : tuple
        The actions that were logged, a part of ``labels``.
    distinct : dict
        About how many distinct values each context column and the reward (the widest metric) have.
    nulls : dict
        Missing values of each context column.
    """

    n: int
    space: ActionSpace
    logged: tuple[Any, ...]
    distinct: dict[str, int]
    nulls: dict[str, int]

    @property
    def labels(self) -> tuple[Any, ...]:
        """The K actions, sorted as `BanditLog` sorts them."""
        return self.space.labels


@dataclass(frozen=True)
class _Check:
    """A kind of bad row: which rows, what to show of them, and the sentence."""

    key: str
    bad: Any
    shown: Any
    sentence: Callable[[str], str]


def facts(engine: Engine, table: Any, roles: Roles) -> Facts:
    """Check every row of the log and learn what compressing it needs to know.

    Raises
    ------
    DataError
        For the first kind of bad row, with how many there are and examples.
    """
    rows = normalized(table, roles, None)
    known, logged = _listed(engine, rows, roles)
    checks = _checks(table, roles, known.labels, engine)
    queries: dict[str, Any] = {"rows": table.count()}
    for check in checks:
        # A comparison with NULL is NULL: only rows known to be bad count.
        queries[check.key] = check.bad.fill_null(False).cast("int32").sum()
    queries |= {**_reward_queries(table, roles), **_action_queries(table, roles)}
    if isinstance(roles.propensity, str):
        queries["highest"] = number(table[roles.propensity], "propensity").max()
    if roles.id is not None:
        queries["ids"] = table[roles.id].approx_nunique()
    if roles.weight is not None:
        queries["weights"] = number(table[roles.weight], "weight").max()
    for j, name in enumerate(roles.context):
        queries[f"nulls{j}"] = table[name].isnull().cast("int32").sum()
        queries[f"distinct{j}"] = table[name].approx_nunique()
    row = engine.table(table.aggregate(**queries)).to_pylist()[0]
    n = int(row["rows"])
    if n == 0:
        raise DataError(messages.EMPTY)
    _raise_first(engine, table, roles, checks, row)
    for j, name in enumerate(roles.rewards):
        _check_ends(row[f"reward{j}_min"], row[f"reward{j}_max"], name, "reward")
    _check_ids(engine, table, roles, n, int(row.get("ids", n)))
    if roles.weight is not None:
        if not row["weights"]:
            raise DataError(messages.no_weight(roles.weight))
        _check_ends(0.0, row["weights"], roles.weight, "weight")
    distinct = {name: int(row[f"distinct{j}"]) for j, name in enumerate(roles.context)}
    distinct["reward"] = max(int(row[f"distinct_reward{j}"]) for j in range(len(roles.rewards)))
    nulls = {name: int(row[f"nulls{j}"]) for j, name in enumerate(roles.context)}
    return Facts(n, _ranged(known, row, roles), logged, distinct, nulls)


def _listed(engine: Engine, rows: Any, roles: Roles) -> tuple[ActionSpace, tuple[Any, ...]]:
    """The actions, where they can be counted, and which of them were logged."""
    if roles.space.numeric:
        return roles.space, ()
    counted = engine.table(rows.group_by("action").aggregate(times=rows.count()))
    values = np.empty(counted.num_rows, dtype=object)
    values[:] = counted["action"].to_pylist()
    return roles.space.scanned(values, counted["times"].to_pylist(), roles.action), tuple(values)


def _action_queries(table: Any, roles: Roles) -> dict[str, Any]:
    """Ends of actions that are numbers."""
    if not roles.space.numeric:
        return {}
    taken = number(table[roles.action], "action")
    return {"action_min": taken.min(), "action_max": taken.max()}


def _ranged(known: ActionSpace, row: dict[str, Any], roles: Roles) -> ActionSpace:
    """The actions, where they are numbers, from their ends."""
    if not known.numeric:
        return known
    return known.scanned(np.array([row["action_min"], row["action_max"]], dtype=np.float64), [], roles.action)


def _reward_queries(table: Any, roles: Roles) -> dict[str, Any]:
    """Ends of each metric and about how many values it has."""
    queries: dict[str, Any] = {}
    for j, name in enumerate(roles.rewards):
        reward = number(table[name], "reward")
        queries |= {f"reward{j}_min": reward.min(), f"reward{j}_max": reward.max()}
        queries[f"distinct_reward{j}"] = table[name].approx_nunique()
    return queries


def _check_ends(low: Any, high: Any, column: str, role: str) -> None:
    """The smallest and largest value of a column can be computed with."""
    computable(np.array([low, high], dtype=np.float64), column, role)


def _check_ids(engine: Engine, table: Any, roles: Roles, n: int, about: int) -> None:
    """Ids tell rows apart. Of very many rows they are counted only where they look repeated."""
    if roles.id is None or (n > MANY_IDS and about > CLEARLY_FEWER * n):
        return
    ids = int(engine.table(table.aggregate(ids=table[roles.id].nunique()))["ids"][0].as_py())
    if ids < n:
        raise DataError(
            f"column {roles.id!r}: {n - ids:,} of {n:,} rows repeat the id of another row. An id tells rows "
            "apart: remove repeated rows, or name what groups rows with cluster=."
        )


def _raise_first(engine: Engine, table: Any, roles: Roles, checks: list[_Check], row: dict[str, Any]) -> None:
    """Raise for the first kind of bad row."""
    for check in checks:
        if not row[check.key]:
            continue
        where = _where(engine, table, roles, check, int(row[check.key]), int(row["rows"]))
        if check.key == "p_high":
            highest = float(row["highest"])
            raise DataError(messages.probability_high(str(roles.propensity), "propensity", where, highest))
        raise DataError(check.sentence(where))


def _checks(table: Any, roles: Roles, labels: tuple[Any, ...], engine: Engine) -> list[_Check]:
    found = []
    for j, name in enumerate(roles.rewards):
        found += _finite(table, name, "reward", f"reward{j}", engine)
    if roles.space.numeric:
        found += _finite(table, roles.action, "action", "action", engine)
    if isinstance(roles.propensity, str) and not roles.space.finite:
        found.append(_density(table, roles.propensity, engine))
    elif isinstance(roles.propensity, str):
        found += _probability(table, roles.propensity, "propensity", "p", engine)
    elif roles.propensity is not None:
        found += _distribution(table, roles, labels, engine)
    if roles.weight is not None:
        found += _weight(table, roles.weight, engine)
    if roles.keep_probability is not None:
        found += _probability(table, roles.keep_probability, "keep-probability", "keep", engine)
    for role in ("batch", "cluster", "id", "fold"):
        name = getattr(roles, role)
        if name is not None:
            found.append(_present(table, name, role, engine))
    return found


def _missing(column: Any, engine: Engine) -> Any:
    return column.isnull() | column.isnan() if engine.has_nan else column.isnull()


def _finite(table: Any, name: str, role: str, key: str, engine: Engine) -> list[_Check]:
    column = number(table[name], role)
    size = column.abs()
    bad = _missing(column, engine) | (size > sys.float_info.max)
    return [
        _Check(key, bad, column, lambda where: messages.not_finite(name, role, where)),
        _Check(f"{key}_large", size > LARGEST, column, lambda where: messages.too_large(name, role, where)),
    ]


def _weight(table: Any, name: str, engine: Engine) -> list[_Check]:
    column = number(table[name], "weight")
    return [
        *_finite(table, name, "weight", "weight", engine),
        _Check("weight_low", column < 0, column, lambda where: messages.negative_weight(name, where)),
    ]


def _present(table: Any, name: str, role: str, engine: Engine) -> _Check:
    column = table[name]
    missing = _missing(column, engine) if column.type().is_floating() else column.isnull()
    return _Check(f"{role}_missing", missing, None, lambda where: messages.group_missing(name, role, where))


def _probability(table: Any, name: str, role: str, key: str, engine: Engine) -> list[_Check]:
    column = number(table[name], role)
    missing = _missing(column, engine)
    return [
        _Check(f"{key}_missing", missing, None, lambda where: messages.probability_missing(name, role, where)),
        _Check(
            f"{key}_low", ~missing & (column <= 0), column, lambda where: messages.probability_low(name, role, where)
        ),
        _Check(
            f"{key}_tiny",
            ~missing & (column < SMALLEST),
            column,
            lambda where: messages.probability_vanishing(name, role, where),
        ),
        _Check(
            f"{key}_high",
            ~missing & (column > 1),
            column,
            lambda where: messages.probability_high(name, role, where, float("inf")),
        ),
    ]


def _density(table: Any, name: str, engine: Engine) -> _Check:
    column = number(table[name], "propensity")
    bad = _missing(column, engine) | (column < SMALLEST) | (column > LARGEST)
    return _Check("density", bad, column, lambda where: messages.density_bad(name, where))


def _distribution(table: Any, roles: Roles, labels: tuple[Any, ...], engine: Engine) -> list[_Check]:
    ibis = ibis_module()
    by_label = distribution_columns(roles.propensity, labels)
    columns = [number(table[name], "propensity") for name in by_label.values()]
    text = name_of(list(by_label.values()))
    outside = ibis.or_(*(_missing(c, engine) | (c < 0) | (c > 1 + SUM_TOLERANCE) for c in columns))
    total = columns[0]
    for column in columns[1:]:
        total = total + column
    positive = ibis.cases(
        *((table[roles.action] == label, column) for label, column in zip(labels, columns, strict=True))
    )
    return [
        _Check(
            "p_outside",
            outside,
            None,
            lambda where: (
                f"{text!r}: {where} hold entries that are missing or outside [0, 1]. "
                "Propensity columns are the logging policy's probabilities of each action."
            ),
        ),
        _Check(
            "p_sum",
            (total - 1).abs() > SUM_TOLERANCE,
            total,
            lambda where: (
                f"{text!r}: {where} do not sum to 1 over the actions. Give one column "
                "for every action, in the order of `actions`."
            ),
        ),
        _Check("p_low", positive <= 0, positive, lambda where: messages.probability_low(text, "propensity", where)),
    ]


def _where(engine: Engine, table: Any, roles: Roles, check: _Check, count: int, n: int) -> str:
    """Such as "3 of 1,000 values (first: id 17 = 25.0, …)"."""
    columns: dict[str, Any] = {}
    if roles.id is not None:
        columns["id"] = table[roles.id]
    if check.shown is not None:
        columns["value"] = check.shown
    text = f"{count:,} of {n:,} values"
    if not columns:
        return text
    bad = table.mutate(bad_row=check.bad, **{f"shown_{k}": v for k, v in columns.items()})
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
