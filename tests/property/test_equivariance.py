"""Rewards in other units: r → c r + d changes answers by the same rule, for either sign of c."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import offpolicy as op

NAMES = ["auto", "DML", "SNDR", "SNIPW"]
KINDS = ("clicks", "normal", "spend", "losses", "rating", "equal")


def rewards(kind, n, rng):
    if kind == "clicks":
        return (rng.random(n) < 0.03).astype(float)
    if kind == "normal":
        return rng.normal(size=n)
    if kind == "spend":
        return np.where(rng.random(n) < 0.1, np.round(rng.gamma(1.0, 20.0, size=n), 3), 0.0)
    if kind == "losses":
        return np.where(rng.random(n) < 0.01, -200.0, 1.0) + np.round(rng.normal(size=n), 3)
    if kind == "rating":
        return rng.integers(1, 6, size=n).astype(float)
    return np.ones(n)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 2**20),
    st.sampled_from([-20.0, -1.0, 0.25, 1.0, 8.0]),
    st.sampled_from([-3.0, 0.0, 2.0]),
)
def test_answers_are_equivariant(kind, seed, c, d):
    rng = np.random.default_rng(seed)
    n = 300
    x, a = rng.normal(size=n), (rng.random(n) < 0.2).astype(int)
    r, p = rewards(kind, n, rng), np.where(a == 1, 0.2, 0.8)

    def run(reward):
        log = op.BanditLog.from_arrays(x, a, reward, p, actions=[0, 1])
        policy = op.policies.Fixed(1)
        return op.evaluate(log, policy, estimators=NAMES, reward_model=LinearRegression())

    one, other = run(r), run(c * r + d)
    for name in NAMES:
        e, f = one[name], other[name]
        assert f.value == pytest.approx(c * e.value + d, rel=1e-7, abs=1e-7)
        for first, second, shift in (
            (e.interval(), f.interval(), d),
            ((e - one.logged).interval(), (f - other.logged).interval(), 0.0),
        ):
            assert second.sufficient == first.sufficient, (name, first, second)
            assert second.method == first.method, (name, first, second)
            if first.sufficient:
                ends = sorted(c * end + shift for end in first)
                assert tuple(second) == pytest.approx(ends, rel=1e-5, abs=1e-5 * abs(c))
        assert other.verdict(estimator=name).level == one.verdict(estimator=name).level
