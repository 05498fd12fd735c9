"""Logs without propensities, and logging rules that no line describes: the doubly robust interval still holds.

With fitted models a doubly robust estimate is off by E[(1 − π_b/π̂_b)(q − q̂)], which no standard error shows.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import offpolicy as op
from offpolicy.models.behavior.auto_behavior import AutoBehavior
from offpolicy.models.behavior.behavior import BehaviorData
from offpolicy.models.fitting.encode import Encoded
from offpolicy.models.rewards.auto import AutoReward
from offpolicy.models.rewards.corrected import CorrectedReward, remainder
from offpolicy.models.rewards.reward import RewardData

N = 2_000


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def ring(rng):
    x = rng.uniform(-2, 2, (N, 2))
    g = np.cos(2.2 * np.hypot(*x.T))
    return x, 0.1 + 0.8 * sigmoid(3 * g), 1.5 * g


def xor(rng):
    x = rng.uniform(-1, 1, (N, 3))
    g = np.sign(x[:, 0] * x[:, 1])
    return x, 0.5 + 0.35 * g, g + 0.3 * x[:, 2]


def tree(rng):
    x = rng.uniform(-1, 1, (N, 4))
    low = np.where(x[:, 2] > 0.4, 0.5, np.where(x[:, 3] > 0, -0.7, 0.2))
    g = np.where(x[:, 0] > 0.2, np.where(x[:, 1] > -0.3, 1.0, -1.0), low)
    return x, sigmoid(1.8 * g), 1.2 * g


TRUTHS = {ring: 0.4 + 1.5 * -0.4008, xor: 0.4, tree: 0.4 + 1.2 * (0.4 * 0.3 + 0.6 * (0.3 * 0.5 + 0.7 * -0.25))}


def drawn(world, seed):
    """Contexts, π_b(1), E[R | S, 1], actions and rewards."""
    rng = np.random.default_rng([20, seed])
    x, p, f = world(rng)
    a = (rng.random(N) < p).astype(int)
    return x, p, f + 0.4, a, f + 0.4 * a + rng.normal(size=N)


def missed(world, seed, model):
    """(1/n) Σ (π_b/π̂_b − 1)(q − q̂) at the second half, with models of the first, in standard errors."""
    x, p, q, a, r = drawn(world, seed)
    train, test = Encoded(x[: N // 2], ()), Encoded(x[N // 2 :], ())
    half = slice(N // 2)
    fitted = AutoBehavior().fit_behavior(BehaviorData(train, a[half], None, 2, None), seed).predict(test, None)[:, 1]
    reward = model.fit_reward(RewardData(train, a[half], r[half], None, (0, 1), "a"), seed)
    left = q[N // 2 :] - reward.predict(test, np.ones(N // 2, dtype=int))
    return float(np.mean((p[N // 2 :] / fitted - 1) * left)) / 0.045


@pytest.mark.parametrize("world", [xor, tree])
def test_least_squares_on_held_out_rows_takes_most_of_the_common_error_away(world):
    before = np.mean([missed(world, seed, AutoReward()) for seed in range(4)])
    after = np.mean([missed(world, seed, CorrectedReward()) for seed in range(4)])
    assert before > 0.8
    assert abs(after) < 0.6 * before


def test_auto_is_doubly_robust_beside_a_model_of_contexts():
    x, p, _, a, r = drawn(xor, 0)
    fitted = op.evaluate(op.BanditLog.from_arrays(x, a, r), "always:1", estimators=["auto", "SNDR"])
    assert fitted["auto"].value == fitted["SNDR"].value
    shares = fitted.ask(behavior_model="shares")
    assert shares["auto"].value != shares["SNDR"].value
    logged = op.BanditLog.from_arrays(x, a, r, np.where(a == 1, p, 1 - p))
    known = op.evaluate(logged, "always:1", estimators=["auto", "SNDR"])
    assert known["auto"].value != known["SNDR"].value


def test_the_common_error_is_estimated_and_is_zero_where_one_model_is_right():
    x, p, q, a, r = drawn(xor, 1)
    data = RewardData(Encoded(x, ()), a, r, None, (0, 1), "a")
    fold, wanted, ones = np.arange(N) % 2, np.tile([0.0, 1.0], (N, 1)), np.ones(N)
    plain = (a == 1) / (a == 1).mean()
    off, error = remainder(data, fold, wanted, plain, r - 0.4, ones, ones)
    truth = float(np.mean((1 - p / (a == 1).mean()) * (q - 0.4)))
    assert abs(off) > 8 * error
    assert off == pytest.approx(truth, rel=0.35)
    for weight, left in ((plain, r - q + 0.4 * (1 - a)), ((a == 1) / p, r - 0.4)):
        off, error = remainder(data, fold, wanted, weight, left, ones, ones)
        assert abs(off) < 3 * error


def test_rows_with_counts_are_the_rows_they_stand_for():
    x, p, _, a, r = drawn(xor, 2)
    x, r = np.round(x), np.round(r)
    each = [Encoded(np.concatenate([x, x]), ()), np.concatenate([a, a]), np.concatenate([r, r])]
    fold, wanted, ones = np.arange(N) % 2, np.tile([0.0, 1.0], (N, 1)), np.ones(N)
    w = (a == 1) / p
    twice = remainder(
        RewardData(*each, None, (0, 1), "a"), np.tile(fold, 2), np.tile(wanted, (2, 1)), np.tile(w, 2),
        np.tile(r, 2), np.ones(2 * N), np.ones(2 * N),
    )  # fmt: skip
    counted = remainder(RewardData(Encoded(x, ()), a, r, 2 * ones, (0, 1), "a"), fold, wanted, w, r, 2 * ones, 2 * ones)
    np.testing.assert_allclose(counted, twice, rtol=1e-6)


@pytest.mark.verify
@pytest.mark.parametrize("world", [ring, xor, tree])
def test_intervals_hold(world):
    holds = []
    for seed in range(60):
        x, _, _, a, r = drawn(world, 100 + seed)
        low, high = op.evaluate(op.BanditLog.from_arrays(x, a, r), "always:1", estimators=["auto"])["auto"].interval()
        holds.append(low <= TRUTHS[world] <= high)
    assert np.mean(holds) >= 0.9


def test_a_linear_reward_model_beside_a_fitted_rule_is_refused():
    x, p, _, a, r = drawn(xor, 3)
    ev = op.evaluate(
        op.BanditLog.from_arrays(x, a, r), "always:1", reward_model=Ridge(), behavior_model=LogisticRegression(),
        randomized=True,
    )  # fmt: skip
    found = ev.diagnostics["policy"]["model_remainder"]
    assert found.level == "alarm"
    assert ev.verdict().level == "insufficient evidence"
    known = op.evaluate(op.BanditLog.from_arrays(x, a, r, np.where(a == 1, p, 1 - p)), "always:1")
    assert "model_remainder" not in known.diagnostics["policy"]
