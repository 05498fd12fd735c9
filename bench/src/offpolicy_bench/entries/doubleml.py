# /// script
# requires-python = ">=3.11"
# dependencies = ["doubleml==0.11.4", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "pandas==3.1.1"]
# [tool.offpolicy-bench]
# name = "doubleml"
# kinds = ["bandit", "difference"]
# recipe = "DoubleMLAPO for every action with weights=π_e(a|x) (weighted average potential outcomes), five folds, scores added up; logged propensities enter as external predictions of ml_m; cluster data where users are logged; a difference is that of the scores of both policies, on the same folds"
# ///
"""DoubleML: average potential outcomes, weighted by the target, summed over actions.

A weighted APO is E[ω Y(a)]/E[ω] with ω = π_e(a|x); the value is the sum over actions of mean(ω) times it. Its interval is
that of the summed scores ψ_b of the fitted objects, so that the covariance of actions is kept.
"""

import doubleml as dml
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

NORMAL = 1.959963984540054


def learners(log):
    """Linear where π_b is known and the score is unbiased whatever the model; boosted trees where all rests on the models."""
    if log.propensity is not None:
        return RidgeCV(np.logspace(-3, 3, 7)), LogisticRegressionCV(Cs=5, max_iter=1_000)
    small = {"max_iter": 100, "max_depth": 3, "learning_rate": 0.1}
    return HistGradientBoostingRegressor(**small), HistGradientBoostingClassifier(**small)


def policy_scores(log, target):
    """(n,) the summed scores of the weighted potential outcomes."""
    data = dml.DoubleMLData.from_arrays(log.context, log.reward, log.action, cluster_vars=getattr(log, "cluster", None))
    ml_g, ml_m = learners(log)
    np.random.seed(log.seed)
    scores = np.zeros(len(target))
    for a in range(target.shape[1]):
        if not target[:, a].any():
            continue
        known = None
        if log.propensity is not None:  # the score uses m(x) of the rows that took the action, and of no others
            known = {"d": {"ml_m": np.where(log.action == a, log.propensity, 0.5)[:, None]}}
        model = dml.DoubleMLAPO(data, ml_g, ml_m, treatment_level=a, weights=np.ascontiguousarray(target[:, a]))
        model.fit(external_predictions=known)
        scores += model.psi_elements["psi_b"][:, 0, 0]
    return scores


def answer(log):
    scores = policy_scores(log, log.target)
    if log.kind == "difference":
        scores = scores - policy_scores(log, log.baseline)
    value, centered = scores.mean(), scores - scores.mean()
    cluster = getattr(log, "cluster", None)
    by_unit = centered if cluster is None else np.bincount(cluster, centered)
    error = np.sqrt((by_unit**2).sum()) / len(scores)
    return {"estimate": value, "low": value - NORMAL * error, "high": value + NORMAL * error, "method": "weighted APOs"}
