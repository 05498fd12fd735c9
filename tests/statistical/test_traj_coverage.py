"""Exact V and σ² against simulation: error at the bound, coverage, double robustness, over-fitting.

The short versions run with every test; the full sizes under ``make verify``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import Decisions
from offpolicy.trust.horizon import horizon_curve, support
from offpolicy_studies.tabular import toys
from offpolicy_studies.tabular.mdp import random_mdp

Z = 1.959963984540054


def run(toy, n, replications, names, *, seed=0, known=True, folds=2, **options):
    """(replications, estimators, 2) values and standard errors."""
    out = np.empty((replications, len(names), 2))
    options.setdefault("value_model", op.Tabular())
    for r in range(replications):
        log = toy.simulate(n, np.random.default_rng([seed, r]), propensities=known)
        ev = op.evaluate(log, toy.target, estimators=names, seed=r, folds=folds, **options)
        out[r] = [(ev["policy", name].value, ev["policy", name].std_error) for name in names]
    return out


def coverage(results, truth):
    return (np.abs(results[..., 0] - truth) <= Z * results[..., 1]).mean(axis=0)


def rmse(results, truth):
    return np.sqrt(((results[..., 0] - truth) ** 2).mean(axis=0))


def at_truth(world, pi_e, pi_b, log):
    """Decisions at the true nuisances."""
    q, v = world.values(pi_e)
    t, s, a = log.layout.step, log.context.table[log.context.index], log.action
    p_e, p_b = world.marginals(pi_e), world.marginals(pi_b)
    return Decisions(
        log.layout,
        log.reward,
        pi_e[s, a],
        pi_b[s, a],
        q[t, s, a],
        v[t, s],
        world.discount,
        None,
        p_e[t, s, a] / p_b[t, s, a],
    )


@pytest.mark.parametrize("ends", [0.0, 0.1])
def test_sigma2_and_the_bound_are_the_variances_of_the_scores(ends):
    world, pi_e, pi_b = random_mdp(seed=2)
    world = replace(world, transition=(1 - ends) * world.transition, discount=0.95)
    d = at_truth(world, pi_e, pi_b, world.simulate(pi_b, 100_000, np.random.default_rng(0)))
    for psi, exact in (
        (scores.doubly_robust(d), world.sigma2(pi_e, pi_b)),
        (scores.marginalized(d), world.bound(pi_e, pi_b)),
    ):
        centered = (psi - world.value(pi_e)) ** 2
        assert psi.mean() == pytest.approx(world.value(pi_e), abs=4 * np.sqrt(exact / 100_000))
        assert centered.mean() == pytest.approx(exact, abs=5 * centered.std() / np.sqrt(100_000))
    assert world.bound(pi_e, pi_b) < world.sigma2(pi_e, pi_b)


def test_dml_is_at_the_bound_and_covers_quickly():
    toy = toys.random_world()
    results = run(toy, 200, 400, ["DML", "DRL"])
    bound = np.sqrt(toy.world.sigma2(toy.pi_e, toy.pi_b) / 200)
    # One part in √(2·400) is Monte Carlo error.
    assert rmse(results, toy.value())[0] < bound * (1.10 + 2.5 / np.sqrt(800))
    assert (coverage(results, toy.value()) > 0.90).all()
    assert rmse(results, toy.value())[1] < 0.8 * rmse(results, toy.value())[0]


def test_over_fitted_values_break_dr_full_and_not_dml():
    toy = toys.random_world()
    results = run(toy, 80, 400, ["DR-full", "DML"], value_model=op.Tabular(time="step"))
    full, cross = coverage(results, toy.value())
    assert full < 0.5
    assert cross > 0.91 - 3 * np.sqrt(0.91 * 0.09 / 400)  # 91% in two thousand logs


def test_unknown_behavior_covers_quickly():
    toy = toys.random_world()
    results = run(toy, 200, 200, ["DML", "DRL"], known=False, behavior_model="shares")
    assert (coverage(results, toy.value()) > 0.89).all()


def test_a_known_behavior_needs_no_markov_property():
    toy = toys.model_fail()
    results = run(toy, 400, 150, ["DML", "DM", "DRL"])
    dml, dm, drl = results[..., 0].mean(axis=0) - toy.value()
    assert abs(dml) < 4 * results[:, 0, 0].std() / np.sqrt(150)
    # Neither the model nor the ratio of marginals can be right when the log hides the state.
    assert dm > 1
    assert drl > 1


def test_cliff_walking_says_when_pairs_are_unseen():
    toy = toys.cliff_walking(0.9, 0.5)
    log = toy.simulate(60, np.random.default_rng(0))
    ev = op.evaluate(log, toy.target, estimators=["DML", "DRL"], value_model=op.Tabular())
    assert any("not in the training folds" in note for note in ev["policy", "DML"].notes)
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    curve = horizon_curve(d)
    assert curve.effective[0] > curve.effective[-1]
    assert curve.supported < log.horizon
    assert "DRL" in support(curve, log)[1]
    many = toy.simulate(4000, np.random.default_rng(1))
    ev = op.evaluate(many, toy.target, estimators=["DML"], value_model=op.Tabular())
    assert all("not in the training folds" not in note or "0.0%" in note for note in ev["policy", "DML"].notes)


def test_a_horizon_of_a_thousand_overflows_nothing():
    rng = np.random.default_rng(0)
    n, horizon = 40, 1000
    states, actions = rng.integers(0, 3, (n, horizon)), rng.integers(0, 2, (n, horizon))
    rewards = rng.normal(size=(n, horizon))
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((n, horizon), 0.5))
    pi_e = np.array([0.02, 0.98])
    always = [np.flatnonzero(actions[i]) for i in range(n)]
    assert max(len(a) for a in always) > 400
    names = ["DML", "DRL", "SNIPW", "WIS", "WDR", "MAGIC", "IPW", "DM"]
    ev = op.evaluate(log, lambda s: np.tile(pi_e, (len(s), 1)), estimators=names)
    for name in names:
        assert np.isfinite(ev["policy", name].value), name
    # Weights beyond a float's range are refused by the estimators that need them, and only by those.
    tiny = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((n, horizon), 0.1))
    ev = op.evaluate(tiny, lambda s: np.full((len(s), 2), 0.5), estimators=["IPW", "SNIPW", "DM"])
    assert not ev["policy", "IPW"].is_defined
    assert "which overflows" in ev["policy", "IPW"].notes[0]
    assert np.isfinite(ev["policy", "SNIPW"].value)


@pytest.mark.verify
@pytest.mark.parametrize("known", [True, False])
def test_coverage_full(known):
    toy = toys.random_world()
    options = {} if known else {"behavior_model": "shares"}
    results = run(toy, 200, 1000, ["DML"], seed=1, known=known, **options)
    assert 0.93 <= coverage(results, toy.value())[0] <= 0.97


@pytest.mark.verify
@pytest.mark.parametrize(("n", "replications", "slack"), [(200, 10_000, 0.10), (2000, 10_000, 0.03)])
def test_rmse_at_the_bound_full(n, replications, slack):
    toy = toys.random_world()
    results = run(toy, n, replications, ["DML"], seed=2)
    bound = np.sqrt(toy.world.sigma2(toy.pi_e, toy.pi_b) / n)
    assert abs(rmse(results, toy.value())[0] / bound - 1) < slack


@pytest.mark.verify
def test_over_fitting_full():
    toy = toys.random_world()
    results = run(toy, 80, 1000, ["DR-full", "DML"], seed=3, value_model=op.Tabular(time="step"))
    full, cross = coverage(results, toy.value())
    assert full < 0.5
    assert cross > 0.9


def cliff_order(replications):
    """z-values of the gain in squared error of DRL over DML, and of DML over IPW."""
    toy = toys.noisy_cliff()
    results = run(toy, 1000, replications, ["DRL", "DML", "IPW"], seed=4)
    errors = (results[..., 0] - toy.value()) ** 2
    gains = errors[:, 1:] - errors[:, :-1]
    return np.sqrt(replications) * gains.mean(axis=0) / gains.std(axis=0)


def test_cliff_walking_orders_the_estimators_quickly():
    toy = toys.noisy_cliff()
    assert toy.world.bound(toy.pi_e, toy.pi_b) < 0.7 * toy.world.sigma2(toy.pi_e, toy.pi_b)
    assert (cliff_order(60) > 0).all()


@pytest.mark.verify
def test_cliff_walking_full():
    assert (cliff_order(1000) > 3).all()


@pytest.mark.verify
def test_cliff_walking_without_noise_full():
    # Nothing is random given state and action: both are limited by unseen pairs alone, far below IPW.
    toy = toys.cliff_walking(0.8, 0.6)
    drl, dml, ipw = rmse(run(toy, 100, 500, ["DRL", "DML", "IPW"], seed=4, folds=5), toy.value())
    assert abs(drl / dml - 1) < 0.1
    assert max(drl, dml) < 0.5 * ipw
