"""Clean logs of steep logging policies, and of actions that are impossible in some states, contradict nothing."""

from __future__ import annotations

import numpy as np
import pytest

import offpolicy as op
from offpolicy.trust import check_log

LOGITS = np.array([[0.8, 0.0], [-0.8, 0.5], [0.0, -0.8], [0.2, 0.3]])
NAMES = ("balance", "sample_ratio_mismatch", "propensity_calibration")


def steep(seed, n=4000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    z = 2 * x @ LOGITS.T + [0.5, 0.0, -0.3, -0.2]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return x, a, rng.random(n), p[np.arange(n), a], p


def test_steep_propensities_are_not_accused():
    raised = []
    for seed in range(20):
        x, a, r, p, _ = steep(seed)
        found = check_log(op.BanditLog.from_arrays(x, a, r, p))
        raised += [name for name in NAMES if found[name].level != "ok"]
    assert len(raised) <= 1, raised


@pytest.mark.parametrize("seed", range(4))
def test_permuted_ones_are(seed):
    x, a, r, p, _ = steep(seed)
    log = op.BanditLog.from_arrays(x, a, r, np.random.default_rng(seed).permutation(p))
    assert check_log(log)["balance"].level == "alarm"


@pytest.mark.parametrize("whole", [False, True])
def test_actions_that_are_impossible_in_a_state_are_not_missing(whole):
    # Two of eight actions are possible in each state, one of them nine times of ten.
    rng = np.random.default_rng(0)
    state = rng.integers(0, 12, 6000)
    first = 2 * (state % 4)
    a = first + (rng.random(6000) < 0.1)
    matrix = np.zeros((6000, 8))
    matrix[np.arange(6000), first], matrix[np.arange(6000), first + 1] = 0.9, 0.1
    given = matrix if whole else matrix[np.arange(6000), a]
    found = check_log(op.BanditLog.from_arrays(state, a, rng.random(6000), given, actions=range(8)))
    assert [name for name in NAMES if found[name].level != "ok"] == []
