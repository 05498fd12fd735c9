"""Seconds of one evaluation of a small log: as it comes, and with every library told to use one thread.

    python benchmarks/small_fits.py            # 2,000 and 20,000 rows, the default models
    python benchmarks/small_fits.py --busy 2   # while two other processes keep the cores busy

Threads that wait for each other spin; on cores that are busy a small fit then takes many times as long as it
would on one thread. The two columns should not differ by much.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import contextmanager

SIZES = (2_000, 20_000)


def evaluate(rows: int) -> float:
    import numpy as np
    import pandas as pd

    import offpolicy as op

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=rows) for j in range(8)})
    frame["device"] = rng.choice(["phone", "desktop", "tv"], rows)
    frame["ad"] = rng.choice(list("abcde"), rows)
    frame["click"] = (rng.random(rows) < 0.1 + 0.1 * (frame["x0"] > 0) * (frame["ad"] == "a")) * 1
    context = [*(f"x{j}" for j in range(8)), "device"]
    log = op.BanditLog.from_frame(frame, context=context, action="ad", reward="click")
    start = time.perf_counter()
    op.evaluate(log, {"new": "always:a"}, repeats=2).verdict("new")
    return time.perf_counter() - start


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(processes: int):
    workers = [multiprocessing.Process(target=spin, daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    yield
    for worker in workers:
        worker.terminate()


def in_child(rows: int, threads: str | None) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    if threads is not None:
        environment |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    command = [sys.executable, __file__, "--rows", str(rows)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=0, help="processes that keep cores busy")
    parser.add_argument("--rows", type=int, help="evaluate once, here, and print the seconds")
    options = parser.parse_args()
    if options.rows:
        print(evaluate(options.rows))
        return
    with busy(options.busy):
        for rows in SIZES:
            free, one = in_child(rows, None), in_child(rows, "1")
            print(f"{rows:>7,} rows: {free:6.1f} s as it comes, {one:6.1f} s with one thread")


if __name__ == "__main__":
    main()
