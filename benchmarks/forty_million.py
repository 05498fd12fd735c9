"""The paper-size evaluation: 40,101,050 rows, 4 campaigns, five estimators, known and estimated π_b.

Ends with automatic intervals, all checks and a verdict on the whole log, for both ways of knowing π_b. Prints the
time of every stage, the peak memory, and the ratio of the whole to a plain DuckDB GROUP BY of the same files, made in
a process of its own in the same run.

    python benchmarks/forty_million.py out/paper_log
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import paper_log

ESTIMATORS = ["IPW", "SNIPW", "DR-full", "DR-half", "DML"]
PLAIN = """
import duckdb, resource, sys, time
con = duckdb.connect()
con.execute(f"SET threads = {sys.argv[2]}")
con.execute("SET memory_limit = '2GB'")
con.execute("SET enable_progress_bar = false")
start, cpu = time.perf_counter(), time.process_time()
groups, rows = con.execute(
    "SELECT count(*), sum(n) FROM (SELECT campaign, batch, gender, age, region, device, os, hour, ad, click, "
    f"count(*) AS n FROM '{sys.argv[1]}/*.parquet' GROUP BY ALL)"
).fetchone()
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
print(wall, cpu, groups, rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def plain_group_by(folder: Path, threads: int) -> tuple[float, float]:
    """Wall and CPU seconds of the GROUP BY, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(folder), str(threads)], check=True, capture_output=True, text=True
    )
    wall, cpu, groups, rows, peak = map(float, done.stdout.split())
    print(
        f"plain GROUP BY: {wall:.1f} s wall, {cpu:.1f} s CPU, {peak:,.0f} MB, {rows:,.0f} rows in {groups:,.0f} groups"
    )
    return wall, cpu


def evaluate_campaign(folder: Path, world: Any, rounds: int, threads: int, clock: Any) -> list[Any]:
    """All estimates of one campaign: (estimator, π_b, value, interval, verdict)."""
    import offpolicy as op

    model = op.models.BoostedReward(rounds=rounds, validation=0, threads=1)
    with op.scan(
        str(folder / f"campaign{world.number}.parquet"),
        **paper_log.ROLES,
        memory_limit="800MB",
        threads=threads,
        way="cells",
        progress=clock,
    ) as log:
        known = op.evaluate(log, world.policy, estimators=ESTIMATORS, reward_model=model, n_jobs=threads)
        found = judged(known, "known", clock)
        held = known.settings["engine"]["held"]
        clock("estimated", 0.0)
        estimated = known.with_behavior("shares")
        found += judged(estimated, "estimated", clock)
        clock("done", 1.0)
    print(f"campaign {world.number}: {log.n:,} rows in {held:,} cells")
    return found


def judged(ev: Any, pi_b: str, clock: Any) -> list[Any]:
    """Intervals of every estimator by the automatic rules, the checks, and the verdict on each."""
    clock("intervals", 0.0)
    intervals = {name: ev[name].interval() for name in ESTIMATORS}
    clock("checks", 0.0)
    assert ev.diagnostics["policy"]["effective_sample_size"].value > 0
    verdict = ev.verdict()
    clock("between", 0.0)
    return [(name, pi_b, ev[name].value, intervals[name], verdict.level) for name in ESTIMATORS]


class Clock:
    """Wall seconds of each stage, from the progress hook."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stage, self.since = "open", time.perf_counter()

    def __call__(self, stage: str, done: float) -> None:
        now = time.perf_counter()
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.since
        self.stage, self.since = (stage if done == 0.0 else f"after {stage}"), now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=paper_log.ROWS)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    worlds = paper_log.write(args.folder, rows=args.rows)
    before, before_cpu = plain_group_by(args.folder, args.threads)
    # The GROUP BY is timed without DuckDB's import, so imports are left out here as well.
    for package in ("duckdb", "ibis", "lightgbm", "offpolicy"):
        importlib.import_module(package)
    clock = Clock()
    start, cpu = time.perf_counter(), time.process_time()
    rows = []
    for world in worlds:
        found = evaluate_campaign(args.folder, world, args.rounds, args.threads, clock)
        rows += [(world, *each) for each in found]
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    after, after_cpu = plain_group_by(args.folder, args.threads)
    plain, plain_cpu = (before + after) / 2, (before_cpu + after_cpu) / 2
    inside = 0
    print(f"{'campaign':>8} {'estimator':>9} {'π_b':>9} {'value':>9} {'interval':>20} {'truth':>9}")
    for world, name, pi_b, value, interval, verdict in rows:
        inside += interval.covers(world.truth)
        print(
            f"{world.number:>8} {name:>9} {pi_b:>9} {value:9.6f} {interval.low:9.6f} – {interval.high:8.6f} "
            f"{world.truth:9.6f} {interval.method}, {verdict}"
        )
    print(f"inside the 95% interval: {inside} of {len(rows)}")
    print("stages:", ", ".join(f"{k} {v:.1f} s" for k, v in clock.seconds.items()))
    print(
        f"whole evaluation: {wall:.1f} s wall, {cpu:.1f} s CPU, peak {peak:,.0f} MB; "
        f"{wall / plain:.1f} x the GROUP BY by wall, {cpu / plain_cpu:.1f} x by CPU"
    )


if __name__ == "__main__":
    main()
