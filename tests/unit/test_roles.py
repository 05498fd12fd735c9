"""One column in two roles: refused at every door where it cannot be both, with both roles and the column."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.roles import ROLES, can_share

RNG = np.random.default_rng(42)
N = 300
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}
AD = RNG.choice(list(SHARES), N, p=list(SHARES.values()))
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "ad": AD,
        "click": (RNG.random(N) < 0.4).astype(int),
        "p": [SHARES[a] for a in AD],
        "user": np.arange(N) // 2,
    }
)
GIVEN = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}
SHARED = [
    ({"reward": "p"}, "reward", "propensity", "p"),
    ({"weight": "click"}, "reward", "weight", "click"),
    ({"weight": "p"}, "propensity", "weight", "p"),
    ({"keep_probability": "p"}, "propensity", "keep_probability", "p"),
    ({"action": "click"}, "action", "reward", "click"),
    ({"fold": "click"}, "reward", "fold", "click"),
    ({"reward": ["click", "p"]}, "reward", "propensity", "p"),
]


def says(one, other, column):
    return f"{one}= and {other}= both name the column '{column}'"


@pytest.mark.parametrize(("changed", "one", "other", "column"), SHARED)
@pytest.mark.parametrize("build", [op.BanditLog.from_frame, op.scan], ids=["frame", "scan"])
def test_a_log_of_single_decisions(build, changed, one, other, column):
    with pytest.raises(UsageError, match=says(one, other, column)):
        build(FRAME, **{**GIVEN, **changed})


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "log.csv"
    FRAME.to_csv(path, index=False)
    roles = ["--context", "x", "--action", "ad", "--reward", "click", "--propensity", "p"]
    assert main(["evaluate", str(path), *roles, "--weight", "p", "--policy", "b=always:b"]) == 1
    assert "both name the column 'p'" in capsys.readouterr().err


def episodes():
    steps = FRAME.assign(id=np.arange(N) // 3, t=np.arange(N) % 3)
    return steps, {"episode": "id", "step": "t", "state": ["x"], "action": "ad", "reward": "click"}


def test_episodes():
    steps, roles = episodes()
    for changed, one, other, column in (
        ({"step": "id"}, "episode", "step", "id"),
        ({"weight": "click"}, "reward", "weight", "click"),
        ({"propensity": "p", "reward": "p"}, "reward", "propensity", "p"),
        ({"terminated": "click"}, "reward", "terminated", "click"),
    ):
        with pytest.raises(UsageError, match=says(one, other, column)):
            op.Trajectories.from_frame(steps, **{**roles, **changed})
    shared = op.Trajectories.from_frame(steps, **roles, cluster="id", fold=None)
    assert shared.has_clusters


def test_slates():
    slots = FRAME.assign(request=np.arange(N) // 3, pos=np.arange(N) % 3)
    roles = {"slate": "request", "position": "pos", "context": ["x"], "action": "ad", "reward": "click"}
    for build in (op.Slates.from_frame, op.Slates.scan):
        with pytest.raises(UsageError, match=says("slate", "action", "request")):
            build(slots, **{**roles, "action": "request"})
        with pytest.raises(UsageError, match=says("reward", "weight", "click")):
            build(slots, **roles, weight="click")


def test_keys_may_share_a_column():
    log = op.BanditLog.from_frame(FRAME, **GIVEN, cluster="user", batch="user")
    assert (log.has_clusters, log.has_batches) == (True, True)
    assert can_share("cluster", "fold")
    assert not any(can_share("reward", r.name) for r in ROLES if r.sort != "seen")


def test_a_probability_column_listed_twice():
    wide = FRAME.assign(p_a=0.5, p_c=0.5)
    with pytest.raises(UsageError, match="propensity= lists a column twice"):
        op.BanditLog.from_frame(wide, **{**GIVEN, "propensity": ["p_a", "p_a", "p_c"]})


def test_episodes_say_which_actions_could_be_taken():
    steps, roles = episodes()
    able = steps.assign(able=[["a", "b", "c"] if i % 2 else [AD[i]] for i in range(N)])
    log = op.Trajectories.from_frame(able, **roles, eligible="able")
    wide = op.Trajectories.from_arrays(
        steps["x"].to_numpy().reshape(-1, 3),
        AD.reshape(-1, 3),
        FRAME["click"].to_numpy().reshape(-1, 3),
        eligible=log.eligible.reshape(-1, 3, 3),
    )
    assert np.array_equal(wide.eligible, log.eligible)
    assert log.eligible.sum(axis=1).tolist() == [3 if i % 2 else 1 for i in range(N)]
    uniform = op.evaluate(log, op.policies.Uniform(), behavior_model="shares", estimators=["IPW"])
    assert np.isfinite(uniform["policy", "IPW"].value)
    with pytest.raises(DataError, match="eligible"):
        op.Trajectories.from_frame(able.assign(able=[["a"]] * N), **roles, eligible="able")


def test_padding_is_not_an_action():
    states, actions = np.zeros((2, 3)), np.array([[0, 1, -1], [1, 0, 1]])
    with pytest.raises(DataError, match=r"looks like padding.*lengths="):
        op.Trajectories.from_arrays(states, actions, np.ones((2, 3)))
    log = op.Trajectories.from_arrays(states, actions, np.ones((2, 3)), lengths=[2, 3])
    assert log.actions == (0, 1)
    named = op.Trajectories.from_arrays(states, actions, np.ones((2, 3)), labels=[-1, 0, 1])
    assert named.actions == (-1, 0, 1)
