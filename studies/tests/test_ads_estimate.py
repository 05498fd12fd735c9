"""Estimates from counted cells equal those from one row per impression; weighted boosting too."""

from dataclasses import dataclass

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import ModelError
from offpolicy.logs.bandit import BanditLog
from offpolicy.models.rewards.reward import RewardData
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.counterfactual import Training, best_designs, pooled
from offpolicy_studies.ads.estimate import ESTIMATORS, ChoiceTable, counted_log, estimate_cell, scanned_log
from offpolicy_studies.ads.reward import Boosted, Constant, TunedBoosting
from offpolicy_studies.ads.simulate import simulate_campaign, write_rows
from offpolicy_studies.ads.world import make_world


@pytest.fixture(scope="module")
def world():
    return make_world(AdConfig().scaled(0.02), seed=1)


@pytest.fixture(scope="module")
def cells(world):
    batches = simulate_campaign(world, 3)
    return [next(batches) for _ in range(4)]


def sizes(world):
    return tuple(levels for _, levels in world.config.columns)


def rows_of(log):
    """The compressed log with one row per impression."""
    at = np.repeat(np.arange(log.rows), log.count.astype(int))
    context = log.context.table[log.context.index[at]]
    return BanditLog.from_arrays(
        context,
        log.action[at],
        log.reward[at],
        log.propensity[at],
        actions=range(len(log.actions)),
        fold=log.fold[0][at],
    )


@dataclass(frozen=True)
class DesignMeans:
    """Mean click rate by design and by first context column: no randomness, weights honored."""

    def fit_reward(self, data, seed):
        weight = np.ones(len(data.reward)) if data.weight is None else data.weight
        key = np.asarray(data.X)[:, 0].astype(int) * len(data.actions) + data.action
        top = np.bincount(key, weight * data.reward, minlength=2 * len(data.actions))
        return _Means((top + 0.01) / (np.bincount(key, weight, minlength=len(top)) + 1))


@dataclass(frozen=True)
class _Means:
    table: np.ndarray

    def predict(self, X, codes):
        k = len(self.table) // 2
        return self.table[np.asarray(X)[:, 0].astype(int) * k + codes]


@pytest.mark.parametrize("behavior", [None, "shares"])
def test_counted_log_gives_the_row_level_numbers(world, cells, behavior):
    cell = cells[3]
    log = counted_log(world, cell, folds=2)
    assert log.n == cell.shown.sum()
    assert log.rows < log.n
    policy = ChoiceTable(world.contexts[cell.present], sizes(world), cell.choice, cell.draws)
    options = {"estimators": list(ESTIMATORS), "reward_model": DesignMeans(), "behavior_model": behavior}
    counted = op.evaluate(log, {"cb": policy}, **options)
    plain = op.evaluate(rows_of(log), {"cb": policy}, **options)
    for name in ESTIMATORS:
        a, b = counted["cb", name], plain["cb", name]
        assert a.value == pytest.approx(b.value, rel=1e-9), name
        assert a.std_error == pytest.approx(b.std_error, rel=1e-9), name


def test_ipw_with_known_propensities_by_plain_sums(world, cells):
    cell = cells[2]
    record = estimate_cell(world, cell, counted_log(world, cell, folds=2))
    row = np.searchsorted(cell.present, cell.context)
    weight = cell.choice[row, cell.design] / cell.draws / cell.propensity[cell.design]
    n = cell.shown.sum()
    value = (weight * cell.clicks).sum() / n
    square = (weight**2 * cell.clicks).sum() / n
    assert record["estimates"]["true"]["IPW"][0] == pytest.approx(value)
    se = np.sqrt((square - value**2) / n)
    assert record["estimates"]["true"]["IPW"][1] == pytest.approx(se, rel=1e-3)


def test_paired_difference_is_recorded(world, cells):
    record = estimate_cell(world, cells[0], counted_log(world, cells[0], folds=3))
    for behavior, values in record["estimates"].items():
        for name, se in record["difference_std_error"][behavior].items():
            bound = values[name][1] + values["DML"][1]
            assert 0 <= se <= bound * (1 + 1e-9)


