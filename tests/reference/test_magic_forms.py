"""Returns of several steps and constants of scores: by plain sums."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import world

from offpolicy.logs.layout import Layout
from offpolicy.scores import tuning
from offpolicy.scores import tuning as magic
from offpolicy.scores.decisions import Decisions

# -- returns of several steps ------------------------------------------------------------------------------


def test_returns_of_j_steps_by_plain_sums():
    rng = np.random.default_rng(11)
    n, steps = 30, 40
    s = n * steps
    d = Decisions(
        Layout.ragged([steps] * n), rng.random(s), rng.uniform(0.4, 0.6, s), rng.uniform(0.4, 0.6, s),
        rng.random(s), rng.random(s), 0.95, weight=rng.integers(1, 3, n).astype(float),
    )  # fmt: skip
    table, chosen = magic.j_step_scores(d)
    assert chosen == sorted({-1, *np.linspace(0, 39, 29).round().astype(int).tolist()})
    assert len(table) == len(chosen) == 30
    mean = d.mass / d.mass.sum()
    w = d.rho.reshape(n, steps) * d.mass[:, None]
    w = w / w.sum(axis=0)
    left = (d.reward - d.q).reshape(n, steps)
    v = d.v.reshape(n, steps)
    before = np.column_stack([d.mass / d.mass.sum(), w[:, :-1]])
    for row, j in zip(table, chosen, strict=True):
        value = sum(0.95**t * (before[:, t] @ v[:, t]) for t in range(min(j + 2, steps)))
        value += sum(0.95**t * (w[:, t] @ left[:, t]) for t in range(j + 1))
        assert mean @ row == pytest.approx(value, rel=1e-9)


def test_magic_by_hand():
    d = replace(world(12), weight=np.random.default_rng(12).integers(1, 4, 60).astype(float))
    table, steps = magic.j_step_scores(d)
    share = d.mass / d.mass.sum()
    means = table @ share
    away = (table - means[:, None]) * np.sqrt(share)
    omega = away @ away.T / 60
    bias = np.maximum(np.abs(means - means[-1]) - 0.6744897501960817 * math.sqrt(omega[-1, -1]), 0.0)
    x = magic.simplex_minimum(omega + np.outer(bias, bias))
    found = magic.magic(d)
    assert found.psi == pytest.approx(x @ table)
    names = {-1: "model (DM)", 0: "1 step", 1: "2 steps", 2: "WDR"}
    order = [j for j in np.argsort(-x)[:3] if x[j] > 0.005]
    text = ", ".join(f"{names[steps[j]]} {x[j]:.0%}" for j in order)
    assert found.note == f"blend: {text}; the variance treats its weights and the model as fixed"
    lost = magic.magic(replace(d, pi_e=np.zeros_like(d.pi_e)))
    assert np.isnan(lost.psi).all()
    assert lost.note == "no logged episode follows the policy to the end"


# -- constants ---------------------------------------------------------------------------------------------


def test_grids_of_constants():
    w = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    half = np.full(5, 0.5)
    d = Decisions(Layout.single(5), half, w / 2, half, half, half, count=np.array([9.0, 50.0, 30.0, 15.0, 5.0]))
    assert tuning.switch_grid(d) == [0.5, 1.0, 2.0, 4.0, math.inf]
    assert tuning.switch_grid(replace(d, count=None)) == [1.0, 2.0, 4.0, math.inf]
    mean = np.average(w[1:] ** 2, weights=[50, 30, 15, 5])
    grid = [mean * f for f in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)]
    assert tuning.shrinkage_grid(d) == pytest.approx([*grid, math.inf])
    # A threshold at the largest weight is plain DR already: of equal errors the first constant is named.
    exact = replace(d, reward=np.full(5, 0.5))
    assert tuning.tuned_switch(exact).note.startswith("τ = 0.5, by")
    none = replace(d, pi_e=np.zeros(5))
    assert tuning.switch_grid(none) == tuning.shrinkage_grid(none) == [math.inf]
    chosen = tuning.tuned_switch(none)
    assert chosen.note == "τ = ∞ (plain DR), by the smallest estimated mean squared error"
    assert tuning.QUANTILES == (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
