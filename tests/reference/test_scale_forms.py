"""Answers in very small and very large units are the same answers: no guard against 0 has a size of its own."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.inference import family as multiple
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.family import together
from offpolicy.inference.intervals import cells, resample, tails, wald
from offpolicy.inference.intervals import wald as ratio
from offpolicy.inference.intervals import weight_likelihood as dual
from offpolicy.inference.intervals.cells import Scale, Table
from offpolicy.inference.intervals.evidence import lumpiness
from offpolicy.inference.intervals.likelihood import cautious_likelihood, empirical_likelihood
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.tails import Moments, Pool
from offpolicy.inference.intervals.weight_likelihood import cressie_read
from offpolicy.inference.score_table import Affine, ScoreTable, Units
from offpolicy.logs.layout import Layout
from offpolicy.scores import control_variates
from offpolicy.scores import tuning as magic
from offpolicy.scores.decisions import Decisions

RNG = np.random.default_rng(61)
X, SIZE = RNG.gamma(0.7, size=50), RNG.integers(1, 4, 50).astype(float)
UNITS = [1e-18, 1e-9, 1e12]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "rule",
    [wald.normal, wald.student, empirical_likelihood, cautious_likelihood, resample.bootstrap, resample.bca],
)  # fmt: skip
def test_intervals(rule, unit):
    for den in (np.ones(50), SIZE):
        plain, scaled = rule(Sample(X, den)), rule(Sample(unit * X, den))
        assert (scaled.low / unit, scaled.high / unit) == pytest.approx((plain.low, plain.high), rel=1e-9)
        assert scaled.note == plain.note
        if rule is not wald.student:
            resized = rule(Sample(X, den * unit))
            assert (resized.low * unit, resized.high * unit) == pytest.approx((plain.low, plain.high), rel=1e-9)


@pytest.mark.parametrize("unit", UNITS)
def test_rewards_and_ranges(unit):
    w, r = RNG.uniform(0, 2, 40), RNG.random(40)
    known = {"weight_high": 2.5, "reward_low": 0.0}
    plain = cressie_read(w, r, reward_high=1.0, **known)
    scaled = cressie_read(w, unit * r, reward_high=unit, **known)
    assert (scaled.low / unit, scaled.high / unit) == pytest.approx((plain.low, plain.high), rel=1e-6)
    p, q, share = 1 - w / 2.5, w / 2.5, np.full(40, 1 / 40)
    one = dual.minimum(dual.Program(p, q, w * r, share, (0.6, 0.4), 0.1))
    other = dual.minimum(dual.Program(p, q, unit * w * r, share, (0.6, 0.4), 0.1))
    assert other / unit == pytest.approx(one, rel=1e-6)
    flat = np.array([[0.5, 0.1], [0.1, 0.25]])
    for hessian in (flat, unit * flat):
        step = dual._direction(np.array([0.5, 0.0]), np.array([-9.0, -1.0]), hessian)
        assert step * np.diag(hessian) == pytest.approx([9.0, 1.0])


@pytest.mark.parametrize("unit", UNITS)
def test_shapes(unit):
    w = RNG.pareto(1.5, size=300)
    assert tails.tail_index(unit * w) == pytest.approx(tails.tail_index(w), rel=1e-6)
    shape, scale = tails.generalized_pareto(w)
    k, sigma = tails.generalized_pareto(unit * w)
    assert (k, sigma / unit) == pytest.approx((shape, scale), rel=1e-6)
    assert tails.effective_size(unit * w) == pytest.approx(tails.effective_size(w))
    assert lumpiness(Sample.of_mean(unit * X)) == pytest.approx(lumpiness(Sample.of_mean(X)))
    one, other = Moments.of(X), Moments.of(unit * X)
    for name, power in (("second", 2), ("third", 3), ("absolute", 3), ("low", 1), ("high", 1)):
        assert getattr(other, name) / unit**power == pytest.approx(getattr(one, name), rel=1e-9)
    assert Pool.of(other, w).skewness == pytest.approx(Pool.of(one, w).skewness)
    assert Pool.of(one, unit * w).skewness == pytest.approx(Pool.of(one, w).skewness)
    assert Pool.of(one, unit * w).high / unit == pytest.approx(Pool.of(one, w).high)


@pytest.mark.parametrize("unit", UNITS)
def test_several_at_once(unit):
    root = RNG.normal(size=(3, 5))
    sigma = root @ root.T
    scaled = unit * unit * sigma
    assert multiple.largest_t(scaled, draws=50) == pytest.approx(multiple.largest_t(sigma, draws=50), rel=1e-6)
    assert multiple.largest_gap(scaled, draws=50) == pytest.approx(multiple.largest_gap(sigma, draws=50), rel=1e-6)
    assert magic.simplex_minimum(scaled) == pytest.approx(magic.simplex_minimum(sigma), abs=1e-6)
    pair, other = (ratio.fieller(ratio.Pair(3 * u, 2 * u, 0.04 * u * u, 0.09 * u * u)) for u in (1.0, unit))
    assert tuple(other) == pytest.approx(tuple(pair))
    units = Units(300)
    psi = RNG.normal(0.3, 1.0, size=(2, 300))
    made = [[Estimate.from_scores(u * row, units=units) for row in psi] for u in (1.0, unit)]
    one, two = (together(es, tested=True) for es in made)
    assert two.p_values == pytest.approx(one.p_values)
    assert [end / unit for end in two.intervals[1]] == pytest.approx(list(one.intervals[1]))
    assert made[1][0].p_value(0.1 * unit) == pytest.approx(made[0][0].p_value(0.1))
    table = ScoreTable(Units(3))
    table.put("x", unit * np.array([1.0, 2.0, 4.0]))
    table.put("y", unit * np.array([1.0, 1.0, 3.0]))
    gap = table.scores(Affine(0.0, (("x", 1.0), ("y", -1.0))))
    assert gap / unit == pytest.approx(np.array([0.0, 1.0, 1.0]), rel=1e-9)
    assert table.scores(Affine(unit, (("x", 1.0),))) / unit == pytest.approx(np.array([2.0, 3.0, 5.0]))


@pytest.mark.parametrize("unit", UNITS)
def test_scores(unit):
    n = 40
    rng = np.random.default_rng(62)
    r, q, v = rng.random((3, n))
    pi_e, pi_b = rng.uniform(0.2, 0.8, (2, n))
    for score in (control_variates.best_combination, control_variates.optimal_control):
        one, other = (score(Decisions(Layout.single(n), u * r, pi_e, pi_b, u * q, u * v)) for u in (1.0, unit))
        assert other.psi / unit == pytest.approx(one.psi, rel=1e-6)
        assert other.model_share == pytest.approx(one.model_share)


def test_cells_are_as_narrow_as_the_table_is():
    """Smooth sums over the points are those over the rows, wherever the table lies and whatever its unit."""
    n = 30_000
    a, x = RNG.gamma(3.0, size=n), RNG.normal(0.5, 0.3, size=n)
    a[:300] = 0.0
    for size, unit in ((1.0, 1.0), (1e-9, 1.0), (1e9, 1e-9)):
        table = Table(size * a, unit * x, np.ones(n))
        few = cells.pointed(table, Scale(0.5 * unit, 0.3 * unit))
        assert few.count[few.a == 0] @ few.x[few.a == 0] / unit == pytest.approx(x[:300].sum())
        for f in (
            lambda s, y: np.log1p(s), lambda s, y: np.exp(-s) * y, lambda s, y: np.log1p(0.5 * s * np.exp(y)),
        ):  # fmt: skip
            made = few.count @ f(few.a / size, few.x / unit)
            assert made == pytest.approx(f(a, x).sum(), rel=1e-6)
