"""Cost of an evaluation against rows, distinct contexts, actions and policies, each in a fresh process.

python benchmarks/scaling.py out/scaling --largest 4000000
python benchmarks/scaling.py out/scaling --picture docs/pictures/scaling.svg
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import paper_log

BASE = {"rows": 1_000_000, "contexts": 10_000, "actions": 55, "policies": 1}
CURVES = {
    "rows": [1_000_000, 4_000_000, 10_000_000, 40_000_000],
    "contexts": [1_000, 3_000, 10_000, 30_000, 100_000],
    "actions": [10, 30, 100, 300, 1_000],
    "policies": [1, 5, 20, 50],
}


def one(folder: Path, setting: dict[str, int]) -> dict[str, float]:
    """Evaluate one log; wall, CPU, peak memory and cells."""
    name = f"r{setting['rows']}c{setting['contexts']}a{setting['actions']}"
    path = folder / name
    world = paper_log.write(
        path, rows=setting["rows"], campaigns=1, contexts=setting["contexts"], actions=setting["actions"], batches=7
    )[0]
    import offpolicy as op

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, cpu = time.perf_counter(), time.process_time()
    rng = np.random.default_rng(0)
    policies = {"policy0": world.policy}
    for j in range(1, setting["policies"]):
        best = rng.integers(0, setting["actions"])
        policies[f"policy{j}"] = op.policies.Fixed(paper_log.labels(setting["actions"])[best])
    with op.scan(str(path / "*.parquet"), **paper_log.ROLES, way="cells", max_cells=40_000_000) as log:
        ev = op.evaluate(
            log,
            policies,
            estimators=["IPW", "SNIPW", "DML"],
            reward_model=op.models.BoostedReward(rounds=50, validation=0),
        )
        cells = ev.settings["engine"]["held"]
    return {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before": before,
        "cells": float(cells),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--largest", type=int, default=40_000_000)
    parser.add_argument("--only", choices=list(CURVES), default=None)
    parser.add_argument("--setting", type=json.loads, default=None)
    parser.add_argument("--picture", type=Path, default=None, help="draw the curves (SVG or PNG)")
    args = parser.parse_args()
    if args.setting is not None:
        print(json.dumps(one(args.folder, args.setting)))
        return
    curves: dict[str, list[tuple[int, float]]] = {}
    for what, values in CURVES.items():
        if args.only not in {None, what}:
            continue
        points = []
        for value in values:
            setting = {**BASE, what: value}
            if setting["rows"] > args.largest:
                continue
            done = subprocess.run(
                [sys.executable, __file__, str(args.folder), "--setting", json.dumps(setting)],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            points.append((value, found["cpu"]))
            print(
                f"{what} {value:>11,}: {found['wall']:6.1f} s wall, {found['cpu']:6.1f} s CPU, "
                f"{found['peak']:6,.0f} MB, {found['cells']:12,.0f} cells",
                flush=True,
            )
        if len(points) > 1:
            (x0, y0), (x1, y1) = points[0], points[-1]
            slope = math.log(y1 / y0) / math.log(x1 / x0)
            print(f"{what}: CPU grows as its power {slope:.2f} (1 is linear)\n", flush=True)
        curves[what] = points
    if args.picture is not None:
        draw(curves, args.picture)


def draw(curves: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """CPU seconds against each size, on logarithmic axes, with a line of slope 1 to compare."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "offpolicy"
    seconds = [cpu for points in curves.values() for _, cpu in points]
    low, high = min(seconds) / 1.5, 1.5 * max(seconds)
    figure, axes = plt.subplots(1, len(curves), figsize=(3.1 * len(curves), 2.9), squeeze=False)
    for ax, (what, points) in zip(axes[0], curves.items(), strict=True):
        x, y = np.array(points, dtype=float).T
        ax.loglog(x, y, "o-", color="#0b6e99", label="CPU seconds")
        ax.loglog(x, y[0] * x / x[0], ":", color="#888888", label="linear")
        ax.set_xlabel(what)
        ax.set_ylim(low, high)
        ax.minorticks_off()
        ticks = [tick for tick in (0.1, 0.3, 1, 3, 10, 30, 100) if low <= tick <= high]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0][0].legend(frameon=False)
    axes[0][0].set_ylabel("CPU seconds")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
