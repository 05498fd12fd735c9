"""A behavior model that is told what the target would do: bandits, frames and trajectories."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import offpolicy as op


def hard_to_learn(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    best = (np.sin(7 * x[:, 0]) > 0).astype(int)
    a = np.where(rng.random(n) < 0.9, best, 1 - best)
    p = np.where(a == best, 0.9, 0.1)
    return x, best, a, p, rng


def log_loss(ev):
    return -np.log(ev.problem.behavior("crossfit", 0).probability).mean()


@pytest.mark.parametrize("frame", [False, True])
def test_the_target_makes_an_unlearnable_policy_learnable(frame):
    x, best, a, p, rng = hard_to_learn(3_000)
    r = a + rng.normal(size=len(a))
    if frame:
        table = pd.DataFrame({"u": x[:, 0], "v": x[:, 1], "a": a, "r": r})
        log = op.BanditLog.from_frame(table, context=["u", "v"], action="a", reward="r")
    else:
        log = op.BanditLog.from_arrays(x, a, r)
    target = np.eye(2)[best]
    plain = op.evaluate(log, target, estimators=["IPW-cf"], behavior_model=LogisticRegression())
    told = op.evaluate(log, target, estimators=["IPW-cf"], behavior_model=op.models.SeesTargets(LogisticRegression()))
    assert log_loss(told) < log_loss(plain) - 0.2
    assert log_loss(told) < -np.log(p).mean() + 0.02
    truth = best.mean()
    assert abs(told["policy", "IPW-cf"].value - truth) < 4 * told["policy", "IPW-cf"].std_error
    assert abs(plain["policy", "IPW-cf"].value - truth) > abs(told["policy", "IPW-cf"].value - truth)


def test_the_default_model_can_be_told_too():
    x, best, a, _, rng = hard_to_learn(1_500)
    log = op.BanditLog.from_arrays(x, a, rng.normal(size=len(a)))
    ev = op.evaluate(log, np.eye(2)[best], estimators=["IPW-cf"], behavior_model=op.models.SeesTargets("auto"))
    assert log_loss(ev) < 0.4


def test_trajectories():
    x, best, a, p, rng = hard_to_learn(1_200)
    lengths = np.full(400, 3)
    log = op.Trajectories.from_arrays(x, a, rng.normal(size=len(a)), lengths=lengths)
    ev = op.evaluate(
        log, np.eye(2)[best], estimators=["IPW-cf"], behavior_model=op.models.SeesTargets(LogisticRegression())
    )
    assert log_loss(ev) < -np.log(p).mean() + 0.05
