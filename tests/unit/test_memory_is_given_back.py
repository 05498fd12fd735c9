"""An evaluation is gone when its last name goes: nothing waits for the garbage collector's search for circles."""

import gc
import weakref

import numpy as np
import pytest

import offpolicy as op
from offpolicy.models.fitting.store import Spent

N = 300


def bandit():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=N), rng.integers(2, size=N)
    rewards = {"r": x * a + rng.normal(size=N), "c": 1.0 + a}
    return op.BanditLog.from_arrays(x, a, rewards, np.full(N, 0.5))


def episodes(**more):
    rng = np.random.default_rng(1)
    return op.Trajectories.from_arrays(
        rng.integers(3, size=(80, 3)),
        rng.integers(2, size=(80, 3)),
        rng.normal(size=(80, 3)),
        propensities=np.full((80, 3), 0.5),
        **more,
    )


def prices():
    rng = np.random.default_rng(2)
    price = rng.uniform(0, 10, size=N)
    sold = (rng.uniform(size=N) < 1 - price / 10) * price
    return op.BanditLog.from_arrays(None, price, sold, np.full(N, 0.1), action_kind="continuous")


POLICIES = {
    "bandit": {"new": lambda x: np.full((len(x), 2), 0.5), "one": op.policies.Fixed(1)},
    "episodes": {"new": lambda x: np.full((len(x), 2), 0.5), "one": op.policies.Fixed(1)},
    "prices": {"new": 5.0},
}
LOGS = {"bandit": bandit, "episodes": episodes, "prices": prices}


def plain(ev):
    return [ev]


def checked(ev):
    name = ev.policies[0]
    _ = ev.diagnostics, ev.compare(), ev.frame(), ev.verdict(name), repr(ev)
    return [ev, *ev.diagnostics.policies.values()] if hasattr(ev.diagnostics, "policies") else [ev]


def gated(ev):
    name = ev.policies[0]
    prefix = f"{ev.metric_name} " if ev.asked.are_several else ""
    result = ev.gate(f"{prefix}{name} - logged > -100")
    assert result.exit_code in {0, 4}
    return [ev]


def asked(ev):
    others = [ev.ask(seed=3), ev.with_behavior("shares") if ev.problem.log.actions else ev]
    if ev.asked.are_several:
        others += [ev.metric("c"), ev.combine({"r": 1.0, "c": -0.5})]
        assert others[-2].metric("r") is ev
    return [ev, *others]


@pytest.mark.parametrize("use", [plain, checked, gated, asked])
@pytest.mark.parametrize("kind", LOGS)
def test_an_evaluation_is_gone_when_its_last_name_goes(kind, use):
    gc.collect()
    gc.disable()
    try:
        made = use(op.evaluate(LOGS[kind](), POLICIES[kind]))
        parts = []
        for ev in made:
            if not isinstance(ev, op.Evaluation):
                continue
            source = ev.problem
            parts += [ev, ev.problem, source, source.store, ev.problem.table, source.block.nuisances]
            parts += [*ev.estimates.values(), *ev.targets.values(), ev.logged]
        left = [weakref.ref(part) for part in parts]
        del made, parts, ev, source
        assert [type(ref()).__name__ for ref in left if ref() is not None] == []
    finally:
        gc.enable()


def test_models_of_one_policy_are_let_go_once_they_have_predicted():
    ev = op.evaluate(episodes(), POLICIES["episodes"], estimators=["DML", "DRL"])
    fits = ev.problem.fits.own
    assert len(fits) == 8
    assert all(isinstance(fit, Spent) for fit in fits.values())
    again = ev.ask(estimators=["DML", "DRL", "DM-cf"])
    assert again["new", "DML"].value == ev["new", "DML"].value
