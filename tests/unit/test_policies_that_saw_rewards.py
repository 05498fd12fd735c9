"""Policies learned from the rows they are judged by are refused; the same learners fitted to other rows are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import offpolicy as op
from offpolicy.trust import copies

K, N = 3, 3000
NAME = "learned_from_log"


def world(seed, n=N):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    user = rng.integers(0, 150, n)
    p = np.exp(0.4 * x[:, :1] * np.arange(K))
    p /= p.sum(1, keepdims=True)
    action = (p.cumsum(1) > rng.random(n)[:, None]).argmax(1)
    mean = 0.3 + 0.1 * np.tanh(x)
    reward = (rng.random(n) < mean[np.arange(n), action]) * 1.0
    return pd.DataFrame(x, columns=list("uvw")).assign(
        user=[f"u{i}" for i in user], a=action, r=reward, p=p[np.arange(n), action]
    )


def log_of(frame, context=("u", "v", "w"), **roles):
    return op.BanditLog.from_frame(frame, context=list(context), action="a", reward="r", propensity="p", **roles)


def greedy(learner, frame):
    """Acts greedily on one regression per action, fitted to these rows."""
    x = frame[list("uvw")].to_numpy()
    models = [learner().fit(x[frame.a == a], frame.r[frame.a == a]) for a in range(K)]
    return lambda c: np.stack([m.predict(np.asarray(c)[:, :3]) for m in models], 1).argmax(1)


LEARNERS = {"forest": lambda: RandomForestRegressor(20, random_state=0), "neighbors": lambda: KNeighborsRegressor(5)}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_policy_learned_from_the_log_is_refused(learner):
    frame, other = world(0), world(1)
    same, elsewhere = (greedy(LEARNERS[learner], f) for f in (frame, other))
    ev = op.evaluate(log_of(frame), {"same": same, "elsewhere": elsewhere}, reward_model=Ridge())
    assert ev.diagnostics["same"][NAME].value > 6
    assert ev.diagnostics["elsewhere"][NAME].level == "ok"
    verdict = ev.verdict("same")
    assert verdict.level == "insufficient evidence"
    assert "CrossFitted" in verdict.reasons[0]
    assert "learned_elsewhere=" in verdict.reasons[0]
    assert ev.gate("same - logged > -1").exit_code == 4
    assert ev.gate("elsewhere - logged > -1").exit_code == 0


@pytest.mark.parametrize("learner", [Ridge, lambda: Ridge(30.0), LogisticRegression])
def test_a_linear_policy_learned_from_the_log_is_refused(learner):
    frame, other = world(0), world(1)
    own = frame[["u", "v", "w"]].to_numpy()

    def fitted(rows):
        x = rows[["u", "v", "w"]].to_numpy()
        return [learner().fit(x[rows.a == a], rows.r[rows.a == a]) for a in range(K)]

    def act(models):
        scores = [m.predict_proba(own)[:, 1] if hasattr(m, "predict_proba") else m.predict(own) for m in models]
        return np.stack(scores, 1).argmax(1)

    policies = {"same": act(fitted(frame)), "elsewhere": act(fitted(other)), "the best": own.argmax(axis=1)}
    ev = op.evaluate(log_of(frame), policies, reward_model=Ridge())
    found = {name: ev.diagnostics[name][NAME] for name in policies}
    assert found["same"].level == "alarm"
    assert " fit of these rows in all but " in found["same"].sentence
    assert [found[name].level for name in ("elsewhere", "the best")] == ["ok", "ok"]


def test_costs_are_learned_from_too():
    frame = world(0)
    cost = frame.assign(r=-frame.r)
    best = greedy(LEARNERS["neighbors"], frame)
    own = {"best": best(frame[list("uvw")]), "linear": greedy(Ridge, frame)(frame[list("uvw")])}
    ev = op.evaluate(log_of(cost), own, reward_model=Ridge(), minimize=True)
    assert [ev.diagnostics[name][NAME].level for name in own] == ["alarm", "alarm"]


def test_a_fine_policy_that_knows_more_than_the_reward_model_is_not_refused():
    """Digits named by neighbors of other rows: it earns far more than the model expects, and so does its copy."""
    rng = np.random.default_rng(0)
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    here, there = order[:900], order[900:]
    named = KNeighborsClassifier(3).fit(digits.data[there], digits.target[there]).predict(digits.data[here])
    action = rng.integers(10, size=900)
    reward = (action == digits.target[here]) * 1.0
    log = op.BanditLog.from_arrays(digits.data[here], action, reward, np.full(900, 0.1), actions=range(10))
    found = op.evaluate(log, {"named": named}, reward_model=Ridge()).diagnostics["named"][NAME]
    assert found.level == "ok"
    assert "a copy of it made without these rows does as well" in found.sentence


def test_a_declaration_answers():
    frame = world(0)
    policies = {"same": greedy(LEARNERS["neighbors"], frame)}
    ev = op.evaluate(log_of(frame), policies, reward_model=Ridge(), learned_elsewhere="same")
    assert not ev.diagnostics["same"][NAME].ran
    assert ev.verdict("same").level == "trust"
    assert "relies on your statement that the policy was not learned" in str(ev.verdict("same"))
    assert ev.settings["learned_elsewhere"] == ["same"]


@pytest.mark.parametrize(("names", "why"), [("sam", "Did you mean 'same'"), (3, "must be True or names")])
def test_a_declaration_names_policies(names, why):
    with pytest.raises(op.errors.UsageError, match=why):
        op.evaluate(log_of(world(0)), {"same": "uniform"}, learned_elsewhere=names)


def test_a_table_by_user_is_refused():
    frame = world(2)
    sums = frame.groupby(["user", "a"]).r.agg(["sum", "count"])
    best = ((sums["sum"] + 0.3) / (sums["count"] + 1)).unstack(fill_value=0.3).idxmax(axis=1)
    log = log_of(frame, ["u", "v", "w", "user"])
    ev = op.evaluate(log, {"same": best[frame.user].to_numpy()}, reward_model=Ridge())
    assert ev.diagnostics["same"][NAME].level == "alarm"


@pytest.mark.parametrize(
    "policy", ["uniform", "always:1", lambda c: (c["u"] > 0).astype(int), lambda c: (c["v"] * c["w"] > 0).astype(int)]
)
def test_rules_are_not(policy):
    ev = op.evaluate(log_of(world(3)), {"rule": policy}, estimators=["SNIPW"])
    assert ev.diagnostics["rule"][NAME].level == "ok"
    said = " ".join(str(ev.verdict("rule")).split())
    assert "assumes that the policy was not learned from these rows and that no row is missing because of its" in said
    weighted = op.evaluate(log_of(world(3).assign(k=0.5), keep_probability="k"), {"rule": policy}, estimators=["SNIPW"])
    assert "no row is missing" not in " ".join(str(weighted.verdict("rule")).split())


def test_a_stream_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "MOST", 1000)
    frame = world(0)
    frame["best"] = greedy(LEARNERS["neighbors"], frame)(frame[list("uvw")])
    frame.to_parquet(tmp_path / "log.parquet")
    roles = {"context": ["u", "v", "w"], "action": "a", "reward": "r", "propensity": "p"}
    scan = op.scan(tmp_path / "log.parquet", **roles, way="stream", chunk_rows=700)
    found = [
        op.evaluate(log, {"best": greedy(LEARNERS["neighbors"], frame)}, reward_model=Ridge()).diagnostics["best"][NAME]
        for log in (log_of(frame), scan)
    ]
    assert found[0].level == "alarm"
    assert found[1].value == pytest.approx(found[0].value, rel=1e-9)


def test_a_learner_that_is_refitted_out_of_fold_is_not():
    learner = op.policies.CrossFitted(KNeighborsRegressor(5))
    ev = op.evaluate(log_of(world(0)), {"same": learner}, reward_model=Ridge())
    assert not ev.diagnostics["same"][NAME].ran
    assert ev.verdict("same").level == "trust"
