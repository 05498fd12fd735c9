# /// script
# requires-python = ">=3.11"
# dependencies = ["skdr-eval==0.12.0", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "pandas==3.1.1"]
# [tool.offpolicy-bench]
# name = "skdr-eval"
# kinds = ["bandit"]
# recipe = "evaluate_sklearn_models as in its README, with ci_bootstrap=True and the DR estimator; the target enters as a fitted model whose induced policy it is (fit_models=False); support_health high_risk is a refusal, as the README says. Logged propensities cannot be given"
# ///
"""skdr-eval: doubly robust with its own time-ordered models of propensities and rewards."""

import numpy as np
import pandas as pd
import skdr_eval


class Induced:
    """A fitted model whose induced policy, proportional to 1/prediction, is the target."""

    def __init__(self, target):
        self.target = target

    def fit(self, X, y):
        return self

    def predict(self, X):
        return 1 / np.clip(self.target.ravel(), 1e-9, None)


def answer(log):
    n, k = log.target.shape
    frame = pd.DataFrame(log.context, columns=[f"cli_{j}" for j in range(log.context.shape[1])])
    frame["arrival_ts"] = np.arange(n, dtype=float)
    frame["action"] = [f"op_{a}" for a in log.action]
    frame["reward"] = log.reward
    for a in range(k):
        frame[f"op_{a}_elig"] = 1
    artifact = skdr_eval.evaluate_sklearn_models(
        frame,
        {"target": Induced(log.target)},
        fit_models=False,
        policy_train="all",
        y_col="reward",
        ci_bootstrap=True,
        alpha=1 - log.level,
        random_state=log.seed,
    )
    row = artifact.report[artifact.report["estimator"] == "DR"].iloc[0]
    risky = row["support_health"] == "high_risk"
    refused = f"support_health is high_risk: {row['diagnostic_warnings']}"[:300] if risky else None
    return {
        "estimate": row["V_hat"],
        "low": row["ci_lower"],
        "high": row["ci_upper"],
        "refused": refused,
        "method": f"DR, clip {row['clip']}",
    }
