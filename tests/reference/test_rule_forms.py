"""The choice of an interval: every rule at its threshold, every reason word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forms import said
from scipy import stats

from offpolicy.inference.intervals import rules
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.sample import Interval, Sample

RNG = np.random.default_rng(21)


# -- rules -------------------------------------------------------------------------------------------------


def test_critical_values_around_200_units():
    for n in (2, 199, 199.9):
        factor = math.sqrt(n / (n - 1))
        assert rules.of_few(n) == pytest.approx(factor)
        assert rules.critical(0.9, n) == pytest.approx(stats.t.ppf(0.95, n - 1) * factor)
    assert (rules.of_few(200), rules.critical(0.9, 200)) == (1.0, pytest.approx(stats.norm.ppf(0.95)))
    z = stats.norm.ppf(0.995)
    assert rules.smooth(0.99) == pytest.approx(0.1 * (1.959964 / z) ** 2)
    assert rules.smooth(0.99, 6400) == pytest.approx(max(0.1 * (1.959964 / z) ** 2, 2 * math.sqrt(6) / 6400))
    assert rules.smooth(0.99, 60) == pytest.approx(2 * math.sqrt(6) / 60)
    assert rules.smooth(0.5) == 0.1


BINARY = {"weights": np.array([1.0, 2.0] * 300), "rewards": np.tile([0.0, 1.0, 1.0], 200)}
LEVELS = {"weights": np.array([1.0, 2.0] * 300), "rewards": np.tile([0.0, 1.0, 0.5], 200), "reward_low": 0.0,
          "reward_high": 1.0}  # fmt: skip


@pytest.mark.parametrize(
    ("kappa", "n", "known", "method", "why"),
    [
        (0.10, 200, {}, "normal", "200 independent units with balanced scores"),
        (0.10, 199, {}, "t", "199 independent units with balanced scores"),
        (0.11, 300, {}, "cautious-likelihood",
         "about 83 large scores carry the estimate (skewness 0.11); their range is not known"),
        (0.11, 300, {"score_low": -9.0, "score_high": 9.0}, "empirical-likelihood",
         "about 83 large scores carry the estimate (skewness 0.11); the scores have a known range"),
        (0.11, 600, {**LEVELS, "weight_high": 3.0, "is_product": True}, "cressie-read",
         "about 83 large scores carry the estimate (skewness 0.11); the ranges of weights and rewards are known"),
        (0.11, 600, {**LEVELS, "weight_high": 3.0}, "bounded-likelihood",
         "about 83 large scores carry the estimate (skewness 0.11); the ranges of weights and rewards are known"),
        (0.25, 300, {}, "cautious-likelihood",
         "about 16 large scores carry the estimate (skewness 0.25); their range is not known"),
        (0.26, 600, {**LEVELS, "weight_high": 3.0, "is_product": True}, "cressie-read",
         "about 15 large scores carry the estimate (skewness 0.26); the ranges of weights and rewards are known"),
        (0.26, 600, {**LEVELS, "is_product": True}, "confidence-sequence",
         "about 15 large scores carry the estimate (skewness 0.26); rewards are bounded"),
        (0.26, 600, {**BINARY, "is_product": True}, "clopper-pearson",
         "about 15 large scores carry the estimate (skewness 0.26); rewards are binary"),
        (0.26, 600, {**BINARY, "weights": np.ones(600)}, "clopper-pearson",
         "about 15 large scores carry the estimate (skewness 0.26); rewards are binary"),
        (0.26, 600, BINARY, "bounded-likelihood",
         "about 15 large scores carry the estimate (skewness 0.26); the ranges of weights and rewards are known"),
        (0.51, 600, {**BINARY, "is_value": False}, "bounded-likelihood",
         "about 3.8 large scores carry the estimate (skewness 0.51); the ranges of weights and rewards are known"),
        (0.51, 600, {**BINARY, "weights": np.repeat([0.0, 1.0], [571, 29]), "is_value": False}, "cautious-likelihood!",
         "insufficient evidence: about 3.8 large scores carry the estimate (skewness 0.51)"),
        (0.26, 300, {"score_low": -9.0, "score_high": 9.0}, "empirical-bernstein",
         "about 15 large scores carry the estimate (skewness 0.26); the scores have a known range"),
        (0.50, 300, {}, "cautious-likelihood",
         "about 4 large scores carry the estimate (skewness 0.50); their range is not known"),
        (0.51, 300, {}, "cautious-likelihood!",
         "insufficient evidence: about 3.8 large scores carry the estimate (skewness 0.51)"),
        (2.00, 300, {}, "cautious-likelihood!",
         "insufficient evidence: about 1 large scores carry the estimate (skewness 2.00)"),
        (0.01, 10, {}, "t", "10 independent units with balanced scores"),
        (0.01, 9, {}, "cautious-likelihood!", "insufficient evidence: only 9 independent units count"),
        (0.01, 9, {"score_low": -9.0, "score_high": 9.0}, "empirical-bernstein",
         "only 9 independent units count; the scores have a known range"),
        (0.01, 1, {"score_low": -9.0, "score_high": 9.0}, "normal!",
         "insufficient evidence: only 1 independent units count"),
    ],
)  # fmt: skip
def test_the_rules_at_their_thresholds(monkeypatch, kappa, n, known, method, why):
    monkeypatch.setattr(rules, "lumps", lambda *_: (kappa, kappa))
    found = rules.choose(Sample.of_mean(np.arange(n) % 2 * 1.0), Evidence(**known))
    assert (found.method, found.reason, found.sufficient) == (method.strip("!"), why, "!" not in method)


def test_rules_that_come_before():
    s = Sample.of_mean(np.tile([0.0, 1.0], 150))
    same = rules.automatic(s, Evidence(np.ones(4), np.full(4, 2.0)))
    assert (same.low, same.high, same.method, same.sufficient) == (-math.inf, math.inf, "none", False)
    assert same.note == f"insufficient evidence: {rules.CONSTANT}"
    ranged = Evidence(np.ones(300), np.full(300, 2.0), reward_low=0.0, reward_high=4.0, constant=True)
    assert rules.choose(s, ranged).method != "none"
    w = np.append(np.ones(290), np.arange(10.0) + 1)
    for tail, insufficient in ((0.7, False), (0.71, True)):
        found = rules.choose(s, Evidence(np.append(w, 900.0), tail=tail))
        why = (
            "insufficient evidence: the weights have no known bound and a Pareto tail index of 0.71, so weights larger "
            "than any in the log could change the value"
        )
        assert (found.reason == why) is insufficient
        assert rules._unbounded_tail(Evidence(np.append(w, 900.0), tail=tail, weight_high=999.0)) is None
        assert rules._unbounded_tail(Evidence(w, tail=tail)) is None  # the largest carries next to nothing
    negative = Sample(np.ones(4), np.array([1.0, -1.0, 2.0, 2.0]))
    assert rules._least_bad(negative) == "normal"
    assert rules._least_bad(Sample(np.ones(3), np.array([1.0, 0.0, 2.0]))) == "cautious-likelihood"
    assert rules._skewed(negative, Evidence(score_low=0.0, score_high=1.0), "why").method == "normal"
    zero = Sample(np.ones(3), np.array([1.0, 0.0, 2.0]))
    assert rules._skewed(zero, Evidence(score_low=0.0, score_high=1.0), "why").method == "empirical-likelihood"
    one = Evidence(np.ones(1), np.ones(1), weight_high=2.0, reward_low=0.0, reward_high=2.0)
    assert rules._exact(s, one, "why", few=True).method == "confidence-sequence"
    sizes = Sample(np.ones(3), np.array([1.0, 1.0, 2.0]))
    assert rules._exact(sizes, Evidence(score_low=0.0, score_high=1.0), "why", few=False) is None


def test_heavy_tails_get_at_least_the_interval_of_95_percent():
    s = Sample.of_mean(np.append(np.zeros(60), np.arange(8.0)))
    heavy, light = (Evidence(np.ones(68), s.numerator, heavy=h, tail=0.0, is_complete=True) for h in (True, False))
    wide, narrow = rules.automatic(s, heavy, 0.8), rules.automatic(s, light, 0.8)
    assert wide.method == narrow.method == "cautious-likelihood"
    assert (wide.low, wide.high, wide.level) == (*rules.by_name("cautious-likelihood", s, heavy, 0.95), 0.8)
    assert (narrow.low, narrow.high) == tuple(rules.by_name("cautious-likelihood", s, light, 0.8))
    assert tuple(rules.automatic(s, heavy, 0.99)) == tuple(rules.by_name("cautious-likelihood", s, heavy, 0.99))


def test_methods_by_name():
    s = Sample.of_mean([0.0, 1.0, 0.5])
    assert said(lambda: rules.by_name("magic", s)) == "No automatic interval method is called 'magic'."
    assert (
        said(lambda: rules.by_name("cressie-read", s)) == "'cressie-read' needs the weights and rewards of the units."
    )
    w = Evidence(np.ones(3), np.arange(3.0), reward_low=0.0, reward_high=2.0)
    assert (
        said(lambda: rules.by_name("cressie-read", s, w)) == "This interval needs 'weight_high', which was not given."
    )
    assert (
        said(lambda: rules.by_name("empirical-bernstein", s)) == "This interval needs 'score_low', which was not given."
    )
    assert said(lambda: rules.by_name("clopper-pearson", s, Evidence(np.ones(3), np.arange(3.0)))) == (
        "This interval needs 'reward_low', which was not given."
    )
    assert rules.holding(Interval(1.0, 2.0, 0.9, "t"), 0.5).low == 0.5
    assert rules.by_name("normal", s).method == "normal"
