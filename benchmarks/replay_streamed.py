"""A log that is streamed block by block of time: ten million rows, twenty days, LinUCB, a linear reward model.

Prints CPU seconds and peak memory of `op.replay`, and of what it cannot do without: reading the rows once, fitting the
reward models of the past, and the learner's own updates. Each part runs in a process of its own.

    python benchmarks/replay_streamed.py out/replay_log --rows 10000000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

DAYS, ARMS, CHUNK = 20, 3, 500_000
CONTEXT = [f"x{j}" for j in range(4)]
ROLES: dict[str, Any] = {"context": CONTEXT, "action": "arm", "reward": "r", "propensity": "p", "id": "id"}
PARTS = ("read", "fits", "updates", "replay")


def write(path: Path, rows: int) -> None:
    """The log as one Parquet file, in the order of time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for first in range(0, rows, CHUNK):
        n = min(CHUNK, rows - first)
        rng = np.random.default_rng([33, first])
        x = rng.normal(size=(n, 4)).round(4)
        z = np.exp(0.5 * np.column_stack([x[:, 0], x[:, 1], -x[:, 0]]))
        p = z / z.sum(axis=1, keepdims=True)
        arm = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=ARMS - 1)
        q = 0.2 + 0.2 * np.column_stack([x[:, 0], x[:, 1], -x[:, 0] - x[:, 1]])
        at = np.arange(n)
        columns = {name: x[:, j] for j, name in enumerate(CONTEXT)}
        columns |= {"arm": arm, "r": q[at, arm] + 0.4 * rng.normal(size=n), "p": p[at, arm], "id": first + at}
        table = pa.table({**columns, "day": (first + at) * DAYS // rows})
        writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table, row_group_size=100_000)
    assert writer is not None
    writer.close()


def run(part: str, path: Path) -> None:
    """One part, with its CPU time and memory."""
    import offpolicy as op
    from offpolicy.decide.online.own import fresh
    from offpolicy.decide.past import Telling, past_rewards
    from offpolicy.engines.timed import in_time

    learner = op.learners.LinUCB()
    start, cpu, said = time.perf_counter(), time.process_time(), ""
    with op.scan(str(path), **ROLES, way="stream", memory_limit="1GB", threads=1) as log:
        if part == "replay":
            ev = op.replay(log, {"LinUCB": learner}, blocks="day", reward_model="linear", estimators=["DML"])
            said = f"{ev['DML']}; {ev.verdict().level}"
        else:
            timed = in_time(log, "day", None, whole=False)
            ready, own, updates = fresh(learner, log.actions), Telling("r", lowest=False), 0.0
            if part == "fits":
                past_rewards(timed, {"r": "linear"}, 0)
            else:
                for _, block in timed.steps():
                    begin = time.process_time()
                    if part == "updates":
                        own.show(ready, block)
                    updates += time.process_time() - begin
        spent = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall = time.perf_counter() - start
    print(f"{part}\t{updates if part == 'updates' else spent:.1f}\t{wall:.1f}\t{peak:.0f}\t{said}")


def main() -> None:
    """Write the log, run every part, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--part", choices=PARTS)
    options = parser.parse_args()
    path = options.folder / f"log{options.rows}.parquet"
    if options.part:
        run(options.part, path)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write(path, options.rows)
    found = {}
    for part in PARTS:
        command = [sys.executable, __file__, str(options.folder), "--rows", str(options.rows), "--part", part]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        name, cpu, wall, peak, said = done.stdout.rstrip("\n").split("\t")
        found[part] = float(cpu)
        print(f"{name:8} {float(cpu):8.1f} s CPU {float(wall):8.1f} s wall {float(peak):8,.0f} MB  {said}", flush=True)
    # Fitting reads the rows as well.
    fits = max(found["fits"] - found["read"], 0.0)
    least = found["read"] + fits + found["updates"]
    print(f"replay ÷ (read + fits + updates) = {found['replay']:.1f} ÷ {least:.1f} = {found['replay'] / least:.2f}")


if __name__ == "__main__":
    main()
