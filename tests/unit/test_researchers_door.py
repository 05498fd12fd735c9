"""Logs as RL libraries keep them, distributions of returns, curves by step and rankings against the truth."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.evaluation.returns import Weighted, distribution


def recorded(n=40, seed=0):
    """Columns as RLlib's offline recording writes them."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        length = int(rng.integers(1, 6))
        for t in range(length):
            action = int(rng.random() < 0.5)
            rows.append(
                {
                    "eps_id": f"e{i}",
                    "obs": rng.normal(size=3).tolist(),
                    "actions": action,
                    "rewards": float(action),
                    "terminateds": t == length - 1,
                    "truncateds": False,
                    "action_logp": float(np.log(0.5)),
                }
            )
    return pd.DataFrame(rows)


def test_rllib_recordings_from_a_table_and_from_parquet(tmp_path):
    frame = recorded()
    log = op.formats.from_rllib(frame)
    frame.to_parquet(tmp_path / "part.parquet")
    again = op.formats.from_rllib(tmp_path / "part.parquet")
    assert log.n == 40
    assert log.rows == len(frame)
    np.testing.assert_allclose(log.propensity, 0.5)
    np.testing.assert_array_equal(log.reward, frame["rewards"])
    np.testing.assert_array_equal(again.layout.lengths, log.layout.lengths)
    np.testing.assert_allclose(np.asarray(again.context.table), np.asarray(log.context.table))
    assert log.unbounded
    ev = op.evaluate(log, lambda s: np.tile([0.2, 0.8], (len(s), 1)), estimators=["IPW"])
    assert ev["IPW"].is_defined


def test_rllib_steps_are_put_in_order_and_unfinished_episodes_are_named():
    frame = recorded(5)
    timed = frame.assign(t=frame.groupby("eps_id").cumcount())
    shuffled = timed.sample(frac=1, random_state=2)
    by_id = {}
    log = op.formats.from_rllib(shuffled)
    for i in range(log.n):
        rows = slice(log.layout.offsets[i], log.layout.offsets[i + 1])
        by_id[tuple(np.asarray(log.context.table)[rows.start])] = log.reward[rows].tolist()
    for _, group in timed.groupby("eps_id"):
        assert by_id[tuple(group["obs"].iloc[0])] == group["rewards"].tolist()
    with pytest.raises(DataError, match="neither terminated nor truncated"):
        op.formats.from_rllib(frame.assign(terminateds=False))


def test_gymnasium_at_the_top():
    gymnasium = pytest.importorskip("gymnasium")
    environment = gymnasium.make("CartPole-v1")
    log = op.formats.from_gymnasium(environment, lambda s: np.full((len(s), 2), 0.5), 5, seed=1)
    assert log.n == 5
    assert log.unbounded  # every pole fell before the limit of 500 steps
    assert op.formats.roll_out is op.formats.from_gymnasium


def test_stable_baselines_buffers():
    pytest.importorskip("stable_baselines3")
    gymnasium = pytest.importorskip("gymnasium")
    from stable_baselines3.common.buffers import ReplayBuffer

    space = gymnasium.spaces
    buffer = ReplayBuffer(50, space.Box(-1, 1, (2,)), space.Discrete(2), n_envs=1)
    rng = np.random.default_rng(0)
    for t in range(60):  # overwritten: the first episodes are lost
        done = t % 7 == 6
        buffer.add(
            rng.normal(size=(1, 2)),
            rng.normal(size=(1, 2)),
            np.array([[t % 2]]),
            np.array([float(t)]),
            np.array([done]),
            [{"TimeLimit.truncated": False}],
        )
    log = op.formats.from_sb3(buffer, propensity=lambda s, a: np.full(len(a), 0.5))
    # Steps 10 to 59 are left: the episode of steps 7 to 13 has lost its beginning, 56 to 59 its end.
    assert log.reward[0] == 14.0
    assert log.layout.n_steps == 42
    assert "left out" in log.notes[-1]


