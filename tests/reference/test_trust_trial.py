"""The A/B test that would settle a difference: its size by the textbook, and every word about it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from trust_gates import NOISE, UNITS, scores

from offpolicy.inference.comparison import Change
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.score_table import Units
from offpolicy.logs.kinds import kind_called
from offpolicy.trust import trial
from offpolicy.trust.trial import ABTest, ab_test, rounded_up, shrunken

QUANTILE = stats.norm.ppf(0.975)
POWER = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2


def logged(reward, units=UNITS, kind="bandit"):
    """An evaluation of which nothing is known but the log."""
    log = SimpleNamespace(unit_kind=kind_called(kind), names=SimpleNamespace(cluster="user_id"))
    problem = SimpleNamespace(units=units, earning="r", table=SimpleNamespace(columns={"r": reward}), log=log)
    return SimpleNamespace(logged=Estimate.from_scores(reward, units=units, label="logged"), problem=problem)


def change_of(value, error=None, level=0.95, method="normal"):
    e = scores(value, 1.0 if error is None else error * 20)
    bar = stats.norm.ppf(0.5 + level / 2) * e.std_error
    return Change(e, Interval(e.value - bar, e.value + bar, level, method), is_lift=False)


def test_a_test_of_a_tenth_of_the_logged_value():
    reward = 2.0 + 0.5 * NOISE
    test = ab_test(logged(reward), None, None)
    each = math.ceil(POWER * (0.25 + 0.25) / 0.2**2)  # the same spread around both means
    assert (test.per_arm, test.total) == (each, 2 * each)
    assert (test.difference, test.assumed, test.estimated) == (pytest.approx(0.2), True, None)
    assert test.relative == pytest.approx(0.1)
    assert test.logs == pytest.approx(2 * each / 400)
    assert (test.unit, test.level, test.power) == ("impressions", 0.95, 0.8)
    assert str(test) == (
        f"an A/B test of {2 * each} impressions ({each} per arm) would detect a difference of +0.2 (10% of the "
        "logged value) with 80% power"
    )
    assert test.effect == "a change of 10%"
    assert ab_test(logged(-reward), None, None).difference == pytest.approx(0.2)
    assert ab_test(logged(reward, kind="slates"), None, None).unit == "slates"


def test_no_finite_test():
    assert ab_test(logged(NOISE), None, None) is None  # a tenth of nothing
    assert ab_test(logged(np.full(400, 2.0)), None, None) is None  # rewards that do not vary
    still = Change(scores(1e-13), Interval(-1.0, 1.0, 0.95, "normal"), is_lift=False)
    assert ab_test(logged(2.0 + NOISE), None, still) is None
    assert ab_test(logged(2.0 + NOISE), scores(2.0), Change(scores(1e-11), still.interval, is_lift=False))
    tiny = Change(scores(1e-13, 1e-7), Interval(-1.0, 1.0, 0.95, "normal"), is_lift=False)
    assert ab_test(logged(1e-6 * (2.0 + NOISE)), scores(2e-6, 1e-6), tiny) is not None
    assert ab_test(logged(1e6 * NOISE), None, None) is None


@pytest.mark.parametrize("value", [0.4, -0.3, 5.0])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_a_difference_that_stood_out_is_shrunken(value, level):
    reward = 2.0 + 0.5 * NOISE
    change = change_of(value, level=level)
    z = abs(value) / change.estimate.std_error
    bar = stats.norm.ppf(0.5 + level / 2)
    left = max(z - 2.3 * bar**1.4 * math.exp(min((bar - z) / 1.5, 0.0)) / z, 0.35)
    assert shrunken(z, bar) == pytest.approx(left)
    difference = value * left / z
    e = scores(2.0 + value, 0.8)
    test = ab_test(logged(reward), e, change)
    treated = ((reward - e.value) ** 2).mean()
    each = math.ceil(POWER * (0.25 + treated) / difference**2 - 1e-9)
    assert test.difference == pytest.approx(difference)
    assert test.estimated == pytest.approx(value)
    assert test.per_arm == each
    assert test.relative == pytest.approx(difference / 2.0)
    assert f"{difference:+.3g} (the estimate, {value:+.3g}, shrunk to offset selection)" in str(test)
    word = "gain" if value > 0 else "drop"
    assert test.effect.startswith(f"a {word} of ")


def test_what_is_left_of_a_weak_estimate():
    assert shrunken(1.0, 1.96) == 0.35
    assert shrunken(1.5, 2.5) == 0.35
    assert shrunken(3.0, 3.5) == pytest.approx(max(3.0 - 2.3 * 3.5**1.4 / 3.0, 0.35))
    assert shrunken(4.0) == pytest.approx(4 - 2.3 * QUANTILE**1.4 * math.exp((QUANTILE - 4) / 1.5) / 4)


def test_rewards_of_two_values_have_the_variance_of_a_share():
    reward = np.tile([0.0, 10.0, 0.0, 0.0], 100)
    ev = logged(reward)
    test = ab_test(ev, None, None)
    control, treated = 2.5 * 7.5, 2.75 * 7.25
    assert test.per_arm == math.ceil(POWER * (control + treated) / 0.25**2)
    assert trial._variance(ev, None, 11.0) == 0.0
    assert trial._variance(ev, None, -1.0) == 0.0


def test_the_variance_of_the_new_arm_is_weighted():
    rng = np.random.default_rng(1)
    reward, weight = rng.random(400), rng.random(400)
    own = rng.integers(1, 4, 400).astype(float)
    ev = logged(reward, Units(400, own))
    ev.problem.table.columns["w"] = weight
    e = replace(scores(0.7), evidence=SimpleNamespace(weight="w"))
    mass = own * weight
    assert trial._variance(ev, e, 0.1) == pytest.approx(mass @ (reward - e.value) ** 2 / mass.sum())
    mean = own @ reward / own.sum()
    assert trial._variance(ev, None, 0.1) == pytest.approx(own @ (reward - mean) ** 2 / own.sum())
    ev.problem.table.columns["w"] = np.zeros(400)
    assert trial._variance(ev, e, 0.1) == pytest.approx(own @ (reward - e.value) ** 2 / own.sum())


def test_clusters_are_randomized_whole():
    user = np.arange(400) // 4
    reward = 2.0 + np.repeat(NOISE[:100], 4)
    units = Units(400, cluster=user)
    ev = logged(reward, units)
    test = ab_test(ev, None, None)
    error = ev.logged.std_error
    whole = 100 * error**2
    each = math.ceil(POWER * 2 * whole / (0.1 * ev.logged.value) ** 2)
    assert test.per_arm == each
    assert test.unit == "users"
    assert test.logs == pytest.approx(2 * each / 100)


def test_how_far_a_difference_stands_out():
    change = change_of(0.4)
    z = 0.4 / change.estimate.std_error
    assert trial._standing_out(change) == pytest.approx((z, QUANTILE))
    wide = replace(change, interval=Interval(0.1, 0.7, 0.95, "joint"))
    assert trial._standing_out(wide) == pytest.approx((z, 0.3 / change.estimate.std_error))
    below = change_of(-0.4)
    assert trial._standing_out(below) == pytest.approx((z, QUANTILE))
    uneven = replace(below, interval=Interval(-0.9, -0.2, 0.95, "joint"))
    assert trial._standing_out(uneven)[1] == pytest.approx(0.2 / below.estimate.std_error)
    at_end = replace(change, interval=Interval(0.4, 0.7, 0.95, "joint"))
    assert trial._standing_out(at_end) == (1e6, pytest.approx(QUANTILE))
    small = Estimate.from_scores(np.r_[np.zeros(300), np.full(100, 40.0)] + NOISE * 1e-3, units=UNITS)
    skewed = Change(small, small.interval(0.9), is_lift=False)
    own = small.interval(0.9)
    if not trial.declared(own).balanced:
        error = abs(small.value - own.low) / stats.norm.ppf(0.95)
        assert trial._standing_out(skewed)[0] == pytest.approx(small.value / error)


def test_whole_units_and_four_digits():
    assert [rounded_up(x) for x in (0.2, 1.0, 99.0 + 1e-9, 99.5, 99_999.5)] == [1, 1, 99, 100, 100_000]
    assert rounded_up(100_000.0) == 100_000
    assert rounded_up(100_001.0) == 100_100
    assert rounded_up(1_234_567.0) == 1_235_000
    assert rounded_up(1_234_000.0) == 1_234_000
    assert rounded_up(0.0) == 1


def test_words_about_a_test():
    test = ABTest(1_234_000, 617_000, "users", -0.0123, relative=-0.2, logs=10.0)
    assert test.is_reasonable
    assert test.effect == "a drop of 20%"
    assert test.size == "1,200,000 users"
    assert str(test) == (
        "an A/B test of 1,234,000 users (617,000 per arm) would detect a difference of -0.0123 with 80% power"
    )
    many = replace(test, logs=123.4, relative=None, difference=0.5)
    assert not many.is_reasonable
    assert many.effect == "a gain of 0.5"
    assert many.size == "1,200,000 users, 120 times this log"
    assert "(617,000 per arm, 120 times this log)" in str(many)
    assert not replace(test, logs=10.01).is_reasonable
    assert replace(test, difference=0.0, relative=None).effect == "a drop of 0"
    assert (test.assumed, test.estimated, ABTest(2, 1, "x", 0.1).logs) == (False, None, 0.0)
