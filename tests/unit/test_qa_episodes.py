"""Arrays beside a frame of episodes follow that frame, whatever its order; long products may underflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = ["pl", "pm", "ph"]


def steps() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, 40)
    n = int(lengths.sum())
    df = pd.DataFrame(
        {
            "id": np.repeat([f"e{i}" for i in range(40)], lengths),  # e10 sorts before e2
            "t": np.concatenate([np.arange(k) for k in lengths]),
            "s": rng.integers(0, 3, n),
            "a": rng.choice(["h", "l", "m"], n),
            "r": rng.normal(size=n),
        }
    )
    df["p"] = 1 / 3
    df[COLUMNS] = rng.dirichlet(np.ones(3), n)
    df["new"] = np.array(["h", "l", "m"])[df["s"]]
    return df


def episodes(df: pd.DataFrame) -> op.Trajectories:
    return op.Trajectories.from_frame(df, episode="id", step="t", state=["s"], action="a", reward="r", propensity="p")


def psi(df: pd.DataFrame, pi: np.ndarray, q: np.ndarray, pi_b: np.ndarray) -> float:
    """The doubly robust score by plain loops over the frame."""
    total = 0.0
    for _, episode in df.assign(row=np.arange(len(df))).groupby("id"):
        rho = 1.0
        for row, action, reward in episode.sort_values("t")[["row", "a", "r"]].to_numpy():
            k = "hlm".index(action)
            total += rho * float(pi[row] @ q[row])
            rho *= pi[row, k] / pi_b[row, k]
            total += rho * (reward - q[row, k])
    return float(total / df["id"].nunique())


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_arrays_follow_the_frame(seed: int | None) -> None:
    df = steps() if seed is None else steps().sample(frac=1, random_state=seed)
    rng = np.random.default_rng(2)
    q = rng.normal(size=(len(df), 3))
    pi_b = rng.dirichlet(np.ones(3), len(df))
    pi = df[COLUMNS].to_numpy()
    log = episodes(df)
    ev = op.evaluate(log, pi, estimators=["DML"], value_model=q, behavior_model=pi_b)
    assert ev["policy", "DML"].value == pytest.approx(psi(df, pi, q, pi_b), rel=1e-10)
    ev = op.evaluate(log, {"new": pi}, estimators=["DML"], value_model={"new": q})
    assert ev["new", "DML"].value == pytest.approx(psi(df, pi, q, np.full((len(df), 3), 1 / 3)), rel=1e-10)
    assert "value model: given arrays" in str(ev)
    other = ev.with_behavior(pi_b)["new", "DML"].value
    assert other == pytest.approx(psi(df, pi, q, pi_b), rel=1e-10)


FORMS: list[Callable[[pd.DataFrame], Any]] = [
    lambda df: df["new"].to_numpy(),
    lambda df: df["new"],
    lambda df: (df["new"].to_numpy()[:, None] == np.array(["h", "l", "m"])).astype(float),
]


@pytest.mark.parametrize("form", FORMS)
def test_labels_follow_the_frame(form: Callable[[pd.DataFrame], Any]) -> None:
    df = steps().sample(frac=1, random_state=3)
    log = episodes(df)
    column = op.evaluate(log, "new", estimators=["IPW"])["policy", "IPW"].value
    assert op.evaluate(log, form(df), estimators=["IPW"])["policy", "IPW"].value == column


def test_ratios_need_one_entry_a_step() -> None:
    log = episodes(steps())
    with pytest.raises(ModelError, match="one finite ratio ≥ 0 per step"):
        op.evaluate(log, op.policies.Uniform(), estimators=["DRL"], ratio=np.ones(3))


def test_weights_that_underflow_leave_a_verdict() -> None:
    rng = np.random.default_rng(0)
    shape = (10, 1500)
    log = op.Trajectories.from_arrays(
        rng.integers(0, 2, shape), rng.integers(0, 2, shape), rng.normal(size=shape), propensities=np.full(shape, 0.5)
    )
    ev = op.evaluate(log, lambda s: np.tile([0.01, 0.99], (len(s), 1)), estimators=["IPW"])
    assert ev.verdict("policy").level == "insufficient evidence"
    assert json.loads(ev.to_json())["estimates"][0]["estimator"] == "IPW"
