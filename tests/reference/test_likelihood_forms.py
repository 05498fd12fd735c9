"""Likelihood intervals against plain references: another parametrization, scipy's solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forms import said
from scipy import optimize, stats

from offpolicy.inference.intervals import likelihood, weight_likelihood
from offpolicy.inference.intervals import weight_likelihood as dual
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.wald import NO_VARIATION

RNG = np.random.default_rng(12)


# -- empirical likelihood ----------------------------------------------------------------------------------


def largest_mean(g, share, slack, unseen=None):
    """Largest Σ p g with Σ share log(share / p) ≤ slack: p = share · μ / (ν − g), solved for ν."""

    def gap(t):  # ν − g, exact where nearly all the mass is on the largest
        return math.exp(t) + (g.max() - g)

    def excess(t):
        return share @ np.log(gap(t)) + math.log(share @ (1 / gap(t))) - slack

    spread = math.log(max(np.ptp(g), 1e-12))
    t = optimize.brentq(excess, spread - 300, spread + 12, xtol=1e-14)
    if unseen is not None and g.max() + math.exp(t) < unseen:
        p = share * math.exp(share @ np.log(unseen - g) - slack) / (unseen - g)
        return p @ g + (1 - p.sum()) * unseen
    p = share / gap(t)
    return (p / p.sum()) @ g


def highest(s: Sample, level: float, unseen=None) -> float:
    """Largest θ for which num − θ den can have a mean of 0."""
    share = s.counts / s.total
    slack = stats.f.ppf(level, 1, s.total - 1) / (2 * s.total)

    def mean(theta):
        top = None if unseen is None else unseen[0] - theta * unseen[1]
        return largest_mean(s.numerator - theta * s.denominator, share, slack, top)

    reach = 1 + abs(s.estimate) + 60 * s.std_error
    if unseen is not None:
        reach += abs(unseen[0] / unseen[1])
    return optimize.brentq(mean, s.estimate, s.estimate + reach, xtol=1e-14, rtol=1e-14)


def mirrored(s: Sample) -> Sample:
    return Sample(-s.numerator, s.denominator, s.count)


SAMPLES = {
    "three": Sample.of_mean([0.2, 0.5, 3.0]),
    "two": Sample.of_mean([1.0, 4.0]),
    "skewed": Sample.of_mean(RNG.gamma(0.3, size=60)),
    "counted": Sample.of_mean([-1.0, 0.0, 8.0], count=[30, 50, 2]),
    "halves": Sample(np.array([1.0, 2.0, 0.5]), np.full(3, 0.5)),
    "clusters": Sample(RNG.gamma(2.0, size=25), RNG.integers(1, 5, size=25).astype(float)),
    "clusters, counted": Sample(np.array([1.0, 5.0, -2.0]), np.array([1.0, 3.0, 2.0]), np.array([5.0, 7.0, 2.0])),
}  # fmt: skip


@pytest.mark.parametrize("level", [0.8, 0.97])
@pytest.mark.parametrize("name", SAMPLES)
def test_empirical_likelihood(name, level):
    s = SAMPLES[name]
    found = likelihood.empirical_likelihood(s, level)
    assert found.high == pytest.approx(highest(s, level), rel=1e-9)
    assert found.low == pytest.approx(-highest(mirrored(s), level), rel=1e-9, abs=1e-9)
    assert (found.note, found.sufficient, found.level) == ("", True, level)
    low, high = (s.numerator / s.denominator).min() - 0.5, (s.numerator / s.denominator).max() + 3.0
    size = s.denominator.max()
    for ends in ((low, high), (None, high), (low, None)):
        bounded = likelihood.empirical_likelihood(s, level, low=ends[0], high=ends[1])
        up = None if ends[1] is None else (high * size, size)
        down = None if ends[0] is None else (-low * size, size)
        assert bounded.high == pytest.approx(highest(s, level, up), rel=1e-9)
        assert bounded.low == pytest.approx(-highest(mirrored(s), level, down), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", SAMPLES)
def test_cautious_likelihood(name):
    s = SAMPLES[name]
    size = s.counts @ s.denominator / s.total
    center, e = s.estimate * size, s.residual
    for reach, unseen in ((4.0, None), (1.0, None), (2.5, (-40.0, 50.0)), (4.0, (-1e-3, 1e-3))):
        found = likelihood.cautious_likelihood(s, 0.9, reach=reach, unseen=unseen)
        down, up = (0.0, 0.0) if unseen is None else unseen
        top = center + max(reach * e.max(), up), size
        bottom = -(center + min(reach * e.min(), down)), size
        assert found.high == pytest.approx(highest(s, 0.9, top), rel=1e-9)
        assert found.low == pytest.approx(-highest(mirrored(s), 0.9, bottom), rel=1e-9, abs=1e-9)
        assert found.note == f"allows for scores {reach:g} times as extreme as any in the log"


def test_likelihoods_of_equal_scores():
    flat = Sample.of_mean([2.0] * 30)
    slack = stats.f.ppf(0.9, 1, 29) / 60
    found = likelihood.empirical_likelihood(flat, 0.9, low=0.0, high=7.0)
    assert (found.low, found.high) == pytest.approx((2 * math.exp(-slack), 7 - 5 * math.exp(-slack)))
    for rule in (likelihood.empirical_likelihood, likelihood.cautious_likelihood):
        none = rule(flat, 0.9)
        assert (none.low, none.high, none.note, none.sufficient) == (2.0, 2.0, NO_VARIATION, False)
    at_the_end = likelihood.empirical_likelihood(flat, 0.9, low=2.0, high=2.0)
    assert (at_the_end.low, at_the_end.high) == (2.0, 2.0)
    noise = Sample(np.array([1.0, 2.0, 3.0 + 1e-15]), np.array([1.0, 2.0, 3.0]))
    assert likelihood.empirical_likelihood(noise, 0.9).width == 0.0


def test_what_likelihoods_refuse():
    s = Sample.of_mean([0.0, 5.0, 2.0])
    assert said(lambda: likelihood.empirical_likelihood(s, high=4.9)) == (
        "scores: 1 of 3 values (first: row 1 = 5.0) are above the stated bound 4.9."
    )
    assert said(lambda: likelihood.empirical_likelihood(s, low=0.1)) == (
        "scores: 1 of 3 values (first: row 0 = 0.0) are below the stated bound 0.1."
    )
    likelihood.empirical_likelihood(s, low=5e-9, high=5 - 5e-9)  # rounding is no breach: 6e-9 are allowed
    for breach in ({"low": 7e-9}, {"high": 5 - 7e-9}):
        assert "the stated bound" in said(lambda breach=breach: likelihood.empirical_likelihood(s, **breach))
    assert said(lambda: likelihood.cautious_likelihood(s, reach=0.9)) == (
        "The 'reach' parameter must be at least 1. Got 0.9 instead."
    )
    assert said(lambda: likelihood.empirical_likelihood(Sample.of_mean([1.0]))) == (
        "Empirical likelihood needs at least 2 independent units."
    )
    negative = Sample(np.ones(2), np.array([2.0, -1.0]))
    assert said(lambda: likelihood.cautious_likelihood(negative)) == (
        "denominator: 1 of 2 values (first: row 1 = -1.0) are negative."
    )
    assert likelihood.critical(0.9, 12) == pytest.approx(stats.f.ppf(0.9, 1, 11))


# -- weights and rewards of known range --------------------------------------------------------------------


def least(f, high):
    return optimize.minimize_scalar(f, bounds=(0.0, high), method="bounded", options={"xatol": 1e-11})


def least_value(p: dual.Program) -> float:
    """The program by nested searches along both numbers."""

    def f(a, b):
        d = a * p.p + b * p.q + p.y
        mean = math.exp(p.share @ np.log(d) - p.cost) if d.min() > 0 else 0.0
        return p.linear[0] * a + p.linear[1] * b - mean

    high = 40 * max(p.y.max(), 1e-9) * max(1 / min(p.linear), 1.0)
    return least(lambda a: least(lambda b: f(a, b), high).fun, high).fun


def program(n, top, rng, cost):
    w = np.append(rng.uniform(0, top, n - 2), [0.0, top])
    gap, share = rng.random(n), rng.dirichlet(np.ones(n) * 3)
    cost += weight_likelihood._normalization_cost(w, share, top)
    return dual.Program(1 - w / top, w / top, w * gap, share, (1 - 1 / top, 1 / top), cost)


@pytest.mark.parametrize("seed", range(6))
def test_the_program_in_two_numbers(seed):
    rng = np.random.default_rng(seed)
    made = program(int(rng.integers(4, 40)), [1.5, 3.0, 20.0][seed % 3], rng, [0.02, 0.4][seed % 2])
    expected = least_value(made)
    assert dual.minimum(made) == pytest.approx(expected, rel=1e-7)
    for solve in (dual._newton, dual._bisect):  # either way, without the other
        x = solve(made)
        assert made.line(x) - made.geometric(x)[0] == pytest.approx(expected, rel=1e-7)
        slope = made.slope(x)
        assert np.where(x > 0, np.abs(slope) < 1e-5, slope > -1e-9).all()
    d = 0.7 * made.p + 0.2 * made.q + made.y
    assert made.geometric(np.array([0.7, 0.2]))[0] == pytest.approx(math.exp(made.share @ np.log(d) - made.cost))
    step = 1e-6
    for j, e in enumerate(np.eye(2)):
        ends = [made.line(x) - made.geometric(x)[0] for x in (np.array([0.7, 0.2]) + s * step * e for s in (1, -1))]
        assert made.slope(np.array([0.7, 0.2]))[j] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_steps_of_the_program():
    made = program(12, 4.0, np.random.default_rng(0), 0.1)
    x, hessian = np.array([0.5, 0.4]), np.array([[3.0, 1.0], [1.0, 2.0]])
    slope = np.array([1.0, -2.0])
    assert dual._direction(x, slope, hessian) == pytest.approx(-np.linalg.solve(hessian, slope), rel=1e-9)
    assert dual._direction(x, np.array([0.0, -2.0]), hessian) == pytest.approx([0.0, 1.0])
    # Coupled steps that would push a coordinate at 0 out are taken one by one.
    assert dual._direction(np.array([0.5, 0.0]), np.array([-9.0, -1.0]), hessian) == pytest.approx([3.0, 0.5])
    moved = dual._descend(made, x, np.array([-1.0, -0.1]), made.slope(x))
    at = made.line(x) - made.geometric(x)[0]
    if moved is not None:
        assert made.line(moved) - made.geometric(moved)[0] < at
    inside = dual._descend(made, x, -1e-3 * made.slope(x), made.slope(x))
    assert inside == pytest.approx(x - 1e-3 * made.slope(x), rel=1e-12)
    uphill = dual._descend(made, x, 1e3 * made.slope(x), made.slope(x))
    assert uphill is None or uphill == pytest.approx(x, rel=1e-9)
    none = dual.Program(made.p, made.q, np.zeros(12), made.share, made.linear, made.cost)
    assert none.geometric(np.zeros(2))[0] == 0.0
    assert np.isneginf(none.slope(np.zeros(2))).all()
    best = dual._newton(made)
    assert dual._optimal(made, best)
    for away in (1e-3, -1e-3):
        assert not dual._optimal(made, best * (1 + away))


def test_where_the_search_begins():
    made = program(12, 4.0, np.random.default_rng(0), 0.1)
    mean = made.share @ made.y
    size = mean + math.sqrt(made.share @ (made.y - mean) ** 2 / (2 * made.cost))
    assert dual._start(made) == pytest.approx([size, size])
    dear = dual.Program(made.p, made.q, made.y, made.share, made.linear, 4.0)
    x = np.full(2, mean + math.sqrt(made.share @ (made.y - mean) ** 2 / 8))
    while dear.geometric(x)[0] < 0.1 * dear.line(x):
        x = x * dear.geometric(x)[0] / dear.line(x)
    assert dual._start(dear) == pytest.approx(x)
    assert x[0] < 0.9 * size
    # A unit whose d is 0 wherever one looks leaves nothing to start from.
    nothing = np.append(made.y[:-1], 0.0)
    blind = [np.append(column[:-1], 0.0) for column in (made.p, made.q)]
    assert dual._start(dual.Program(*blind, nothing, made.share, made.linear, 0.1)) is None


@pytest.mark.parametrize("top", [1.5, 4.0, 30.0])
def test_cressie_read(top):
    rng = np.random.default_rng(int(top))
    w = np.append(rng.uniform(0, 1, 30), [0.0, top])
    r, c = rng.random(32) * 3 - 1, rng.integers(1, 4, 32).astype(float)
    total = c.sum()

    def spent(beta):
        return -(c @ np.log1p(beta * (w - 1))) / total

    low, high = -1 / (top - 1), 1.0
    cost = -optimize.minimize_scalar(spent, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).fun
    assert weight_likelihood._normalization_cost(w, c / total, top) == pytest.approx(cost, rel=1e-9)
    cost += stats.f.ppf(0.9, 1, total - 1) / (2 * total)
    found = weight_likelihood.cressie_read(w, r, c, 0.9, weight_high=top, reward_low=-1, reward_high=2)
    ends = []
    for gap in (2 - r, r + 1):
        made = dual.Program(1 - w / top, w / top, w * gap / 3, c / total, (1 - 1 / top, 1 / top), cost)
        ends.append(least_value(made))
    assert found.high == pytest.approx(2 + 3 * ends[0], abs=1e-6)
    assert found.low == pytest.approx(-1 - 3 * ends[1], abs=1e-6)
    assert found.note == f"uses mean weight 1, weights in [0, {top:g}]"


def test_what_intervals_of_weights_refuse():
    limits = {"weight_high": 2.0, "reward_low": 0.0, "reward_high": 1.0}

    def asked(w, r, c=None, **other):
        return said(lambda: weight_likelihood.cressie_read(w, r, c, **(limits | other)))

    assert asked([1.0], [1.0]) == "A likelihood interval needs at least 2 independent units."
    assert (
        asked([1.0, 1.0], [1.0, 1.0], reward_low=1.0) == "The reward range must be finite, low < high. Got [1.0, 1.0]."
    )
    assert asked([1.0, 1.0], [1.0, 1.0], reward_low=-math.inf) == (
        "The reward range must be finite, low < high. Got [-inf, 1.0]."
    )
    assert asked([-1.0, 1.0], [1.0, 1.0]) == "weights: 1 of 2 values (first: row 0 = -1.0) are negative."
    assert asked([1.0, 1.0, 1.0], [-0.1, 1.0, 1.1]) == (
        "rewards: 2 of 3 values (first: row 0 = -0.1, row 2 = 1.1) are outside the range [0.0, 1.0]."
    )
    assert asked([1.0, 2.5], [1.0, 1.0]) == "weights: 1 of 2 values (first: row 1 = 2.5) are above weight_high = 2.0."
    for high in (0.9, math.inf):
        assert asked([1.0, 1.0], [1.0, 1.0], weight_high=high) == (
            f"The 'weight_high' parameter must be a finite float of at least 1. Got {high}."
        )
    assert asked([1.0, 0.5], [1.0, 1.0], weight_high=1.0) == (
        "weights: 1 of 2 values (first: row 1 = 0.5) are below 1, although weight_high = 1 and a mean weight of 1 "
        "leave no room for them."
    )
    w = np.array([1.0, 2.0, 0.5])
    kept = weight_likelihood.weighted_rewards(w, [0.1, 0.2, 0.3], [1.0, 0.0, 2.0], 0.0, 1.0)
    assert [x.tolist() for x in kept] == [[1.0, 0.5], [0.1, 0.3], [1.0, 2.0]]
    weight_likelihood.check_weight_high(np.array([2 + 1e-12]), 2.0)
    ones = weight_likelihood.cressie_read(
        np.ones(40), np.tile([0.0, 1.0], 20), weight_high=1.0, reward_low=0, reward_high=1
    )
    plain = likelihood.empirical_likelihood(Sample.of_mean(np.tile([0.0, 1.0], 20)))
    assert (ones.low, ones.high) == pytest.approx((plain.low, plain.high), abs=1e-6)
