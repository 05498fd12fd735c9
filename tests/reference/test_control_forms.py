"""Control variates and reaches of targets by plain least squares and loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.inference import reach
from offpolicy.inference.intervals import cells as quadrature
from offpolicy.logs.layout import Layout
from offpolicy.scores import control_variates as cv
from offpolicy.scores import formulas
from offpolicy.scores.decisions import Decisions


def world(seed=0, n=40, steps=1, **known) -> Decisions:
    rng = np.random.default_rng(seed)
    s = n * steps
    layout = Layout.single(n) if steps == 1 else Layout.ragged([steps] * n)
    return Decisions(
        layout, rng.random(s), rng.uniform(0.2, 0.8, s), rng.uniform(0.2, 0.8, s), rng.random(s), rng.random(s), 0.9,
        **known,
    )  # fmt: skip


def slopes(y, controls, mass):
    """Weighted least squares with an intercept; without the intercept's own coefficient."""
    X = np.column_stack([np.ones(len(y)), controls])
    root = np.sqrt(mass)[:, None]
    return np.linalg.lstsq(X * root, y * root[:, 0], rcond=None)[0][1:]


def test_coefficients_without_each_unit():
    mass = np.random.default_rng(1).integers(1, 4, 40).astype(float)
    d = world(1, weight=mass)
    weight, model = d.rho - 1, d.rho * d.q - d.v
    plain = d.rho * d.reward
    controls = np.column_stack([weight, model])
    fitted = slopes(plain, controls, mass)
    psi = np.empty(40)
    for i in range(40):
        others = np.arange(40) != i
        psi[i] = plain[i] - controls[i] @ slopes(plain[others], controls[others], mass[others])
    found = cv.optimal_control(d)
    assert found.psi == pytest.approx(psi)
    assert found.note == f"α = {fitted[0]:.3g}, β = {fitted[1]:.3g}, each unit's fitted on all other units"
    assert found.model_share == pytest.approx(fitted[1])
    # A unit that stands for two leaves with one of them: the other stays.
    counted = replace(d, weight=None, count=np.full(40, 2.0))
    counted = replace(counted, weight=np.full(40, 2.0))
    long = replace(world(1), weight=None)
    twice = long.part(np.repeat(np.arange(40), 2))
    assert cv.optimal_control(counted).psi == pytest.approx(cv.optimal_control(twice).psi[::2])


@pytest.mark.parametrize(("n", "per_step"), [(200, True), (199, False)])
def test_a_pair_for_each_step_from_100_units_per_step_on(n, per_step):
    d = world(2, n, 2)
    controls, found = cv._controls(d)
    assert found is per_step
    weight = d.gamma * (d.rho - d.rho_before)
    model = d.gamma * (d.rho * d.q - d.rho_before * d.v)
    table = np.column_stack([weight.reshape(n, 2), model.reshape(n, 2)])
    sums = np.column_stack([weight.reshape(n, 2).sum(axis=1), model.reshape(n, 2).sum(axis=1)])
    assert controls == pytest.approx(table if per_step else sums)
    note = cv.optimal_control(d).note
    assert (note == "coefficients fitted step by step, each unit's on all other units") is per_step
    assert not cv._controls(world(3, 400))[1]


def test_a_unit_that_alone_has_a_control():
    y, x = np.array([1.0, 2.0, 4.0, 9.0]), np.array([[0.0], [0.0], [0.0], [5.0]])
    fitted, left_out = cv.regress_others(y, x, np.ones(4), np.ones(4))
    assert fitted == pytest.approx([(9 - 7 / 3) / 5])
    assert np.isfinite(left_out).all()
    none, others = cv.regress_others(y, np.zeros((4, 1)), np.ones(4), np.ones(4))
    assert (none.tolist(), others.tolist()) == ([0.0], [[0.0]] * 4)
    scaled, _ = cv.regress_others(y, 1e-7 * np.arange(4.0)[:, None], np.ones(4), np.ones(4))
    assert scaled == pytest.approx(slopes(y, 1e-7 * np.arange(4.0)[:, None], np.ones(4)))


def mixed(base, model, weight, mass, single):
    """The best pair, its shrunken δ and the leverages, by plain formulas."""
    inside = lambda b: min(max(b, 0.0), 1.0)  # noqa: E731
    alone = inside(mass @ (model * base) / (mass @ model**2))
    pair = np.column_stack([model, weight])
    inverse = np.linalg.inv(pair.T @ (mass[:, None] * pair))
    beta, delta = inverse @ (pair.T @ (mass * base))
    if not 0 <= beta <= 1:
        beta = inside(beta)
        delta = mass @ (weight * (base - beta * model)) / (mass @ weight**2)
    leverage = np.array([s * p @ inverse @ p for s, p in zip(single, pair, strict=True)])
    residual = base - beta * model - delta * weight
    own = weight - mass @ (weight * model) / (mass @ model**2) * model
    noise = (mass * single) @ (own * residual / (1 - leverage)) ** 2
    share = max(0.0, 1 - noise / (delta * (mass @ own**2)) ** 2)
    beta, delta = (1 - share) * alone + share * beta, share * delta if share else 0.0
    first = single * model**2 / (mass @ model**2)
    return beta, delta, base - beta * model - delta * weight, (1 - share) * first + share * leverage


@pytest.mark.parametrize(
    ("slope", "effect", "noise"),
    [(0.5, 3.0, 0.1), (1.8, 2.0, 0.3), (-0.7, -2.0, 0.3), (0.4, 0.3, 2.0), (0.4, 0.02, 3.0)],
)
def test_the_mix_of_scores(slope, effect, noise):
    rng = np.random.default_rng(4)
    mass = rng.integers(1, 4, 60).astype(float)
    single = mass / rng.integers(1, 3, 60)
    model, weight = rng.normal(size=60), rng.normal(size=60)
    base = slope * model + effect * weight + noise * rng.normal(size=60)
    found = cv.combine(base, model, weight, mass, single)
    beta, delta, left, leverage = mixed(base, model, weight, mass, single)
    assert (found.beta, found.delta) == pytest.approx((beta, delta))
    assert found.residual == pytest.approx(left)
    assert found.leverage == pytest.approx(leverage)


