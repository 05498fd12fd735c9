"""MLflow, scikit-learn's model selection, exposure tables of A/B testing tools: the real packages."""

import json
import warnings
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import offpolicy as op
from offpolicy.decide.learn import PolicyLearner
from offpolicy.errors import DataError, UsageError
from offpolicy.evaluation.evaluate import policy_scorer
from offpolicy.logs.formats import from_exposures

N = 900
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"x": RNG.normal(size=N), "z": RNG.normal(size=N), "a": RNG.integers(2, size=N), "p": 0.5},
    index=[f"row {i}" for i in range(N)],
)
FRAME["r"] = (FRAME["a"] == (FRAME["x"] > 0)).astype(float)
ROLES = {"context": ["x", "z"], "action": "a", "reward": "r", "propensity": "p"}
LOG = op.BanditLog.from_frame(FRAME, **ROLES)


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(before)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_result_is_logged_to_mlflow(tracking):
    ev = op.evaluate(LOG, {"new (v2)": "always:1"}, estimators=["DML", "IPW"])
    run = tracking.get_run(ev.log_mlflow())
    e = ev["new (v2)", "DML"]
    assert run.info.status == "FINISHED"
    assert run.data.metrics["new _v2_/DML/value"] == e.value
    assert run.data.metrics["new _v2_/DML/low"] == e.interval(0.95).low
    assert run.data.metrics["logged/value"] == ev.logged.value
    assert run.data.params["offpolicy.seed"] == "0"
    assert run.data.tags["offpolicy.verdict.new _v2_"] == ev.verdict("new (v2)").level
    files = {f.path for f in tracking.list_artifacts(run.info.run_id, "offpolicy")}
    assert files == {"offpolicy/result.json", "offpolicy/report.html"}
    local = tracking.download_artifacts(run.info.run_id, "offpolicy/result.json")
    found = json.loads(Path(local).read_text("utf-8"))
    assert found["schema"].startswith("offpolicy.evaluation.result/")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_an_active_run_is_used_and_left_open(tracking):
    nothing = op.evaluate(LOG, {"new": np.where(FRAME["a"] == 1, 0, 1)}, estimators=["IPW"])
    with mlflow.start_run() as run:
        assert nothing.log_mlflow(report=False) == run.info.run_id
        mlflow.log_metric("mine", 1.0)
    logged = tracking.get_run(run.info.run_id).data.metrics
    assert logged["mine"] == 1.0
    assert "new/IPW/value" not in logged  # not identified: nothing to log
    files = {f.path for f in tracking.list_artifacts(run.info.run_id, "offpolicy")}
    assert files == {"offpolicy/result.json"}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_learned_policy_and_a_choice_go_to_mlflow_with_their_report(tracking):
    learned = op.learn_policy(LOG, max_depth=1, reward_model=DummyRegressor(), folds=2)
    run = tracking.get_run(learned.log_mlflow())
    assert run.data.metrics["learned/DML/value"] == learned.value.value
    assert run.data.metrics["learned/naive"] == learned.naive.value
    files = {Path(f.path).name for f in tracking.list_artifacts(run.info.run_id, "offpolicy")}
    assert files == {"result.json", "report.html", "policy.txt", "policy.json", "policy.sql"}
    page = Path(tracking.download_artifacts(run.info.run_id, "offpolicy/report.html"))
    assert 'aria-label="the learned tree"' in page.read_text("utf-8")
    other = op.BanditLog.from_frame(FRAME[1:], **ROLES)
    ev = op.evaluate(other, {"one": "always:1", "rule": learned}, estimators=["IPW"])
    choice = op.select(ev)
    run = tracking.get_run(ev.log_mlflow(decision=choice))
    assert run.data.tags["offpolicy.adopted"] == choice.chosen == "rule"
    assert run.data.metrics["rule/adoption bound"] == choice.candidates[0].bound
    page = Path(tracking.download_artifacts(run.info.run_id, "offpolicy/report.html"))
    assert "What to adopt" in page.read_text("utf-8")


def test_grid_search_over_learned_policies():
    model = PolicyLearner(LOG, reward_model=DummyRegressor())
    search = GridSearchCV(model, {"max_depth": [0, 1]}, scoring=policy_scorer(LOG), cv=2)
    search.fit(FRAME[["x", "z"]])
    assert search.best_params_ == {"max_depth": 1}
    assert search.best_score_ > 0.95
    assert search.best_estimator_.log is LOG
    assert set(search.predict(FRAME[["x", "z"]])) == {0, 1}
    with pytest.raises(UsageError, match="PolicyLearner: the label 'other'"):
        model.fit(FRAME[["x", "z"]].rename(index={"row 0": "other"}))


