"""Slates measured: CPU-seconds and peak memory, each job in a process of its own, on the same arrays.

    python benchmarks/slates.py                                  # 1 M slates × 5 slots, 10 items
    python benchmarks/slates.py --jobs ours numpy --slates 100000

Jobs: ``ours`` reads a frame of N × 5 rows and gives RIPS (IPW) and cascade-DR (DML, with the value model's predictions
given) with their 95% intervals; ``numpy`` is the same two means and normal intervals from dense arrays; ``obp`` the
Open Bandit Pipeline's two estimators without intervals (skipped when it is not installed: see
``tests/reference/make_obp_slates.py``); ``fitted`` is DML and IPW with a boosted model at every slot, cross-fitted, in
memory, and ``streamed`` the same from a Parquet file in blocks of whole slates, with models fitted to at most two
million slots; ``weighted`` and ``weighted, streamed`` are IPW and SNIPW, for which nothing is fitted.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

JOBS = ("ours", "numpy", "obp", "fitted", "streamed", "weighted", "weighted, streamed")
TREES = 50
SLOTS, ITEMS = 5, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", nargs="*", default=JOBS, choices=JOBS)
    parser.add_argument("--slates", type=int, default=1_000_000)
    parser.add_argument("--one", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        frame_of(arrays(options.slates, predictions=False)).to_parquet(options.write)
        return
    if options.one:
        print(json.dumps(WORK[options.one](options.slates)))
        return
    results = {job: measured(job, sys.argv[1:]) for job in options.jobs}
    for job, r in results.items():
        print(f"{job:18s} {r}")
    for other in ("numpy", "obp"):
        if "cpu_s" in results.get("ours", {}) and "cpu_s" in results.get(other, {}):
            a, b = results["ours"], results[other]
            cpu, memory = (a[what] / b[what] for what in ("cpu_s", "peak_gb"))
            print(f"ours / {other}: {cpu:.2f}× the CPU, {memory:.2f}× the memory")


def measured(job: str, arguments: list[str]) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", __file__, *arguments, "--one", job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    result: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def arrays(n: int, *, predictions: bool = True) -> dict[str, np.ndarray]:
    """Uniform logging, a target that prefers later items, clicks that depend on the items above."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    items = rng.integers(ITEMS, size=(n, SLOTS))
    seen = np.cumsum(items == 0, axis=1) > 0
    chance = 1 / (1 + np.exp(2 - 0.3 * x[:, None] - 0.2 * items + seen))
    pi = np.exp(0.1 * np.arange(ITEMS))
    return {
        "x": x,
        "items": items,
        "clicks": (rng.random((n, SLOTS)) < chance).astype(np.float64),
        "pi": pi / pi.sum(),
        "q": rng.random((n, SLOTS, ITEMS) if predictions else (0, SLOTS, ITEMS)),
    }


def done(start: float, **values: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"cpu_s": round(time.process_time() - start, 2), "peak_gb": round(peak, 2), **values}


ROLES: dict[str, Any] = {
    "slate": "slate", "position": "position", "context": ["x"], "action": "item", "reward": "click", "propensity": "p",
}  # fmt: skip


def log_of(d: dict[str, np.ndarray]):
    import offpolicy as op

    return op.Slates.from_frame(frame_of(d), **ROLES)


def frame_of(d: dict[str, np.ndarray]):
    import pandas as pd

    n = len(d["x"])
    return pd.DataFrame(
        {
            "slate": np.repeat(np.arange(n), SLOTS),
            "position": np.tile(np.arange(SLOTS), n),
            "x": np.repeat(d["x"], SLOTS),
            "item": d["items"].ravel(),
            "click": d["clicks"].ravel(),
            "p": 1 / ITEMS,
        }
    )


def policy(d: dict[str, np.ndarray]):
    return lambda rows: np.broadcast_to(d["pi"], (len(rows), ITEMS))


def ours(n: int) -> dict[str, float]:
    import offpolicy as op

    op.evaluate  # noqa: B018  (imports are not what is measured)
    d = arrays(n)
    start = time.process_time()
    log = log_of(d)
    ev = op.evaluate(log, policy(d), estimators=["IPW", "DML"], value_model=d["q"].reshape(-1, ITEMS))
    values = {}
    for name in ("IPW", "DML"):
        estimate = ev["policy", name]
        low, high = estimate.interval(0.95)
        values |= {name: estimate.value, f"{name} width": high - low}
    return done(start, **values)


