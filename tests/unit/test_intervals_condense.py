"""Cells, their points and what a condensed sample keeps, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offpolicy._arrays import quantiles
from offpolicy.inference.condense import condense, condense_evidence
from offpolicy.inference.intervals import Evidence, Sample
from offpolicy.inference.intervals.cells import CellSums, Scale, Table, lower_points, pointed, points, two_points


def cells(seed: int, rows: int = 400, number: int = 7):
    rng = np.random.default_rng(seed)
    a, x = rng.uniform(1, 2, size=rows), rng.exponential(size=rows)
    return rng.integers(0, number, size=rows), a, a * x, rng.integers(1, 5, size=rows) * 1.0


def test_two_points_have_the_moments_of_a_skewed_sample():
    x = np.random.default_rng(0).lognormal(size=1000)
    away = x - x.mean()
    low, high, share = two_points(np.array([(away**2).mean()]), np.array([(away**3).mean()]))
    at, mass = np.array([low[0], high[0]]), np.array([share[0], 1 - share[0]])
    for power in (1, 2, 3):
        assert mass @ at**power == pytest.approx((away**power).mean(), abs=1e-12)
    assert away.min() <= at.min()
    assert at.max() <= away.max()


@pytest.mark.parametrize("seed", range(5))
def test_points_keep_the_sums_of_their_cell(seed):
    cell, a, b, c = cells(seed)
    p = points(CellSums.of(cell, 7, a, b, c))
    for k in range(7):
        here, n = cell == k, p.count[:, k]
        for power in (
            lambda a, b: np.ones_like(a), lambda a, b: a, lambda a, b: a**2, lambda a, b: a**3,
            lambda a, b: b, lambda a, b: a * b, lambda a, b: b**2,
        ):  # fmt: skip
            expected = c[here] @ power(a[here], b[here])
            assert n @ power(p.a[:, k], p.b[:, k]) == pytest.approx(expected, rel=1e-10)


def test_sums_may_be_taken_from_any_origin():
    cell, a, b, c = cells(1)
    near = CellSums.of(cell, 7, a, b, c)
    zero = np.zeros(7)
    plain = [c, c * a, c * b, c * a * a, c * a * b, c * b * b]
    plain += [c * a**3, c * a * a * b, c * a * b * b, c * b**3]
    far = CellSums(*(np.bincount(cell, x) for x in plain), zero, zero)
    for one, other in ((points(near).a, points(far).a), (points(near).b, points(far).b)):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_constant_size_keeps_third_moments_of_the_scores():
    rng = np.random.default_rng(2)
    b = rng.lognormal(size=500)
    p = points(CellSums.of(np.zeros(500, dtype=int), 1, np.ones(500), b, np.ones(500)))
    assert (p.count * p.b**3).sum() == pytest.approx((b**3).sum(), rel=1e-12)
    assert (p.a == 1).all()


def test_lower_points_never_win_more():
    rng = np.random.default_rng(3)
    x, c = rng.exponential(size=3000), np.ones(3000)
    few, count = lower_points(x, c, (x * 5).astype(int), 1 + int(x.max() * 5))
    assert count @ few == pytest.approx(x.sum())
    for s in (1e-3, 0.1, 1.0, 10.0):
        many = np.log1p(s * x).sum()
        assert 0.98 * many <= count @ np.log1p(s * few) <= many


def test_cells_do_not_reach_across_the_middle_or_zero():
    rng = np.random.default_rng(4)
    a = rng.choice([0.0, 1e-9, 1.0], size=20_000)
    x = np.where(rng.random(20_000) < 0.3, 0.0, rng.normal(size=20_000) * 1e-6)
    few = pointed(Table(a, x, np.ones(20_000)), Scale(0.0, 1.0, 0.0))
    for sign in (-1, 0, 1):
        for zero in (True, False):
            whole = ((np.sign(x) == sign) & ((a == 0) == zero)).sum()
            part = few.count[(np.sign(few.x) == sign) & ((few.a == 0) == zero)].sum()
            assert part == pytest.approx(whole)


def test_a_condensed_sample_keeps_its_ends_and_its_sums():
    rng = np.random.default_rng(5)
    size = rng.exponential(size=100_000)
    s = Sample(size * rng.standard_t(3, size=100_000), size)
    few = condense(s, 0)
    assert len(few.numerator) < 40_000
    for a, b in ((s.residual, few.residual), (s.denominator, few.denominator)):
        assert b.max() == pytest.approx(a.max(), rel=1e-12)
    assert few.residual.min() == pytest.approx(s.residual.min(), rel=1e-12)
    assert few.estimate == pytest.approx(s.estimate, rel=1e-12)
    assert few.std_error == pytest.approx(s.std_error, rel=1e-12)
    assert (few.denominator >= 0).all()


def test_condensed_evidence_keeps_its_ends_its_median_and_its_sums():
    rng = np.random.default_rng(6)
    w, r = rng.lognormal(size=100_001), rng.lognormal(sigma=2, size=100_001)
    few = condense_evidence(Evidence(w, r), 0)
    assert few.units == pytest.approx(100_001, rel=1e-12)
    assert quantiles(few.rewards, [0.5], few.count)[0] == quantiles(r, [0.5])[0]
    assert (few.weights.max(), few.rewards.min(), few.rewards.max()) == (w.max(), r.min(), r.max())
    pairs = ((few.weights, w), (few.weights**2, w**2), (few.weights * few.rewards, w * r))
    for part, whole in (*pairs, ((few.weights * few.rewards) ** 2, (w * r) ** 2)):
        assert few.count @ part == pytest.approx(whole.sum(), rel=1e-11)
    tail = np.sort(np.abs(r - quantiles(r, [0.5])[0]))[-948:]
    assert np.isin(tail, np.abs(few.rewards - quantiles(r, [0.5])[0])).all()


def test_evidence_may_be_of_weights_or_rewards_alone():
    x = np.random.default_rng(7).exponential(size=50_000)
    weights = condense_evidence(Evidence(x), 0)
    assert weights.rewards is None
    assert weights.count @ weights.weights == pytest.approx(x.sum())
    rewards = condense_evidence(Evidence(rewards=x), 0)
    assert rewards.weights is None
    assert rewards.count @ rewards.rewards == pytest.approx(x.sum())


def test_small_samples_are_left_alone():
    s, e = Sample.of_mean(np.arange(9.0)), Evidence(np.ones(9))
    assert condense(s) is s
    assert condense_evidence(e) is e
    assert condense_evidence(Evidence(score_low=0.0)).score_low == 0


def test_odd_cells_keep_their_rows():
    # The reward is a step of the weight inside every cell: no four points on a line fit it.
    w = np.tile(np.linspace(1, 1.0001, 50), 400)
    r = np.where(np.arange(20_000) % 50 < 48, 0.0, 1e-4) + np.repeat(np.arange(400), 50)
    few = pointed(Table(w, r, np.ones(20_000)), Scale(200.0, 115.0))
    assert few.count.sum() == pytest.approx(20_000)
    assert r.min() <= few.x.min()
    assert few.x.max() <= r.max()
    assert few.count @ (few.a * few.x) == pytest.approx((w * r).sum(), rel=1e-12)


def test_quantiles_count():
    rng = np.random.default_rng(8)
    x, c = rng.normal(size=200), rng.integers(0, 4, size=200) * 1.0
    shares = [0.0, 0.1, 0.5, 0.73, 1.0]
    rows = rng.permutation(np.repeat(x, c.astype(int)))
    np.testing.assert_array_equal(quantiles(x, shares, c), quantiles(rows, shares))
    expected = np.quantile(rows, shares, method="inverted_cdf")
    np.testing.assert_array_equal(quantiles(rows, shares), expected)
    assert math.isclose(quantiles(np.array([1.0, 2.0]), [0.5])[0], 1.0)
