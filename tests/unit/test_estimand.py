"""Which value a log of episodes speaks of, and that the estimate is of that value."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import NotIdentifiedError, UsageError
from offpolicy.logs.endings import has_time_limit
from offpolicy.trust.horizon import last_reached, steps_left

STAY, STOP = 0, 1


def one_state(n, seed, keep=0.5):
    """A state in which every step earns 1 until the stopping action; π_b goes on with probability ``keep``."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 - keep, size=n)
    actions = np.zeros(int(lengths.sum()), dtype=int)
    actions[np.cumsum(lengths) - 1] = STOP
    return op.Trajectories.from_arrays(
        np.zeros(len(actions), dtype=int),
        actions,
        np.ones(len(actions)),
        lengths,
        np.where(actions == STAY, keep, 1 - keep),
    )


def going_on(chance):
    return lambda states: np.tile([chance, 1 - chance], (len(states), 1))


def test_episodes_that_all_ended_have_the_value_of_the_episodic_problem():
    truth = 1 / 0.3  # 1 + .7 + .7² + …: the last step earns as well
    covered = 0
    for seed in range(20):
        ev = op.evaluate(one_state(200, seed), going_on(0.7))
        low, high = ev["DML"].interval(0.95)
        covered += low - 1e-9 <= truth <= high + 1e-9
        assert ev["DM"].value == pytest.approx(truth, rel=1e-6)
    assert covered >= 18


def test_a_horizon_asks_for_the_value_of_so_many_steps():
    log = one_state(300, 1)
    for steps in (3, 60):
        truth = (1 - 0.7**steps) / 0.3
        ev = op.evaluate(log.up_to(steps), going_on(0.7), estimators=["DM"])
        assert ev["DM"].value == pytest.approx(truth, rel=1e-9)
        assert ev.settings["estimand"] == f"value of up to {steps} steps, γ = 1"
    discounted = op.evaluate(log, going_on(1.0), discount=0.9, estimators=["DM"])
    assert discounted["DM"].value == pytest.approx(10.0, rel=1e-6)


def test_the_estimand_is_printed_in_text_json_and_report(tmp_path):
    ev = op.evaluate(one_state(100, 2), going_on(0.6), estimators=["DML"], discount=0.9)
    said = "value of whole episodes, however long, γ = 0.9"
    assert said in repr(ev)
    assert json.loads(ev.to_json())["settings"]["estimand"] == said
    assert said in ev.report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_ends_that_nobody_stated_are_said_to_be_assumed(tmp_path):
    steps = pd.DataFrame({"id": np.repeat([0, 1, 2], [2, 3, 5]), "t": [0, 1, 0, 1, 2, 0, 1, 2, 3, 4]})
    steps = steps.assign(s=1.0, a=[0, 1] * 5, r=1.0, p=0.5, done=steps["t"] == [1, 1, 2, 2, 2, 4, 4, 4, 4, 4])
    roles = {"episode": "id", "step": "t", "state": ["s"], "action": "a", "reward": "r", "propensity": "p"}
    said = "no end flags were given: every episode is assumed to have ended on its own"
    silent = op.Trajectories.from_frame(steps, **roles)
    assert silent.notes[0].startswith(said)
    assert "pass horizon= (the longest has 5 steps)" in silent.notes[0]
    assert said in repr(op.evaluate(silent, "uniform", estimators=["IPW"]))
    assert op.Trajectories.from_frame(steps, **roles, terminated="done").notes == ()
    assert op.Trajectories.from_frame(steps, **roles, horizon=5).notes == ()


def test_an_exact_model_is_not_printed_as_an_interval_of_no_width():
    for seed in range(4):
        text = repr(op.evaluate(one_state(200, seed), going_on(0.5), estimators=["DML"], discount=0.9))
        line = next(x for x in text.splitlines() if " DML " in x)
        ends = re.findall(r"\[([\d.]+), ([\d.]+)\]", line)
        assert "not stated" in line or ends[0][0] != ends[0][1]


@pytest.mark.parametrize(
    ("lengths", "unbounded"),
    [([5] * 20, False), ([1, 2, 5, 3], True), ([1, 1, 2, 3, 4, *[9] * 6], False), ([4], False)],
)
def test_a_time_limit_shows_in_the_lengths(lengths, unbounded):
    steps = sum(lengths)
    zeros = np.zeros(steps, dtype=int)
    log = op.Trajectories.from_arrays(zeros, zeros, np.ones(steps), lengths, np.ones(steps))
    assert log.unbounded is unbounded
    assert log.horizon == max(lengths)


