"""Who runs the queries: DuckDB by itself, or any Ibis backend.

Queries are Ibis expressions. An engine gives Arrow tables or batches back, and takes small Arrow tables
(distinct contexts, action labels) to join with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from offpolicy._workspace import Workspace
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BATCH_ROWS = 250_000


def ibis_module() -> Any:
    """Ibis, imported when a scan first needs it."""
    import ibis

    return ibis


class Engine(Protocol):
    """What a scan needs from the place where its rows live.

    Attributes
    ----------
    keeps_order : bool
        Whether rows come in the same order every time, so that their numbers can tell them apart.
    packs_keys : bool
        Whether grouping by one integer is much faster here than by several columns.
    has_nan : bool
        Whether its numbers can be NaN; where they cannot, only missing values are missing.
    """

    name: str
    workspace: Workspace
    keeps_order: bool
    packs_keys: bool
    has_nan: bool

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        ...

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches of about ``rows`` rows, one in memory at a time."""
        ...

    def upload(self, table: Any) -> Any:
        """An Ibis table with the rows of a small Arrow table."""
        ...

    def rest(self) -> None:
        """Give memory back between queries."""
        ...

    def close(self) -> None:
        """Release connections and temporary files."""
        ...


class DuckDB:
    """The embedded engine: Parquet, CSV, DuckDB files, Arrow datasets and relations.

    Parameters
    ----------
    connection : DuckDBPyConnection, optional
        A connection of the user's; default: an own one, in memory.
    database : path, optional
        A DuckDB file, opened read-only.
    memory_limit : str, optional
        Such as "2GB"; beyond it DuckDB spills to the scan's temporary folder.
    """

    name = "duckdb"
    keeps_order = True
    packs_keys = True
    has_nan = True

    def __init__(
        self,
        connection: Any = None,
        *,
        database: str | Path | None = None,
        memory_limit: str | None = None,
        threads: int | None = None,
        temp_directory: str | Path | None = None,
    ) -> None:
        self.workspace = Workspace(temp_directory)
        self._own = connection is None
        self._database = database
        self._settings = {"memory_limit": memory_limit, "threads": threads}
        self._connection = connection
        self._registered: dict[str, Any] = {}
        if connection is not None:
            self._configure()

    @property
    def connection(self) -> Any:
        """The connection; an own one is opened when first used and after `rest`."""
        if self._connection is None:
            import duckdb

            path = ":memory:" if self._database is None else str(self._database)
            self._connection = duckdb.connect(path, read_only=self._database is not None)
            folder = str(self.workspace.folder).replace("'", "''")
            self._connection.execute(f"SET temp_directory = '{folder}'")
            self._connection.execute("SET enable_progress_bar = false")
            for name, rows in self._registered.items():
                self._connection.register(name, rows)
            self._configure()
        return self._connection

    def _configure(self) -> None:
        import duckdb

        for setting, value in self._settings.items():
            if value is None:
                continue
            try:
                self._connection.execute(f"SET {setting} = '{value}'")
            except duckdb.Error as error:
                raise UsageError(
                    f"{setting}={value!r} is not understood by DuckDB: {error}"
                ) from error

    def query(self, sql: str) -> Any:
        """A relation of the query's rows."""
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
        schema = self.query(f"FROM {quoted} LIMIT 0").to_arrow_table().schema
        ibis = ibis_module()
        return ibis.table(ibis.Schema.from_pyarrow(_plain(schema)), name=name)

    def register(self, rows: Any) -> Any:
        """Ibis table of an Arrow dataset or table, or of a frame, read where it is."""
        name = f"offpolicy_{id(rows):x}"
        self._registered[name] = rows
        self.connection.register(name, rows)
        return self.from_name(name)

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        return self.query(self.compile(expression)).to_arrow_table()

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches."""
        yield from self.query(self.compile(expression)).to_arrow_reader(rows)

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
        self.workspace.close()


class Relation(DuckDB):
    """DuckDB through a relation of the user's, which knows its connection but does not say which."""

    def __init__(self, relation: Any, *, temp_directory: str | Path | None = None) -> None:
        self.workspace = Workspace(temp_directory)
        self.relation = relation
        self._own = False
        self._connection = None

    def query(self, sql: str) -> Any:
        """A relation of the query's rows, on the relation's own connection."""
        return self.relation.query("offpolicy_rows", sql)

    def source(self) -> Any:
        """Ibis table of the relation's rows."""
        ibis = ibis_module()
        schema = self.relation.limit(0).to_arrow_table().schema
        return ibis.table(ibis.Schema.from_pyarrow(_plain(schema)), name="offpolicy_rows")


class Backend:
    """Any Ibis backend: PostgreSQL, SQLite, BigQuery, Snowflake, …"""

    keeps_order = False
    packs_keys = False
    has_nan = True

    def __init__(self, backend: Any, *, temp_directory: str | Path | None = None) -> None:
        self.backend = backend
        self.name = str(backend.name)
        self.workspace = Workspace(temp_directory)

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        return self.backend.to_pyarrow(expression)

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches."""
        yield from self.backend.to_pyarrow_batches(expression, chunk_size=rows)

    def upload(self, table: Any) -> Any:
        """An Ibis table in memory, which the backend uploads when a query uses it."""
        return ibis_module().memtable(table)

    def rest(self) -> None:
        """The connection is the user's: nothing to give back."""

    def close(self) -> None:
        """Remove temporary files; the connection is the user's."""
        self.workspace.close()


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
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)
