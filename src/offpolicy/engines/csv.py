"""The one reader of CSV files: every cell is text as written, and a column becomes numbers only where nothing is lost.

Who reads (DuckDB here, Spark elsewhere) parses lines into text; what a column holds is decided here, from all of
its cells:

- true and false in one spelling are booleans;
- whole numbers that are written as numbers are (no leading zeros, at most 64 bits) are integers;
- columns to compute with (reward, propensity, context, …) whose every cell is a number are numbers, cells such as
  ``NA`` or ``null`` being missing;
- labels (action, id, cluster, batch, …) stay text as written otherwise: ``1e3`` and ``1000`` are two labels.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.engines.duckdb import view_of
from offpolicy.engines.engine import ibis_module
from offpolicy.engines.files import listed, sql_files, sql_text
from offpolicy.errors import DataError
from offpolicy.logs.formats.lines import refuse_bomb
from offpolicy.logs.formats.parquet import different_names
from offpolicy.logs.frame import LARGEST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from offpolicy.engines.duckdb import DuckDB
    from offpolicy.engines.engine import Engine

HEADER_BYTES = 4_000_000
MOST_COLUMNS = 10_000
SPELLINGS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))
MISSING_WORDS = r"^(NA|N/A|n/a|na|NaN|nan|null|NULL|None|#N/A)?$"
LONGEST_MISSING_WORD = 4
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def header(path: str, comma: str | None = None) -> list[str]:
    """Column names of a CSV file, checked; errors say what kind of file it is instead."""
    raw = _beginning(path)
    if not raw.strip():
        raise DataError(f"{path!r} is empty. A CSV file starts with a line of column names.")
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\x00" in raw[:1000]:
        raise DataError(f"{path!r} is not UTF-8 text (it looks like UTF-16, or binary). Save it as UTF-8.")
    line_end = min((raw.find(end) for end in (b"\n", b"\r") if end in raw), default=-1)
    if line_end < 0 and len(raw) >= HEADER_BYTES:
        raise DataError(f"{path!r}: the first line is longer than {HEADER_BYTES:,} bytes.")
    try:
        text = raw.decode("utf-8-sig", errors="strict" if len(raw) < HEADER_BYTES else "ignore")
    except UnicodeDecodeError as error:
        row = raw[: error.start].count(b"\n")
        raise DataError(
            f"{path!r} is not UTF-8 text (line {row + 1}). Save it as UTF-8; older spreadsheets save Latin-1."
        ) from error
    try:
        rows = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=comma or separator(path))
        names = next(rows)
    except (csv.Error, StopIteration) as error:
        raise DataError(f"{path!r}: the line of column names cannot be read ({error}).") from error
    # As pandas calls the index that it writes without a name.
    names = [name or f"Unnamed: {j}" for j, name in enumerate(names)]
    return _checked_names(names, comma, path)


def _checked_names(names: list[str], comma: str | None, path: str) -> list[str]:
    if len(names) == 1 and comma is None:
        for other, word in OTHER_SEPARATORS.items():
            if other in names[0]:
                raise DataError(
                    f"{path!r}: the columns are separated by {word}, not by commas. Save it with commas, or read "
                    f"it yourself: pandas.read_csv({Path(path).name!r}, sep={other!r})."
                )
    if len(names) > MOST_COLUMNS:
        raise DataError(f"{path!r} has {len(names):,} columns; the limit is {MOST_COLUMNS:,}.")
    different_names(names, path)
    return names


def _beginning(path: str) -> bytes:
    """First bytes, unpacked; a file that unpacks to hundreds of times its size is refused."""
    try:
        if not path.endswith(".gz"):
            with Path(path).open("rb") as file:
                return file.read(HEADER_BYTES)
        refuse_bomb(path)
        with gzip.open(path) as packed:
            return packed.read(HEADER_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path!r} cannot be read: {error}.") from error


def separator(path: str) -> str:
    """Tab for .tsv, comma otherwise."""
    return "\t" if path.removesuffix(".gz").endswith(".tsv") else ","


def common_header(paths: Sequence[str], comma: str | None = None) -> list[str]:
    """Column names of CSV files, which must be the same in the same order."""
    names = header(paths[0], comma)
    for path in paths[1:]:
        if header(path, comma) != names:
            raise DataError(
                f"{path!r} and {paths[0]!r} have different columns, or a different order. Files of one log must "
                "have the same columns in the same order."
            )
    return names


def duckdb_text(paths: Sequence[str], comma: str | None = None) -> str:
    """SQL that gives the cells of CSV files as text; every file must have the columns of the first."""
    names = common_header(paths, comma)
    columns = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in names)
    comma = sql_text(comma or separator(paths[0]))
    return (  # names are quoted
        f"SELECT * FROM read_csv([{sql_files(paths)}], columns = {{{columns}}}, header = true, auto_detect = false, "  # noqa: S608
        f"delim = {comma}, quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, "
        "strict_mode = true, null_padding = false, ignore_errors = false, hive_partitioning = false)"
    )


def typed(engine: Engine, table: Any, labels: Collection[str], decimal: str = ".") -> Any:
    """The table with columns as what they hold; ``labels`` are columns whose texts tell things apart."""
    names = list(table.columns)
    first = _counted(engine, table, names, _plain)
    open_questions = [name for name in names if first[name]["whole"] < first[name]["present"]]
    asked = [name for name in open_questions if name in labels]
    second = _counted(engine, table, asked, lambda cell: _kinds(cell, decimal, label=True))
    asked = [name for name in open_questions if name not in labels]
    second |= _counted(engine, table, asked, lambda cell: _kinds(cell, decimal, label=False))
    columns: dict[str, Any] = {}
    for name in names:
        of = first[name] | second.get(name, {})
        columns[name] = _as_type(table[name], of, decimal, label=name in labels)
    return table.select(**columns)


def _counted(
    engine: Engine, table: Any, names: Sequence[str], kinds: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """How many cells of each column are of each kind, by one query whose length does not grow with the columns."""
    if not names:
        return {}
    long = table.select(*names).pivot_longer(ibis_module().selectors.all(), names_to="name", values_to="cell")
    sums = {what: kind.fill_null(False).cast("int64").sum() for what, kind in kinds(long.cell).items()}
    found = engine.table(long.group_by("name").aggregate(**sums)).to_pylist()
    none = dict.fromkeys(sums, 0)
    return dict.fromkeys(names, none) | {row.pop("name"): row for row in found}


def _plain(cell: Any) -> dict[str, Any]:
    """Cells that are there, and whole numbers as a computer writes them."""
    return {"present": cell.notnull(), "whole": cell.try_cast("int64").cast("string") == cell}


def _kinds(cell: Any, decimal: str, *, label: bool) -> dict[str, Any]:
    """Which cells of a column that is not all whole numbers could be what."""
    given = cell.notnull() if label else cell.notnull() & ~_is_missing(cell)
    number = _with_point(cell, "." if label else decimal).try_cast("float64")
    # 007 is a code; 1_000 is a number to some readers and a text to others.
    odd = cell.contains("_") | cell.contains("x") | cell.contains("X") | cell.re_search(r"^\s*[+-]?0[0-9]")
    beyond = (number.abs() > float(2**53)) & (number.abs() < float(2**1023))
    kinds = {"given": given, "large": _where(given & beyond, ~cell.re_search("[.eE]"))}
    if label:
        kinds["number"] = given & (number.cast("string") == cell)  # 0.50 and 0.5 are two labels
    else:
        kinds["number"] = _where(given & number.notnull(), ~odd)
    for i, (yes, no) in enumerate(SPELLINGS):
        kinds[f"yes{i}"] = given & ((cell == yes) | (cell == no))
    return kinds


def _where(condition: Any, costly: Any) -> Any:
    """Both hold; the second is looked at where the first does, since a pattern costs more than all else here."""
    return ibis_module().cases((condition, costly), else_=False)


def _is_missing(cell: Any) -> Any:
    # Not isin(…): DuckDB makes a join of a long list, which loses the order of the rows.
    return _where(cell.length() <= LONGEST_MISSING_WORD, cell.re_search(MISSING_WORDS))


def _with_point(cell: Any, decimal: str) -> Any:
    """Cells with a decimal point; where the comma is the decimal sign, a point (of thousands) makes no number."""
    if decimal == ".":
        return cell
    return ibis_module().cases((~cell.contains("."), cell.replace(decimal, ".")))


def _as_type(cell: Any, of: dict[str, int], decimal: str, *, label: bool) -> Any:
    ibis = ibis_module()
    given = of.get("given", of["present"])
    if given == 0:
        return cell if label else ibis.null("float64")
    for i, (yes, no) in enumerate(SPELLINGS):
        if of.get(f"yes{i}") == given:
            return ibis.cases((cell == yes, True), (cell == no, False))
    kind = "int64" if of["whole"] == given else "float64"
    if kind == "float64" and (of["number"] != given or of["large"]):
        return cell
    number = _with_point(cell, "." if label else decimal).try_cast(kind)
    # Inside a condition, where DuckDB does not make it the reader's own cast, which knows no missing words.
    return number if given == of["present"] else ibis.cases((~_is_missing(cell), number))


def csv_files(
    paths: list[str], options: dict[str, Any], labels: Collection[str], separator: str | None = None, decimal: str = "."
) -> tuple[DuckDB, Any]:
    """DuckDB and the table of CSV files, with columns as what they hold."""
    duck, cells = view_of(paths, duckdb_text(paths, separator), options)
    try:
        return duck, typed(duck, cells, labels, decimal)
    except BaseException:
        duck.close()
        raise


def read_csv(
    source: str | Sequence[str],
    labels: Collection[str] = (),
    *,
    separator: str | None = None,
    decimal: str = ".",
    rows: int | None = None,
) -> Any:
    """CSV files as a pandas frame, read as `scan` reads them.

    Parameters
    ----------
    source : path, pattern, or paths
    labels : column names
        Columns whose texts tell things apart.
    separator, decimal : str
        How the files are written; default: by their names, and a point.
    rows : int, optional
        The first ones only.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    paths = listed(source) if isinstance(source, str) else list(source)
    duck, cells = csv_files(paths, {}, labels, separator, decimal)
    try:
        table = duck.table(cells if rows is None else cells.limit(rows))
    finally:
        duck.close()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_int64(column.type) and column.null_count:  # pandas makes floats of these
            bounds = pc.min_max(column).as_py().values()
            if any(v is not None and abs(v) > LARGEST_WHOLE for v in bounds):
                raise DataError(
                    f"column {name!r} has integers beyond 2^53 and missing values, and no numeric type of "
                    "a frame can store both. Fill in the missing values, or write Parquet and use offpolicy.scan."
                )
    return table.to_pandas()
