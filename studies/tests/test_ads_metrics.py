"""Relative-RMSE and appendix C's simulation, against loops and closed forms."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import norm

from offpolicy.errors import DataError, UsageError
from offpolicy_studies.ads.metrics import Online, relative_rmse, rmse_difference, rmse_spread, truth_error

HALF_NORMAL = np.sqrt(1 - 2 / np.pi)
EXACT = 1e15  # impressions that leave the online rate without noise


def chi_sd(cells: int) -> float:
    """Standard deviation of χ_cells / √cells."""
    mean = np.sqrt(2) * np.exp(gammaln((cells + 1) / 2) - gammaln(cells / 2))
    return float(np.sqrt(1 - mean**2 / cells))


def test_relative_rmse_is_the_papers_formula():
    rng = np.random.default_rng(0)
    estimate, rate, n = rng.random(20), rng.random(20), rng.integers(1, 99, 20).astype(float)
    top = bottom = 0.0
    for v, bar, size in zip(estimate, rate, n, strict=True):
        top += size * ((v - bar) / bar) ** 2
        bottom += size
    assert relative_rmse(estimate, Online(rate, n)) == pytest.approx(np.sqrt(top / bottom))


def test_cells_without_clicks_leave_sum_and_weights():
    rate, n = np.array([0.1, 0.0, 0.2]), np.array([1.0, 100.0, 3.0])
    online = Online(rate, n)
    keep = [0, 2]
    estimate = np.array([0.2, 0.5, 0.2])
    assert relative_rmse(estimate, online) == relative_rmse(estimate[keep], Online(rate[keep], n[keep]))
    assert rmse_spread(estimate, estimate / 10, online, draws=10).cells_left_out == 1


def test_no_clicks_at_all_is_refused():
    with pytest.raises(DataError, match="No cell has an online click"):
        Online(np.zeros(2), np.ones(2))


@pytest.mark.parametrize("cells", [1, 4, 112])
def test_standard_error_without_online_noise_is_that_of_a_chi_variable(cells):
    v = np.linspace(0.1, 0.4, cells)
    s = rmse_spread(v, 0.2 * v, Online(v, np.full(cells, EXACT)))
    expected = 0.2 * chi_sd(cells)
    assert s.std_error == pytest.approx(expected, rel=0.01)
    assert s.fixed == pytest.approx(expected, rel=0.01)
    assert s.near_zero == pytest.approx(0.0, abs=1e-12)


def test_unequal_weights():
    # Two cells, all the weight on the second: only its noise counts.
    v = np.array([0.1, 0.2])
    online = Online(v, np.array([1.0, EXACT]))
    s = rmse_spread(v, np.array([0.0, 0.02]), online)
    assert s.fixed == pytest.approx(0.1 * HALF_NORMAL, rel=0.01)


def test_both_values_are_drawn_around_the_estimate():
    # The observed online rate is twice the estimate; drawn around the estimate, the simulated error
    # has mean zero, whatever was observed.
    v, rate, n = np.array([0.1]), np.array([0.2]), np.array([1e6])
    online = Online(rate, n)
    total = np.hypot(0.01, np.sqrt(0.2 * 0.8 / 1e6))
    assert rmse_spread(v, np.array([0.01]), online).fixed == pytest.approx(total / 0.2 * HALF_NORMAL, rel=0.01)
    kept = rmse_spread(v, np.array([0.01]), online, online_around="online").fixed
    assert kept == pytest.approx(total / 0.2, rel=0.01)  # ten standard errors from zero: no folding


def test_robust_spread_matches_the_exact_distribution_of_the_ratio():
    v, se, rate, n = 0.01, 0.001, 0.01, 2_000
    so = np.sqrt(rate * (1 - rate) / n)

    def cdf(t):  # P(|x − y| ≤ t |y|), x ~ N(v, se²), y ~ N(v, so²)
        def inside(y):
            reach = t * abs(y)
            x = norm.cdf((y + reach - v) / se) - norm.cdf((y - reach - v) / se)
            return x * norm.pdf(y, v, so)

        return quad(inside, v - 9 * so, v + 9 * so, points=[0.0, v], limit=300)[0]

    low, high = (brentq(lambda t, p=p: cdf(t) - p, 1e-4, 50) for p in norm.cdf([-1, 1]))
    online = Online(np.array([rate]), np.array([float(n)]))
    s = rmse_spread(np.array([v]), np.array([se]), online)
    assert s.robust == pytest.approx((high - low) / 2, rel=0.02)
    assert s.near_zero == pytest.approx(norm.cdf(-v / so))


def test_estimates_of_zero_do_not_divide_by_zero():
    # No click in the log: the estimate and its standard error are 0, drawn online rates surround 0.
    v = np.zeros(112)
    s = rmse_spread(v, v, Online(np.full(112, 0.01), np.full(112, 100.0)))
    assert s.value == pytest.approx(1.0)
    assert s.std_error == pytest.approx(0.0, abs=1e-4)  # (0 − y)/y is −1 in every draw


def test_same_seed_same_number():
    v = np.array([0.1, 0.2])
    online = Online(v, np.array([1e3, 1e3]))
    a, b = (rmse_spread(v, v / 10, online, draws=3_000, seed=5) for _ in range(2))
    assert a == b
    assert a != rmse_spread(v, v / 10, online, draws=3_000, seed=6)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 1.0])
def test_paired_difference_uses_the_covariance(correlation):
    # One cell without online noise: |s₁ z₁| − |s₂ z₂| with corr(z₁, z₂) = r, where
    # cov(|z₁|, |z₂|) = 2/π (√(1 − r²) + r asin r − 1).
    v, s1, s2, r = 1.0, 0.05, 0.02, correlation
    both = 2 / np.pi * (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1)
    expected = np.sqrt((s1**2 + s2**2) * (1 - 2 / np.pi) - 2 * s1 * s2 * both)
    online = Online(np.array([1 - 1e-9]), np.array([EXACT]))
    test = rmse_difference(
        (np.array([v]), np.array([v])),
        (np.array([s1]), np.array([s2])),
        np.array([np.sqrt(s1**2 + s2**2 - 2 * r * s1 * s2)]),
        online,
    )
    assert test.fixed == pytest.approx(expected, rel=0.02)
    assert test.std_error == pytest.approx(expected, rel=0.02)


def test_online_noise_is_shared_by_both_estimators():
    v, online = np.full(50, 0.1), Online(np.full(50, 0.1), np.full(50, 500.0))
    se = np.full(50, 1e-3)
    test = rmse_difference((v, v), (se, se), np.zeros(50), online, draws=2_000)
    assert test.fixed == pytest.approx(0.0, abs=1e-6)


def test_difference_of_biased_estimators_feels_the_online_noise():
    # One cell, no noise in the estimates: |v₁ − y| − |v₂ − y| with y between them is
    # v₁ + v₂ − 2y, so its standard deviation is twice that of the online rate.
    online = Online(np.array([0.5]), np.array([1e6]))
    none = np.zeros(1)
    test = rmse_difference((np.array([0.6]), np.array([0.4])), (none, none), none, online)
    assert test.fixed == pytest.approx(2 * 0.0005 / 0.5, rel=0.02)


def test_truth_error_parts():
    truth, n = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    e = truth_error(np.array([1.2, 2.2]), np.array([0.05, 0.2]), truth, n)
    assert e.bias == pytest.approx(0.25 * 0.2 + 0.75 * 0.1)
    assert e.rmse**2 == pytest.approx(0.25 * 0.04 + 0.75 * 0.01)
    assert e.rmse**2 == pytest.approx(e.bias**2 + e.sd**2)
    assert e.claimed**2 == pytest.approx(0.25 * 0.05**2 + 0.75 * 0.1**2)
    assert e.coverage == 0.5


def test_misspelled_center_is_refused():
    online = Online(np.array([0.1]), np.array([10.0]))
    with pytest.raises(UsageError, match="online_around"):
        rmse_spread(np.array([0.1]), np.array([0.1]), online, online_around="truth")
