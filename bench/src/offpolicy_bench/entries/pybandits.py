# /// script
# requires-python = ">=3.11"
# dependencies = ["pybandits==8.4.1", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1"]
# [tool.offpolicy-bench]
# name = "pybandits"
# kinds = ["bandit"]
# recipe = "DoublyRobust().estimate_policy_value_with_confidence_interval on arrays, since OfflinePolicyEvaluator takes none but its own bandits; as there, half of the rows train the models of rewards and (where unknown) propensities, both logistic"
# ///
"""pybandits: doubly robust with a bootstrap interval; rewards of 0 and 1 only."""

import numpy as np
from pybandits.offline_policy_estimator import DoublyRobust
from sklearn.linear_model import LogisticRegression


def by_action(log, train, test):
    """(m, K) expected rewards: one logistic model of context and one-hot action, as the evaluator fits."""
    k = log.target.shape[1]
    model = LogisticRegression(max_iter=1_000)
    model.fit(np.column_stack([log.context[train], np.eye(k)[log.action[train]]]), log.reward[train].astype(int))
    at = [np.column_stack([log.context[test], np.tile(np.eye(k)[a], (len(test), 1))]) for a in range(k)]
    return np.column_stack([model.predict_proba(x)[:, 1] for x in at])


def answer(log):
    if not np.isin(log.reward, (0, 1)).all():
        return {"refused": "rewards must be 0 or 1"}
    n = len(log.action)
    order = np.random.default_rng(log.seed).permutation(n)
    train, test = order[: n // 2], order[n // 2 :]
    if log.propensity is None:
        chances = LogisticRegression(max_iter=1_000).fit(log.context[train], log.action[train])
        propensity = chances.predict_proba(log.context[test])[np.arange(len(test)), log.action[test]]
    else:
        propensity = log.propensity[test]
    value, low, high, _ = DoublyRobust(
        alpha=1 - log.level, random_state=log.seed
    ).estimate_policy_value_with_confidence_interval(
        action=log.action[test],
        reward=log.reward[test].astype(int),
        propensity_score=propensity,
        estimated_policy=log.target[test],
        expected_reward=by_action(log, train, test),
    )
    return {"estimate": value, "low": low, "high": high, "method": "DR, half of the rows"}
