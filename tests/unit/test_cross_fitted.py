"""Learners in place of policies: refitted out of fold, and valued on rows that they did not see."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import offpolicy as op
from offpolicy.decide.learn import PolicyLearner
from offpolicy.errors import PolicyError, UsageError
from offpolicy.policies import CrossFitted

N = 600
ROLES = {"context": ["x", "z"], "action": "a", "reward": "r", "propensity": "p"}


def frame(seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"x": rng.normal(size=N), "z": rng.normal(size=N)})
    made["a"], made["p"] = rng.integers(2, size=N), 0.5
    made["r"] = np.where(made["x"] > 0, made["a"], 1 - made["a"]) + noise * rng.normal(size=N)
    return made


def log(**changes):
    return op.BanditLog.from_frame(frame(), **{**ROLES, **changes})


def test_the_policy_of_a_fold_is_fitted_on_the_other_rows():
    ev = op.evaluate(log(), make_pipeline(StandardScaler(), LinearRegression()), estimators=["IPW"])
    fold, df = ev.problem.folds.labels[0], frame()
    choice = np.empty(N, dtype=int)
    for k in range(2):
        train, score = df[fold != k], df[fold == k]
        wide = np.c_[train[["x", "z"]], train["a"] == 0, train["a"] == 1]
        model = make_pipeline(StandardScaler(), LinearRegression()).fit(wide, train["r"])
        ask = [np.c_[score[["x", "z"]], np.full(len(score), a == 0), np.full(len(score), a == 1)] for a in (0, 1)]
        choice[fold == k] = np.column_stack([model.predict(each) for each in ask]).argmax(1)
    np.testing.assert_array_equal(ev.targets["policy"].codes, choice)
    by_hand = np.mean((df["a"] == choice) / 0.5 * df["r"])
    assert ev["IPW"].value == pytest.approx(by_hand)
    assert "fitted out of fold" in str(ev)


def test_a_learner_that_remembers_its_rows_earns_nothing_where_there_is_nothing_to_learn():
    rng = np.random.default_rng(1)
    x, a, r = rng.normal(size=(N, 2)), rng.integers(2, size=N), rng.normal(size=N)
    noise = op.BanditLog.from_arrays(x, a, r, np.full(N, 0.5))
    near = op.models.PerAction(KNeighborsRegressor(1))
    ev = op.evaluate(noise, CrossFitted(near), estimators=["IPW", "DML"], reward_model=LinearRegression())
    assert ev["IPW"].interval().covers(0.0)
    best = [KNeighborsRegressor(1).fit(x[a == k], r[a == k]).predict(x) for k in (0, 1)]
    seen = op.evaluate(noise, {"seen": np.argmax(best, axis=0)}, estimators=["IPW"])
    assert not seen["IPW"].interval().covers(0.0)


def test_draws_of_the_folds_are_mixed():
    once = op.evaluate(log(), LinearRegression(), estimators=["IPW"], repeats=3)
    draws = once.problem.folds.labels
    each = [op.evaluate(log(), LinearRegression(), estimators=["IPW"], folds=label) for label in draws]
    mixed = np.mean([ev.targets["policy"].probabilities(np.arange(N)) for ev in each], axis=0)
    np.testing.assert_allclose(once.targets["policy"].probabilities(np.arange(N)), mixed)
    assert once["IPW"].value == pytest.approx(np.mean([ev["IPW"].value for ev in each]))


def test_no_cluster_teaches_its_own_policy():
    df = frame().assign(user=np.arange(N) // 4)
    clustered = op.BanditLog.from_frame(df, **ROLES, cluster="user")
    seen = []

    def learn(part):
        seen.append(set(part.source["user"]))
        return "always:1"

    ev = op.evaluate(clustered, CrossFitted(learn), estimators=["IPW"], folds=3)
    fold = ev.problem.folds.labels[0]
    assert [users & set(df["user"][fold == k]) for k, users in enumerate(seen)] == [set()] * 3


class Learner:
    def fit(self, log):
        self.best = int(np.argmax([log.reward[log.action == k].mean() for k in (0, 1)]))
        return self

    def probabilities(self, context):
        return np.tile(np.eye(2)[self.best], (len(context), 1))


@pytest.mark.parametrize(
    "learner",
    [
        Learner(),
        lambda part: lambda context: (context["x"] > 0).astype(int),
        lambda part: {0: 0.3, 1: 0.7},
        PolicyLearner(log(), max_depth=1, reward_model=LinearRegression()),
    ],
)
def test_learners_of_policies(learner):
    ev = op.evaluate(log(), {"new": CrossFitted(learner)}, estimators=["IPW"])
    assert ev["new", "IPW"].is_defined
    assert not hasattr(learner, "best")


def test_a_learner_of_policies_that_is_not_fitted_is_refitted_too():
    learner = PolicyLearner(log(), max_depth=1, reward_model=LinearRegression())
    ev = op.evaluate(log(), learner, estimators=["IPW"])
    takes_one = ev.targets["policy"].probabilities(np.arange(N))[:, 1] > 0.5
    assert np.mean(takes_one == (frame()["x"] > 0)) > 0.98


def test_less_is_better_where_it_is():
    ev = op.evaluate(log(), LinearRegression(), estimators=["IPW"])
    cost = op.evaluate(log(), LinearRegression(), estimators=["IPW"], minimize=True)
    assert (ev.targets["policy"].codes == 1 - cost.targets["policy"].codes).all()
    added = cost.add({"more": CrossFitted(LinearRegression())})
    assert added["more", "IPW"].value == cost["policy", "IPW"].value


def test_only_eligible_actions_are_chosen():
    rng = np.random.default_rng(0)
    eligible = np.column_stack([np.ones(N, dtype=bool), rng.random(N) < 0.5])
    df = frame()
    a = np.where(eligible[:, 1], df["a"], 0)
    some = op.BanditLog.from_arrays(
        df[["x", "z"]].to_numpy(), a, df["r"], np.where(eligible[:, 1], 0.5, 1.0), eligible=eligible
    )
    ev = op.evaluate(some, LinearRegression(), estimators=["IPW"])
    assert eligible[np.arange(N), ev.targets["policy"].codes].all()


def test_on_a_path_that_holds_rows_the_answer_is_the_same(tmp_path):
    frame().to_parquet(tmp_path / "log.parquet")
    path, settings = (str(tmp_path / "log.parquet"), {"estimators": ["DML"], "reward_model": LinearRegression()})
    here = op.evaluate(log(), LinearRegression(), **settings)["DML"]
    with op.scan(path, way="rows", **ROLES) as scan:
        assert op.evaluate(scan, LinearRegression(), **settings)["DML"].value == pytest.approx(here.value)
    with op.scan(path, way="stream", **ROLES) as scan, pytest.raises(PolicyError, match="way='rows'"):
        op.evaluate(scan, LinearRegression(), **settings)


def test_what_cannot_be_refitted_says_so():
    with pytest.raises(UsageError, match="takes an instance"):
        CrossFitted(LinearRegression)
    with pytest.raises(PolicyError, match="policy 'p': CrossFitted takes a model of the reward"):
        op.evaluate(log(), {"p": CrossFitted(3)}, estimators=["IPW"])
    prices = op.BanditLog.from_arrays(None, np.linspace(0, 1, 50), np.ones(50), np.ones(50), action_kind="continuous")
    with pytest.raises(PolicyError, match="not a policy over numbers"):
        op.evaluate(prices, {"p": CrossFitted(LinearRegression())}, estimators=["IPW"])
    episodes = op.Trajectories.from_arrays([[0, 0]] * 9, [[0, 1]] * 9, [[1.0, 0.0]] * 9, propensities=[[0.5] * 2] * 9)
    with pytest.raises(PolicyError, match="only for single decisions among labels"):
        op.evaluate(episodes, LinearRegression(), estimators=["IPW"])


def test_a_fitted_classifier_is_drawn_from_and_says_so():
    df = frame()
    model = HistGradientBoostingClassifier(max_iter=5).fit(df[["x", "z"]], (df["x"] > 0) * 1)
    ev = op.evaluate(log(), {"drawn": model, "best": model.predict}, estimators=["IPW"])
    assert "drawn: actions are drawn from predict_proba; for its single best action pass model.predict" in str(ev)
    assert "best: actions" not in str(ev)
