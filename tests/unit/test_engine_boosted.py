"""LightGBM on weighted cells and on grids: the same trees as on rows, the same numbers as its own predict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.models.fitting.encode import Encoded
from offpolicy.models.rewards.boosted import PARAMETERS, BoostedReward
from offpolicy.models.rewards.reward import RewardData
from offpolicy.models.rewards.tree_grid import TreeGrid

lgb = pytest.importorskip("lightgbm")


def world(n, seed, *, n_actions=6, binary=True):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [np.minimum(rng.zipf(1.6, n) - 1, 11), rng.integers(0, 3, n), rng.integers(0, 40, n) / 8]
    ).astype(float)
    action = rng.integers(0, n_actions, n)
    mean = 1 / (1 + np.exp(-(X[:, 0] % 4 - 2 + np.sin(action) * X[:, 1] - (X[:, 2] > 2))))
    reward = (rng.random(n) < mean).astype(float)
    return X, action, reward if binary else 3 * reward - 1


def fit(X, action, reward, weight, grid, categorical=(0, 1), rounds=25):
    data = RewardData(Encoded(X, categorical), action, reward, weight, tuple(range(6)), "arm")
    return BoostedReward(rounds=rounds, validation=0, threads=1, grid=(grid,)).fit_reward(data, 0)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("categorical", [(), (0, 1)])
def test_cells_are_fitted_as_their_rows(binary, categorical):
    X, action, reward = world(20_000, 0, binary=binary)
    rows = np.column_stack([X, action, reward])
    cells, count = np.unique(rows, axis=0, return_counts=True)
    assert len(cells) < 0.7 * len(rows)
    # One level against the rest: the only splits of categories whose rules LightGBM does not count.
    one = {"max_cat_to_onehot": 100}
    # Gradients are 32-bit numbers inside LightGBM, so after many rounds a near-tie between two splits
    # may fall either way.
    whole = fit(X, action, reward, None, one, categorical, 5)
    codes, weight = cells[:, 3].astype(int), count.astype(float)
    short = fit(cells[:, :3], codes, cells[:, 4], weight, one, categorical, 5)
    asked = np.unique(rows[:, :4], axis=0)
    seen = Encoded(asked[:, :3], categorical), asked[:, 3].astype(int)
    assert short.predict(*seen) == pytest.approx(whole.predict(*seen), abs=1e-7)


def test_what_remains_with_many_levels_is_small():
    """Splits into groups of levels count cells where they would count rows: other trees, as good."""
    X, action, reward = world(40_000, 1)
    rows = np.column_stack([X, action, reward])
    cells, count = np.unique(rows, axis=0, return_counts=True)
    whole = fit(X, action, reward, None, {})
    short = fit(cells[:, :3], cells[:, 3].astype(int), cells[:, 4], count.astype(float), {})
    X, action, reward = world(40_000, 2)
    errors = [np.mean((reward - model.predict(Encoded(X, (0, 1)), action)) ** 2) for model in (whole, short)]
    assert errors[1] == pytest.approx(errors[0], rel=0.005)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), binary=st.booleans(), missing=st.booleans(), leaves=st.sampled_from([2, 7, 31]))
def test_a_grid_is_lightgbm_to_the_last_bit(seed, binary, missing, leaves):
    X, action, reward = world(800, seed, binary=binary)
    rng = np.random.default_rng(seed)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    matrix = np.column_stack([X, action])
    parameters = {
        **PARAMETERS,
        "objective": "binary" if binary else "regression",
        "num_leaves": leaves,
        "min_sum_hessian_in_leaf": 1e-3,
        "num_threads": 1,
    }
    data = lgb.Dataset(matrix, reward, categorical_feature=[0, 1, 3], params=parameters)
    booster = lgb.train(parameters, data, 12)
    asked = world(60, seed + 1)[0]
    asked[rng.random(asked.shape) < 0.1] = np.nan
    asked[0] = [99, 7, -1e9]
    asked[1] = [-3, 0, 0]
    pairs = np.column_stack([np.repeat(asked, 7, axis=0), np.tile(np.arange(7), len(asked))])
    expected = booster.predict(pairs).reshape(len(asked), 7)
    grid = TreeGrid.of(booster)
    assert grid is not None
    assert np.array_equal(grid.predict(asked, 7), expected)


def test_other_objectives_are_left_to_lightgbm():
    X, action, reward = world(500, 0)
    for settings_ in ({"objective": "poisson"}, {"objective": "regression", "reg_sqrt": True}):
        data = lgb.Dataset(np.column_stack([X, action]), reward)
        booster = lgb.train({**PARAMETERS, **settings_, "num_threads": 1}, data, 2)
        assert TreeGrid.of(booster) is None


def test_a_deterministic_target_costs_two_predictions_a_row(monkeypatch):
    import offpolicy as op
    from offpolicy.models.rewards import boosted

    asked = []
    predict = boosted._Booster.predict

    def counted(self, X, codes):
        asked.append(len(codes))
        return predict(self, X, codes)

    def refused(self, X, n_actions):
        raise AssertionError("a grid of all actions was predicted")

    monkeypatch.setattr(boosted._Booster, "predict", counted)
    monkeypatch.setattr(boosted._Booster, "predict_grid", refused)
    rng = np.random.default_rng(0)
    n, k = 1_000, 10
    x, action = rng.normal(size=(n, 3)), rng.integers(k, size=n)
    log = op.BanditLog.from_arrays(x, action, x[:, 0] + rng.normal(size=n), np.full(n, 1 / k))
    model = BoostedReward(rounds=3, validation=0, threads=1)
    op.evaluate(log, lambda s: (s[:, 0] > 0).astype(int), estimators=["DML"], reward_model=model)
    assert n < sum(asked) <= 2 * n
