"""Value models: each family of the paper on the linear-Gaussian chain, fitted inside training folds only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

import offpolicy as op
from offpolicy.errors import ModelError, UsageError
from offpolicy.models.values.model_based import crossed
from offpolicy_studies.tabular.chain import Chain
from offpolicy_studies.tabular.mdp import random_mdp

CHAIN = Chain(horizon=4)


@pytest.fixture(scope="module")
def log():
    return CHAIN.simulate(400, np.random.default_rng(0))


def network(inputs=2, outputs=2):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.ELU(), torch.nn.Linear(16, outputs))


def lightgbm(**options):
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=40, num_leaves=7, verbose=-1, n_jobs=1, **options)


QUICK = op.models.Training(epochs=15, patience=3, learning_rate=0.01, batch_size=128, device="cpu")
FAMILIES = {
    "kernel": KernelRidge(kernel="rbf", alpha=1.0, gamma=0.3),
    "nystroem": make_pipeline(Nystroem(gamma=0.3, n_components=30, random_state=0), Ridge(1.0)),
    "series": op.models.PerAction(make_pipeline(SplineTransformer(5), Ridge(1.0))),
    "polynomial": make_pipeline(PolynomialFeatures(3), Ridge(1.0)),
    "forest": RandomForestRegressor(20, min_samples_leaf=10),
    "lasso": make_pipeline(PolynomialFeatures(2), Lasso(0.01)),
    "net": MLPRegressor(hidden_layer_sizes=(16,), learning_rate_init=0.01, max_iter=2000, warm_start=True),
    "net, early stopping": MLPRegressor(
        hidden_layer_sizes=(16,), learning_rate_init=0.02, max_iter=2000, warm_start=True, early_stopping=True
    ),
    "boosted": op.FittedQ(lightgbm()),
    "boosted, t as a feature": op.FittedQ(lightgbm(), time="feature"),
    "pooled": op.FittedQ(op.models.PerAction(make_pipeline(PolynomialFeatures(2), Ridge())), time="pooled"),
    "neighbors": op.models.ModelBased(neighbors=15),
    "simulated": op.models.ModelBased(method="simulation", draws=5),
    "torch": op.models.TorchValue(network(), training=QUICK),
    "balanced": op.models.BalancedModel(draws=2, training=QUICK),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_lowers_the_error_of_weighting(log, name):
    names = ["DML", "IPW", "DM-cf"]
    ev = op.evaluate(log, CHAIN.target, estimators=names, value_model=FAMILIES[name], seed=1)
    truth = CHAIN.value()
    assert abs(ev["DML"].value - truth) < 4 * ev["DML"].std_error
    assert ev["DML"].std_error < 1.05 * ev["IPW"].std_error
    # A model that learned nothing would give the logged value, 0.6 below.
    assert abs(ev["DM-cf"].value - truth) < 0.45
    again = op.evaluate(log, CHAIN.target, estimators=["DML"], value_model=FAMILIES[name], seed=1)
    assert again["DML"].value == ev["DML"].value


class Spy(RegressorMixin, BaseEstimator):
    """Remembers which rows it was shown."""

    def __init__(self, store=None):
        self.store = store

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        self.store.append(np.asarray(X)[:, 0].copy())
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_values_are_fitted_inside_the_training_folds(log):
    seen: list[np.ndarray] = []
    folds = np.arange(log.n) % 2
    op.evaluate(log, CHAIN.target, estimators=["DML"], value_model=op.FittedQ(Spy(seen)), folds=folds)
    states = np.asarray(log.context.table)[:, 0]
    unit, step = log.layout.unit, log.layout.step
    assert len(seen) == 2 * log.horizon
    for number, shown in enumerate(seen):
        fold, t = number // log.horizon, log.horizon - 1 - number % log.horizon
        expected = states[(folds[unit] != fold) & (step == t)]
        np.testing.assert_array_equal(shown, expected)


def test_training_rewards_do_not_move_with_the_scored_fold():
    world, pi_e, pi_b = random_mdp()
    log = world.simulate(pi_b, 40, np.random.default_rng(0))
    folds = np.arange(40) % 2
    changed = op.Trajectories.from_arrays(
        log.context.table[log.context.index],
        log.action,
        np.where(folds[log.layout.unit] == 0, 100.0, log.reward),
        np.full(40, 11),
        log.propensity,
        labels=range(3),
    )
    for model in (op.Tabular(), op.Tabular(time="step", smoothing=1.0), op.FittedQ(Ridge())):
        values = []
        for data in (log, changed):
            ev = op.evaluate(data, lambda s: pi_e[s], estimators=["DML", "DRL"], value_model=model, folds=folds)
            d = ev.problem.decisions(ev.targets["policy"], ev.estimators[1])
            rows = folds[log.layout.unit] == 0
            values.append((d.q[rows], d.v[rows], d.marginal[rows]))
        for a, b in zip(*values, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_saturated_regression_is_the_time_indexed_table():
    world, pi_e, pi_b = random_mdp(n_states=3, n_actions=2, horizon=4, seed=1)
    log = world.simulate(pi_b, 300, np.random.default_rng(0))
    crossed_cells = make_pipeline(PolynomialFeatures(2, interaction_only=True), LinearRegression(fit_intercept=False))
    a = op.evaluate(log, lambda s: pi_e[s], estimators=["DML"], value_model=op.Tabular(time="step"))
    b = op.evaluate(log, lambda s: pi_e[s], estimators=["DML"], value_model=op.FittedQ(crossed_cells))
    assert a["DML"].value == pytest.approx(b["DML"].value, abs=1e-8)


def test_pooled_tables_agree_with_the_truth_in_a_large_log():
    world, pi_e, pi_b = random_mdp(n_states=4, n_actions=2, horizon=5)
    log = world.simulate(pi_b, 40_000, np.random.default_rng(0))
    q, _ = world.values(pi_e)
    t, s = log.layout.step, log.context.table[log.context.index]
    for model in (op.Tabular(), op.Tabular(time="step"), op.models.ModelBased()):
        ev = op.evaluate(log, lambda s: pi_e[s], estimators=["DM"], value_model=model)
        d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
        assert np.abs(d.q - q[t, s, log.action]).max() < 0.1


def test_sparse_and_dense_transitions_agree(monkeypatch):
    world, pi_e, pi_b = random_mdp()
    log = world.simulate(pi_b, 100, np.random.default_rng(0))
    names = ["DML", "DM", "DRL"]
    for smoothing in (0.0, 2.0):
        dense = op.evaluate(log, lambda s: pi_e[s], estimators=names, value_model=op.Tabular(smoothing=smoothing))
        monkeypatch.setattr("offpolicy.models.values.tabular.DENSE_CELLS", 0)
        sparse = op.evaluate(log, lambda s: pi_e[s], estimators=names, value_model=op.Tabular(smoothing=smoothing))
        monkeypatch.undo()
        for name in names:
            assert sparse[name].value == pytest.approx(dense[name].value, abs=1e-10)


def test_behavior_shares_are_taken_state_by_state():
    world, pi_e, pi_b = random_mdp(n_states=3, n_actions=2, horizon=4)
    log = world.simulate(pi_b, 2000, np.random.default_rng(0), propensities=False)
    s = log.context.table[log.context.index]
    for model in ("shares", None, op.models.StateShares(time="step"), op.models.StateShares(0.0)):
        ev = op.evaluate(log, lambda s: pi_e[s], estimators=["IPW"], behavior_model=model)
        p = ev.problem.behavior("full", 0).probability
        assert np.abs(p - pi_b[s, log.action]).max() < 0.08
    count = np.array([[np.sum((s == i) & (log.action == a)) for a in (0, 1)] for i in range(3)])
    ev = op.evaluate(log, lambda s: pi_e[s], estimators=["IPW"], behavior_model=op.models.StateShares(1.0))
    overall = count.sum(axis=0) / count.sum()
    expected = (count + overall) / (count.sum(axis=1, keepdims=True) + 1)  # one step of the overall shares
    np.testing.assert_allclose(ev.problem.behavior("full", 0).probability, expected[s, log.action])


def test_behavior_by_torch_and_with_time(log):
    from sklearn.linear_model import LogisticRegression

    unknown = op.Trajectories.from_arrays(
        np.asarray(log.context.table), log.action, log.reward, np.diff(log.layout.offsets)
    )
    torch.manual_seed(0)  # of the module's first weights
    net = op.models.TorchBehavior(torch.nn.Linear(1, 2), training=op.models.Training(epochs=60, learning_rate=0.01))
    for model in (net, LogisticRegression(), op.models.TimedBehavior(LogisticRegression())):
        ev = op.evaluate(unknown, CHAIN.target, estimators=["IPW"], behavior_model=model)
        p = ev.problem.behavior("full", 0).probability
        assert np.abs(p - log.propensity).mean() < 0.05


def test_given_arrays_by_policy():
    world, pi_e, pi_b = random_mdp(n_states=3, n_actions=2, horizon=3)
    log = world.simulate(pi_b, 50, np.random.default_rng(0))
    q_e, q_b = (world.values(pi)[0] for pi in (pi_e, pi_b))
    t, s = log.layout.step, log.context.table[log.context.index]
    policies = {"e": pi_e[s], "b": pi_b[s]}
    ev = op.evaluate(log, policies, estimators=["DML"], value_model={"e": q_e[t, s], "b": q_b[t, s]})
    one = op.evaluate(log, {"e": pi_e[s]}, estimators=["DML"], value_model=q_e[t, s])
    assert ev["e", "DML"].value == one["e", "DML"].value
    with pytest.raises(ModelError, match="no array for policy 'b'"):
        op.evaluate(log, policies, estimators=["DML"], value_model={"e": q_e[t, s]})


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (op.Tabular(), ModelError, "needs discrete states"),
        (object(), ModelError, "value_model= must be"),
        (np.zeros((3, 2)), ModelError, "must have shape"),
        (op.models.TorchValue(torch.nn.Linear(1, 2)), Exception, "shapes|size|mat"),
        (op.models.TorchValue(torch.nn.Linear(2, 5), training=QUICK), ModelError, "the network returned"),
    ],
)
def test_models_that_cannot_be(log, model, error, message):
    with pytest.raises(error, match=message):
        op.evaluate(log, CHAIN.target, estimators=["DML"], value_model=model)


def test_arguments_that_cannot_be(log):
    for make in (
        lambda: op.Tabular(time="never"),
        lambda: op.Tabular(smoothing=-1),
        lambda: op.FittedQ(time="never"),
        lambda: op.models.ModelBased(neighbors=0),
        lambda: op.models.MarginalRatio("never"),
        lambda: op.models.MarginalRatio(learner=3),
        lambda: op.models.Training(validation=1.5),
        lambda: op.models.TorchValue(None, time="never"),
    ):
        with pytest.raises(UsageError):
            make()
    with pytest.raises(ModelError, match="function of the state"):
        op.evaluate(
            log, np.full((log.rows, 2), 0.5), estimators=["DM"], value_model=op.models.ModelBased(method="simulation")
        )
    timed = lambda s, t: np.full((len(s), 2), 0.5)  # noqa: E731
    for model in (op.models.ModelBased(), op.FittedQ(Ridge(), time="pooled")):
        with pytest.raises(ModelError, match="time-dependent"):
            op.evaluate(log, timed, estimators=["DM"], value_model=model)


def test_interactions():
    got = crossed(np.array([[2.0], [3.0]]), np.array([0, 1]), 2)
    assert got.tolist() == [[2, 1, 0, 2, 0], [3, 0, 1, 0, 3]]
