"""`op.replay`: rewards that come late or in part, and what learners are checked for."""

import json
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import offpolicy as op

L = op.learners


def world(seed, n=1200, blocks=6):
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    r = (rng.random(n) < np.where(a == (x[:, 0] > 0), 0.7, 0.3)) * 1.0
    return {"x": x, "a": a, "r": r, "p": np.full(n, 0.5), "day": np.arange(n) // (n // blocks), "rng": rng}


class Watching(L.LinUCB):
    """Remembers what it was shown."""

    seen: ClassVar[list] = []

    def update(self, context, action, reward, propensity=None):
        type(self).seen.append((np.asarray(context)[:, 0], np.asarray(reward)))
        super().update(context, action, reward, propensity)


@pytest.fixture
def watching():
    class Mine(Watching):
        seen: ClassVar[list] = []

    return Mine


def test_a_learner_sees_labels_where_there_are_some(watching):
    w = world(0)
    labeled = w["rng"].random(1200) < 0.4
    reward = np.where(labeled, w["r"], np.nan)
    judge = np.where(w["rng"].random(1200) < 0.8, w["r"], 1 - w["r"])
    log = op.BanditLog.from_arrays(
        w["x"], w["a"], reward, w["p"], batch=w["day"], outcome=op.Labeled(proxies=judge, probability=0.4)
    )
    ev = op.replay(log, {"u": watching()}, estimators=["DML"], reward_model=Ridge())
    shown = np.concatenate([r for _, r in watching.seen])
    assert shown.tolist() == w["r"][labeled & (w["day"] < 5)].tolist()
    whole = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=w["day"])
    all_seen = op.replay(whole, "linucb", estimators=["DML"], reward_model=Ridge())["DML"]
    e = ev["u", "DML"]
    assert abs(e.value - all_seen.value) < 4 * e.std_error
    assert e.std_error > all_seen.std_error
    assert ev.diagnostics["u"]["effective_labels"].ran
    by_rejection = op.replay(log, {"u": watching()}, method="rejection", time=np.arange(1200), estimators=["IPW"])
    assert by_rejection.replayed.steps["u"] > 300


def delayed(w, window=30.0):
    """Clicks that come late, one hundred rows per day of ten hours each."""
    n = len(w["r"])
    clock = np.arange(n) / n * 360
    age = 360 - clock
    time = np.where(w["r"] == 1, w["rng"].exponential(12.0, n), np.nan)
    time[time > age] = np.nan
    outcome = op.Delayed(time=time, age=age, window=window)
    reward = np.where(time <= window, 1.0, 0.0)
    log = op.BanditLog.from_arrays(w["x"], w["a"], reward, w["p"], batch=w["day"], outcome=outcome)
    return log, clock, time


def test_a_learner_sees_a_reward_once_it_has_come(watching):
    w = world(1)
    log, clock, time = delayed(w)
    ev = op.replay(log, {"u": watching()}, estimators=["DML"], reward_model=Ridge())
    known = clock + np.where(time <= 30, time, 30.0)
    begins = [clock[w["day"] == t].min() for t in range(6)]
    shown_before = 1
    for contexts, _ in watching.seen:
        rows = np.flatnonzero(np.isin(w["x"][:, 0], contexts))
        while begins[shown_before] < known[rows].max():
            shown_before += 1
        assert (known[rows] <= begins[shown_before]).all()
        assert len(rows) == len(contexts)
    # The last day is not over yet: some of its clicks may still come.
    assert ev.replayed.blocks == (1, 2, 3, 4)
    assert any("left out" in note for note in ev["DML"].notes)
    kept = (w["day"] > 0) & (w["day"] < 5)
    assert ev.logged.value == pytest.approx(np.mean(time[kept] <= 30))


def test_what_cannot_be_learned_from_is_refused():
    w = world(2)
    log, _, _ = delayed(w)
    with pytest.raises(op.errors.UsageError, match="comes late"):
        op.replay(log, "linucb", method="rejection", time=np.arange(1200))
    log, _, _ = delayed(w, window=300.0)
    with pytest.raises(op.errors.DataError, match="no block after the first"):
        op.replay(log, "linucb")
    backward = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"])
    with pytest.raises(op.errors.DataError, match="see the future"):
        op.replay(backward, "linucb", blocks=-w["day"], time=np.arange(1200))
    with pytest.raises(op.errors.DataError, match="time of these rows"):
        op.replay(backward, "linucb", blocks=np.where(w["day"] == 3, np.nan, w["day"]))


