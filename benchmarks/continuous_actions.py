"""A million logged prices: in memory and streamed, with a given and with a chosen bandwidth.

Each way runs in a process of its own; its CPU-seconds and its peak memory are printed beside those of what nobody can
do without: bare LightGBM fits on the same folds with their predictions, and the Open Bandit Pipeline's formulas
(kernel IPS, self-normalized, doubly robust) in plain numpy on arrays that are there already, and where it is installed
its own kernel IPS, with its bootstrap interval of 100 draws and without.

python benchmarks/continuous_actions.py out/prices --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COLUMNS, H, ROUNDS = 6, 0.5, 100
ROLES = {
    "context": [f"x{j}" for j in range(COLUMNS)],
    "action": "price",
    "reward": "revenue",
    "propensity": "density",
    "action_kind": "continuous",
}
WAYS = ("bare", "formula", "obp", "obp, bootstrap", "memory", "memory, chosen", "stream", "stream, chosen")


def policy(frame: object) -> np.ndarray:
    """The price of each row."""
    return 5.0 + 0.5 * np.asarray(frame["x0"])  # type: ignore[index]


def write(path: Path, rows: int) -> None:
    """Write the log unless it is there."""
    import pandas as pd

    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, size=(rows, COLUMNS))
    mean = 5 + x[:, 1]
    price = mean + 1.5 * rng.normal(size=rows)
    data = {f"x{j}": x[:, j] for j in range(COLUMNS)}
    u = (price - mean) / 1.5
    data["density"] = np.exp(-u * u / 2) / (1.5 * np.sqrt(2 * np.pi))
    data["price"] = price
    data["revenue"] = np.sin(price) + 0.2 * price * x[:, 0] + 0.5 * rng.normal(size=rows)
    data["id"] = np.arange(rows)
    pd.DataFrame(data).to_parquet(path)


def bare(frame: object) -> tuple[np.ndarray, np.ndarray]:
    """q at the logged price and at the policy's, from two bare fits of LightGBM."""
    import lightgbm as lgb

    x = frame[ROLES["context"]].to_numpy()  # type: ignore[index]
    price, reward = frame["price"].to_numpy(), frame["revenue"].to_numpy()  # type: ignore[index]
    fold = np.arange(len(price)) % 2
    q, v = np.empty(len(price)), np.empty(len(price))
    chosen = policy(frame)
    for k in (0, 1):
        train = fold != k
        data = lgb.Dataset(np.column_stack([x, price])[train], label=reward[train])
        settings = {"objective": "regression", "num_leaves": 31, "verbosity": -1}
        model = lgb.train(settings, data, num_boost_round=ROUNDS)
        q[~train] = model.predict(np.column_stack([x, price])[~train])
        v[~train] = model.predict(np.column_stack([x, chosen])[~train])
    return q, v


def formula(frame: object, q: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """Kernel IPS, self-normalized IPS and DR, as the Open Bandit Pipeline writes them."""
    price, reward, density = (frame[c].to_numpy() for c in ("price", "revenue", "density"))  # type: ignore[index]
    u = np.clip((policy(frame) - price) / H, -1, 1)
    weight = 0.75 * (1 - u * u) / density / H
    return {
        "IPW": float((weight * reward).mean()),
        "SNIPW": float((weight * reward / weight.mean()).mean()),
        "DML": float((weight * (reward - q) + v).mean()),
    }


def peer(frame: object, *, bootstrap: bool) -> dict[str, float]:
    """Kernel IPS by the Open Bandit Pipeline."""
    from obp.ope import KernelizedInverseProbabilityWeighting

    arrays = {
        "reward": frame["revenue"].to_numpy(),  # type: ignore[index]
        "action_by_behavior_policy": frame["price"].to_numpy(),  # type: ignore[index]
        "pscore": frame["density"].to_numpy(),  # type: ignore[index]
        "action_by_evaluation_policy": policy(frame),
    }
    estimator = KernelizedInverseProbabilityWeighting(kernel="epanechnikov", bandwidth=H)
    values = {"DML": float("nan"), "IPW": float(estimator.estimate_policy_value(**arrays))}
    if bootstrap:
        ends = estimator.estimate_interval(**arrays, n_bootstrap_samples=100, random_state=0)
        low, high = (ends[f"95.0% CI ({side})"] for side in ("lower", "upper"))
        values |= {"low": float(low), "high": float(high)}
    return values


def ours(path: Path, way: str) -> dict[str, float]:
    """The whole evaluation, with standard errors, intervals, checks and a verdict."""
    import pandas as pd

    import offpolicy as op

    if way.startswith("memory"):
        log = op.BanditLog.from_frame(pd.read_parquet(path), **ROLES)
    else:
        log = op.scan(str(path), **ROLES, id="id", way="stream")
    ev = op.evaluate(
        log,
        {"new": policy},
        estimators=["DML", "SNIPW", "IPW"],
        reward_model=op.models.BoostedReward(rounds=ROUNDS, validation=0.0),
        ratio=op.KernelRatio("auto" if way.endswith("chosen") else H),
    )
    values = {e.name: ev["new", e.name].value for e in ev.estimators}
    low, high = ev["new", "DML"].interval()
    ev.verdict("new")
    return {**values, "low": low, "high": high, "bandwidth": ev.settings["bandwidths"]["new"]}


def measured(path: Path, way: str) -> None:
    """Run one way and print what it took as a line of JSON."""
    import pandas as pd

    start, cpu = time.perf_counter(), time.process_time()
    if way in {"bare", "formula", "obp", "obp, bootstrap"}:
        frame = pd.read_parquet(path)
        if way.startswith("obp"):
            import obp.ope  # noqa: F401  (imports are not what is measured)

            cpu, start = time.process_time(), time.perf_counter()
            values = peer(frame, bootstrap=way != "obp")
        elif way == "bare":
            values = formula(frame, *bare(frame))
        else:
            blank = np.zeros(len(frame))
            cpu, start = time.process_time(), time.perf_counter()
            values = formula(frame, blank, blank)
    else:
        values = ours(path, way)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    took = {
        "way": way,
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - start,
        "peak_gb": usage.ru_maxrss / 1e6,
        "values": values,
    }
    print(json.dumps(took))


def main() -> None:
    """Run every way in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = options.folder / f"prices-{options.rows}.parquet"
    if options.way:
        measured(path, options.way)
        return
    write(path, options.rows)
    rows = []
    for way in options.ways:
        command = [sys.executable, __file__, str(options.folder), "--rows", str(options.rows)]
        done = subprocess.run([*command, "--way", way], check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"{way}: {done.stderr.strip()[-200:] or 'killed'}", file=sys.stderr)
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    base = rows[0]["cpu_s"]
    print("| way | CPU-s | wall s | peak GB | over bare fits | DML | 95% interval | bandwidth |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        v = row["values"]
        ends = f"{v['low']:.4f} to {v['high']:.4f}" if "low" in v else "–"
        width = f"{v['bandwidth']:.3g}" if "bandwidth" in v else f"{H:g}"
        print(
            f"| {row['way']} | {row['cpu_s']:.1f} | {row['wall_s']:.1f} | {row['peak_gb']:.2f} | "
            f"{row['cpu_s'] / base:.2f} | {v['DML']:.4f} | {ends} | {width} |"
        )


if __name__ == "__main__":
    main()
