"""Ten million rows of 20 continuous columns, a deterministic target: streamed, at bounded memory.

Prints the ratio of the whole to what nobody can do without: one DuckDB scan of the files and bare LightGBM fits on
the same training rows, made in a process of its own in the same run.

python benchmarks/continuous.py out/continuous --rows 10000000
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from forty_million import Clock

COLUMNS, ACTIONS, CHUNK = 20, 10, 500_000


def reward_mean(x: np.ndarray, action: np.ndarray) -> np.ndarray:
    """μ(x, a): each action likes its own direction."""
    own = np.take_along_axis(x, (action % COLUMNS)[:, None], axis=1)[:, 0]
    return np.tanh(own) + 0.3 * np.sin(x[:, 0] * x[:, 1])


def choice(x: np.ndarray) -> np.ndarray:
    """The best action of each row."""
    return x[:, :ACTIONS].argmax(axis=1)


def write(folder: Path, rows: int) -> float:
    """Write the log unless it is there, and return the target's value on its contexts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    total = 0.0
    for part, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([7, part])
        n = min(CHUNK, rows - start)
        x = rng.normal(size=(n, COLUMNS))
        best = choice(x)
        total += float(reward_mean(x, best).sum())
        path = folder / f"part{part:04d}.parquet"
        if path.exists():
            continue
        follow = rng.random(n) < 0.3
        action = np.where(follow, best, rng.integers(0, ACTIONS, n))
        p = np.where(action == best, 0.3 + 0.7 / ACTIONS, 0.7 / ACTIONS)
        data = {f"x{j}": x[:, j] for j in range(COLUMNS)}
        data |= {"id": np.arange(start, start + n), "action": action, "p": p}
        data["reward"] = reward_mean(x, action) + rng.normal(size=n)
        partial = path.with_suffix(".partial")
        pq.write_table(pa.table(data), partial)
        partial.rename(path)
    return total / rows


BARE = """
import sys, time
import duckdb, lightgbm as lgb, numpy as np
folder, rounds, threads, columns = sys.argv[1], *map(int, sys.argv[2:5])
con = duckdb.connect()
con.execute(f"SET threads = {threads}")
con.execute("SET enable_progress_bar = false")
start = time.perf_counter()
data = con.execute(f"FROM '{folder}/*.parquet'").fetchnumpy()
scanned = time.perf_counter() - start
x = np.column_stack([data[f"x{j}"] for j in range(columns)] + [data["action"].astype(float)])
y, fold = data["reward"], data["id"] % 2
del data
settings = {"objective": "regression", "num_leaves": 31, "learning_rate": 0.1, "verbosity": -1,
            "num_threads": threads, "min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 5.0,
            "deterministic": True, "force_row_wise": True}
start = time.perf_counter()
for k in range(2):
    rows = fold != k
    data = lgb.Dataset(x[rows], label=y[rows], categorical_feature=[columns], params=settings)
    lgb.train(settings, data, num_boost_round=rounds)
print(scanned, time.perf_counter() - start)
"""


def bare(folder: Path, rounds: int, threads: int) -> tuple[float, float]:
    """Seconds of one scan of the files, and of the two fits, in a fresh process."""
    arguments = [str(folder), str(rounds), str(threads), str(COLUMNS)]
    done = subprocess.run([sys.executable, "-c", BARE, *arguments], check=True, capture_output=True, text=True)
    scanned, fitted = map(float, done.stdout.split())
    return scanned, fitted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    truth = write(args.folder, args.rows)
    import offpolicy as op

    clock = Clock()
    start, cpu = time.perf_counter(), time.process_time()
    names = [f"x{j}" for j in range(COLUMNS)]
    model = op.models.BoostedReward(rounds=args.rounds, validation=0, threads=args.threads)
    with op.scan(
        str(args.folder / "*.parquet"),
        context=names,
        action="action",
        reward="reward",
        propensity="p",
        id="id",
        way="stream",
        memory_limit="1GB",
        threads=args.threads,
        progress=clock,
    ) as log:
        ev = op.evaluate(
            log, lambda frame: choice(frame[names].to_numpy()), estimators=["IPW", "DML"], reward_model=model
        )
        clock("intervals and checks", 0.0)
        verdict = ev.verdict()
        intervals = {name: ev[name].interval() for name in ("IPW", "DML")}
    clock("done", 1.0)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name in ("IPW", "DML"):
        e = ev[name]
        z = (e.value - truth) / e.std_error
        print(
            f"{name}: {e.value:.6f}, standard error {e.std_error:.6f}, truth {truth:.6f}, z {z:.2f}, "
            f"{intervals[name].method} interval, verdict {verdict.level}"
        )
    stages: dict[str, float] = {}
    for stage, seconds in clock.seconds.items():
        key = stage.removeprefix("after ")
        stages[key] = stages.get(key, 0.0) + seconds
    print("stages:", ", ".join(f"{k} {v:.1f} s" for k, v in stages.items()))
    print(
        f"{args.rows:,} rows x {COLUMNS} columns: {wall:.1f} s wall, {cpu:.1f} s CPU, peak {peak:,.0f} MB, "
        f"{args.rows / wall:,.0f} rows/s"
    )
    scanned, fitted = bare(args.folder, args.rounds, args.threads)
    print(
        f"bare scan {scanned:.1f} s, bare LightGBM fits {fitted:.1f} s: the whole is "
        f"{wall / (scanned + fitted):.2f} x their sum"
    )


if __name__ == "__main__":
    main()