class Knowing:
    """Has seen all rewards before: it takes the logged action where that earned 1."""

    def __init__(self, w):
        self.best = dict(zip(w["x"][:, 0].tolist(), np.where(w["r"] == 1, w["a"], 1 - w["a"]).tolist(), strict=True))

    def probabilities(self, context):
        best = np.array([self.best[x] for x in np.asarray(context)[:, 0]])
        return 0.8 * np.eye(2)[best] + 0.1

    def update(self, *_):
        """It knows enough."""


def test_a_learner_that_has_seen_the_future_is_found():
    w = world(3)
    log = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=w["day"])
    ev = op.replay(log, {"knows": Knowing(w), "learns": L.LinUCB()}, estimators=["DML"], reward_model=Ridge())
    assert ev.replayed.trained == ("knows",)
    checks = ev.diagnostics["knows"]
    assert checks["learner_order"].level == "caution"
    assert checks["learned_from_log"].level == "alarm"
    assert ev.verdict("knows").level == "insufficient evidence"
    assert ev.diagnostics["learns"]["learner_order"].level == "ok"
    assert ev.verdict("learns").level == "trust"


class Fickle:
    """Changes its mind after every block."""

    turn = 0

    def probabilities(self, context):
        return np.tile([[0.9, 0.1], [0.1, 0.9]][self.turn % 2], (len(context), 1))

    def update(self, *_):
        self.turn += 1


def test_a_learner_that_does_not_settle_gets_a_note():
    w = world(4)
    log = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=w["day"])
    ev = op.replay(log, {"fickle": Fickle()}, estimators=["IPW"])
    found = ev.diagnostics["fickle"]["learner_stability"]
    assert (found.level, found.value) == ("note", pytest.approx(0.8))


def test_few_accepted_rows_are_not_enough():
    w = world(5, n=600)
    log = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=w["day"])
    ev = op.replay(log, "linucb", method="rejection", time=np.arange(600), accept=0.04, estimators=["IPW"])
    assert ev.replayed.steps["linucb"] < 30
    found = ev.diagnostics["linucb"]["replay_steps"]
    assert found.level == "alarm"
    assert "more exploration" in found.remedy
    assert ev.verdict().level == "insufficient evidence"
    assert ev.gate("value > 0").exit_code == 4


def test_a_logging_policy_that_changes_is_noticed_where_it_was_not_logged():
    w = world(6)
    early = w["day"] < 3
    a = np.where(w["rng"].random(1200) < np.where(early, 0.25, 0.75), 1, 0)
    unknown = op.BanditLog.from_arrays(w["x"], a, w["r"], batch=w["day"])
    ev = op.replay(unknown, "linucb", estimators=["DML"], reward_model=Ridge(), randomized=True)
    assert ev.diagnostics["linucb"]["logging_change"].level == "caution"
    steady = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], batch=w["day"])
    ev = op.replay(steady, "linucb", estimators=["DML"], reward_model=Ridge(), randomized=True)
    assert ev.diagnostics["linucb"]["logging_change"].level == "ok"


def test_policies_that_stand_still_have_none_of_these_checks():
    w = world(7, n=300)
    ev = op.evaluate(op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"]), "uniform", estimators=["IPW"])
    names = {f["name"] for f in ev.diagnostics.rows()}
    assert not names & {"learner_order", "learner_stability", "replay_steps", "logging_change"}
    assert ev.replayed is None


def test_the_logging_policy_may_be_given_as_an_array():
    w = world(8, n=600)
    unknown = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], batch=w["day"])
    ev = op.replay(unknown, "linucb", behavior_model=np.full((600, 2), 0.5), estimators=["IPW"])
    known = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], batch=w["day"])
    assert ev["IPW"].value == pytest.approx(op.replay(known, "linucb", estimators=["IPW"])["IPW"].value, rel=1e-12)


@pytest.mark.parametrize("method", ["progressive", "rejection"])
def test_reports_and_json_show_what_was_earned_while_learning(method, tmp_path):
    w = world(9, n=600)
    cost = {"r": w["r"], "cost": 1.0 + w["a"]}
    log = op.BanditLog.from_arrays(w["x"], w["a"], cost, w["p"], batch=w["day"])
    ev = op.replay(log, {"u": "linucb"}, method=method, time=np.arange(600), estimators=["DML"], reward_model=Ridge())
    page = ev.report(tmp_path / "r.html").read_text("utf-8")
    assert "What it earns as it learns" in page
    assert ("decisions of its own" if method == "rejection" else "only trained") in page
    section = json.loads(ev.to_json())["sections"][0]
    assert (section["key"], section["policy"]) == ("learning", "u")
    curve = ev.learning_curve()
    assert [row["value"] for row in section["body"][1]["rows"]] == pytest.approx(curve.so_far[:5].tolist())
    assert ev.metric("cost").learning_curve().value.iloc[0] == pytest.approx(
        ev.metric("cost")["u", "DML"].within(ev.replayed.block == 0).value
    )
