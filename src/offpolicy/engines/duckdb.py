"""DuckDB: the engine that reads files, frames and Arrow datasets, and the connections and relations of its users."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.engines.engine import BATCH_ROWS, Here, first_line, ibis_module
from offpolicy.engines.files import Fingerprint, sql_files, sql_text
from offpolicy.errors import DataError, UsageError, check_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MEMORY = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*([KMGT]i?)?B\s*", re.IGNORECASE)
MOST_THREADS = 1_024


class DuckDB(Here):
    """The embedded engine: Parquet, CSV, DuckDB files, Arrow datasets and relations.

    An own connection can read the files it was given and its temporary folder, and nothing else: it installs and
    loads no extensions, opens no network connection, and its settings cannot be changed by a query.

    Parameters
    ----------
    connection : DuckDBPyConnection, optional
        A connection of the user's; default: an own one, in memory.
    database : path, optional
        A DuckDB file, opened read-only.
    memory_limit : str, optional
        Such as "2GB"; beyond it DuckDB spills to the scan's temporary folder.
    paths : sequence of str
        Files that an own connection may read.
    network : bool
        Whether it may read from the network, with an extension (httpfs) that is installed already.
    """

    name = "duckdb"
    keeps_order = True
    packs_keys = True

    def __init__(
        self,
        connection: Any = None,
        *,
        database: str | Path | None = None,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | Path | None = None,
        paths: Sequence[str] = (),
        network: bool = False,
    ) -> None:
        super().__init__(temp_directory)
        self._settings = _settings(memory_limit, threads)
        self._own = connection is None
        self._database = database
        self._paths = list(paths)
        self._network = network
        self._connection = connection
        self._process = os.getpid()
        self._registered: dict[str, Any] = {}
        self._views: dict[str, str] = {}
        if connection is not None:
            for setting, value in self._settings.items():  # checked above: a size, a whole number
                connection.execute(f"SET {setting} = '{value}'")

    @property
    def connection(self) -> Any:
        """The connection; an own one is opened when first used and after `rest`."""
        if os.getpid() != self._process:
            raise UsageError(
                "this scan was opened in another process, and its threads did not survive the fork. Open it "
                "again here, or start workers with 'spawn'."
            )
        if self._connection is None:
            import duckdb

            path = ":memory:" if self._database is None else str(self._database)
            folder = str(self.workspace.folder)
            config: dict[str, Any] = {
                **self._settings,
                "temp_directory": folder,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            try:
                self._connection = duckdb.connect(path, read_only=self._database is not None, config=config)
            except duckdb.Error as error:
                raise DataError(f"DuckDB cannot open {path!r}: {error}") from error
            self._connection.execute("SET enable_progress_bar = false")
            if self._network:
                self._load_network()
            else:
                connection = self._connection
                plain = ", ".join(map(sql_text, self._paths))
                both = f"{plain}, {sql_files(self._paths)}" if self._paths else ""
                connection.execute(f"SET allowed_paths = [{both}]")
                connection.execute(f"SET allowed_directories = [{sql_text(folder)}]")
                connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
            for name, rows in self._registered.items():
                self._connection.register(name, rows)
            for name, sql in self._views.items():
                self._make_view(name, sql)
        return self._connection

    def _load_network(self) -> None:
        import duckdb

        try:
            self._connection.execute("LOAD httpfs")
        except duckdb.Error as error:
            raise UsageError(
                "network sources need DuckDB's extension 'httpfs', which is not installed. offpolicy does not install "
                "it "
                'for you: run duckdb.sql("INSTALL httpfs") once, or copy the files here first.'
            ) from error

    def _make_view(self, name: str, sql: str) -> None:
        with duckdb_errors():
            self._connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {sql}')

    def view(self, name: str, sql: str) -> Any:
        """Ibis table of a query, which every later connection knows by this name as well."""
        connection = self.connection
        self._views[name] = sql
        assert connection is not None
        self._make_view(name, sql)
        return self.from_name(name)

    def query(self, sql: str) -> Any:
        """A relation of the query's rows."""
        with duckdb_errors():
            return self.connection.sql(sql)

    def rest(self) -> None:
        """Give DuckDB's memory back between queries; the next one opens a new connection."""
        if self._own and self._connection is not None:
            self._connection.close()
            self._connection = None

    def compile(self, expression: Any) -> str:
        """The query as DuckDB's SQL."""
        return str(ibis_module().to_sql(expression, dialect="duckdb", pretty=False))

    def from_name(self, name: str) -> Any:
        """Ibis table of a table, view or file that DuckDB knows by ``name``."""
        quoted = '"' + name.replace('"', '""') + '"'
        return _table_of(self.query(f"FROM {quoted} LIMIT 0"), name)

    def register(self, rows: Any) -> Any:
        """Ibis table of an Arrow dataset or table, or of a frame, read where it is."""
        name = f"offpolicy_{id(rows):x}"
        self._registered[name] = rows
        with duckdb_errors():
            self.connection.register(name, rows)
        return self.from_name(name)

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        self.unchanged()
        with duckdb_errors():
            return self.query(self.compile(expression)).to_arrow_table()

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches."""
        self.unchanged(tails=True)
        with duckdb_errors():
            reader = self.query(self.compile(expression)).to_arrow_reader(rows)
        while True:
            with duckdb_errors():
                batch = next(reader, None)
            if batch is None:
                break
            yield batch
        self.unchanged()

    def upload(self, table: Any) -> Any:
        """An Ibis table of a Parquet file in the temporary folder."""
        import pyarrow.parquet as pq

        path = self.workspace.path(".parquet")
        pq.write_table(table, path)
        ibis = ibis_module()
        return ibis.table(ibis.Schema.from_pyarrow(table.schema), name=str(path))

    def close(self) -> None:
        """Close an own connection and remove temporary files."""
        self.rest()
        super().close()


class Relation(DuckDB):
    """DuckDB through a relation of the user's, which knows its connection but does not say which."""

    def __init__(self, relation: Any, *, temp_directory: str | Path | None = None) -> None:
        Here.__init__(self, temp_directory)
        self.relation = relation
        self._own = False
        self._connection = None

    def query(self, sql: str) -> Any:
        """A relation of the query's rows, on the relation's own connection."""
        return self.relation.query("offpolicy_rows", sql)

    def source(self) -> Any:
        """Ibis table of the relation's rows, which must be the same in every pass."""
        if self._sum() != self._sum():
            raise DataError(
                "the relation gives different rows each time it is read (random(), a sample, the time of day), so "
                "every pass would see a different log. Write its rows to a table first: relation.create('rows')."
            )
        with duckdb_errors():
            return _table_of(self.relation.limit(0), "offpolicy_rows")

    def _sum(self) -> tuple[Any, ...]:
        """One number for all rows, whatever their order."""
        sql = "SELECT count(*), bit_xor(hash(offpolicy_rows)), sum(hash(offpolicy_rows) % 1000003) FROM offpolicy_rows"
        with duckdb_errors():
            found: tuple[Any, ...] = self.query(sql).fetchall()[0]
        return found


