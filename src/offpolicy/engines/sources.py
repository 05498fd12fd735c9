"""From whatever a user has to an engine and an Ibis table of its rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import quote

from offpolicy.engines import csv, files
from offpolicy.engines.engine import Backend, DuckDB, Relation
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats.parquet import different_names, refuse_large_texts
from offpolicy.logs.frame import LARGEST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from offpolicy.engines.engine import Engine

DATABASES = {".duckdb", ".ddb", ".db"}
VIEW = "offpolicy_source"


def open_source(source: Any, *, labels: Collection[str] = (), **options: Any) -> tuple[Engine, Any]:
    """The engine that holds ``source`` and an Ibis table of it; the arguments are those of `scan`.

    ``labels`` are columns that tell things apart, which lists and structs do not.
    """
    engine, table = _opened(source, labels=labels, **options)
    for name in labels:
        if name in table.columns and table[name].type().is_nested():
            engine.close()
            raise DataError(
                f"column {name!r} holds {table[name].type()}, of which no value can be a label. A label is text or a "
                "number; join the parts into one text."
            )
    return engine, table


def _opened(
    source: Any,
    *,
    table: str | None = None,
    engine: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | Path | None = None,
    network: bool = False,
    labels: Collection[str] = (),
) -> tuple[Engine, Any]:
    kind = f"{type(source).__module__}.{type(source).__name__}"
    if isinstance(source, list | tuple):
        raise UsageError("give files as one pattern such as 'logs/*.parquet', or an Arrow dataset.")
    if isinstance(source, str | Path) and files.REMOTE.match(str(source)) and not network:
        raise UsageError(
            f"{str(source)!r} is on the network, which is read only when asked for: scan(…, network=True)."
        )
    if engine not in {None, "duckdb"}:
        return _spark_files(source, str(engine), temp_directory, labels)
    if kind.startswith("pyspark."):
        from offpolicy.engines.spark import Spark

        spark = Spark(source.sparkSession, temp_directory=temp_directory)
        return spark, spark.source(source)
    if kind.startswith("ibis."):
        return _ibis(source, temp_directory)
    if "DuckDBPyRelation" in kind:
        relation = Relation(source, temp_directory=temp_directory)
        return relation, relation.source()
    options = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    if isinstance(source, str | Path):
        path = str(source)
        return _remote(path, options, labels) if files.REMOTE.match(path) else _files(path, table, options, labels)
    return _in_memory(source, kind, table, options)


def _spark_files(source: Any, engine: str, temp_directory: Any, labels: Collection[str]) -> tuple[Engine, Any]:
    if not engine.startswith("spark"):
        raise UsageError(f"engine= must be 'duckdb', 'spark' or 'spark://…'. Got {engine!r}.")
    if not isinstance(source, str | Path):
        raise UsageError("engine='spark…' reads files; a Spark DataFrame can be scanned as it is.")
    from offpolicy.engines.spark import read_files

    return read_files(str(source), engine, temp_directory=temp_directory, labels=labels)


def _in_memory(source: Any, kind: str, table: str | None, options: dict[str, Any]) -> tuple[Engine, Any]:
    if "DuckDBPyConnection" in kind:
        duck = DuckDB(source, **options)
        return duck, duck.from_name(_required(table))
    if kind.startswith(("pyarrow.", "pandas.", "polars.")) and "LazyFrame" not in kind:
        different_names(_names_in(source), "the frame")
        duck = DuckDB(**options)
        rows = source.to_arrow() if kind.startswith("polars.") else source
        lying = files.on_this_machine(getattr(source, "files", ()))  # of an Arrow dataset
        duck.fingerprint = files.Fingerprint.of(lying) if lying else None
        return duck, duck.register(rows)
    raise DataError(
        f"cannot scan a {kind}. Give a path or pattern of Parquet or CSV files, a DuckDB file, relation "
        "or connection, an Arrow dataset, an Ibis table, or a Spark DataFrame."
    )


def _names_in(source: Any) -> list[str]:
    """Column names of a frame, an Arrow table or a dataset."""
    is_arrow = type(source).__module__.startswith("pyarrow.")
    return [str(name) for name in (source.schema.names if is_arrow else source.columns)]


def _remote(source: str, options: dict[str, Any], labels: Collection[str]) -> tuple[Engine, Any]:
    """Files that DuckDB reads over the network."""
    duck = DuckDB(**options, network=True)
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


def _files(source: str, table: str | None, options: dict[str, Any], labels: Collection[str]) -> tuple[Engine, Any]:
    suffix = Path(source.removesuffix(".gz")).suffix.lower()
    if suffix in DATABASES:
        if not Path(source).exists():
            raise DataError(f"there is no file {source!r}.")
        duck = DuckDB(database=source, **options, paths=[str(Path(source).absolute())])
        duck.fingerprint = files.Fingerprint.of([source])
        return duck, duck.from_name(_required(table))
    if table is not None:
        raise UsageError("table= is for DuckDB files and connections.")
    if Path(source).is_dir():
        paths = [p for p in files.matching(source) if p.endswith(".parquet")]
        if not paths:
            raise DataError(f"the folder {source!r} holds no Parquet files (.parquet).")
        return _view(paths, _parquet(source, paths), options)
    if suffix not in {".parquet", ".pq", ".csv", ".tsv"}:
        raise DataError(
            f"{source!r}: the kind of file is not known. Name Parquet (.parquet) or CSV (.csv) files, "
            "or a DuckDB file (.duckdb) with table=."
        )
    paths = files.listed(source)
    if suffix in {".csv", ".tsv"}:
        return _csv_files(paths, options, labels)
    return _view(paths, _parquet(source, paths), options)


def _csv_files(
    paths: list[str], options: dict[str, Any], labels: Collection[str], separator: str | None = None, decimal: str = "."
) -> tuple[DuckDB, Any]:
    duck, cells = _view(paths, csv.duckdb_text(paths, separator), options)
    try:
        return duck, csv.typed(duck, cells, labels, decimal)
    except BaseException:
        duck.close()
        raise


def _view(paths: list[str], sql: str, options: dict[str, Any]) -> tuple[DuckDB, Any]:
    """A connection that reads these files and nothing else, and the table of a query over them."""
    duck = DuckDB(**options, paths=[str(Path(p).absolute()) for p in paths])
    try:
        duck.fingerprint = files.Fingerprint.of(paths)
        return duck, duck.view(VIEW, sql)
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

    paths = files.listed(source) if isinstance(source, str) else list(source)
    duck, cells = _csv_files(paths, {}, labels, separator, decimal)
    try:
        table = duck.table(cells if rows is None else cells.limit(rows))
    finally:
        duck.close()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_int64(column.type) and column.null_count:  # pandas makes floats of these
            bounds = pc.min_max(column).as_py().values()
            if any(v is not None and abs(v) > LARGEST_WHOLE for v in bounds):
                raise DataError(
                    f"column {name!r} holds integers beyond 2^53 and missing values, which no number type of "
                    "a frame holds both. Fill the missing ones, or write Parquet and use offpolicy.scan."
                )
    return table.to_pandas()


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


def _ibis(source: Any, temp_directory: Any) -> tuple[Engine, Any]:
    """The engine of an Ibis table, by the name of its backend."""
    backend = source.get_backend()
    make: Callable[..., Engine] = IBIS_ENGINES.get(backend.name, Backend)
    engine = make(backend, temp_directory=temp_directory)
    if isinstance(engine, WatchesTables):
        engine.watch_table(source)
    return engine, source.pipe(_registered)


@runtime_checkable
class WatchesTables(Protocol):
    """An engine that looks after the files behind a table of its backend."""

    def watch_table(self, table: Any) -> None:
        """Remember what the files are now, so that a change between two passes is found."""
        ...


def _registered(source: Any) -> Any:
    if source.get_backend().name == "duckdb":
        source.limit(0).to_pyarrow()  # registers tables in memory that the expression holds
    return source


def _duckdb(backend: Any, *, temp_directory: Any) -> Engine:
    return DuckDB(backend.con, temp_directory=temp_directory)


def _spark(backend: Any, *, temp_directory: Any) -> Engine:
    from offpolicy.engines.spark import Spark

    return Spark(backend._session, backend=backend, temp_directory=temp_directory)  # noqa: SLF001


def _sqlite(backend: Any, *, temp_directory: Any) -> Engine:
    from offpolicy.engines.sqlite import SQLite

    return SQLite(backend, temp_directory=temp_directory)


# Backends of Ibis that need more than the common engine.
IBIS_ENGINES: dict[str, Callable[..., Engine]] = {"duckdb": _duckdb, "pyspark": _spark, "sqlite": _sqlite}


def _required(table: str | None) -> str:
    if table is None:
        raise UsageError("a DuckDB file or connection holds many tables: name one with table=.")
    return table