def test_engine_makes_the_same_log_of_the_impressions(world, cells, tmp_path):
    cell = cells[2]
    scanned = scanned_log(world, write_rows(world, cell, tmp_path), folds=2)
    counted = counted_log(world, cell, folds=2)
    assert scanned.n == counted.n
    assert len(np.unique(scanned.fold)) == 2
    a, b = (estimate_cell(world, cell, log) for log in (scanned, counted))
    for name in ("IPW", "SNIPW"):  # no folds, no models: equal to rounding
        for behavior in ("true", "estimated"):
            np.testing.assert_allclose(a["estimates"][behavior][name], b["estimates"][behavior][name], rtol=1e-9)
    value, se = a["estimates"]["true"]["DML"]
    assert abs(value - b["estimates"]["true"]["DML"][0]) < se


def test_folds_keep_every_impression(world, cells):
    for folds in (2, 3, 4):
        log = counted_log(world, cells[1], folds)
        assert log.n == cells[1].shown.sum()
        assert log.reward @ log.count == cells[1].clicks.sum()
        size = np.bincount(log.fold[0], log.count) / log.n
        assert len(size) == folds
        assert np.abs(size - 1 / folds).max() < 0.05


def test_boosting_counted_cells_is_boosting_impressions():
    import lightgbm as lgb

    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, size=(60, 3))
    n = rng.integers(1, 400, size=60)
    clicks = rng.binomial(n, 0.02 + 0.1 * (x[:, 0] > 2) * (x[:, 1] == 1))
    matrix = np.vstack([x, x]).astype(np.float32)
    y = np.repeat([0.0, 1.0], 60)
    count = np.concatenate([n - clicks, clicks])
    keep = count > 0
    at = np.repeat(np.flatnonzero(keep), count[keep])
    params = TunedBoosting().params(4)
    fits = []
    for rows, weight in ((np.flatnonzero(keep), count[keep].astype(float)), (at, None)):
        data = lgb.Dataset(matrix[rows], y[rows], weight=weight, categorical_feature=[])
        fits.append(lgb.train(params, data, 20).predict(matrix[:60]))
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-4)


def reward_data(count, clicks, x=None):
    k = len(count)
    x = np.arange(k)[:, None] if x is None else x
    return RewardData(
        np.vstack([x, x]),
        np.zeros(2 * k, dtype=np.int64),
        np.repeat([0.0, 1.0], k),
        np.concatenate([count - clicks, clicks]).astype(float),
        ("only",),
        "design",
    )


def test_model_without_signal_is_the_mean():
    fit = TunedBoosting().fit_reward(reward_data(np.array([5000]), np.array([100])), seed=0)
    assert isinstance(fit, Constant)
    assert fit.value == pytest.approx(0.02)


def test_model_without_clicks_is_the_mean():
    fit = TunedBoosting().fit_reward(reward_data(np.array([50, 60]), np.array([0, 0])), seed=0)
    assert isinstance(fit, Constant)
    assert fit.value == 0.0


def test_model_finds_strong_signal_and_remembers_it():
    data = reward_data(np.array([9000, 9000]), np.array([90, 900]))
    model = TunedBoosting()
    fit = model.fit_reward(data, seed=0)
    assert isinstance(fit, Boosted)
    low, high = fit.predict(np.array([[0], [1]]), np.zeros(2, dtype=int))
    assert low == pytest.approx(0.01, rel=0.4)  # stopped early, so shrunk to the mean 0.055
    assert high == pytest.approx(0.1, rel=0.05)
    assert model.fit_reward(data, seed=0) is fit
    assert model.fit_reward(data, seed=1) is not fit


def test_weights_that_are_not_counts_are_refused():
    data = reward_data(np.array([50.5]), np.array([1.0]))
    with pytest.raises(ModelError, match="not whole"):
        TunedBoosting().fit_reward(data, seed=0)


def test_counterfactual_policy_finds_a_dominant_design(world, cells):
    # Clicks replaced by a world in which design 7 is clicked ten times as often.
    from dataclasses import replace

    rng = np.random.default_rng(0)
    strong = [
        replace(c, clicks=rng.binomial(c.shown, np.where(c.design == 7, 0.3, 0.03)).astype(np.int32)) for c in cells
    ]
    k = len(cells[0].propensity)
    pairs = pooled(strong, len(world.contexts), k)
    assert pairs.shown.sum() == sum(c.shown.sum() for c in cells)
    assert pairs.clicks.sum() == sum(c.clicks.sum() for c in strong)
    wanted = np.arange(50, dtype=np.int32)
    training = Training(max_rounds=60)
    best, rounds = best_designs(pairs, world.contexts, wanted, k, seed=0, training=training)
    assert rounds >= 5
    assert (best == 7).all()
