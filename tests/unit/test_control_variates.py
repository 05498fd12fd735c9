"""Control variates against brute force: leave-one-out slopes, the best combination, counts."""

import re
from dataclasses import replace

import numpy as np
import pytest

from offpolicy.logs.layout import Layout
from offpolicy.scores import formulas as scores
from offpolicy.scores.control_variates import best_combination, combine, optimal_control, regress_others, weight_share
from offpolicy.scores.decisions import Decisions


def bandit(n, seed=0, *, model=0.8, count=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    pi_b = np.where(x > 0, 0.3, 0.7)
    a = rng.random(n) < pi_b
    p = np.where(a, pi_b, 1 - pi_b)
    e = np.where(a, 0.8, 0.2)
    mean = 1 + x + a
    q = model * mean
    v = model * (1 + x + 0.8)
    layout = Layout.single(n)
    weight = None if count is None else count
    return Decisions(layout, mean + rng.normal(size=n), e, p, q, v, weight=weight, count=count)


def episodes(n=400, steps=3, seed=1):
    rng = np.random.default_rng(seed)
    size = n * steps
    p = rng.choice([0.3, 0.7], size=size)
    e = np.where(p == 0.3, 0.4, 0.6)
    reward = rng.normal(size=size) + 1
    q = np.tile(np.arange(steps, 0, -1.0), n)
    return Decisions(Layout.ragged([steps] * n), reward, e, p, q, q.copy(), discount=0.9)


def test_slopes_without_each_unit_are_those_of_a_regression_without_it():
    rng = np.random.default_rng(2)
    y, X, mass = rng.normal(size=12), rng.normal(size=(12, 2)), rng.uniform(0.5, 2, size=12)
    _, left_out = regress_others(y, X, mass, mass)
    for i in range(12):
        keep = np.arange(12) != i
        design = np.column_stack([np.ones(11), X[keep]]) * np.sqrt(mass[keep])[:, None]
        expected = np.linalg.lstsq(design, y[keep] * np.sqrt(mass[keep]), rcond=None)[0][1:]
        assert left_out[i] == pytest.approx(expected, rel=1e-8)


def test_a_control_that_never_varies_gets_slope_zero():
    y = np.array([1.0, 2.0, 4.0, 3.0])
    slope, left_out = regress_others(y, np.zeros((4, 1)), np.ones(4), np.ones(4))
    assert slope.tolist() == [0.0]
    assert not left_out.any()


@pytest.mark.parametrize("score", [optimal_control, best_combination])
def test_rows_with_counts_equal_repeated_rows(score):
    count = np.random.default_rng(3).integers(1, 4, size=60).astype(float)
    counted = bandit(60, count=count)
    rows = np.repeat(np.arange(60), count.astype(int))
    long = Decisions(
        Layout.single(len(rows)), *(getattr(counted, k)[rows] for k in ("reward", "pi_e", "pi_b", "q", "v"))
    )
    assert score(counted).psi[rows] == pytest.approx(score(long).psi, rel=1e-8)


@pytest.mark.parametrize("model", [0.0, 0.8, 1.0])
def test_optimal_control_varies_no_more_than_the_estimators_it_contains(model):
    d = bandit(20_000, model=model)
    best = optimal_control(d).psi.var()
    others = [scores.importance_weighted, scores.self_normalized, scores.doubly_robust]
    for other in [*others, scores.self_normalized_dr]:
        assert best <= other(d).var() * 1.001


def parts(d):
    """Centered SNIPW scores, what the model explains of them, and the weights; as `combine` takes them."""
    plain, robust = scores.self_normalized(d), scores.self_normalized_dr(d)
    base = plain - plain.mean()
    return base, base - (robust - robust.mean()), d.ratio - d.ratio.mean()


def mixed(d):
    return combine(*parts(d), np.ones(d.n), np.ones(d.n))


def test_coefficients_are_the_best_of_a_grid_where_the_weights_matter():
    # Residuals grow with the weight, so that δ is far from its noise and counts in full.
    d = bandit(5000, model=0.6)
    d = replace(d, reward=d.reward + 3 * d.ratio)
    mix = mixed(d)
    base, model, weight = parts(d)
    grid = np.linspace(-0.3, 0.3, 31)
    best = mix.residual.var()
    for b in np.clip(mix.beta + grid, 0, 1):
        for c in mix.delta + grid:
            assert (base - b * model - c * weight).var() >= best * (1 - 1e-4)
    assert mix.delta > 1


def test_without_signal_in_the_weights_only_the_model_counts():
    d = bandit(400, model=0.6, seed=5)
    base, model, _ = parts(d)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    noise -= noise.mean() + model * (noise @ model) / (model @ model)
    noise -= base * (noise @ base) / (base @ base)
    mix = combine(base, model, noise - noise.mean(), np.ones(400), np.ones(400))
    grid = np.linspace(0, 1, 1001)
    spread = [(base - b * model).var() for b in grid]
    assert mix.delta == 0
    assert mix.beta == pytest.approx(grid[np.argmin(spread)], abs=2e-3)


def test_a_useless_model_leaves_snipw_and_the_truth_gives_sndr():
    assert mixed(bandit(3000, model=-1.0)).beta == 0
    assert mixed(bandit(3000, model=1.0)).beta > 0.9


@pytest.mark.parametrize("model", [0.0, 0.5, 1.0])
def test_auto_varies_no_more_than_snipw_sndr_and_dml(model):
    d = bandit(20_000, model=model)
    best = best_combination(d).psi.var()
    for other in (scores.self_normalized, scores.self_normalized_dr, scores.doubly_robust):
        assert best <= other(d).var() * 1.002


def test_auto_has_the_mean_of_its_parts():
    d = episodes()
    plain, robust = scores.self_normalized(d), scores.self_normalized_dr(d)
    psi = best_combination(d)
    beta, delta = (float(x) for x in re.findall(r"= (-?[\d.e+-]+)", psi.note))
    weight = d.sum(d.gamma * (d.rho - d.rho_before)).mean()
    mean = (1 - beta) * plain.mean() + beta * robust.mean() - delta * weight
    assert psi.psi.mean() == pytest.approx(mean, abs=2e-3)


def test_auto_covers_its_value_in_a_simple_world():
    covered = []
    for seed in range(300):
        d = bandit(300, seed, model=0.5)
        psi = best_combination(d).psi
        covered.append(abs(psi.mean() - 1.8) < 1.96 * psi.std() / np.sqrt(300))
    assert 0.92 < np.mean(covered) < 0.98


def test_jackknifed_deviations_are_those_of_leaving_a_unit_out():
    # With a constant value model and one weight level the score is that of SNIPW, whose leave-one-out
    # estimates are known exactly.
    rng = np.random.default_rng(0)
    matched = rng.random(40) < 0.3
    none = np.zeros(40)
    reward = rng.normal(size=40)
    d = Decisions(Layout.single(40), reward, matched * 1.0, np.full(40, 0.3), none, none)
    psi = best_combination(d).psi
    w, r = d.ratio, d.reward
    theta = (w @ r) / w.sum()
    left_out = (w @ r - w * r) / (w.sum() - w)
    deviation = (len(w) - 1) * (theta - left_out)
    expected = theta + (deviation - deviation.mean()) * len(w) / (len(w) - 1)
    assert psi == pytest.approx(expected, rel=1e-6)


def test_share_of_weights_over_steps_by_a_plain_loop():
    d = episodes(n=20)
    rho = d.rho.reshape(20, 3)
    expected = (rho / rho.sum(axis=0)).max(axis=1)
    assert weight_share(d) == pytest.approx(expected, rel=1e-12)


def test_episodes_get_coefficients_by_step_when_there_are_enough():
    assert "step by step" in optimal_control(episodes(n=400)).note
    assert "α" in optimal_control(episodes(n=100)).note


def test_no_overlap_is_not_a_number():
    d = bandit(10)
    none = Decisions(d.layout, d.reward, np.zeros(10), d.pi_b, d.q, d.v)
    assert np.isnan(best_combination(none).psi).all()


def test_a_coefficient_without_signal_is_zero_and_not_minus_zero():
    """The sign would follow the rounding of a sum, hence the path of the rows, and stands in the note."""
    rng = np.random.default_rng(5)
    found = [combine(*rng.normal(size=(3, 50)), np.ones(50), np.ones(50)).delta for _ in range(20)]
    silent = [delta for delta in found if delta == 0]
    assert len(silent) > 5
    assert not np.signbit(silent).any()