@pytest.mark.parametrize("end", [0.02, 0.2, 0.5])
def test_chance_is_rarely_taken_for_a_time_limit(end):
    rng = np.random.default_rng(0)
    taken = np.mean([has_time_limit(rng.geometric(end, size=200)) for _ in range(400)])
    assert taken <= 0.025


def truncated_log(n, seed, treatment, limit=4, **options):
    """The one-state log, cut off after four steps."""
    whole = one_state(n, seed)
    lengths = np.minimum(whole.layout.lengths, limit)
    keep = whole.layout.step < limit
    flags = whole.layout.lengths > limit
    return op.Trajectories.from_arrays(
        np.zeros(keep.sum(), dtype=int),
        whole.action[keep],
        whole.reward[keep],
        lengths,
        whole.propensity[keep],
        truncated=flags if treatment == "flags" else treatment,
        terminated=None if treatment == "flags" else ~flags,
        **options,
    )


def test_a_time_limit_is_the_horizon_unless_it_is_bootstrapped():
    limited = truncated_log(400, 3, "flags")
    assert limited.estimand() == "value of up to 4 steps, γ = 1"
    ev = op.evaluate(limited, going_on(0.7), estimators=["DML", "IPW"])
    truth = (1 - 0.7**4) / 0.3
    for name in ("DML", "IPW"):
        assert ev[name].value == pytest.approx(truth, abs=4 * ev[name].std_error + 1e-9)
    boot = truncated_log(400, 3, "bootstrap")
    assert boot.unbounded
    assert "bootstrapped" in boot.notes[0]
    ev = op.evaluate(boot, going_on(0.7), estimators=["DML", "DRL", "IPW"])
    assert ev["DML"].value == pytest.approx(1 / 0.3, rel=1e-6)
    assert ev["DRL"].value == pytest.approx(1 / 0.3, rel=1e-6)
    assert not ev["IPW"].is_defined
    assert "truncated" in ev["IPW"].notes[-1]


def test_truncation_of_different_lengths():
    states = [np.zeros(k, dtype=int) for k in (3, 1, 2)]
    rewards = [np.ones(k) for k in (3, 1, 2)]
    flags = [False, False, True]
    boot = op.Trajectories.from_arrays(states, states, rewards, truncated=flags)
    assert boot.unbounded
    assert boot.bootstrapped.tolist() == [5]
    cut = op.Trajectories.from_arrays(states, states, rewards, truncated="cut", terminated=~np.array(flags))
    assert cut.estimand() == "value of up to 2 steps, γ = 1"
    with pytest.raises(NotIdentifiedError, match="truncated='bootstrap'"):
        op.Trajectories.from_arrays(states, states, rewards, terminated=~np.array(flags))
    with pytest.raises(UsageError, match="flags that mark"):
        op.Trajectories.from_arrays(states, states, rewards, truncated="later")


def test_a_longer_horizon_needs_episodes_that_are_known_to_have_ended():
    limited = truncated_log(200, 4, "flags")
    with pytest.raises(NotIdentifiedError, match="may go on after their last logged step, before step 9"):
        op.evaluate(limited.up_to(9), going_on(0.7))
    with pytest.raises(UsageError, match="horizon= is for trajectories"):
        op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0], [0.5, 0.5]).up_to(3)


def test_what_the_log_cannot_tell_has_a_figure_and_bounds():
    log = one_state(60, 5)
    ev = op.evaluate(log, going_on(0.95), discount=0.9, estimators=["DML"])
    found = ev.diagnostics["beyond_log"]
    assert found.level == "alarm"
    assert found.details["high"] == pytest.approx(found.value * 0.9 ** found.details["steps"] / 0.1)
    near = op.evaluate(one_state(5_000, 6), going_on(0.5), estimators=["DML"])
    assert near.diagnostics["beyond_log"].level == "ok"
    assert steps_left(2, 5, 0.5) == pytest.approx(0.25 + 0.125 + 0.0625)
    assert steps_left(2, None, 1.0) == np.inf
    assert last_reached(ev.problem.decisions(ev.targets["policy"], ev.estimators[0]))[0] == log.horizon


def test_sparse_and_dense_tables_agree_on_unseen_states(monkeypatch):
    rng = np.random.default_rng(7)
    states = rng.integers(40, size=(30, 4))  # many states are seen in one fold only
    actions, rewards = rng.integers(2, size=(30, 4)), rng.normal(size=(30, 4))
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((30, 4), 0.5))

    def value():
        return op.evaluate(log, going_on(0.8), estimators=["DML", "DM-half"])

    dense = value()
    monkeypatch.setattr("offpolicy.models.values.tabular.DENSE_CELLS", 0)
    sparse = value()
    for name in ("DML", "DM-half"):
        assert sparse[name].value == pytest.approx(dense[name].value, rel=1e-12)
