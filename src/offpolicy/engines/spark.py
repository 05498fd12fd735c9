"""Spark: checks, compression and score sums run on the executors, models are fitted on the driver.

Queries go through Ibis. Row-level scores go through ``mapInArrow``: every task turns its partition into one
row of sums, so that a lost executor means a task done again and the same sums. Sums are merged in the order
of the partitions.
"""

from __future__ import annotations

import io
import os
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.engine import BATCH_ROWS, ibis_module
from offpolicy.engines.roles import normalized
from offpolicy.engines.scored import Key, Part, Task, score_chunk
from offpolicy.engines.workspace import Workspace
from offpolicy.errors import DataError, missing_dependency
from offpolicy.inference.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offpolicy.engines.engine import Engine
    from offpolicy.engines.scan import LogScan


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

    def score(self, log: LogScan, task: Task) -> tuple[Part, Any]:
        """Sums of all scores, made by the executors, and a sample of rows."""
        from offpolicy.engines.stream import passes, sample_filter

        rows = normalized(log.table, log.roles, log.facts.labels, task.schema.extra)
        frame = self.frame(rows)
        if log.roles.cluster is not None:
            # A cluster's rows go to one task, side by side, so that its scores can be summed there.
            frame = frame.repartition("cluster").sortWithinPartitions("cluster")

        def one_pass(known: dict[Key, list[float]]) -> Part:
            work = _Partition(task, known, log.limits.chunk, log.roles.cluster is not None)
            found = frame.mapInArrow(work, "partition int, sums binary").collect()
            parts = [
                decode(bytes(row["sums"]), task)
                for row in sorted(found, key=lambda row: row["partition"])
            ]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            log.report("score", 1.0)
            return total

        return passes(task, one_pass), self.table(sample_filter(rows, log.n, task.schema.plan.seed))


@dataclass(frozen=True, eq=False)
class _Partition:
    """What a task does with its partition."""

    task: Task
    known: dict[Key, list[float]]
    chunk: int
    clustered: bool

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        total: Part | None = None
        for rows in self._chunks(batches):
            part, _ = score_chunk(self.task, rows, 0, self.known)
            total = part if total is None else total + part
        if total is None:
            return
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([encode(total, self.task)], pa.binary())],
            names=["partition", "sums"],
        )

    def _chunks(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from offpolicy.engines.chunks import last_cluster_start

        held: list[Any] = []
        for batch in batches:
            held.append(batch)
            if sum(b.num_rows for b in held) < self.chunk:
                continue
            table = pa.Table.from_batches(held)
            held = []
            if self.clustered:
                cut = last_cluster_start(table)
                held = table.slice(cut).to_batches()
                table = table.slice(0, cut)
            if table.num_rows:
                yield table
        if sum(b.num_rows for b in held):
            yield pa.Table.from_batches(held)


def encode(part: Part, task: Task) -> bytes:
    """Sums as bytes: numpy arrays, read back without running anything."""
    arrays: dict[str, Any] = {
        "n": np.array(part.moments.n),
        "mean": part.moments.mean,
        "scatter": part.moments.scatter,
        "rows": part.rows,
    }
    for i, key in enumerate(task.keys):
        arrays[f"means{i}"] = np.array(part.means[key], dtype=np.float64).reshape(-1, 2)
    for i, name in enumerate(task.policies):
        if name in part.weights:
            arrays[f"weights{i}"] = part.weights[name]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def decode(data: bytes, task: Task) -> Part:
    """The sums that `encode` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        moments = Moments(float(arrays["n"]), arrays["mean"], arrays["scatter"])
        means = {
            key: [(float(a), float(b)) for a, b in arrays[f"means{i}"]]
            for i, key in enumerate(task.keys)
        }
        weights = {
            name: arrays[f"weights{i}"]
            for i, name in enumerate(task.policies)
            if f"weights{i}" in arrays.files
        }
        return Part(moments, means, arrays["rows"], weights)


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
    source: str, engine: str, *, temp_directory: str | Path | None = None
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
        separator = "\t" if plain.endswith(".tsv") else ","
        frame = session.read.csv(source, header=True, inferSchema=True, sep=separator)
    elif plain.endswith((".parquet", ".pq")) or "." not in plain.rsplit("/", maxsplit=1)[-1]:
        frame = session.read.parquet(source)
    else:
        spark.close()
        raise DataError(f"{source!r}: Spark reads Parquet (.parquet) and CSV (.csv) files here.")
    return spark, spark.from_frame(frame)
