"""Ratios of state-action marginals against products of ratios, by plain sums."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from trust_episodes import Steps, view_of_steps

from offpolicy.logs.layout import Layout
from offpolicy.scores.blend import Rung, ladder
from offpolicy.scores.catalog import AUTO_EPISODES, named
from offpolicy.scores.decisions import Decisions
from offpolicy.trust import marginals, stability
from offpolicy.trust.view import View


def steady(n=300, seed=0, *, spread=0.1, off=0.0, steps=3):
    """Episodes of three steps whose products of ratios stay near 1."""
    rng = np.random.default_rng(seed)
    rows = n * steps
    ratio = rng.uniform(1 - spread, 1 + spread, size=rows)
    reward = rng.normal(size=rows)
    q, v = 0.5 * reward + 0.1 * rng.normal(size=rows), 0.1 * rng.normal(size=rows)
    marginal = ratio + off * (1 + 0.1 * rng.normal(size=rows))
    layout = Layout.ragged([steps] * n)
    return Decisions(layout, reward, 0.5 * ratio, np.full(rows, 0.5), q, v, discount=0.9, marginal=marginal)


def view_of(d, *, discrete=True, regressed=False, known=True):
    view = view_of_steps(Steps(0, d.n), discrete=discrete, known=known, regressed=regressed)
    made = replace(d, regressed=regressed)
    view.problem.decisions = lambda target, probe: made
    return View(view.problem, view.target, "crossfit", "crossfit")


def loops(d):
    """Scores of DRL, of its ratios alone and of DML, episode by episode."""
    n, steps = d.n, d.layout.horizon
    r, q, v, w = (x.reshape(n, steps) for x in (d.reward, d.q, d.v, d.marginal))
    rho = (d.pi_e / d.pi_b).reshape(n, steps).cumprod(axis=1)
    robust, alone, products = (np.zeros(n) for _ in range(3))
    robust += v[:, 0]
    for t in range(steps):
        after = 0.9 * v[:, t + 1] if t + 1 < steps else 0.0
        robust += 0.9**t * w[:, t] * (r[:, t] + after - q[:, t])
        alone += 0.9**t * w[:, t] * r[:, t]
        before = rho[:, t - 1] if t else 1.0
        products += 0.9**t * (rho[:, t] * (r[:, t] - q[:, t]) + before * v[:, t])
    return robust, alone, products


def z_of(x):
    return abs(x.mean() / (x.std() / math.sqrt(len(x)))), x.mean()


DRL = named("DRL")


@pytest.mark.parametrize("off", [0.0, 2.0])
@pytest.mark.parametrize("discrete", [True, False])
def test_drl_against_products_that_are_supported(off, discrete):
    d = steady(off=off)
    robust, alone, products = loops(d)
    z, gap = z_of(robust - products)
    found = marginals.finding(replace(view_of(d, discrete=discrete), estimators=[DRL]))
    share = max(d.marginal.reshape(300, 3)[:, t].max() / d.marginal.reshape(300, 3)[:, t].sum() for t in range(3))
    assert found.value == pytest.approx(z)
    assert found.sentence == (
        f"DRL and DML differ by {z:.2g} standard errors ({gap:+.3g}); a single episode carries up "
        f"to {100 * share:.3g}% of the weight at some step."
    )
    assert found.details["reference"] == "DML"
    assert found.details["z_of_ratios_alone"] == pytest.approx(z_of(robust - alone)[0])
    assert found.details["mean"] == pytest.approx(d.marginal.reshape(300, 3).mean(axis=0).tolist())
    assert found.details["largest_ratio"] == d.marginal.max()
    assert (found.details["look_back"], found.details["drift"]) == (None, None)
    level = "alarm" if z > 5 else "caution" if z > 3 else "ok"
    assert (found.level, found.remedy) == (level, "" if level == "ok" else marginals.REMEDY)


def test_drl_against_its_own_ratios_where_products_are_lost():
    d = steady(spread=0.1, off=1.0, n=60)
    lost = replace(d, pi_e=d.pi_e * np.where(np.arange(180) % 180 == 0, 1.0, 1e-9))
    robust, alone, _ = loops(lost)
    z, gap = z_of(robust - alone)
    found = marginals.finding(replace(view_of(lost), estimators=[DRL]))
    assert found.value == pytest.approx(z)
    assert found.sentence.startswith(f"DRL and the ratios alone differ by {z:.2g} standard errors ({gap:+.3g});")
    assert found.level == ("ok" if z <= 3 else "caution")  # never an alarm: a value model may correct it
    free = marginals.finding(replace(view_of(lost, discrete=False), estimators=[DRL]))
    assert free.level == ("alarm" if z > 5 else "caution" if z > 3 else "ok")


def test_drl_against_ratios_that_look_back():
    d = steady(n=400, spread=0.9, off=0.3, steps=16)
    view = view_of(d, discrete=False, regressed=True)
    rungs = ladder(replace(d, regressed=True))
    assert len(rungs) > 1
    found = marginals.finding(replace(view, estimators=[DRL]))
    robust = loops(d)[0]
    z, gap = z_of(robust - rungs[-1].psi)
    back = rungs[-1].steps
    assert found.value == pytest.approx(z)
    assert found.sentence.startswith(
        f"DRL and its score with ratios {back} steps back differ by {z:.2g} standard errors ({gap:+.3g});"
    )
    two = steady(n=400, off=0.3, steps=2)
    two = replace(two, pi_e=np.where(np.arange(800) % 2 == 0, 1e-6, two.pi_e))
    once = marginals.finding(replace(view_of(two, discrete=False, regressed=True), estimators=[DRL]))
    assert once.details["reference"] == "its score with ratios 1 step back"
    assert once.details["look_back"] == 1
    assert found.details["look_back"] == back
    assert found.details["drift"] == pytest.approx(marginals._drift(view, rungs))


def test_regressed_ratios_without_any_witness_are_not_trusted():
    d = steady(spread=0.1, n=60)
    lost = replace(d, pi_e=d.pi_e * np.where(np.arange(180) < 3, 50.0, 0.2))  # one episode carries all
    assert len(ladder(replace(lost, regressed=True))) == 1
    counted = marginals.finding(replace(view_of(lost, discrete=False), estimators=[DRL]))
    alone = marginals.finding(replace(view_of(lost, discrete=False, regressed=True), estimators=[DRL]))
    assert counted.level != "alarm"
    assert (alone.level, alone.remedy) == ("alarm", marginals.NEARER)
    assert alone.sentence == f"{counted.sentence} {marginals.UNCHECKED}"
    assert alone.value == counted.value
    assert not alone.details["checked"]
    # A share that looks back does not soften it.
    assert marginals.softened(replace(alone, details={**alone.details, "drift": 0.0}), 1.0).level == "alarm"
    # One step is no regression: its ratio is that of the action.
    first = replace(steady(n=40, steps=1), pi_e=np.where(np.arange(40) < 1, 20.0, 0.01))
    one = marginals.finding(replace(view_of(first, discrete=False, regressed=True), estimators=[DRL]))
    assert marginals.UNCHECKED not in one.sentence
    # Products that are supported are a witness.
    supported = marginals.finding(replace(view_of(d, discrete=False, regressed=True), estimators=[DRL]))
    assert marginals.UNCHECKED not in supported.sentence


@pytest.mark.parametrize(
    ("reached", "horizon", "checked"),
    [
        (0, 1, True), (0, 2, False), (1, 2, True), (1, 3, False), (2, 3, True), (2, 4, True), (2, 5, False),
        (4, 5, True), (2, 200, False), (4, 200, True),
    ],
)  # fmt: skip
def test_how_far_back_a_regression_is_checked(reached, horizon, checked):
    rungs = [Rung(0, np.zeros(3)), Rung(reached, np.zeros(3))]
    assert marginals._is_checked(rungs, horizon) is checked


def test_how_far_the_last_doubling_moved():
    d = steady(n=100)
    view = view_of(d)
    rng = np.random.default_rng(3)
    top, below = rng.normal(size=100), rng.normal(size=100)
    move = top - below - 0.8
    rungs = [Rung(1, below + 0.8), Rung(2, top)]
    beyond = max(abs(move.mean()) - 2 * move.std() / 10, 0.0)
    assert beyond > 0
    assert marginals._drift(view, rungs) == pytest.approx(beyond / (top.std() / 10))
    assert marginals._drift(view, [Rung(1, top), Rung(2, top)]) == 0.0
    assert marginals._drift(view, [Rung(1, below), Rung(2, np.ones(100))]) == 0.0
    assert marginals._drift(view, rungs[:1]) is None
    assert marginals._distance(view, np.full(100, 2.0)) == (0.0, 2.0)
    assert marginals._distance(view, move) == pytest.approx(z_of(move))


def test_ratios_of_each_step_by_a_loop():
    s = Steps(4, 50)
    d = s.decisions(weight=np.arange(50) % 2 + 1.0)
    mean, largest = marginals.by_step(d)
    unit, step = (np.repeat(np.arange(50), s.lengths), np.concatenate([np.arange(n) for n in s.lengths]))
    for t in range(max(s.lengths)):
        weight = [(unit[i] % 2 + 1) * s.marginal[i] for i in range(len(unit)) if step[i] == t]
        assert mean[t] == pytest.approx(sum(weight) / 75)
        assert largest[t] == pytest.approx(max(weight) / sum(weight))
    few = replace(d, marginal=np.where(step == max(s.lengths) - 1, 1e-4, s.marginal))
    assert math.isnan(marginals.by_step(few)[1][-1])


def test_where_no_estimate_uses_marginals():
    d = steady(n=60)
    why = "no estimate uses ratios of marginals."
    assert marginals.finding(replace(view_of(d), estimators=[named("DML")])).sentence == why
    assert marginals.finding(replace(view_of(d), estimators=[replace(DRL, split="half")])).sentence == why
    assert marginals.finding(replace(replace(view_of(d), value_split=None), estimators=[DRL])).sentence == why


def test_who_is_comparable():
    everyone = [AUTO_EPISODES, named("DML"), DRL, named("DM")]

    def names(view, products=0.0):
        return [e.name for e in stability.comparable(view, everyone, products)]

    good, lost = steady(n=300), replace(steady(n=300), pi_e=np.full(900, 1e-6))
    assert names(view_of(good)) == ["auto", "DML", "DRL", "DM"]
    assert names(view_of(good), 0.8) == ["auto", "DML", "DRL", "DM"]
    assert names(view_of(good), 0.81) == ["auto", "DML", "DM"]
    assert names(view_of(good, known=False), 0.81) == ["auto", "DML", "DRL", "DM"]
    assert names(view_of(good, known=False, discrete=False), 0.81) == ["auto", "DML", "DM"]
    assert names(view_of(lost)) == ["auto", "DRL", "DM"]
    assert names(view_of(lost), 0.81) == ["auto"]
    single = SimpleNamespace(log=SimpleNamespace(layout=Layout.single(3)), behavior_is_known=True)
    assert names(single, 1.0) == ["auto", "DML", "DRL", "DM"]


def test_a_witness_that_is_barely_supported():
    """Eight effective episodes, none with more than half: enough to contradict, not enough to rest on."""
    for seen, name in ((12, "DML"), (6, "the ratios alone")):
        d = steady(n=300, spread=0.05)
        keep = np.repeat(np.arange(300) < seen, 3)
        few = replace(d, pi_e=np.where(keep, d.pi_e * (300 / seen) ** (1 / 3), 0.0))
        found = marginals.finding(replace(view_of(few, discrete=True), estimators=[DRL]))
        assert found.details["reference"] == name
