"""A compressed log gives what its rows give: value and σ̂² to 1e-12, the same models supplied to both."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offpolicy as op

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

ESTIMATORS = ["IPW", "SNIPW", "DM", "DR-full", "DR-half", "DML", "SNDR", "SWITCH", "DRos", "MRDR", "MinVar", "auto"]


class Table:
    """A reward model that is the same however rows are grouped: hashed values of (context, action)."""

    def fit_reward(self, data, seed):
        return self

    def predict(self, X, codes):
        key = X["u"].to_numpy(dtype=float) * 3.1 + (X["v"] == "b").to_numpy() * 1.7
        return np.sin(key + codes) * 0.5 + 0.5


def soft(frame):
    key = frame["u"].to_numpy(dtype=float)
    logits = np.cos(key[:, None] + np.arange(3))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sharp(frame):
    return np.where(frame["u"].to_numpy(dtype=float) > 1, "z", "x")


def make(n, seed, *, clusters=False, continuous=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "key": rng.permutation(n) - n // 2,
            "u": rng.integers(0, 4, n),
            "v": rng.choice(["a", "b"], n),
            "arm": rng.choice(["x", "y", "z"], n),
            "choice": rng.choice(["x", "y", "z"], n),
            "hour": rng.integers(0, 2, n),
            "p": rng.choice([0.2, 0.5, 0.7], n),
            "w": rng.choice([0.5, 1.0, 2.0], n),
            "r": rng.normal(size=n) if continuous else rng.integers(0, 3, n) / 2,
        }
    )
    if clusters:
        frame["user"] = [f"user{i}" for i in rng.integers(0, max(4, n // 3), n)]
    return frame


def columns(*, weight, clusters):
    return {
        "context": ["u", "v"],
        "action": "arm",
        "reward": "r",
        "propensity": "p",
        "batch": "hour",
        "weight": "w" if weight else None,
        "cluster": "user" if clusters else None,
        "actions": ["x", "y", "z"],
    }


def both(frame, *, way="cells", k=2, repeats=1, weight=False, clusters=False, estimators=ESTIMATORS):
    named = columns(weight=weight, clusters=clusters)
    policies = {"soft": soft, "sharp": sharp, "column": "choice"}
    log = op.BanditLog.from_frame(frame, **named, id="key")
    rows = op.evaluate(log, policies, estimators=estimators, reward_model=Table(), folds=k, repeats=repeats, seed=5)
    with op.scan(frame, **named, id="key", way=way) as scanned:
        cells = op.evaluate(
            scanned, policies, estimators=estimators, reward_model=Table(), folds=k, repeats=repeats, seed=5
        )
    return rows, cells


def assert_same(rows, cells, tolerance=1e-12):
    for key, e in rows.estimates.items():
        other = cells.estimates[key]
        assert other.n == e.n
        for a, b in ((e, other), (e - rows.logged, other - cells.logged)):
            assert b.value == pytest.approx(a.value, rel=tolerance, abs=tolerance), key
            assert b.std_error**2 * b.n == pytest.approx(a.std_error**2 * a.n, rel=tolerance, abs=tolerance), key
    assert cells.logged.value == pytest.approx(rows.logged.value, abs=tolerance)


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(60, 300),
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([2, 3]),
    weight=st.booleans(),
    clusters=st.booleans(),
)
def test_cells_equal_rows(n, seed, k, weight, clusters):
    frame = make(n, seed, clusters=clusters)
    rows, cells = both(frame, k=k, weight=weight, clusters=clusters)
    assert cells.settings["engine"]["held"] <= n
    assert_same(rows, cells)


def test_cells_with_repeated_folds():
    rows, cells = both(make(400, 3), repeats=3, estimators=["DML", "DR-half", "IPW"])
    assert rows["soft", "DML"].psi.shape[0] == 3
    assert_same(rows, cells)


def test_rows_equal_rows():
    rows, cells = both(make(200, 4), way="rows", estimators=["DML", "SNIPW", "SWITCH"])
    assert cells.settings["engine"]["way"] == "rows"
    assert_same(rows, cells)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_missing_values_and_numbers_in_the_context(seed):
    frame = make(200, seed)
    frame["u"] = frame["u"].astype(float)
    frame.loc[frame.index % 7 == 0, "v"] = None
    rows, cells = both(frame, estimators=["DML", "SNIPW"])
    assert_same(rows, cells)
