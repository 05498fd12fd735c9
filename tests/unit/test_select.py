"""Which policy to adopt: bounds that hold, and a choice that keeps the logging policy when in doubt."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.intervals import Sample, empirical_bernstein
from offpolicy.inference.intervals.concentration import implicit_exploration
from offpolicy.inference.intervals.sequence import (
    LARGEST_STAKE,
    SHARES,
    STAKES,
    betting_lower_bound,
)


def world(rng, n=1500, gain=0.0):
    a = rng.integers(4, size=n)
    r = (rng.random(n) < 0.1 + gain * (a == 0)).astype(float)
    return op.BanditLog.from_arrays(rng.normal(size=(n, 2)), a, r, np.full(n, 0.25))


def candidates(rng, k=10):
    def policy(theta):
        def probabilities(x):
            e = np.exp(x @ theta)
            return e / e.sum(axis=1, keepdims=True)

        return probabilities

    return {f"p{i}": policy(2 * rng.normal(size=(2, 4))) for i in range(k)}


def test_the_smoothed_bound_inverts_its_own_product():
    rng = np.random.default_rng(0)
    z = rng.exponential(size=200)
    bound = betting_lower_bound(z, 0.05)

    def product(mean, c):
        return np.prod(1 + c * (z / mean - 1))

    stakes = np.minimum(STAKES / np.sqrt(200), LARGEST_STAKE)
    assert SHARES @ [product(bound, c) for c in stakes] == pytest.approx(20, rel=1e-6)
    assert SHARES.sum() == pytest.approx(1)


def test_counts_are_repeated_rows():
    z = np.array([0.0, 2.0, 5.0])
    count = np.array([50.0, 30.0, 20.0])
    rows = np.repeat(z, count.astype(int))
    assert betting_lower_bound(z, 0.05, count) == pytest.approx(betting_lower_bound(rows, 0.05))


@pytest.mark.parametrize("method", ["smoothed", "exploration", "bernstein"])
def test_bounds_fail_no_more_often_than_they_say(method):
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        p = np.where(rng.random(100) < 0.5, 0.1, 0.9)
        r = (rng.random(100) < 0.3).astype(float)
        drawn = rng.random(100) < p
        z = drawn * r / p
        bound = {
            "smoothed": lambda z=z: betting_lower_bound(z, 0.1),
            "exploration": lambda z=z: implicit_exploration(z, 0.1),
            "bernstein": lambda z=z: (
                empirical_bernstein(Sample.of_mean(z), 0.8, low=0, high=10).low
            ),
        }[method]()
        wrong += bound > 0.3
    assert wrong / 200 <= 0.1 + 2 * math.sqrt(0.1 * 0.9 / 200)


def test_a_better_policy_is_adopted_and_a_worse_one_is_not():
    rng = np.random.default_rng(0)
    log = world(rng, 4000, gain=0.3)
    ev = op.evaluate(log, {"good": op.policies.Fixed(0), "bad": op.policies.Fixed(1)})
    found = op.select(ev)
    assert found.chosen == "good"
    assert not found.keeps_logging
    assert "Adopt good" in str(found)
    assert op.select(op.evaluate(log, {"bad": op.policies.Fixed(1)})).keeps_logging


def adopted_of(logs):
    adopted = 0
    for seed in range(logs):
        rng = np.random.default_rng([7, seed])
        ev = op.evaluate(world(rng, 400), candidates(rng), estimators=["IPW"])
        adopted += not op.select(ev).keeps_logging
    return adopted


def test_where_nothing_is_better_adoption_is_rare():
    assert adopted_of(8) <= 2  # at most 5% is promised; 3 of 8 would be 0.6% likely


@pytest.mark.verify
def test_where_nothing_is_better_adoption_is_as_rare_as_it_says():
    assert adopted_of(200) <= 200 * (0.05 + 2 * math.sqrt(0.05 * 0.95 / 200))


def test_bernstein_is_there_where_the_largest_weight_is_known():
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=4000)
    r = (rng.random(4000) < 0.1 + 0.5 * (a == 0)).astype(float)
    log = op.BanditLog.from_arrays(None, a, r, np.full((4000, 2), 0.5))
    ev = op.evaluate(log, {"good": op.policies.Fixed(0)})
    methods = ("smoothing", "exploration", "bernstein")
    found = {m: op.select(ev, method=m).candidates[0] for m in methods}
    assert found["exploration"].method == "implicit exploration"
    assert 0 < found["exploration"].bound < found["smoothing"].bound
    assert found["bernstein"].method == "empirical Bernstein"
    assert 0 < found["bernstein"].bound < found["bernstein"].difference
    assert 0 < found["smoothing"].bound < found["smoothing"].difference


def test_estimated_propensities_and_clusters_take_the_interval():
    rng = np.random.default_rng(0)
    log = world(rng, 4000, gain=0.3)
    ev = op.evaluate(log, {"good": op.policies.Fixed(0)}, behavior_model="shares")
    assert op.select(ev).candidates[0].method not in {
        "logarithmic smoothing",
        "empirical Bernstein",
    }
    with pytest.raises(UsageError, match="logged propensities"):
        op.select(ev, method="smoothing")


def test_equal_rewards_select_nothing():
    log = op.BanditLog.from_arrays(None, [0, 1] * 50, np.ones(100), np.full(100, 0.5))
    assert op.select(op.evaluate(log, op.policies.Fixed(1))).keeps_logging


def test_a_log_is_no_evaluation():
    with pytest.raises(UsageError, match="takes what evaluate gives"):
        op.select(world(np.random.default_rng(0), 100))


@pytest.mark.parametrize("change", [{"rate": 0.0}, {"rate": 2}, {"method": "best"}])
def test_bad_arguments_are_named(change):
    log = op.BanditLog.from_arrays(None, [0, 1] * 50, np.tile([0.0, 1.0], 50), np.full(100, 0.5))
    ev = op.evaluate(log, op.policies.Fixed(1))
    with pytest.raises(UsageError, match=next(iter(change))):
        op.select(ev, **change)


def test_an_exact_bound_asks_for_no_large_sample_and_for_weights_of_mean_one():
    """Few rows carry the weight, which a normal interval could not use; wrong propensities are found out."""
    rng = np.random.default_rng(3)
    a = (rng.random(3000) < 0.005).astype(int)
    r = np.where(a == 1, 1.0, rng.random(3000) < 0.05).astype(float)
    p = np.where(a == 1, 0.005, 0.995)
    for wrong, chosen in ((1.0, "one"), (0.2, "(logging policy)")):
        log = op.BanditLog.from_arrays(None, a, r, np.where(a == 1, wrong * p, p))
        ev = op.evaluate(log, {"one": op.policies.Fixed(1)}, estimators=["IPW"])
        found = op.select(ev)
        assert found.chosen == chosen
    assert found.candidates[0].method == "not enough evidence"


def test_a_policy_that_is_nearly_the_logging_policy_has_a_tight_bound():
    rng = np.random.default_rng(0)
    near = {"near": np.tile([0.26, 0.26, 0.24, 0.24], (2000, 1))}
    found = op.select(op.evaluate(world(rng, 2000), near, estimators=["IPW"])).candidates[0]
    assert found.difference - found.bound < 0.004


def test_values_are_bounded_too():
    rng = np.random.default_rng(0)
    log = world(rng, 2000, gain=0.3)
    best = op.select(op.evaluate(log, {"good": op.policies.Fixed(0)})).candidates[0]
    assert 0.3 < best.value_bound < 0.4 < best.value < 0.5
    assert best.value - log.reward.mean() == pytest.approx(best.difference, abs=1e-9)
