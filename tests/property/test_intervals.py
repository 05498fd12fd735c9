"""Invariances that every interval must have, whatever the data."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpolicy.inference.intervals import (
    Evidence,
    Pair,
    Sample,
    acceleration,
    automatic,
    bca,
    bootstrap,
    cautious_likelihood,
    clopper_pearson,
    confidence_sequence,
    cressie_read,
    delta,
    effective_size,
    empirical_bernstein,
    empirical_likelihood,
    fieller,
    hoeffding,
    log_scale,
    lumpiness,
    normal,
    student,
    tail_index,
)

OF_SAMPLES = [normal, student, empirical_likelihood, cautious_likelihood]
RESAMPLED = [partial(bootstrap, number=60), partial(bca, number=60)]
OF_WEIGHTS = [
    partial(cressie_read, weight_high=20.0, reward_low=0.0, reward_high=1.0),
    partial(confidence_sequence, reward_low=0.0, reward_high=1.0),
    partial(confidence_sequence, weight_high=20.0, reward_low=0.0, reward_high=1.0),
]


@st.composite
def samples(draw, *, ratio=True):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(2, 15))
    num = np.round(rng.normal(size=rows) * rng.choice([1, 10]), 2)
    den = np.round(rng.exponential(size=rows) + 0.1, 2) if ratio else np.ones(rows)
    return Sample(num, den, rng.integers(1, 6, size=rows).astype(float))


@st.composite
def weighted(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(2, 12))
    # Two-point weights and their mirror keep the mean near 1, as importance weights have it.
    w = np.concatenate([rng.choice([0.0, 0.5, 1.0], size=rows), rng.choice([1.0, 2.0], size=rows)])
    r = np.round(rng.random(2 * rows), 2)
    return w, r, rng.integers(1, 6, size=2 * rows).astype(float)


def ends(i):
    return np.array([i.low, i.high])


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def same(a, b):
    """Whether two intervals agree to 1e-9 of their width."""
    np.testing.assert_allclose(ends(a), ends(b), rtol=1e-12, atol=1e-9 * a.width)
    assert (a.method, a.note, a.sufficient) == (b.method, b.note, b.sufficient)


def expanded(rng, count, *columns):
    """The units that counted rows stand for, shuffled, with rounding of their own."""
    rows = rng.permutation(np.repeat(np.arange(len(count)), count.astype(int)))
    noise = 1 - 1e-13 * rng.random(len(rows))
    return columns[0][rows] * noise, *(x[rows] for x in columns[1:])


@pytest.mark.parametrize("method", OF_SAMPLES + RESAMPLED)
@given(s=samples(), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_counts_equal_repeated_rows_in_any_order(method, s, seed):
    rows = expanded(np.random.default_rng(seed), s.count, s.numerator, s.denominator)
    same(method(s), method(Sample(*rows)))


@pytest.mark.parametrize("method", OF_SAMPLES + RESAMPLED)
@pytest.mark.parametrize("unequal", [False, True])
def test_many_counts_equal_repeated_rows_in_any_order(method, unequal):
    rng = np.random.default_rng(8)
    size = rng.integers(1, 9, size=5_000) * 1.0 if unequal else np.ones(5_000)
    s = Sample(np.round(rng.pareto(1.5, size=5_000), 2), size, rng.integers(1, 6, size=5_000))
    same(method(s), method(Sample(*expanded(rng, s.count, s.numerator, s.denominator))))


@given(data=st.deferred(weighted), seed=st.integers(0, 1000), binary=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_choice_is_that_of_the_repeated_rows(data, seed, binary):
    w, r, c = data
    r = np.round(r) if binary else 5 * r
    rows = expanded(np.random.default_rng(seed), c, w, r)
    for high in (None, 20.0):
        counted = automatic(Sample.of_mean(w * r, c), Evidence(w, r, c, high))
        same(counted, automatic(Sample.of_mean(rows[0] * rows[1]), Evidence(*rows, None, high)))


@pytest.mark.parametrize("method", OF_SAMPLES)
@given(s=samples(), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
@settings(max_examples=40, deadline=None)
def test_scale_and_shift_equivariance(method, s, scale, shift):
    moved = Sample(scale * s.numerator + shift * s.denominator, s.denominator, s.count)
    np.testing.assert_allclose(ends(method(moved)), scale * ends(method(s)) + shift, rtol=1e-6, atol=1e-6 * (1 + scale))


@pytest.mark.parametrize("method", OF_SAMPLES)
@given(s=samples(), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_order_of_units_is_irrelevant(method, s, seed):
    order = np.random.default_rng(seed).permutation(len(s.numerator))
    mixed = Sample(s.numerator[order], s.denominator[order], s.count[order])
    close(ends(method(mixed)), ends(method(s)))


@pytest.mark.parametrize("method", OF_SAMPLES)
@given(s=samples())
@settings(max_examples=30, deadline=None)
def test_levels_are_nested_around_the_estimate(method, s):
    narrow, wide = method(s, 0.8), method(s, 0.95)
    slack = 1e-9 * (1 + abs(s.estimate))
    assert wide.low - slack <= narrow.low <= s.estimate + slack
    assert s.estimate - slack <= narrow.high <= wide.high + slack


@given(s=samples(), extra=st.floats(0, 10))
@settings(max_examples=40, deadline=None)
def test_knowing_a_wider_range_never_narrows_the_likelihood_interval(s, extra):
    x = s.numerator / s.denominator
    tight = empirical_likelihood(s, low=x.min(), high=x.max())
    wide = empirical_likelihood(s, low=x.min() - extra, high=x.max() + extra)
    plain = empirical_likelihood(s)
    assert wide.low <= tight.low + 1e-9 <= plain.low + 2e-9
    assert wide.high >= tight.high - 1e-9 >= plain.high - 2e-9


@pytest.mark.parametrize("method", [hoeffding, empirical_bernstein])
@given(s=samples(ratio=False))
@settings(max_examples=30, deadline=None)
def test_concentration_bounds_stay_in_range_and_count(method, s):
    low, high = float(s.numerator.min()), float(s.numerator.max()) + 1
    i = method(s, low=low, high=high)
    assert low <= i.low <= s.estimate <= i.high <= high
    rows = Sample.of_mean(np.repeat(s.numerator, s.count.astype(int)))
    close(ends(i), ends(method(rows, low=low, high=high)))


@given(s=samples())
@settings(max_examples=40, deadline=None)
def test_acceleration_and_lumpiness_count(s):
    c = s.count.astype(int)
    rows = Sample(np.repeat(s.numerator, c), np.repeat(s.denominator, c))
    assert acceleration(s) == pytest.approx(acceleration(rows), rel=1e-8, abs=1e-12)
    assert lumpiness(s) == pytest.approx(lumpiness(rows), rel=1e-8)


@pytest.mark.parametrize("method", OF_WEIGHTS)
@given(data=weighted())
@settings(max_examples=40, deadline=None)
def test_weighted_intervals_count_permute_and_stay_in_range(method, data):
    w, r, c = data
    i = method(w, r, c)
    assert 0 <= i.low <= i.high <= 1
    close(ends(i), ends(method(np.repeat(w, c.astype(int)), np.repeat(r, c.astype(int)))))
    close(ends(i), ends(method(w[::-1], r[::-1], c[::-1])))


@pytest.mark.parametrize("method", OF_WEIGHTS)
@given(data=weighted())
@settings(max_examples=40, deadline=None)
def test_mirrored_rewards_mirror_the_interval(method, data):
    w, r, c = data
    close(ends(method(w, 1 - r, c)), 1 - ends(method(w, r, c))[::-1])


@given(data=weighted(), scale=st.floats(0.1, 50), shift=st.floats(-5, 5))
@settings(max_examples=40, deadline=None)
def test_weight_likelihood_follows_the_reward_scale(data, scale, shift):
    w, r, c = data
    base = ends(cressie_read(w, r, c, weight_high=20, reward_low=0, reward_high=1))
    low, high = shift, shift + scale
    moved = np.clip(shift + scale * r, low, high)
    found = cressie_read(w, moved, c, weight_high=20, reward_low=low, reward_high=high)
    np.testing.assert_allclose(ends(found), shift + scale * base, rtol=1e-6, atol=1e-6 * scale)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 10), factor=st.floats(1, 50))
@settings(max_examples=60, deadline=None)
def test_a_looser_weight_bound_never_narrows(seed, rows, factor):
    # Weights that average exactly 1: the likelihood the region is measured against is then the
    # empirical one under either bound, so the two regions are nested.
    rng = np.random.default_rng(seed)
    half = np.round(rng.random(rows), 2)
    w, r = np.concatenate([1 - half, 1 + half]), rng.random(2 * rows)
    tight = cressie_read(w, r, weight_high=2.0, reward_low=0, reward_high=1)
    loose = cressie_read(w, r, weight_high=2.0 * factor, reward_low=0, reward_high=1)
    assert loose.low <= tight.low + 1e-8
    assert loose.high >= tight.high - 1e-8


@given(x=st.integers(0, 30), n=st.integers(1, 30), level=st.floats(0.5, 0.99))
@settings(max_examples=60, deadline=None)
def test_clopper_pearson_tail_probabilities(x, n, level):
    from scipy import stats

    x = min(x, n)
    i = clopper_pearson([0.0, 1.0], count=[n - x, x], level=level)
    tail = (1 - level) / 2
    if x > 0:
        assert stats.binom.sf(x - 1, n, i.low) == pytest.approx(tail, rel=1e-6)
    if x < n:
        assert stats.binom.cdf(x, n, i.high) == pytest.approx(tail, rel=1e-6)


@given(
    e=st.floats(0.1, 10),
    d=st.floats(0.1, 10),
    ve=st.floats(1e-6, 0.1),
    vd=st.floats(1e-6, 0.1),
    rho=st.floats(-0.9, 0.9),
)
@settings(max_examples=100, deadline=None)
def test_lifts_are_invariant_to_the_unit_of_reward(e, d, ve, vd, rho):
    pair = Pair(e, d, ve, vd, rho * (ve * vd) ** 0.5)
    cents = Pair(100 * e, 100 * d, 1e4 * ve, 1e4 * vd, 1e4 * rho * (ve * vd) ** 0.5)
    for method in (delta, fieller, log_scale):
        np.testing.assert_allclose(ends(method(pair)), ends(method(cents)), rtol=1e-5, atol=1e-7)
        assert method(pair).low <= pair.lift <= method(pair).high


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_tails_do_not_depend_on_the_scale_of_the_weights(seed, scale):
    w = np.random.default_rng(seed).pareto(2.0, size=300)
    assert tail_index(scale * w) == pytest.approx(tail_index(w), rel=1e-6, abs=1e-8)
    assert effective_size(scale * w) == pytest.approx(effective_size(w))
    assert 1 <= effective_size(w) <= 300
