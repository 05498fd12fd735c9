"""Behavior models: shares by batch, classifiers whose folds lack classes, and floors said aloud."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from offpolicy import BanditLog, Trajectories, evaluate, policies
from offpolicy.errors import ModelError, UsageError
from offpolicy.models import Shares
from offpolicy.models.behavior.auto_behavior import AutoBehavior, LogisticBehavior
from offpolicy.models.behavior.behavior import BehaviorData, ClassifierBehavior, floor_at
from offpolicy.models.behavior.resolve import as_behavior_model
from offpolicy.models.fitting.encode import encode_table


def test_shares_are_counts_over_counts():
    action = np.array([0, 0, 1, 2, 2, 2])
    fit = Shares().fit_behavior(BehaviorData(None, action, None, 4, None), 0)
    np.testing.assert_allclose(fit.predict(np.empty((1, 0)), None), [[2 / 6, 1 / 6, 3 / 6, 0]])
    smooth = Shares(smoothing=1).fit_behavior(BehaviorData(None, action, None, 4, None), 0)
    np.testing.assert_allclose(smooth.predict(np.empty((1, 0)), None), [[3 / 10, 2 / 10, 4 / 10, 1 / 10]])


def test_shares_by_batch_and_of_a_batch_never_seen():
    action, batch = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 2, 2, 2])
    fit = Shares().fit_behavior(BehaviorData(None, action, None, 2, batch), 0)
    got = fit.predict(np.empty((4, 0)), np.array([0, 1, 2, 9]))
    np.testing.assert_allclose(got, [[2 / 3, 1 / 3], [0.5, 0.5], [1 / 3, 2 / 3], [0.5, 0.5]])


def test_shares_by_weight():
    weight = np.array([1.0, 3.0])
    fit = Shares().fit_behavior(BehaviorData(None, np.array([0, 1]), weight, 2, None), 0)
    np.testing.assert_allclose(fit.predict(np.empty((1, 0)), None), [[0.25, 0.75]])


def test_the_floor_of_an_action_new_to_a_batch_is_the_batchs_own():
    action = np.r_[np.zeros(8, int), np.arange(90) % 2]
    batch = np.r_[np.zeros(8, int), np.ones(90, int)]
    fit = Shares().fit_behavior(BehaviorData(None, action, None, 2, batch), 0)
    np.testing.assert_allclose(floor_at(fit, np.array([0, 1, 5])), [1 / (8 + 2), 1 / (90 + 2), 1 / (98 + 2)])


def test_classes_absent_from_a_fold_get_the_floor_and_it_is_said():
    n = 40
    action = np.zeros(n, int)
    action[1::2] = 1
    action[0] = 2  # a single row of action 2: its own fold is not trained on it
    log = BanditLog.from_arrays(np.zeros(n), action, np.ones(n))
    folds = np.arange(n) % 4 // 2
    for model in (LogisticRegression(), DecisionTreeClassifier(max_depth=1), "shares", None):
        ev = evaluate(log, policies.Fixed(2), estimators=["IPW-cf"], behavior_model=model, folds=folds)
        p = ev.problem.behavior("crossfit", 0)
        assert p.probability[0] == pytest.approx(1 / (20 + 3))
        assert np.count_nonzero(p.raised) == 1
        assert "1 logged actions" in ev["IPW-cf"].notes[0]
        assert ev["IPW-cf"].value == pytest.approx(23 / n)


def test_a_fold_with_one_class_needs_no_classifier():
    fit = ClassifierBehavior(LogisticRegression()).fit_behavior(
        BehaviorData(np.zeros((3, 1)), np.array([1, 1, 1]), None, 2, None), 0
    )
    assert fit.predict(np.zeros((2, 1)), None).tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_known_propensities_are_used_exactly_unless_asked():
    p = np.array([1e-7, 1.0, 0.3, 0.999])
    log = BanditLog.from_arrays(None, [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], p)
    ev = evaluate(log, policies.Fixed(0), estimators=["IPW", "IPW-cf"])
    np.testing.assert_array_equal(ev.problem.behavior("full", 0).probability, p)
    assert ev["IPW"].value == pytest.approx((1 / 1e-7 + 3 / 0.3) / 4, rel=1e-12)
    assert ev["IPW"].notes == ()
    asked = evaluate(log, policies.Fixed(0), estimators=["IPW"], behavior_model="shares")
    assert asked["IPW"].value == pytest.approx((1.0 + 3.0) / 2)


def test_shares_by_batch_through_evaluate():
    rng = np.random.default_rng(0)
    batch = rng.integers(0, 3, size=90)
    action = (rng.random(90) < np.array([0.2, 0.5, 0.8])[batch]).astype(int)
    log = BanditLog.from_arrays(None, action, np.ones(90), batch=batch)
    ev = evaluate(log, policies.Fixed(1), estimators=["IPW"], behavior_model="shares")
    share = np.array([action[batch == b].mean() for b in range(3)])
    expected = np.where(action == 1, share[batch], 1 - share[batch])
    np.testing.assert_allclose(ev.problem.behavior("full", 0).probability, expected)
    one = evaluate(log, policies.Fixed(1), estimators=["IPW"], behavior_model=Shares(per_batch=False))
    np.testing.assert_allclose(one.problem.behavior("full", 0).probability[action == 1], action.mean())


def test_given_arrays_are_used_and_checked():
    log = BanditLog.from_arrays(None, [0, 1, 0], [1.0, 2.0, 3.0])
    array = np.array([[0.5, 0.5], [0.2, 0.8], [0.25, 0.75]])
    ev = evaluate(log, policies.Fixed(0), estimators=["IPW"], behavior_model=array)
    assert ev["IPW"].value == pytest.approx((2 + 12) / 3)
    for bad in (array[:, :1], array * 0, array * np.nan, array * 3):
        with pytest.raises(ModelError, match="behavior array"):
            evaluate(log, policies.Fixed(0), estimators=["IPW"], behavior_model=bad)


def test_what_is_no_model_is_refused():
    with pytest.raises(UsageError, match="'share'"):
        as_behavior_model("share")
    with pytest.raises(ModelError, match="predict_proba"):
        as_behavior_model(3.0)
    with pytest.raises(UsageError, match="smoothing"):
        Shares(smoothing=-1)


def test_auto_recovers_a_logistic_policy_and_plain_shares():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3_000, 2))
    for slope in (0.0, 1.5):
        p = 1 / (1 + np.exp(-slope * x[:, 0]))
        action = (rng.random(3_000) < p).astype(int)
        log = BanditLog.from_arrays(x, action, np.ones(3_000))
        ev = evaluate(log, policies.Fixed(1), estimators=["IPW-cf"])
        got = ev.problem.behavior("crossfit", 0).probability
        assert np.abs(got - np.where(action == 1, p, 1 - p)).mean() < 0.02


def test_fitted_probabilities_are_divided_among_the_eligible():
    eligible = np.array([[True, True, False], [True, True, True], [False, True, True]] * 20)
    rng = np.random.default_rng(0)
    action = np.array([rng.choice(np.flatnonzero(row)) for row in eligible])
    log = BanditLog.from_arrays(np.zeros(60), action, np.ones(60), eligible=eligible)
    ev = evaluate(log, policies.Uniform(), estimators=["IPW"], behavior_model="shares")
    share = np.bincount(action, minlength=3) / 60
    expected = share[action] / (eligible * share).sum(axis=1)
    np.testing.assert_allclose(ev.problem.behavior("full", 0).probability, expected)
    assert any("eligible" in note for note in ev["IPW"].notes)
    known = BanditLog.from_arrays(np.zeros(60), action, np.ones(60), 1 / eligible.sum(axis=1), eligible=eligible)
    exact = evaluate(known, policies.Uniform(), estimators=["IPW"])["IPW"]
    assert (exact.value, exact.notes) == (1.0, ())


def test_a_class_is_not_an_instance():
    with pytest.raises(ModelError, match="Give an instance"):
        as_behavior_model(LogisticRegression)


def test_small_probabilities_are_used_as_they_were_fitted():
    """A classifier that is sure of an action is believed; only a probability of 0 is replaced, and counted."""
    rng = np.random.default_rng(0)
    x = 3 * rng.normal(size=200)
    a = (x + 0.5 * rng.normal(size=200) > 0).astype(int)
    x[0], a[0] = 3.0, 0  # what no other row makes likely
    log = BanditLog.from_arrays(x, a, x * a)
    model = LogisticRegression(C=100.0)
    ev = evaluate(log, policies.Uniform(), estimators=["IPW-cf"], behavior_model=model)
    used = ev.problem.behavior("crossfit", 0)
    assert used.probability.min() < 1 / 102  # less than the share of an action not seen yet
    assert not used.raised.any()
    assert not any("probability 0" in note for note in ev["IPW-cf"].notes)


def test_a_logged_action_of_probability_0_is_replaced_and_noted():
    a = np.array([0, 1] * 30 + [2])
    log = BanditLog.from_arrays(None, a, a * 1.0)
    ev = evaluate(log, policies.Uniform(), estimators=["IPW-cf"], behavior_model="shares")
    assert any("1 logged actions probability 0" in note for note in ev["IPW-cf"].notes)
    assert ev.diagnostics["floored"].level != "ok"
    away = evaluate(log, policies.Fixed(1), estimators=["IPW-cf"], behavior_model="shares")
    assert away.diagnostics["floored"].level == "ok"  # the target never takes it


def test_an_agent_that_explores_is_fitted_by_its_floor():
    rng = np.random.default_rng(0)
    n, steps = 300, 20
    states = rng.normal(size=(n, steps, 2))
    logit = 1 / (1 + np.exp(-4 * states[:, :, 0]))
    right = 0.1 / 2 + 0.9 * logit  # one action in ten at random
    actions = (rng.random((n, steps)) < right).astype(int)
    log = Trajectories.from_arrays(states, actions, np.ones((n, steps)), labels=[0, 1])
    ev = evaluate(log, lambda s: np.full((len(s), 2), 0.5), estimators=["IPW"])
    assert "share of random actions" in " ".join(ev["IPW"].notes)
    made = ev.problem.columns["pi_b", "full", 0]
    truth = np.where(actions == 1, right, 1 - right).reshape(-1)
    # A logit alone gives the rarest actions a fraction of their probability.
    rare = truth < 0.06
    assert made[rare].min() > 0.6 * truth[rare].min()
    np.testing.assert_allclose(made, truth, atol=0.05)


# -- the default model ---------------------------------------------------------------------------------


def fitted_shares(x, p, seed=0):
    """π_b of action 1 by the default model, at rows that it was not fitted to."""
    rng = np.random.default_rng(seed)
    action = (rng.random(len(x)) < p) * 1
    half = len(x) // 2
    data = BehaviorData(encode_table(x[:half]), action[:half], None, 2, None)
    fit = AutoBehavior().fit_behavior(data, seed)
    again = AutoBehavior().fit_behavior(data, seed)
    rest = encode_table(x[half:])
    np.testing.assert_array_equal(fit.predict(rest, None), again.predict(rest, None))
    return fit.predict(rest, None)[:, 1], p[half:]


def lost(q, p):
    """Mean divergence of a fitted probability from the true one."""
    q = np.clip(q, 1e-6, 1 - 1e-6)
    return float(np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))))


def test_the_default_model_finds_a_ring():
    x = np.random.default_rng(1).uniform(-2, 2, (4000, 2))
    ring = np.cos(2.2 * np.hypot(*x.T))
    p = 0.1 + 0.8 / (1 + np.exp(-3 * ring))
    q, p = fitted_shares(x, p)
    assert lost(q, p) < 0.2 * lost(np.full(len(p), p.mean()), p)  # a logit finds nothing here


def test_the_default_model_finds_steps_and_products():
    x = np.random.default_rng(2).normal(size=(4000, 3))
    q, p = fitted_shares(x, np.where(x[:, 0] * x[:, 1] > 0, 0.85, 0.15))
    assert lost(q, p) < 0.2 * lost(np.full(len(p), 0.5), p)


def test_irrelevant_columns_are_shrunk():
    x = np.random.default_rng(3).normal(size=(800, 31))
    p = 1 / (1 + np.exp(-1.2 * x[:, 0]))
    q, p_rest = fitted_shares(x, p)
    half = len(x) // 2
    action = (np.random.default_rng(0).random(len(x)) < p) * 1
    data = BehaviorData(encode_table(x[:half]), action[:half], None, 2, None)
    plain = LogisticBehavior().fit_behavior(data, 0).predict(encode_table(x[half:]), None)[:, 1]
    assert lost(q, p_rest) < 0.8 * lost(plain, p_rest)


def test_a_plain_rule_keeps_a_plain_model():
    x = np.random.default_rng(4).normal(size=(4000, 2))
    q, p = fitted_shares(x, 1 / (1 + np.exp(-1.5 * x[:, 0])))
    assert lost(q, p) < 0.005