VIEW = "offpolicy_source"


def view_of(paths: list[str], sql: str, options: dict[str, Any]) -> tuple[DuckDB, Any]:
    """A connection that reads these files and nothing else, and the table of a query over them."""
    duck = DuckDB(**options, paths=[str(Path(p).absolute()) for p in paths])
    try:
        duck.fingerprint = Fingerprint.of(paths)
        return duck, duck.view(VIEW, sql)
    except BaseException:
        duck.close()
        raise


def _settings(memory_limit: Any, threads: Any) -> dict[str, Any]:
    """DuckDB's settings, checked here: a run file may have been written by someone else."""
    settings: dict[str, Any] = {}
    if memory_limit is not None:
        size = MEMORY.fullmatch(memory_limit) if isinstance(memory_limit, str) else None
        if size is None or float(size["number"]) == 0:
            raise UsageError(f"memory_limit= must be a size such as '2GB' or '500MB'. Got {memory_limit!r} instead.")
        settings["memory_limit"] = memory_limit.strip()
    if threads is not None:
        check_count("threads=", threads)
        if threads > MOST_THREADS:
            raise UsageError(f"threads= must be at most {MOST_THREADS:,}; each takes memory. Got {threads!r} instead.")
        settings["threads"] = int(threads)
    return settings


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """What DuckDB has to say about the data, as an error of this library."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"DuckDB ran out of memory ({first_line(error)}). Raise memory_limit=, lower threads=, or name a folder "
            "for temporary files with temp_directory=."
        ) from error
    except (duckdb.Error, OSError) as error:
        if "state machine reached an invalid state" in str(error):
            raise DataError(
                "the CSV file cannot be split into lines. Usually some lines end in LF and others in CRLF, or "
                "a quote is not closed. Use one kind of line ending, and close every quote."
            ) from error
        raise DataError(f"DuckDB cannot read the log: {first_line(error)}") from error


def _table_of(rows: Any, name: str) -> Any:
    """Ibis table of a relation's columns under a name; UUIDs, which Arrow takes for text, are text here as well."""
    ibis = ibis_module()
    schema = _plain(rows.to_arrow_table().schema)
    types = dict(ibis.Schema.from_pyarrow(schema).items())
    uuids = [c for c, kind in zip(rows.columns, rows.types, strict=True) if str(kind) == "UUID"]
    table = ibis.table(ibis.schema(types | dict.fromkeys(uuids, "uuid")), name=name)
    return table.mutate(**{c: table[c].cast("string") for c in uuids}) if uuids else table


def _plain(schema: Any) -> Any:
    """The schema with dictionary and view types as the plain types SQL sees."""
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string_view(kind):
            kind = pa.string()
        if pa.types.is_interval(kind) or pa.types.is_duration(kind):
            kind = pa.string()  # a duration is no number; Ibis has no type for it
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)
