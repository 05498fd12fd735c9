"""Context columns of any dtype reach policies and learners with their names."""

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from offpolicy import BanditLog, evaluate
from offpolicy.errors import DataError
from offpolicy.logs.frame import Columns, Context, as_features
from offpolicy.models import PerAction

N = 240
KINDS = {"pandas": lambda df: df, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
CONTEXT = ["age", "device", "member", "when", "plan", "income", "city", "seen", "visits", "mail"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    missing = rng.random(N) < 0.2
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "h")
    df = pd.DataFrame(
        {
            "age": rng.normal(40, 10, size=N),
            "device": rng.choice(["phone", "desk", "tablet"], N),
            "member": rng.random(N) < 0.5,
            "when": when,
            "plan": pd.Categorical(rng.choice(["free", "paid"], N)),
            "income": np.where(missing, np.nan, rng.normal(size=N)),
            "city": pd.Series(rng.choice(["Oslo", "Kyoto"], N)).where(~missing),
            "seen": pd.Series(when).where(~missing),
            "visits": pd.array(np.where(missing, None, 3), dtype="Int64"),
            "mail": pd.array(np.where(missing, None, True), dtype="boolean"),
            "ad": rng.choice(["x", "y", "z"], N),
            "p": 1 / 3,
        }
    )
    df["click"] = (rng.random(N) < 0.3 + 0.3 * (df.device == "phone") * (df.ad == "x")) * 1.0
    return df


def log_of(frame, **roles):
    base = {"context": CONTEXT, "action": "ad", "reward": "click", "propensity": "p"}
    return BanditLog.from_frame(frame, **{**base, **roles})


def dml(log, **models):
    policy = np.tile([1.0, 0.0, 0.0], (N, 1))
    return evaluate(log, policy, estimators=["DML"], **models)["policy", "DML"]


def hours(frame):
    return (frame - pd.Timestamp("2024-01-01")) / pd.Timedelta("100h")


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps what it was given."""

    seen: ClassVar[list[pd.DataFrame]] = []

    def fit(self, X, y):
        self.seen.append(X)
        return self

    def predict(self, X):
        self.seen.append(X)
        return np.zeros(len(X))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_names_and_dtypes_reach_the_learner(table, kind):
    Recorder.seen.clear()
    dml(log_of(KINDS[kind](table)), reward_model=Recorder())
    assert len(Recorder.seen) >= 4
    for X in Recorder.seen:
        assert list(X.columns) == [*CONTEXT, "ad"]
        kinds = {c: X[c].dtype.kind for c in ("age", "member", "when", "income", "seen")}
        assert kinds == {"age": "f", "member": "b", "when": "M", "income": "f", "seen": "M"}
        assert list(X["ad"].cat.categories) == ["x", "y", "z"]
        assert set(X["plan"].cat.categories) == {"free", "paid"}
        assert set(X["device"].unique()) <= {"phone", "desk", "tablet"}
        assert X["city"].isna().any()


def by_name(learner):
    columns = ColumnTransformer(
        [
            ("number", StandardScaler(), ["age"]),
            ("gaps", SimpleImputer(add_indicator=True), ["income"]),
            ("flag", "passthrough", ["member"]),
            ("time", FunctionTransformer(hours), ["when"]),
            ("text", OneHotEncoder(handle_unknown="ignore"), ["device", "plan", "city", "ad"]),
        ]
    )
    return make_pipeline(columns, learner)


def boosted(kind):
    return kind(n_estimators=8, num_leaves=4, verbosity=-1, n_jobs=1)


MODELS = {
    "auto": {},
    "by name": {"reward_model": by_name(Ridge())},
    "classes by name": {"reward_model": by_name(LogisticRegression())},
    "trees": {"reward_model": boosted(LGBMRegressor)},
    "tree classes": {"reward_model": boosted(LGBMClassifier)},
    "trees per action": {"reward_model": PerAction(boosted(LGBMRegressor))},
}


@pytest.mark.parametrize("models", MODELS.values(), ids=MODELS.keys())
def test_every_dtype_reaches_the_learner_from_every_library(table, models):
    values = [dml(log_of(convert(table)), **models) for convert in KINDS.values()]
    for other in values[1:]:
        assert other.value == pytest.approx(values[0].value, abs=1e-6)
        assert other.std_error == pytest.approx(values[0].std_error, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [None, boosted(LGBMClassifier)], ids=["auto", "trees"])
def test_behavior_models_read_every_dtype(table, kind, model):
    e = dml(log_of(KINDS[kind](table), propensity=None), behavior_model=model)
    assert e.value == pytest.approx(table.click[table.ad == "x"].mean(), abs=5 * e.std_error)


def test_a_behavior_pipeline_by_name(table):
    columns = ColumnTransformer([("text", OneHotEncoder(), ["device"])])
    e = dml(log_of(table, propensity=None), behavior_model=make_pipeline(columns, LogisticRegression()))
    assert np.isfinite(e.std_error)


def test_learners_that_read_numbers_get_one_column_per_action(table):
    log = log_of(table, context=["age", "member"])
    labels = np.arange(N) % 2
    mine = dml(log, reward_model=LinearRegression(), folds=labels)
    X = np.column_stack([table.age, table.member, *(table.ad == a for a in "xyz")]).astype(float)
    as_x = np.column_stack([table.age, table.member, np.ones(N), np.zeros((N, 2))]).astype(float)
    psi = np.empty(N)
    for k in (0, 1):
        model = LinearRegression().fit(X[labels != k], table.click[labels != k])
        at = labels == k
        ratio = 3.0 * (table.ad[at] == "x")
        psi[at] = ratio * (table.click[at] - model.predict(X[at])) + model.predict(as_x[at])
    assert mine.value == pytest.approx(psi.mean(), abs=1e-10)


def test_text_is_encoded_for_learners_that_read_numbers(table):
    labels = np.arange(N) % 2
    mine = dml(log_of(table, context=["device"]), reward_model=LinearRegression(), folds=labels)
    coded = table.assign(**{f"is {d}": (table.device == d) * 1.0 for d in table.device.unique()})
    names = [c for c in coded if c.startswith("is ")]
    assert mine.value == pytest.approx(
        dml(log_of(coded, context=names), reward_model=LinearRegression(), folds=labels).value
    )


@pytest.mark.parametrize("kind", KINDS)
def test_policies_get_the_kind_of_frame_that_came_in(table, kind):
    frame = KINDS[kind](table)
    seen = []

    def policy(rows):
        seen.append(type(rows))
        device = rows["device"]
        values = device.to_pylist() if kind == "pyarrow" else list(device)
        return np.where(np.array(values) == "phone", "x", "y")

    e = evaluate(log_of(frame), policy, estimators=["IPW"])["IPW"]
    match = table.ad == np.where(table.device == "phone", "x", "y")
    assert set(seen) == {type(frame)}
    assert e.value == pytest.approx((3 * match * table.click).mean(), abs=1e-12)


def test_integer_and_text_ids_are_one_hot_and_images_flat():
    assert as_features(np.array([4, 9, 4])).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert as_features(np.array(["u", "v", "u"])).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert as_features(np.array([0.5, 1.5])).tolist() == [[0.5], [1.5]]
    assert as_features(np.zeros((2, 3, 4))).shape == (2, 12)


def test_column_names_must_be_text(table):
    with pytest.raises(DataError, match="column name"):
        Columns(table).require(3, "action")


def test_rows_of_a_context_map_through_its_index():
    context = Context(np.array([[1.0], [2.0]]), np.array([1, 0, 1]))
    assert len(context) == 3
    assert context.native(context.positions(np.array([0, 2]))).tolist() == [[2.0], [2.0]]
