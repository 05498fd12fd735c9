"""Test statistics of the checks against their formulas: Hall's transformation, Student's tails, Bonferroni."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from trust_episodes import Steps, view_of_steps

from offpolicy.inference.intervals.sample import Sample
from offpolicy.trust.check import Check, Threshold
from offpolicy.trust.diagnose import found
from offpolicy.trust.moments import (
    adjusted_z,
    deficit_z,
    exceedances,
    first_largest,
    furthest,
    mean_z,
    normal_from_student,
    same_but_rounding,
    skew_of,
    surely_above,
    symmetric,
    two_sided,
    z_score,
)


@pytest.mark.parametrize("z", [-4.0, -1.5, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("skew", [-0.6, 0.0, 0.3])
def test_halls_transformation(z, skew):
    assert symmetric(z, skew) == pytest.approx(z + skew * z**2 / 3 + skew**2 * z**3 / 27 + skew / 6)


def test_what_is_infinite_stays_so():
    assert symmetric(math.inf, -0.5) == math.inf
    assert symmetric(-math.inf, 0.5) == -math.inf


def test_skewness_of_a_sum_by_a_loop():
    x, count = np.array([3.0, -1.0, -1.0, -1.5]), np.array([1.0, 2.0, 3.0, 1.0])
    assert skew_of(x) == pytest.approx(sum(x**3) / sum(x**2) ** 1.5)
    every = np.repeat(x, count.astype(int))
    assert skew_of(x, count) == pytest.approx(sum(every**3) / sum(every**2) ** 1.5)
    assert skew_of(np.zeros(3)) == 0.0
    assert skew_of(np.array([1e-3, 1e-3])) == pytest.approx(2 / 2**1.5)


@pytest.mark.parametrize("units", [2, 3, 40, 999])
@pytest.mark.parametrize("z", [-3.5, -0.2, 0.0, 1.0, 5.0])
def test_students_statistic_as_a_normal_one(units, z):
    expected = stats.norm.ppf(stats.t.cdf(-abs(z), units - 1)) * -np.sign(z)
    assert normal_from_student(z, units) == pytest.approx(expected)


def test_students_statistics_that_stay_as_they_are():
    assert normal_from_student(3.0, 1000) == 3.0
    assert normal_from_student(3.0, 999) < 3.0
    assert normal_from_student(3.0, 1) == 3.0
    assert normal_from_student(-math.inf, 5) == -math.inf
    assert normal_from_student(1e200, 5) == 1e200  # the tail is below any float
    assert normal_from_student(-50.0, 3) == pytest.approx(stats.norm.ppf(stats.t.cdf(-50.0, 2)))


def test_a_mean_against_a_null():
    x = np.array([0.2, 0.9, 1.4, 3.0, 0.1])
    s = Sample.of_mean(x)
    error = math.sqrt(((x - x.mean()) ** 2).sum()) / len(x)
    residual = x - x.mean()
    skew = (residual**3).sum() / (residual**2).sum() ** 1.5
    plain = (x.mean() - 1) / error
    by_hall = plain + skew * plain**2 / 3 + skew**2 * plain**3 / 27 + skew / 6
    expected = -stats.norm.ppf(stats.t.cdf(-abs(by_hall), 4)) * np.sign(by_hall)
    assert mean_z(s, 1.0) == pytest.approx(expected)
    counted = Sample.of_mean([0.0, 1.0, 5.0], count=[3, 2, 1])
    assert mean_z(counted, 0.5) == pytest.approx(mean_z(Sample.of_mean([0, 0, 0, 1, 1, 5.0]), 0.5))


def test_a_mean_without_spread():
    same = Sample.of_mean([2.0, 2.0])
    assert mean_z(same, 2.0) == 0.0
    assert mean_z(same, 2.0 + 1e-12) == 0.0
    assert mean_z(same, 1.0) == math.inf
    assert mean_z(same, 3.0) == -math.inf
    assert mean_z(same, 2.0 - 1e-11) == math.inf
    assert mean_z(Sample.of_mean([0.0, 0.0]), 0.0) == 0.0
    assert mean_z(Sample.of_mean([1e-13, 1e-13]), 0.0) == 0.0
    # An error of 1e-12 of the numbers is rounding; of 1e-11 it is none.
    assert mean_z(Sample.of_mean([1e6 - 1e-7, 1e6 + 1e-7]), 0.0) == math.inf
    assert math.isfinite(mean_z(Sample.of_mean([1e6 - 1e-4, 1e6 + 1e-4]), 0.0))
    assert mean_z(Sample.of_mean([1000.0, 1000.0]), 1000.0 + 5e-10) == 0.0


def test_p_values_bounds_and_tails():
    for z in (-2.5, 0.0, 1.0, 6.0):
        assert two_sided(z) == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert surely_above(0.7, 150) == pytest.approx(0.7 - 2.326 * 1.7 / math.sqrt(150))
    assert surely_above(-2.0, 100) == -2.0
    assert surely_above(-0.5, 100) == pytest.approx(-0.5 - 2.326 * 0.05)
    assert exceedances(100.0) == 20.0
    assert exceedances(10.0) == 5.0
    assert exceedances(10_000.0) == 300.0
    assert exceedances(400.0) == pytest.approx(60.0)


def test_distance_in_standard_errors():
    assert z_score(1.5, 0.1, 1.0) == pytest.approx(5.0)
    assert z_score(0.5, 0.1, 1.0) == pytest.approx(-5.0)
    assert z_score(0.3, 0.1, 0.0) == pytest.approx(3.0)
    assert z_score(1.0 + 1e-13, 1e-20, 1.0) == 0.0
    assert z_score(1.0 + 1e-13, 1e-9, 1.0) == 0.0
    assert z_score(1.0 + 3e-12, 1e-20, 1.0) == math.inf
    assert z_score(1.0 - 3e-12, 1e-20, 1.0) == -math.inf
    assert z_score(1e-13, 0.0, 0.0) == 0.0
    assert z_score(1e-12, 0.0, 0.0) == 0.0
    assert z_score(1e-11, 0.0, 0.0) == math.inf
    assert z_score(2e-12, 1e-12, 0.0) == pytest.approx(2.0)
    assert z_score(1e-12, 1e-12, 0.0) == pytest.approx(1.0)
    assert z_score(-1e6, 1e-5, 1e6) == pytest.approx(-2e11)
    assert z_score(-1e6, 1e-7, 1e6) == -math.inf
    assert z_score(0.0, 0.0, 0.0) == 0.0


@pytest.mark.parametrize("tests", [1, 2, 7, 100])
@pytest.mark.parametrize("z", [-3.0, 0.5, 2.0, 10.0, 29.0])
def test_bonferroni(tests, z):
    expected = stats.norm.isf(min(1.0, tests * 2 * stats.norm.sf(abs(z))) / 2)
    assert adjusted_z(z, tests) == pytest.approx(max(expected, 0.0), abs=1e-9)


def test_bonferroni_where_it_says_nothing():
    assert adjusted_z(31.0, 100) == 31.0
    assert adjusted_z(30.0, 100) < 30.0
    assert adjusted_z(30.5, 100) == 30.5
    assert adjusted_z(-math.inf, 5) == math.inf
    assert adjusted_z(3.0, 0) == 3.0
    assert math.copysign(1.0, adjusted_z(0.0, 10)) == 1.0


def test_the_first_of_the_largest():
    assert first_largest(np.array([1.0, 2.0, 2.0])) == 1
    assert first_largest(np.array([2.0 - 1e-10, 2.0])) == 0
    assert first_largest(np.array([2.0 - 1e-8, 2.0])) == 1
    assert first_largest(np.array([1.0, math.inf, math.inf])) == 1
    assert first_largest(np.array([-3.0, -2.0, -2.0 - 1e-10])) == 1
    assert first_largest(np.array([-2.0 - 1e-10, -2.0])) == 0
    assert first_largest(np.array([0.5 - 7e-10, 0.5])) == 1
    assert first_largest(np.array([20.0 - 1.5e-8, 20.0])) == 0


def test_nine_digits_of_the_range():
    values = np.array([0.123456789123, 1.0, -0.5])
    assert same_but_rounding(values).tolist() == [0.123456789, 1.0, -0.5]
    assert same_but_rounding(np.array([123456.7891234, 1.0])).tolist() == [123456.789, 1.0]
    assert same_but_rounding(np.array([-20.0, 0.1234567891])).tolist() == [-20.0, 0.1234568]
    assert same_but_rounding(np.array([1e-20]))[0] == pytest.approx(1e-20, rel=1e-12)
    zeros = np.zeros(2)
    assert same_but_rounding(zeros) is zeros
    assert len(same_but_rounding(np.empty(0))) == 0


def test_the_furthest_counts_only_where_it_matters():
    z = np.array([2.0, -5.0, 9.0, 4.0])
    usable, counts = np.array([True, True, False, True]), np.array([True, False, True, True])
    top = furthest(z, usable, counts)
    assert (top.place, top.z, top.tests) == (3, 4.0, 3)
    assert top.value == pytest.approx(adjusted_z(4.0, 3))
    assert top.p == pytest.approx(min(1.0, 3 * 2 * stats.norm.sf(4.0)))
    none = furthest(z, usable, np.zeros(4, dtype=bool))
    assert (none.z, none.value, none.p) == (0.0, 0.0, 1.0)


def test_a_deficit_is_less_of_a_surprise_than_an_excess():
    z, second, third = np.array([-4.0, 4.0, -4.0, -np.inf]), np.array([1.0, 1.0, 0.0, 1.0]), np.full(4, 0.2)
    assert deficit_z(z, third, second).tolist() == [symmetric(-4.0, 0.2), 4.0, -4.0, -np.inf]


def test_a_check_says_where_it_cannot_be_made():
    view = view_of_steps(Steps(3, 20))
    own = Check("own", Threshold(3.3, 5.0, "above", "look."), columns=lambda v: {}, singly="single decisions only.")
    assert found(own, view).sentence == "single decisions only."
    assert found(replace(own, singly="", applies=lambda v: "not here."), view).sentence == "not here."
    assert found(replace(own, singly=""), view).sentence == "there is nothing to compare."
    assert found(replace(own, where=lambda v: False), view) is None
