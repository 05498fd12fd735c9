"""Time and memory of the online-ads study, stage by stage.

    python benchmarks/ads_study.py --scale 1 --out /tmp/ads

Prints one line a stage and the peak resident memory of all processes together (an upper bound: the
largest worker times the number of workers, plus the parent).
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from offpolicy.experiments.ads.study import Args, reproduce


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        result = reproduce(
            Args(
                scale=options.scale,
                seed=options.seed,
                folds=options.folds,
                workers=options.workers,
                out=options.out or Path(scratch),
            )
        )
        total = time.perf_counter() - start
    workers = options.workers or os.cpu_count() or 1
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for stage, seconds in result["seconds"].items():
        print(f"{stage:<10} {seconds:8.1f} s")
    print(f"{'total':<10} {total:8.1f} s on {workers} workers")
    print(
        f"{'memory':<10} {(parent + (workers if workers > 1 else 0) * child) / 2**20:8.2f} GiB at most"
    )
    load = os.getloadavg()[1]
    print(f"{'load':<10} {load:8.1f} (five-minute average; {workers} would be this run alone)")


if __name__ == "__main__":
    main()
