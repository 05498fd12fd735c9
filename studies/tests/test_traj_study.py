"""The tabular study: toy worlds as described, a table, and a run that can be taken up again."""

from __future__ import annotations

import json

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.scores.decisions import Decisions
from offpolicy.trust.horizon import horizon_curve, support
from offpolicy_studies.tabular import toys
from offpolicy_studies.tabular.chain import Chain
from offpolicy_studies.tabular.study import SETTINGS, Args, reproduce, show, truth


def test_values_of_the_toy_worlds():
    assert toys.model_fail().value() == pytest.approx(0.12 - 0.88)
    # Ten visits of the first state, each worth 0.27 · (0.4 − 0.6) + 0.73 · (0.6 − 0.4).
    assert toys.model_win().value() == pytest.approx(10 * 0.2 * (0.73 - 0.27))
    rng = np.random.default_rng(0)
    for toy in (toys.gridworld(), toys.cliff_walking(), toys.random_world()):
        log = toy.world.simulate(toy.pi_e, 4_000, rng)
        returns = log.layout.sum(log.reward)
        assert returns.mean() == pytest.approx(toy.value(), abs=5 * returns.std() / np.sqrt(4_000))
    chain = Chain(horizon=5)
    returns = chain.simulate(100_000, rng, on_policy=True)
    psi = returns.layout.sum(returns.reward)
    assert psi.mean() == pytest.approx(chain.value(), abs=5 * psi.std() / np.sqrt(100_000))


def test_cliff_walking_is_the_cliff():
    world = toys.cliff_walking(1.0, 0.5).world
    assert world.mean.min() == -100
    assert world.value(toys.optimal(world)) == -13
    assert (world.transition.sum(axis=2)[world.mean == -100] == 0).all()


def test_the_log_of_model_fail_hides_the_state():
    log = toys.model_fail().simulate(50, np.random.default_rng(0))
    assert log.context.n_table == 1
    assert (np.diff(log.layout.offsets) == 2).all()


def test_a_study_is_resumed(tmp_path):
    names = ("ModelFail", "chain, both wrong")
    few = reproduce(Args(replications=2, settings=names, out=tmp_path, workers=1))
    lines = (tmp_path / "replications.jsonl").read_text().splitlines()
    more = reproduce(Args(replications=4, settings=names, out=tmp_path, workers=1))
    assert (tmp_path / "replications.jsonl").read_text().splitlines()[: len(lines)] == lines
    fresh = reproduce(Args(replications=4, settings=names, out=tmp_path / "b", workers=1))
    assert more["settings"] == fresh["settings"]
    assert few["settings"] != more["settings"]
    assert json.loads((tmp_path / "results.json").read_text())["settings"].keys() == set(names)
    assert "| DML |" in show(more)
    with pytest.raises(UsageError, match="Did you mean 'ModelFail'"):
        reproduce(Args(settings=("ModelFall",), out=tmp_path))
    assert all(np.isfinite(truth(s)) for s in SETTINGS.values())


def test_the_curve_of_the_horizon_by_hand():
    log = op.Trajectories.from_arrays([[0, 0], [0], [0, 0]], [[0, 1], [1], [1, 0]], [[1.0, 1], [1], [1, 1]])
    pi_e, pi_b = np.array([0.9, 0.9, 0.1, 0.5, 0.0]), np.full(5, 0.5)
    d = Decisions(log.layout, np.ones(5), pi_e, pi_b, np.zeros(5), np.zeros(5))
    curve = horizon_curve(d)
    first, second = np.array([1.8, 0.2, 1.0]), np.array([1.8 * 1.8, 0.2, 0.0])
    for t, rho in enumerate((first, second)):
        assert curve.effective[t] == pytest.approx(rho.sum() ** 2 / (rho**2).sum())
        assert curve.mean[t] == pytest.approx(rho.mean())
        assert curve.largest[t] == pytest.approx(rho.max() / rho.sum())
        assert curve.surviving[t] == pytest.approx((rho > 0).mean())
    assert curve.active.tolist() == [3.0, 2.0]
    assert curve.supported == 2
    assert "DML is supported" in support(curve, log)[0]


def test_notes_of_truncation_reach_the_estimate():
    log = op.Trajectories.from_arrays(
        [[0, 0], [0]] * 4,
        [[0, 1], [1]] * 4,
        [[1.0, 1], [1]] * 4,
        propensities=[[0.5, 0.5], [0.5]] * 4,
        terminated=[True, False] * 4,
        truncated="end",
    )
    ev = op.evaluate(log, np.full((12, 2), 0.5), estimators=["IPW"])
    assert "counted as 0" in ev["IPW"].notes[0]


def test_diagnostics_of_episodes():
    toy = toys.cliff_walking(0.9, 0.5)
    log = toy.simulate(80, np.random.default_rng(0))
    folds = np.arange(80) % 2
    ev = op.evaluate(log, toy.target, estimators=["DML"], folds=folds)
    states = log.context.table[log.context.index]
    lost = 0.0
    for row in range(log.rows):
        fold = folds[log.layout.unit[row]]
        others = folds[log.layout.unit] != fold
        for a in range(4):
            if not np.any(others & (states == states[row]) & (log.action == a)):
                lost += toy.pi_e[states[row], a]
    found = ev.diagnostics["policy", "unseen_pairs"]
    assert float(found) == pytest.approx(lost / log.rows)
    assert found.level == ("caution" if float(found) > 0.02 else "ok")
    assert ev.diagnostics["policy", "horizon"].level == "caution"
    assert len(ev.diagnostics["policy", "horizon"].details["effective"]) == log.layout.horizon
    calm = toys.random_world()
    log = calm.simulate(400, np.random.default_rng(0))
    ev = op.evaluate(log, calm.target, estimators=["DML"])
    for name in ("horizon", "unseen_pairs", "value_model_skill"):
        assert ev.diagnostics["policy", name].level == "ok"
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    last = d.layout.step == log.horizon - 1
    r, q = log.reward[last], d.q[last]
    skill = ev.diagnostics["policy", "value_model_skill"].details["by_step"][-1]
    assert skill == pytest.approx(1 - np.mean((r - q) ** 2) / np.var(r))
