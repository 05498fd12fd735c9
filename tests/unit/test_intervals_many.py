"""Several policies, ratios, batches, trial sizes and tails against closed forms and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.inference.comparison import best
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.family import largest_t
from offpolicy.inference.intervals import (
    Pair,
    delta,
    effective_size,
    fieller,
    generalized_pareto,
    log_scale,
    past_scale,
    pooled,
    stabilized,
    summarize,
    tail_index,
    trial_for_means,
)
from offpolicy.inference.score_table import Units


def critical(cov, level=0.95):
    return np.quantile(largest_t(np.asarray(cov, dtype=float), draws=200_000), level)


def paired_estimates(means, cov, n=2000):
    """Estimates with exactly these values and this joint covariance."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, len(means)))
    x = np.linalg.qr(x - x.mean(axis=0))[0] * n
    scores = np.asarray(means) + x @ np.linalg.cholesky(np.asarray(cov)).T
    units = Units(n)
    return {name: Estimate.from_scores(s, units=units) for name, s in zip("abc", scores.T, strict=False)}


def test_independent_estimates_have_the_sidak_critical_value():
    sidak = stats.norm.ppf(0.5 + 0.95 ** (1 / 5) / 2)
    assert critical(np.eye(5)) == pytest.approx(sidak, abs=0.01)


def test_identical_estimates_cost_nothing():
    assert critical(np.ones((4, 4))) == pytest.approx(1.96, abs=0.015)


def test_an_estimate_without_variance_does_not_count():
    assert critical(np.diag([1.0, 0.0])) == pytest.approx(1.96, abs=0.015)


def test_best_policy_names_its_error_rate():
    found = best(paired_estimates([0.0, 0.1, 3.0], np.eye(3) * 0.1), (), 0.95)
    assert found.settled
    assert found.leader == "c"
    assert found.statement == "c is the best policy (5% error rate)."
    assert found.margin > 0
    open_ = best(paired_estimates([0.0, 2.9, 3.0], np.eye(3) * 0.1), (), 0.95)
    assert open_.names == ("b", "c")
    assert "Either b or c is best" in open_.statement
    assert open_.margin < 0


def test_paired_policies_separate_where_unpaired_ones_do_not():
    paired = np.array([[1.0, 0.99], [0.99, 1.0]])
    assert best(paired_estimates([0.0, 0.5], paired), (), 0.95).settled
    assert not best(paired_estimates([0.0, 0.5], np.eye(2)), (), 0.95).settled


def test_a_single_policy_is_the_best_one():
    assert best(paired_estimates([1.0], [[1.0]]), (), 0.95).settled


def test_fieller_ends_invert_the_test():
    pair = Pair(0.5, 0.4, 0.01, 0.004, 0.003)
    i = fieller(pair, 0.9)
    z2 = stats.norm.ppf(0.95) ** 2
    for rho in (i.low + 1, i.high + 1):
        variance = 0.01 - 2 * rho * 0.003 + rho**2 * 0.004
        assert (0.5 - rho * 0.4) ** 2 == pytest.approx(z2 * variance)
    assert i.low < pair.lift < i.high


def test_fieller_says_when_it_is_unbounded():
    outside = fieller(Pair(1.0, 0.1, 0.01, 0.01))
    assert (outside.low, outside.high) == (-math.inf, math.inf)
    assert "everything outside" in outside.note
    anything = fieller(Pair(0.1, 0.1, 0.01, 0.01))
    assert "no lift can be excluded" in anything.note


def test_fieller_and_delta_agree_when_the_baseline_is_precise():
    pair = Pair(0.5, 0.4, 1e-6, 1e-6, 5e-7)
    f, d, g = fieller(pair), delta(pair), log_scale(pair)
    assert (f.low, f.high) == pytest.approx((d.low, d.high), abs=0.01 * d.width)
    assert (g.low, g.high) == pytest.approx((d.low, d.high), abs=0.01 * d.width)


def test_ratios_without_a_meaning_are_refused():
    with pytest.raises(NotIdentifiedError):
        delta(Pair(1.0, 0.0, 1.0, 1.0))
    with pytest.raises(NotIdentifiedError, match="positive"):
        log_scale(Pair(-1.0, 1.0, 1.0, 1.0))
    with pytest.raises(DataError):
        Pair(1.0, 1.0, 1.0, 1.0, 2.0)


def test_batches_by_a_plain_loop():
    rng = np.random.default_rng(0)
    psi, batch = rng.normal(size=90), rng.integers(0, 4, size=90)
    b = summarize(psi, batch)
    groups = [psi[batch == k] for k in range(4)]
    np.testing.assert_allclose(b.mean, [g.mean() for g in groups])
    np.testing.assert_allclose(b.variance, [g.var(ddof=1) for g in groups])
    p = pooled(b)
    assert p.estimate == pytest.approx(psi.mean())
    expected = sum(len(g) * g.var(ddof=1) for g in groups) / 90**2
    assert p.std_error == pytest.approx(math.sqrt(expected))
    s = stabilized(b, [1.0, 2.0, 1.0, 4.0])
    h = np.array([len(g) for g in groups]) / np.array([1.0, 2.0, 1.0, 4.0])
    assert s.estimate == pytest.approx(h @ b.mean / h.sum())
    np.testing.assert_allclose(s.weights, h / h.sum())
    variance = sum(h[k] ** 2 * groups[k].var(ddof=1) / len(groups[k]) for k in range(4))
    assert s.std_error == pytest.approx(math.sqrt(variance) / h.sum())


