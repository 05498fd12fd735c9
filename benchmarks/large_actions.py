"""A million rows × 10,000 actions: CPU-seconds and memory, in memory and streamed, and against plain numpy.

    python benchmarks/large_actions.py
    python benchmarks/large_actions.py --rows 100000 --actions 1000

Evaluates a deterministic target with DML (two folds, boosted trees that read the actions' features), IPW and DM
by ratios of cells. The propensity of the logged action is known, so that π_b of the 40 cells is fitted. Each way
runs in a process of its own; memory is its highest resident size. The plain way makes what MIPS in OBP takes, the
(n, K) arrays of both policies, and so runs on as many rows as these fit: it is timed per row. ``obp`` is OBP's own
MIPS (left out where it is not installed).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import offpolicy as op

GENRES, PRICES, CONTEXT = 10, 4, 6
ESTIMATORS = ["DML", "IPW", "DM"]
ROLES: dict[str, Any] = {
    "context": [f"x{j}" for j in range(CONTEXT)],
    "action": "item",
    "reward": "click",
    "propensity": "p",
}


def table(k: int) -> pd.DataFrame:
    """Features of the items."""
    item = np.arange(k)
    genre = [f"genre {g}" for g in item % GENRES]
    return pd.DataFrame({"item": item, "genre": genre, "price": 1.0 + (item // GENRES) % PRICES})


def popularity(k: int) -> Any:
    """Share of each item in the log."""
    raw = np.random.default_rng(1).gamma(2.0, size=k)
    return raw / raw.sum()


def simulate(n: int, k: int) -> pd.DataFrame:
    """A log whose items are drawn by popularity, with clicks that follow from context, genre and price."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=n) for j in range(CONTEXT)})
    share = popularity(k)
    item = rng.choice(k, size=n, p=share)
    genre, price = item % GENRES, 1.0 + (item // GENRES) % PRICES
    rate = 1 / (1 + np.exp(2.5 - 0.1 * genre - 0.3 * frame["x0"] + 0.2 * price))
    return frame.assign(item=item, click=(rng.random(n) < rate).astype(float), p=share[item])


def target(rows: pd.DataFrame) -> Any:
    """One of two cheap items of the ninth genre, by the first column."""
    return np.where(rows["x0"].to_numpy() > 0, 9, 9 + GENRES * PRICES)


def evaluated(log: Any) -> dict[str, float]:
    """Value, standard error, and what they cost."""
    start, wall = time.process_time(), time.perf_counter()
    ev = op.evaluate(
        log,
        target,
        estimators=ESTIMATORS,
        ratio=op.CoarseRatio(),
        reward_model=op.models.BoostedReward(rounds=100, validation=0),
    )
    e = ev["DML"]
    return {
        "value": e.value,
        "std_error": e.std_error,
        "cpu": time.process_time() - start,
        "wall": time.perf_counter() - wall,
    }


def memory(path: str, k: int) -> dict[str, float]:
    """From a frame."""
    frame = pd.read_parquet(path)
    log = op.BanditLog.from_frame(frame, **ROLES, actions=list(range(k)), action_features=table(k))
    return evaluated(log)


def stream(path: str, k: int) -> dict[str, float]:
    """From a file, block by block."""
    with op.scan(path, **ROLES, actions=list(range(k)), action_features=table(k), way="stream") as log:
        return evaluated(log)


def plain(path: str, k: int, rows: int = 20_000) -> dict[str, float]:
    """MIPS with (n, K) arrays, as OBP takes them, on some rows."""
    frame = pd.read_parquet(path).head(rows)
    start, wall = time.process_time(), time.perf_counter()
    item, n = frame["item"].to_numpy(), len(frame)
    pi_b = np.tile(popularity(k), (n, 1))
    pi_e = np.zeros((n, k))
    pi_e[np.arange(n), target(frame)] = 1.0
    cell = np.arange(k) % (GENRES * PRICES)
    same = cell[None, :] == cell[item][:, None]
    weight = (pi_e * same).sum(axis=1) / (pi_b * same).sum(axis=1)
    score = weight * frame["click"].to_numpy()
    return {
        "value": float(score.mean()),
        "std_error": float(score.std() / np.sqrt(n)),
        "cpu": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "rows": n,
    }


def obp(path: str, k: int, rows: int = 5_000) -> dict[str, float]:
    """OBP's MIPS with the true weights, without an interval, on as many rows as its arrays allow."""
    from obp.ope import MarginalizedInverseProbabilityWeighting

    frame = pd.read_parquet(path).head(rows)
    item, n = frame["item"].to_numpy(), len(frame)
    start, wall = time.process_time(), time.perf_counter()
    pi_b = np.tile(popularity(k), (n, 1))[:, :, None]
    pi_e = np.zeros((n, k, 1))
    pi_e[np.arange(n), target(frame), 0] = 1.0
    embed = np.column_stack([np.arange(k) % GENRES, (np.arange(k) // GENRES) % PRICES])
    of_action = np.zeros((k, GENRES, 2))
    for d in (0, 1):
        of_action[np.arange(k), embed[:, d], d] = 1.0
    value = MarginalizedInverseProbabilityWeighting(n_actions=k).estimate_policy_value(
        reward=frame["click"].to_numpy(),
        action=item,
        action_embed=embed[item],
        pi_b=pi_b,
        action_dist=pi_e,
        p_e_a=of_action,
    )
    cpu, took = time.process_time() - start, time.perf_counter() - wall
    return {"value": float(value), "std_error": np.nan, "cpu": cpu, "wall": took, "rows": n}


WAYS = {"memory": memory, "stream": stream, "plain": plain, "obp": obp}


def main() -> None:
    """Run every way in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way is not None:
        found = WAYS[args.way](args.path, args.actions)
        found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        simulate(args.rows, args.actions).to_parquet(path, row_group_size=100_000)
        lines = ["| way | rows | value ± s.e. | CPU-s | CPU-s per million rows | MB |", "|---|---|---|---|---|---|"]
        for way in args.ways:
            command = [sys.executable, __file__, "--way", way, "--path", path]
            done = subprocess.run(
                [*command, "--actions", str(args.actions)], check=False, capture_output=True, text=True
            )
            if done.returncode:
                lines.append(f"| {way} | failed: {done.stderr.strip()[-200:] or 'killed'} | | | | |")
                continue
            f = json.loads(done.stdout)
            rows = int(f.get("rows", args.rows))
            lines.append(
                f"| {way} | {rows:,} | {f['value']:.5f} ± {f['std_error']:.5f} | {f['cpu']:.1f} | "
                f"{1e6 * f['cpu'] / rows:.1f} | {f['memory']:,.0f} |"
            )
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
