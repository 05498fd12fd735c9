"""Spark: checks, compression and predictions run on the executors, models are fitted on the driver.

Queries go through Ibis. Blocks go through ``mapInArrow``: an executor turns the rows of its partition, contexts and
all, into a few numbers per row, so that a lost executor means a task done again and the same numbers. Files that lie
on the driver's machine are checked before and after every pass, as DuckDB's are; those on a cluster's file system are
Spark's to keep.
"""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.engines import csv, files
from offpolicy.engines.engine import BATCH_ROWS, Here, backend_errors, ibis_module
from offpolicy.errors import DataError, UsageError, missing_dependency

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from offpolicy.engines.engine import Engine, Work


class Spark(Here):
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
    elsewhere = True

    def __init__(
        self, session: Any, *, backend: Any = None, own: bool = False, temp_directory: str | Path | None = None
    ) -> None:
        super().__init__(temp_directory)
        self.session = session
        self.backend = ibis_module().pyspark.connect(session) if backend is None else backend
        self._own = own

    def source(self, frame: Any) -> Any:
        """Ibis table of the DataFrame that is the log."""
        self.watch(frame)
        return self.from_frame(frame)

    def watch(self, frame: Any) -> None:
        """The files that a DataFrame reads must stay as they are from now on."""
        paths = files.on_this_machine(frame.inputFiles())
        self.fingerprint = files.Fingerprint.of(paths) if paths else None

    def watch_table(self, table: Any) -> None:
        """The same for the files behind an Ibis table."""
        self.watch(self.frame(table))

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
        self.unchanged()
        with backend_errors("Spark"):
            return self.frame(expression).toArrow()

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches; partitions come to the driver one at a time."""
        self.unchanged(tails=True)
        frame = self.frame(expression)
        schema = self.table(expression.limit(0)).schema
        pending: list[Any] = []
        parts = frame.mapInArrow(_as_bytes, "part binary").toLocalIterator()
        while True:
            with backend_errors("Spark"):
                row = next(parts, None)
            if row is None:
                break
            pending += _from_bytes(row["part"])
            if sum(b.num_rows for b in pending) >= rows:
                yield _one_batch(pending, schema)
                pending = []
        if pending:
            yield _one_batch(pending, schema)
        self.unchanged()

    def upload(self, table: Any) -> Any:
        """An Ibis table of a temporary view; small, so Spark sends it to every executor."""
        return self.from_frame(self.session.createDataFrame(table))

    def close(self) -> None:
        """Stop an own session and remove temporary files."""
        if self._own:
            self.session.stop()
        super().close()

    def run(self, expression: Any, work: Work, keys: Sequence[str], rows: int) -> Iterator[Any]:
        """What ``work`` makes of each partition, made by the executors; partitions come in their order.

        All partitions are worked on at once and their results wait on the executors' disks; the driver then
        takes them over one partition at a time.
        """
        from pyspark import StorageLevel

        self.unchanged(tails=True)
        frame, before = self.frame(expression), dict[int, int]()
        if keys:
            frame = frame.repartitionByRange(max(2, self.session.sparkContext.defaultParallelism), keys[0])
            # Kept as they are, so that what was counted is what is worked on.
            frame = frame.sortWithinPartitions(*keys).persist(StorageLevel.DISK_ONLY)
            before = _values_before(frame, keys[0])
        made = frame.mapInArrow(_Work(work, before), "made binary").persist(StorageLevel.DISK_ONLY)
        try:
            with backend_errors("Spark"):
                made.count()
            self.unchanged()
            for row in made.toLocalIterator():
                yield pickle.loads(bytes(row["made"]))  # noqa: S301 — what these executors made of the task
        finally:
            made.unpersist()
            frame.unpersist()


def _values_before(frame: Any, key: str) -> dict[int, int]:
    """How many values of a column the partitions before each have, none of which is in two of them."""
    from pyspark.sql import functions

    counted = frame.groupBy(functions.spark_partition_id().alias("part"))
    counts = {row["part"]: row["n"] for row in counted.agg(functions.countDistinct(key).alias("n")).collect()}
    before, total = {}, 0
    for part in sorted(counts):
        before[part] = total
        total += counts[part]
    return before


@dataclass(frozen=True, eq=False)
class _Work:
    """What an executor does with its partition."""

    work: Work
    before: dict[int, int]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext, cloudpickle

        context = TaskContext.get()
        for made in self.work(batches, self.before.get(context.partitionId() if context else 0, 0)):
            yield pa.RecordBatch.from_arrays([pa.array([cloudpickle.dumps(made)], pa.binary())], names=["made"])


def _as_bytes(batches: Iterator[Any]) -> Iterator[Any]:
    """Arrow batches as one binary value each, which the driver can fetch partition by partition."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["part"])


