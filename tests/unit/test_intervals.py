"""Samples, Wald intervals, bootstrap and concentration bounds against closed forms and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.inference.intervals import (
    Sample,
    acceleration,
    bca,
    bootstrap,
    empirical_bernstein,
    hoeffding,
    normal,
    replicates,
    student,
)


@pytest.fixture
def ratio() -> Sample:
    rng = np.random.default_rng(4)
    den = rng.exponential(size=40) + 0.1
    return Sample(den * rng.normal(1, 1, size=40), den)


def test_standard_error_divides_by_n():
    x = np.random.default_rng(0).normal(size=50)
    s = Sample.of_mean(x)
    assert s.estimate == pytest.approx(x.mean())
    assert s.std_error == pytest.approx(x.std(ddof=0) / math.sqrt(50))


def test_clustered_standard_error_is_the_sum_over_clusters():
    rng = np.random.default_rng(1)
    psi, weight, cluster = rng.normal(size=60), rng.random(60), rng.integers(0, 9, size=60)
    theta = (weight * psi).sum() / weight.sum()
    total = 0.0
    for g in range(9):
        inside = cluster == g
        total += (weight[inside] * (psi[inside] - theta)).sum() ** 2
    s = Sample(np.bincount(cluster, weight * psi), np.bincount(cluster, weight))
    assert s.estimate == pytest.approx(theta)
    assert s.std_error == pytest.approx(math.sqrt(total) / weight.sum())


@pytest.mark.parametrize(
    ("num", "den", "count", "error"),
    [
        ([1.0, math.nan], [1.0, 1.0], None, DataError),
        ([1.0, 2.0], [1.0], None, DataError),
        ([], [], None, DataError),
        ([1.0], [1.0], [-1.0], DataError),
        ([1.0], [1.0], [0.0], DataError),
        ([0.0, 0.0], [0.0, 0.0], None, NotIdentifiedError),
    ],
)
def test_bad_samples_are_refused(num, den, count, error):
    with pytest.raises(error):
        Sample(np.array(num), np.array(den), None if count is None else np.array(count))


def test_no_overlap_is_said_aloud():
    with pytest.raises(NotIdentifiedError, match="overlap"):
        Sample(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_level_is_checked(level):
    with pytest.raises(UsageError, match="level"):
        normal(Sample.of_mean([0.0, 1.0]), level)


def test_normal_and_student_match_scipy():
    x = np.random.default_rng(2).normal(size=12)
    i = normal(Sample.of_mean(x), 0.9)
    assert (i.low, i.high) == pytest.approx(stats.norm.interval(0.9, x.mean(), x.std() / 12**0.5))
    i = student(Sample.of_mean(x), 0.9)
    assert (i.low, i.high) == pytest.approx(stats.t.interval(0.9, 11, x.mean(), stats.sem(x)))


def test_zero_width_is_not_called_precision():
    same = Sample.of_mean(np.zeros(10))
    for i in (normal(same), student(same), bootstrap(same, number=10)):
        assert i.width == 0
        assert "not precision" in i.note


def test_student_needs_two_units():
    with pytest.raises(UsageError):
        student(Sample.of_mean([1.0]))


def test_bootstrap_matches_scipys_percentile_and_bca():
    x = np.random.default_rng(3).exponential(size=60)
    for ours, name in ((bootstrap, "percentile"), (bca, "BCa")):
        theirs = stats.bootstrap(
            (x,), np.mean, n_resamples=20_000, method=name, rng=np.random.default_rng(0)
        ).confidence_interval
        i = ours(Sample.of_mean(x), number=20_000, seed=1)
        assert i.low == pytest.approx(theirs.low, abs=0.01)
        assert i.high == pytest.approx(theirs.high, abs=0.015)


def test_acceleration_is_the_jackknifes_by_leaving_units_out(ratio):
    num, den = ratio.numerator, ratio.denominator
    left = np.array([np.delete(num, g).sum() / np.delete(den, g).sum() for g in range(40)])
    gap = left.mean() - left
    expected = (gap**3).sum() / (6 * (gap**2).sum() ** 1.5)
    assert acceleration(ratio) == pytest.approx(expected)


def test_bootstrap_of_counts_and_of_rows_have_the_same_spread():
    rows = Sample.of_mean(np.repeat([0.0, 1.0, 5.0], [60, 30, 10]))
    cells = Sample.of_mean([0.0, 1.0, 5.0], count=[60, 30, 10])
    a, b = replicates(rows, number=8000, seed=0), replicates(cells, number=8000, seed=0)
    assert a.std() == pytest.approx(rows.std_error, rel=0.04)
    assert b.std() == pytest.approx(rows.std_error, rel=0.04)
    assert b.mean() == pytest.approx(rows.estimate, abs=0.01)


def test_bootstrap_seed_and_chunks_do_not_change_the_result(monkeypatch, ratio):
    first = replicates(ratio, number=50, seed=9)
    monkeypatch.setattr("offpolicy.inference.intervals.resample.CHUNK", 130)
    np.testing.assert_array_equal(first, replicates(ratio, number=50, seed=9))
    cells = Sample(ratio.numerator, ratio.denominator, np.arange(40.0))
    small = replicates(cells, number=50, seed=9)
    monkeypatch.undo()
    np.testing.assert_allclose(small, replicates(cells, number=50, seed=9))
    assert not np.array_equal(first, replicates(ratio, number=50, seed=10))


def test_bootstrap_leaves_out_replicates_without_weight():
    s = Sample(np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    i = bootstrap(s, number=200)
    assert "had no weight" in i.note
    assert (i.low, i.high) == (1.0, 1.0)


def test_bootstrap_refuses_fractional_counts():
    with pytest.raises(UsageError, match="whole counts"):
        bootstrap(Sample.of_mean([0.0, 1.0], count=[1.5, 2.0]))


def test_concentration_bounds_match_their_formulas():
    x = np.random.default_rng(5).random(2000)
    s = Sample.of_mean(x)
    i = hoeffding(s, 0.9, low=0, high=1)
    assert i.width / 2 == pytest.approx(math.sqrt(math.log(20) / 4000))
    i = empirical_bernstein(s, 0.9, low=0, high=1)
    log_term = math.log(40)
    half = math.sqrt(2 * x.var(ddof=1) * log_term / 2000) + 7 * log_term / (3 * 1999)
    assert i.width / 2 == pytest.approx(half)


def test_concentration_bounds_refuse_what_they_do_not_cover():
    with pytest.raises(DataError, match="outside"):
        hoeffding(Sample.of_mean([0.0, 2.0]), low=0, high=1)
    with pytest.raises(UsageError, match="sizes"):
        empirical_bernstein(Sample(np.array([0.0, 1.0]), np.array([1.0, 2.0])), low=0, high=1)
    with pytest.raises(UsageError, match="finite"):
        hoeffding(Sample.of_mean([0.0, 1.0]), low=0, high=math.inf)
