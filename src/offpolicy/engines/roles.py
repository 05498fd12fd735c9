"""Which column plays which part, and the log as an Ibis table with one column for each part.

The columns of that table are called x0, x1, … (context), action, reward, propensity, batch, cluster, weight,
id, fold and extra0, … (columns that policies name), whatever they are called in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy.engines.engine import ibis_module
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.splits.folds import hash_arithmetic, hash_constants

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Roles:
    """Column names by role."""

    context: tuple[str, ...]
    action: str
    reward: str
    propensity: str | tuple[str, ...] | Mapping[Any, str] | None = None
    batch: str | None = None
    cluster: str | None = None
    weight: str | None = None
    keep_probability: str | None = None
    id: str | None = None
    fold: str | None = None

    @property
    def distribution(self) -> tuple[str, ...]:
        """Columns of the whole logging distribution, when it was logged."""
        if self.propensity is None or isinstance(self.propensity, str):
            return ()
        if isinstance(self.propensity, Mapping):
            return tuple(self.propensity.values())
        return self.propensity

    def check(self, columns: Sequence[str]) -> None:
        """Every named column exists, and the context holds neither outcome nor action."""
        named: list[tuple[Any, str]] = [(c, "context") for c in self.context]
        named += [(self.action, "action"), (self.reward, "reward")]
        if isinstance(self.propensity, str):
            named.append((self.propensity, "propensity"))
        named += [(c, "propensity") for c in self.distribution]
        for role in ("batch", "cluster", "weight", "keep_probability", "id", "fold"):
            if getattr(self, role) is not None:
                named.append((getattr(self, role), role))
        for name, role in named:
            if not isinstance(name, str):
                raise DataError(f"{role}= must be a column name (str). Got {name!r} instead.")
            if name not in columns:
                raise DataError(
                    f"{role}={name!r}: the source has no such column.{did_you_mean(name, columns)}"
                )
        if len(set(self.context)) != len(self.context):
            raise DataError(
                f"context= lists a column twice: {list(self.context)}. List each column once."
            )
        for forbidden, role in ((self.action, "action"), (self.reward, "reward")):
            if forbidden in self.context:
                raise DataError(
                    f"context= contains the {role} column {forbidden!r}. The context is what was known "
                    f"before the action was taken; leave the {role} out."
                )


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
    table: Any,
    roles: Roles,
    labels: Sequence[Any] | None,
    extra: Sequence[str] = (),
    dialect: str | None = None,
) -> Any:
    """The log with one column for each part.

    ``labels`` are the actions, needed only to pick the logged action's propensity out of K columns;
    ``dialect`` is the engine's name, where the table does not know it.
    """
    ibis = ibis_module()
    columns: dict[str, Any] = {f"x{j}": table[name] for j, name in enumerate(roles.context)}
    columns["action"] = table[roles.action]
    columns["reward"] = number(table[roles.reward], "reward")
    if isinstance(roles.propensity, str):
        columns["propensity"] = number(table[roles.propensity], "propensity")
    elif roles.propensity is not None and labels is not None:
        by_label = distribution_columns(roles.propensity, labels)
        branches = [
            (table[roles.action] == label, number(table[name], "propensity"))
            for label, name in by_label.items()
        ]
        columns["propensity"] = ibis.cases(*branches)
    for role in ("batch", "cluster", "fold"):
        if getattr(roles, role) is not None:
            columns[role] = table[getattr(roles, role)]
    if roles.weight is not None:
        columns["weight"] = number(table[roles.weight], "weight")
    if roles.keep_probability is not None:
        kept = number(table[roles.keep_probability], "keep-probability")
        columns["weight"] = columns.get("weight", ibis.literal(1.0)) / kept
    unit = roles.cluster or roles.id
    if unit is not None:
        columns["id"] = integer_id(table[unit], table, dialect)
    for j, name in enumerate(extra):
        if name not in table.columns:
            raise DataError(
                f"a policy names the column {name!r}, which the source does not have."
                f"{did_you_mean(name, table.columns)}"
            )
        columns[f"extra{j}"] = table[name]
    return table.select(**columns)


def in_order(rows: Any) -> Any:
    """Rows in an order of their own, whoever reads them: by id, then by all they hold."""
    first = [name for name in ("id", "cluster") if name in rows.columns]
    return rows.order_by([*first, *(name for name in rows.columns if name not in first)])


def distribution_columns(propensity: Any, labels: Sequence[Any]) -> dict[Any, str]:
    """{action: column} of a whole logging distribution."""
    if isinstance(propensity, Mapping):
        missing = [label for label in labels if label not in propensity]
        if missing:
            raise DataError(
                f"propensity= names no column for action {missing[0]!r}. Name one for each."
            )
        return {label: propensity[label] for label in labels}
    if len(propensity) != len(labels):
        raise DataError(
            f"propensity= lists {len(propensity)} columns for {len(labels)} actions. Give one column for "
            "each action, in the order of `actions`, or a mapping {action: column}."
        )
    return dict(zip(labels, propensity, strict=True))


def integer_id(column: Any, table: Any, dialect: str | None = None) -> Any:
    """A row or cluster id as int64: integers as they are, text by 32 bits of its MD5 digest."""
    ibis = ibis_module()
    dtype = column.type()
    if dtype.is_integer():
        return column.cast("int64")
    if not dtype.is_string():
        raise DataError(
            f"column {column.get_name()!r} holds {dtype}. An id or cluster must be an integer or text."
        )
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


def fold_column(rows: Any, k: int, seed: int, repeat: int) -> Any:
    """Fold of each row, by the hash that `offpolicy.splits.folds.hash_folds` computes."""
    if "id" not in rows.columns:
        raise UsageError("folds by a hash need id= (or cluster=): a column that tells rows apart.")
    return hash_arithmetic(rows.id, k, hash_constants(seed, repeat)).cast("int32")
