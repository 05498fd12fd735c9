"""A rule in SQL as a policy: ``sql:case when age > 40 then 'b' else 'a' end``, run by DuckDB over columns of the log.

The expression sees one row at a time: columns, constants, comparisons, CASE and functions whose result depends on
their arguments alone. Queries inside it, aggregates, windows and random numbers are refused, and DuckDB runs without
access to files, networks or settings.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.errors import DataError, PolicyError, did_you_mean, first_rows
from offpolicy.logs.formats.lines import open_text, plain_file, refuse_bomb
from offpolicy.logs.formats.parquet import different_names, refuse_large_texts, schema_of
from offpolicy.policies.on_rows import columns_of
from offpolicy.policies.protocol import key_columns
from offpolicy.policies.tables import BoundTable, Table

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from offpolicy._arrays import Array, Bools, Floats
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
            raise PolicyError(f"sql: {self.expression!r} uses no column. For one action, use 'always:x'.")
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
            raise PolicyError(f"sql: {expression!r} must be a single expression over columns.")
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
                    f"sql: {expression!r} calls {name}(), whose result depends on more than the row. A policy may "
                    "depend only on the row."
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


NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
MISSING = {"", "NA", "N/A", "n/a", "na", "NaN", "nan", "null", "NULL", "None", "#N/A"}
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def policy_table(path: str, action: str, context: Sequence[str]) -> Table | TableFile:
    """The policy that a file of (context columns, action, probability) holds."""
    try:
        plain_file(path)
        is_parquet = path.lower().endswith((".parquet", ".pq"))
        table = _parquet(path) if is_parquet else _cells(path)
    except DataError as error:
        raise PolicyError(f"the policy's table cannot be read: {error}") from error
    names = [str(name) for name in table]
    for column in (action, "probability"):
        if column not in names:
            raise PolicyError(
                f"{path}: a policy table needs context columns, the action column {action!r} and 'probability'. Its "
                f"columns are {names}."
            )
    keys = [name for name in context if name in names]
    if is_parquet:
        return Table(table, context=keys, action=action, probability="probability")
    return TableFile(path, {name: table[name] for name in (*keys, action, "probability")}, action)


def _parquet(path: str) -> Any:
    import pandas as pd

    different_names(schema_of(path).names, path)
    refuse_large_texts([path])
    return pd.read_parquet(path, partitioning=None)


def _cells(path: str) -> dict[str, list[str]]:
    """Columns of a CSV file, every cell as text."""
    if path.endswith(".gz"):
        refuse_bomb(path)
    try:
        with open_text(path) as file:
            rows = list(csv.reader(file, strict=True))
    except (csv.Error, OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path!r} is not a CSV file in UTF-8 ({error}).") from error
    rows = [row for row in rows if row]
    if not rows:
        raise DataError(f"{path!r} is empty. A CSV file starts with a line of column names.")
    names = [rows[0][0].removeprefix("\ufeff"), *rows[0][1:]]
    different_names(names, path)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"{path!r}: row {number} has {len(row)} cells for {len(names)} columns.")
    return {name: [row[j] for row in rows[1:]] for j, name in enumerate(names)}


@dataclass(frozen=True, eq=False)
class TableFile:
    """A policy table whose cells are text until the log says what its columns hold."""

    path: str
    cells: dict[str, list[str]]  # the context's columns, then the action's, then the probability's
    action: str
    respects_eligible: ClassVar[bool] = False

    def bind(self, actions: tuple[Hashable, ...]) -> BoundTableFile:
        """Return the policy for these actions, in this order."""
        known: dict[str, Hashable] = {}
        for label in actions:
            if known.setdefault(str(label), label) is not label:
                raise PolicyError(
                    f"{self.path}: the log's actions {known[str(label)]!r} and {label!r} look the same as text. Give "
                    "the policy as a Parquet table, which distinguishes numbers from text."
                )
        for row, text in enumerate(self.cells[self.action]):
            if text not in known:
                raise PolicyError(
                    f"{self.path}: row {row} has {text!r}, which is not an action of the log."
                    f"{did_you_mean(text, list(known))}"
                )
        labels = [known[text] for text in self.cells[self.action]]
        return BoundTableFile(self, actions, labels)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Raise: a table has an order of actions only once it is bound."""
        raise PolicyError(f"{self.path}: bind the policy table to the actions of a log first.")


@dataclass(frozen=True, eq=False)
class BoundTableFile:
    """A `TableFile` that knows the log's actions, and is read once per kind of context."""

    file: TableFile
    actions: tuple[Hashable, ...]
    labels: list[Hashable]
    respects_eligible: ClassVar[bool] = False
    _read: dict[str, BoundTable] = field(default_factory=dict, repr=False)

    def bind(self, actions: tuple[Hashable, ...]) -> BoundTableFile:
        """Return the policy with its columns in the order of ``actions``."""
        return self.file.bind(actions)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the table's distribution for each row; (n, K)."""
        keys = [name for name in self.file.cells if name not in {self.file.action, "probability"}]
        kinds = "".join(values.dtype.kind for values in key_columns(context, keys, "Table"))
        if kinds not in self._read:
            self._read[kinds] = self._typed(keys, kinds).bind(self.actions)
        return self._read[kinds].probabilities(context)

    def _typed(self, keys: Sequence[str], kinds: str) -> Table:
        import pandas as pd

        cells, path = self.file.cells, self.file.path
        columns: dict[str, Any] = {
            name: _as_kind(cells[name], kind, name, path) for name, kind in zip(keys, kinds, strict=True)
        }
        columns["probability"] = _as_kind(cells["probability"], "f", "probability", path)
        labels = np.empty(len(self.labels), dtype=object)
        labels[:] = self.labels
        frame = pd.DataFrame(columns | {self.file.action: labels}, dtype=object)
        frame["probability"] = frame["probability"].astype(float)
        return Table(frame, context=keys, action=self.file.action, probability="probability")


def _as_kind(cells: Sequence[str], kind: str, name: str, path: str) -> Array:
    """Cells as what a column of the log holds: numbers, booleans, or text."""
    out = np.empty(len(cells), dtype=object)
    for row, text in enumerate(cells):
        if kind not in "biuf":
            out[row] = text or None
            continue
        plain = text.strip()
        if plain in MISSING:
            out[row] = float("nan")
        elif kind == "b" and plain in BOOLEANS:
            out[row] = BOOLEANS[plain]
        elif kind != "b" and NUMBER.fullmatch(plain):
            out[row] = int(plain) if WHOLE.fullmatch(plain) else float(plain)
        else:
            what = "true or false" if kind == "b" else "numbers"
            raise PolicyError(f"{path}: column {name!r} has {text!r} in row {row}, but {what} in the log.")
    return out
