"""A streamed log gives what the log in memory gives, the same models supplied to both."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.moments import Moments
from offpolicy.splits.folds import hash_folds

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

ESTIMATORS = ["IPW", "SNIPW", "DM", "DR-full", "DR-half", "DML", "SNDR-cf", "SNIPW-half"]
NAMED = {"context": ["x", "z", "kind"], "action": "arm", "reward": "r", "propensity": "p"}


class Given:
    """A reward model that ignores its training rows."""

    def fit_reward(self, data, seed):
        return self

    def predict(self, X, codes):
        return np.sin(X["x"].to_numpy()) + 0.3 * codes * (X["kind"] == "b").to_numpy()


def make(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    arm = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "key": rng.permutation(n),
            "x": x,
            "z": z,
            "kind": rng.choice(["a", "b", "c"], n),
            "choice": rng.choice(["u", "v", "w"], n),
            "arm": np.array(["u", "v", "w"])[arm],
            "r": np.sin(x) + 0.5 * arm * (x > 0) + rng.normal(size=n),
            "p": rng.choice([0.2, 0.4, 0.8], n),
            "user": [f"user{i}" for i in rng.integers(0, n // 4, n)],
            "w": rng.uniform(0.5, 2.0, n),
            "hour": rng.integers(0, 3, n),
        }
    )


def soft(frame):
    logits = np.outer(frame["x"].to_numpy(), np.arange(3))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sharp(frame):
    return np.where(frame["x"].to_numpy() > 0, "w", "u")


POLICIES = {"soft": soft, "sharp": sharp, "column": "choice"}


@pytest.mark.parametrize("more", [{}, {"weight": "w"}, {"cluster": "user"}], ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_sums_of_chunks_equal_scores_in_memory(more, k):
    frame = make()
    ids = frame["user"].to_numpy(dtype=object) if "cluster" in more else frame["key"].to_numpy()
    rows = op.evaluate(
        op.BanditLog.from_frame(frame, **NAMED, **more),
        POLICIES,
        estimators=ESTIMATORS,
        reward_model=Given(),
        folds=hash_folds(ids, k, 3),
    )
    with op.scan(frame, **NAMED, **more, id="key", way="stream", chunk_rows=400) as log:
        streamed = op.evaluate(
            log, POLICIES, estimators=ESTIMATORS, reward_model=Given(), folds=k, seed=3
        )
    assert streamed.settings["engine"]["way"] == "stream"
    for key, e in rows.estimates.items():
        other = streamed.estimates[key]
        assert other.n == e.n
        pairs = [(e, other), (e - rows.logged, other - streamed.logged)]
        pairs.append((e.lift(rows.logged), other.lift(streamed.logged)))
        pairs.append((e - rows["sharp", "DML"], other - streamed["sharp", "DML"]))
        for a, b in pairs:
            assert b.value == pytest.approx(a.value, rel=1e-10, abs=1e-12), key
            assert b.std_error == pytest.approx(a.std_error, rel=1e-9, abs=1e-12), key
    assert streamed.logged.value == pytest.approx(rows.logged.value, rel=1e-12)


def test_shares_of_a_streamed_log_are_those_in_memory():
    frame = make()
    settings = {"estimators": ["IPW", "IPW-cf", "SNIPW"], "behavior_model": "shares"}
    named = {**NAMED, "propensity": None, "batch": "hour"}
    rows = op.evaluate(
        op.BanditLog.from_frame(frame, **named),
        soft,
        folds=hash_folds(frame["key"].to_numpy(), 2, 0),
        **settings,
    )
    for ids in ({"id": "key"}, {}):
        with op.scan(frame, **named, **ids, way="stream", chunk_rows=700) as log:
            streamed = op.evaluate(log, soft, **settings)
        same = ["IPW", "IPW-cf", "SNIPW"] if ids else ["IPW", "SNIPW"]  # other ids, other folds
        for name in same:
            assert streamed[name].value == pytest.approx(rows[name].value, rel=1e-12)
            assert streamed[name].std_error == pytest.approx(rows[name].std_error, rel=1e-10)


def test_lightgbm_built_from_chunks_learns_the_reward():
    frame = make(8_000)
    model = op.BoostedReward(rounds=60, validation=0.25, threads=1)
    with op.scan(frame, **NAMED, id="key", way="stream", chunk_rows=1_500) as log:
        ev = op.evaluate(log, sharp, estimators=["DML", "DM-cf"], reward_model=model)
        again = op.evaluate(log, sharp, estimators=["DML"], reward_model=model)
        assert not list(log.engine.workspace.folder.iterdir())
    assert again["DML"].value == ev["DML"].value
    truth = np.mean(np.sin(frame["x"]) + np.where(frame["x"] > 0, 1.0, 0.0))
    assert abs(ev["DM-cf"].value - truth) < 0.1
    fits = ev.problem.nuisances.fits
    assert len(fits) == 2
    assert ev.problem.log.rows == 8_000
    predicted = ev.problem.decisions(ev.targets["policy"], ev.estimators[0]).q
    error = np.var(ev.problem.log.reward - predicted)
    assert error < 1.25 < np.var(frame["r"])


def test_a_learner_fitted_on_a_share_of_the_rows_says_so():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    numbers = FunctionTransformer(lambda frame: frame[["x", "z"]])
    model = make_pipeline(numbers, Ridge())
    with op.scan(make(), **NAMED, id="key", way="stream", fit_rows=1_000) as log:
        ev = op.evaluate(log, sharp, estimators=["DML"], reward_model=model)
    assert "fit_rows" in ev["DML"].notes[0]


def test_what_a_streamed_log_refuses():
    with op.scan(make(), **NAMED, id="key", way="stream") as log:
        with pytest.raises(UsageError, match="SWITCH looks at all scores at once"):
            op.evaluate(log, soft, estimators=["SWITCH"])
        with pytest.raises(UsageError, match="repeats="):
            op.evaluate(log, soft, estimators=["IPW"], repeats=2)
        ev = op.evaluate(log, soft, estimators=["IPW", "DR-half"], reward_model=Given())
        with pytest.raises(UsageError, match="Name them all in one"):
            ev.add({"other": sharp})
        with pytest.raises(UsageError, match="summed and not kept"):
            ev["IPW"].interval(0.95, method="bootstrap")
        other = op.evaluate(log, soft, estimators=["IPW"])
        with pytest.raises(UsageError, match="cannot be paired"):
            _ = ev["IPW"] - other["IPW"]
        low, high = ev["IPW"].interval(0.9, method="t")
        assert low < ev["IPW"].value < high


def test_no_overlap_is_not_a_number():
    frame = make()
    frame = frame[frame["arm"] != "w"]
    with op.scan(frame, **NAMED, actions=["u", "v", "w"], id="key", way="stream") as log:
        ev = op.evaluate(log, op.policies.Fixed("w"), estimators=["IPW", "SNIPW"])
    for name in ("IPW", "SNIPW"):
        assert np.isnan(ev[name].value)
        assert "no overlap" in ev[name].notes[-1]


def test_moments_merge_in_any_order():
    z = np.random.default_rng(0).normal(loc=1e3, size=(60, 4))
    whole = Moments.of(z)
    parts = [Moments.of(z[i : i + 7]) for i in range(0, 60, 7)]
    for order in (parts, parts[::-1]):
        total = order[0]
        for part in order[1:]:
            total = total + part
        assert total.n == whole.n
        assert total.mean == pytest.approx(whole.mean, rel=1e-14)
        assert total.scatter == pytest.approx(whole.scatter, rel=1e-9)


def test_a_streamed_evaluation_can_be_shown(tmp_path):
    with op.scan(make(), **NAMED, id="key", way="stream") as log:
        ev = op.evaluate(log, POLICIES, estimators=["DML", "IPW"], reward_model=Given())
    assert len(ev.frame()) == 6
    assert ev.verdict("soft").level in {"trust", "caution", "insufficient evidence"}
    assert "soft" in repr(ev)
    assert '"soft"' in ev.to_json()
    assert "effective" in str(ev.diagnostics)
    assert ev.problem.weights["sharp"]["effective_size"] > 0
    ev.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1_000


@pytest.mark.parametrize("unit", [{"id": "key"}, {"cluster": "user"}])
@pytest.mark.parametrize("way", ["stream", "rows"])
def test_the_order_of_rows_in_the_file_changes_nothing(tmp_path, unit, way):
    frame = make(2_000)
    found = []
    for i in range(2):
        path = tmp_path / f"log{i}.parquet"
        frame.sample(frac=1.0, random_state=i).to_parquet(path)
        options = {**NAMED, **unit, "way": way, "chunk_rows": 300}
        with op.scan(str(path), **options) as log:
            found.append(
                op.evaluate(
                    log,
                    soft,
                    estimators=["DML", "SNIPW"],
                    reward_model=op.BoostedReward(rounds=10, validation=0.2, threads=1),
                )
            )
    for name in ("DML", "SNIPW"):
        assert found[0][name].value == found[1][name].value
        assert found[0][name].std_error == found[1][name].std_error


def test_rows_without_ids_that_come_in_another_order_raise():
    import duckdb

    connection = duckdb.connect()
    connection.register("made", make(2_000))
    log = op.scan(connection.sql("FROM made ORDER BY random()"), **NAMED, way="stream")
    with log, pytest.raises(UsageError, match="another order"):
        op.evaluate(log, soft, estimators=["SNIPW"])
