"""The automatic choice: each stated rule, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.intervals import (
    Evidence,
    Sample,
    automatic,
    by_name,
    choose,
    clopper_pearson,
    effective_units,
    lumpiness,
)
from offpolicy.inference.intervals.evidence import SIZES, size_of

RNG = np.random.default_rng(0)
BALANCED = RNG.normal(size=500)


def lognormal(n: int, sigma: float = 1.0) -> np.ndarray:
    return np.random.default_rng(1).lognormal(sigma=sigma, size=n)


def test_lumpiness_by_hand():
    x = np.array([0.0, 1.0, 5.0])
    s = Sample.of_mean(x)
    e = x - 2
    seen = abs((e**3).sum()) / (e**2).sum() ** 1.5
    more = abs((e**3).sum() + 27) / ((e**2).sum() + 9) ** 1.5
    assert lumpiness(s) == pytest.approx(max(seen, more))
    known = Evidence(score_low=0.0, score_high=12.0)
    assert lumpiness(s, known) == pytest.approx((18 + 1000) / (14 + 100) ** 1.5, rel=0.1)


def test_m_rare_successes_have_lumpiness_of_one_over_root_m():
    s = Sample.of_mean([0.0, 1.0], count=[99_900, 100])
    assert lumpiness(s) == pytest.approx(0.1, abs=0.002)


def test_effective_units_take_the_smaller_of_sizes_and_weights():
    s = Sample(np.ones(4), np.array([1.0, 1.0, 1.0, 5.0]))
    assert effective_units(s) == pytest.approx(64 / 28)
    assert effective_units(Sample.of_mean(np.ones(4)), Evidence(np.array([0.0, 0, 0, 9]))) == 1


def test_many_balanced_units_are_normal_and_fewer_are_student():
    assert choose(Sample.of_mean(BALANCED)).method == "normal"
    assert choose(Sample.of_mean(BALANCED[:100])).method == "t"


def test_few_clusters_are_insufficient():
    choice = choose(Sample(BALANCED[:8], np.full(8, 10.0)))
    assert not choice.sufficient
    assert "8 independent units" in choice.reason
    unequal = np.ones(30)
    unequal[:2] = 100
    assert not choose(Sample(BALANCED[:30] * unequal, unequal)).sufficient


def test_rare_binary_rewards_use_clopper_pearson_also_for_doubly_robust_scores():
    w, r = np.repeat([0.0, 50.0], [980, 20]), np.zeros(1000)
    psi = 0.01 + w * (r - 0.01)
    evidence = Evidence(w, r, weight_high=50.0, reward_low=0.0, reward_high=1.0)
    choice = choose(Sample.of_mean(psi), evidence)
    assert choice.method == "clopper-pearson"
    i = automatic(Sample.of_mean(psi), evidence)
    assert i.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert i.low <= psi.mean()
    assert i.note == choice.reason


def test_no_success_at_all_is_never_a_zero_width_interval():
    w, r = np.repeat([0.0, 50.0], [980, 20]), np.zeros(1000)
    known = Evidence(w, r, reward_low=0.0, reward_high=1.0)
    assert automatic(Sample.of_mean(w * r), known).width > 0.1
    assert not choose(Sample.of_mean(w * r)).sufficient


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0, 2.0, -3.0])
def test_equal_rewards_say_nothing_about_others_whatever_they_are(reward):
    w, r = np.repeat([0.5, 1.5], 500), np.full(1000, reward)
    found = automatic(Sample.of_mean(w * r + 1e-17 * np.arange(1000)), Evidence(w, r))
    assert not found.sufficient
    assert tuple(found) == (-math.inf, math.inf)
    assert "every reward in the log is the same" in found.reason


def test_a_difference_does_not_use_intervals_of_the_value():
    w, r = np.repeat([0.0, 50.0], [980, 20]), np.zeros(1000)
    r[-1] = 1
    known = Evidence(w, r, weight_high=50.0, is_value=False)
    assert choose(Sample.of_mean((w - 1) * r), known).method == "bounded-likelihood"
    unknown = Evidence(w, r + np.arange(1000) / 1e6, weight_high=50.0, is_value=False)
    assert not choose(Sample.of_mean((w - 1) * r), unknown).sufficient


def test_the_bounded_likelihood_of_a_difference_is_clopper_and_pearsons_of_few_successes():
    """A difference to a policy that is never right: all its successes are those of the other."""
    for successes in (0, 1, 2, 5, 20):
        w, r = np.repeat([0.0, 2.0], [1000, 1000]), np.zeros(2000)
        r[2000 - successes :] = 1
        evidence = Evidence(w, r, weight_high=2.0, reward_low=0.0, reward_high=1.0, is_value=False)
        found = by_name("bounded-likelihood", Sample.of_mean(w * r), evidence)
        exact = clopper_pearson(r[1000:], level=0.95)
        assert found.high == pytest.approx(exact.high, rel=0.2), successes
        assert found.low == pytest.approx(exact.low, abs=0.0005), successes


@pytest.mark.parametrize("tiny", [1e-2, 1e-3, 1e-6])
def test_a_weight_that_can_occur_but_hardly_does_is_not_taken_for_certain(tiny):
    rng = np.random.default_rng(0)
    w, r = rng.choice([0.0, 2.0], size=3000), (rng.random(3000) < 0.5) * 1.0
    shares = np.bincount(size_of(np.array([2.0, 1 / tiny])), [1 - 1 / 3000, 1 / 3000], SIZES)
    sample = Sample.of_mean((w - 1) * r)
    seen = automatic(sample, Evidence(w, r, is_value=False))
    known = automatic(sample, Evidence(w, r, weight_high=1 / tiny, sizes=shares, is_value=False))
    assert (known.method, *known) == (seen.method, *seen) == ("normal", *known)
    # Where a tenth of the target's mass lies out there, the bound is of no use.
    much = np.bincount(size_of(np.array([2.0, 1 / tiny])), [0.9, 0.1], SIZES)
    useless = Evidence(w, r, weight_high=1 / tiny, sizes=much, is_value=False).completed()
    assert useless.settled(sample).weight_high is None


def test_stars_have_a_known_range_and_baskets_have_not():
    rng = np.random.default_rng(0)
    stars = rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], p=[0.06, 0.04, 0.08, 0.12, 0.7], size=3000)
    w = rng.choice([0.0, 2.0, 4.0], p=[0.6, 0.3, 0.1], size=3000)
    known = Evidence(w, stars).completed()
    assert (known.reward_low, known.reward_high) == (1.0, 5.0)
    assert choose(Sample.of_mean(3 + w * (stars - 3)), known).method == "normal"
    baskets = Evidence(w, rng.poisson(0.4, size=3000) * 1.0).completed()
    assert baskets.reward_high is None


def test_known_ranges_of_weights_and_rewards_use_the_dual_likelihood():
    rng = np.random.default_rng(0)
    w, r = np.repeat([0.0, 50.0], [980, 20]), rng.random(1000)
    ranges = {"reward_low": 0.0, "reward_high": 1.0}
    evidence = Evidence(w, r, weight_high=50.0, is_product=True, **ranges)
    assert choose(Sample.of_mean(w * r), evidence).method == "cressie-read"
    modeled = Evidence(w, r, weight_high=50.0, **ranges)
    assert choose(Sample.of_mean(w * r), modeled).method == "bounded-likelihood"
    unbounded = Evidence(w, r, reward_low=0.0, reward_high=1.0)
    assert choose(Sample.of_mean(w * r), unbounded).method == "confidence-sequence"


def test_scores_of_known_range_use_bernstein_or_likelihood():
    rng = np.random.default_rng(0)
    evidence = Evidence(score_low=0.0, score_high=1.0)
    few, more = rng.beta(0.05, 0.95, size=40), rng.beta(0.05, 0.95, size=1000)
    assert choose(Sample.of_mean(few), evidence).method == "empirical-bernstein"
    assert choose(Sample.of_mean(more), evidence).method == "empirical-likelihood"


def test_skewed_scores_of_unknown_range_are_treated_with_caution():
    choice = choose(Sample.of_mean(lognormal(200)))
    assert choice.method == "cautious-likelihood"
    assert choice.sufficient
    assert not choose(Sample.of_mean(lognormal(200, 3.0))).sufficient


def test_heavy_unbounded_weights_are_insufficient():
    w = np.random.default_rng(0).pareto(1.0, size=5000)
    r = np.random.default_rng(1).random(5000)
    choice = choose(Sample(w * r, w), Evidence(w, r))
    assert not choice.sufficient
    assert "Pareto tail index" in choice.reason
    bounded = Evidence(w, r, weight_high=float(w.max()), reward_low=0.0, reward_high=1.0)
    assert choose(Sample(w * r, w), bounded).sufficient


def test_negative_denominators_fall_back_without_a_crash():
    s = Sample(lognormal(50), np.append(np.ones(49), -0.5))
    choice = choose(s)
    assert choice.method == "normal"
    assert not choice.sufficient


def test_every_name_that_can_be_chosen_can_be_computed():
    rng = np.random.default_rng(0)
    w, r = rng.choice([0.5, 1.5], size=50), (rng.random(50) < 0.5) * 1.0
    evidence = Evidence(w, r, weight_high=1.5, score_low=0.0, score_high=1.5)
    for method in (
        "normal", "t", "clopper-pearson", "cressie-read", "confidence-sequence",
        "empirical-likelihood", "empirical-bernstein", "cautious-likelihood", "bounded-likelihood",
    ):  # fmt: skip
        i = by_name(method, Sample.of_mean(w * r), evidence, 0.9)
        assert i.method == method
        assert i.level == 0.9
        assert i.low <= (w * r).mean() <= i.high
    with pytest.raises(UsageError, match="magic"):
        by_name("magic", Sample.of_mean(w * r))
    with pytest.raises(UsageError, match="weights and rewards"):
        by_name("cressie-read", Sample.of_mean(w * r))
    with pytest.raises(UsageError, match="score_low"):
        by_name("empirical-bernstein", Sample.of_mean(w * r))


def test_evidence_needs_one_reward_and_one_count_per_weight():
    with pytest.raises(UsageError, match="one reward per weight"):
        Evidence(weights=np.ones(3), rewards=np.ones(2))
    with pytest.raises(DataError, match="count has 2 values"):
        Evidence(weights=np.ones(3), count=np.ones(2))
    with pytest.raises(UsageError, match="Counts need weights"):
        Evidence(count=np.ones(2))


def test_rows_of_the_evidence_are_not_those_of_the_sample():
    rng = np.random.default_rng(5)
    w, r = rng.choice([0.0, 2.0, 20.0], size=400), (rng.random(400) < 0.05) * 1.0
    paired = automatic(Sample.of_mean(w * r), Evidence(w, r, weight_high=20.0))
    (values, rewards), count = np.unique(np.stack([w, r]), axis=1, return_counts=True)
    counted = Evidence(values, rewards, count, weight_high=20.0)
    apart = automatic(Sample.of_mean((w * r)[::-1]), counted)
    assert tuple(apart) == pytest.approx(tuple(paired), rel=1e-9)
    assert apart.note == paired.note


def test_units_of_no_count_do_not_matter():
    empty = Evidence(np.array([1.0, 1.0, 99.0]), np.array([1.0, 0.0, 0.5]), np.array([50.0, 9.0, 0.0]))
    assert empty.completed().binary
    assert empty.weights.max() == 1


def test_choice_unpacks():
    method, reason, sufficient = choose(Sample.of_mean(BALANCED))
    assert (method, reason) == ("normal", "500 independent units with balanced scores")
    assert sufficient


def test_intervals_say_whether_evidence_is_sufficient():
    assert automatic(Sample.of_mean(BALANCED)).sufficient
    refused = automatic(Sample.of_mean(lognormal(200, 3.0)))
    assert not refused.sufficient
    assert "insufficient evidence" in refused.note


def test_a_product_is_declared():
    rng = np.random.default_rng(0)
    w, r = np.repeat([0.0, 20.0], [1140, 60]), rng.random(1200)
    sample = Sample.of_mean(w * r)
    evidence = Evidence(w, r, None, 20.0, 0.0, 1.0)
    assert choose(sample, evidence).method == "bounded-likelihood"
    product = Evidence(w, r, None, 20.0, 0.0, 1.0, is_product=True)
    assert choose(sample, product).method == "cressie-read"


def test_a_heavy_tail_that_the_matched_units_missed_is_noticed():
    rng = np.random.default_rng(0)
    n = 2_000
    weights = np.where(np.arange(n) < n // 20, 20.0, 0.0)
    rewards = np.exp(2 * rng.normal(size=n))
    rewards[: n // 20] = rng.uniform(0.5, 1.5, n // 20)
    harmless = Evidence(weights=weights, rewards=np.where(weights > 0, rewards, 1.0))
    heavy = Evidence(weights=weights, rewards=rewards)
    sample = Sample.of_mean(weights * rewards)
    assert lumpiness(sample, harmless) < 0.2
    assert lumpiness(sample, heavy) > 0.5
    assert not choose(sample, heavy).sufficient


def test_counted_rows_with_a_heavy_tail_are_judged_as_the_rows_they_stand_for():
    rewards = np.append(np.random.default_rng(2).lognormal(size=400), 5.0)
    count = np.append(np.ones(400, dtype=int), 301)  # the median of the rows is 5, of the cells about 1
    weights = np.where(rewards < 2, 1.5, 0.0)
    evidence = Evidence(weights, rewards, count)
    counted = lumpiness(Sample.of_mean(weights * rewards, count), evidence)
    w, r = np.repeat(weights, count), np.repeat(rewards, count)
    assert counted == pytest.approx(lumpiness(Sample.of_mean(w * r), Evidence(w, r)), rel=1e-9)


def test_a_heavy_tail_that_one_unit_more_would_not_decide_is_no_refusal():
    """Weights of a softmax are bounded, whatever index is fitted to them: many units stand behind the estimate."""
    rng = np.random.default_rng(0)
    w = np.where(rng.random(12_000) < 0.2, np.exp(rng.normal(1.0, 1.3, 12_000)), 0.0)
    r = (rng.random(12_000) < 0.4) * 1.0
    sample = Sample.of_mean(0.4 + w * (r - 0.4))
    assert choose(sample, Evidence(w, r, tail=0.9)).sufficient
    one, last = np.append(w, 2 * w.max()), np.append(r, 1.0)
    few = choose(Sample.of_mean(0.4 + one * (last - 0.4)), Evidence(one, last, tail=2.0))
    assert not few.sufficient
    assert "Pareto" in few.reason
    unknown = Evidence(w, r + rng.normal(size=12_000), tail=0.9)
    assert not choose(sample, unknown).sufficient
