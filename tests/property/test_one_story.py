"""One object, one story: verdict, table, comparison, gate, selection and JSON never contradict each other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import offpolicy as op

ACTIONS = 3
WORTH, WORSE, OPEN = "Worth an A/B test", "It is not worth an A/B test", "There may be no difference"


CANDIDATES = ("one", "rule", "mixed")
WORLDS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.sampled_from([12, 60, 300, 1500]),
        "steep": st.sampled_from([0.0, 0.7, 2.0]),
        "effect": st.sampled_from([0.0, 0.1, 0.25]),
        "noisy": st.booleans(),
        "clustered": st.booleans(),
        "modeled": st.booleans(),
        "minimize": st.booleans(),
        "names": st.lists(st.sampled_from(CANDIDATES), min_size=1, max_size=3, unique=True),
    }
)


def evaluated(seed, n, steep, effect, noisy, clustered, modeled, minimize, names):
    """One to three policies of unlike values on a random log."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    z = steep * x @ rng.normal(size=(2, ACTIONS))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    action = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    means = 0.3 + effect * rng.uniform(-1, 1, ACTIONS)
    reward = (rng.random(n) < means[action]) + noisy * rng.normal(size=n)
    cluster = rng.integers(max(2, n // 5), size=n) if clustered else None
    log = op.BanditLog.from_arrays(x, action, reward, p[np.arange(n), action], cluster=cluster, actions=range(ACTIONS))
    policies = {"one": "always:1", "rule": (x[:, 0] > 0).astype(int), "mixed": np.full((n, ACTIONS), 1 / ACTIONS)}
    how = {"estimators": ["DML"], "reward_model": Ridge()} if modeled else {"estimators": ["SNIPW"]}
    return op.evaluate(log, {name: policies[name] for name in names}, minimize=minimize, **how)


def side(interval):
    """1 above 0, −1 below, 0 where 0 is inside or nothing is said."""
    if not interval.sufficient:
        return 0
    return int(interval.low > 0) - int(interval.high < 0)


@settings(max_examples=20, deadline=None)
@given(world=WORLDS)
def test_no_two_of_them_contradict_each_other(world):
    ev = evaluated(**world)
    sign = -1 if ev.minimize else 1
    comparison, choice, told = ev.compare(), op.select(ev), json.loads(ev.to_json())
    in_json = told["verdicts"]
    frame, summary = ev.frame(), ev.summary().set_index("policy")
    for name in ev.policies:
        verdict, estimate = ev.verdict(name), ev[name]
        own = estimate.interval()
        apart = comparison.differences[name] if len(ev.policies) > 1 else (estimate - ev.logged).interval()
        # The level is the same everywhere.
        assert in_json[name]["level"] == verdict.level == summary.loc[name, "verdict"]
        assert set(frame.loc[frame["policy"] == name, "verdict"]) == {verdict.level}
        refused = verdict.level == "insufficient evidence"
        assert refused or own.sufficient
        # What the verdict concludes is what the corrected difference says.
        last = verdict.reasons[-1]
        if last.startswith(WORTH):
            assert sign * side(apart) > 0
        if last.startswith(WORSE):
            assert sign * side(apart) < 0
        if last.startswith(OPEN):
            assert side(apart) == 0
        # A gate passes where the verdict answers and the same interval clears the bar, and fails on its other side.
        better = "<" if ev.minimize else ">"
        gate = ev.gate(f"{name} - logged {better} 0")
        if gate.passed:
            assert not refused
            assert sign * side(apart) > 0
        if gate.passed is False:
            assert not refused
            assert sign * side(apart) < 0
        # What is adopted is neither refused nor worse by the comparison.
        if choice.chosen == name:
            assert not refused
            assert sign * side(comparison.differences[name]) >= 0
        # A corrected interval holds the value it is about, and one of the table does.
        assert not own.sufficient or own.low <= estimate.value <= own.high
        corrected = comparison.values[name]
        assert not corrected.sufficient or corrected.low <= estimate.value <= corrected.high
    leader = comparison.best.leader
    if len(comparison.best.names) == 1 and leader in ev.policies:
        assert sign * side(comparison.differences[leader]) >= 0


@pytest.mark.parametrize(("rows", "level"), [(14, "insufficient evidence"), (4000, "trust")])
def test_an_interval_that_holds_nearly_everything_is_no_answer(rows, level):
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=rows)
    log = op.BanditLog.from_arrays(None, action, (rng.random(rows) < 0.4) * 1.0, np.full(rows, 0.5))
    verdict = op.evaluate(log, "always:1", estimators=["SNIPW"]).verdict()
    assert verdict.level == level
    vague = [reason for reason in verdict.reasons if "as long as the whole range of what was logged" in reason]
    assert len(vague) == (rows == 14)
