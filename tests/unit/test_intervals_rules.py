"""The automatic choice: each stated rule, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy.inference.intervals import (
    Facts,
    Sample,
    automatic,
    by_name,
    choose,
    effective_units,
    lumpiness,
)

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
    known = Facts(score_low=0.0, score_high=12.0)
    assert lumpiness(s, known) == pytest.approx((18 + 1000) / (14 + 100) ** 1.5, rel=0.1)


def test_m_rare_successes_have_lumpiness_of_one_over_root_m():
    s = Sample.of_mean([0.0, 1.0], count=[99_900, 100])
    assert lumpiness(s) == pytest.approx(0.1, abs=0.002)


def test_effective_units_take_the_smaller_of_sizes_and_weights():
    s = Sample(np.ones(4), np.array([1.0, 1.0, 1.0, 5.0]))
    assert effective_units(s) == pytest.approx(64 / 28)
    assert effective_units(Sample.of_mean(np.ones(4)), Facts(np.array([0.0, 0, 0, 9]))) == 1


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
    choice = choose(Sample.of_mean(psi), Facts(w, r, weight_high=50.0))
    assert choice.method == "clopper-pearson"
    i = automatic(Sample.of_mean(psi), Facts(w, r, weight_high=50.0))
    assert i.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert i.low <= psi.mean()
    assert i.note == choice.reason


def test_no_success_at_all_is_never_a_zero_width_interval():
    w, r = np.repeat([0.0, 50.0], [980, 20]), np.zeros(1000)
    assert automatic(Sample.of_mean(w * r), Facts(w, r)).width > 0.1
    assert not choose(Sample.of_mean(w * r)).sufficient


def test_a_difference_does_not_use_intervals_of_the_value():
    w, r = np.repeat([0.0, 50.0], [980, 20]), np.zeros(1000)
    r[-1] = 1
    choice = choose(Sample.of_mean((w - 1) * r), Facts(w, r, weight_high=50.0, is_value=False))
    assert not choice.sufficient


def test_known_ranges_of_weights_and_rewards_use_the_dual_likelihood():
    rng = np.random.default_rng(0)
    w, r = np.repeat([0.0, 50.0], [980, 20]), rng.random(1000)
    facts = Facts(w, r, weight_high=50.0, reward_low=0.0, reward_high=1.0)
    assert choose(Sample.of_mean(w * r), facts).method == "cressie-read"
    unbounded = Facts(w, r, reward_low=0.0, reward_high=1.0)
    assert choose(Sample.of_mean(w * r), unbounded).method == "confidence-sequence"


def test_scores_of_known_range_use_bernstein_or_likelihood():
    rng = np.random.default_rng(0)
    facts = Facts(score_low=0.0, score_high=1.0)
    few, more = rng.beta(0.05, 0.95, size=40), rng.beta(0.05, 0.95, size=1000)
    assert choose(Sample.of_mean(few), facts).method == "empirical-bernstein"
    assert choose(Sample.of_mean(more), facts).method == "empirical-likelihood"


def test_skewed_scores_of_unknown_range_are_treated_with_caution():
    choice = choose(Sample.of_mean(lognormal(200)))
    assert choice.method == "cautious-likelihood"
    assert choice.sufficient
    assert not choose(Sample.of_mean(lognormal(200, 3.0))).sufficient


def test_heavy_unbounded_weights_are_insufficient():
    w = np.random.default_rng(0).pareto(1.0, size=5000)
    r = np.random.default_rng(1).random(5000)
    choice = choose(Sample(w * r, w), Facts(w, r))
    assert not choice.sufficient
    assert "Pareto tail index" in choice.reason
    bounded = Facts(w, r, weight_high=float(w.max()), reward_low=0.0, reward_high=1.0)
    assert choose(Sample(w * r, w), bounded).sufficient


def test_negative_denominators_fall_back_without_a_crash():
    s = Sample(lognormal(50), np.append(np.ones(49), -0.5))
    choice = choose(s)
    assert choice.method == "normal"
    assert not choice.sufficient


def test_every_name_that_can_be_chosen_can_be_computed():
    rng = np.random.default_rng(0)
    w, r = rng.choice([0.5, 1.5], size=50), (rng.random(50) < 0.5) * 1.0
    facts = Facts(w, r, weight_high=1.5, score_low=0.0, score_high=1.5)
    for method in (
        "normal", "t", "clopper-pearson", "cressie-read", "confidence-sequence",
        "empirical-likelihood", "empirical-bernstein", "cautious-likelihood",
    ):  # fmt: skip
        i = by_name(method, Sample.of_mean(w * r), facts, 0.9)
        assert i.method == method
        assert i.level == 0.9
        assert i.low <= (w * r).mean() <= i.high
    with pytest.raises(UsageError, match="magic"):
        by_name("magic", Sample.of_mean(w * r))
    with pytest.raises(UsageError, match="weights and rewards"):
        by_name("cressie-read", Sample.of_mean(w * r))
    with pytest.raises(UsageError, match="score_low"):
        by_name("empirical-bernstein", Sample.of_mean(w * r))


def test_facts_of_another_length_are_refused():
    with pytest.raises(UsageError, match="per row"):
        choose(Sample.of_mean([1.0, 2.0]), Facts(weights=np.ones(3)))


def test_choice_unpacks():
    method, reason = choose(Sample.of_mean(BALANCED))
    assert (method, reason) == ("normal", "500 independent units with balanced scores")


def test_a_heavy_tail_that_the_matched_units_missed_is_noticed():
    rng = np.random.default_rng(0)
    n = 2_000
    weights = np.where(np.arange(n) < n // 20, 20.0, 0.0)
    rewards = np.exp(2 * rng.normal(size=n))
    rewards[: n // 20] = rng.uniform(0.5, 1.5, n // 20)
    harmless = Facts(weights=weights, rewards=np.where(weights > 0, rewards, 1.0))
    heavy = Facts(weights=weights, rewards=rewards)
    sample = Sample.of_mean(weights * rewards)
    assert lumpiness(sample, harmless) < 0.2
    assert lumpiness(sample, heavy) > 0.5
    assert not choose(sample, heavy).sufficient


def test_counted_rows_with_a_heavy_tail_are_judged_as_the_rows_they_stand_for():
    rewards = np.append(np.random.default_rng(2).lognormal(size=400), 5.0)
    count = np.append(
        np.ones(400, dtype=int), 301
    )  # the median of the rows is 5, of the cells about 1
    weights = np.where(rewards < 2, 1.5, 0.0)
    counted = lumpiness(Sample.of_mean(weights * rewards, count), Facts(weights, rewards))
    w, r = np.repeat(weights, count), np.repeat(rewards, count)
    assert counted == pytest.approx(lumpiness(Sample.of_mean(w * r), Facts(w, r)), rel=1e-9)
