"""The simulated ad platform: what it draws is what its configuration says."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2

from offpolicy.errors import UsageError
from offpolicy.policies import beta_thompson_probabilities
from offpolicy_studies.ads.bandits import BetaPosterior, choice_counts, logistic_prior, monte_carlo_probabilities
from offpolicy_studies.ads.config import CB_IMPRESSIONS, MAB_IMPRESSIONS, AdConfig, generator
from offpolicy_studies.ads.simulate import AdCell, simulate_campaign, to_rows, write_rows
from offpolicy_studies.ads.world import make_world


@pytest.fixture(scope="module")
def world():
    return make_world(AdConfig().scaled(0.01), seed=3)


@pytest.fixture(scope="module")
def cells(world):
    batches = simulate_campaign(world, 1)
    return [next(batches) for _ in range(5)]


def test_full_size_is_the_papers():
    config = AdConfig()
    assert (config.campaigns, config.batches, config.cells) == (4, 28, 112)
    assert (config.mab_impressions, config.cb_impressions) == (40_101_050, 299_342)
    assert (MAB_IMPRESSIONS, CB_IMPRESSIONS) == (40_101_050, 299_342)
    assert all(50 <= k <= 60 for k in config.designs)
    assert 10_000 <= config.contexts < 100_000


@pytest.mark.parametrize("scale", [0, -1, 1.5])
def test_bad_scale(scale):
    with pytest.raises(UsageError, match="scale"):
        AdConfig().scaled(scale)


def test_sizes_add_up(world):
    assert world.mab_sizes.sum() == world.config.mab_impressions
    assert world.cb_sizes.sum() == CB_IMPRESSIONS


def test_contexts_are_distinct_and_follow_zipf(world):
    assert len(np.unique(world.contexts, axis=0)) == world.config.contexts
    share = np.sort(world.campaigns[0].share)[::-1]
    assert share.sum() == pytest.approx(1)
    assert share[0] / share[9] == pytest.approx(10**world.config.zipf)


def test_click_model_is_the_stated_sum(world):
    own, cfg, batch, x, a = world.campaigns[2], world.config, 9, 17, 30
    score = own.intercept + cfg.slot_effects[batch % 4] + own.design[a]
    score += own.drift[a] * batch / (cfg.batches - 1)
    offset = 0
    for j, (_, levels) in enumerate(cfg.columns):
        level = offset + world.contexts[x, j]
        score += own.main[level] + own.interaction[level, a]
        offset += levels
    assert world.click_probabilities(2, batch)[x, a] == pytest.approx(expit(score), rel=1e-5)


def test_configured_click_rates(world):
    for c, rate in enumerate(world.config.click_rates):
        mu = world.click_probabilities(c, 2)  # the slot without an effect
        drift_free = world.campaigns[c].share @ mu.mean(axis=1)
        assert drift_free == pytest.approx(rate, rel=0.03)


def test_other_seed_other_world():
    config = AdConfig().scaled(0.001)
    a, b = make_world(config, 0), make_world(config, 1)
    assert not np.array_equal(a.campaigns[0].design, b.campaigns[0].design)


def test_cell_counts(world, cells):
    for cell in cells:
        assert cell.shown.sum() == world.mab_sizes[1, cell.batch]
        assert (cell.clicks <= cell.shown).all()
        assert (cell.shown > 0).all()
        assert np.array_equal(np.unique(cell.context), cell.present)
        assert (cell.choice.sum(axis=1) == cell.draws).all()
        assert cell.online_impressions == world.cb_sizes[1, cell.batch]


def test_designs_are_shown_with_the_propensities(cells):
    statistic = degrees = 0.0
    for cell in cells:
        shown = np.bincount(cell.design, cell.shown, minlength=len(cell.propensity))
        expected = cell.propensity * shown.sum()
        big = expected > 5
        statistic += ((shown - expected)[big] ** 2 / expected[big]).sum()
        degrees += big.sum()
    assert 1e-4 < chi2.sf(statistic, degrees) < 1 - 1e-4


def test_clicks_follow_the_click_model(world, cells):
    for cell in cells:
        mu = world.click_probabilities(1, cell.batch)[cell.context, cell.design]
        expected = cell.shown @ mu
        assert abs(cell.clicks.sum() - expected) < 4.5 * np.sqrt(expected)


def test_true_values_by_plain_loops(world, cells):
    cell = cells[3]
    mu = world.click_probabilities(1, 3)
    share = world.campaigns[1].share
    logged = sum(share[x] * mu[x, a] * p for x in range(len(share)) for a, p in enumerate(cell.propensity))
    assert cell.true_logged == pytest.approx(logged)
    # Contexts absent from the log carry little mass, so the truth over those present is close.
    here = cell.present
    value = share[here] @ (cell.choice / cell.draws * mu[here]).sum(axis=1) / share[here].sum()
    assert cell.true_value == pytest.approx(value, rel=0.02)


def test_monte_carlo_and_quadrature_propensities_agree(cells):
    draws = 200_000
    for cell in cells[1:]:
        by_draws = monte_carlo_probabilities(cell.alpha, cell.beta, draws, generator(1, cell.batch))
        p = beta_thompson_probabilities(cell.alpha, cell.beta)
        assert np.array_equal(p, cell.propensity)
        error = np.sqrt(p * (1 - p) / draws) + 1 / draws
        assert np.abs((by_draws - p) / error).max() < 4.5


def test_bandit_learns_from_its_own_batch_only(cells, world):
    cfg = world.config
    prior = cfg.mab_prior_impressions * cfg.click_rates[1]
    clicks = np.bincount(cells[0].design, cells[0].clicks, minlength=len(cells[0].alpha))
    assert np.allclose(cells[0].alpha, prior)
    assert np.allclose(cells[1].alpha, prior + clicks)
    more = np.bincount(cells[1].design, cells[1].clicks, minlength=len(clicks))
    assert np.allclose(cells[2].alpha, prior + cfg.mab_memory * clicks + more)


def test_without_memory_loss_the_posterior_is_the_textbooks():
    start = BetaPosterior(np.zeros(1), np.zeros(1), (1.0, 1.0), 1.0)
    end = start.updated(np.array([10]), np.array([3])).updated(np.array([5]), np.array([1]))
    assert (end.alpha[0], end.beta[0]) == (5.0, 12.0)


def test_choice_counts_by_plain_loops():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(7, 1 + 3, 4)).astype(np.float32)
    onehot = np.eye(3, dtype=np.float32)
    counts = choice_counts(draws, onehot)
    for x in range(3):
        for a in range(4):
            wins = sum(int(np.argmax(d[0] + d[1 + x]) == a) for d in draws)
            assert counts[x, a] == wins


def test_logistic_update_is_the_posterior_mode():
    config = AdConfig()
    rng = np.random.default_rng(1)
    prior = logistic_prior(config, levels=4, designs=3)
    active = np.column_stack([rng.integers(2, size=400), 2 + rng.integers(2, size=400)])
    design, click = rng.integers(3, size=400), rng.integers(2, size=400)
    after = prior.updated(active, design, click)

    def log_posterior(w):
        total = -0.5 * prior.precision @ (w - prior.mean) ** 2
        for x, a, y in zip(active, design, click, strict=True):
            score = w[0] + w[1 + x].sum() + w[5 + a] + sum(w[8 + 3 * j + a] for j in x)
            total += y * score - np.logaddexp(0, score)
        return total

    best = log_posterior(after.mean)
    for j in range(len(after.mean)):
        for step in (-1e-2, 1e-2):
            moved = after.mean.copy()
            moved[j] += step
            assert log_posterior(moved) < best + 1e-6
    assert (after.precision >= prior.precision).all()


def test_same_seed_same_log(world, cells):
    again = next(simulate_campaign(make_world(world.config, 3), 1))
    assert np.array_equal(again.clicks, cells[0].clicks)
    assert np.array_equal(again.choice, cells[0].choice)


def test_save_and_load(tmp_path, cells):
    cells[2].save(tmp_path / "cell.npz")
    back = AdCell.load(tmp_path / "cell.npz")
    assert back.true_value == cells[2].true_value
    assert np.array_equal(back.choice, cells[2].choice)
    assert not list(tmp_path.glob("*.partial"))


def test_rows_are_the_impressions_of_the_cell(tmp_path, world, cells):
    import pyarrow.parquet as pq

    cell = cells[1]
    rows = to_rows(world, cell)
    assert len(rows["click"]) == cell.shown.sum()
    assert rows["click"].sum() == cell.clicks.sum()
    shown = np.bincount(rows["design"], minlength=len(cell.propensity))
    assert np.array_equal(shown, np.bincount(cell.design, cell.shown, minlength=len(cell.propensity)))
    table = pq.read_table(write_rows(world, cell, tmp_path))
    assert table.num_rows == cell.shown.sum()
    assert set(dict(world.config.columns)) <= set(table.column_names)
