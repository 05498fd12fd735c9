"""Tables in the files people have: CSV of any make, Parquet, JSON lines, and traces of decisions.

Nothing is guessed quietly. The separator of a CSV follows from its first line; a decimal comma is named and asked
for; which of the JSON formats a file has follows from its first object.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from offpolicy.engines.files import Partitions, common_schema, listed
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import JSON, format_of, lines
from offpolicy.logs.formats.lines import plain_file
from offpolicy.logs.formats.parquet import refuse_large_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offpolicy.logs.formats.lines import Reading

Kind: TypeAlias = str  # "parquet", "csv", "json lines", or the name of a format

SEPARATORS = (",", ";", "\t", "|")
SUFFIXES: dict[str, Kind] = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    **dict.fromkeys(JSON, "json lines"),
}  # fmt: skip
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
WHOLE = re.compile(r"\s*[-+]?\d+\s*")
SAMPLE_LINES = 1_000
LONGEST_LINE = 5_000_000  # characters of a line that is looked at


@dataclass(frozen=True)
class Dialect:
    """How a CSV is written."""

    separator: str = ","
    decimal: str = "."


@dataclass(frozen=True, eq=False)
class Table:
    """A file that was read.

    Attributes
    ----------
    frame : pandas.DataFrame
    kind : str
    dialect : Dialect or None
        Of a CSV.
    reading : Reading or None
        Of a trace of decisions, which knows its roles and the lines that were left out.
    """

    frame: Any
    kind: Kind
    dialect: Dialect | None = None
    reading: Reading | None = None


def read_table(
    path: str,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    rows: int | None = None,
    labels: Sequence[str] = (),
) -> Table:
    """Read a file as pandas.

    Parameters
    ----------
    path : file
    separator, decimal : str, optional
        Of a CSV; default: the separator that its first line shows, and a point.
    rows : int, optional
        Read the first ones only, of a CSV or Parquet file.
    labels : column names
        Columns of a CSV whose texts tell things apart and stay as written.
    """
    paths = listed(path)
    file = Path(paths[0])
    kind = kind_of(file)
    if kind == "parquet":
        return Table(_parquet(path, paths, rows), kind)
    if kind == "csv":
        if separator is not None and len(separator) != 1:
            raise UsageError(f"--separator {separator!r}: must be one character.")
        head = first_lines(file, SAMPLE_LINES)
        dialect = Dialect(separator or separator_of(head[0] if head else ""), decimal or ".")
        if decimal is None:
            _check_decimals(file, head, dialect.separator)
        from offpolicy.engines.csv import read_csv

        frame = read_csv(paths, labels, separator=dialect.separator, decimal=dialect.decimal, rows=rows)
        return Table(frame, kind, dialect)
    known = format_of(file)
    if known is None:
        return Table(lines.read_table(file), kind)
    reading = known.read(file)
    return Table(reading.frame, kind, reading=reading)


def _parquet(source: str, paths: Sequence[str], rows: int | None) -> Any:
    """Parquet files one after the other, as pandas; keys of their folders are columns of text."""
    import pandas as pd
    import pyarrow.parquet as pq

    schema = common_schema(paths)
    refuse_large_texts(paths)
    partitions = Partitions.of(source, paths)
    partitions.refuse_columns(schema.names, paths[0])
    if rows is not None:
        with pq.ParquetFile(paths[0]) as first:
            batch = next(first.iter_batches(batch_size=rows), None)
        if batch is not None:
            return batch.to_pandas()
    frames = [pd.read_parquet(path, partitioning=None).assign(**partitions.values(path)) for path in paths]
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def kind_of(file: Path) -> Kind:
    """What a file holds, by its name and, for JSON, its first line."""
    plain_file(file)
    known = format_of(file)
    if known is not None:
        return known.name
    suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{file.name}: unknown file type. Give CSV, Parquet, JSON lines or dsjson.")
    return SUFFIXES[suffix]


def first_lines(file: Path, number: int) -> list[str]:
    """The first lines of a text file, gzipped or not, without those that are blank."""
    from offpolicy.logs.formats.lines import open_text

    try:
        with open_text(file) as text:
            each = iter(lambda: text.readline(LONGEST_LINE), "")
            return [line for line in islice(each, number) if line.strip()]
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{file.name} is cut off or damaged: {error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name} is not UTF-8 text ({error.reason}). Save it as UTF-8.") from error


def separator_of(header: str) -> str:
    """The separator that the first line of a CSV shows: the one that splits it into most names.

    >>> separator_of("age;device"), separator_of("age,device"), separator_of('"a;b",c,d')
    (';', ',', ',')
    """
    try:
        fields = {s: len(next(csv.reader([header], delimiter=s), [])) for s in SEPARATORS}
    except csv.Error:  # one field of megabytes: whoever reads the file says so
        return ","
    return max(SEPARATORS, key=lambda s: fields[s])


def decimal_commas(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns whose every value is a number and some are written with a decimal comma.

    >>> decimal_commas(["p", "name"], [["0,5", "a"], ["1", "b,c"]])
    ['p']
    """
    numeric, commas = set(range(len(names))), set()
    for row in rows:
        for j, value in enumerate(row[: len(names)]):
            if not value.strip():
                continue
            if DECIMAL_COMMA.fullmatch(value):
                commas.add(j)
            elif not WHOLE.fullmatch(value):
                numeric.discard(j)
    return [names[j] for j in sorted(numeric & commas)]


def commas_in(lines: Sequence[str], separator: str) -> list[str]:
    """The columns with decimal commas among the first lines of a CSV."""
    if separator == "," or not lines:
        return []
    try:
        names, *rows = list(csv.reader(lines, delimiter=separator))
    except csv.Error:
        return []
    return decimal_commas(names, rows)


def _check_decimals(file: Path, lines: Sequence[str], separator: str) -> None:
    columns = commas_in(lines, separator)
    if columns:
        raise DataError(
            f"{file.name}: the numbers in {', '.join(map(repr, columns[:3]))} have a decimal comma. "
            "Add --decimal ',' (or --decimal '.' if they are text)."
        )
