"""`op.replay` beside coba's `RejectionCB` and river's `evaluate_offline`: the same logs, the same LinUCB, in numpy.

The truth is what LinUCB earns in fresh online runs of as many steps as each replay took. Peers run in an environment of
their own, whose Python is given:

    python -m venv out/peers && out/peers/bin/pip install coba river vowpalwabbit numpy
    python benchmarks/replay_peers.py --peers out/peers/bin/python --logs 40
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any, ClassVar

import numpy as np

ARMS, ROWS, BLOCKS = 3, 2000, 10
LABELS = ("a", "b", "c")
WORLDS = {"uniform logging": 0.0, "logging by context": 0.5, "steep logging": 1.0}


class LinUCB:
    """The disjoint algorithm of Li et al. (2010), with an intercept: the same lines for everybody."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha, self.gram, self.moment = alpha, np.stack([np.eye(4)] * ARMS), np.zeros((ARMS, 4))

    def best(self, x: Any) -> Any:
        """(n,) codes of the arms with the largest bound."""
        z = np.column_stack([np.ones(len(x)), x])
        inverse = np.linalg.inv(self.gram)
        mean = z @ np.einsum("kij,kj->ki", inverse, self.moment).T
        bound = mean + self.alpha * np.sqrt(np.einsum("ni,kij,nj->nk", z, inverse, z))
        return bound.argmax(axis=1)

    def see(self, x: Any, arm: int, reward: float) -> None:
        """Learn from one decision."""
        z = np.append(1.0, x)
        self.gram[arm] += np.outer(z, z)
        self.moment[arm] += reward * z


def means(x: Any) -> Any:
    """(n, K) expected rewards."""
    angle = 2 * np.pi * np.arange(ARMS) / ARMS
    return 0.2 + 0.3 * (np.cos(angle) * x[:, [0]] + np.sin(angle) * x[:, [1]])


def drawn(steep: float, seed: int) -> dict[str, Any]:
    """A log."""
    rng = np.random.default_rng([33, seed])
    x = rng.normal(size=(ROWS, 3))
    angle = 2 * np.pi * np.arange(ARMS) / ARMS
    p = np.exp(steep * (np.cos(angle) * x[:, [0]] + np.sin(angle) * x[:, [2]]))
    p /= p.sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) < rng.random(ROWS)[:, None]).sum(axis=1).clip(max=ARMS - 1)
    at = np.arange(ROWS)
    return {"x": x, "a": a, "p": p[at, a], "r": means(x)[at, a] + 0.4 * rng.normal(size=ROWS)}


def online(steps: int, runs: int) -> Any:
    """(steps,) mean reward of fresh runs, step by step; expected rewards of what was chosen, without their noise."""
    total = np.zeros(steps)
    for run in range(runs):
        rng, learner = np.random.default_rng([34, run]), LinUCB()
        for step in range(steps):
            x = rng.normal(size=(1, 3))
            arm = int(learner.best(x)[0])
            q = float(means(x)[0, arm])
            total[step] += q / runs
            learner.see(x[0], arm, q + 0.4 * rng.normal())
    return total


# -- ours ------------------------------------------------------------------------------------------------------------


class Ours(LinUCB):
    """The same learner as `op.replay` takes it."""

    def probabilities(self, context: Any) -> Any:
        """One-hot."""
        return np.eye(ARMS)[self.best(np.asarray(context))]

    def update(self, context: Any, action: Any, reward: Any, propensity: Any) -> None:
        """Row by row."""
        for x, a, r in zip(np.asarray(context), action, reward, strict=True):
            self.see(x, int(a), float(r))


def run_ours(w: dict[str, Any], seed: int) -> dict[str, Any]:
    """Value, interval and steps."""
    import offpolicy as op

    block = np.arange(ROWS) // (ROWS // BLOCKS)
    log = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=block, actions=range(ARMS))
    start = time.process_time()
    ev = op.replay(
        log,
        {"u": Ours()},
        method="rejection",
        time=np.arange(ROWS),
        reward_model="linear",
        estimators=["auto"],
        seed=seed,
    )
    low, high = ev["auto"].interval()
    spent = time.process_time() - start
    return {"value": ev["auto"].value, "steps": ev.replayed.steps["u"], "low": low, "high": high, "cpu": spent}


# -- peers, in their own environment ----------------------------------------------------------------------------------


