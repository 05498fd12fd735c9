"""Cost of the default evaluation of a frame against rows, columns, actions, policies and metrics: slopes and a picture.

    python benchmarks/growth.py
    python benchmarks/growth.py --picture docs/pictures/growth.svg
    python benchmarks/growth.py --only rows --largest 10000000

Everything by default: models, estimators, checks and verdicts; propensities are logged. Every point is a process of
its own; CPU seconds of ``evaluate``, the table and all verdicts, without imports. The slope is that of a straight line
through the logarithms: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from scaling import draw

BASE = {"rows": 20_000, "columns": 5, "actions": 3, "policies": 1, "metrics": 1}
CURVES = {
    "rows": [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
    "columns": [5, 15, 50, 150],
    "actions": [2, 6, 20, 60],
    "policies": [1, 3, 10, 30],
    "metrics": [1, 3, 10],
}


def one(rows: int, columns: int, actions: int, policies: int, metrics: int) -> float:
    """CPU seconds of one evaluation."""
    import pandas as pd

    import offpolicy as op

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])
    action = rng.integers(0, actions, rows)
    frame["ad"] = np.char.add("ad ", action.astype(str))
    frame["p"] = 1.0 / actions
    rewards = [f"reward {m}" for m in range(metrics)]
    for m, name in enumerate(rewards):
        frame[name] = (rng.random(rows) < 0.2 + 0.1 * (x[:, m % columns] > 0) * (action == m % actions)) * 1.0
    log = op.BanditLog.from_frame(
        frame, context=[f"x{j}" for j in range(columns)], action="ad", reward=rewards, propensity="p"
    )

    def rule(j: int):
        return lambda context: np.char.add("ad ", ((context[f"x{j % columns}"] > 0) * (j % actions)).astype(str))

    # What is loaded and compiled on first use is no part of the cost.
    op.evaluate(op.BanditLog.from_arrays(x[:500], action[:500] > 0, x[:500, 0], np.full(500, 0.5)), "always:True")
    start = time.process_time()
    ev = op.evaluate(log, {f"policy {j}": rule(j + 1) for j in range(policies)})
    for metric in rewards:
        asked = ev.metric(metric) if metrics > 1 else ev
        asked.frame()
        for policy in ev.policies:
            asked.verdict(policy)
    return time.process_time() - start


def slope(points: list[tuple[int, float]]) -> float:
    """Of the straight line through the logarithms."""
    x, y = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000, help="rows up to which cost is measured")
    parser.add_argument("--only", choices=list(CURVES))
    parser.add_argument("--setting", type=json.loads, help="measure one point, here")
    parser.add_argument("--picture", type=Path, help="draw the curves (SVG or PNG)")
    options = parser.parse_args()
    if options.setting is not None:
        print(one(**options.setting))
        return
    curves: dict[str, list[tuple[int, float]]] = {}
    for what, sizes in CURVES.items():
        if options.only not in {None, what}:
            continue
        curves[what] = []
        for size in sizes:
            setting = {**BASE, what: size}
            if setting["rows"] > options.largest:
                continue
            command = [sys.executable, __file__, "--setting", json.dumps(setting)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            curves[what].append((size, float(done.stdout.splitlines()[-1])))
            print(f"{what:>9} {size:>11,}: {curves[what][-1][1]:7.2f} CPU-s", flush=True)
        print(f"{what:>9}: CPU grows as its power {slope(curves[what]):.2f} (1 is linear)\n", flush=True)
    if options.picture is not None:
        draw(curves, options.picture)


if __name__ == "__main__":
    main()
