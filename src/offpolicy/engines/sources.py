"""From whatever a user has to an engine and an Ibis table of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.engines.engine import Backend, DuckDB, Relation
from offpolicy.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.engines.engine import Engine

DATABASES = {".duckdb", ".ddb", ".db"}


def open_source(
    source: Any,
    *,
    table: str | None = None,
    engine: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | Path | None = None,
) -> tuple[Engine, Any]:
    """The engine that holds ``source`` and an Ibis table of it; the arguments are those of `scan`."""
    kind = f"{type(source).__module__}.{type(source).__name__}"
    if isinstance(source, list | tuple):
        raise UsageError("give files as one pattern such as 'logs/*.parquet', or an Arrow dataset.")
    if engine not in {None, "duckdb"}:
        return _spark_files(source, str(engine), temp_directory)
    if kind.startswith("pyspark."):
        from offpolicy.engines.spark import Spark

        spark = Spark(source.sparkSession, temp_directory=temp_directory)
        return spark, spark.from_frame(source)
    if kind.startswith("ibis."):
        return _ibis(source, temp_directory)
    if "DuckDBPyRelation" in kind:
        relation = Relation(source, temp_directory=temp_directory)
        return relation, relation.source()
    options = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    if isinstance(source, str | Path):
        return _files(str(source), table, options)
    return _in_memory(source, kind, table, options)


def _spark_files(source: Any, engine: str, temp_directory: Any) -> tuple[Engine, Any]:
    if not engine.startswith("spark"):
        raise UsageError(f"engine= must be 'duckdb', 'spark' or 'spark://…'. Got {engine!r}.")
    if not isinstance(source, str | Path):
        raise UsageError("engine='spark…' reads files; a Spark DataFrame can be scanned as it is.")
    from offpolicy.engines.spark import read_files

    return read_files(str(source), engine, temp_directory=temp_directory)


def _in_memory(
    source: Any, kind: str, table: str | None, options: dict[str, Any]
) -> tuple[Engine, Any]:
    if "DuckDBPyConnection" in kind:
        duck = DuckDB(source, **options)
        return duck, duck.from_name(_required(table))
    if kind.startswith(("pyarrow.", "pandas.", "polars.")) and "LazyFrame" not in kind:
        duck = DuckDB(**options)
        rows = source.to_arrow() if kind.startswith("polars.") else source
        return duck, duck.register(rows)
    raise DataError(
        f"cannot scan a {kind}. Give a path or pattern of Parquet or CSV files, a DuckDB file, relation "
        "or connection, an Arrow dataset, an Ibis table, or a Spark DataFrame."
    )


def _files(source: str, table: str | None, options: dict[str, Any]) -> tuple[Engine, Any]:
    import duckdb

    suffix = Path(source.removesuffix(".gz")).suffix.lower()
    if suffix in DATABASES:
        if not Path(source).exists():
            raise DataError(f"there is no file {source!r}.")
        duck = DuckDB(database=source, **options)
        return duck, duck.from_name(_required(table))
    if table is not None:
        raise UsageError("table= is for DuckDB files and connections.")
    if not suffix and Path(source).is_dir():
        source = str(Path(source) / "**" / "*.parquet")
    elif suffix not in {".parquet", ".pq", ".csv", ".tsv"}:
        raise DataError(
            f"{source!r}: the kind of file is not known. Name Parquet (.parquet) or CSV (.csv) files, "
            "or a DuckDB file (.duckdb) with table=."
        )
    duck = DuckDB(**options)
    try:
        return duck, duck.from_name(source)
    except duckdb.Error as error:
        duck.close()
        raise DataError(f"{source!r} cannot be read: {error}") from error


def _ibis(source: Any, temp_directory: Any) -> tuple[Engine, Any]:
    """The engine of an Ibis table, by the name of its backend."""
    backend = source.get_backend()
    make = IBIS_ENGINES.get(backend.name, Backend)
    return make(backend, temp_directory=temp_directory), source.pipe(_registered)


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
IBIS_ENGINES: dict[str, Callable[..., Engine]] = {
    "duckdb": _duckdb,
    "pyspark": _spark,
    "sqlite": _sqlite,
}


def _required(table: str | None) -> str:
    if table is None:
        raise UsageError("a DuckDB file or connection holds many tables: name one with table=.")
    return table
