"""Three million rows of 17 mixed columns, users and days, four policies: the whole command, report and gate included.

    python benchmarks/mixed_columns.py DIR                    # 3,000,000 rows
    python benchmarks/mixed_columns.py DIR --rows 300000 --profile

The log is a Parquet file; what is timed is ``offpolicy evaluate`` on it, in a process of its own: CPU seconds (user
and system) and peak memory. Clusters are users of some ten rows, batches are days.
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

ACTIONS = ("a", "b", "c", "d", "e")
NUMBERS, TEXTS, CODES = 9, 5, 3
AIM_SECONDS, AIM_MB = 60, 1500


def write(path: Path, rows: int) -> None:
    """The log: 9 numbers, 5 text columns, 3 whole numbers; π_b depends on the day; policies are columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    data: dict[str, object] = {f"x{j}": rng.normal(size=rows) for j in range(NUMBERS)}
    for j, levels in enumerate((2, 3, 8, 30, 200)):
        names = np.array([f"level {i}" for i in range(levels)])
        data[f"t{j}"] = pa.DictionaryArray.from_arrays(rng.integers(0, levels, rows).astype(np.int32), names)
    data |= {f"c{j}": rng.integers(0, levels, rows) for j, levels in enumerate((5, 24, 1000))}
    day = np.sort(rng.integers(0, 28, rows))
    shares = rng.dirichlet(np.full(len(ACTIONS), 8.0), 28)
    action = (rng.random((rows, 1)) > shares.cumsum(axis=1)[day]).sum(axis=1).clip(max=len(ACTIONS) - 1)
    x0, x1 = data["x0"], data["x1"]
    rate = 0.05 + 0.03 * (x0 > 0) * (action == 1) + 0.02 * (x1 > 0.5) * (action == 2)  # type: ignore[operator]
    labels = np.array(ACTIONS)
    data |= {
        "user": rng.integers(0, rows // 10, rows),
        "day": np.char.add("2026-03-", np.char.zfill((day + 1).astype(str), 2)),
        "ad": labels[action],
        "p": shares[day, action],
        "click": (rng.random(rows) < rate).astype(np.int64),
        "by_x0": labels[np.where(x0 > 0, 1, 0)],  # type: ignore[operator]
        "by_x1": labels[np.where(x1 > 0.5, 2, 0)],  # type: ignore[operator]
        "by_both": labels[np.where(x0 > 0, 1, np.where(x1 > 0.5, 2, 3))],  # type: ignore[operator]
    }
    pq.write_table(pa.table(data), path)


def arguments(path: Path) -> list[str]:
    """Of the command."""
    context = [*(f"x{j}" for j in range(NUMBERS)), *(f"t{j}" for j in range(TEXTS)), *(f"c{j}" for j in range(CODES))]
    roles = {"context": ",".join(context), "action": "ad", "reward": "click", "propensity": "p"}
    roles |= {"cluster": "user", "batch": "day"}
    flags = [text for role, column in roles.items() for text in (f"--{role}", column)]
    for policy in ("by_x0", "by_x1", "by_both"):
        flags += ["--policy", f"{policy}={policy}"]
    return ["evaluate", str(path), *flags, "--policy", "always=always:b", "--report", str(path.with_suffix(".html")),
            "--gate", "by_x0 lift > 0"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"mixed{options.rows}.parquet"
    if not path.exists():
        write(path, options.rows)
    if options.profile:
        import cProfile

        from offpolicy.cli import main as command

        cProfile.runctx("command(arguments(path))", globals(), {"command": command, "path": path}, sort="cumtime")
        return
    command = [sys.executable, "-m", "offpolicy", *arguments(path)]
    start = time.perf_counter()
    done = subprocess.run(command, check=False, env=os.environ, capture_output=True, text=True)
    wall, spent = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout[-3000:], done.stderr[-2000:])
    print(
        f"{options.rows:,} rows: {spent.ru_utime + spent.ru_stime:.1f} CPU-s (aim {AIM_SECONDS} at three million), "
        f"{wall:.1f} s wall, peak {spent.ru_maxrss / 1024:,.0f} MB (aim {AIM_MB:,}), exit code {done.returncode}"
    )


if __name__ == "__main__":
    main()