def _from_bytes(data: Any) -> list[Any]:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(bytes(data))) as reader:
        return list(reader)


def _one_batch(batches: list[Any], schema: Any) -> Any:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).cast(schema).combine_chunks()
    return table.to_batches()[0]


def _session(kind: Any, master: str) -> Any:
    """A session of one's own."""
    builder = kind.builder.master(master).appName("offpolicy")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    try:
        return builder.config(map=quiet).getOrCreate()
    except Exception as error:
        why = str(error).strip().splitlines()
        said = next((line for line in why if line.startswith(":")), why[0] if why else type(error).__name__)
        raise UsageError(f"engine={master!r}: Spark cannot be started there ({said.lstrip(': ')}).") from error


def read_files(
    source: str, engine: str, *, temp_directory: str | Path | None = None, labels: Collection[str] = ()
) -> tuple[Engine, Any]:
    """Files read by Spark: ``engine`` is "spark" (this machine), or a master such as "spark://…"."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing_dependency("pyspark", "spark", "engine='spark'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    master = "local[*]" if engine == "spark" else engine
    session = running if running is not None else _session(SparkSession, master)
    spark = Spark(session, own=running is None, temp_directory=temp_directory)
    try:
        return spark, _rows_of_files(spark, source, labels)
    except BaseException:
        spark.close()
        raise


def _rows_of_files(spark: Spark, source: str, labels: Collection[str]) -> Any:
    plain, read = source.removesuffix(".gz"), spark.session.read
    is_folder = Path(source).is_dir()
    here = [] if is_folder or files.REMOTE.match(source) else files.listed(source)
    if plain.endswith((".csv", ".tsv")):
        if here:  # Spark takes the first file's names for the columns of every file
            csv.common_header(here)
        with backend_errors("Spark"):
            frame = read.csv(
                here or source, header=True, sep=csv.separator(source), escape='"', mode="FAILFAST", multiLine=True
            )
        return csv.typed(spark, spark.source(frame), labels)
    if not plain.endswith((".parquet", ".pq")) and "." in plain.rsplit("/", maxsplit=1)[-1]:
        raise DataError(f"{source!r}: Spark reads Parquet (.parquet) and CSV (.csv) files here.")
    with backend_errors("Spark"):
        frame = read.parquet(source)
    return spark.source(_reconciled(read, frame))


def _reconciled(read: Any, frame: Any) -> Any:
    """The rows of Parquet files with types that hold every value; Spark takes those of one file for all."""
    from functools import reduce

    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema

    paths = files.on_this_machine(frame.inputFiles())
    if len(paths) < 2:
        return frame
    wide = from_arrow_schema(files.common_schema(paths))
    alike: dict[tuple[Any, ...], list[str]] = {}
    for path in paths:
        schema = pq.read_schema(path)
        alike.setdefault(tuple((f.name, f.type) for f in schema), []).append(path)
    if len({frozenset(columns) for columns in alike}) == 1:  # the order of columns is no matter
        return frame
    parts = [
        read.parquet(*group).selectExpr(
            *(f"cast(`{f.name.replace('`', '``')}` as {f.dataType.simpleString()})" for f in wide)
        )
        for group in alike.values()
    ]
    return reduce(lambda a, b: a.unionByName(b), parts)
