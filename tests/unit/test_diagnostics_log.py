"""Checks of the log itself: each finds the fault that was put there, and stays calm without it."""

import math

import numpy as np
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.trust import check_log, sample_ratio
from offpolicy.trust.hashes import column_hashes, joined
from offpolicy.trust.weights import decimals

N = 4000


def draw(rng, n=N, k=3):
    """A context-dependent logging policy, its actions, and rewards."""
    x = rng.normal(size=n)
    logits = np.outer(x, np.linspace(-1, 1, k))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    a = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    return x, a, rng.random(n), p


# -- sample-ratio mismatch -------------------------------------------------------------------------


def test_sample_ratio_is_pearsons_test():
    counts, shares = np.array([210.0, 330.0, 460.0]), np.array([0.2, 0.3, 0.5])
    expected = stats.chisquare(counts, 1000 * shares)
    test = sample_ratio(counts, shares)
    assert (test.statistic, test.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert test.degrees == 2
    assert test.deviation == pytest.approx(0.1)


def test_sample_ratio_pools_small_cells_and_counts_the_missing_mass():
    test = sample_ratio(np.array([500.0, 498.0, 1.0, 1.0]), np.array([0.499, 0.499, 0.001, 0.001]))
    assert test.degrees == 1  # the two small cells expect 2 in all, so they join the last one
    missing = sample_ratio(np.array([500.0, 500.0]), np.array([0.4, 0.4]))
    expected = stats.chisquare([500, 500, 0], [400, 400, 200])
    assert missing.statistic == pytest.approx(expected.statistic)
    assert sample_ratio(np.array([5.0, 5.0]), np.array([0.7, 0.7])).p_value == 0


@pytest.mark.parametrize("form", ["logged", "whole"])
def test_context_dependent_propensities(form):
    calm = []
    for seed in range(40):
        x, a, r, p = draw(np.random.default_rng(seed), 1500)
        given = p if form == "whole" else p[np.arange(len(a)), a]
        found = check_log(op.BanditLog.from_arrays(x, a, r, given))
        calm.append(found["sample_ratio_mismatch"].level == "ok")
        assert found["propensity_calibration"].level == "ok"
    assert np.mean(calm) >= 0.95


@pytest.mark.parametrize("form", ["logged", "whole"])
def test_rows_lost_after_assignment_are_found(form):
    rng = np.random.default_rng(0)
    x, a, r, p = draw(rng)
    kept = (a != 1) | (rng.random(N) < 0.7)
    given = p if form == "whole" else p[np.arange(N), a]
    found = check_log(op.BanditLog.from_arrays(x[kept], a[kept], r[kept], given[kept]))
    mismatch = found["sample_ratio_mismatch"]
    # Known for the logged action alone, a deficit may also mean that the action was not always possible.
    assert mismatch.level == ("alarm" if form == "whole" else "caution")
    assert mismatch.decides == (form == "whole")
    assert "action 1" in mismatch.sentence
    assert "less often" in mismatch.sentence
    assert mismatch.remedy


def test_constant_propensities_by_batch():
    rng = np.random.default_rng(2)
    batch = np.arange(N) // 1000
    a = rng.integers(2, size=N)
    a[batch == 2] = rng.random((batch == 2).sum()) < 0.6
    found = check_log(op.BanditLog.from_arrays(None, a, a * 1.0, np.full(N, 0.5), batch=batch))
    mismatch = found["sample_ratio_mismatch"]
    p = mismatch.details["batches"]
    assert [b for b in p if p[b] < 1e-3] == [2]
    share = (a[batch == 2] == 1).sum()
    assert p[2] == pytest.approx(stats.binomtest(share, 1000).pvalue)
    assert float(mismatch) == pytest.approx(4 * p[2])
    assert "batch 2" in mismatch.sentence


def test_actions_drawn_once_for_a_user_are_counted_once():
    rng = np.random.default_rng(4)
    user = np.repeat(np.arange(200), 50)
    a = np.repeat(rng.integers(2, size=200), 50)
    r = rng.random(10_000)
    by_user = op.BanditLog.from_arrays(None, a, r, np.full(10_000, 0.5), cluster=user)
    by_row = op.BanditLog.from_arrays(None, a, r, np.full(10_000, 0.5))
    assert check_log(by_user)["sample_ratio_mismatch"].value > 0.01
    seen = (a == 1).sum()
    assert check_log(by_row)["sample_ratio_mismatch"].value == pytest.approx(stats.binomtest(seen, 10_000).pvalue)


def test_subsampled_logs_are_weighted_back():
    rng = np.random.default_rng(6)
    x, a, _, p = draw(rng, 20_000)
    r = (rng.random(20_000) < 0.1 + 0.3 * (a == 2)).astype(float)
    keep = np.where(r > 0, 1.0, 0.2)
    kept = rng.random(20_000) < keep
    parts = (x[kept], a[kept], r[kept], p[kept])
    biased = check_log(op.BanditLog.from_arrays(*parts))
    repaired = check_log(op.BanditLog.from_arrays(*parts, keep_probability=keep[kept]))
    assert biased["sample_ratio_mismatch"].level == "alarm"
    assert repaired["sample_ratio_mismatch"].level == "ok"


# -- propensities ----------------------------------------------------------------------------------


def test_propensities_of_the_wrong_action_contradict_themselves():
    x, a, r, p = draw(np.random.default_rng(7))
    wrong = p[np.arange(N), (a + 1) % 3]
    log = op.BanditLog.from_arrays(x, a, r, wrong)
    d = op.evaluate(log, op.policies.Uniform(), estimators=["IPW"]).diagnostics
    assert d["behavior_log_loss"].level == "alarm"
    assert d["propensity_calibration"].level == "alarm"
    right = op.BanditLog.from_arrays(x, a, r, p[np.arange(N), a])
    d = op.evaluate(right, op.policies.Uniform(), estimators=["IPW"]).diagnostics
    assert d["behavior_log_loss"].level == "ok"


def test_overconfident_distribution_fails_its_calibration():
    x, a, r, p = draw(np.random.default_rng(8))
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    assert check_log(op.BanditLog.from_arrays(x, a, r, sharp))["propensity_calibration"].level == "alarm"


def test_rounding():
    rng = np.random.default_rng(9)
    x, a, r, p = draw(rng, k=20)
    own = p[np.arange(N), a]
    exact = check_log(op.BanditLog.from_arrays(x, a, r, own))["rounded_propensities"]
    coarse = np.maximum(np.round(own, 2), 0.01)
    found = check_log(op.BanditLog.from_arrays(x, a, r, coarse))["rounded_propensities"]
    assert exact.value == 0
    assert found.value == pytest.approx(0.005 / coarse.min())
    assert found.level != "ok"
    design = np.full(N, 0.05)  # round by design
    assert check_log(op.BanditLog.from_arrays(x, a, r, design))["rounded_propensities"].value == 0


def test_decimals():
    assert decimals(np.array([0.1, 0.3])) == 1
    assert decimals(np.array([0.125, 0.5])) == 3
    assert decimals(np.array([math.pi / 4])) is None


def test_deterministic_logging():
    one = op.BanditLog.from_arrays(None, [0] * 30, np.arange(30.0), actions=[0, 1])
    assert check_log(one)["deterministic_logging"].level == "alarm"
    sure = op.BanditLog.from_arrays(np.arange(30.0), [0, 1] * 15, np.arange(30.0), [1.0] * 30)
    assert check_log(sure)["deterministic_logging"].level == "alarm"
    ev = op.evaluate(sure, op.policies.Fixed(1), estimators=["IPW"])
    assert ev.verdict().level == "insufficient evidence"
    free = op.BanditLog.from_arrays(None, [0, 1] * 15, np.arange(30.0), [0.5] * 30)
    assert check_log(free)["deterministic_logging"].value == 0


def test_a_sure_behavior_model_is_deterministic_logging():
    from sklearn.tree import DecisionTreeClassifier

    x = np.random.default_rng(0).normal(size=400)
    log = op.BanditLog.from_arrays(x, (x > 0).astype(int), x)
    ev = op.evaluate(
        log, op.policies.Uniform(), estimators=["IPW-cf"], behavior_model=DecisionTreeClassifier(max_depth=2)
    )
    assert ev.diagnostics["deterministic_logging"].value > 0.95
    assert ev.verdict().level == "insufficient evidence"


# -- rows and rewards ------------------------------------------------------------------------------


def test_duplicates():
    x, a, r, p = draw(np.random.default_rng(10))
    own = p[np.arange(N), a]
    clean = check_log(op.BanditLog.from_arrays(x, a, r, own))["duplicates"]
    again = np.concatenate([np.arange(N), np.arange(100)])
    dirty = check_log(op.BanditLog.from_arrays(x[again], a[again], r[again], own[again]))["duplicates"]
    assert (clean.value, clean.level) == (0, "ok")
    assert dirty.value == pytest.approx(100 / 4100)
    assert dirty.level == "alarm"
    discrete = check_log(op.BanditLog.from_arrays(np.arange(N) % 5, a, r > 0.5, own))["duplicates"]
    assert (discrete.value, discrete.level) == (0, "ok")  # coincidences are to be expected


def test_hash_tells_rows_apart():
    rng = np.random.default_rng(0)
    table = rng.integers(4, size=(3000, 6)).astype(float)
    table[0] = -0.0
    table[1] = 0.0
    key = joined([column_hashes(c) for c in table.T], len(table))
    assert key[0] == key[1]
    assert len(np.unique(key)) == len(np.unique(table, axis=0))


def test_rewards_that_have_not_all_arrived():
    rng = np.random.default_rng(11)
    batch = np.arange(N) // 400
    a = rng.integers(2, size=N)
    r = (rng.random(N) < 0.3).astype(float)
    steady = check_log(op.BanditLog.from_arrays(None, a, r, batch=batch))["reward_maturity"]
    late = r * ((batch < 9) | (rng.random(N) < 0.4))
    found = check_log(op.BanditLog.from_arrays(None, a, late, batch=batch))["reward_maturity"]
    assert steady.level == "ok"
    assert found.level == "alarm"
    assert found.value == pytest.approx(late[batch == 9].mean() / late[batch < 9].mean())


def test_rare_rewards_and_unlogged_actions():
    r = np.zeros(1000)
    r[:3] = 1
    log = op.BanditLog.from_arrays(None, [0, 1] * 500, r, [0.5] * 1000, actions=[0, 1, 2])
    found = check_log(log)
    assert float(found["rare_rewards"]) == 3
    assert found["rare_rewards"].level == "note"
    assert found["unlogged_actions"].details["actions"] == [2]
    assert "The log" in str(found)


def test_episodes():
    rng = np.random.default_rng(12)
    shape = (300, 4)
    states, actions = rng.normal(size=(*shape, 2)), rng.integers(2, size=shape)
    given = np.full(shape, 0.5)
    trajectories = op.Trajectories.from_arrays(states, actions, rng.normal(size=shape), propensities=given)
    assert check_log(trajectories)["sample_ratio_mismatch"].level == "ok"
    skewed = op.Trajectories.from_arrays(
        states, (rng.random(shape) < 0.7).astype(int), rng.normal(size=shape), propensities=given
    )
    assert check_log(skewed)["sample_ratio_mismatch"].level == "alarm"
    twice = op.Trajectories.from_arrays(
        np.concatenate([states, states[:30]]),
        np.concatenate([actions, actions[:30]]),
        np.ones((330, 4)),
        propensities=np.full((330, 4), 0.5),
    )
    assert check_log(twice)["duplicates"].value == pytest.approx(30 / 330)


def test_actions_that_a_state_rules_out_are_not_missing_from_it():
    """Each of 60 states has two of eight actions: where their propensities sum to 1, the other six do not count."""
    rng = np.random.default_rng(5)
    first = rng.integers(8, size=60)
    pi_b = 0.85 * np.eye(8)[first] + 0.15 * np.eye(8)[first ^ 2]

    def level(lost):
        states = rng.integers(60, size=(1_000, 6))
        actions = (pi_b[states].cumsum(axis=2) < rng.random((1_000, 6, 1))).sum(axis=2)
        p = np.take_along_axis(pi_b[states], actions[..., None], axis=2)[..., 0]
        kept = ~((actions == first[0]) & (rng.random(actions.shape) < lost)).any(axis=1)
        log = op.Trajectories.from_arrays(
            states[kept], actions[kept], np.zeros((int(kept.sum()), 6)), propensities=p[kept], labels=range(8)
        )
        return check_log(log)["sample_ratio_mismatch"].level

    assert [level(0.0) for _ in range(5)] == ["ok"] * 5
    assert level(0.3) != "ok"
