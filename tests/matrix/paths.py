"""Every way in which the same rows can reach `evaluate`.

A path opens a world's rows as a log. Real servers are started once, when first asked for: PostgreSQL on a
socket of its own, Spark with two executor processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from clusters import spark_session

import offpolicy as op

if TYPE_CHECKING:
    from matrix.worlds import World

CHUNK = 200  # rows of a block when streaming: several blocks even in small worlds
PARTS = 3  # files of a pattern

WARNINGS = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@dataclass(frozen=True)
class Route:
    """One path: who holds the rows, and what `scan` is told.

    ``is_ordered``: rows have numbers of their own, so that the log can do without a column of ids.
    """

    name: str
    holder: str
    options: dict[str, Any] = field(default_factory=dict)
    is_ordered: bool = True

    @property
    def in_memory(self) -> bool:
        """Whether the frame itself becomes the log."""
        return self.holder in {"pandas", "polars", "arrow"}


STREAM = {"way": "stream", "chunk_rows": CHUNK}
ROUTES = {
    r.name: r
    for r in (
        Route("pandas", "pandas"),
        Route("polars", "polars"),
        Route("arrow", "arrow"),
        Route("csv", "csv"),
        Route("parquet", "parquet"),
        Route("parquet-rows", "parquet", {"way": "rows"}),
        Route("parquet-cells", "parquet", {"way": "cells"}),
        Route("parquet-stream", "parquet", STREAM),
        Route("csv-stream", "csv", STREAM),
        Route("glob", "glob"),
        Route("glob-stream", "glob", STREAM),
        Route("duckdb", "duckdb"),
        Route("duckdb-file", "duckdb-file"),
        Route("duckdb-relation", "duckdb-relation"),
        Route("duckdb-stream", "duckdb", STREAM),
        Route("scanned-pandas", "scanned-pandas"),
        Route("postgres", "postgres", is_ordered=False),
        Route("postgres-rows", "postgres", {"way": "rows"}, is_ordered=False),
        Route("postgres-stream", "postgres", STREAM, is_ordered=False),
        Route("sqlite", "sqlite", is_ordered=False),
        Route("sqlite-rows", "sqlite", {"way": "rows"}, is_ordered=False),
        Route("sqlite-stream", "sqlite", STREAM, is_ordered=False),
        Route("spark", "spark", is_ordered=False),
        Route("spark-rows", "spark", {"way": "rows"}, is_ordered=False),
        Route("spark-stream", "spark", STREAM, is_ordered=False),
    )
}


class Engines:
    """Where worlds are kept: files, tables, servers. Closes all of them in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self._kept: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def open(
        self,
        route: str,
        world: World,
        *,
        id: bool = True,  # noqa: A002
        **options: Any,
    ) -> Any:
        """The world's rows as a log; it stays open until the end of the session."""
        found = ROUTES[route]
        named = world.named(id=id)
        if found.in_memory:
            return op.BanditLog.from_frame(self._source(found.holder, world), **named, **options)
        source, more = self._source(found.holder, world), {}
        if isinstance(source, tuple):
            source, more = source
        log = op.scan(source, **named, **more, **{**found.options, **options})
        self.stack.callback(log.close)
        return log

    def path(self, kind: str, world: World) -> str:
        """File (or pattern) that holds the world."""
        source = self._source(kind, world)
        return str(source[0] if isinstance(source, tuple) else source)

    def _keep(self, key: Any, make: Any) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def _source(self, kind: str, world: World) -> Any:
        made = self._keep(("world", id(world)), lambda: (world, f"log{len(self._kept)}"))
        name = made[1]  # the world is kept as well, so that its id() stays its own
        return self._keep((kind, name), lambda: getattr(self, f"_{kind}".replace("-", "_"))(world, name))

    # Frames.

    def _pandas(self, world: World, name: str) -> Any:
        return world.frame

    def _scanned_pandas(self, world: World, name: str) -> Any:
        return world.frame

    def _polars(self, world: World, name: str) -> Any:
        return pytest.importorskip("polars").from_pandas(world.frame)

    def _arrow(self, world: World, name: str) -> Any:
        import pyarrow as pa

        return pa.Table.from_pandas(world.frame, preserve_index=False)

    # Files.

    def _csv(self, world: World, name: str) -> str:
        world.frame.to_csv(self.folder / f"{name}.csv", index=False)
        return str(self.folder / f"{name}.csv")

    def _parquet(self, world: World, name: str) -> str:
        world.frame.to_parquet(self.folder / f"{name}.parquet", index=False)
        return str(self.folder / f"{name}.parquet")

    def _glob(self, world: World, name: str) -> str:
        size, folder = -(-len(world.frame) // PARTS), self.folder / f"{name}-parts"
        folder.mkdir()
        for i in range(PARTS):
            part = world.frame.iloc[i * size : (i + 1) * size]
            part.to_parquet(folder / f"part{i}.parquet", index=False)
        return str(folder / "*.parquet")

    # DuckDB.

    def _connection(self) -> Any:
        duckdb = pytest.importorskip("duckdb")
        connection = self._keep("connection", duckdb.connect)
        self.stack.callback(connection.close)
        return connection

    def _duckdb(self, world: World, name: str) -> Any:
        file = self._source("parquet", world)
        self._connection().execute(f"CREATE TABLE {name} AS FROM '{file}'")
        return self._connection(), {"table": name}

    def _duckdb_relation(self, world: World, name: str) -> Any:
        file = self._source("parquet", world)
        return self._connection().sql(f"SELECT * FROM '{file}'")

    def _duckdb_file(self, world: World, name: str) -> Any:
        duckdb, file = pytest.importorskip("duckdb"), self._source("parquet", world)
        database = str(self.folder / f"{name}.duckdb")
        with duckdb.connect(database) as connection:
            connection.execute(f"CREATE TABLE log AS FROM '{file}'")
        return database, {"table": "log"}

    # Ibis.

    def _sqlite(self, world: World, name: str) -> Any:
        ibis = pytest.importorskip("ibis")
        back = self._keep("sqlite", lambda: ibis.sqlite.connect(self.folder / "log.sqlite"))
        self.stack.callback(back.disconnect)
        return back.create_table(name, ibis.memtable(world.frame))

    def _postgres(self, world: World, name: str) -> Any:
        ibis = pytest.importorskip("ibis")
        server = self._keep("postgres", lambda: start_postgres(self.stack))
        return server.create_table(name, ibis.memtable(world.frame))

    # Spark.

    def _spark(self, world: World, name: str) -> Any:
        folder = Path(self._source("glob", world)).parent  # each file is a partition
        return start_spark(self.stack).read.parquet(str(folder))


def start_postgres(stack: ExitStack) -> Any:
    """A PostgreSQL server on a socket in a temporary folder, and a connection to it."""
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("psycopg")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    binary = shutil.which("initdb") or (installed[-1] if installed else None)
    if binary is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    programs = Path(binary).parent
    # A short path: the name of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    prefix: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot run PostgreSQL, and setpriv is missing")
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(folder, 65534, 65534)
    data = folder / "data"
    made = [str(programs / "initdb"), "-D", str(data), "-U", "tester", "-A", "trust"]
    made += ["-E", "UTF8", "--no-sync"]
    subprocess.run([*prefix, *made], check=True, capture_output=True, cwd=folder, timeout=120)
    run = [str(programs / "postgres"), "-D", str(data), "-k", str(folder)]
    run += ["-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen([*prefix, *run], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop() -> None:
        server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients to leave
        server.wait(timeout=60)

    stack.callback(stop)
    for _ in range(600):
        if (folder / ".s.PGSQL.5432").exists():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    connection = ibis.postgres.connect(host=str(folder), user="tester", database="postgres")
    stack.callback(connection.disconnect)
    return connection


def start_spark(stack: ExitStack) -> Any:
    """A cluster of two executor processes on this machine; the one that runs already, where one does."""
    session = spark_session("matrix.worlds")
    stack.callback(session.stop)
    return session
