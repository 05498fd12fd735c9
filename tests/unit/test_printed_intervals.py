"""What is printed as an interval covers, or is refused with a reason: lifts, tails, biased estimators, p-values."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import offpolicy as op
from offpolicy.errors import DataError
from offpolicy.inference.estimate import Estimate
from offpolicy.show.text import cells, table

RNG = np.random.default_rng(0)


def two_arms(n, rare, reward, **how):
    """Arm 1 in a share ``rare`` of the rows; ``reward`` of (arms, generator)."""
    rng = np.random.default_rng(how.pop("seed", 0))
    a = (rng.random(n) < rare).astype(int)
    r = reward(a, rng)
    log = op.BanditLog.from_arrays(None, a, r, np.where(a == 1, rare, 1 - rare), actions=[0, 1])
    return op.evaluate(log, op.policies.Fixed(1), **how)


# -- lifts ------------------------------------------------------------------------------------------


def test_a_lift_of_rare_clicks_does_not_exclude_0():
    excluded = 0
    for seed in range(20):
        ev = two_arms(
            10_000, 0.5, lambda a, rng: (rng.random(len(a)) < 0.0012).astype(float),
            estimators=["IPW", "SNIPW"], seed=seed,
        )  # fmt: skip
        for name in ("IPW", "SNIPW"):
            interval = ev[name].lift(ev.logged).interval()
            excluded += interval.sufficient and not interval.covers(0.0)
            assert interval.high > -1
    assert excluded <= 2


def test_no_click_of_the_target_is_not_a_loss_of_everything():
    ev = two_arms(
        10_000, 0.05, lambda a, rng: (rng.random(len(a)) < 0.002).astype(float) * (a == 0),
        estimators=["IPW", "SNIPW"],
    )  # fmt: skip
    for name in ("IPW", "SNIPW"):
        lift = ev[name].lift(ev.logged)
        assert lift.value == pytest.approx(-1.0)
        low, high = lift.interval()
        assert low == pytest.approx(-1.0)
        assert high > 0, "twenty clicks in the other arm do not show that there are none here"


def test_a_lift_over_a_negative_base_has_the_sign_of_the_change():
    base = Estimate.from_scores(-2.0 + 0.1 * RNG.normal(size=500))
    worse = Estimate.from_scores(-3.0 + 0.1 * RNG.normal(size=500), units=base.units)
    lift = worse.lift(base)
    assert lift.value == pytest.approx(-0.5, abs=0.02)
    assert lift.interval().high < 0
    assert lift.interval(method="delta").high < 0
    assert lift.interval(method="fieller").high < 0


# -- what the whole log shows -----------------------------------------------------------------------


def test_an_arm_without_the_rare_loss_does_not_claim_that_there_is_none():
    def reward(a, rng):
        r = np.where(rng.random(len(a)) < 0.004, -200.0, 1.0)
        return np.where(a == 1, 1.0, r)

    for noise in (0.0, 0.1):
        ev = two_arms(
            4000, 0.1, lambda a, rng, s=noise: reward(a, rng) + s * rng.normal(size=len(a)),
            estimators=["auto", "DML", "SNIPW"], reward_model=LinearRegression(),
        )  # fmt: skip
        for name in ("auto", "DML", "SNIPW"):
            interval = ev[name].interval()
            assert ev[name].value > 0.9
            assert not interval.sufficient or interval.low < 0.2, (name, noise, interval)


def test_rewards_of_any_two_values_are_binary():
    clicks = two_arms(3000, 0.02, lambda a, rng: (rng.random(len(a)) < 0.05).astype(float), estimators=["SNIPW"])
    coins = two_arms(3000, 0.02, lambda a, rng: 20.0 * (rng.random(len(a)) < 0.05) - 3.0, estimators=["SNIPW"])
    one, other = clicks["SNIPW"].interval(), coins["SNIPW"].interval()
    assert one.method == other.method == "clopper-pearson"
    assert tuple(other) == pytest.approx([20 * x - 3 for x in one])


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("name", ["auto", "DML", "IPW", "SNIPW"])
def test_equal_rewards_are_refused_whatever_they_are(reward, name):
    ev = two_arms(400, 0.4, lambda a, rng: np.full(len(a), reward), estimators=[name])
    assert not ev[name].interval().sufficient
    assert not ev.logged.interval().sufficient
    assert ev.verdict().level == "insufficient evidence"
    known = ev[name].interval(reward_range=(0.0, 2.0), method="hoeffding", weight_high=2.5)
    assert known.sufficient


def test_a_range_that_the_rewards_contradict_raises():
    ev = two_arms(400, 0.4, lambda a, rng: (rng.random(len(a)) < 0.5) * 1.0, estimators=["IPW"])
    with pytest.raises(DataError, match="reward_range"):
        ev["IPW"].interval(method="bernstein", reward_range=(0, 0.5), weight_high=3.0)


# -- estimators with a bias -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["DM", "SWITCH", "DRos"])
def test_a_biased_estimator_takes_a_robust_interval_or_none(name):
    how = {"reward_model": LinearRegression()}

    def reward(a, rng):
        return a + rng.normal(size=len(a))

    both = two_arms(600, 0.3, reward, estimators=[name, "DML"], **how)
    e, robust = both[name], both["DML"].interval()
    interval = e.interval()
    assert interval.method == "bias-aware"
    assert interval.low == pytest.approx(min(robust.low, e.value))
    assert interval.high == pytest.approx(max(robust.high, e.value))
    gap = (e - both.logged).interval()
    assert gap.method == "bias-aware"
    assert gap.covers((both["DML"] - both.logged).interval().low)
    alone = two_arms(600, 0.3, reward, estimators=[name], **how)
    refused = alone[name].interval()
    assert not refused.sufficient
    assert "compute DML" in refused.reason
    assert math.isnan(alone[name].p_value())
    assert "refused" in repr(alone[name])
    assert [row[4] for row in cells(alone)][1] == "refused"
    assert f"({name}): no interval: its standard error" in table(alone)
    (row,) = alone.rows()
    assert row["refused"] == refused.reason
    assert math.isnan(row["low"])
    assert '"refused": "its standard error' in alone.to_json()


def test_episodes_magic_refers_to_a_robust_estimate():
    n = 300
    states, actions = RNG.integers(3, size=(n, 2)), RNG.integers(2, size=(n, 2))
    log = op.Trajectories.from_arrays(
        states, actions, actions + RNG.normal(size=(n, 2)), propensities=np.full((n, 2), 0.5)
    )
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["MAGIC", "WDR"])
    assert ev["MAGIC"].interval().method == "bias-aware"
    assert ev["WDR"].interval().method != "bias-aware"


def test_optimized_controls_need_known_propensities():
    known = two_arms(600, 0.3, lambda a, rng: a + rng.normal(size=len(a)), estimators=["MinVar"])
    assert known["MinVar"].interval().sufficient
    assert not known.with_behavior("shares")["MinVar"].interval().sufficient


# -- p-values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "normal", "t", "bca", "empirical-likelihood"])
@pytest.mark.parametrize("null", [0.0, 0.05, 0.1, 0.15, 0.3])
def test_p_values_invert_intervals(method, null):
    scores = np.random.default_rng(4).gamma(0.3, 0.4, size=90)
    e = Estimate.from_scores(scores)
    p = e.p_value(null, method=method)
    assert (p < 0.05) == (not e.interval(0.95, method).covers(null))
    if 1e-6 < p < 0.9:
        assert not e.interval(1 - 1.02 * p, method).covers(null)
        assert e.interval(1 - 0.98 * p, method).covers(null)
    assert e.p_value(null, "greater", method=method) + e.p_value(null, "less", method=method) == pytest.approx(1.0)


def test_the_p_value_of_a_rare_arm_is_that_of_its_interval():
    rejected = 0
    for seed in range(12):
        ev = two_arms(
            2000, 0.02, lambda a, rng: (rng.random(len(a)) < 0.02).astype(float),
            estimators=["IPW"], seed=seed,
        )  # fmt: skip
        gap = ev["IPW"] - ev.logged
        p = gap.p_value()
        interval = gap.interval()
        rejected += p < 0.05
        assert math.isnan(p) if not interval.sufficient else (p < 0.05) == (not interval.covers(0))
    assert rejected <= 2


def test_a_wild_model_that_is_hardly_used_does_not_cost_the_interval():
    """`auto` takes from the rewards what it uses of a model: what that leaves decides, not what all of it would."""
    answered = {"auto": 0, "DML": 0}
    for seed in range(5):
        rng = np.random.default_rng([21, seed])
        x, a = rng.normal(size=(3000, 2)), rng.integers(2, size=3000)
        r = x[:, 0] + 0.2 * a + rng.normal(size=3000)
        log = op.BanditLog.from_arrays(np.sinh(2.5 * x), a, r, np.full(3000, 0.5))
        model = make_pipeline(PolynomialFeatures(2), LinearRegression())
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=[*answered], reward_model=model)
        for name in answered:
            answered[name] += ev[name].interval().sufficient
    assert answered["DML"] <= 2, "the model is a wild one"
    assert answered["auto"] == 5
