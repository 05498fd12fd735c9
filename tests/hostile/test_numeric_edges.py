"""Numbers at the edge of what a float holds: the right number or a clear error, printed and reported as well."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, ModelError, UsageError

N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
A = RNG.integers(2, size=N)
R = (RNG.random(N) < 0.3 + 0.2 * A).astype(float)
P = np.full(N, 0.5)


def mixed(x):
    return np.tile([0.3, 0.7], (len(x), 1))


def one(values, value, row=3):
    out = np.array(values, dtype=float)
    out[row] = value
    return out


EDGES = {
    "p = 1e-160": ({"propensity": one(P, 1e-160)}, "row 3 = 1e-160. are below 1e-30"),
    "p = 1e-320": ({"propensity": one(P, 1e-320)}, "below 1e-30"),
    "one reward of 1e200": ({"reward": one(R, 1e200)}, "row 3 = 1e.200. are larger than 1e30"),
    "one reward of -1e31": ({"reward": one(R, -1e31)}, "larger than 1e30"),
    "rewards of 1e-200": ({"reward": R * 1e-200}, "the largest reward is 1e-200"),
    "rewards that differ in the last digit": (
        {"reward": np.where(R > 0, 1e12, np.nextafter(1e12, 2e12))},
        "differ only in the last digits",
    ),
    "a weight of 1e200": ({"weight": one(np.ones(N), 1e200)}, "larger than 1e30"),
    "weights of 1e-300": ({"weight": np.full(N, 1e-300)}, "the largest weight is 1e-300"),
}


@pytest.mark.parametrize("case", EDGES)
def test_numbers_that_cannot_be_computed_with(case, tmp_path):
    changed, words = EDGES[case]
    parts = {"reward": R, "propensity": P, "weight": np.ones(N)} | changed
    with pytest.raises(DataError, match=words):
        op.BanditLog.from_arrays(X, A, **parts)
    path = tmp_path / "log.parquet"
    pd.DataFrame({"x": X, "action": A, **parts}).to_parquet(path)
    with pytest.raises(DataError, match=words.split("row 3")[-1].split(". are")[-1]):
        op.scan(
            str(path), context=["x"], action="action", reward="reward", propensity="propensity", weight="weight"
        ).check()


def test_a_large_constant_on_every_reward_moves_the_estimate_and_nothing_else():
    plain, moved = (
        op.evaluate(op.BanditLog.from_arrays(X, A, R + c, P), mixed, estimators=["DML", "SNDR"]) for c in (0.0, 1e12)
    )
    for name in ("DML", "SNDR"):
        low, high = plain["policy", name], moved["policy", name]
        assert high.value - 1e12 == pytest.approx(low.value, abs=2e-3)
        assert high.std_error == pytest.approx(low.std_error, rel=0.02)
        assert high.interval(0.95).method == low.interval(0.95).method
    assert moved.logged.std_error == pytest.approx(plain.logged.std_error, rel=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 2.0, -3.7, 1 / 3, 1e12])
@pytest.mark.parametrize("cluster", [None, np.arange(N) // 3], ids=["rows", "clusters"])
def test_constant_rewards_have_no_variance_and_one_verdict(value, cluster):
    log = op.BanditLog.from_arrays(X, A, np.full(N, value), P, cluster=cluster)
    ev = op.evaluate(log, mixed, estimators=["DML", "IPW"])
    assert ev["policy", "DML"].value == pytest.approx(value)
    assert ev["policy", "DML"].std_error == 0.0
    assert ev.logged.std_error == 0.0
    assert ev.verdict("policy").level == "insufficient evidence"
    assert not ev["policy", "DML"].interval(0.95).sufficient


@pytest.mark.parametrize("p", [1e-12, 1e-25, 1.0])
def test_extreme_propensities_are_computed_with_and_shown(p, tmp_path):
    log = op.BanditLog.from_arrays(X, A, R, one(P, p))
    ev = op.evaluate(log, mixed)
    expected = float(np.mean(np.where(A, 0.7, 0.3) / one(P, p) * R))
    assert ev["policy", "IPW"].value == pytest.approx(expected)
    for shown in (str(ev), str(ev.verdict("policy")), str(ev.diagnostics), ev.to_json()):
        assert shown
    ev.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e29])
def test_estimates_scale_with_rewards(scale):
    plain, scaled = (
        op.evaluate(op.BanditLog.from_arrays(X, A, R * s, P), mixed, estimators=["IPW", "SNIPW"]) for s in (1.0, scale)
    )
    for name in ("IPW", "SNIPW"):
        assert scaled["policy", name].value == pytest.approx(plain["policy", name].value * scale)
        assert scaled["policy", name].std_error == pytest.approx(plain["policy", name].std_error * scale)


@pytest.mark.parametrize("columns", [["x", "t"], ["t"], ["x", "o"], ["n"]])
def test_columns_of_nothing_but_missing_values(columns):
    frame = pd.DataFrame(
        {"x": X, "t": pd.Series([None] * N, dtype="str"), "o": [None] * N, "n": np.nan, "a": A, "r": R, "p": P}
    )
    log = op.BanditLog.from_frame(frame, context=columns, action="a", reward="r", propensity="p")
    ev = op.evaluate(log, mixed, estimators=["DML", "DM"])
    assert 0.2 < ev["policy", "DML"].value < 0.7


def test_contexts_beyond_what_models_can_square():
    with pytest.raises(ModelError, match=r"context .*row 0"):
        op.evaluate(op.BanditLog.from_arrays(X * 1e300, A, R, P), mixed, estimators=["DML"])


def test_a_lift_over_nothing_is_said_to_be_none():
    ev = op.evaluate(op.BanditLog.from_arrays(X, A, R * 0, P), mixed, estimators=["IPW"])
    with pytest.raises(UsageError, match="lift over logged is undefined"):
        ev["policy", "IPW"].lift(ev.logged)
