"""Differences of two policies: coefficients chosen for the pair, and any two policies compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy.inference.expression import plain_difference
from offpolicy.scores.control_variates import best_difference


def frame(seed: int = 0, n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    z = np.column_stack([2 * x, np.zeros(n), -2 * x])
    pi = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    a = (pi.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    r = (rng.random(n) < 0.6 + 0.1 * (a == 1)).astype(float)
    left, middle = (x > 0).astype(int), np.where(x > 1, 2, 1)
    return pd.DataFrame({"x": x, "a": a, "r": r, "p": pi[np.arange(n), a], "left": left, "middle": middle})


ROLES = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
POLICIES = {"left": "left", "middle": "middle"}


def evaluated(df: pd.DataFrame, **options):
    log = op.BanditLog.from_frame(df, **ROLES)
    return op.evaluate(log, POLICIES, estimators=["auto", "DML"], reward_model=Ridge(), **options)


@pytest.mark.parametrize(("share", "kept"), [(0.4, 2), (-0.5, 1)])
def test_the_scores_of_a_pair_are_a_regression(share, kept):
    rng = np.random.default_rng(0)
    u, m, ones = rng.normal(size=200), rng.normal(size=200), np.ones(200)
    r = np.divide(share * m + 0.1 * rng.normal(size=200), u) + 2
    psi, note = best_difference(u, m, r, ones, ones)
    X = np.column_stack([ones, u, m])[:, : kept + 1]  # of a model that only adds noise nothing is taken
    slopes, *_ = np.linalg.lstsq(X, u * r, rcond=None)
    leverage = np.einsum("ij,jk,ik->i", X, np.linalg.inv(X.T @ X), X)
    away = (u * r - X @ slopes) / np.sqrt(1 - leverage)
    assert psi == pytest.approx(slopes[0] + away - away.mean())
    assert "need not be the difference of the two values" in note
    two, _ = best_difference(u[:100], m[:100], r[:100], 2 * ones[:100], ones[:100])
    twice = np.r_[u[:100], u[:100]], np.r_[m[:100], m[:100]], np.r_[r[:100], r[:100]]
    assert two == pytest.approx(best_difference(*twice, ones, ones)[0][:100])
    assert best_difference(0 * u, m, r, ones, ones) is None


def test_a_pair_varies_less_than_the_difference_of_two_best_combinations():
    gained, errors = [], []
    for seed in range(30):
        ev = evaluated(frame(seed, 600))
        best = ev["left", "auto"] - ev["middle", "auto"]
        plain = plain_difference(ev["left", "auto"], ev["middle", "auto"])
        assert plain.value == pytest.approx(ev["left", "auto"].value - ev["middle", "auto"].value)
        gained.append(best.std_error / plain.std_error)
        x = frame(seed, 600)
        truth = 0.1 * ((x.left == 1).mean() - (x.middle == 1).mean())
        errors.append((best.value - truth) / best.std_error)
    assert np.mean(gained) < 0.99
    assert np.std(errors) < 1.3
    assert abs(np.mean(errors)) < 0.6


def test_a_pair_is_the_same_on_a_stream(tmp_path):
    df = frame()
    df.to_parquet(tmp_path / "log.parquet")
    scan = op.scan(tmp_path / "log.parquet", **ROLES, way="stream")
    streamed = op.evaluate(scan, POLICIES, estimators=["auto", "DML"], reward_model=Ridge())
    known = evaluated(df)
    gaps = [ev["left", "auto"] - ev["middle", "auto"] for ev in (known, streamed)]
    assert gaps[0].value == pytest.approx(gaps[1].value, rel=1e-9)
    assert tuple(gaps[0].interval()) == pytest.approx(tuple(gaps[1].interval()), rel=1e-9)


def test_other_differences_are_those_of_the_values():
    ev = evaluated(frame())
    for one, two in (
        (ev["left", "DML"], ev["middle", "DML"]),
        (ev["left", "auto"], ev.logged),
        (ev["left", "auto"], ev["left", "DML"]),
    ):
        assert (one - two).value == pytest.approx(one.value - two.value)
    fitted = op.evaluate(
        op.BanditLog.from_frame(frame().drop(columns="p"), context=["x"], action="a", reward="r"),
        POLICIES,
        estimators=["auto"],
        reward_model=Ridge(),
    )
    one, two = fitted["left", "auto"], fitted["middle", "auto"]
    assert (one - two).value == pytest.approx(one.value - two.value)


def test_any_two_policies_are_compared():
    df = frame()
    log = op.BanditLog.from_frame(df, **ROLES)
    policies = {**POLICIES, "even": "uniform"}
    ev = op.evaluate(log, policies, estimators=["auto"], reward_model=Ridge())
    found = ev.compare()
    assert len(found.pairs) == 3
    for (one, two), interval in found.pairs.items():
        gap = ev[one, "auto"] - ev[two, "auto"]
        assert ev[one, "auto"].value >= ev[two, "auto"].value
        assert interval.covers(gap.value)
        assert interval.width >= gap.interval().width * (1 - 1e-9)
        assert f"{one} against {two}: {gap.value:+.3g}" in str(found)
    many = {f"p{k}": "uniform" if k == 0 else f"always:{k % 3}" for k in range(12)}
    named = op.evaluate(log, many, estimators=["SNIPW"]).compare()
    assert len(named.pairs) == 11
