"""A log brought over row by row: for logs that fit in memory, wherever they live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.compress import Cells, FoldPlan, codes_of, names_of
from offpolicy.engines.roles import in_order, normalized
from offpolicy.errors import UsageError
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.frame import Context
from offpolicy.splits.folds import hash_folds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.engines.engine import Engine
    from offpolicy.engines.roles import Roles
    from offpolicy.engines.validate import Facts

NEEDS_ID = (
    "rows of {name} have no order of their own, so folds need id=: a column that tells rows apart. "
    "Name one (or cluster=)."
)


def fetch(
    engine: Engine,
    table: Any,
    roles: Roles,
    facts: Facts,
    plan: FoldPlan,
    *,
    extra: Sequence[str] = (),
) -> Cells:
    """All rows, in the order of their ids (of the file, where DuckDB reads one without ids)."""
    rows = normalized(table, roles, facts.labels, extra)
    if "id" in rows.columns:
        rows = in_order(rows)
    elif roles.fold is None and engine.name != "duckdb":
        raise UsageError(NEEDS_ID.format(name=engine.name))
    found = engine.table(rows)
    return Cells(log_of(found, roles, facts.labels, extra), row_folds(found, plan, 0))


def row_folds(found: Any, plan: FoldPlan, first: int) -> Ints:
    """(R, n) folds of fetched rows: given labels, or the hash of ids (of row numbers without ids)."""
    if "fold" in found.column_names:
        return codes_of(found, "fold")[1][None, :]
    ids = (
        found["id"].to_numpy()
        if "id" in found.column_names
        else np.arange(first, first + found.num_rows)
    )
    return np.stack([hash_folds(ids, plan.k, plan.seed, repeat=r) for r in range(plan.repeats)])


def log_of(
    found: Any, roles: Roles, labels: tuple[Any, ...], extra: Sequence[str] = ()
) -> BanditLog:
    """A `BanditLog` of Arrow rows that have been checked already."""

    def optional(name: str) -> Floats | None:
        if name not in found.column_names:
            return None
        return np.array(found[name].to_numpy(), dtype=np.float64)

    def group(name: str) -> tuple[tuple[Any, ...] | None, Ints | None]:
        return codes_of(found, name) if name in found.column_names else (None, None)

    def frame(columns: Sequence[str], names: Sequence[str]) -> Any:
        return found.select(list(columns)).rename_columns(list(names)).to_pandas()

    context = Context(np.empty((found.num_rows, 0)))
    if roles.context:
        context = Context.from_frame(
            frame([f"x{j}" for j in range(len(roles.context))], roles.context)
        )
    source = frame([f"extra{j}" for j in range(len(extra))], extra) if extra else None
    batch_labels, batch = group("batch")
    taken, code = codes_of(found, "action")
    position = {label: i for i, label in enumerate(labels)}
    reward = optional("reward")
    assert reward is not None
    return BanditLog(
        context=context,
        actions=labels,
        action=np.array([position[label] for label in taken], dtype=np.int64)[code],
        reward=reward,
        propensity=optional("propensity"),
        batch=batch,
        batch_labels=batch_labels,
        cluster=group("cluster")[1],
        weight=optional("weight"),
        source=source,
        names=names_of(roles),
    )
