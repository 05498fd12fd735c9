"""More information never makes an interval wider: the whole logging policy against the logged propensity alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import offpolicy as op


def both_ways(x, action, reward, pi, policies, estimators=("auto", "SNIPW")):
    """The same log with π_b of all actions, and with that of the logged one."""
    alone = pi[np.arange(len(x)), action]
    return [
        op.evaluate(
            op.BanditLog.from_arrays(x, action, reward, p, actions=range(pi.shape[1])),
            policies,
            estimators=list(estimators),
            reward_model=Ridge(),
        )
        for p in (pi, alone)
    ]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.sampled_from([500, 2000, 4000]),
    k=st.integers(2, 6),
    steep=st.sampled_from([0.3, 0.8, 1.2]),
    rate=st.sampled_from([0.1, 0.4, 0.8]),
)
def test_the_whole_logging_policy_never_widens_an_interval(seed, n, k, steep, rate):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    z = steep * x @ rng.normal(size=(2, k))
    pi = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    action = (pi.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    reward = (rng.random(n) < rate * (1 - 0.3 * (action == 0))).astype(float)
    policies = {"a": (x[:, 0] > 0).astype(int), "b": np.ones(n, dtype=int)}
    whole, alone = both_ways(x, action, reward, pi, policies)
    for estimator in ("auto", "SNIPW"):
        pairs = [
            [ev["a", estimator] for ev in (whole, alone)],
            [ev["a", estimator] - ev.logged for ev in (whole, alone)],
            [ev["a", estimator] - ev["b", estimator] for ev in (whole, alone)],
        ]
        for more, less in pairs:
            known, unknown = more.interval(), less.interval()
            if unknown.sufficient:
                assert known.sufficient
                assert known.width <= unknown.width * (1 + 1e-6), (known, unknown)


@pytest.mark.parametrize("tiny", [0.5, 0.01, 0.001, 1e-6])
def test_one_row_with_a_small_propensity_of_an_action_that_was_not_taken_changes_nothing(tiny):
    rng = np.random.default_rng(0)
    n = 3_000
    x, pi, action = rng.normal(size=n), np.full((n, 2), 0.5), rng.integers(2, size=n)
    reward = (rng.random(n) < 0.4 + 0.2 * (action == (x > 0))).astype(float)
    row = int(np.argmin(x))
    action[row], pi[row] = 1, [tiny, 1 - tiny]
    policies = {"a": (x > 0).astype(int), "b": np.ones(n, dtype=int)}
    whole, alone = both_ways(x, action, reward, pi, policies, ["auto"])
    found = [(ev["a", "auto"] - ev["b", "auto"]).interval() for ev in (whole, alone)]
    assert found[0].method == found[1].method == "normal"
    assert tuple(found[0]) == pytest.approx(tuple(found[1]), abs=1e-12)
    assert found[0].low > 0.07
