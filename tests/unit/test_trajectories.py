"""Trajectories: shapes that mean the same log, ends of episodes, and errors that say what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import offpolicy as op
from offpolicy.errors import DataError, NotIdentifiedError, PolicyError, UsageError
from offpolicy.logs.formats.rl import from_d3rlpy, from_minari, from_transitions, roll_out

STATES = [np.array([0, 1, 2]), np.array([2]), np.array([1, 0])]
ACTIONS = [np.array([0, 1, 1]), np.array([0]), np.array([1, 0])]
REWARDS = [np.array([1.0, 2.0, 3.0]), np.array([4.0]), np.array([5.0, 6.0])]
CHANCES = [np.array([0.5, 0.4, 0.3]), np.array([0.2]), np.array([0.6, 0.7])]
LENGTHS = np.array([3, 1, 2])


def padded(parts, fill):
    out = np.full((3, 3), fill, dtype=np.asarray(parts[0]).dtype)
    for i, part in enumerate(parts):
        out[i, : len(part)] = part
    return out


def frame():
    return pd.DataFrame(
        {
            "id": np.repeat([10, 20, 30], LENGTHS),
            "t": np.concatenate([np.arange(k) for k in LENGTHS]),
            "s": np.concatenate(STATES),
            "a": np.concatenate(ACTIONS),
            "r": np.concatenate(REWARDS),
            "p": np.concatenate(CHANCES),
        }
    )


def same(a, b):
    assert a.actions == b.actions
    for name in ("action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.layout.lengths, b.layout.lengths)
    np.testing.assert_array_equal(a.ended, b.ended)
    assert a.horizon == b.horizon
    np.testing.assert_array_equal(
        np.asarray(a.context.table).reshape(-1)[a.context.index],
        np.asarray(b.context.table).reshape(-1)[b.context.index],
    )


def test_lists_padded_arrays_and_flat_arrays_are_the_same_log():
    listed = op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, propensities=CHANCES)
    flat = op.Trajectories.from_arrays(
        *(np.concatenate(x) for x in (STATES, ACTIONS, REWARDS)), LENGTHS, np.concatenate(CHANCES)
    )
    # Padding holds nonsense, which nobody may look at.
    table = op.Trajectories.from_arrays(
        padded(STATES, 99), padded(ACTIONS, 77), padded(REWARDS, np.nan), LENGTHS, padded(CHANCES, 9)
    )
    same(listed, flat)
    same(listed, table)
    assert listed.n == 3
    assert listed.horizon == 3
    # Lengths 3, 1, 2 have no common end: every episode is taken to have ended by itself.
    assert listed.ended.all()
    assert listed.unbounded


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_frames_in_any_row_order(kind):
    shuffled = frame().sample(frac=1, random_state=1)
    log = op.Trajectories.from_frame(
        kind(shuffled.reset_index(drop=True)),
        episode="id",
        step="t",
        state=["s"],
        action="a",
        reward="r",
        propensity="p",
    )
    assert log.reward.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert log.layout.lengths.tolist() == [3, 1, 2]
    assert log.is_discrete
    ev = op.evaluate(log, np.full((6, 2), 0.5), estimators=["IPW"])
    by_hand = np.mean([1 + 0.5 / 0.4 * 2 + 0.5 / 0.4 * 0.5 / 0.3 * 3, 2.5 * 4, 5 / 1.2 + 6 / 1.2 / 1.4])
    assert ev["policy", "IPW"].value == pytest.approx(by_hand)


def test_policies_see_states_as_they_came():
    seen = []

    def policy(states):
        seen.append(states)
        return np.full((len(states), 2), 0.5)

    data = frame().assign(x=np.linspace(0, 1, 6))
    log = op.Trajectories.from_frame(
        pl.from_pandas(data), episode="id", step="t", state=["s", "x"], action="a", reward="r", propensity="p"
    )
    op.evaluate(log, policy, estimators=["IPW"])
    assert isinstance(seen[-1], pl.DataFrame)
    assert seen[-1].columns == ["s", "x"]
    images = np.random.default_rng(0).random((6, 4, 4)).astype(np.float32)
    log = op.Trajectories.from_arrays(images, np.concatenate(ACTIONS), np.concatenate(REWARDS), LENGTHS)
    op.evaluate(log, policy, estimators=["IPW"], behavior_model=np.full((6, 2), 0.5))
    assert seen[-1].shape[1:] == (4, 4)


def test_time_dependent_policy_gets_the_step():
    log = op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, propensities=CHANCES)
    table = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    timed = op.evaluate(log, lambda s, t: table[t], estimators=["IPW", "DML"])
    as_array = op.evaluate(log, table[log.layout.step], estimators=["IPW", "DML"])
    assert timed["IPW"].value == pytest.approx(as_array["IPW"].value, abs=1e-12)


def test_take_and_first():
    log = op.Trajectories.from_arrays(
        STATES, ACTIONS, REWARDS, propensities=CHANCES, cluster=["u", "v", "u"], weight=[1, 2, 3]
    )
    some = log.take(np.array([2, 0]))
    assert some.reward.tolist() == [5.0, 6.0, 1.0, 2.0, 3.0]
    assert some.weight.tolist() == [3.0, 1.0]
    assert log.first(2).reward.tolist() == [1.0, 2.0, 4.0, 5.0, 6.0]
    assert log.first(2).horizon == 2
    assert log.first(1).layout.is_single


def test_truncation_raises_unless_a_treatment_is_named():
    flags = np.array([False, False, True])
    with pytest.raises(NotIdentifiedError, match="1 of 3 episodes end before the horizon of 3 steps"):
        op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, terminated=flags)
    ended = op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, terminated=flags, truncated="end")
    assert ended.rows == 6
    assert "counted as 0" in ended.notes[0]
    cut = op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, terminated=flags, truncated="cut")
    assert cut.reward.tolist() == [1.0, 4.0, 5.0]
    whole = op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, terminated=[False, True, True])
    assert whole.ended.tolist() == [False, True, True]
    with pytest.raises(NotIdentifiedError, match="3 of 3"):
        op.Trajectories.from_arrays(STATES, ACTIONS, REWARDS, terminated=np.zeros(3, bool), horizon=5)


def change(column, row, value):
    def apply(data):
        data[column] = data[column].astype(object) if isinstance(value, str) else data[column]
        data.loc[row, column] = value
        return data

    return apply


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("t", 1, 5), "is followed by a gap"),
        (change("t", 1, 0), "appears twice"),
        (change("t", 3, 1), "starts at step 1"),
        (change("r", 2, np.nan), "missing or infinite"),
        (change("r", 2, np.inf), "missing or infinite"),
        (change("p", 2, 30.0), "above 1"),
        (change("p", 2, 0.0), "zero or negative"),
        (change("p", 2, np.nan), "propensity is missing"),
        (lambda d: d.assign(end=[True, False, True, True, False, True]), "continues after it terminated"),
        (lambda d: d.assign(t=d.t + 0.5), "not whole numbers"),
        (lambda d: d.head(0), "empty"),
        (lambda d: d.assign(u=range(6)), "changes within an episode"),
    ],
)
def test_bad_frames(edit, message):
    data = edit(frame())
    options = {"terminated": "end"} if "end" in data else {}
    options |= {"cluster": "u"} if "u" in data else {}
    with pytest.raises(DataError, match=message):
        op.Trajectories.from_frame(
            data, episode="id", step="t", state=["s"], action="a", reward="r", propensity="p", **options
        )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"states": [STATES[0], STATES[1], np.array([1])]}, DataError, "episode 2 has 1 steps"),
        ({"rewards": REWARDS[:2]}, DataError, "lists 2 episodes"),
        ({"actions": np.array([0, 1]), "states": None}, DataError, "lengths= is missing"),
        ({"lengths": [1, 1, 1]}, DataError, "is for arrays"),
        ({"horizon": 0}, UsageError, "at least 1"),
        ({"truncated": "drop"}, UsageError, "must be 'raise', 'bootstrap', 'cut' or 'end'"),
        ({"cluster": [1, 2]}, DataError, "one entry per episode"),
        ({"states": [s + 0.5 * np.inf for s in STATES]}, DataError, "missing or infinite"),
        ({"actions": [np.array([0, 1, 1]), np.array([], dtype=int), np.array([1, 0])]}, DataError, "below 1"),
    ],
)
def test_bad_arrays(arguments, error, message):
    given = {"states": STATES, "actions": ACTIONS, "rewards": REWARDS, **arguments}
    with pytest.raises(error, match=message):
        op.Trajectories.from_arrays(given.pop("states"), given.pop("actions"), given.pop("rewards"), **given)


def test_one_step_episodes_are_a_bandit_in_every_number():
    from sklearn.linear_model import LogisticRegression, Ridge

    rng = np.random.default_rng(5)
    n = 150
    x, cluster, weight = rng.normal(size=(n, 2)), rng.integers(0, 40, n), rng.random(n) + 0.5
    pi_b = rng.dirichlet(np.full(3, 4.0), n)
    action = (pi_b.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    reward = x[:, 0] * (action == 1) + rng.normal(size=n)

    def policy(states):
        return 0.8 * np.eye(3)[(states[:, 0] > 0).astype(int)] + 0.2 / 3

    names = ["DML", "DR-full", "DR-half", "SNDR-cf", "SNIPW", "IPW", "DM", "MRDR", "SWITCH", "DRos"]
    for model in (None, Ridge(), op.models.PerAction(Ridge())):
        for known, behavior in ((True, None), (False, "shares"), (False, LogisticRegression())):
            p = pi_b[np.arange(n), action] if known else None
            bandit = op.BanditLog.from_arrays(x, action, reward, p, cluster=cluster, weight=weight)
            episodes = op.Trajectories.from_arrays(
                x[:, None],
                action[:, None],
                reward[:, None],
                propensities=None if p is None else p[:, None],
                cluster=cluster,
                weight=weight,
            )
            shared = {"estimators": names, "behavior_model": behavior, "repeats": 2, "folds": 3}
            a = op.evaluate(bandit, policy, reward_model=model, **shared)
            b = op.evaluate(episodes, policy, value_model=model, **shared)
            for name in names:
                assert a[name].value == b[name].value, name
                assert a[name].std_error == b[name].std_error, name


def test_transitions_and_roll_outs():
    import gymnasium

    environment = gymnasium.make("CartPole-v1")

    def policy(states):
        right = 1 / (1 + np.exp(-5 * states[:, 2]))
        return np.column_stack([1 - right, right])

    log = roll_out(environment, policy, 20, seed=3, truncated="end")
    assert log.n == 20
    assert log.distribution.shape == (log.rows, 2)
    # What the policy would say about the logged states is what it acted with.
    np.testing.assert_allclose(policy(np.asarray(log.context.table, dtype=np.float64)), log.distribution, rtol=1e-5)
    ev = op.evaluate(log, log.distribution, estimators=["IPW", "DML"])
    assert ev["policy", "IPW"].value == pytest.approx(ev.logged.value, abs=1e-9)
    again = roll_out(environment, policy, 20, seed=3, truncated="end")
    np.testing.assert_array_equal(again.reward, log.reward)
    with pytest.raises(DataError, match="unfinished"):
        from_transitions([{"state": 0, "action": 0, "reward": 1.0, "terminated": False, "truncated": False}])
    with pytest.raises(PolicyError, match="probabilities for one state"):
        roll_out(environment, lambda s: np.ones((1, 2)), 1)


def test_minari(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = gymnasium.make("CartPole-v1", max_episode_steps=12)
    rng = np.random.default_rng(0)
    buffers = []
    for number in range(5):
        seen, _ = environment.reset(seed=number)
        parts = {"observations": [seen], "actions": [], "rewards": []}
        parts |= {"terminations": [], "truncations": []}
        while not parts["actions"] or not (parts["terminations"][-1] or parts["truncations"][-1]):
            action = int(rng.integers(2))
            seen, reward, terminated, truncated, _ = environment.step(action)
            values = (seen, action, reward, terminated, truncated)
            for name, value in zip(parts, values, strict=True):
                parts[name].append(value)
        buffers.append(EpisodeBuffer(id=number, **parts))
    dataset = minari.create_dataset_from_buffers(
        "cartpole/test-v0",
        buffers,
        env=environment,
        eval_env=environment,
        description="five episodes",
        algorithm_name="uniform",
        code_permalink="none",
        author="none",
        author_email="none",
    )
    log = from_minari(dataset, propensity=lambda states, actions: np.full(len(actions), 0.5), truncated="end")
    episodes = list(dataset.iterate_episodes())
    assert log.n == 5
    np.testing.assert_array_equal(np.diff(log.layout.offsets), [len(e.actions) for e in episodes])
    np.testing.assert_allclose(log.reward, np.concatenate([e.rewards for e in episodes]))
    np.testing.assert_array_equal(np.asarray(log.context.table)[:3], episodes[0].observations[:3])


def test_d3rlpy():
    d3rlpy = pytest.importorskip("d3rlpy")
    episodes = [
        d3rlpy.dataset.Episode(np.arange(8.0).reshape(4, 2), np.array([[0], [1], [0], [1]]), np.ones((4, 1)), True),
        d3rlpy.dataset.Episode(np.zeros((2, 2)), np.array([[1], [1]]), np.zeros((2, 1)), True),
    ]
    log = from_d3rlpy(episodes)
    assert log.layout.lengths.tolist() == [4, 2]
    assert log.action.tolist() == [0, 1, 0, 1, 1, 1]
