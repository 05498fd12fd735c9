"""Likelihood intervals against brute-force optimization, and exact binomial intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.intervals import (
    Sample,
    cautious_likelihood,
    clopper_pearson,
    confidence_sequence,
    cressie_read,
    empirical_likelihood,
    normal,
)


def log_ratio(g: np.ndarray, c: np.ndarray) -> float:
    """−2 log empirical likelihood ratio of a mean of 0, by solving for the multiplier."""
    if g.min() >= 0 or g.max() <= 0:
        return np.inf
    low, high = -1 / g.max() * (1 - 1e-12), -1 / g.min() * (1 - 1e-12)
    slope = optimize.brentq(lambda m: (c * g / (1 + m * g)).sum(), low, high, xtol=1e-15)
    return 2 * float(c @ np.log1p(slope * g))


def crit(level: float, total: float) -> float:
    return float(stats.f.ppf(level, 1, total - 1))


@pytest.mark.parametrize("seed", range(6))
def test_both_ends_have_the_critical_likelihood_ratio(seed):
    rng = np.random.default_rng(seed)
    den = rng.exponential(size=25) * (rng.random(25) < 0.8) + (seed % 2) * 0.2
    num = den * rng.exponential(size=25)
    c = rng.integers(1, 5, size=25).astype(float)
    i = empirical_likelihood(Sample(num, den, c), 0.9)
    for end in (i.low, i.high):
        assert log_ratio(num - end * den, c) == pytest.approx(crit(0.9, c.sum()), rel=1e-7)
    assert i.low < (c @ num) / (c @ den) < i.high


def test_two_units_at_a_high_level_stay_inside_their_range():
    i = empirical_likelihood(Sample.of_mean([0.0, 1.0]), 0.99)
    assert 0 <= i.low < 1e-6
    assert 1 - 1e-6 < i.high <= 1


def largest_mean(x, c, high, level):
    """Primal problem with scipy: largest mean over observed atoms and an unseen one at ``high``."""
    atoms, m, total = np.append(x, high), len(x), c.sum()

    def loglik(p):
        return float(c @ np.log(total * p[:m] / c))

    found = optimize.minimize(
        lambda p: -p @ atoms,
        np.append(c / total * 0.99, 0.01),
        jac=lambda p: -atoms,
        bounds=[(1e-9, 1)] * m + [(0, 1)],
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: loglik(p) + crit(level, total) / 2},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return -found.fun


@pytest.mark.parametrize("high", [1.0, 1.5, 6.0])
def test_bound_aware_end_solves_the_primal_problem(high):
    x, c = np.array([0.0, 0.2, 0.5, 1.0]), np.array([12.0, 5.0, 3.0, 2.0])
    i = empirical_likelihood(Sample.of_mean(x, c), low=0, high=high)
    assert i.high == pytest.approx(largest_mean(x, c, high, 0.95), abs=1e-6)


def test_unseen_success_has_a_closed_form():
    s = Sample.of_mean([0.0], count=[200])
    i = empirical_likelihood(s, low=0, high=1)
    assert i.low == 0
    assert i.high == pytest.approx(1 - np.exp(-crit(0.95, 200) / 400))


def test_cautious_likelihood_equals_the_bound_aware_one_at_its_reach():
    x = np.random.default_rng(0).exponential(size=30)
    s = Sample.of_mean(x)
    low, high = (x.mean() + 4 * (e - x.mean()) for e in (x.min(), x.max()))
    expected = empirical_likelihood(s, low=low, high=high)
    found = cautious_likelihood(s)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_likelihood_refuses_bad_input():
    with pytest.raises(DataError, match="above"):
        empirical_likelihood(Sample.of_mean([0.0, 2.0]), high=1.0)
    with pytest.raises(DataError, match="below"):
        empirical_likelihood(Sample.of_mean([-1.0, 2.0]), low=0.0)
    with pytest.raises(DataError, match="negative"):
        empirical_likelihood(Sample(np.array([1.0, 1.0]), np.array([2.0, -1.0])))
    with pytest.raises(UsageError, match="2 independent"):
        empirical_likelihood(Sample.of_mean([1.0]))


def primal(w, r, c, ranges, level=0.95):
    """Both ends by maximizing over the probabilities themselves."""
    top, low, high = ranges
    aw, ar = np.concatenate([w, [0, top, top]]), np.concatenate([r, [low, low, high]])
    m, total = len(w), c.sum()
    equal = [
        {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        {"type": "eq", "fun": lambda p: p @ aw - 1, "jac": lambda p: aw},
    ]

    def loglik(p):
        return float(c @ np.log(total * p[:m] / c))

    def slope(p):
        return np.concatenate([c / p[:m], [0, 0, 0]])

    options = {"maxiter": 5000, "ftol": 1e-14}
    bounds = [(1e-9, 1)] * m + [(0, 1)] * 3
    start = np.concatenate([c / total * 0.97, [0.01] * 3])
    best = optimize.minimize(
        lambda p: -loglik(p), start, jac=lambda p: -slope(p), bounds=bounds,
        constraints=equal, method="SLSQP", options=options,
    )  # fmt: skip
    floor = -best.fun - crit(level, total) / 2
    inside = [{"type": "ineq", "fun": lambda p: loglik(p) - floor, "jac": slope}]
    ends = []
    for sign in (1, -1):
        found = optimize.minimize(
            lambda p, s=sign: s * (p @ (aw * ar)), best.x, jac=lambda p, s=sign: s * aw * ar,
            bounds=bounds, constraints=equal + inside, method="SLSQP", options=options,
        )  # fmt: skip
        ends.append(sign * found.fun)
    return ends


@pytest.mark.parametrize("seed", range(8))
def test_weight_likelihood_solves_the_primal_problem(seed):
    rng = np.random.default_rng(100 + seed)
    m = int(rng.integers(3, 8))
    w = rng.exponential(size=m) * (rng.random(m) < 0.6) * rng.choice([1, 5])
    r, c = rng.uniform(-1, 2, size=m), rng.integers(1, 20, size=m).astype(float)
    top = max(w.max(), 1.2) * rng.choice([1.0, 1.5, 5.0])
    i = cressie_read(w, r, c, weight_high=top, reward_low=-1, reward_high=2)
    assert [i.low, i.high] == pytest.approx(primal(w, r, c, (top, -1, 2)), abs=2e-5)


def dual(w, gap, share, top, cost):
    """The two-dimensional dual by a derivative-free search from several starts."""

    def objective(log_x):
        d = np.exp(log_x[0]) * (1 - w / top) + np.exp(log_x[1]) * w / top + w * gap
        linear = np.exp(log_x[0]) * (1 - 1 / top) + np.exp(log_x[1]) / top
        return linear - np.exp(share @ np.log(np.maximum(d, 1e-300)) - cost)

    options = {"xatol": 1e-11, "fatol": 1e-15, "maxiter": 20_000, "maxfev": 20_000}
    starts = [(0, 0), (4, -4), (-4, 4), (4, 4)]
    found = [optimize.minimize(objective, s, method="Nelder-Mead", options=options) for s in starts]
    return -min(f.fun for f in found)


@pytest.mark.parametrize("seed", range(12))
def test_newtons_method_reaches_the_minimum_of_the_dual(seed):
    from offpolicy.inference.intervals.weight_likelihood import _normalization_cost, _shortfall

    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    w = rng.choice([0.0, 1.0, 5.0, 40.0], size=n) if seed % 2 else rng.lognormal(sigma=1, size=n)
    gap = rng.random(n) * (rng.random(n) < 0.7)
    share = np.full(n, 1 / n)
    top = max(float(w.max()), 1.1) * float(rng.choice([1.0, 3.0, 100.0]))
    cost = _normalization_cost(w, share, top) + 2 / n
    expected = dual(w, gap, share, top, cost)
    assert _shortfall(w, gap, share, top, cost) == pytest.approx(expected, abs=1e-7)


def test_bisection_finds_what_newton_finds_and_rescues_it_with_few_units():
    from offpolicy.inference.intervals.weight_likelihood import Program, _bisect, _newton

    rng = np.random.default_rng(0)
    w, gap = rng.choice([0.0, 0.5, 3.0], size=40), rng.random(40)
    share = np.full(40, 1 / 40)
    program = Program(1 - w / 5, w / 5, w * gap, share, (0.8, 0.2), 0.1)
    np.testing.assert_allclose(_bisect(program), _newton(program), rtol=1e-5, atol=1e-9)
    # Two units, weight never 0: the geometric term nearly vanishes.
    i = cressie_read([40.0, 40.0], [0.0, 0.0], weight_high=40, reward_low=0, reward_high=1)
    assert i.low == 0
    assert 0.99 < i.high <= 1


def test_weight_likelihood_with_unit_weights_is_bounded_empirical_likelihood():
    r = np.random.default_rng(0).random(30)
    a = cressie_read(np.ones(30), r, weight_high=1, reward_low=0, reward_high=1)
    b = empirical_likelihood(Sample.of_mean(r), low=0, high=1)
    assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-10)


def test_weight_likelihood_approaches_the_self_normalized_normal_interval():
    rng = np.random.default_rng(0)
    w = rng.choice([0.5, 1.5], size=20_000)
    r = rng.random(20_000)
    i = cressie_read(w, r, weight_high=1.5, reward_low=0, reward_high=1)
    j = normal(Sample(w * r, w))
    assert (i.low, i.high) == pytest.approx((j.low, j.high), abs=0.02 * j.width)


def test_a_weight_above_its_bound_or_a_hopeless_bound_is_refused():
    ranges = {"reward_low": 0, "reward_high": 1}
    with pytest.raises(DataError, match="above weight_high"):
        cressie_read([0.0, 3.0], [0.0, 1.0], weight_high=2, **ranges)
    with pytest.raises(DataError, match="below 1"):
        cressie_read([0.5, 1.0], [0.0, 1.0], weight_high=1, **ranges)
    with pytest.raises(UsageError, match="weight_high"):
        cressie_read([0.5, 0.5], [0.0, 1.0], weight_high=0.5, **ranges)
    with pytest.raises(DataError, match="outside the range"):
        cressie_read([0.5, 1.0], [0.0, 2.0], weight_high=3, **ranges)
    with pytest.raises(DataError, match="negative"):
        cressie_read([-0.5, 1.0], [0.0, 1.0], weight_high=3, **ranges)


@pytest.mark.parametrize(("x", "n"), [(0, 20), (3, 20), (20, 20), (1, 5000)])
def test_clopper_pearson_matches_scipys_exact_interval(x, n):
    theirs = stats.binomtest(x, n).proportion_ci(0.9, method="exact")
    i = clopper_pearson([0.0, 1.0], count=[n - x, x], level=0.9)
    assert (i.low, i.high) == pytest.approx((theirs.low, theirs.high))


def test_constant_weights_condition_on_the_matched_units():
    w, r = np.array([0.0, 50.0, 50.0]), np.array([1.0, 0.0, 1.0])
    theirs = stats.binomtest(2, 20).proportion_ci(0.95, method="exact")
    i = clopper_pearson(r, w, [980, 18, 2])
    assert (i.low, i.high) == pytest.approx((theirs.low, theirs.high))
    assert "exact" in i.note
    # When larger weights can occur, the matched units are no longer of one kind.
    j = clopper_pearson(r, w, [980, 18, 2], weight_high=100)
    assert "exact" not in j.note
    assert j.high > i.high


def test_gamma_interval_is_the_exact_poisson_one_for_one_weight_level():
    w, r, c = np.array([2.0, 2.0, 2.0001]), np.array([0.0, 1.0, 0.0]), np.array([9000.0, 7.0, 1.0])
    i = clopper_pearson(r, w, c, weight_high=2.0001)
    low, high = stats.chi2.ppf(0.025, 14) / 2 / 9008, stats.chi2.ppf(0.975, 16) / 2 / 9008
    assert (i.low, i.high) == pytest.approx((low, high), rel=1e-3)


def test_swapping_successes_and_failures_mirrors_the_interval():
    rng = np.random.default_rng(0)
    w, r = rng.exponential(size=200), (rng.random(200) < 0.1) * 1.0
    a, b = clopper_pearson(r, w), clopper_pearson(1 - r, w)
    assert (a.low, a.high) == pytest.approx((1 - b.high, 1 - b.low))


def test_no_matched_unit_gives_the_whole_range():
    i = clopper_pearson([0.0, 1.0], [0.0, 0.0])
    assert (i.low, i.high) == (0, 1)
    assert "cannot say" in i.note
    with pytest.raises(DataError, match="neither"):
        clopper_pearson([0.0, 0.5])


def test_wealth_at_the_lower_limit_is_two_over_alpha():
    rng = np.random.default_rng(0)
    w, r = rng.choice([0.0, 2.0], size=300), rng.random(300)
    i = confidence_sequence(w, r, reward_low=0, reward_high=1, level=0.9)
    fractions = [0.99, *(0.5**k for k in range(1, 22))]
    wealth = np.mean([np.prod(1 - f + f * w * r / i.low) for f in fractions])
    assert wealth == pytest.approx(2 / 0.1, rel=1e-6)


def test_rounding_many_values_only_widens(monkeypatch):
    rng = np.random.default_rng(1)
    w, r = rng.exponential(size=3000), rng.random(3000)
    ranges = {"reward_low": 0, "reward_high": 1, "weight_high": 30.0}
    exact = confidence_sequence(w, r, **ranges)
    monkeypatch.setattr("offpolicy.inference.intervals.betting.DISTINCT", 100)
    rounded = confidence_sequence(w, r, **ranges)
    assert rounded.low <= exact.low
    assert rounded.high >= exact.high
    assert rounded.width == pytest.approx(exact.width, rel=0.02)


def test_misread_weights_empty_the_sequence_and_are_refused():
    rng = np.random.default_rng(3)
    with pytest.raises(DataError, match="propensities"):
        confidence_sequence(np.full(500, 5.0), rng.random(500), reward_low=0, reward_high=1)
