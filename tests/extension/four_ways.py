"""The same rows as a frame, a Parquet stream, a DuckDB table and a Spark table: what a kind from outside must pass."""

import os
import shutil
import sys
from pathlib import Path

import pytest

CHUNK = 300  # rows of a block: several blocks even of small logs


def spark_frame(frame, module):
    """The rows in Spark; what a test file defines travels to executors by value."""
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    pyspark.cloudpickle.register_pickle_by_value(sys.modules[module])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .getOrCreate()
    )
    return session.createDataFrame(frame)


def source(way, frame, folder, module):
    """Where the rows are, and what `scan` is told besides the roles."""
    if way == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        connection = duckdb.connect(str(folder / "log.duckdb"))
        connection.register("given", frame)
        connection.execute("CREATE OR REPLACE TABLE log AS SELECT * FROM given")
        return connection, {"table": "log", "way": "stream", "chunk_rows": CHUNK}
    if way == "spark":
        return spark_frame(frame, module), {"way": "stream", "chunk_rows": CHUNK}
    frame.to_parquet(folder / "log.parquet")
    return str(folder / "log.parquet"), {"way": "stream", "chunk_rows": CHUNK}


WAYS = [
    "parquet",
    "duckdb",
    pytest.param(
        "spark",
        marks=[
            pytest.mark.spark,
            pytest.mark.xdist_group("spark"),
            pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
            pytest.mark.filterwarnings("ignore::ResourceWarning"),
            pytest.mark.filterwarnings("ignore::DeprecationWarning"),
        ],
    ),
]


def answers(ev):
    """Every estimate with its interval, and what the checks found."""
    found = {(p, e.name): (ev[p, e.name].value, ev[p, e.name].std_error) for p in ev.policies for e in ev.estimators}
    return found, {name: f.value for name, f in ev.diagnostics.log.items()}
