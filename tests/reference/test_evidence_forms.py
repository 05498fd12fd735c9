"""Tails, pools of residuals and lumpiness: by loops and by hand, exactly at thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forms import said
from scipy import stats

from offpolicy.inference.intervals import evidence as ev
from offpolicy.inference.intervals import tails
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.tails import Moments, Pool

RNG = np.random.default_rng(21)


# -- tails -------------------------------------------------------------------------------------------------


def zhang_stephens(x):
    """Shape and scale, by loops over the candidates."""
    x = sorted(x)
    n = len(x)
    m = 30 + math.isqrt(n)
    quartile = x[math.floor(n / 4 + 0.5) - 1]
    made = []
    for j in range(1, m + 1):
        b = 1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * quartile)
        k = sum(math.log1p(-b * v) for v in x) / n
        made.append((n * (math.log(-b / k) - k - 1), b))
    best = max(profile for profile, _ in made)
    weights = [math.exp(profile - best) for profile, _ in made]
    b = sum(w * b for w, (_, b) in zip(weights, made, strict=True)) / sum(weights)
    k = sum(math.log1p(-b * v) for v in x) / n
    return k, -k / b


@pytest.mark.parametrize("n", [5, 22, 100, 401])
def test_the_fit_of_a_tail(n):
    x = RNG.pareto(1.7, size=n) + 0.01
    assert tails.generalized_pareto(x) == pytest.approx(zhang_stephens(x), rel=1e-9)
    c = RNG.integers(1, 4, size=n)
    long = np.repeat(x, c)
    assert tails.generalized_pareto(x, c) == pytest.approx(zhang_stephens(long), rel=1e-9)


@pytest.mark.parametrize(("n", "size"), [(21, 5), (25, 5), (100, 20), (224, 45), (225, 45), (226, 46), (900, 90)])
def test_the_units_of_a_tail(n, size):
    w = np.sort(RNG.pareto(1.5, size=n)) + 1
    expected = zhang_stephens(w[-size:] - w[-size - 1])[0]
    assert tails.tail_index(RNG.permutation(w)) == pytest.approx(expected, rel=1e-9)
    counted = tails.tail_index(np.append(w, [99.0]), np.append(np.ones(n), 0.0))
    assert counted == pytest.approx(expected, rel=1e-9)
    twice = np.repeat(w, 2)
    both = tails.tail_index(w, np.full(n, 2.0))
    assert both == pytest.approx(tails.tail_index(twice), rel=1e-9, nan_ok=True)


def test_tails_without_a_shape():
    assert math.isnan(tails.tail_index(np.arange(20.0)))
    assert tails.tail_index(np.ones(100)) == -math.inf
    assert tails.tail_index(np.append(np.ones(99), 1 + 1e-13)) == -math.inf
    for levels, fits in ((4, False), (5, True)):
        w = np.concatenate([np.ones(80), 2.0 + np.arange(20) % levels])
        assert math.isfinite(tails.tail_index(w)) is fits
    few = np.concatenate([np.ones(96), [2.0, 3.0, 4.0, 5.0]])  # four beyond the threshold
    assert math.isnan(tails.tail_index(few))
    assert math.isfinite(tails.tail_index(np.append(few, 6.0)))
    rounded = np.concatenate([np.ones(80), np.repeat([2.0, 3.0, 4.0, 5.0], 5) * (1 + 1e-12 * np.arange(20))])
    assert math.isnan(tails.tail_index(rounded))
    assert said(lambda: tails.tail_index([1.0, -1.0])) == "weights: 1 of 2 values (first: row 1 = -1.0) are negative."


def test_when_a_tail_is_visible():
    for n in (100, 1000, 100_000):
        limit = min(0.05, 0.3 * n**-0.3)
        for share, seen in ((0.999 * limit, False), (1.001 * limit, True)):
            largest = share * (n - 1) / (1 - share)
            assert tails.tail_is_visible([1.0, largest], [n - 1, 1]) is seen
            assert tails.tail_is_visible([1.0, largest, 1e9], [n - 1, 1, 0]) is seen
    assert not tails.tail_is_visible([0.0, 0.0])
    assert (tails.effective_size([0.0, 0.0]), tails.effective_size([1.0, 3.0], [2, 1])) == (0.0, 25 / 11)


# -- what the whole log shows ------------------------------------------------------------------------------


def test_moments_leave_out_what_is_not_predicted():
    e, m = np.array([1.0, math.nan, -3.0, 8.0]), np.array([2.0, 9.0, 1.0, 1.0])
    found, plain = Moments.of(e, m), Moments.of(np.array([1.0, 1.0, -3.0, 8.0]))
    for name in ("second", "third", "absolute", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), rel=1e-12)
    c = np.array([1.0, 1.0, -3.0, 8.0]) - 1.75
    assert (plain.second, plain.third, plain.absolute) == pytest.approx(
        ((c**2).mean(), (c**3).mean(), (abs(c) ** 3).mean())
    )
    assert (plain.low, plain.high) == pytest.approx((-4.75, 6.25))
    unweighted = Moments.of(np.array([math.nan, 2.0, 4.0]))
    assert (unweighted.second, unweighted.low, unweighted.high) == pytest.approx((1.0, -1.0, 1.0))
    massless = Moments.of(np.array([0.0, 2.0, 50.0]), np.array([1.0, 1.0, 0.0]))
    assert (massless.low, massless.high) == pytest.approx((-1.0, 1.0))


def test_moments_of_very_large_and_of_equal_residuals():
    for size, finite in ((0.99e100, True), (1.01e100, False)):
        found = Moments.of(np.array([size, -size, size]))
        assert [math.isfinite(v) for v in (found.second, found.third, found.absolute)] == [finite] * 3
        assert (found.low, found.high) == pytest.approx((-4 / 3 * size, 2 / 3 * size))
    for apart, flat in ((1e-9, True), (3e-9, False)):  # half of it against 1e-9 of the largest
        found = Moments.of(np.array([1.0, 1.0 + apart]))
        assert (found.second == 0) is flat
    assert Moments.of(np.zeros(3)) == Moments(0.0, 0.0, 0.0, 0.0, 0.0)


def test_pools():
    moments = Moments.of(np.array([-1.0, -1.0, 0.0, 6.0]))
    w, m = np.array([0.5, 2.0, 1.0]), np.array([2.0, 1.0, 3.0])
    square, cube = m @ w**2, m @ w**3
    skew = moments.third / moments.second**1.5
    for scale in (1.0, 1e-60, 1e60):
        found = Pool.of(moments, scale * w, m)
        assert found.skewness == pytest.approx(skew * cube / square**1.5)
        typical = scale * cube / square
        assert (found.low, found.high) == pytest.approx((typical * moments.low, typical * moments.high))
    mixed = Pool.of(moments, np.array([1.0, -2.0]))
    typical = 9 / 5
    assert (mixed.low, mixed.high) == pytest.approx((-typical * 5.0, typical * 5.0))
    lower = Pool.of(Moments.of(np.array([1.0, 1.0, 0.0, -6.0])), np.array([1.0, -2.0]))
    assert (lower.low, lower.high) == pytest.approx((-typical * 5.0, typical * 5.0))
    assert Pool.of(moments, np.zeros(2)) == Pool(0.0, 0.0, 0.0)
    assert Pool.of(Moments.of(np.ones(3)), w) == Pool(0.0, 0.0, 0.0)
    large = Moments(math.inf, math.inf, math.inf, -3.0, 4.0)
    assert Pool.of(large, w) == Pool(1.0, -3.0, 4.0)
    light = Moments.of(np.array([-1.0, 1.0]))  # no skewness, and lighter than the normal
    assert Pool.of(light, w).skewness == 0.0


# -- evidence ----------------------------------------------------------------------------------------------


def test_what_evidence_knows():
    w, r = np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 5.0])
    e = Evidence(w, r, np.array([1.0, 0.0, 2.0]))
    assert (e.weights.tolist(), e.rewards.tolist(), e.count.tolist(), e.units) == ([1, 3], [5, 5], [1, 2], 3.0)
    assert Evidence(w).units == Evidence(rewards=r).units == 3.0
    assert Evidence().units == 0.0
    full = Evidence(w, r, reward_low=5.0, reward_high=7.0, weight_high=4.0)
    assert (full.bounded_rewards, full.bounded_weights, full.binary, full.bounded_scores) == (True, True, True, False)
    for lost in ({"weights": None}, {"rewards": None}, {"reward_low": None}, {"reward_high": None}):
        other = Evidence(**({"weights": w, "rewards": r, "reward_low": 5.0, "reward_high": 7.0} | lost))
        assert not (other.bounded_rewards)
        assert not (other.binary)
    assert not Evidence(w, r, reward_low=5.0, reward_high=7.0, weight_high=4.0, is_value=False).bounded_weights
    assert not Evidence(w, r, reward_low=5.0, reward_high=7.0).bounded_weights
    assert not Evidence(w, r, reward_low=5.0, reward_high=8.0).binary
    assert Evidence(score_low=0.0, score_high=1.0).bounded_scores
    assert not Evidence(score_low=0.0).bounded_scores
    assert not Evidence(score_high=0.0).bounded_scores
    assert said(lambda: Evidence(w, r[:2])) == "2 rewards for 3 weights. Give one reward per weight."
    assert said(lambda: Evidence(count=w)) == "Counts need weights and rewards to count."


def test_ranges_that_are_understood():
    w, two = np.ones(4), np.array([3.0, 3.0, 9.0, 3.0])
    made = Evidence(w, two).completed()
    assert (made.reward_low, made.reward_high, made.constant) == (3.0, 9.0, False)
    assert Evidence(w, np.full(4, 3.0)).completed().constant
    for kept in (
        Evidence(w, np.arange(4.0)), Evidence(w, two, reward_low=0.0), Evidence(w, two, reward_high=9.0),
        Evidence(w), Evidence(w, two, is_complete=True),
    ):  # fmt: skip
        assert kept.completed() is kept


def kappa(e, c, x):
    return abs((c @ e**3) + x**3) / ((c @ e**2) + x**2) ** 1.5


def test_lumpiness_with_the_worst_unit_that_can_occur():
    num, den, c = np.array([1.0, 0.0, 9.0]), np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 2.0])
    s = Sample(num, den, c)
    e = num - s.estimate * den
    peak = np.abs(e).max()
    assert ev.lumpiness(s) == pytest.approx(max(kappa(e, c, x) for x in (0.0, peak, -peak)))
    known = Evidence(score_low=-20.0, score_high=6.0)
    ends = 3 * (6.0 - s.estimate), 3 * (-20.0 - s.estimate)
    assert ev.lumpiness(s, known) == pytest.approx(max(kappa(e, c, x) for x in (0.0, *ends)))
    w, r, m = np.array([0.5, 2.0]), np.array([1.0, 4.0]), np.array([3.0, 1.0])
    top = (3 * 0.5**3 + 2.0**3) / (3 * 0.5**2 + 2.0**2)  # a typical weight, whatever may occur
    for high in (None, 7.0):
        for is_value, center in ((True, s.estimate), (False, (1.5 * 1 + 2 * 4) / 3.5)):
            given = Evidence(w, r, m, reward_low=0.5, reward_high=4.5, weight_high=high, is_value=is_value)
            inside = min(max(center, 0.5), 4.5)
            ends = top * (4.5 - inside), top * (0.5 - inside)
            assert ev.lumpiness(s, given) == pytest.approx(max(kappa(e, c, x) for x in (0.0, *ends)))
    nothing = Evidence(np.zeros(2), r, m, reward_low=0.5, reward_high=4.5, weight_high=9.0, is_value=False)
    ends = 9 * (4.5 - 2.5), 9 * (0.5 - 2.5)
    assert ev.lumpiness(s, nothing) == pytest.approx(max(kappa(e, c, x) for x in (0.0, *ends)))
    heavy = Evidence(w, np.array([-8.0, 30.0]), m, heavy=True, is_complete=True)
    typical = (3 * 0.25 + 4) / 3.5
    ends = peak, -peak, typical * (30 - s.estimate), typical * (-8 - s.estimate)
    assert ev.lumpiness(s, heavy) == pytest.approx(max(kappa(e, c, x) for x in (0.0, *ends)))
    light = Evidence(w, np.array([-8.0, 30.0]), m, heavy=False, is_complete=True)
    assert ev.lumpiness(s, light) == pytest.approx(ev.lumpiness(s))
    assert ev.lumpiness(Sample.of_mean([2.0, 2.0])) == 1.0
    assert ev._heavy_rewards(Evidence(np.zeros(2), r, heavy=True), 0.0) == []


def test_lumpiness_is_not_below_that_of_the_whole_log():
    s = Sample.of_mean(np.tile([0.0, 1.0], 50))
    w, r = np.ones(4), np.arange(4.0)
    own = ev.lumpiness(s)
    for pool, found in ((Pool(0.9, -1.0, 1.0), 0.9), (Pool(1e-4, -1.0, 1.0), own)):
        assert ev.lumpiness(s, Evidence(w, r, pool=pool, heavy=False)) == pytest.approx(found)
    known = Evidence(w, r, reward_low=0.0, reward_high=3.0, pool=Pool(0.9, -1.0, 1.0))
    assert ev.lumpiness(s, known) < 0.9
    ranged = Evidence(score_low=0.0, score_high=1.0, pool=Pool(0.9, -1.0, 1.0))
    assert ev.lumpiness(s, ranged) < 0.9


def test_medians_and_heavy_rewards():
    assert tails.median(np.array([5.0, 1.0, 2.0])) == 2.0
    assert tails.median(np.array([1.0, 4.0]), np.array([3.0, 1.0])) == 1.0
    assert tails.median(np.array([1.0, 4.0]), np.array([2.0, 2.0])) == 2.5
    for k, heavy in ((0.05, False), (0.6, True)):
        x = stats.genpareto.rvs(k, size=20_000, random_state=np.random.default_rng(3))
        assert tails.has_heavy_tail(x) is heavy
        assert tails.has_heavy_tail(-x, np.ones(20_000)) is heavy
    units = ev.effective_units(Sample(np.ones(3), np.array([1.0, 2.0, 3.0])))
    assert units == pytest.approx(36 / 14)
    both = ev.effective_units(Sample.of_mean(np.arange(9.0)), Evidence(np.array([1.0, 2.0])))
    assert both == pytest.approx(9 / 5)
    assert ev.effective_units(Sample.of_mean(np.arange(2.0)), Evidence(np.ones(9))) == 2.0
