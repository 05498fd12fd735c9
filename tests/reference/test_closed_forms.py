"""Parts of intervals, checks and scores against forms worked out by hand or with scipy, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.errors import DataError
from offpolicy.inference.figures import decimals, measured, percent, plain
from offpolicy.inference.intervals import adaptive, likelihood, resample, rules, tails, wald
from offpolicy.inference.intervals import betting as sequence
from offpolicy.inference.intervals import cells as quadrature
from offpolicy.inference.intervals import wald as ratio
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.tails import Moments, Pool
from offpolicy.inference.score_table import Affine
from offpolicy.splits.hashing import drawn, fold_of, hash_constants, scrambled
from offpolicy.trust.check import CHECKS

Z = stats.norm.ppf(0.975)


# -- numbers as people read them ---------------------------------------------------------------------------


def test_digits_without_a_standard_error():
    assert [decimals(x) for x in (0.0, -1.0, math.nan, math.inf)] == [4, 4, 4, 4]
    assert measured(0.123456, 0.0) == "0.1235"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1e-5, 3, "0.00001"), (9.99e-6, 3, "9.99e-06"), (1.234e12, 3, "1,230,000,000,000"), (1.2e13, 2, "1.2e+13"),
     (-0.5, 3, "-0.5"), (0.098765, 2, "0.099"), (1999.6, 4, "2,000")],
)  # fmt: skip
def test_significant_digits(value, digits, text):
    assert plain(value, digits) == text


def test_percentages():
    assert percent(0.12345, 1) == "12.3%"
    assert percent(math.nan) == "—"


# -- batches of a policy that learns -----------------------------------------------------------------------


def batches():
    return adaptive.summarize([1.0, 3.0, 5.0, 5.5, 2.0, 8.0, 4.0], [0, 0, 1, 1, 2, 2, 2])


def test_batches_are_combined_by_size():
    b = batches()
    found = adaptive.pooled(b)
    share = np.array([2, 2, 3]) / 7
    assert found.estimate == pytest.approx(share @ [2.0, 5.25, 14 / 3])
    variances = [2.0, 0.125, np.var([2.0, 8.0, 4.0], ddof=1)]
    error = math.sqrt(share**2 @ (np.array(variances) / [2, 2, 3]))
    assert found.std_error == pytest.approx(error)
    low, high = found.interval()
    assert (low, high) == pytest.approx((found.estimate - Z * error, found.estimate + Z * error))


def test_the_scale_of_a_batch_is_that_of_the_one_before():
    b = batches()
    # Before the third: 0.125, or a hundredth of the mean (2·2 + 2·0.125) / 4 of all before, whichever is more.
    assert adaptive.past_scale(b) == pytest.approx([math.inf, math.sqrt(2.0), math.sqrt(0.125)])
    flat = adaptive.summarize([0.0, 4.0, 5.0, 5.0, 1.0, 2.0], [0, 0, 1, 1, 2, 2])
    assert adaptive.past_scale(flat) == pytest.approx([math.inf, math.sqrt(8.0), math.sqrt(0.01 * 4.0)])
    long = adaptive.summarize([0.0, 4.0, 5.0, 5.0, 1.0, 1.0, 1.0, 2.0], [0, 0, 1, 1, 2, 2, 3, 3])
    assert adaptive.past_scale(long)[3] == pytest.approx(math.sqrt(0.01 * 16 / 6))


# -- ratios ------------------------------------------------------------------------------------------------


def test_fieller_outside_of_two_ends():
    """With a baseline that may be 0, the lifts that are excluded lie between two roots."""
    pair = ratio.Pair(0.5, 0.1, 0.0001, 0.01)
    found = ratio.fieller(pair)
    assert (found.low, found.high) == (-math.inf, math.inf)
    a, b, c = 0.1**2 - Z**2 * 0.01, 0.05, 0.5**2 - Z**2 * 0.0001
    ends = sorted(np.roots([a, -2 * b, c]).real - 1)
    assert f"everything outside ({ends[0]:.6g}, {ends[1]:.6g})" in found.note


def test_fieller_inside_of_two_ends():
    found = ratio.fieller(ratio.Pair(0.12, 0.10, 0.0001, 0.0001, 0.00003))
    a, b, c = 0.01 - Z**2 * 0.0001, 0.012 - Z**2 * 0.00003, 0.0144 - Z**2 * 0.0001
    assert (found.low, found.high) == pytest.approx(tuple(sorted(np.roots([a, -2 * b, c]) - 1)))


# -- residuals of the whole log ----------------------------------------------------------------------------


def test_moments_by_plain_loops():
    rng = np.random.default_rng(0)
    e, m = rng.normal(size=50), rng.integers(1, 4, size=50).astype(float)
    long = np.repeat(e, m.astype(int))
    c = long - long.mean()
    found = Moments.of(e, m)
    assert (found.second, found.third, found.absolute) == pytest.approx(
        ((c**2).mean(), (c**3).mean(), (np.abs(c) ** 3).mean())
    )
    assert (found.low, found.high) == pytest.approx((c.min(), c.max()))


def test_tails_that_are_heavy_on_both_sides_count_beyond_the_normal():
    w = np.array([1.0, 2.0, 3.0])
    heavy = np.array([-3.0, -1.0, -1.0, 1.0, 1.0, 3.0, 20.0, -20.0])
    absolute, second = np.mean(np.abs(heavy) ** 3), np.mean(heavy**2)
    shape = absolute / second**1.5 - math.sqrt(8 / math.pi)
    found = Pool.of(Moments.of(heavy), w)
    assert shape > 0
    assert found.skewness == pytest.approx(shape * 36 / 14**1.5)


def test_a_difference_may_lose_what_the_log_gained():
    moments = Moments.of(np.array([-1.0, 0.0, 4.0]))
    low, high = moments.low, moments.high
    same = Pool.of(moments, np.array([1.0, 2.0]))
    assert (same.low, same.high) == pytest.approx((9 / 5 * low, 9 / 5 * high))
    apart = Pool.of(moments, np.array([1.0, -2.0]))
    assert (apart.low, apart.high) == pytest.approx((-9 / 5 * high, 9 / 5 * high))


# -- the bootstrap's urn -----------------------------------------------------------------------------------


def test_sums_over_the_middle_have_its_moments():
    rng = np.random.default_rng(1)
    e = rng.gamma(2.0, size=4000) - 2.0
    d = 1 + 0.5 * e + 0.1 * rng.normal(size=4000)
    middle = resample._moments(np.stack([e, d], axis=1), np.ones(4000))
    number = np.full(40_000, 100)
    sums = resample._middle_sums(middle, number, rng.normal(size=(40_000, 2)))
    error = 5 / math.sqrt(40_000)
    for j, x in enumerate((e, d)):
        assert sums[:, j].mean() == pytest.approx(100 * x.mean(), abs=error * 10 * x.std())
        assert sums[:, j].std() == pytest.approx(10 * x.std(), rel=5 * error)
    assert np.corrcoef(sums.T)[0, 1] == pytest.approx(np.corrcoef(e, d)[0, 1], abs=error)
    assert stats.skew(sums[:, 0]) == pytest.approx(stats.skew(e) / 10, abs=5 * math.sqrt(6 / 40_000))


def test_what_is_not_drawn_one_by_one_is_neither_the_lowest_nor_the_highest():
    n = resample.ONE_BY_ONE + 1000
    x = np.random.default_rng(2).permutation(np.arange(n, dtype=float))
    sample = Sample(x, np.ones(n))
    urn = resample._urn(sample)
    e = np.sort(sample.residual)
    tail = resample.TAIL
    assert np.sort(urn.units[:, 0]) == pytest.approx(np.concatenate([e[:tail], e[-tail:]]))
    assert urn.middle.mean[0] == pytest.approx(e[tail:-tail].mean(), abs=1e-6)
    assert urn.middle.variance == pytest.approx(e[tail:-tail].var(), rel=1e-9)


# -- tails of weights --------------------------------------------------------------------------------------


def test_the_tail_is_three_roots_of_n_units():
    """Of 400 units the 60 largest, above the 61st; a fifth of all where that is fewer."""
    rng = np.random.default_rng(3)
    for n, size in ((400, 60), (100, 20), (900, 90)):
        w = np.sort(rng.pareto(1.5, size=n)) + 1
        excess = w[-size:] - w[-size - 1]
        expected = tails.generalized_pareto(excess)[0]
        assert tails.tail_index(rng.permutation(w)) == pytest.approx(expected, rel=1e-12)
        half = n // 2
        assert tails.tail_index(np.concatenate([w[:half], w[half:]]), np.ones(n)) == pytest.approx(expected)


def test_excesses_must_be_positive():
    for bad in (0.0, -0.5):
        with pytest.raises(DataError, match=r"row 1.* not positive"):
            tails.generalized_pareto([1.0, bad, 2.0])


def test_pareto_shape_of_large_samples():
    rng = np.random.default_rng(4)
    for k in (-0.3, 0.2, 0.8):
        x = stats.genpareto.rvs(k, scale=3.0, size=40_000, random_state=rng)
        shape, scale = tails.generalized_pareto(x)
        assert shape == pytest.approx(k, abs=5 * (1 + abs(k)) / 200)
        assert scale == pytest.approx(3.0, rel=0.05)


# -- bets --------------------------------------------------------------------------------------------------


def test_weights_that_contradict_every_value_are_shown():
    with pytest.raises(DataError, match=r"average 3\. Check the propensities"):
        sequence.confidence_sequence([3.0, 3.0], [0.0, 1.0], [250, 250], reward_low=0, reward_high=1)


def test_a_negative_weight_is_named():
    with pytest.raises(DataError, match=r"row 1 = -2"):
        sequence.confidence_sequence([1.0, -2.0], [0.0, 1.0], reward_low=0, reward_high=1)


# -- expressions over columns ------------------------------------------------------------------------------


def test_affine_expressions_add_their_constants():
    one = Affine.column("a").scaled(2.0, shift=3.0)
    two = Affine.column("a").scaled(-1.0, shift=4.0)
    assert (one + two) == Affine(7.0, (("a", 1.0),))
    assert (one - two) == Affine(-1.0, (("a", 3.0),))
    assert Affine.mean([one, two]) == Affine(3.5, (("a", 0.5),))
    assert (one + one.scaled(-1.0)) == Affine(0.0, ())


# -- folds -------------------------------------------------------------------------------------------------


def test_the_fold_is_the_documented_arithmetic():
    constants = hash_constants(7)
    a, b, s, t = constants
    for m in (0, 1, 5, 123_456_789, -4):
        for k in (2, 3, 5):
            place = m % k
            block = m - place
            u, v = (block % 67108859 * a + s) % 67108859, (block % 67108837 * b + t) % 67108837
            assert scrambled(block, constants) == u * v % 67108819
            assert fold_of(m, k, constants) == (place + u * v % 67108819) % k


# -- checks ------------------------------------------------------------------------------------------------


def test_clusters_widen_the_balance_check_by_their_design_effect():
    from offpolicy.trust.balance import design_effects

    rng = np.random.default_rng(5)
    cluster = np.repeat(np.arange(40), 6)
    a = (np.repeat(rng.random(40), 6) < 0.3).astype(int)
    p = np.where(a == 1, 0.3, 0.7)
    log = op.BanditLog.from_arrays(rng.normal(size=240), a, rng.random(240), p, cluster=cluster)
    effects, units = design_effects(log)
    assert units == 40
    for k in range(2):
        gain = (a == k) / p - 1
        sums = np.bincount(cluster, gain - gain.mean())
        assert effects[k] == pytest.approx((sums**2).sum() / ((gain - gain.mean()) ** 2).sum())


def test_cutting_weights_moves_the_estimate_by_so_many_standard_errors():
    rng = np.random.default_rng(6)
    n = 500
    p = rng.choice([0.02, 0.9], n, p=[0.1, 0.9])
    a = (rng.random(n) < p).astype(int)
    r = 50 * (rng.random(n) < 0.4 + 0.3 * (p < 0.5))
    log = op.BanditLog.from_arrays(p, a, r.astype(float), np.where(a == 1, p, 1 - p))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    found = ev.diagnostics["clipping_sensitivity"]
    w = np.where(a == 1, 1 / p, 0.0)
    whole = (w @ r) / w.sum()
    psi = w * (r - whole) / w.mean()
    error = psi.std() / math.sqrt(n)
    cap = found.details["curve"]
    cut = min((c for c in cap), key=lambda c: abs(abs(c["value"] - whole) / error - found.value))
    assert found.value == pytest.approx(abs(cut["value"] - whole) / error, rel=1e-6)
    v = np.minimum(w, cut["cap"])
    assert cut["value"] == pytest.approx((v @ r) / v.sum(), rel=1e-9)
    assert cut["clipped"] == pytest.approx(np.mean(w > cut["cap"] * (1 + 1e-9)))


# -- likelihoods and cells ---------------------------------------------------------------------------------


def test_a_likelihood_does_not_depend_on_the_unit_of_size():
    rng = np.random.default_rng(8)
    x, size = rng.gamma(1.0, size=40), rng.gamma(4.0, size=40)
    for rule in (likelihood.empirical_likelihood, likelihood.cautious_likelihood):
        one, three = rule(Sample(x, size)), rule(Sample(3 * x, 3 * size))
        assert (three.low, three.high) == pytest.approx((one.low, one.high), rel=1e-9)


def test_points_of_a_cell_keep_three_moments_around_the_line():
    rng = np.random.default_rng(9)
    a = rng.gamma(3.0, size=300)
    b = 0.5 * a + a * (rng.gamma(0.7, size=300) - 0.7)
    cells = quadrature.CellSums.of(np.zeros(300, dtype=int), 1, a, b, np.ones(300))
    p = quadrature.points(cells)
    slope = np.cov(a, b, bias=True)[0, 1] / a.var()
    for power in (1, 2, 3):
        assert float((p.count * p.a**power).sum()) == pytest.approx((a**power).sum())
        left = (b - b.mean() - slope * (a - a.mean())) ** power
        own = (p.b - b.mean() - slope * (p.a - a.mean())) ** power
        assert float((p.count * own).sum()) == pytest.approx(left.sum(), abs=1e-9 * 300)


def test_a_sum_is_written_with_the_signs_of_its_terms():
    rng = np.random.default_rng(10)
    log = op.BanditLog.from_arrays(None, [0, 1] * 50, rng.random(100), [0.5] * 100)
    ev = op.evaluate(log, {"a": op.policies.Fixed(0), "b": op.policies.Fixed(1)}, estimators=["IPW"])
    a, b = ev["a", "IPW"], ev["b", "IPW"]
    assert " + " in str(a + 0.5 * b).split("=")[0]
    assert " − " in str(a - 0.5 * b).split("=")[0]


# -- blends ------------------------------------------------------------------------------------------------


def test_a_blend_has_the_shares_of_least_mean_squared_error():
    """Two parts by hand: x = (B − C) / (A + B − 2C) of the first, A, B, C their squared errors and their product."""
    from offpolicy.scores.blend import PRODUCTS, _weights

    rng = np.random.default_rng(11)
    mass = rng.integers(1, 5, size=300).astype(float)
    trusted = next(iter(PRODUCTS))
    table = np.stack([rng.normal(0.3, 1.0, 300), rng.normal(0.0, 1.5, 300)])
    members = np.arange(300) % 3 > 0
    psi, m = table[:, members], mass[members]
    means = psi @ m / m.sum()
    away = (psi - means[:, None]) * m / m.sum()
    (a, c), (_, b) = away @ away.T
    for noise in (0.0, 1.0):
        gaps, distance = psi[0] - psi[1], float(means[0] - means[1])
        rest = [np.average(np.delete(gaps, i), weights=np.delete(m, i)) for i in range(len(m))]
        least = min(np.sign(distance) * g for g in rest)  # without the unit that adds most to it
        gap = abs(distance) - noise * (math.sqrt(a + b - 2 * c) + abs(distance) - least)
        bias = max(gap, 0.0)
        share = (b - c) / (a + bias**2 + b - 2 * c)
        shares, found = _weights(table, ["DRL", trusted], mass, members, noise)
        assert shares == pytest.approx([share, 1 - share], abs=1e-6)
        assert found == pytest.approx([bias, 0.0])


@pytest.mark.parametrize("names", [["DRL", "one", "two", "DML"], ["DRL", "one", "two"]])
def test_a_rung_is_off_by_the_most_that_a_higher_one_or_a_product_shows(names):
    """By hand: the mean of the gaps without the unit that adds most to it, less half the standard error of it."""
    from offpolicy.scores.blend import _weights

    rng = np.random.default_rng(12)
    mass = rng.integers(1, 5, size=200).astype(float)
    shared = rng.normal(size=200)
    table = np.stack([shared + rng.normal(at, 0.3, 200) for at in (0.9, 0.2, 0.1, 0.3)])
    table = table[: len(names)]
    bias = np.zeros(len(names))
    for j in range(3):
        for k in range(j + 1, len(names)):
            gaps = table[j] - table[k]
            gap = np.average(gaps, weights=mass)
            error = math.sqrt(mass**2 @ (gaps - gap) ** 2) / mass.sum()
            rest = [np.average(np.delete(gaps, i), weights=np.delete(mass, i)) for i in range(200)]
            least = min(np.sign(gap) * g for g in rest)
            bias[j] = max(bias[j], abs(gap) - 0.5 * (error + abs(gap) - least))
    _, found = _weights(table, names, mass, np.ones(200, dtype=bool), 0.5)
    assert found == pytest.approx(bias)
    assert bias[0] > bias[1] > 0


# -- small parts -------------------------------------------------------------------------------------------


def test_a_share_of_units_is_drawn_below_its_limit():
    constants = hash_constants(3, 0, 0xFA17)
    for number in range(20):
        place = scrambled(number, constants) % 2**20
        assert not drawn(number, place / 2**20, 3)
        assert drawn(number, (place + 1) / 2**20, 3)


def test_labels_of_folds_are_counted():
    rng = np.random.default_rng(12)
    labels = np.arange(60) % 3
    log = op.BanditLog.from_arrays(rng.normal(size=60), np.arange(60) % 2, rng.random(60), [0.5] * 60)
    own = op.BanditLog.from_arrays(rng.normal(size=60), np.arange(60) % 2, rng.random(60), [0.5] * 60, fold=labels)
    given = op.evaluate(log, "uniform", estimators=["IPW"], folds=labels)
    column = op.evaluate(own, "uniform", estimators=["IPW"])
    for ev in (given, column):
        assert ev.problem.folds.k == 3
        assert not ev.problem.folds.half_is_a_fold
    assert op.evaluate(log, "uniform", estimators=["IPW"]).problem.folds.half_is_a_fold


def test_levels_left_out_are_95_percent():
    sample = Sample.of_mean(np.random.default_rng(13).normal(size=30))
    pairs = [
        (rules.by_name("t", sample), rules.by_name("t", sample, None, 0.95)),
        (wald.normal(sample), wald.normal(sample, 0.95)),
        (wald.student(sample), wald.student(sample, 0.95)),
        (resample.bootstrap(sample), resample.bootstrap(sample, 0.95)),
        (resample.bca(sample), resample.bca(sample, 0.95)),
        (likelihood.empirical_likelihood(sample), likelihood.empirical_likelihood(sample, 0.95)),
        (likelihood.cautious_likelihood(sample), likelihood.cautious_likelihood(sample, 0.95)),
        (rules.automatic(sample), rules.automatic(sample, level=0.95)),
    ]
    for found, named in pairs:
        assert found.level == 0.95
        assert (found.low, found.high) == (named.low, named.high)


def test_a_chance_of_false_alarms_is_small_and_a_probability():

    chances = [c.limits.false_alarms for c in CHECKS.values() if c.limits.false_alarms is not None]
    assert chances
    assert all(0 < chance <= 0.01 for chance in chances)


def test_draws_of_equal_weight_have_the_squares_of_their_sums():
    from offpolicy.trust.view import Draws

    draws = Draws(np.array([1.0, 4.0]), np.array([3.0, 0.5]))
    assert draws.mass == pytest.approx([3.0, 2.0])
    assert draws.square == pytest.approx([9.0, 1.0])


def test_a_choice_is_all_or_nothing():
    from offpolicy.inference.reach import _is_choice

    assert _is_choice(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert not _is_choice(np.array([[0.0, 1.0], [0.5, 0.5]]))
