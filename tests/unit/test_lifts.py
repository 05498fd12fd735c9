"""Lifts: Fieller's interval at any distance of the base from 0, p-values that invert it, and families."""

import math

import numpy as np
import pytest
from scipy import stats

from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.family import together
from offpolicy.inference.methods import pair_of
from offpolicy.inference.score_table import Units


def pair(n, base, value, spread=1.0, seed=0):
    """Two estimates on the same units, correlated, of balanced scores."""
    rng, units = np.random.default_rng(seed), Units(n)
    common = rng.normal(size=n)
    made = [x + spread * (common + rng.normal(size=n)) / math.sqrt(2) for x in (base, value)]
    bottom, top = (Estimate.from_scores(x, units=units) for x in made)
    return top, bottom


def beyond(top, bottom, lift):
    """Standard errors by which a lift fails: |v − b − l |b|| over the standard error of that combination."""
    rows = top.psi[0] - bottom.psi[0] - lift * np.sign(bottom.value) * bottom.psi[0]
    return abs(rows.mean()) / (rows.std() / math.sqrt(len(rows)))


@pytest.mark.parametrize("base", [1.0, -1.0])
@pytest.mark.parametrize("distance", [5, 12, 40])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_every_lift_that_the_test_does_not_reject_and_no_other(base, distance, level):
    n = 2000
    top, bottom = pair(n, base, 1.3 * base, spread=math.sqrt(n) / distance)
    interval = top.lift(bottom).interval(level)
    z = stats.norm.ppf(0.5 + level / 2)
    assert interval.method == "fieller"
    assert [beyond(top, bottom, end) for end in interval] == pytest.approx([z, z])
    assert interval.covers(top.lift(bottom).value)


def test_few_units_take_students_quantile():
    top, bottom = pair(40, 2.0, 2.5)
    interval = top.lift(bottom).interval()
    z = stats.t.ppf(0.975, 39) * math.sqrt(40 / 39)
    assert interval.method == "fieller"
    assert [beyond(top, bottom, end) for end in interval] == pytest.approx([z, z])


@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("base", [1.0, -1.0])
def test_a_lift_is_judged_as_its_difference_is(n, base):
    top, bottom = pair(n, base, 1.15 * base, spread=math.sqrt(n) / 15)
    lift, difference = top.lift(bottom), top - bottom
    assert lift.p_value() == pytest.approx(difference.p_value())
    level = 1 - difference.p_value()
    ends = np.abs(list(lift.interval(level)))
    assert ends.min() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("null", [-0.1, 0.05, 0.45])
def test_p_values_of_lifts_invert_their_intervals(n, null):
    top, bottom = pair(n, -2.0, -1.6, spread=math.sqrt(n) / 8)
    lift = top.lift(bottom)
    p = lift.p_value(null)
    assert 0 < p < 1
    distances = [abs(end - null) for end in lift.interval(1 - p)]
    assert min(distances) == pytest.approx(0, abs=1e-6)


def test_lifts_of_a_family_share_a_critical_value():
    rng, n = np.random.default_rng(1), 3000
    units = Units(n)
    base = Estimate.from_scores(1 + 4 * rng.normal(size=n), units=units)
    common = rng.normal(size=n)
    policies = [Estimate.from_scores(1.2 + 4 * (common + 0.5 * rng.normal(size=n)), units=units) for _ in range(6)]
    lifts = [e.lift(base) for e in policies]
    family = together(lifts).intervals
    assert {i.method for i in family} == {"max-t"}
    reached = [beyond(e, base, end) for e, i in zip(policies, family, strict=True) for end in i]
    assert reached == pytest.approx([reached[0]] * 12)
    one, bonferroni = stats.norm.ppf(0.975), stats.norm.ppf(1 - 0.025 / 6)
    assert one < reached[0] < bonferroni


def test_a_smoothed_estimates_p_value_knows_its_bias():
    rng, units = np.random.default_rng(2), Units(2000)
    scores = rng.normal(size=2000)
    finer = Estimate.from_scores(scores - 0.04, units=units)
    plain = Estimate.from_scores(scores, units=units)
    e = Estimate(plain.table, plain.rows, smoothed=Smoothed(finer))
    for null in (-0.2, -0.06, 0.05, 0.2):
        p = e.p_value(null)
        assert (p < 0.05) == (not e.interval().covers(null))
        if 1e-9 < p < 1:
            assert min(abs(end - null) for end in e.interval(1 - p)) < 1e-6


def test_a_precise_base_costs_no_digits():
    n = 1000
    top, bottom = pair(n, 1.0, 1.001, spread=1e-5)
    interval = top.lift(bottom).interval()
    delta = top.lift(bottom).interval(method="delta")
    assert interval.width == pytest.approx(delta.width, rel=1e-6)
    assert pair_of(top, bottom).lift == pytest.approx(top.lift(bottom).value)
