# /// script
# requires-python = ">=3.11"
# dependencies = ["statspai==1.40.2", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "pandas==3.1.1"]
# [tool.offpolicy-bench]
# name = "statspai"
# kinds = ["bandit"]
# recipe = "sp.ope.doubly_robust with pi_b, pi_e and a reward model fitted on the same rows, as its signature asks for: a ridge regression for each action"
# ///
"""StatsPAI: doubly robust with a fitted reward model; needs the logging policy."""

import numpy as np
from sklearn.linear_model import RidgeCV
from statspai import ope


def reward_model(log):
    """Q(x, a) by a ridge regression of the rows of each action; the mean reward where an action has none."""
    models = {}
    for a in range(log.target.shape[1]):
        mine = log.action == a
        if mine.sum() > 1:
            models[a] = RidgeCV(np.logspace(-3, 3, 7)).fit(log.context[mine], log.reward[mine])

    def predict(x, a):
        if np.ndim(a):
            table = np.column_stack([predict(x, each) for each in range(log.target.shape[1])])
            return table[np.arange(len(x)), a]
        return models[a].predict(x) if a in models else np.full(len(x), log.reward.mean())

    return predict


def answer(log):
    if log.propensity is None:
        return {"refused": "needs the logging policy"}
    pi_b = log.logging
    if pi_b is None:  # only the entry of the logged action is read
        pi_b = np.zeros_like(log.target)
        pi_b[np.arange(len(log.action)), log.action] = log.propensity
    found = ope.doubly_robust(log.context, log.action, log.reward, pi_b, log.target, reward_model(log))
    return {"estimate": found.value, "low": found.ci[0], "high": found.ci[1], "method": "DR"}