def test_mixes_of_nothing():
    zero, one = np.zeros(4), np.array([1.0, -1.0, 2.0, -2.0])
    none = cv.combine(one, zero, zero, np.ones(4), np.ones(4))
    assert (none.beta, none.delta, none.leverage.tolist()) == (0.0, 0.0, [0.0] * 4)
    assert none.residual == pytest.approx(one)
    assert cv._signal(0.0, one, one, zero, np.ones(4), np.ones(4)) == 0.0
    assert cv._signal(1.0, zero, one, zero, np.ones(4), np.ones(4)) == 0.0
    assert cv._slope(one, zero, np.ones(4)) == 0.0
    assert [cv._within(b) for b in (-0.1, 0.4, 1.1)] == [0.0, 0.4, 1.0]


def test_rounding_is_no_control():
    d = world(8, 30)
    same = replace(d, reward=np.full(30, 0.3), q=np.full(30, 0.3), v=np.full(30, 0.3))
    for flat in (same, replace(same, reward=np.full(30, 0.3) * (1 + 1e-15 * np.arange(30)))):
        found = cv.best_combination(flat)
        assert found.psi == pytest.approx(np.full(30, 0.3))
        assert "β = 0 between" in found.note
        assert found.note.endswith("δ = 0")
    logged = replace(d, pi_e=d.pi_b * (1 + 1e-16 * np.arange(30)))
    assert cv.best_combination(logged).note.endswith("δ = 0")
    x = np.array([1.0, -1.0])
    assert not cv._beyond_rounding(1e-12 * x, 1.0).any()
    assert cv._beyond_rounding(2e-12 * x, 1.0).any()


@pytest.mark.parametrize("steps", [1, 2])
def test_auto_by_plain_formulas(steps):
    d = world(5, 50, steps, weight=np.random.default_rng(5).integers(1, 3, 50).astype(float))
    mean = lambda x: x @ d.mass / d.mass.sum()  # noqa: E731
    plain, robust = formulas.self_normalized(d), formulas.self_normalized_dr(d)
    weight = d.sum(d.gamma * (d.rho - d.rho_before))
    base = plain - mean(plain)
    beta, delta, left, leverage = mixed(base, base - (robust - mean(robust)), weight - mean(weight), d.mass, d.mass)
    center = mean(plain) - beta * (mean(plain) - mean(robust)) - delta * mean(weight)
    share = np.zeros(50)
    for t in range(steps):
        w = d.mass * d.rho.reshape(50, steps)[:, t]
        share = np.maximum(share, w / w.sum())
    assert cv.weight_share(d) == pytest.approx(share)
    stretched = left / (1 - np.minimum(leverage + share, 0.5))
    found = cv.best_combination(d)
    assert found.psi == pytest.approx(center + stretched - mean(stretched))
    assert found.model_share == pytest.approx(beta)
    assert found.note == (
        f"detail: β = {beta:.3g} between SNIPW (0) and SNDR (1) by the smallest variance, coefficient of the mean "
        f"weight δ = {delta:.3g}"
    )


def test_weights_that_leave_the_range_of_floats():
    half = np.full(4, 0.5)
    for log, lost in ((700.0, False), (701.0, True)):
        d = Decisions(Layout.single(4), half, half, np.array([0.5 * math.exp(-log), 0.5, 0.5, 0.25]), half, half)
        assert (not cv._weight_control(d).any()) is lost
    gone = replace(world(6, 8), pi_e=np.zeros(8))
    assert not cv.weight_share(gone).any()
    assert np.isnan(cv.best_combination(gone).psi).all()
    heavy = Decisions(
        Layout.single(4), half, np.array([0.9, 0.1, 0.1, 0.1]), np.array([0.001, 0.9, 0.9, 0.9]), half, half
    )
    assert np.isfinite(cv.best_combination(heavy).psi).all()


# -- where a target puts its mass --------------------------------------------------------------------------


def test_points_that_bound_from_below():
    x, c = np.array([1.0, 1.0, 2.0, 5.0, 7.0, 7.0]), np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    cell = np.array([0, 0, 0, 0, 1, 1])
    values, count = quadrature.lower_points(x, c, cell, 3)
    away = x[:4] - 1
    first, second = c[:4] @ away, c[:4] @ away**2
    order = np.argsort(values)
    assert values[order] == pytest.approx([1.0, 1 + second / first, 7.0])
    assert count[order] == pytest.approx([7 - first**2 / second, first**2 / second, 2.0])


def test_masses_of_probabilities_and_of_choices():
    rng = np.random.default_rng(7)
    n = 30
    table = rng.dirichlet(np.ones(3), n)
    a = rng.integers(3, size=n)
    log = op.BanditLog.from_arrays(np.arange(n) % 4, a, rng.random(n), table)
    pi = np.tile([0.2, 0.0, 0.8], (n, 1))
    ev = op.evaluate(log, {"p": pi, "q": op.policies.Fixed(1)}, estimators=["IPW"])
    assert ev["p", "IPW"].evidence.weight_high == pytest.approx(max((pi / table).max(), 1.0))
    assert ev["q", "IPW"].evidence.weight_high == pytest.approx((1 / table[:, 1]).max())
    assert reach._is_choice(np.array([[0.0, 1.0]]))
    assert not reach._is_choice(np.array([[0.5, 0.5]]))
