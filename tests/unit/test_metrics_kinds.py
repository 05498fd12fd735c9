"""Several metrics of every kind of log: the same numbers as one at a time, and sums that are theirs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op

METRICS = ["win", "cost"]


def clusters() -> tuple:
    """Rows of users, fitted propensities, weights and repeated folds."""
    rng = np.random.default_rng(0)
    n = 900
    data = pd.DataFrame({"x": rng.normal(size=n), "user": rng.integers(90, size=n)})
    data["a"] = rng.integers(2, size=n)
    data["win"] = data["a"] * data["x"] + rng.normal(size=n)
    data["cost"] = 1 + data["a"] + rng.random(n)
    data["w"] = rng.uniform(1, 2, n)

    def log(reward):
        return op.BanditLog.from_frame(data, context=["x"], action="a", reward=reward, cluster="user", weight="w")

    settings = {
        "reward_model": LinearRegression(),
        "estimators": ["DML", "SNIPW", "DR-half"],
        "repeats": 2,
        "randomized": True,
    }
    return log, {"one": op.policies.Fixed(1)}, settings


def cells_of_actions() -> tuple:
    """Ratios of cells of actions."""
    rng = np.random.default_rng(1)
    n, k = 1200, 12
    a = rng.integers(k, size=n)
    features = {j: {"kind": "ab"[j % 2]} for j in range(k)}
    table = pd.DataFrame({"a": list(features), "kind": [f["kind"] for f in features.values()]})
    data = pd.DataFrame({"x": rng.normal(size=n), "a": a, "p": 1 / k})
    data["win"] = (a % 2) + rng.normal(size=n)
    data["cost"] = 1 + (a % 2) * data["x"] + rng.random(n)

    def log(reward):
        return op.BanditLog.from_frame(
            data, context=["x"], action="a", reward=reward, propensity="p", action_features=table
        )

    def odd(frame):
        return np.tile((np.arange(k) % 2) / (k // 2), (len(frame), 1))

    settings = {"reward_model": LinearRegression(), "estimators": ["DML", "IPW"], "ratio": op.CoarseRatio()}
    return log, {"odd": odd}, settings


def numbers() -> tuple:
    """Actions that are numbers."""
    rng = np.random.default_rng(2)
    n = 800
    data = pd.DataFrame({"x": rng.uniform(size=n), "dose": rng.uniform(size=n), "p": 1.0})
    data["win"] = 1 - (data["dose"] - data["x"]) ** 2 + 0.1 * rng.normal(size=n)
    data["cost"] = 1 + data["dose"] + 0.1 * rng.normal(size=n)

    def log(reward):
        return op.BanditLog.from_frame(
            data, context=["x"], action="dose", reward=reward, propensity="p", action_kind="continuous"
        )

    settings = {
        "reward_model": LinearRegression(),
        "estimators": ["DML", "IPW"],
        "ratio": op.KernelRatio(bandwidth=0.2),
    }
    return log, {"follow": lambda frame: 0.1 + 0.8 * frame["x"].to_numpy()}, settings


def slates() -> tuple:
    """Slots of slates."""
    rng = np.random.default_rng(3)
    n, slots = 500, 2
    data = pd.DataFrame({"slate": np.repeat(np.arange(n), slots), "slot": np.tile(np.arange(slots), n)})
    data["item"] = rng.integers(3, size=len(data))
    data["p"] = 1 / 3
    data["win"] = (data["item"] == 1) + rng.normal(size=len(data))
    data["cost"] = 1 + data["item"] + rng.random(len(data))

    def log(reward):
        return op.Slates.from_frame(
            data,
            slate="slate",
            position="slot",
            context=None,
            action="item",
            reward=reward,
            propensity="p",
            distinct=False,
        )

    return log, {"uniform": op.policies.Uniform()}, {"estimators": ["DML", "IPW"]}


@pytest.mark.parametrize("make", [clusters, cells_of_actions, numbers, slates])
def test_metrics_are_what_they_are_alone(make):
    log, policies, settings = make()
    ev = op.evaluate(log(METRICS), policies, **settings)
    for name in METRICS:
        alone = op.evaluate(log(name), policies, **settings)
        for key, e in alone.estimates.items():
            own = ev.metric(name)[key]
            assert (own.value, own.std_error) == (e.value, e.std_error)
            assert tuple(own.interval()) == tuple(e.interval())
            lifted, other = own.lift(ev.metric(name).logged), e.lift(alone.logged)
            assert tuple(lifted.interval()) == tuple(other.interval())
    policy = next(iter(policies))
    total = ev[policy, "DML"] - 0.5 * ev.metric("cost")[policy, "DML"]
    whole = ev.combine({"win": 1, "cost": -0.5}, name="profit")[policy, "DML"]
    assert whole.value == pytest.approx(total.value, abs=1e-10)
    assert whole.std_error == pytest.approx(total.std_error, abs=1e-10)
    found = ev.pareto()
    assert set(found.policies) == {policy, "(logging policy)"}
    assert ev.metric("cost").verdict(policy).level in {"trust", "caution", "insufficient evidence"}