def test_a_rollout_buffer_that_was_trained_on_reads_as_before():
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env

    environments = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = sb3.PPO("MlpPolicy", environments, n_steps=64, batch_size=64, n_epochs=1, seed=0)
    before = {}

    def collected(_, __):
        # Called at every step: what the buffer holds when it is full, before batches are drawn from it.
        if model.rollout_buffer.pos == 63:
            before["states"] = model.rollout_buffer.observations.copy()
        return True

    model.learn(128, callback=collected)
    buffer = model.rollout_buffer
    assert buffer.generator_ready
    log = op.formats.from_sb3(buffer)
    assert np.asarray(log.context.table).shape == (log.rows, 4)
    np.testing.assert_allclose(
        np.asarray(log.context.table)[: log.layout.lengths[0]], before["states"][: log.layout.lengths[0], 0]
    )
    # An untrained policy takes each action about as often as the other.
    assert 0.4 < log.propensity.mean() < 0.6
    ev = op.evaluate(log, model, estimators=["DM"], discount=0.9)
    assert ev["DM"].is_defined


class Rollout:
    """What a rollout buffer of Stable-Baselines3 is made of."""

    buffer_size, n_envs, pos, full = 6, 1, 6, True
    observations = np.arange(6.0).reshape(6, 1, 1)
    actions = np.array([0, 1, 0, 1, 0, 1]).reshape(6, 1, 1)
    rewards = np.arange(6.0).reshape(6, 1)
    episode_starts = np.array([1, 0, 1, 0, 0, 1]).reshape(6, 1)
    log_probs = np.log(np.full((6, 1), 0.25))


def test_rollout_buffers_have_propensities():
    log = op.formats.from_sb3(Rollout())
    assert log.layout.lengths.tolist() == [2, 3]
    np.testing.assert_allclose(log.propensity, 0.25)
    assert "1 of 6 steps" in log.notes[-1]


# -- distributions of returns --------------------------------------------------------------------------


def test_the_distribution_of_returns_is_the_targets():
    rng = np.random.default_rng(1)
    n = 4_000
    actions = rng.integers(2, size=(n, 2))
    rewards = actions + 0.0
    log = op.Trajectories.from_arrays(np.zeros((n, 2), dtype=int), actions, rewards, propensities=np.full((n, 2), 0.5))
    ev = op.evaluate(log, lambda s: np.tile([0.2, 0.8], (len(s), 1)), estimators=["IPW"])
    found = ev.returns()
    truth = np.array([0.04, 0.36, 1.0])
    assert found.value.tolist() == [0.0, 1.0, 2.0]
    assert (found.low <= truth + 1e-9).all()
    assert (truth <= found.high + 1e-9).all()
    assert found.quantile(0.5) == 2.0
    assert found.cvar(0.04) == pytest.approx(0.0, abs=0.2)
    low, high = found.quantile_interval(0.2)
    assert low <= 1.0 <= high


def holds_everywhere(band, points, truth):
    """Whether a band holds a distribution function between its jumps as well as at them."""
    at = np.searchsorted(band.value, points, side="right") - 1
    low = np.where(at >= 0, band.low[at], 0.0)
    high = np.where(at >= 0, band.high[at], band.high[0])
    return bool(((low <= truth) & (truth <= high)).all())


@pytest.mark.parametrize("size", [1, 10])
def test_the_band_holds_everywhere_at_once(size):
    rng = np.random.default_rng(2)
    points = np.linspace(0.0, 8.0, 400)
    held, logs, units = 0, 120, 200
    for seed in range(logs):
        cluster = np.repeat(np.arange(units), size)
        x = rng.exponential(size=units)[cluster]
        weight = np.where(rng.random(units) < 0.5, 0.5, 1.5)[cluster]  # says nothing of x
        rows = Weighted(x, weight, cluster=cluster if size > 1 else None)
        held += holds_everywhere(distribution(rows, 0.95, seed), points, 1 - np.exp(-points))
    assert held >= 0.95 * logs - 3 * (logs * 0.95 * 0.05) ** 0.5


def test_a_cluster_of_copies_is_one_unit():
    rng = np.random.default_rng(5)
    x, weight, copies = rng.normal(size=60), rng.random(60) + 0.5, np.repeat(np.arange(60), 4)
    alone = distribution(Weighted(x, weight, cluster=np.arange(60)), 0.95, 0)
    together = distribution(Weighted(x[copies], weight[copies], cluster=copies), 0.95, 0)
    assert together.effective == pytest.approx(alone.effective)
    spread = [(b.high - b.low)[20:40] for b in (alone, together)]
    np.testing.assert_allclose(*spread, rtol=0.1)


