"""Joint intervals of several policies by several metrics cover all truths at once as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op

ACTIONS, CONTEXTS = 3, 4
CLICK = 0.1 + 0.15 * (np.arange(ACTIONS) == np.arange(CONTEXTS)[:, None] % ACTIONS)
PRICE = np.array([2.0, 3.0, 5.0])  # what a click earns on average, by action
COST = 1.0 + 0.4 * np.arange(ACTIONS)
TARGETS = {
    "match": (np.arange(CONTEXTS)[:, None] % ACTIONS == np.arange(ACTIONS)) * 1.0,
    "dear": np.tile([0.0, 0.2, 0.8], (CONTEXTS, 1)),
    "uniform": np.full((CONTEXTS, ACTIONS), 1 / ACTIONS),
}
METRICS = ("click", "revenue", "cost")
LOGGING = np.array([0.5, 0.3, 0.2])


def truths() -> dict[tuple[str, str], float]:
    means = {"click": CLICK, "revenue": CLICK * PRICE, "cost": np.tile(COST, (CONTEXTS, 1))}
    policies = {**TARGETS, "(logging policy)": np.tile(LOGGING, (CONTEXTS, 1))}
    return {
        (policy, metric): float((pi * means[metric]).sum(axis=1).mean())
        for policy, pi in policies.items()
        for metric in METRICS
    }


def log(n: int, seed: int) -> op.BanditLog:
    rng = np.random.default_rng(seed)
    x = rng.integers(CONTEXTS, size=n)
    a = rng.choice(ACTIONS, size=n, p=LOGGING)
    click = (rng.random(n) < CLICK[x, a]).astype(float)
    rewards = {
        "click": click,
        "revenue": click * PRICE[a] * rng.exponential(size=n),
        "cost": COST[a] * rng.gamma(4.0, 0.25, size=n),
    }
    return op.BanditLog.from_arrays(np.eye(CONTEXTS)[x], a, rewards, LOGGING[a])


def covered(seed: int, n: int = 2000) -> tuple[bool, bool, bool, bool]:
    """Whether all joint intervals cover; a margin's as a sum and as a combination; whether a claim is wrong."""
    data = log(n, seed)
    policies = {name: (lambda c, pi=pi: c @ pi) for name, pi in TARGETS.items()}
    ev = op.evaluate(data, policies, estimators=["DML"], reward_model=LinearRegression(), minimize=["cost"])
    found, truth = ev.pareto(), truths()
    joint = all(i.sufficient and i.covers(truth[key]) for key, i in found.intervals.items())
    margin = ev.metric("revenue")["match", "DML"] - 0.5 * ev.metric("cost")["match", "DML"]
    combined = ev.combine({"revenue": 1, "cost": -0.5}, name="margin")["match", "DML"]
    own = truth["match", "revenue"] - 0.5 * truth["match", "cost"]
    wrong = any(not _better(truth, better, worse) for worse, others in found.dominated.items() for better in others)
    return joint, margin.interval().covers(own), combined.interval().covers(own), wrong


def _better(truth: dict[tuple[str, str], float], one: str, other: str) -> bool:
    signs = {"click": 1, "revenue": 1, "cost": -1}
    return all(signs[m] * (truth[one, m] - truth[other, m]) > 0 for m in METRICS)


@pytest.mark.verify
def test_joint_intervals_cover_together():
    logs = 1000
    joint, margin, combined, wrong = np.mean([covered(seed) for seed in range(logs)], axis=0)
    print(f"joint {joint:.3f}, sum {margin:.3f}, combination {combined:.3f}, wrong claims {wrong:.3f} of {logs} logs")
    error = 2 * np.sqrt(0.95 * 0.05 / logs)
    assert joint >= 0.94
    assert margin >= 0.95 - error
    assert combined >= 0.95 - error
    assert wrong <= 0.05 + error