def test_grid_search_finds_the_policy_that_earns_most():
    search = GridSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 4], "max_features": [1, 2]},
        scoring=policy_scorer(LOG),
        cv=3,
    )
    search.fit(FRAME[["x", "z"]], FRAME["a"], sample_weight=FRAME["r"] / FRAME["p"])
    assert search.best_score_ > 0.95
    held = np.arange(300)
    model = DecisionTreeClassifier(max_depth=1, max_features=1, random_state=0)
    rest = FRAME.iloc[300:]
    model.fit(rest[["x", "z"]], rest["a"], sample_weight=rest["r"] / rest["p"])
    by_hand = op.evaluate(LOG.take(held), model, estimators=["SNIPW"])["SNIPW"].value
    assert policy_scorer(LOG)(model, FRAME[["x", "z"]].iloc[:300]) == by_hand


def test_scores_by_the_lower_end_and_by_other_estimators():
    model = DecisionTreeClassifier(max_depth=2).fit(FRAME[["x", "z"]], FRAME["a"])
    X = FRAME[["x", "z"]].iloc[::2]
    part = LOG.take(np.arange(0, N, 2))
    e = op.evaluate(part, model, estimators=["DML"], reward_model=Ridge())["DML"]
    scorer = policy_scorer(LOG, estimator="DML", level=0.9, reward_model=Ridge())
    assert scorer(model, X) == pytest.approx(e.interval(0.9).low)


def test_rows_that_cannot_be_found_are_refused():
    model = DecisionTreeClassifier(max_depth=1).fit(FRAME[["x", "z"]], FRAME["a"])
    with pytest.raises(UsageError, match="'other'"):
        policy_scorer(LOG)(model, FRAME[["x", "z"]].rename(index={"row 0": "other"}))
    with pytest.raises(UsageError, match="index of a pandas frame"):
        policy_scorer(LOG)(model, FRAME[["x", "z"]].to_numpy())


def test_a_search_is_a_reward_model_as_it_is():
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=3)
    ev = op.evaluate(LOG, "always:1", estimators=["DML"], reward_model=search)
    assert abs(ev["DML"].value - 0.5) < 4 * ev["DML"].std_error


DAYS = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(6), "D")
SHOWN = pd.DataFrame(
    {
        "user_id": ["u", "v", "u", "w", "x"],
        "timestamp": DAYS[[1, 0, 0, 2, 3]],
        "experiment_id": "checkout",
        "variation_id": ["new", "old", "new", "old", "new"],
        "country": ["NL", "DE", "FR", "DE", "NL"],
    }
)
SALES = pd.DataFrame(
    {
        "user_id": ["u", "v", "v", "w", "stranger"],
        "timestamp": DAYS[[0, 1, 4, 1, 5]],
        "value": [1.0, 2.0, 4.0, 8.0, 16.0],
    }
)
WEIGHTS = {"old": 0.7, "new": 0.3}


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas])
def test_exposures_become_a_log_of_units(kind):
    log = from_exposures(kind(SHOWN), kind(SALES), weights=WEIGHTS, dimensions=["country"])
    assert log.actions == ("old", "new")
    assert [log.actions[a] for a in log.action] == ["new", "old", "old", "new"]  # u, v, w, x
    assert log.propensity.tolist() == [0.3, 0.7, 0.7, 0.3]
    assert log.reward.tolist() == [1.0, 6.0, 0.0, 0.0]  # w bought before its exposure
    assert log.context.column("country").tolist() == ["FR", "DE", "DE", "NL"]  # at first exposure
    short = from_exposures(kind(SHOWN), kind(SALES), weights=WEIGHTS, window=np.timedelta64(2, "D"))
    assert short.reward.tolist() == [1.0, 2.0, 0.0, 0.0]


def test_units_in_several_variations_are_refused_or_dropped_with_a_note():
    twice = pd.concat([SHOWN, SHOWN.iloc[[1]].assign(variation_id="new")], ignore_index=True)
    with pytest.raises(DataError, match=r"1 of 4 units saw several variations .*'v'"):
        from_exposures(twice, SALES, weights=WEIGHTS)
    log = from_exposures(twice, SALES, weights=WEIGHTS, several="drop")
    assert log.n == 3
    ev = op.evaluate(log, "always:new", estimators=["IPW"])
    assert any("1 units saw several variations" in note for note in ev["IPW"].notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": {"old": 0.7, "new": 0.2}}, "sum to 1"),
        ({"weights": {"old": 1.0}}, "have no weight"),
        ({"weights": {"old": 1.0, "new": 0.0}}, "shown with weight 0"),
        ({"experiment": "chekout"}, "Did you mean 'checkout'"),
        ({"dimensions": ["land"]}, "no such column"),
        ({"several": "ignore"}, "'raise' or 'drop'"),
        ({"unit": "userid"}, "user_id"),
    ],
)
def test_what_is_wrong_with_exposures_is_named(change, said):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((DataError, UsageError), match=said):
            from_exposures(SHOWN, SALES, **{"weights": WEIGHTS, **change})


def test_one_experiment_at_a_time():
    both = pd.concat([SHOWN, SHOWN.assign(experiment_id="banner")], ignore_index=True)
    with pytest.raises(DataError, match="2 experiments"):
        from_exposures(both, SALES, weights=WEIGHTS)
    assert from_exposures(both, SALES, weights=WEIGHTS, experiment="banner").n == 4
