"""Peak memory and seconds of one metric and of ten: same rows, same folds, same weights, models of each.

    python benchmarks/metrics.py                    # 300,000 rows of 10 columns
    python benchmarks/metrics.py --rows 1000000 --way stream

Every run is a process of its own. The last line is the ratio of peak memory beyond what the imports take; ten metrics
should need at most three times what one does.
"""

import argparse
import resource
import subprocess
import sys
import time


def measure(rows: int, metrics: int, way: str) -> None:
    import numpy as np
    import pandas as pd

    import offpolicy as op

    op.evaluate(  # imports and first-time work of every library
        op.BanditLog.from_arrays(np.zeros((50, 1)), [0, 1] * 25, np.arange(50.0), [0.5] * 50), "uniform"
    )
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=rows) for j in range(10)})
    frame["ad"], frame["p"] = rng.integers(5, size=rows), 0.2
    names = [f"m{j}" for j in range(metrics)]
    for j, name in enumerate(names):
        frame[name] = frame[f"x{j % 10}"] * (frame["ad"] == j % 5) + rng.normal(size=rows)
    roles = {"context": [f"x{j}" for j in range(10)], "action": "ad", "propensity": "p"}
    log = (
        op.BanditLog.from_frame(frame, reward=names, **roles)
        if way == "memory"
        else op.scan(frame, reward=names, way=way, chunk_rows=50_000, **roles)
    )
    start = time.perf_counter()
    ev = op.evaluate(log, {"zero": "always:0", "uniform": "uniform"})
    for name in names:
        each = ev.metric(name)
        for e in each.estimates.values():
            e.interval()
        for policy in each.policies:
            each.verdict(policy)
    if metrics > 1:
        ev.pareto()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(seconds, idle / 1024, peak / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--way", choices=("memory", "stream"), default="memory")
    parser.add_argument("--metrics", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.metrics:
        measure(options.rows, options.metrics, options.way)
        return
    taken = {}
    for metrics in (1, 10):
        command = [sys.executable, __file__, "--rows", str(options.rows), "--way", options.way]
        command += ["--metrics", str(metrics)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, idle, peak = map(float, out.split())
        taken[metrics] = peak - idle
        print(f"{metrics:3d} metrics: {seconds:6.1f} s, peak {peak:6.0f} MB, beyond imports {peak - idle:6.0f} MB")
    print(f"memory of ten over memory of one: {taken[10] / taken[1]:.2f}")


if __name__ == "__main__":
    main()
