"""What a fit depends on: its seed follows from its kind and training part, its weights from the log, nothing else."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.models.fitting.store import BEHAVIOR, MRDR, RATIO, REWARD, seed_of

N = 60
KEYS = {
    (REWARD, "full"): ("full",),
    (REWARD, "half"): ("half", 1),
    (REWARD, "fold"): ("fold", 0, 1),
    (BEHAVIOR, "full"): ("full",),
    (BEHAVIOR, "fold"): ("fold", 0, 1),
    (MRDR, "fold"): ("fold", 0, 1),
    (RATIO, "fold"): ("fold", 2, 0),
}
PINNED = {
    (REWARD, "full"): 582607262,
    (REWARD, "half"): 919680490,
    (REWARD, "fold"): 2068069810,
    (BEHAVIOR, "full"): 1060258595,
    (BEHAVIOR, "fold"): 1864086400,
    (MRDR, "fold"): 3811324213,
    (RATIO, "fold"): 3461390278,
}


@pytest.mark.parametrize(("kind", "part"), KEYS)
def test_the_seed_of_a_fit_is_pinned(kind, part):
    assert seed_of(7, kind, KEYS[kind, part]) == PINNED[kind, part]


SEEDS = []


class Regressor(RegressorMixin, BaseEstimator):
    """Records the seed it was given; has no sample_weight."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        SEEDS.append((REWARD, self.random_state))
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class Classifier(ClassifierMixin, BaseEstimator):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        SEEDS.append((BEHAVIOR, self.random_state))
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        return np.tile(self.shares_, (len(X), 1))


@pytest.fixture(autouse=True)
def _nothing_recorded():
    SEEDS.clear()


def log(**more):
    rng = np.random.default_rng(0)
    return op.BanditLog.from_arrays(rng.normal(size=(N, 2)), rng.integers(2, size=N), rng.normal(size=N), **more)


def expected(repeats=1):
    parts = [("full",), *(("fold", r, k) for r in range(repeats) for k in range(2))]
    return {(kind, seed_of(7, kind, part)) for kind in (REWARD, BEHAVIOR) for part in parts}


@pytest.mark.parametrize("repeats", [1, 2])
def test_learners_are_seeded_by_their_kind_and_training_part(repeats):
    op.evaluate(
        log(),
        {"new": op.policies.Uniform(), "old": op.policies.Fixed(1)},
        estimators=["DML", "DR-half", "DR-full"],
        reward_model=Regressor(),
        behavior_model=Classifier(),
        seed=7,
        repeats=repeats,
    )
    # With two folds the half-sample fits are those of the first fold; learners draw their own seeds from a fit's.
    assert len(SEEDS) == len(set(SEEDS)) == 2 * (1 + 2 * repeats)
    assert {seed for _, seed in SEEDS} == {seed for _, seed in expected(repeats)}


def test_another_metric_model_or_policy_does_not_reseed_a_fit():
    rng = np.random.default_rng(1)
    rewards = {"click": rng.normal(size=N), "cost": rng.normal(size=N)}
    many = op.BanditLog.from_arrays(rng.normal(size=N), rng.integers(2, size=N), rewards)
    ev = op.evaluate(
        many,
        op.policies.Uniform(),
        estimators=["DML"],
        reward_model={"click": Regressor(), "cost": Regressor()},
        behavior_model=Classifier(),
        seed=7,
    )
    first = {seed for kind, seed in SEEDS if kind == REWARD}
    SEEDS.clear()
    ev.metric("cost")
    assert {seed for _, seed in SEEDS} == first
    SEEDS.clear()
    ev.add({"other": op.policies.Fixed(0)})
    assert SEEDS == []


def test_a_learner_without_sample_weight_fits_a_plain_log_and_not_a_weighted_one():
    given = {"estimators": ["DML"], "reward_model": Regressor()}
    plain = log(propensity=np.full(N, 0.5))
    assert np.isfinite(op.evaluate(plain, op.policies.Uniform(), **given)["DML"].value)
    weighted = log(propensity=np.full(N, 0.5), weight=np.linspace(1, 2, N))
    with pytest.raises(op.errors.OffPolicyError, match="sample_weight"):
        op.evaluate(weighted, op.policies.Uniform(), **given)


def test_value_models_of_episodes_get_no_weights_from_a_plain_log():
    rng = np.random.default_rng(2)
    states = rng.normal(size=(40, 3, 1))
    actions, rewards = rng.integers(2, size=(40, 3)), rng.normal(size=(40, 3))
    episodes = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((40, 3), 0.5))
    ev = op.evaluate(episodes, op.policies.Uniform(), estimators=["DML"], value_model=op.FittedQ(Regressor()))
    assert np.isfinite(ev["DML"].value)


class Weighted(LinearRegression):
    """Records whether weights came."""

    def fit(self, X, y, sample_weight=None):
        SEEDS.append((REWARD, sample_weight is None))
        return super().fit(X, y, sample_weight)


def test_weights_are_passed_where_they_are_not_uniform_only():
    for weight, none in ((None, True), (np.linspace(1, 2, N), False)):
        SEEDS.clear()
        made = log(propensity=np.full(N, 0.5), weight=weight)
        op.evaluate(made, op.policies.Uniform(), estimators=["DML"], reward_model=Weighted())
        assert {found for _, found in SEEDS} == {none}


def test_the_ids_of_clusters_are_sorted_once(monkeypatch):
    from offpolicy.inference.score_table import Units

    units = Units(6, cluster=np.array([5, 3, 5, 1, 3, 1]) * 10**9)  # small ids are not sorted at all
    before, calls = np.unique, []

    def counted(values, *rest, **more):
        calls.append(len(values))
        return before(values, *rest, **more)

    monkeypatch.setattr(np, "unique", counted)
    for psi in (np.arange(6.0), np.ones(6)):
        assert len(units.sample(psi).numerator) == 3
    assert calls == [6]
