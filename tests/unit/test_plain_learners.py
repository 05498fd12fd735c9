"""Learners that read numbers only, on contexts with text, categories and times."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeRegressor

import offpolicy as op
from offpolicy.models.fitting.encode import MAX_LEVELS, PlainTable
from offpolicy.models.fitting.learners import fitted

N = 1_200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "key": np.arange(N),
        "age": RNG.uniform(18, 70, N),
        "device": RNG.choice(["phone", "desktop", "tv"], N),
        "plan": pd.Categorical(RNG.choice(["free", "paid"], N)),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 90, N), "D"),
        "member": RNG.random(N) < 0.5,
        "ad": RNG.choice(["a", "b"], N),
        "p": 0.5,
    }
)
FRAME["r"] = (FRAME["ad"] == "a") * (FRAME["device"] == "tv") + 0.1 * RNG.normal(size=N)
FRAME["click"] = (FRAME["r"] > 0.5).astype(float)
ROLES = {"action": "ad", "reward": "r", "propensity": "p"}
CONTEXT = ["age", "device", "plan", "day", "member"]
TRUTH = 1 / 3


@pytest.mark.parametrize(
    "learner",
    [
        Ridge(),
        RandomForestRegressor(10),
        DecisionTreeRegressor(max_depth=4),
        HistGradientBoostingRegressor(max_iter=10),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("per_action", [False, True])
def test_text_categories_and_times_are_encoded(learner, per_action):
    log = op.BanditLog.from_frame(FRAME, context=CONTEXT, **ROLES)
    model = op.models.PerAction(learner) if per_action else learner
    ev = op.evaluate(log, {"new": "always:a"}, estimators=["DML", "DM"], reward_model=model)
    assert abs(ev["DML"].value - TRUTH) < 4 * ev["DML"].std_error
    assert ev["DML"].std_error < 0.03  # the model sees the device: without it 0.02 would be 0.04
    assert not any("text column" in note for note in ev["DML"].notes)


def test_classifiers_of_rewards_and_actions_too():
    log = op.BanditLog.from_frame(FRAME, context=CONTEXT, **{**ROLES, "reward": "click"})
    ev = op.evaluate(
        log,
        {"new": "always:a"},
        estimators=["DML"],
        reward_model=KNeighborsClassifier(5),
        behavior_model=LogisticRegression(max_iter=2_000),
    )
    assert abs(ev["DML"].value - TRUTH) < 4 * ev["DML"].std_error


def test_values_unseen_in_training_are_others():
    train = pd.DataFrame({"x": ["a", "a", "b", None]})
    table = PlainTable.learn(train, None, keeps_categories=False)
    found = table.transform(pd.DataFrame({"x": ["b", "new", None]}))
    assert found.columns.tolist() == ["x=a", "x=None", "x=b", "x=…"]
    np.testing.assert_array_equal(found, [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]])


def test_the_encoding_is_learned_from_training_rows_only():
    seen = []

    class Spy(Ridge):
        def fit(self, X, y, sample_weight=None):
            seen.append(set(X.columns))
            return super().fit(X, y, sample_weight)

    frame = FRAME.assign(device=np.where(FRAME["key"] == 0, "only once", FRAME["device"]))
    log = op.BanditLog.from_frame(frame, context=["device"], **ROLES)
    op.evaluate(log, "always:a", estimators=["DML"], reward_model=Spy())
    assert sorted("device=only once" in columns for columns in seen) == [False, True]


def test_times_are_days_and_missing_ones_stay_missing():
    frame = pd.DataFrame({"day": pd.to_datetime(["1970-01-02", None]), "flag": [True, None]})
    found = PlainTable.learn(frame, None, keeps_categories=False).transform(frame)
    np.testing.assert_array_equal(found, [[1.0, 1.0], [np.nan, np.nan]])


def test_ids_do_not_become_thousands_of_columns():
    widths = []

    class Spy(Ridge):
        def fit(self, X, y, sample_weight=None):
            widths.append(X.shape[1])
            return super().fit(X, y, sample_weight)

    frame = FRAME.assign(user=[f"user-{i}" for i in range(N)])
    roles = {"context": ["age", "user"], **ROLES}
    ev = op.evaluate(op.BanditLog.from_frame(frame, **roles), "always:a", estimators=["DML", "IPW"], reward_model=Spy())
    assert widths == [1 + MAX_LEVELS + 1 + 2] * 2
    said = f"text column 'user': Spy uses the {MAX_LEVELS} most frequent values and groups all others"
    assert said in ev["DML"].notes
    assert said not in ev["IPW"].notes
    with op.scan(frame, **roles, id="key", way="stream", chunk_rows=500) as log:
        assert said in op.evaluate(log, "always:a", reward_model=Ridge())["DML"].notes[0].replace("Ridge", "Spy")


@pytest.mark.parametrize("way", ["rows", "stream"])
def test_the_answer_is_that_of_the_frame(way):
    roles = {"context": ["age", "device"], **ROLES}
    settings = {"estimators": ["DML", "DM"], "reward_model": Ridge()}
    log = op.BanditLog.from_frame(FRAME, **roles, id="key")
    wanted = op.evaluate(log, "always:a", **settings)
    with op.scan(FRAME, **roles, id="key", way=way, chunk_rows=500) as scanned:
        found = op.evaluate(scanned, "always:a", **settings)
    for name in ("DML", "DM"):
        assert found[name].value == pytest.approx(wanted[name].value, rel=1e-9)


def test_counts_decide_what_is_frequent():
    frame = pd.DataFrame({"x": [f"v{i:03d}" for i in range(MAX_LEVELS + 1)]})
    weight = np.arange(1.0, MAX_LEVELS + 2)
    table = PlainTable.learn(frame, weight, keeps_categories=False)
    assert "v000" not in table.levels["x"].codes
    assert table.levels["x"].codes["v050"] == 0


def test_a_warm_start_goes_on_from_the_same_columns():
    episodes, steps = 60, 3
    rows = {
        "e": np.repeat(np.arange(episodes), steps),
        "t": np.tile(np.arange(steps), episodes),
        "where": RNG.choice(["left", "right"], episodes * steps),
        "x": RNG.normal(size=episodes * steps),
        "a": RNG.integers(2, size=episodes * steps),
        "r": RNG.random(episodes * steps),
    }
    log = op.Trajectories.from_frame(
        pd.DataFrame(rows).assign(p=0.5),
        episode="e",
        step="t",
        state=["where", "x"],
        action="a",
        reward="r",
        propensity="p",
    )
    net = MLPRegressor(hidden_layer_sizes=(4,), max_iter=30, warm_start=True, early_stopping=False, tol=1.0)
    ev = op.evaluate(log, {0: 0.5, 1: 0.5}, estimators=["DML"], value_model=op.FittedQ(net))
    assert np.isfinite(ev["DML"].value)


def test_what_no_learner_can_use_is_named():
    frame = pd.DataFrame({"x": [[1], [2]]})
    with pytest.raises(op.errors.ModelError, match="context 'x' holds values such as"):
        fitted(Ridge(), frame, np.zeros(2), None, 0)
