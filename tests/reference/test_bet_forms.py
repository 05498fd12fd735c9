"""Bets against products one by one, and the root finder that intervals share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from offpolicy.inference.intervals import betting as joint_bets
from offpolicy.inference.intervals import betting as sequence
from offpolicy.inference.intervals import likelihood, weight_likelihood
from offpolicy.inference.intervals.likelihood import increasing_root
from offpolicy.inference.intervals.sample import Sample

RNG = np.random.default_rng(12)


# -- bets --------------------------------------------------------------------------------------------------

FRACTIONS = [0.99, *(0.5**j for j in range(1, 22))]


def wealth(x, c, m):
    """Of a bettor who splits it evenly over the fractions, product by product."""
    return np.mean([np.prod((1 - f + f * x / m) ** c) for f in FRACTIONS])


@pytest.mark.parametrize("top", [None, 3.0])
def test_the_sequence_is_what_the_bettors_have_not_refuted(top):
    w, c = np.array([0.0, 0.5, 1.0, 3.0]), np.array([8.0, 9.0, 9.0, 6.0])
    r = np.array([2.0, 4.0, 2.0, 4.0])
    scaled = (r - 2) / 2

    def lowest(gain, loss):
        def surplus(m):
            each = [wealth(gain, c, m)]
            if top is not None:
                each.append(wealth(top - loss, c, top - 1 + m))
            return math.log(np.mean(each)) - math.log(2 / 0.2)

        return optimize.brentq(surplus, 1e-6, 1.0, xtol=1e-14)

    found = sequence.confidence_sequence(w, r, c, 0.8, reward_low=2, reward_high=4, weight_high=top)
    low, high = lowest(w * scaled, w * (1 - scaled)), 1 - lowest(w * (1 - scaled), w * scaled)
    assert (found.low, found.high) == pytest.approx((2 + 2 * low, 2 + 2 * high), rel=1e-9)
    x, m, step = w * scaled, 0.4, 1e-6
    log, slope = sequence._log_wealth(x, c, m, *sequence.EVEN)
    assert log == pytest.approx(math.log(wealth(x, c, m)))
    ends = [sequence._log_wealth(x, c, m + s * step, *sequence.EVEN)[0] for s in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_ends_of_the_sequence():
    none = sequence.confidence_sequence([0.0, 1.0], [1.0, 0.0], [5, 5], reward_low=0, reward_high=1)
    assert none.low == 0.0
    few = sequence.confidence_sequence([1.0, 1.0], [0.0, 1.0], reward_low=0, reward_high=1)
    assert (few.low, few.high) == pytest.approx((0.0, 1.0), abs=0.03)
    heavy = sequence._lower(np.full(2, 3.0), np.zeros(2), np.array([50.0, 50.0]), None, math.log(40))
    assert heavy == 1.0
    above = sequence._lower(np.full(2, 1.6), np.zeros(2), np.full(2, 200.0), None, math.log(40))
    assert above == 1.0  # no value is above 1, whatever weights say


def test_many_values_become_points_that_win_no_more(monkeypatch):
    monkeypatch.setattr(sequence, "DISTINCT", 60)
    x, c = RNG.gamma(1.0, size=400), np.ones(400)
    points, count = sequence._coarsen(x, c)
    assert len(points) <= 60
    for power in (0, 1, 2):
        assert count @ points**power == pytest.approx((x**power).sum())
    for m in (0.3, 1.0, 2.0):
        few = sequence._log_wealth(points, count, m, *sequence.EVEN)[0]
        whole = sequence._log_wealth(x, c, m, *sequence.EVEN)[0]
        assert few <= whole == pytest.approx(few, rel=0.06)
    values, counted = sequence._coarsen(np.repeat([2.0, 1.0], 30), np.ones(60))
    assert (values.tolist(), counted.tolist()) == ([1.0, 2.0], [30.0, 30.0])


def bound(bets, count, rate, low):
    """Smallest mean that no weighted average of products of (1 + λx)/(1 + λm) refutes."""

    def surplus(m):
        each = [share * np.prod(((1 + lam * x) / (1 + lam * m)) ** count) for share, lam, x in bets]
        return math.log(sum(each) / sum(share for share, _, _ in bets)) - math.log(1 / rate)

    return optimize.brentq(surplus, low, 1.0, xtol=1e-13)


@pytest.mark.parametrize("top", [None, 2.5])
def test_bounds_by_betting_on_weight_and_reward(top):
    w, r = np.array([0.1, 1.0, 2.5, 0.4]), np.array([0.0, 0.9, 0.8, 1.0])
    c = np.array([20.0, 40.0, 20.0, 16.0])
    root = math.sqrt(c.sum())
    for kind, low in (("value", 1e-9), ("gain", -1 + 1e-9)):
        bets = []
        grid = [(s, k, 0.0) for k, s in joint_bets.STAKES.items()]
        if top is not None:
            grid += [(s, k, b) for k, s in joint_bets.JOINT_STAKES.items() for b in (1 / 3, 2 / 3, 1.0)]
        for share, stake, beta in grid:
            lam = stake / root
            if kind == "value":
                worst, x = beta * ((top or 1.0) - 1), w * r + beta * (1 - w)
            else:
                worst, x = max(beta * ((top or 1.0) - 1), 1.0), (w - 1) * (r - beta)
            bets.append((share, min(lam, 0.95 / worst) if worst else lam, x))
        made = joint_bets.value_lower_bound if kind == "value" else joint_bets.gain_lower_bound
        assert made(w, r, 0.1, c, weight_high=top) == pytest.approx(bound(bets, c, 0.1, low), abs=1e-9)
        long = np.repeat(np.arange(4), c.astype(int))
        assert made(w[long], r[long], 0.1, weight_high=top) == pytest.approx(made(w, r, 0.1, c, weight_high=top))


def test_ends_of_bets():
    assert joint_bets.value_lower_bound(np.ones(3), np.zeros(3), 0.05) == 0.0
    assert joint_bets.value_lower_bound(np.full(500, 9.0), np.ones(500), 0.05) == 1.0
    assert joint_bets.gain_lower_bound(np.ones(1), np.ones(1), 1e-9) == -1.0
    assert joint_bets._at_most(0.5, 1.9) == 0.5
    assert joint_bets._at_most(0.5, 2.0) == pytest.approx(0.475)
    w = np.array([1.0, 1.9])
    root = 10.0
    won = sum(s * np.prod(((1 + k / root * w) / (1 + k / root)) ** 50) for k, s in joint_bets.STAKES.items())
    assert [joint_bets.exceeds_one(w, f / won, np.full(2, 50.0)) for f in (0.99, 1.01)] == [False, True]


# -- roots -------------------------------------------------------------------------------------------------


def test_newton_inside_a_bracket():
    asked = []

    def cubic(x):
        asked.append(x)
        return x**3 - 2, 3 * x**2

    assert increasing_root(cubic, 0.0, 2.0, 1.0) == pytest.approx(2 ** (1 / 3), rel=1e-15)
    x, plain = 1.0, []
    for _ in asked:
        plain.append(x)
        x -= (x**3 - 2) / (3 * x**2)
    assert asked == pytest.approx(plain, rel=1e-14)
    assert len(asked) <= 7


def test_bisection_where_slopes_mislead():
    asked = []

    def flat(x):
        asked.append(x)
        return x - 0.3, 0.0

    assert increasing_root(flat, 0.0, 1.0, 5.0) == pytest.approx(0.3, rel=1e-12)
    assert asked[:4] == [1.0, 0.5, 0.25, 0.375]
    assert increasing_root(flat, 0.0, 1.0, -5.0) == pytest.approx(0.3, rel=1e-12)
    assert increasing_root(lambda x: (x - 5.0, 1.0), 0.0, 1.0, 0.5) == pytest.approx(1.0)
    assert increasing_root(lambda x: (x + 5.0, 1.0), 0.0, 1.0, 0.5) == pytest.approx(0.0, abs=1e-12)
    assert increasing_root(lambda x: (0.0, 1.0), 0.0, 1.0, 0.7) == 0.7
    assert increasing_root(flat, 0.0, 1.0, 1.0, steps=2) == 0.25
    assert increasing_root(flat, 0.0, 1.0, 1.0, tolerance=0.6) == 0.375


def test_the_ends_of_a_bracket_are_not_asked():
    for root in (0.0, 1.0):
        asked = []

        def line(x, root=root, asked=asked):
            asked.append(x)
            return x - root, 1.0

        assert increasing_root(line, 0.0, 1.0, 0.5) == pytest.approx(root, abs=1e-12)
        assert asked[:3] == [0.5, 0.25 + root / 2, 0.125 + 0.75 * root]
        assert min(asked) > 0
        assert max(asked) < 1


def test_every_slope_that_is_handed_on_is_the_slope(monkeypatch):
    """A wrong derivative would only cost time: the bracket saves the answer."""
    seen = []

    def checked(function, low, high, start, **options):
        for share in (0.2, 0.5, 0.8):
            x = low + share * (min(high, low + 60) - low)
            step = 1e-6 * max(abs(x), 1e-3)
            (up, _), (down, _), (_, slope) = function(x + step), function(x - step), function(x)
            if abs(up) < 1e3 and slope > 1e-8:
                assert slope == pytest.approx((up - down) / (2 * step), rel=2e-3, abs=1e-6)
                seen.append(x)
        return increasing_root(function, low, high, start, **options)

    for module in (likelihood, sequence, weight_likelihood):
        monkeypatch.setattr(module, "increasing_root", checked)
    likelihood.empirical_likelihood(Sample.of_mean(RNG.gamma(0.3, size=60)))
    sizes = RNG.integers(1, 5, size=25).astype(float)
    likelihood.empirical_likelihood(Sample(RNG.gamma(2.0, size=25), sizes))
    w, r = np.array([0.1, 1.0, 2.5, 0.4] * 9), np.array([0.0, 0.9, 0.8, 1.0] * 9)
    limits = {"weight_high": 2.5, "reward_low": 0.0, "reward_high": 1.0}
    sequence.confidence_sequence(w, r, **limits)
    weight_likelihood.cressie_read(w, r, **limits)
    assert len(seen) > 8
