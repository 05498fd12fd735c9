"""A rule in SQL as a policy: ``sql:case when age > 40 then 'b' else 'a' end``, run by DuckDB over columns of the log.

The expression sees one row at a time: columns, constants, comparisons, CASE and functions whose result depends on
their arguments alone. Queries inside it, aggregates, windows and random numbers are refused, and DuckDB runs without
access to files, networks or settings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import PolicyError, did_you_mean, first_rows
from offpolicy.policies.on_rows import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpolicy._arrays import Array
    from offpolicy.logs.log import Log

PREFIX = "sql:"
PARTS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR",
}  # fmt: skip
CLAUSES = ("where_clause", "group_expressions", "having", "qualify", "sample", "modifiers")


@dataclass(frozen=True)
class SqlRule:
    """One action label per row, by an SQL expression over columns of the log.

    Parameters
    ----------
    expression : str
    reads : tuple of str
        The columns that it names.
    """

    expression: str
    reads: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, expression: str, columns: Sequence[str]) -> SqlRule:
        """A rule whose columns are among those of a log.

        >>> SqlRule.of("case when age > 40 then 'b' else 'a' end", ["age", "device"]).reads
        ('age',)
        """
        names = dict.fromkeys(
            _column(node["column_names"], columns) for node in _parsed(expression) if node["class"] == "COLUMN_REF"
        )
        return cls(expression, tuple(names))

    def on_rows(self, log: Log) -> Array:
        """(n,) labels."""
        frame = columns_of(log, self.reads).subset(self.reads) if self.reads else None
        n = len(log.action)
        if frame is None:
            raise PolicyError(f"sql: {self.expression!r} names no column. Use 'always:x' for one action.")
        connection = _connection()
        try:
            connection.register("rows", frame)
            labels = connection.execute(_query(self.expression)).fetchnumpy()["choice"]
        except Exception as error:  # DuckDB's own, of many kinds
            raise PolicyError(f"sql: {self.expression!r}: {error}") from error
        finally:
            connection.close()
        missing = np.ma.getmaskarray(labels) if np.ma.isMaskedArray(labels) else _none(labels)
        if missing.any():
            raise PolicyError(f"sql: the rule gives no action (NULL) in {first_rows(missing)}. Add an 'else'.")
        assert len(labels) == n
        return np.asarray(labels)


def _none(labels: Any) -> Any:
    array = np.asarray(labels)
    if array.dtype == object:
        return np.array([value is None or value != value for value in array], dtype=bool)  # noqa: PLR0124
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)


def _query(expression: str) -> str:
    return f"SELECT (\n{expression}\n) AS choice FROM rows"  # noqa: S608  (parsed and checked before it runs)


def _connection() -> Any:
    import duckdb

    settings = {"enable_external_access": "false", "threads": "1", "lock_configuration": "true"}
    return duckdb.connect(":memory:", config=settings)


def _parsed(expression: str) -> list[dict[str, Any]]:
    """The parts of an expression, each of a kind that looks at one row only."""
    connection = _connection()
    try:
        text = connection.execute("SELECT json_serialize_sql(?)", [_query(expression)]).fetchone()[0]
        tree = json.loads(text)
        if tree["error"]:
            raise PolicyError(f"sql: {expression!r}: {tree['error_message']}")
        node = tree["statements"][0]["node"]
        alone = len(tree["statements"]) == 1 and len(node.get("select_list", ())) == 1
        if not alone or any(node.get(clause) for clause in CLAUSES):
            raise PolicyError(f"sql: {expression!r} is more than one expression over columns.")
        parts = list(_walk(node["select_list"][0]))
        for part in parts:
            if part["class"] not in PARTS:
                raise PolicyError(
                    f"sql: {expression!r} uses {part['class'].lower().replace('_', ' ')}, which looks beyond one row. "
                    "Use columns, constants, comparisons, CASE and functions of them."
                )
        names = {part["function_name"].lower() for part in parts if part["class"] == "FUNCTION"}
        for name in sorted(names):
            kinds = connection.execute(
                "SELECT DISTINCT function_type, stability FROM duckdb_functions() WHERE function_name = ?", [name]
            ).fetchall()
            if not kinds:
                raise PolicyError(f"sql: {expression!r}: there is no function {name!r}.")
            if any(kind != ("scalar", "CONSISTENT") for kind in kinds):
                raise PolicyError(
                    f"sql: {expression!r} calls {name}(), whose result does not follow from its row. A policy's choice "
                    "may depend on the row alone."
                )
    finally:
        connection.close()
    return parts


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    """Every part of an expression."""
    if isinstance(node, dict):
        if "class" in node:
            yield node
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


def _column(names: Sequence[str], columns: Sequence[str]) -> str:
    """The column of the log that an SQL name stands for; upper and lower case are the same to SQL."""
    name = names[1] if len(names) > 1 and names[0] == "rows" else names[0]
    if name in columns:
        return name
    alike = [column for column in columns if column.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    raise PolicyError(f"sql: the log has no column {name!r}.{did_you_mean(name, columns)}")
