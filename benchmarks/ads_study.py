"""The online-ads study measured: time and memory of each stage, and several worlds side by side.

    python benchmarks/ads_study.py --scale 1 --out /tmp/ads
    python benchmarks/ads_study.py --scale 0.1 --seeds 0,1,2,3,4 --no-figure --out /tmp/ads

Each seed has its folder under ``--out`` and is resumed or only summarized when it is there. Memory is
an upper bound: the largest worker times the number of workers, plus the parent.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from offpolicy_studies.ads.study import Args, reproduce

NAMES = ("IPW", "DR-full", "DR-half", "DML", "DM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seeds", default="0", help="comma-separated")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--figure", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rows", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    seeds = [int(s) for s in options.seeds.split(",")]
    results = [measured(options, seed) for seed in seeds]
    for behavior in ("estimated", "true"):
        print(f"\n{behavior} π_b\n")
        rows = [numbers(r["summary"], behavior) for r in results]
        print(table(seeds, rows))
        print(
            f"\nDML's automatic 95% intervals cover {np.mean([r[-1] for r in rows]):.1f}% of the cells' true "
            "values; the aim is 93 to 97%."
        )


def measured(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run one seed and print what it took."""
    start, spent = time.perf_counter(), cpu_seconds()
    result = reproduce(
        Args(
            scale=options.scale,
            seed=seed,
            folds=options.folds,
            workers=options.workers,
            figure=options.figure,
            rows=options.rows,
            out=options.out / f"seed-{seed}-scale-{options.scale:g}-folds-{options.folds}",
        )
    )
    workers = options.workers or os.cpu_count() or 1
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stages = ", ".join(f"{k} {v} s" for k, v in result["seconds"].items())
    tasks = ", ".join(f"{k} {v}" for k, v in result["cpu_seconds"].items())
    print(
        f"seed {seed}: {time.perf_counter() - start:.0f} s on {workers} workers ({stages}); "
        f"{cpu_seconds() - spent:.0f} CPU-seconds ({tasks}); at most "
        f"{(parent + (workers if workers > 1 else 0) * child) / 2**20:.2f} GiB; "
        f"load {os.getloadavg()[1]:.1f}",
        flush=True,
    )
    return result


def cpu_seconds() -> float:
    """User and system time of this process and its finished children."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def numbers(summary: dict[str, Any], behavior: str) -> list[float]:
    """Relative-RMSEs, the perfect estimator's, errors against the truth, coverage of DML."""
    rows, kinds = summary["estimators"][behavior], summary["dml_intervals"][behavior]
    return [
        *(rows[n]["value"] for n in NAMES),
        summary["oracle_relative_rmse"],
        *(rows[n]["truth"]["rmse"] for n in NAMES),
        *(100 * kinds[k]["coverage"] for k in ("normal", "automatic")),
    ]


def table(seeds: list[int], rows: list[list[float]]) -> str:
    heads = [*NAMES, "truth", *(f"{n} vs truth" for n in NAMES), "normal %", "automatic %"]
    lines = [f"| seed | {' | '.join(heads)} |", "|" + "---|" * (len(heads) + 1)]
    for label, row in [*zip(seeds, rows, strict=True), ("mean", np.mean(rows, axis=0))]:
        cells = [f"{v:.3f}" for v in row[:-2]] + [f"{v:.1f}" for v in row[-2:]]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
