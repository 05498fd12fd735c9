"""A streamed log gives what the log in memory gives, the same models supplied to both."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy._workspace import MARK
from offpolicy.errors import UsageError
from offpolicy.splits.hashing import hash_folds

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

ESTIMATORS = ["IPW", "SNIPW", "DM", "DR-full", "DR-half", "DML", "SNDR", "SNIPW-half", "auto", "SWITCH"]
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
def test_blocks_give_the_scores_in_memory(more, k):
    frame = make()
    rows = op.evaluate(
        op.BanditLog.from_frame(frame, **NAMED, **more, id="key"),
        POLICIES,
        estimators=ESTIMATORS,
        reward_model=Given(),
        folds=k,
        seed=3,
    )
    with op.scan(frame, **NAMED, **more, id="key", way="stream", chunk_rows=400) as log:
        streamed = op.evaluate(log, POLICIES, estimators=ESTIMATORS, reward_model=Given(), folds=k, seed=3)
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
        op.BanditLog.from_frame(frame, **named), soft, folds=hash_folds(frame["key"].to_numpy(), 2, 0), **settings
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
    model = op.models.BoostedReward(rounds=60, validation=0.25, threads=1)
    with op.scan(frame, **NAMED, id="key", way="stream", chunk_rows=1_500) as log:
        ev = op.evaluate(log, sharp, estimators=["DML", "DM-cf"], reward_model=model)
        again = op.evaluate(log, sharp, estimators=["DML"], reward_model=model)
        assert [p.name for p in log.engine.workspace.folder.iterdir()] == [MARK]
    assert again["DML"].value == ev["DML"].value
    truth = np.mean(np.sin(frame["x"]) + np.where(frame["x"] > 0, 1.0, 0.0))
    assert abs(ev["DM-cf"].value - truth) < 0.1
    assert len(ev.problem.fits) == 2
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


def test_beyond_fit_rows_boosted_trees_and_shares_still_see_every_row():
    frame = make(4_000)
    named = {**NAMED, "propensity": None, "batch": "hour"}
    model = op.models.BoostedReward(rounds=20, validation=0, threads=1)
    settings = {"estimators": ["DML", "IPW-cf", "DR-half"], "behavior_model": "shares", "folds": 3}
    found = []
    for most in (100, 1_000_000):
        options = {"id": "key", "way": "stream", "chunk_rows": 700, "fit_rows": most}
        with op.scan(frame, **named, **options) as log:
            found.append(op.evaluate(log, sharp, reward_model=model, **settings))
    few, all_rows = found
    assert few["IPW-cf"].value == pytest.approx(all_rows["IPW-cf"].value, rel=1e-12)
    for name in ("DML", "DR-half"):
        assert few[name].notes == all_rows[name].notes
        # Bins are those of the whole log there, and of the training fold here.
        assert few[name].value == pytest.approx(all_rows[name].value, abs=all_rows[name].std_error)


def test_policies_and_behavior_models_come_later_on_a_stream_too():
    frame = make()
    memory = op.BanditLog.from_frame(frame, **NAMED, id="key")
    answers = []
    with op.scan(frame, **NAMED, id="key", way="stream", chunk_rows=700) as log:
        for each in (memory, log):
            ev = op.evaluate(each, {"soft": soft}, estimators=["DML", "MRDR"], reward_model=Given())
            more = ev.add({"sharp": sharp})
            other = more.with_behavior("shares")
            answers.append([more["sharp", "DML"], other["soft", "DML"], other["sharp", "MRDR"]])
            answers[-1].append(other["soft", "DML"] - more["sharp", "DML"])
    for a, b in zip(*answers, strict=True):
        assert b.value == pytest.approx(a.value, rel=1e-12)
        assert b.std_error == pytest.approx(a.std_error, rel=1e-9)


@pytest.mark.parametrize("order", [["DML", "DR-half", "IPW"], ["DR-half", "IPW", "DML"]], ids=str)
def test_the_log_is_passed_over_as_seldom_as_can_be(order):
    seen = []

    def watched(frame):
        seen.append(len(frame))
        return soft(frame)

    with op.scan(make(), **NAMED, id="key", way="stream", chunk_rows=1_000) as log:
        ev = op.evaluate(log, watched, estimators=order, reward_model=Given())
        passes = sum(seen)
        assert ev.verdict().reasons
    # One row in each block is asked first whether the policy gives labels or probabilities, and the training
    # rows are asked once. The check for policies that saw these rows asks once more, in the same pass.
    assert passes <= 6 * 3_000
    assert sum(seen) - passes <= 0.1 * 3_000


def test_scores_of_two_evaluations_are_not_paired():
    with op.scan(make(), **NAMED, id="key", way="stream") as log:
        one, other = (op.evaluate(log, soft, estimators=["IPW"]) for _ in range(2))
    with pytest.raises(UsageError, match="cannot be paired"):
        _ = one["IPW"] - other["IPW"]


def test_no_overlap_is_not_a_number():
    frame = make()
    frame = frame[frame["arm"] != "w"]
    with op.scan(frame, **NAMED, actions=["u", "v", "w"], id="key", way="stream") as log:
        ev = op.evaluate(log, op.policies.Fixed("w"), estimators=["IPW", "SNIPW"])
    for name in ("IPW", "SNIPW"):
        assert np.isnan(ev[name].value)
        assert "no overlap" in ev[name].notes[-1]


def test_a_streamed_evaluation_can_be_shown(tmp_path):
    with op.scan(make(), **NAMED, id="key", way="stream") as log:
        ev = op.evaluate(log, POLICIES, estimators=["DML", "IPW"], reward_model=Given())
    assert len(ev.frame()) == 7  # the logging policy has a row
    assert ev.verdict("soft").level in {"trust", "caution", "insufficient evidence"}
    assert "soft" in repr(ev)
    assert '"soft"' in ev.to_json()
    assert "weights: " in str(ev.diagnostics)
    assert ev.diagnostics["sharp"]["effective_sample_size"].value > 0
    ev.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1_000


@pytest.mark.parametrize("more", [{}, {"cluster": "user"}])
@pytest.mark.parametrize("way", ["stream", "rows"])
def test_the_order_of_rows_in_the_file_changes_nothing(tmp_path, more, way):
    frame = make(2_000)
    found = []
    for i in range(2):
        path = tmp_path / f"log{i}.parquet"
        frame.sample(frac=1.0, random_state=i).to_parquet(path)
        options = {**NAMED, **more, "id": "key", "way": way, "chunk_rows": 300}
        with op.scan(str(path), **options) as log:
            found.append(
                op.evaluate(
                    log,
                    soft,
                    estimators=["DML", "SNIPW"],
                    reward_model=op.models.BoostedReward(rounds=10, validation=0.2, threads=1),
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
    with log, pytest.raises(UsageError, match="different order"):
        op.evaluate(log, soft, estimators=["DML"], reward_model=Given())
