"""Intervals with a closed form against that form, branch by branch, and every refusal word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forms import said
from scipy import stats

from offpolicy.errors import DataError
from offpolicy.inference.intervals import adaptive, wald
from offpolicy.inference.intervals import exact as binary
from offpolicy.inference.intervals import exact as concentration
from offpolicy.inference.intervals import wald as power
from offpolicy.inference.intervals import wald as ratio
from offpolicy.inference.intervals.sample import Interval, Sample, check_level, column, frequencies

EPS = float(np.finfo(float).eps)
Z90, Z95 = stats.norm.ppf(0.95), stats.norm.ppf(0.975)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


# -- samples and intervals ---------------------------------------------------------------------------------


def test_what_an_interval_says_of_itself():
    i = Interval(-1.0, 3.0, 0.9, "t", "why")
    assert (i[0], i[1], len(i), i.width, tuple(i)) == (-1.0, 3.0, 2, 4.0, (-1.0, 3.0))
    assert [i.covers(v) for v in (-1.1, -1.0, 3.0, 3.1)] == [False, True, True, False]
    assert (i.reason, i.shown, i.unbounded) == ("", (-1.0, 3.0), "")
    inf = math.inf
    sides = [Interval(*e, 0.9, "t").unbounded for e in ((-inf, 1), (1, inf), (-inf, inf), (inf, -inf))]  # fmt: skip
    assert sides == ["below", "above", "on both sides", ""]
    refused = Interval(0.0, 1.0, 0.9, "t", "insufficient evidence: few", sufficient=False)
    assert refused.reason == "few"
    assert np.isnan(refused.shown).all()


def test_a_ratio_of_sums_and_its_error():
    num, den, c = np.array([1.0, 5.0, 2.0]), np.array([2.0, 3.0, 1.0]), np.array([4.0, 1.0, 2.0])
    s = Sample(num, den, c)
    theta = (c @ num) / (c @ den)
    assert s.estimate == pytest.approx(theta, rel=1e-14)
    assert s.residual == pytest.approx(num - theta * den, rel=1e-12)
    assert s.std_error == pytest.approx(math.sqrt(c @ (num - theta * den) ** 2) / (c @ den))
    assert (s.total, s.is_mean) == (7.0, False)
    assert Sample(num, np.full(3, 2.0)).is_mean
    assert Sample(num, den).total == 3.0
    assert not Sample(num, np.array([1.0, 2.0, 1.0])).is_mean


def test_rows_of_no_count_are_left_out():
    s = Sample(np.array([9.0, 1.0, 3.0]), np.array([5.0, 1.0, 1.0]), np.array([0.0, 2.0, 1.0]))
    assert (s.numerator.tolist(), s.denominator.tolist(), s.count.tolist()) == ([1, 3], [1, 1], [2, 1])  # fmt: skip


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_that_differ_in_their_last_digits_are_the_same(sign):
    for steps, flat in ((127, True), (130, False)):  # half the spread against 64 roundings
        x = sign * np.array([1.0, 1.0 + steps * EPS])
        assert (not Sample.of_mean(x).residual.any()) is flat
    for apart, flat in ((5.4e-12, True), (6.6e-12, False)):  # a third of it against 1e-12 of 2
        x = sign * np.array([1.0, 2.0 + apart])
        assert (not Sample(x, np.array([1.0, 2.0])).residual.any()) is flat


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Sample(np.ones(2), np.array([1.0, -1.0])),
         ("the denominators (weights) of the units sum to 0, so the ratio is undefined. "
         "The policies do not overlap on these data.")),
        (lambda: column("x", [[1.0]]), "x must be a non-empty vector; its shape is (1, 1)."),
        (lambda: column("x", []), "x must be a non-empty vector; its shape is (0,)."),
        (lambda: column("x", [1.0, 2.0], 3), "x has 2 values, but 3 are expected."),
        (lambda: column("x", [1.0, math.nan]), "x: 1 of 2 values (first: row 1 = nan) are not finite numbers."),
        (lambda: frequencies([1.0, -1.0], 2),
         "count: 1 of 2 values (first: row 1 = -1.0) are negative; counts are frequencies."),
        (lambda: frequencies([0.0, 0.0], 2), "count: every frequency is 0, so there are no units."),
        (lambda: check_level(1.0), "The 'level' parameter must be a float in the range (0, 1). Got 1.0 instead."),
        (lambda: check_level(0.0), "The 'level' parameter must be a float in the range (0, 1). Got 0.0 instead."),
        (lambda: check_level(True), "The 'level' parameter must be a float in the range (0, 1). Got True instead."),
        (lambda: check_level("a"), "The 'level' parameter must be a float in the range (0, 1). Got 'a' instead."),
        (lambda: wald.student(Sample.of_mean([1.0])), "A Student interval needs at least 2 independent units."),
        (lambda: concentration.empirical_bernstein(Sample.of_mean([1.0]), low=0, high=2),
         "An empirical Bernstein interval needs at least 2 independent units."),
        (lambda: concentration.hoeffding(Sample.of_mean([1.0]), low=1, high=1),
         "The range of the scores must be finite, low < high. Got [1, 1]."),
        (lambda: concentration.hoeffding(Sample.of_mean([1.0]), low=0, high=math.inf),
         "The range of the scores must be finite, low < high. Got [0, inf]."),
        (lambda: concentration.hoeffding(Sample.of_mean([1.0]), low=-math.inf, high=1),
         "The range of the scores must be finite, low < high. Got [-inf, 1]."),
        (lambda: concentration.hoeffding(Sample(np.ones(2), np.array([1.0, 2.0])), low=0, high=1),
         ("This bound holds for means of bounded units; these units have different sizes (clusters or weights). Use "
         "empirical likelihood or a bootstrap.")),
        (lambda: concentration.hoeffding(Sample.of_mean([0.5, 1.1, -0.2]), low=0, high=1),
         "scores: 2 of 3 values (first: row 1 = 1.1, row 2 = -0.2) are outside the range [0, 1]."),
        (lambda: power.trial_for_means(0.0, 1.0), "No finite test can detect a difference of 0.0. Give another one."),
        (lambda: power.trial_for_means(math.inf, 1.0),
        "No finite test can detect a difference of inf. Give another one."),
        (lambda: power.trial_for_means(1.0, 1.0, power=1.0),
         "The 'power' parameter must be in the range (0, 1). Got 1.0."),
        (lambda: power.trial_for_means(1.0, 1.0, power=0.0),
         "The 'power' parameter must be in the range (0, 1). Got 0.0."),
        (lambda: power.trial_for_means(1.0, 1.0, treatment_share=1.0),
         "The 'treatment_share' parameter must be in (0, 1). Got 1.0."),
        (lambda: power.trial_for_means(1.0, 1.0, treatment_share=0.0),
         "The 'treatment_share' parameter must be in (0, 1). Got 0.0."),
        (lambda: power.trial_for_means(1.0, -1.0, 2.0), "Variances must be finite and not negative. Got -1.0, 2.0."),
        (lambda: power.trial_for_means(1.0, 1.0, math.inf), "Variances must be finite and not negative. Got 1.0, inf."),
        (lambda: ratio.Pair(1.0, 1.0, 1.0, 1.0, 1.1), "variances and covariance do not form a covariance matrix."),
        (lambda: ratio.Pair(1.0, 1.0, -1.0, 1.0), "variances and covariance do not form a covariance matrix."),
        (lambda: ratio.Pair(1.0, 0.0, 1.0, 1.0).lift, "the lift is relative to a value of 0 and is undefined."),
        (lambda: ratio.log_scale(ratio.Pair(1.0, -2.0, 1.0, 1.0)),
         "a log-scale interval needs two positive means; they are 1 and -2. Use Fieller's interval."),
        (lambda: ratio.log_scale(ratio.Pair(0.0, 2.0, 1.0, 1.0)),
         "a log-scale interval needs two positive means; they are 0 and 2. Use Fieller's interval."),
        (lambda: adaptive.summarize([1.0, 2.0], [0, -1]), "batch must have one code 0, 1, … per unit, in time order."),
        (lambda: adaptive.summarize([1.0, 2.0], [0.0, 1.0]),
         "batch must have one code 0, 1, … per unit, in time order."),
        (lambda: adaptive.summarize([1.0, 2.0], [0, 0, 0]),
         "batch must have one code 0, 1, … per unit, in time order."),
        (lambda: adaptive.summarize([1.0, 2.0, 3.0], [0, 0, 1]),
         "batch 1 has 1 units; every batch needs at least 2 for a variance. Merge small batches with their neighbors."),
        (lambda: adaptive.stabilized(adaptive.summarize([1.0, 2.0], [0, 0]), [0.0]),
         "The 'scale' of every batch must be positive."),
        (lambda: adaptive.stabilized(adaptive.summarize([1.0, 2.0], [0, 0])),
         "Weights from the past need at least 2 batches."),
        (lambda: adaptive.stabilized(adaptive.summarize([1.0, 1.0, 2.0, 3.0], [0, 0, 1, 1])),
         "The first batches have no spread; give a predictable 'scale' instead."),
        (lambda: binary.clopper_pearson([0.0, 0.5]),
         "rewards: 1 of 2 values (first: row 1 = 0.5) are neither 0 nor 1; this interval is for two-valued rewards."),
    ],
)  # fmt: skip
def test_refusals(call, words):
    assert said(call) == words


# -- Wald and concentration --------------------------------------------------------------------------------


def test_wald_intervals():
    x = np.array([0.0, 1.0, 2.0, 5.0])
    s, error = Sample.of_mean(x), x.std() / 2
    assert ends(wald.normal(s, 0.9)) == pytest.approx((2 - Z90 * error, 2 + Z90 * error))
    half = stats.t.ppf(0.95, 3) * stats.sem(x)
    assert ends(wald.student(s, 0.9)) == pytest.approx((2 - half, 2 + half))
    assert wald.student(Sample.of_mean([0.0, 1.0])).width == pytest.approx(2 * stats.t.ppf(0.975, 1) / 2)
    assert (wald.normal(s).note, wald.normal(s).sufficient) == ("", True)
    flat = wald.normal(Sample.of_mean([1.0, 1.0]))
    assert (flat.note, flat.sufficient) == (wald.NO_VARIATION, False)


def test_bounds_of_bounded_scores():
    x = np.array([0.5, 1.0, 2.0, 2.5] * 30)
    s = Sample.of_mean(x)
    half = 3.0 * math.sqrt(math.log(2 / 0.1) / 240)
    assert ends(concentration.hoeffding(s, 0.9, low=0, high=3)) == pytest.approx((1.5 - half, 1.5 + half))
    log = math.log(4 / 0.1)
    half = math.sqrt(2 * x.var(ddof=1) * log / 120) + 7 * 3.0 * log / (3 * 119)
    assert half < 1.5
    assert ends(concentration.empirical_bernstein(s, 0.9, low=0, high=3)) == pytest.approx((1.5 - half, 1.5 + half))
    for bound in (concentration.hoeffding, concentration.empirical_bernstein):
        cut = bound(Sample.of_mean([0.1, 2.9]), low=0, high=3)
        assert (*ends(cut), cut.note) == (0, 3, concentration.GUARANTEE)
    assert concentration.empirical_bernstein(Sample.of_mean([0.0, 3.0]), low=0, high=3).width == 3.0
    halves = Sample(x / 2, np.full(120, 0.5))  # a mean of units that are all of size ½
    assert concentration.hoeffding(halves, 0.9, low=0, high=3).width == pytest.approx(
        6.0 * math.sqrt(math.log(20) / 240)
    )
    concentration.hoeffding(Sample.of_mean([0.0 - 2e-9, 3.0 + 2e-9]), low=0, high=3)  # rounding is no breach
    for outside in ([0.0, 3.0 + 4e-9], [-4e-9, 1.0]):
        with pytest.raises(DataError):
            concentration.hoeffding(Sample.of_mean(outside), low=0, high=3)


def test_implicit_exploration():
    x, c = np.array([0.0, 1.0, 7.0]), np.array([300.0, 500.0, 30.0])
    gamma = 1 / (2 * math.sqrt(830))
    low = (c @ (x / (1 + gamma * x))) / 830 - math.log(1 / 0.1) / (2 * gamma * 830)
    assert concentration.implicit_exploration(x, 0.1, c) == pytest.approx(low)
    long = np.repeat(x, c.astype(int))
    assert concentration.implicit_exploration(long, 0.1) == pytest.approx(low)
    assert concentration.implicit_exploration(np.array([0.0, 0.1]), 0.05) == 0.0


# -- two-valued rewards ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("won", "n"), [(0, 30), (1, 30), (7, 30), (29, 30), (30, 30)])
def test_clopper_pearson_is_scipys(won, n):
    found = binary.clopper_pearson((np.arange(n) < won) * 5.0 + 2.0, level=0.9, reward_low=2, reward_high=7)
    exact = stats.binomtest(won, n).proportion_ci(0.9, "exact")
    assert ends(found) == pytest.approx((2 + 5 * exact.low, 2 + 5 * exact.high), abs=1e-12)
    assert found.note == "exact for the 30 units with a positive weight, which all have the same weight"


def gamma_ends(w, won, c, top, level):
    """Fay and Feuer's interval, from scipy's gamma distribution."""
    a = (1 - level) / 2
    total, s = c @ w, c @ (w * won)
    v = max(c @ (w * w * won), c @ (w * w * (won - s / total) ** 2))
    low = stats.gamma.ppf(a, s**2 / v) * v / s if s else 0.0
    more, wider = s + top, v + top**2
    return low / total, stats.gamma.ppf(1 - a, more**2 / wider) * wider / more / total


def test_gamma_interval_of_weighted_successes():
    w, c = np.array([0.0, 0.5, 2.0, 4.0, 2.0]), np.array([50.0, 40.0, 10.0, 3.0, 4.0])
    rare = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    on, positive = w[1:], c[1:]
    for top, given in ((4.0, None), (9.0, 9.0)):
        low, high = gamma_ends(on, rare[1:], positive, top, 0.9)
        found = binary.clopper_pearson(rare, w, c, 0.9, weight_high=given)
        assert ends(found) == pytest.approx((low, high), rel=1e-9)
        assert found.note == f"gamma interval for weighted rare outcomes, weights up to {top:g}"
        mirrored = binary.clopper_pearson(1 - rare, w, c, 0.9, weight_high=given)
        assert ends(mirrored) == pytest.approx((1 - high, 1 - low), rel=1e-9)
    none = binary.clopper_pearson(np.zeros(5), w, c, 0.9)
    assert ends(none) == pytest.approx(gamma_ends(on, np.zeros(4), positive, 4.0, 0.9), rel=1e-9)
    # Success rates that differ between levels spread more than Poisson counts do.
    apart = (
        np.array([0.0, 0.0, 0.0, 1.0, 0.0]),
        np.array([0.0, 1.0, 1.0, 6.0, 3.0]),
        np.array([1.0, 20.0, 20.0, 2.0, 3.0]),
    )
    found = binary.clopper_pearson(*apart, 0.95)
    assert ends(found) == pytest.approx(gamma_ends(apart[1][1:], apart[0][1:], apart[2][1:], 6.0, 0.95), rel=1e-9)
    nothing = binary.clopper_pearson([0.0, 1.0], [0.0, 0.0])
    assert (*ends(nothing), nothing.note) == (0.0, 1.0, "no unit has a positive weight, so the data cannot say")


def test_one_weight_below_the_largest_possible_is_not_exact():
    won = (np.arange(30) < 4) * 1.0
    exact, loose = (binary.clopper_pearson(won, np.full(30, 2.0), weight_high=h) for h in (2.0, 2.1))
    assert exact.note.startswith("exact") and loose.note.startswith("gamma")  # noqa: PT018
    assert ends(loose) == pytest.approx(gamma_ends(np.full(30, 2.0), won, np.ones(30), 2.1, 0.95))
    assert binary.clopper_pearson([1.0, 0.0], [2.0, 2.1]).note.startswith("gamma")
    half = binary.clopper_pearson([1.0, 0.0] * 20, [2.0, 2.0, 1.0, 1.0] * 10)
    assert ends(half) == pytest.approx(
        gamma_ends(np.tile([2.0, 2, 1, 1], 10), np.tile([1.0, 0], 20), np.ones(40), 2, 0.95)
    )
    # An upper end beyond every value is cut at it.
    assert binary.clopper_pearson([0.0, 0.0], [1.0, 2.0]).high == 1.0
