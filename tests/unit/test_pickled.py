"""A pickled evaluation: estimates, intervals and checks travel; what did not says so when it is needed."""

import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import UsageError

N = 300


def frame():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=N), rng.integers(2, size=N)
    return pd.DataFrame({"x": x, "a": a, "r": (x > 0) * a + rng.normal(size=N), "c": 1.0 + a, "p": 0.5})


def bandit():
    return op.BanditLog.from_frame(frame(), context=["x"], action="a", reward=["r", "c"], propensity="p")


def episodes():
    rng = np.random.default_rng(1)
    return op.Trajectories.from_arrays(
        rng.integers(3, size=(60, 3)),
        rng.integers(2, size=(60, 3)),
        rng.normal(size=(60, 3)),
        propensities=np.full((60, 3), 0.5),
    )


def by_pickle(ev, tmp_path):
    return pickle.loads(pickle.dumps(ev))


def by_joblib(ev, tmp_path):
    joblib.dump(ev, tmp_path / "ev.joblib")
    return joblib.load(tmp_path / "ev.joblib")


@pytest.mark.parametrize("way", [by_pickle, by_joblib])
@pytest.mark.parametrize("log", [bandit, episodes])
def test_what_was_estimated_travels(way, log, tmp_path):
    ev = op.evaluate(log(), {"new": lambda x: np.ones(len(x), dtype=int)})
    _ = ev.diagnostics
    there = way(ev, tmp_path)
    assert there.rows() == ev.rows()
    assert there.verdict() == ev.verdict()
    assert str(there.diagnostics.rows()) == str(ev.diagnostics.rows())
    mine, theirs = (json.loads(e.to_json()) | {"origin": None} for e in (there, ev))
    assert mine == theirs
    pd.testing.assert_frame_equal(there.frame(), ev.frame())


def test_a_function_stays_behind_and_says_so():
    ev = op.evaluate(bandit(), {"new": lambda x: np.full((len(x), 2), 0.5)}, estimators=["DML"])
    there = pickle.loads(pickle.dumps(ev))
    assert there["DML"].value == ev["DML"].value
    with pytest.raises(UsageError, match=r"pickled without .*lambda.*op\.evaluate"):
        there.ask(folds=3)
    assert there.ask(estimators=["IPW"])["IPW"].n == N, "needs no new pass"


def test_policies_that_can_be_pickled_are_asked_again():
    ev = op.evaluate(bandit(), {"new": op.policies.Fixed(1), "array": np.full((N, 2), 0.5)})
    there = pickle.loads(pickle.dumps(ev))
    for question in ({"folds": 3}, {"metric": "c"}, {"behavior_model": "shares"}):
        mine, theirs = there.ask(**question), ev.ask(**question)
        assert mine.rows() == theirs.rows()
    assert there.gate("r new - logged > 0") == ev.gate("r new - logged > 0")
    assert [r["value"] for r in there.diagnostics.rows()] == pytest.approx(
        [r["value"] for r in ev.diagnostics.rows()], nan_ok=True
    )


def test_a_streamed_log_travels_without_its_connection(tmp_path):
    pytest.importorskip("duckdb")
    frame().to_parquet(tmp_path / "log.parquet")
    log = op.scan(
        str(tmp_path / "log.parquet"),
        context=["x"],
        action="a",
        reward="r",
        propensity="p",
        way="stream",
        chunk_rows=64,
    )
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML", "IPW"])
    there = pickle.loads(pickle.dumps(ev))
    log.close()
    assert there["DML"].interval() == ev["DML"].interval()
    assert str(there.diagnostics.rows()) == str(ev.diagnostics.rows())
    with pytest.raises(UsageError, match="pickled without"):
        there.ask(folds=3)


def test_an_estimate_travels_by_itself():
    e = op.evaluate(bandit(), op.policies.Fixed(1), estimators=["DML"])["DML"]
    there = pickle.loads(pickle.dumps(e))
    assert there.interval() == e.interval()
