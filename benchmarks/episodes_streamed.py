"""Episodes and slates from Parquet in blocks: time, memory, and the same answer as in memory.

    python benchmarks/episodes_streamed.py --steps 200000 --slates 60000        # small, compared with memory
    python benchmarks/episodes_streamed.py --steps 10000000 --slates 3000000 --alone

``--alone`` leaves out the comparison with a frame in memory. Peak memory is that of the process (ru_maxrss).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression

import offpolicy as op

LENGTH, SLOTS, BLOCK = 10, 3, 200_000
FIT = 1_000_000  # rows that models are fitted to, drawn by a hash beyond
STEPS = {"episode": "id", "step": "t", "state": ["x", "y"], "action": "a", "reward": "r", "propensity": "p"}
SLATES = {"slate": "id", "position": "t", "context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
ITEMS = np.array(["a", "b", "c", "d"])


def write(path: Path, units: int, length: int, seed: int) -> None:
    """Units of the same length, some at a time."""
    writer = None
    for first in range(0, units, BLOCK // length):
        n = min(BLOCK // length, units - first)
        rng = np.random.default_rng([seed, first])
        rows = n * length
        x = rng.normal(size=rows)
        if length == SLOTS:
            x = np.repeat(x[::length], length)
            code = np.argsort(rng.random((n, len(ITEMS))), axis=1)[:, :length].ravel()
            p = np.tile(1.0 / (len(ITEMS) - np.arange(length)), n)
        else:
            code = rng.integers(0, 2, rows)
            p = np.full(rows, 0.5)
        frame = pd.DataFrame(
            {
                "id": np.repeat(np.arange(first, first + n), length),
                "t": np.tile(np.arange(length), n),
                "x": x,
                "y": rng.normal(size=rows),
                "a": ITEMS[code],
                "r": (rng.random(rows) < 0.2 + 0.1 * (code == 1) * (x > 0)).astype(float),
                "p": p,
            }
        )
        table = pa.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def peak() -> float:
    """Largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def softly(rows: pd.DataFrame) -> np.ndarray:
    """More of b where x is positive."""
    b = np.where(rows["x"].to_numpy() > 0, 0.8, 0.4)
    return np.column_stack([1 - b, b])


def run(kind: str, path: Path, *, alone: bool) -> None:
    """Evaluate a stream, then the same file in memory."""
    episodes = kind == "episodes"
    constructor, roles = (op.Trajectories, STEPS) if episodes else (op.Slates, SLATES)
    policy = softly if episodes else "uniform"
    asked = {
        "estimators": ["IPW", "DML"],
        "value_model": op.FittedQ(LinearRegression()) if episodes else None,
        "seed": 1,
    }
    began = time.perf_counter()
    with constructor.scan(str(path), way="stream", memory_limit="500MB", threads=1, fit_rows=FIT, **roles) as log:
        ev = op.evaluate(log, policy, **asked)
        value = ev["policy", "DML"].value
        rows = ev.problem.log.rows
    took = time.perf_counter() - began
    print(f"{kind}: {rows:,} rows, DML {value:.6g}, {took:.1f} s, peak {peak():.2f} GB")
    if not alone:
        # Beyond FIT rows the models of the stream are those of a sample, and the two differ by noise.
        whole = op.evaluate(constructor.from_frame(pd.read_parquet(path), **roles), policy, **asked)
        gap = abs(whole["policy", "DML"].value - value)
        print(f"{kind}: in memory the same to {gap:.2g}")


def main() -> None:
    """Write the files, then read them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--slates", type=int, default=60_000)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind, units, length in (("episodes", options.steps // LENGTH, LENGTH), ("slates", options.slates, SLOTS)):
            if units:
                path = Path(folder) / f"{kind}.parquet"
                write(path, units, length, 0)
                run(kind, path, alone=options.alone)


if __name__ == "__main__":
    main()