def test_a_counted_row_is_as_many_units():
    rng = np.random.default_rng(6)
    x, weight, count = np.arange(20.0), rng.random(20) + 0.5, rng.integers(1, 9, size=20)
    units = np.repeat(np.arange(20), count)
    counted = distribution(Weighted(x, weight * count, count.astype(float)), 0.95, 0)
    rows = distribution(Weighted(x[units], weight[units]), 0.95, 0)
    assert counted.effective == pytest.approx(rows.effective)
    for one, other in ((counted.low, rows.low), (counted.high, rows.high)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert counted.cvar_interval(0.3) == pytest.approx(rows.cvar_interval(0.3))
    low, high = counted.cvar_interval(0.3)
    assert low <= counted.cvar(0.3) <= high


def test_too_few_episodes_have_no_distribution():
    log = op.BanditLog.from_arrays(None, [0, 1] * 15, np.arange(30.0), [0.5] * 30)
    with pytest.raises(NotIdentifiedError, match="too few for a distribution"):
        op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]).returns()


# -- steps and rankings --------------------------------------------------------------------------------


def test_curves_by_step():
    rng = np.random.default_rng(3)
    n, steps = 500, 4
    actions = rng.integers(2, size=(n, steps))
    log = op.Trajectories.from_arrays(
        np.zeros((n, steps), dtype=int), actions, actions + 0.0, propensities=np.full((n, steps), 0.5)
    )
    ev = op.evaluate(log, lambda s: np.tile([0.3, 0.7], (len(s), 1)), estimators=["SNIPW"])
    curves = ev.step_curves()
    assert curves.target.sum() == pytest.approx(ev["SNIPW"].value, rel=1e-9)
    assert (np.abs(curves.target - 0.7) < 4 * curves.error).all()
    assert (np.diff(curves.effective) < 0).all()
    pytest.importorskip("matplotlib").use("Agg")
    assert len(curves.plot()) == 2


def test_errors_by_step_are_those_of_clusters_and_need_evidence():
    rng = np.random.default_rng(8)
    actions = rng.integers(2, size=(60, 3))
    copies = np.repeat(np.arange(60), 5)
    shape = {"states": np.zeros((300, 3), dtype=int), "propensities": np.full((300, 3), 0.5)}
    log = op.Trajectories.from_arrays(
        shape["states"], actions[copies], actions[copies] + 0.0, propensities=shape["propensities"], cluster=copies
    )
    policy = {"new": lambda s: np.tile([0.3, 0.7], (len(s), 1))}
    curves = op.evaluate(log, policy, estimators=["SNIPW"]).step_curves()
    one = op.Trajectories.from_arrays(
        shape["states"][:60], actions, actions + 0.0, propensities=shape["propensities"][:60]
    )
    alone = op.evaluate(one, policy, estimators=["SNIPW"]).step_curves()
    np.testing.assert_allclose(curves.error, alone.error, rtol=1e-9)
    far = {"far": lambda s: np.tile([0.001, 0.999], (len(s), 1))}
    thin = op.evaluate(one, far, estimators=["SNIPW"]).step_curves()
    assert np.isnan(thin.error[thin.effective < 20]).all()
    assert (thin.effective < 20).any()


def test_rankings_against_the_truth():
    rng = np.random.default_rng(4)
    a = rng.integers(3, size=900)
    log = op.BanditLog.from_arrays(None, a, -1.0 * a + rng.normal(size=900), np.full(900, 1 / 3))
    policies = {str(k): op.policies.Fixed(k) for k in range(3)}
    ev = op.evaluate(log, policies, estimators=["SNIPW"])
    truth = {"0": 0.0, "1": -1.0, "2": -2.0}
    found = ev.against(truth)
    assert found.order == ("0", "1", "2")
    assert found.rank_correlation == pytest.approx(1.0)
    assert found.regret == (0.0, 0.0, 0.0)
    upside = ev.against({"0": 0.0, "1": 1.0, "2": 2.0})
    assert upside.regret_at(1) == 2.0
    assert upside.regret_at(3) == 0.0
    with pytest.raises(UsageError, match="no value for policy '2'"):
        ev.against({"0": 0.0, "1": 1.0})
