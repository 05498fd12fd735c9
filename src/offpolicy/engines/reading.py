"""`Reading`: who reads the rows of a scan, with how much memory, in which chunks; and the table of what can be read.

`OPENERS` are the kinds of sources, asked in order: who accepts a source gives its engine and an Ibis table of its rows.
A source of your own becomes one of them by `register`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from offpolicy._arguments import checks_arguments
from offpolicy.engines import csv, files
from offpolicy.engines.duckdb import VIEW, DuckDB, Relation, view_of
from offpolicy.engines.engine import Backend, SQLite
from offpolicy.errors import ArgumentError, DataError, UsageError, did_you_mean
from offpolicy.logs.formats.parquet import different_names, refuse_large_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from offpolicy.engines.engine import Engine

Progress: TypeAlias = Callable[[str, float], None]
MAX_ROWS = 1_000_000
MAX_CELLS = 12_000_000
DATABASES = {".duckdb", ".ddb", ".db"}


@checks_arguments
@dataclass(frozen=True)
class Reading:
    """How a scan is read: the options of every scan besides its roles.

    Parameters
    ----------
    table : str, optional
        Table of a DuckDB file or connection.
    engine : {"duckdb", "spark", "spark://…"}, optional
        Who reads files.
    memory_limit : str, optional
        Of DuckDB, such as "2GB".
    threads : int, optional
        Of DuckDB.
    temp_directory : path, optional
        Where temporary files go; they are removed in the end, also after an interrupt.
    network : bool
        Whether a source such as "s3://…" or "https://…" may be read. DuckDB needs its extension httpfs for it,
        which must have been installed; nothing is installed unasked.
    max_rows, max_cells : int
        Most rows (cells) to hold in memory.
    chunk_rows : int
        Rows of a chunk when streaming.
    fit_rows : int
        When streaming, most training rows for learners that cannot be fitted in chunks.
    progress : callable, optional
        Called as ``progress(stage, done)``: stage is "check", "compress", "fit" or "score", and done goes
        from 0 to 1.

    Examples
    --------
    >>> Reading(chunk_rows=1000).fit_rows
    2000000
    """

    table: str | None = None
    engine: str | None = None
    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | Path | None = None
    network: bool = False
    max_rows: int = MAX_ROWS
    max_cells: int = MAX_CELLS
    chunk_rows: int = 250_000
    fit_rows: int = 2_000_000
    progress: Progress | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], what: str = "scan()", beside: Collection[str] = ()) -> Reading:
        """From the keywords of a scan.

        >>> Reading.of({"chunk_row": 5})
        Traceback (most recent call last):
        offpolicy.errors.ArgumentError: scan() has no argument 'chunk_row'. Did you mean 'chunk_rows'?
        """
        names = [each.name for each in fields(cls)]
        for name in given:
            if name not in names:
                raise ArgumentError(f"{what} has no argument {name!r}.{did_you_mean(name, [*names, *beside])}")
        made = cls(**given)
        if made.engine not in {None, "duckdb"} and made.memory_limit is not None:
            raise UsageError("memory_limit= is for DuckDB. For Spark, set spark.executor.memory.")
        return made

    @property
    def of_duckdb(self) -> dict[str, Any]:
        """The options that DuckDB takes."""
        return {"memory_limit": self.memory_limit, "threads": self.threads, "temp_directory": self.temp_directory}

    @property
    def needed_table(self) -> str:
        """The table of a database, which must be named."""
        if self.table is None:
            raise UsageError("a DuckDB file or connection can have many tables. Name one with table=.")
        return self.table

    def open(self, source: Any, labels: Collection[str]) -> tuple[Engine, Any]:
        """The engine that holds ``source`` and an Ibis table of it.

        ``labels`` are columns that tell things apart, also where they look like numbers; lists and structs do not.
        """
        opener = next((each for each in OPENERS if each.accepts(source, self)), None)
        if opener is None:
            if isinstance(source, list | tuple):
                raise UsageError("give files as one pattern such as 'logs/*.parquet', or an Arrow dataset.")
            kind = f"{type(source).__module__}.{type(source).__name__}"
            raise DataError(
                f"cannot scan a {kind}. Give a path or pattern of Parquet or CSV files, a DuckDB file, relation "
                "or connection, an Arrow dataset, an Ibis table, or a Spark DataFrame."
            )
        engine, table = opener.open(source, self, labels)
        for name in labels:
            if name in table.columns and table[name].type().is_nested():
                engine.close()
                raise DataError(
                    f"column {name!r} holds {table[name].type()}, which cannot be a label. A label is text or "
                    "a number; join the parts into one text."
                )
        return engine, table


@dataclass(frozen=True)
class Opener:
    """A kind of source.

    Attributes
    ----------
    accepts : callable
        Given a source and the `Reading`, whether it is of this kind.
    open : callable
        Given the source, the `Reading` and the columns that hold labels: the engine and an Ibis table of the rows.
    """

    accepts: Callable[[Any, Reading], bool]
    open: Callable[[Any, Reading, Collection[str]], tuple[Engine, Any]]


def register(
    accepts: Callable[[Any, Reading], bool],
    open: Callable[[Any, Reading, Collection[str]], tuple[Engine, Any]],  # noqa: A002
) -> None:
    """Make sources of your own known to every scan; they are asked before those that were known."""
    OPENERS.insert(0, Opener(accepts, open))


def _from(*modules: str, called: str = "") -> Callable[[Any, Reading], bool]:
    """Whether a source is of a library, which is not imported for that."""

    def accepts(source: Any, _: Reading) -> bool:
        kind = f"{type(source).__module__}.{type(source).__name__}"
        return kind.startswith(modules) and called in kind and "LazyFrame" not in kind

    return accepts


def _spark_files(source: Any, reading: Reading, labels: Collection[str]) -> tuple[Engine, Any]:
    engine = str(reading.engine)
    if not engine.startswith("spark"):
        raise UsageError(f"engine= must be 'duckdb', 'spark' or 'spark://…'. Got {engine!r}.")
    if not isinstance(source, str | Path):
        raise UsageError("engine='spark…' reads files. Scan a Spark DataFrame directly, without engine=.")
    _check_network(str(source), reading)
    from offpolicy.engines.spark import read_files

    return read_files(str(source), engine, temp_directory=reading.temp_directory, labels=labels)


def _spark_frame(source: Any, reading: Reading, _: Collection[str]) -> tuple[Engine, Any]:
    from offpolicy.engines.spark import Spark

    spark = Spark(source.sparkSession, temp_directory=reading.temp_directory)
    return spark, spark.source(source)


def _relation(source: Any, reading: Reading, _: Collection[str]) -> tuple[Engine, Any]:
    relation = Relation(source, temp_directory=reading.temp_directory)
    return relation, relation.source()


def _connection(source: Any, reading: Reading, _: Collection[str]) -> tuple[Engine, Any]:
    duck = DuckDB(source, **reading.of_duckdb)
    return duck, duck.from_name(reading.needed_table)


def _frame(source: Any, reading: Reading, labels: Collection[str]) -> tuple[Engine, Any]:
    """A frame, an Arrow table or a dataset."""
    if type(source).__name__ in {"RecordBatchReader", "Scanner"}:
        raise DataError(
            f"a {type(source).__name__} can be read only once, and a scan reads several times. Give its table "
            "(.read_all() or .to_table()), or an Arrow dataset."
        )
    is_arrow = type(source).__module__.startswith("pyarrow.")
    names = list(source.schema.names if is_arrow else source.columns)
    different_names(list(map(str, names)), "the frame")
    if _is_pandas(source):
        _check_mixed(source, labels)
    duck = DuckDB(**reading.of_duckdb)
    lying = files.on_this_machine(getattr(source, "files", ()))  # of an Arrow dataset
    duck.fingerprint = files.Fingerprint.of(lying) if lying else None
    try:
        return duck, duck.register(_plain(source))
    except Exception as error:
        duck.close()
        for name in names if hasattr(source, "select") or not is_arrow else ():
            _check_column(source, name, error)
        raise


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.split(".")[0] == "pandas"


def _plain(frame: Any) -> Any:
    """A frame as DuckDB takes it: polars by way of Arrow, sparse columns of pandas as plain ones."""
    if type(frame).__module__.startswith("polars."):
        return frame.to_arrow()
    sparse = [name for name, kind in getattr(frame, "dtypes", {}).items() if str(kind).startswith("Sparse")]
    return frame.assign(**{name: frame[name].sparse.to_dense() for name in sparse}) if sparse else frame


def _check_column(frame: Any, name: Any, cause: Exception) -> None:
    """Whether DuckDB can read a column by itself."""
    alone = frame[[name]] if _is_pandas(frame) else frame.select([name])
    duck = DuckDB()
    try:
        duck.register(_plain(alone))
    except Exception:  # noqa: BLE001 — whatever it was, this column is the reason
        kinds = alone.schema.types if hasattr(getattr(alone, "schema", None), "types") else alone.dtypes
        raise DataError(
            f"column {name!r} holds {next(iter(kinds))}, which DuckDB cannot read. Convert it to float64, int64 or "
            "text first."
        ) from cause
    finally:
        duck.close()


def _check_mixed(frame: Any, labels: Collection[str]) -> None:
    """DuckDB makes one text of 1 and "1", and one number of True and 1, in a column of objects."""
    for name in labels:
        column = frame[name] if name in frame.columns else None
        if column is None or str(column.dtype) != "object":
            continue
        kinds = {bool if isinstance(v, bool) else Number if isinstance(v, Number) else type(v) for v in column.dropna()}
        if len(kinds) > 1:
            said = " and ".join(sorted(_WORDS.get(kind, kind.__name__) for kind in kinds))
            raise DataError(
                f"column {name!r} holds {said}, which an engine would make one type, and labels that are written alike "
                "one label. Convert the column to one type first."
            )


_WORDS = {str: "text", bool: "booleans", Number: "numbers"}


def _path(source: Any, reading: Reading, labels: Collection[str]) -> tuple[Engine, Any]:
    path = str(source)
    _check_network(path, reading)
    return _remote(path, reading, labels) if files.REMOTE.match(path) else _files(path, reading, labels)


def _check_network(path: str, reading: Reading) -> None:
    if files.REMOTE.match(path) and not reading.network:
        raise UsageError(f"{path!r} is on the network. To read it, pass scan(…, network=True).")


def _remote(source: str, reading: Reading, labels: Collection[str]) -> tuple[Engine, Any]:
    """Files that DuckDB reads over the network."""
    duck = DuckDB(**reading.of_duckdb, network=True)
    rows = files.sql_text(source)
    try:
        if source.removesuffix(".gz").endswith((".csv", ".tsv")):
            sql = f"SELECT * FROM read_csv({rows}, all_varchar = true, header = true, hive_partitioning = false)"  # noqa: S608
            return duck, csv.typed(duck, duck.view(VIEW, sql), labels)
        sql = f"SELECT * FROM read_parquet({rows}, union_by_name = true, hive_partitioning = false)"  # noqa: S608
        return duck, duck.view(VIEW, sql)
    except BaseException:
        duck.close()
        raise


def _files(source: str, reading: Reading, labels: Collection[str]) -> tuple[Engine, Any]:
    suffix = Path(source.removesuffix(".gz")).suffix.lower()
    if suffix in DATABASES:
        if not Path(source).exists():
            raise DataError(f"there is no file {source!r}.")
        duck = DuckDB(database=source, **reading.of_duckdb, paths=[str(Path(source).absolute())])
        duck.fingerprint = files.Fingerprint.of([source])
        return duck, duck.from_name(reading.needed_table)
    if reading.table is not None:
        raise UsageError("table= is for DuckDB files and connections.")
    if Path(source).is_dir():
        paths = [p for p in files.matching(source) if p.endswith(".parquet")]
        if not paths:
            raise DataError(f"the folder {source!r} has no Parquet files (.parquet).")
        return view_of(paths, _parquet(source, paths), reading.of_duckdb)
    if suffix not in {".parquet", ".pq", ".csv", ".tsv"}:
        raise DataError(
            f"{source!r}: unknown kind of file. Name Parquet (.parquet) or CSV (.csv) files, "
            "or a DuckDB file (.duckdb) with table=."
        )
    paths = files.listed(source)
    if suffix in {".csv", ".tsv"}:
        return csv.csv_files(paths, reading.of_duckdb, labels)
    return view_of(paths, _parquet(source, paths), reading.of_duckdb)


FILE = "offpolicy_file"  # the column of the file's name, which says the keys of its folders


def _parquet(source: str, paths: list[str]) -> str:
    """SQL of the rows of Parquet files, whose columns and types agree; keys of their folders are columns of text."""
    schema = files.common_schema(paths)
    names = schema.names
    refuse_large_texts(paths)
    partitions = files.Partitions.of(source, paths)
    partitions.refuse_columns(names, paths[0])
    options = f"union_by_name = {str(len(paths) > 1).lower()}, hive_partitioning = false"
    rows = f"read_parquet([{files.sql_files(paths)}], {options}"
    # Parquet has no durations: Arrow writes whole numbers of nanoseconds, which would pass for numbers.
    lasting = [_quoted(f.name) for f in schema if str(f.type).startswith("duration")]
    as_text = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in lasting)
    all_columns = f"* REPLACE ({as_text})" if lasting else "*"
    if not partitions.keys:
        return f"SELECT {all_columns} FROM {rows})"  # noqa: S608
    keys = ", ".join(_key(key, partitions.root) for key in partitions.keys)
    inner = f"SELECT * EXCLUDE ({FILE}), {keys} FROM {rows}, filename = '{FILE}')"  # noqa: S608
    return f"SELECT {all_columns} FROM ({inner})"  # noqa: S608


def _quoted(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _key(name: str, root: str) -> str:
    """SQL of the value that the folders below ``root`` give a key."""
    written = "|".join(map(re.escape, (name, quote(name, safe=""))))
    folder = files.sql_text(f"/(?:{written})=([^/]*)/")
    value = f"regexp_extract(substr({FILE}, {len(root) + 1}), {folder}, 1)"
    return f"url_decode(nullif({value}, '{files.NO_VALUE}')) AS {_quoted(name)}"


def _ibis(source: Any, reading: Reading, _: Collection[str]) -> tuple[Engine, Any]:
    """The engine of an Ibis table, by the name of its backend."""
    backend = source.get_backend()
    make: Callable[..., Engine] = IBIS_ENGINES.get(backend.name, Backend)
    engine = make(backend, temp_directory=reading.temp_directory)
    engine.watch_table(source)
    if backend.name == "duckdb":
        source.limit(0).to_pyarrow()  # registers tables in memory that the expression holds
    return engine, source


def _duckdb(backend: Any, *, temp_directory: Any) -> DuckDB:
    return DuckDB(backend.con, temp_directory=temp_directory)


def _spark(backend: Any, *, temp_directory: Any) -> Engine:
    from offpolicy.engines.spark import Spark

    return Spark(backend._session, backend=backend, temp_directory=temp_directory)  # noqa: SLF001


# Backends of Ibis that need more than the common engine.
IBIS_ENGINES: dict[str, Callable[..., Engine]] = {"duckdb": _duckdb, "pyspark": _spark, "sqlite": SQLite}

OPENERS: list[Opener] = [
    Opener(lambda _, reading: reading.engine not in {None, "duckdb"}, _spark_files),
    Opener(_from("pyspark."), _spark_frame),
    Opener(_from("ibis."), _ibis),
    Opener(_from("", called="DuckDBPyRelation"), _relation),
    Opener(_from("", called="DuckDBPyConnection"), _connection),
    Opener(lambda source, _: isinstance(source, str | Path), _path),
    Opener(_from("pyarrow.", "pandas.", "polars."), _frame),
]
