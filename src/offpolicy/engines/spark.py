"""Spark: checks, compression and predictions run on the executors, models are fitted on the driver.

Queries go through Ibis. Blocks go through ``mapInArrow``: an executor turns the rows of its partition, contexts and
all, into a few numbers per row, so that a lost executor means a task done again and the same numbers.
"""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy._workspace import Workspace
from offpolicy.engines import csv
from offpolicy.engines.engine import BATCH_ROWS, ibis_module
from offpolicy.errors import DataError, missing_dependency

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from offpolicy.engines.engine import Engine
    from offpolicy.engines.rows import Schema
    from offpolicy.engines.stream import StreamedLog
    from offpolicy.logs.bandit import BanditLog


class Spark:
    """Queries on a Spark session.

    Parameters
    ----------
    session : SparkSession
    backend : Ibis backend, optional
        Of the same session; default: a new one.
    own : bool
        Whether to stop the session on `close`.
    """

    name = "spark"
    keeps_order = False
    packs_keys = False
    has_nan = True

    def __init__(
        self,
        session: Any,
        *,
        backend: Any = None,
        own: bool = False,
        temp_directory: str | Path | None = None,
    ) -> None:
        self.session = session
        self.backend = ibis_module().pyspark.connect(session) if backend is None else backend
        self.workspace = Workspace(temp_directory)
        self._own = own

    def from_frame(self, frame: Any) -> Any:
        """Ibis table of a Spark DataFrame."""
        name = f"offpolicy_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        return self.backend.table(name)

    def frame(self, expression: Any) -> Any:
        """Spark DataFrame of an expression."""
        return self.session.sql(self.backend.compile(expression))

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        return self.frame(expression).toArrow()

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches; partitions come to the driver one at a time."""
        frame = self.frame(expression)
        schema = self.table(expression.limit(0)).schema
        pending: list[Any] = []
        for row in frame.mapInArrow(_as_bytes, "part binary").toLocalIterator():
            pending += _from_bytes(row["part"])
            if sum(b.num_rows for b in pending) >= rows:
                yield _one_batch(pending, schema)
                pending = []
        if pending:
            yield _one_batch(pending, schema)

    def upload(self, table: Any) -> Any:
        """An Ibis table of a temporary view; small, so Spark sends it to every executor."""
        return self.from_frame(self.session.createDataFrame(table))

    def rest(self) -> None:
        """Nothing to give back between queries."""

    def close(self) -> None:
        """Stop an own session and remove temporary files."""
        if self._own:
            self.session.stop()
        self.workspace.close()

    def run(self, log: StreamedLog, task: Callable[[BanditLog], Any]) -> Iterator[Any]:
        """What a task makes of each block, made by the executors; rows come in their order.

        All partitions are worked on at once and their results wait on the executors' disks; the driver then
        takes them over one partition at a time.
        """
        from pyspark import StorageLevel

        work = _Blocks(log.schema, task, log.scan.limits.chunk)
        made = self.frame(log.rows()).mapInArrow(work, "made binary")
        made = made.persist(StorageLevel.DISK_ONLY)
        try:
            made.count()
            for row in made.toLocalIterator():
                yield pickle.loads(bytes(row["made"]))  # noqa: S301 — what these executors made of the task
        finally:
            made.unpersist()
        log.report("score", 1.0)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What an executor does with its partition."""

    schema: Schema
    task: Callable[[BanditLog], Any]
    chunk: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        waiting: list[Any] = []
        for batch in batches:
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= self.chunk:
                yield self._made(pa.Table.from_batches(waiting))
                waiting = []
        if sum(b.num_rows for b in waiting):
            yield self._made(pa.Table.from_batches(waiting))

    def _made(self, rows: Any) -> Any:
        import pyarrow as pa

        made = pickle.dumps(self.task(self.schema.log(rows)))
        return pa.RecordBatch.from_arrays([pa.array([made], pa.binary())], names=["made"])


def _as_bytes(batches: Iterator[Any]) -> Iterator[Any]:
    """Arrow batches as one binary value each, which the driver can fetch partition by partition."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays(
            [pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["part"]
        )


def _from_bytes(data: Any) -> list[Any]:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(bytes(data))) as reader:
        return list(reader)


def _one_batch(batches: list[Any], schema: Any) -> Any:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).cast(schema).combine_chunks()
    return table.to_batches()[0]


def read_files(
    source: str,
    engine: str,
    *,
    temp_directory: str | Path | None = None,
    labels: Collection[str] = (),
) -> tuple[Engine, Any]:
    """Files read by Spark: ``engine`` is "spark" (this machine), or a master such as "spark://…"."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing_dependency("pyspark", "spark", "engine='spark'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    master = "local[*]" if engine == "spark" else engine
    session = (
        SparkSession.builder.master(master)
        .appName("offpolicy")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
        if running is None
        else running
    )
    spark = Spark(session, own=running is None, temp_directory=temp_directory)
    plain = source.removesuffix(".gz")
    if plain.endswith((".csv", ".tsv")):
        frame = session.read.csv(
            source,
            header=True,
            sep=csv.separator(source),
            escape='"',
            mode="FAILFAST",
            multiLine=True,
        )
        return spark, csv.typed(spark, spark.from_frame(frame), labels)
    if plain.endswith((".parquet", ".pq")) or "." not in plain.rsplit("/", maxsplit=1)[-1]:
        frame = session.read.parquet(source)
    else:
        spark.close()
        raise DataError(f"{source!r}: Spark reads Parquet (.parquet) and CSV (.csv) files here.")
    return spark, spark.from_frame(frame)
