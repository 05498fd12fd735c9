"""The log as an Ibis table with one column for each part, in an order that every pass and engine repeats.

The columns of that table are called x0, x1, … (context), action, reward, metric0, … (further rewards), propensity,
p0, … (of each action, where the whole distribution was logged), batch, cluster, fold, eligible, weight, id and name (of
a row), unit (the number from which folds follow) and extra0, … (columns that policies name), whatever they are called
in the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.engines.engine import ibis_module
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs.actions import distribution_columns
from offpolicy.splits.folds import in_half
from offpolicy.splits.hashing import fold_of, hash_constants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.roles import Roles
    from offpolicy.splits.folds import Plan

MAX_LEVELS = 1_000_000


def number(column: Any, role: str) -> Any:
    """A numeric or boolean column as float64."""
    dtype = column.type()
    if dtype.is_boolean():
        return ibis_module().cases((column, 1.0), (~column, 0.0)).cast("float64")
    if dtype.is_numeric():
        return column.cast("float64")
    raise DataError(
        f"column {column.get_name()!r} holds {dtype}, not numbers. The {role} must be numeric; "
        "convert the column before scanning."
    )


def normalized(
    table: Any, roles: Roles, labels: Sequence[Any] | None, extra: Sequence[str] = (), dialect: str | None = None
) -> Any:
    """The log with one column for each part.

    ``labels`` are the actions, needed only for the columns of a whole distribution;
    ``dialect`` is the engine's name, where the table does not know it.
    """
    ibis = ibis_module()
    columns: dict[str, Any] = {f"x{j}": table[name] for j, name in enumerate(roles.context)}
    columns["action"] = number(table[roles.action], "action") if roles.space.numeric else table[roles.action]
    columns["reward"] = number(table[roles.reward], "reward")
    columns |= {f"metric{j}": number(table[name], "reward") for j, name in enumerate(roles.further)}
    if isinstance(roles.propensity, str):
        columns["propensity"] = number(table[roles.propensity], "propensity")
    elif roles.propensity is not None and labels is not None:
        by_label = distribution_columns(roles.propensity, labels)
        whole = {label: number(table[name], "propensity") for label, name in by_label.items()}
        columns["propensity"] = ibis.cases(*((table[roles.action] == label, p) for label, p in whole.items()))
        columns |= {f"p{j}": p for j, p in enumerate(whole.values())}
    for role in ("batch", "cluster", "fold"):
        if getattr(roles, role) is not None:
            columns[role] = table[getattr(roles, role)]
    if roles.eligible is not None:
        columns["eligible"] = table[roles.eligible]
    if roles.weight is not None:
        columns["weight"] = number(table[roles.weight], "weight")
    if roles.keep_probability is not None:
        kept = number(table[roles.keep_probability], "keep-probability")
        columns["weight"] = columns.get("weight", ibis.literal(1.0)) / kept
    columns |= _identity(table, roles, dialect)
    check_extra(table, extra)
    return table.select(**columns, **{f"extra{j}": table[name] for j, name in enumerate(extra)})


def check_extra(table: Any, extra: Sequence[str]) -> None:
    """Columns that policies name are there."""
    for name in extra:
        if name not in table.columns:
            raise DataError(
                f"a policy names the column {name!r}, which the source does not have."
                f"{did_you_mean(name, table.columns)}"
            )


def unit_rows(table: Any, roles: Roles, extra: Sequence[str]) -> Any:
    """The columns of units of several rows, as they are called in the source."""
    check_extra(table, extra)
    kind = ibis_module().expr.datatypes
    columns = {}
    for name in dict.fromkeys([*roles.columns, *extra]):
        # Engines differ in what they make of decimals; a reward is a float64 everywhere.
        decimal = isinstance(table[name].type(), kind.Decimal)
        columns[name] = table[name].cast("float64") if decimal else table[name]
    return table.select(**columns)


def levels_of(engine: Engine, table: Any, names: Mapping[str, str]) -> dict[str, list[Any]]:
    """Sorted distinct values of columns of text, by what they are called; ``names`` are those in the table."""
    levels = {}
    for called, name in names.items():
        if table[name].type().is_string():
            present = engine.table(table.select(name).distinct().limit(MAX_LEVELS))
            levels[called] = sorted(v for v in present[name].to_pylist() if v is not None)
    return levels


def _identity(table: Any, roles: Roles, dialect: str | None) -> dict[str, Any]:
    """Who a row is, and the number from which its fold follows."""
    columns: dict[str, Any] = {}
    if roles.id is not None:
        columns["id"] = integer_id(table[roles.id], table, dialect)
        if table[roles.id].type().is_string():
            columns["name"] = table[roles.id]  # two texts may share a number
    unit = roles.cluster or roles.id
    if unit is not None:
        columns["unit"] = integer_id(table[unit], table, dialect)
    return columns


NEEDS_ID = (
    "rows of {name} have no fixed order, so folds need id=, a column that identifies rows. Name one (or cluster=)."
)


def in_order(rows: Any, roles: Roles, engine: Engine) -> Any:
    """Rows in an order of their own, whoever reads them: by id, of the file, or by all they hold."""
    if roles.id is not None:
        return rows.order_by([name for name in ("id", "name") if name in rows.columns])
    if engine.keeps_order:
        return rows
    if "unit" not in rows.columns and roles.fold is None:
        raise UsageError(NEEDS_ID.format(name=engine.name))
    first = [name for name in ("unit", "cluster") if name in rows.columns]
    return rows.order_by([*first, *(name for name in rows.columns if name not in first)])


def numbered(rows: Any, engine: Engine) -> Any:
    """Rows with the number from which folds follow, also where it is the number of the row."""
    if "unit" in rows.columns:
        return rows
    if not engine.keeps_order:
        raise UsageError(NEEDS_ID.format(name=engine.name))
    return rows.mutate(unit=ibis_module().row_number().cast("int64"))


def _wrapped(column: Any) -> Any:
    """An unsigned integer of 64 bits as the signed one with the same bits, as numpy casts it."""
    ibis = ibis_module()
    half = ibis.literal(2**63, type="uint64")
    above = (column - half).cast("int64") - ibis.literal(2**63 - 1, type="int64") - 1
    return ibis.cases((column >= half, above), else_=column.try_cast("int64"))


def integer_id(column: Any, table: Any, dialect: str | None = None) -> Any:
    """A row or cluster id as int64: integers as they are, text by 32 bits of its MD5 digest."""
    ibis = ibis_module()
    dtype = column.type()
    if dtype.is_integer():
        return _wrapped(column) if str(dtype).strip("!") == "uint64" else column.cast("int64")
    if not dtype.is_string():
        raise DataError(f"column {column.get_name()!r} holds {dtype}. An id or cluster must be an integer or text.")
    digest = _digest(column, dialect or _dialect_of(table))
    digits = ibis.literal("0123456789abcdef")
    # Engines find a position as a 32-bit integer, which the sum would overflow: 32 bits are exact as floats.
    value: Any = ibis.literal(0.0)
    for place in range(8):
        value = value * 16.0 + digits.find(digest.substr(place, 1)).cast("float64")
    return value.cast("int64")


def _digest(column: Any, dialect: str) -> Any:
    """Hexadecimal MD5, by the engine's own function: Ibis has no word for it that all engines know."""
    ibis = ibis_module()

    @ibis.udf.scalar.builtin(name="md5", signature=(("string",), "string"))
    def md5(text: Any) -> Any: ...

    @ibis.udf.scalar.builtin(name="to_hex", signature=(("string",), "string"))
    def to_hex(raw: Any) -> Any: ...

    return to_hex(md5(column)) if dialect == "bigquery" else md5(column)


def _dialect_of(table: Any) -> str:
    try:
        return str(table.get_backend().name)
    except ibis_module().common.exceptions.IbisError:
        return "duckdb"


def fold_columns(rows: Any, plan: Plan) -> dict[str, Any]:
    """Fold of each row in every repetition, and its half where the number of folds is odd."""
    columns: dict[str, Any] = {}
    for r in range(plan.repeats):
        fold = fold_of(rows.unit, plan.k, hash_constants(plan.seed, r))
        columns[f"fold{r}"] = fold.cast("int32")
        if plan.k % 2:
            half = in_half(fold, rows.unit, plan.k, plan.seed, r)
            columns[f"half{r}"] = half.cast("int32")
    return columns