def test_batch_counts_are_frequencies():
    psi, batch, count = (np.array([0.0, 1.0, 2.0, 5.0]), np.array([0, 0, 1, 1]), np.array([3, 2, 2, 4]))
    a = summarize(psi, batch, count)
    b = summarize(np.repeat(psi, count), np.repeat(batch, count))
    np.testing.assert_allclose(a.mean, b.mean)
    np.testing.assert_allclose(a.variance, b.variance)


def test_past_scale_never_looks_at_its_own_batch():
    rng = np.random.default_rng(0)
    psi, batch = rng.normal(size=60), np.repeat([0, 1, 2], 20)
    first = past_scale(summarize(psi, batch))
    psi[40:] *= 100
    np.testing.assert_array_equal(first, past_scale(summarize(psi, batch)))
    assert first[0] == math.inf
    assert first[1] == pytest.approx(psi[:20].std(ddof=1))
    assert stabilized(summarize(psi, batch)).weights[0] == 0


def test_small_batches_are_refused():
    with pytest.raises(DataError, match="batch 1"):
        summarize([1.0, 2.0, 3.0], [0, 0, 1])
    with pytest.raises(DataError, match="time order"):
        summarize([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(UsageError, match="2 batches"):
        past_scale(summarize([1.0, 2.0], [0, 0]))


def test_trial_reaches_its_power():
    p0, p1 = 0.05, 0.06
    size = trial_for_means(0.01, p0 * (1 - p0), p1 * (1 - p1), power=0.9)
    se = math.sqrt(p0 * (1 - p0) / size.control + p1 * (1 - p1) / size.treatment)
    power = stats.norm.sf(stats.norm.ppf(0.975) - 0.01 / se)
    assert power == pytest.approx(0.9, abs=0.001)
    assert size.total == size.control + size.treatment


def test_unequal_arms_need_more_units():
    even = trial_for_means(0.1, 1.0)
    uneven = trial_for_means(0.1, 1.0, treatment_share=0.1)
    assert uneven.total > 2.5 * even.total
    assert uneven.treatment == pytest.approx(uneven.total / 10, abs=1)


def test_trials_that_cannot_be_are_refused():
    for call in (
        lambda: trial_for_means(0.0, 1.0),
        lambda: trial_for_means(0.1, -1.0),
        lambda: trial_for_means(0.1, 1.0, power=1.0),
        lambda: trial_for_means(0.1, 1.0, treatment_share=1.0),
    ):
        with pytest.raises(UsageError):
            call()


def test_effective_size_by_hand():
    assert effective_size([1.0, 3.0]) == pytest.approx(16 / 10)
    assert effective_size([0.0, 0.0]) == 0


@pytest.mark.parametrize("k", [-0.3, 0.0, 0.4, 0.9])
def test_generalized_pareto_recovers_its_shape(k):
    x = stats.genpareto.rvs(k, scale=2.0, size=20_000, random_state=0)
    shape, scale = generalized_pareto(x)
    assert shape == pytest.approx(k, abs=0.03)
    assert scale == pytest.approx(2.0, rel=0.05)
    by_likelihood, _, _ = stats.genpareto.fit(x, floc=0)
    assert shape == pytest.approx(by_likelihood, abs=0.02)


@pytest.mark.parametrize("alpha", [1.2, 2.0, 5.0])
def test_tail_index_of_pareto_weights(alpha):
    w = np.random.default_rng(0).pareto(alpha, size=200_000) + 1
    assert tail_index(w) == pytest.approx(1 / alpha, abs=0.1)


def test_tail_index_counts_and_edge_cases():
    rng = np.random.default_rng(1)
    w, c = rng.pareto(1.5, size=500), rng.integers(0, 4, size=500)
    assert tail_index(w, c) == pytest.approx(tail_index(np.repeat(w, c)))
    assert math.isnan(tail_index([1.0, 2.0]))
    assert tail_index(np.repeat([0.0, 5.0], [100, 400])) == -math.inf
    with pytest.raises(DataError, match="negative"):
        tail_index([-1.0, 2.0])


def drifting(rng, amplitude):
    """Shares of one arm that grow from .5 to .8 over 24 batches, under a season of the click rate."""
    psi, batch = [], []
    for b in range(24):
        share = 0.5 + 0.3 * b / 23
        rate = 0.3 * (1 + amplitude * np.sin(2 * np.pi * b / 24))
        taken = rng.random(400) < share
        psi.append(taken / share * (rng.random(400) < rate))
        batch.append(np.full(400, b))
    return np.concatenate(psi), np.concatenate(batch)


def test_batches_of_a_season_are_not_weighted_by_their_spread():
    refused = [
        not stabilized(summarize(*drifting(np.random.default_rng(k), 0.6))).interval().sufficient for k in range(40)
    ]
    assert all(refused)
    made = [stabilized(summarize(*drifting(np.random.default_rng(k), 0.0))) for k in range(200)]
    assert np.mean([not m.interval().sufficient for m in made]) < 0.12
    held = [m.interval().covers(0.3) for m in made if m.interval().sufficient]
    assert np.mean(held) > 0.92
    assert "same in every batch" in next(m for m in made if m.interval().sufficient).note
