"""Several metrics of one log: the same numbers as one at a time, paired, on every path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import offpolicy as op
from offpolicy.errors import DataError, UsageError

POLICIES = {"match": lambda c: (c["x"] % 3).to_numpy(), "two": op.policies.Fixed(2)}
METRICS = ["click", "revenue", "cost"]


def frame(n: int = 1500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, a = rng.integers(0, 6, n), rng.integers(3, size=n)
    click = (rng.random(n) < 0.2 + 0.2 * (a == x % 3)).astype(float)
    return pd.DataFrame(
        {
            "x": x,
            "a": a,
            "click": click,
            "revenue": click * rng.integers(1, 4, n),
            "cost": 1.0 + a + rng.integers(0, 2, n),
            "p": 1 / 3,
            "id": np.arange(n),
        }
    )


ROLES = {"context": ["x"], "action": "a", "propensity": "p"}


def same(one: op.Evaluation, other: op.Evaluation, tolerance: float = 0.0) -> None:
    assert one.estimates.keys() == other.estimates.keys()
    for key, e in one.estimates.items():
        numbers = [
            [each.value, each.std_error, *each.interval(), each.n] for each in (e, other[key], one.logged, other.logged)
        ]
        np.testing.assert_allclose(numbers[0], numbers[1], rtol=0, atol=tolerance)
        np.testing.assert_allclose(numbers[2], numbers[3], rtol=0, atol=tolerance)


def test_each_metric_has_the_numbers_that_it_has_alone():
    data = frame()
    several = op.BanditLog.from_frame(data, reward=METRICS, **ROLES)
    ev = op.evaluate(several, POLICIES, minimize=["cost"])
    assert ev.metrics == METRICS
    assert list(several.metrics) == METRICS
    for name in METRICS:
        alone = op.BanditLog.from_frame(data, reward=name, **ROLES)
        same(op.evaluate(alone, POLICIES, minimize=name == "cost"), ev.metric(name))
        assert ev.metric(name).verdict("match").level == (
            op.evaluate(alone, POLICIES, minimize=name == "cost").verdict("match").level
        )


def test_a_list_of_one_metric_is_that_reward():
    data = frame()
    one, listed = (
        op.evaluate(op.BanditLog.from_frame(data, reward=reward, **ROLES), POLICIES) for reward in ("click", ["click"])
    )
    same(one, listed)
    assert repr(one) == repr(listed)
    assert listed.metric("click") is listed
    assert list(one.frame().columns) == list(listed.frame().columns)


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_every_path_gives_the_same_metrics(way: str, tmp_path):
    data = frame()
    path = tmp_path / "log.parquet"
    data.to_parquet(path)
    log = op.BanditLog.from_frame(data, reward=["revenue", "cost"], id="id", **ROLES)
    held = op.evaluate(log, POLICIES)
    scan = op.scan(str(path), reward=["revenue", "cost"], id="id", way=way, chunk_rows=400, **ROLES)
    found = op.evaluate(scan, POLICIES)
    for name in ("revenue", "cost"):
        same(held.metric(name), found.metric(name), 1e-9)
        ours, theirs = (ev.metric(name).diagnostics for ev in (held, found))
        assert {f.name: f.level for f in ours} == {f.name: f.level for f in theirs}
    pair = [ev["match", "DML"] - 0.5 * ev.metric("cost")["match", "DML"] for ev in (held, found)]
    np.testing.assert_allclose(*[[e.value, e.std_error] for e in pair], atol=1e-9)


def test_cells_serve_models_that_do_not_merge_rows_themselves(tmp_path):
    data = frame()
    path = tmp_path / "log.parquet"
    data.to_parquet(path)
    models = {"revenue": LinearRegression(), "click": LogisticRegression()}
    options = {"estimators": ["DML", "DM"], "reward_model": models}
    log = op.BanditLog.from_frame(data, reward=["revenue", "click"], id="id", **ROLES)
    scan = op.scan(str(path), reward=["revenue", "click"], id="id", way="cells", **ROLES)
    held, cells = (op.evaluate(each, POLICIES, **options) for each in (log, scan))
    same(held, cells, 1e-9)
    same(held.metric("click"), cells.metric("click"), 1e-5)  # as far as L-BFGS goes


def test_nothing_about_the_logging_policy_is_fitted_again():
    class Counting(LogisticRegression):
        fits = 0

        def fit(self, *args, **kwargs):
            Counting.fits += 1
            return super().fit(*args, **kwargs)

    roles = {key: value for key, value in ROLES.items() if key != "propensity"}
    log = op.BanditLog.from_frame(frame(), reward=METRICS, **roles)
    ev = op.evaluate(log, POLICIES, behavior_model=Counting(), estimators=["DML", "IPW"])
    once = Counting.fits
    assert once > 0
    for name in METRICS:
        assert ev.metric(name)["match", "IPW"].is_defined
    assert Counting.fits == once
    weights = [ev.metric(name)["match", "DML"].evidence.weight for name in METRICS]
    assert len(set(weights)) == 1
    again = ev.with_behavior("shares").metric("cost")
    assert again.metric_name == "cost"
    assert again["match", "IPW"].value != ev.metric("cost")["match", "IPW"].value


def test_two_exchanges_of_the_logging_policy_keep_their_own_scores():
    log = op.BanditLog.from_frame(frame(), reward="click", **ROLES)
    ev = op.evaluate(log, POLICIES, estimators=["IPW"])
    shares = ev.with_behavior("shares")
    before = shares["match", "IPW"].value
    ev.with_behavior(LogisticRegression())
    assert shares["match", "IPW"].psi.mean() == pytest.approx(before, abs=1e-12)


def test_policies_are_added_for_every_metric():
    log = op.BanditLog.from_frame(frame(), reward=METRICS, **ROLES)
    ev = op.evaluate(log, {"match": POLICIES["match"]}, estimators=["DML"])
    added = ev.metric("cost").add({"two": POLICIES["two"]})
    assert added.metric_name == "cost"
    both = op.evaluate(log, POLICIES, estimators=["DML"])
    same(both.metric("cost"), added)
    same(both.metric("revenue"), added.metric("revenue"))


def test_the_frame_holds_every_metric():
    log = op.BanditLog.from_frame(frame(), reward=METRICS, **ROLES)
    ev = op.evaluate(log, POLICIES, estimators=["DML"])
    table = ev.frame()
    assert table["metric"].unique().tolist() == METRICS
    assert len(table) == 9
    assert len(ev.metric("cost").frame()) == 3


def test_arrays_name_their_metrics_in_three_ways():
    data = frame(200)
    arguments = (data[["x"]].to_numpy(), data["a"].to_numpy())
    matrix = data[METRICS].to_numpy()
    logs = [
        op.BanditLog.from_arrays(*arguments, {name: data[name] for name in METRICS}, data["p"]),
        op.BanditLog.from_arrays(*arguments, matrix, data["p"], metrics=METRICS),
        op.BanditLog.from_arrays(*arguments, data[METRICS], data["p"]),
    ]
    for log in logs:
        assert list(log.metrics) == METRICS
        np.testing.assert_array_equal(np.column_stack(list(log.metrics.values())), matrix)
    taken = logs[0].with_reward("cost").take(np.array([3, 1]))
    np.testing.assert_array_equal(taken.metrics["revenue"], data["revenue"].to_numpy()[[3, 1]])
    with pytest.raises(DataError, match="one number per row"):
        op.BanditLog.from_arrays(*arguments, matrix)
    with pytest.raises(DataError, match="names 2 rewards"):
        op.BanditLog.from_arrays(*arguments, matrix, metrics=["click", "cost"])


def test_episodes_have_metrics_too():
    rng = np.random.default_rng(3)
    n, steps = 300, 4
    states, actions = rng.integers(3, size=(n, steps)), rng.integers(2, size=(n, steps))
    rewards = {"win": (actions == states % 2) * 1.0, "cost": 1.0 + actions + rng.normal(size=(n, steps))}
    p = np.full((n, steps), 0.5)
    policy = {"match": lambda s: np.asarray(s) % 2}
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=p)
    stacked = op.Trajectories.from_arrays(
        states, actions, np.stack(list(rewards.values()), axis=-1), propensities=p, metrics=list(rewards)
    )
    ev = op.evaluate(log, policy, minimize=["cost"])
    for name, values in rewards.items():
        alone = op.Trajectories.from_arrays(states, actions, values, propensities=p)
        same(op.evaluate(alone, policy), ev.metric(name))
        np.testing.assert_array_equal(stacked.metrics[name], log.metrics[name])
    assert ev.metric("cost").minimize
    assert not ev.minimize
    short = op.evaluate(log.up_to(2), policy, estimators=["DML"])
    assert short.metric("cost").logged.value == pytest.approx(rewards["cost"][:, :2].sum(1).mean())


def test_episodes_of_a_frame_have_metrics():
    data = pd.DataFrame(
        {
            "id": [1, 1, 2, 2],
            "t": [1, 0, 0, 1],
            "s": [0, 1, 0, 1],
            "a": [0, 1, 1, 0],
            "win": [1.0, 2.0, 3.0, 4.0],
            "cost": [5.0, 6.0, 7.0, 8.0],
        }
    )
    log = op.Trajectories.from_frame(data, episode="id", step="t", state=["s"], action="a", reward=["win", "cost"])
    assert log.metrics["cost"].tolist() == [6.0, 5.0, 7.0, 8.0]
    assert log.with_reward("cost").first(1).reward.tolist() == [6.0, 7.0]


def test_bad_metrics_are_named():
    data = frame(50)
    with pytest.raises(DataError, match=r"'cots'"):
        op.BanditLog.from_frame(data, reward=["click", "cots"], **ROLES)
    with pytest.raises(DataError, match="twice"):
        op.BanditLog.from_frame(data, reward=["click", "click"], **ROLES)
    with pytest.raises(DataError, match="contains the reward column 'cost'"):
        op.BanditLog.from_frame(data, reward=["click", "cost"], context=["x", "cost"], action="a", propensity="p")
    bad = data.assign(cost=data["cost"].where(data.index != 7))
    with pytest.raises(DataError, match=r"'cost'.*row 7"):
        op.BanditLog.from_frame(bad, reward=["click", "cost"], **ROLES)
    with pytest.raises(DataError, match="'cost': 1 of 50 values"):
        op.scan(bad, reward=["click", "cost"], **ROLES).check()
    log = op.BanditLog.from_frame(data, reward=["click", "cost"], **ROLES)
    with pytest.raises(UsageError, match="minimize=True"):
        op.evaluate(log, POLICIES, minimize=True)
    with pytest.raises(UsageError, match="no metric is called 'costs'"):
        op.evaluate(log, POLICIES, minimize=["costs"])
    with pytest.raises(UsageError, match="predictions of one reward"):
        op.evaluate(log, POLICIES, reward_model=np.zeros((50, 3)))
    with pytest.raises(UsageError, match="no metric is called 'costs'"):
        op.evaluate(log, POLICIES, estimators=["IPW"]).metric("costs")


def test_predictions_are_given_for_each_metric():
    data = frame(400)
    log = op.BanditLog.from_frame(data, reward=["click", "cost"], **ROLES)
    zero, three = np.zeros((400, 3)), np.full((400, 3), 3.0)
    ev = op.evaluate(log, POLICIES, reward_model={"click": zero, "cost": three}, estimators=["DM", "IPW", "DML"])
    assert ev["two", "DM"].value == 0
    assert ev.metric("cost")["two", "DM"].value == 3
    assert ev["two", "DML"].value == pytest.approx(ev["two", "IPW"].value)
    scan = op.scan(data, reward=["click", "cost"], id="id", **ROLES)
    with pytest.raises(UsageError, match="reward_model= as an array"):
        op.evaluate(scan, POLICIES, reward_model={"cost": three})


@pytest.mark.parametrize("way", ["memory", "cells", "stream"])
def test_a_combination_is_the_sum_of_its_metrics(way: str):
    data = frame(700)
    roles = {**ROLES, "reward": METRICS, "id": "id"}
    log = op.BanditLog.from_frame(data, **roles) if way == "memory" else op.scan(data, way=way, chunk_rows=400, **roles)
    ev = op.evaluate(log, POLICIES, minimize=["cost"])
    margin = ev.combine({"revenue": 1, "cost": -0.3}, name="margin")
    assert margin.metrics == ["margin"]
    assert margin.logged.value == pytest.approx((data["revenue"] - 0.3 * data["cost"]).mean())
    for estimator in ("IPW", "SNIPW", "DML", "SNDR", "DM"):
        for policy in POLICIES:
            revenue, cost = (ev.metric(m)[policy, estimator] for m in ("revenue", "cost"))
            total, whole = revenue - 0.3 * cost, margin[policy, estimator]
            assert whole.value == pytest.approx(total.value, abs=1e-12)
            assert whole.std_error == pytest.approx(total.std_error, abs=1e-12)
            assert (whole - total).std_error < 1e-12  # on one table
    alone = data.assign(margin=data["revenue"] - 0.3 * data["cost"])
    other = op.evaluate(op.BanditLog.from_frame(alone, reward="margin", id="id", **ROLES), POLICIES)
    assert margin["match", "IPW"].interval() == pytest.approx(other["match", "IPW"].interval())
    assert margin.verdict("match").level == "trust"
    added = margin.add({"zero": op.policies.Fixed(0)})
    assert added.metric_name == "margin"
    assert added["zero", "DML"].value == pytest.approx(
        (added.metric("revenue")["zero", "DML"] - 0.3 * added.metric("cost")["zero", "DML"]).value
    )


def test_what_cannot_be_combined_is_said():
    log = op.BanditLog.from_frame(frame(200), reward=METRICS, **ROLES)
    ev = op.evaluate(log, POLICIES, estimators=["IPW"])
    with pytest.raises(UsageError, match="no metric is called 'costs'"):
        ev.combine({"costs": 1})
    with pytest.raises(UsageError, match="already"):
        ev.combine({"cost": 1}, name="click")
    with pytest.raises(UsageError, match="finite number"):
        ev.combine({"cost": float("nan")})


def test_formats_of_one_reward_do_not_drop_the_others(tmp_path):
    log = op.BanditLog.from_frame(frame(20), reward=["click", "cost"], **ROLES)
    for write in (op.formats.write_jsonl, op.formats.write_dsjson):
        with pytest.raises(DataError, match="takes one reward"):
            write(log, tmp_path / "log.json")
    with pytest.raises(DataError, match="takes one reward"):
        op.formats.to_obp(log)