def plain(n: int) -> dict[str, float]:
    d = arrays(n)
    start = time.process_time()
    rho = np.cumprod(d["pi"][d["items"]] * ITEMS, axis=1)
    before = np.concatenate([np.ones((n, 1)), rho[:, :-1]], axis=1)
    own = np.take_along_axis(d["q"], d["items"][:, :, None], axis=2)[:, :, 0]
    v = d["q"] @ d["pi"]
    scores = {"IPW": (rho * d["clicks"]).sum(axis=1), "DML": (rho * (d["clicks"] - own) + before * v).sum(axis=1)}
    values = {}
    for name, psi in scores.items():
        width = 2 * 1.96 * float(psi.std()) / math.sqrt(n)
        values |= {name: float(psi.mean()), f"{name} width": width}
    return done(start, **values)


def obp(n: int) -> dict[str, float]:
    from obp.ope import SlateCascadeDoublyRobust, SlateRewardInteractionIPS

    d = arrays(n)
    start = time.process_time()
    p_e = d["pi"][d["items"]]
    rows = {
        "slate_id": np.repeat(np.arange(n), SLOTS),
        "position": np.tile(np.arange(SLOTS), n),
        "reward": d["clicks"].ravel(),
        "action": d["items"].ravel(),
        "pscore_cascade": np.cumprod(np.full((n, SLOTS), 1 / ITEMS), axis=1).ravel(),
        "evaluation_policy_pscore_cascade": np.cumprod(p_e, axis=1).ravel(),
    }
    weighted = SlateRewardInteractionIPS(len_list=SLOTS).estimate_policy_value(**rows)
    robust = SlateCascadeDoublyRobust(len_list=SLOTS, n_unique_action=ITEMS).estimate_policy_value(
        **rows, q_hat=d["q"].ravel(), evaluation_policy_action_dist=np.tile(d["pi"], n * SLOTS)
    )
    return done(start, IPW=float(weighted), DML=float(robust))


def fitted(n: int, *, modeled: bool = True) -> dict[str, float]:
    d = arrays(n, predictions=False)
    frame = frame_of(d)
    start = time.process_time()
    import offpolicy as op

    return _fitted(op.Slates.from_frame(frame, **ROLES), d["pi"], start, modeled=modeled)


def streamed(n: int, *, modeled: bool = True) -> dict[str, float]:
    """From a file that another process wrote: its memory is not this one's."""
    path = Path(tempfile.gettempdir()) / f"slates_{n}.parquet"
    if not path.exists():
        command = [sys.executable, __file__, "--write", str(path), "--slates", str(n)]
        subprocess.run(command, check=True)
    start = time.process_time()
    import offpolicy as op

    pi = np.exp(0.1 * np.arange(ITEMS))
    scan = op.Slates.scan(str(path), way="stream", memory_limit="1GB", threads=1, **ROLES)
    return _fitted(scan, pi / pi.sum(), start, modeled=modeled)


def _fitted(log: Any, pi: np.ndarray, start: float, *, modeled: bool) -> dict[str, float]:
    from lightgbm import LGBMRegressor

    import offpolicy as op

    model = op.FittedQ(LGBMRegressor(n_estimators=TREES, n_jobs=1, verbosity=-1))
    ev = op.evaluate(
        log,
        lambda rows: np.broadcast_to(pi, (len(rows), ITEMS)),
        estimators=["DML", "IPW"] if modeled else ["SNIPW", "IPW"],
        value_model=model,
    )
    values = {e.name: ev["policy", e.name].value for e in ev.estimators}
    return done(start, **values, verdict=ev.verdict().level == "trust")


WORK = {
    "ours": ours,
    "numpy": plain,
    "obp": obp,
    "fitted": fitted,
    "streamed": streamed,
    "weighted": partial(fitted, modeled=False),
    "weighted, streamed": partial(streamed, modeled=False),
}

if __name__ == "__main__":
    main()
