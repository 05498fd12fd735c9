"""The same rows as a frame, a Parquet stream, a DuckDB table and a Spark table: what a kind from outside must pass."""

import pytest
from clusters import spark_session

CHUNK = 300  # rows of a block: several blocks even of small logs


def spark_frame(frame, module):
    """The rows in Spark; what a test file defines travels to executors by value."""
    return spark_session(module).createDataFrame(frame)


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
