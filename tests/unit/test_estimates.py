"""`Estimate`: standard errors, differences, lifts, p-values, repetitions, against hand formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from offpolicy import Estimate
from offpolicy.errors import UsageError
from offpolicy.inference.score_table import Units, embedded

RNG = np.random.default_rng(0)
X, Y = RNG.normal(1, 1, size=80), RNG.normal(0.5, 2, size=80)
Y = Y + X


def test_mean_and_proposition_one():
    e = Estimate.from_scores(X)
    assert e.value == pytest.approx(X.mean())
    assert e.std_error == pytest.approx(np.sqrt(np.mean((X - X.mean()) ** 2) / 80))
    assert e.variance == pytest.approx(np.var(X))
    assert e.n == 80


def test_normal_interval():
    e = Estimate.from_scores(X)
    low, high = e.interval(0.9, "normal")
    z = stats.norm.ppf(0.95)
    assert (low, high) == pytest.approx((e.value - z * e.std_error, e.value + z * e.std_error))


def test_t_interval_is_students():
    expected = stats.ttest_1samp(X, 0.0).confidence_interval(0.9)
    assert tuple(Estimate.from_scores(X).interval(0.9, "t")) == pytest.approx(tuple(expected))
    with pytest.raises(UsageError, match="2 independent units"):
        Estimate.from_scores([1.0]).interval(0.9, "t")


def test_a_difference_is_paired():
    a, b = Estimate.from_scores(Y), Estimate.from_scores(X)
    d = a - b
    assert d.value == pytest.approx((Y - X).mean())
    assert d.std_error == pytest.approx(np.std(Y - X) / np.sqrt(80))
    assert d.std_error < math.hypot(a.std_error, b.std_error)
    assert (a - a).std_error == 0


def test_lift_by_the_delta_method():
    a, b = Estimate.from_scores(Y), Estimate.from_scores(X)
    ratio = Y.mean() / X.mean()
    by_hand = np.sqrt((np.var(Y) - 2 * ratio * np.cov(X, Y, bias=True)[0, 1] + ratio**2 * np.var(X)) / 80) / abs(
        X.mean()
    )
    assert a.lift(b).value == pytest.approx(ratio - 1)
    assert a.lift(b).std_error == pytest.approx(by_hand)
    with pytest.raises(UsageError, match="value is 0"):
        a.lift(Estimate.from_scores(np.zeros(80)))


def test_p_values_are_normal_tails():
    e = Estimate.from_scores(X)
    z = (e.value - 0.8) / e.std_error
    normal = {"method": "normal"}
    assert e.p_value(0.8, **normal) == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert e.p_value(0.8, "greater", **normal) == pytest.approx(stats.norm.sf(z))
    assert e.p_value(0.8, "less", **normal) == pytest.approx(stats.norm.cdf(z))
    with pytest.raises(UsageError, match="alternative="):
        e.p_value(0.0, "bigger")


def test_clusters_sum_inside():
    cluster = np.arange(80) // 4
    e = Estimate.from_scores(X, units=Units(80, cluster=cluster))
    sums = np.array([(X - X.mean())[cluster == g].sum() for g in range(20)])
    assert e.std_error == pytest.approx(np.sqrt((sums**2).sum()) / 80)
    assert (e.n, e.n_independent) == (80, 20)


def test_every_unit_its_own_cluster_is_no_cluster():
    alone = Estimate.from_scores(X, units=Units(80, cluster=np.random.default_rng(1).permutation(80)))
    assert alone.std_error == pytest.approx(Estimate.from_scores(X).std_error)


def test_duplicates_as_clusters_change_nothing():
    twice = Estimate.from_scores(np.repeat(X, 2), units=Units(160, cluster=np.repeat(np.arange(80), 2)))
    once = Estimate.from_scores(X)
    assert (twice.value, twice.std_error) == pytest.approx((once.value, once.std_error))


def test_weights_by_hand_and_scale_free():
    w = RNG.uniform(0.2, 3, size=80)
    e = Estimate.from_scores(X, units=Units(80, weight=w))
    value = np.average(X, weights=w)
    assert e.value == pytest.approx(value)
    assert e.std_error == pytest.approx(np.sqrt(((w * (X - value)) ** 2).sum()) / w.sum())
    scaled = Estimate.from_scores(X, units=Units(80, weight=10 * w))
    assert (scaled.value, scaled.std_error) == pytest.approx((e.value, e.std_error))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_counts_are_repeated_rows(weighted, clustered):
    count = RNG.integers(1, 5, size=80)
    again = np.repeat(np.arange(80), count)
    weight = RNG.uniform(0.5, 2, size=80) if weighted else None
    cluster = np.arange(80) // 3 if clustered else None

    def pick(a):
        return None if a is None else a[again]

    small = Estimate.from_scores(X, units=Units(80, count * 1.0, weight, cluster))
    large = Estimate.from_scores(X[again], units=Units(len(again), None, pick(weight), pick(cluster)))
    assert small.n == large.n == count.sum()
    assert small.n_independent == large.n_independent
    assert (small.value, small.std_error) == pytest.approx((large.value, large.std_error))
    assert small.interval(0.9, "t") == pytest.approx(tuple(large.interval(0.9, "t")))


def test_repetitions_follow_the_stated_rule():
    psi = RNG.normal(size=(3, 80)) + np.array([[0.0], [0.2], [-0.1]])
    e = Estimate.from_scores(psi)
    assert e.value == pytest.approx(psi.mean())
    assert e.std_error == pytest.approx(psi.mean(axis=0).std() / np.sqrt(80))
    assert e.fold_spread == pytest.approx(psi.mean(axis=1).std(ddof=1))
    assert math.isnan(Estimate.from_scores(psi[0]).fold_spread)


def test_repetitions_pair_with_a_single_one():
    psi = RNG.normal(size=(3, 80))
    d = Estimate.from_scores(psi) - Estimate.from_scores(X)
    assert d.psi.shape == (3, 80)
    np.testing.assert_allclose(d.psi, psi - X)
    with pytest.raises(UsageError, match="repetitions"):
        Estimate.from_scores(psi) - Estimate.from_scores(psi[:2])


def test_half_the_units_scored_as_all():
    rows = np.flatnonzero(np.arange(80) % 2)
    for units in (Units(80), Units(80, weight=RNG.uniform(0.5, 2, 80)), Units(80, np.full(80, 3.0))):
        psi, scored = embedded(X[rows], units, rows)
        e = Estimate.from_scores(psi, units=units)
        e.table.put("scored", scored)
        e = replace(e, scored="scored")
        w = units.mass
        value = np.average(X[rows], weights=w[rows])
        part, count = units.weight[rows], units.count[rows]
        square = (count * (part * (X[rows] - value)) ** 2).sum()
        assert e.value == pytest.approx(value)
        assert e.std_error == pytest.approx(np.sqrt(square) / w[rows].sum())
        assert e.n == units.total(scored)


def test_estimates_of_different_units_are_not_subtracted():
    with pytest.raises(UsageError, match="different units"):
        Estimate.from_scores(X) - Estimate.from_scores(X[:40])
    with pytest.raises(UsageError, match="different logs"):
        Estimate.from_scores(X) - Estimate.from_scores(X, units=Units(80, weight=np.arange(80) + 1.0))
    with pytest.raises(TypeError):
        Estimate.from_scores(X) - 1.0


def test_bad_levels_and_methods():
    e = Estimate.from_scores(X)
    for level in (0, 1, 95, -0.1):
        with pytest.raises(UsageError, match="level"):
            e.interval(level)
    with pytest.raises(UsageError, match="method"):
        e.interval(0.95, method="magic")


def test_an_estimate_of_nothing_is_not_a_number_and_says_so():
    e = replace(Estimate.from_scores(np.full(5, np.nan), label="new (IPW)"), notes=("no overlap",))
    assert math.isnan(e.value)
    assert math.isnan(e.std_error)
    assert all(math.isnan(end) for end in e.interval())
    assert math.isnan(e.p_value())
    assert "no overlap" in repr(e)