def run_coba(w: dict[str, Any], seed: int, ope: str | None) -> dict[str, Any]:
    """Mean of the rewards that `RejectionCB` records."""
    from coba.evaluators import RejectionCB

    class Theirs(LinUCB):
        params: ClassVar[dict[str, Any]] = {}

        def score(self, context: Any, actions: Any, action: Any) -> float:
            return float(actions[int(self.best(np.array([context], dtype=float))[0])] == action)

        def predict(self, context: Any, actions: Any) -> Any:
            return actions[int(self.best(np.array([context], dtype=float))[0])], 1.0

        def learn(self, context: Any, action: Any, reward: float, probability: float) -> None:
            self.see(np.array(context, dtype=float), LABELS.index(action), float(reward))

    class Log:
        params: ClassVar[dict[str, Any]] = {}

        def read(self) -> Any:
            for x, a, r, p in zip(w["x"], w["a"], w["r"], w["p"], strict=True):
                yield {
                    "context": tuple(map(float, x)), "actions": list(LABELS), "action": LABELS[a],
                    "reward": float(r), "probability": float(p),
                }  # fmt: skip

    start = time.process_time()
    found = [row["reward"] for row in RejectionCB(ope=ope, seed=seed + 1).evaluate(Log(), Theirs())]
    spent = time.process_time() - start
    return {"value": float(np.mean(found)), "steps": len(found), "cpu": spent}


def run_river(w: dict[str, Any], _: int) -> dict[str, Any]:
    """Mean reward of the rows on which policy and log agree."""
    from river import bandit, stats

    class Theirs(bandit.base.ContextualPolicy):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.used = LinUCB(), 0

        def _pull(self, arm_ids: Any, context: Any) -> Any:
            return self.pull(arm_ids, context)

        def pull(self, arm_ids: Any, context: Any = None) -> Any:
            return LABELS[int(self.own.best(np.array([context]))[0])]

        def update(self, arm_id: Any, context: Any, *reward: Any) -> None:
            self.used += 1
            self._n = self.used
            self.own.see(np.array(context), LABELS.index(arm_id), float(reward[0]))

    rows = ((list(LABELS), x, LABELS[a], r) for x, a, r in zip(w["x"], w["a"], w["r"], strict=True))
    start, policy = time.process_time(), Theirs()
    total, _ = bandit.evaluate_offline(policy, rows, reward_stat=stats.Mean())
    spent = time.process_time() - start
    return {"value": float(total.get()), "steps": policy.used, "cpu": spent}


PEERS = {
    "coba RejectionCB": lambda w, seed: run_coba(w, seed, None),
    "coba RejectionCB, ope='dr'": lambda w, seed: run_coba(w, seed, "dr"),
    "river evaluate_offline": run_river,
}


def worker(logs: int) -> None:
    """All peers on all logs, as JSON."""
    found: dict[str, Any] = {}
    for world, steep in WORLDS.items():
        for name, run in PEERS.items():
            try:
                found[f"{world}|{name}"] = [run(drawn(steep, seed), seed) for seed in range(logs)]
            except Exception as error:  # noqa: BLE001, a peer that cannot run is reported, and the others go on
                found[f"{world}|{name}"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


def main() -> None:
    """Run everybody and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="Python of the environment with coba and river")
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.logs)
        return
    found: dict[str, Any] = {
        f"{world}|offpolicy": [run_ours(drawn(steep, seed), seed) for seed in range(options.logs)]
        for world, steep in WORLDS.items()
    }
    if options.peers:
        command = [options.peers, __file__, "--worker", "--logs", str(options.logs)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found |= json.loads(done.stdout.strip().splitlines()[-1])
    most = max(r["steps"] for rows in found.values() if isinstance(rows, list) for r in rows)
    so_far = np.cumsum(online(most, 200)) / np.arange(1, most + 1)
    print("| log | replay | steps | bias | RMSE | coverage | CPU-s per log |\n|---|---|---|---|---|---|---|")
    for world in WORLDS:
        for key, rows in found.items():
            if not key.startswith(f"{world}|"):
                continue
            name = key.split("|")[1]
            if isinstance(rows, str):
                print(f"| {world} | {name} | {rows} | | | | |")
                continue
            truth = np.array([so_far[max(r["steps"], 1) - 1] for r in rows])
            error = np.array([r["value"] for r in rows]) - truth
            covers = [r["low"] <= t <= r["high"] for r, t in zip(rows, truth, strict=True)] if "low" in rows[0] else []
            held = f"{np.mean(covers):.0%}" if covers else "none"
            print(
                f"| {world} | {name} | {np.mean([r['steps'] for r in rows]):.0f} | {error.mean():+.3f} | "
                f"{np.sqrt((error**2).mean()):.3f} | {held} | {np.mean([r['cpu'] for r in rows]):.2f} |"
            )


if __name__ == "__main__":
    sys.exit(main())
