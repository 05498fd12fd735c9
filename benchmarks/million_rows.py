"""A million rows, 20 context columns, 50 actions: CPU-seconds and memory above the log.

    python benchmarks/million_rows.py                  # LightGBM's own classifier on the frame
    python benchmarks/million_rows.py --model built-in # the library's boosted trees

Evaluates a deterministic target with DML (two folds), IPW, SNIPW and DM in memory, and prints the cost and
the truth. Memory is the highest resident size during the evaluation less the resident size once the log is
built, sampled from the operating system (Linux).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import expit

import offpolicy as op

NUMBERS, CATEGORIES, LEVELS = 14, 6, 12
ESTIMATORS = ["DML", "IPW", "SNIPW", "DM"]


def simulate(n: int, k: int, seed: int = 0) -> tuple[pd.DataFrame, float]:
    """A click log of a softmax policy, and the value of `target` in it (by the known click rates)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(NUMBERS)})
    for j in range(CATEGORIES):
        names = np.array([f"level {i}" for i in range(LEVELS)])
        codes = rng.integers(0, LEVELS, size=n)
        frame[f"c{j}"] = pd.Categorical.from_codes(codes, categories=list(names))
    slope, level = rng.normal(size=k), rng.normal(size=k)
    x0, c0 = frame["x0"].to_numpy(), frame["c0"].cat.codes.to_numpy()
    action, p = np.empty(n, dtype=np.int64), np.empty(n)
    for start in range(0, n, 100_000):
        at = slice(start, start + 100_000)
        weight = np.exp(0.5 * x0[at, None] * slope)
        share = weight / weight.sum(axis=1, keepdims=True)
        spot = rng.random((len(share), 1)) > share.cumsum(axis=1)
        action[at] = spot.sum(axis=1).clip(max=k - 1)
        p[at] = share[np.arange(len(share)), action[at]]

    def rate(chosen: Any) -> Any:
        return expit(-3 + 0.5 * level[chosen] + 0.5 * x0 * slope[chosen] + 0.1 * (c0 % 3))

    frame["ad"] = pd.Categorical.from_codes(action, categories=[f"ad {i:02d}" for i in range(k)])
    frame["click"] = (rng.random(n) < rate(action)).astype(np.float64)
    frame["p"] = p
    return frame, float(rate(np.where(x0 > 0, 3, 7)).mean())


def target(rows: pd.DataFrame) -> Any:
    """One of two ads, by the first column."""
    return np.where(rows["x0"].to_numpy() > 0, "ad 03", "ad 07")


def model(name: str, threads: int) -> Any:
    """The reward model to time."""
    if name == "built-in":
        return op.models.BoostedReward(rounds=100, validation=0, threads=threads)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, num_leaves=31, verbosity=-1, n_jobs=threads)


class Resident:
    """Highest resident size while it runs, in bytes."""

    def __init__(self) -> None:
        self.start = self.now()
        self.high = self.start
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @staticmethod
    def now() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            self.high = max(self.high, self.now())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def above(self) -> float:
        return (self.high - self.start) / 1e9


def give_back() -> None:
    """Return freed memory to the system, so that the log alone is resident."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--actions", type=int, default=50)
    parser.add_argument("--model", choices=["lightgbm", "built-in"], default="lightgbm")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    frame, truth = simulate(options.rows, options.actions)
    learner = model(options.model, options.threads)
    log = op.BanditLog.from_frame(
        frame,
        context=[f"x{j}" for j in range(NUMBERS)] + [f"c{j}" for j in range(CATEGORIES)],
        action="ad",
        reward="click",
        propensity="p",
    )
    evaluate = op.evaluate  # loads what it needs before the clock starts
    give_back()
    size = frame.memory_usage(deep=True).sum() / 1e9
    cpu, wall = time.process_time(), time.perf_counter()
    with Resident() as memory:
        ev = evaluate(log, target, estimators=ESTIMATORS, reward_model=learner, folds=2)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{log}; table {size:.2f} GB; reward model {options.model}; truth {truth:.5f}")
    for name in ESTIMATORS:
        e = ev[name]
        print(f"  {name:6} {e.value:.5f}  standard error {e.std_error:.5f}")
    print(f"CPU {cpu:.0f} s, wall {wall:.0f} s, memory above the log {memory.above:.2f} GB")


if __name__ == "__main__":
    main()
