# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.13.0", "scope-rl==0.2.1", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "pandas==3.1.1"]
# [tool.offpolicy-bench]
# name = "scope-rl"
# kinds = ["episodes"]
# recipe = "SelfNormalizedPDIS of its basic estimators with the bootstrap interval (1,000 samples). DR is left out: its value model is d3rlpy's FQE of a policy that is itself a d3rlpy algorithm, and CreateOPEInput asks for the environment, which a log does not have"
# ///
"""SCOPE-RL: self-normalized per-decision importance sampling; episodes shorter than the longest are padded."""

import numpy as np
from scope_rl.ope.discrete import SelfNormalizedPDIS


def padded(values, log, fill):
    """(n * T, …) entries: an episode that has ended does one certain action that earns nothing."""
    n, steps = len(log.length), int(log.horizon)
    out = np.empty((n, steps, *values.shape[1:]), dtype=values.dtype)
    out[:] = fill
    out[np.arange(steps) < log.length[:, None]] = values
    return out.reshape(n * steps, *values.shape[1:])


def answer(log):
    if log.propensity is None:
        return {"refused": "needs logged propensities"}
    inputs = {
        "step_per_trajectory": int(log.horizon),
        "action": padded(log.action, log, 0),
        "reward": padded(log.reward, log, 0.0),
        "pscore": padded(log.propensity, log, 1.0),
        "evaluation_policy_action_dist": padded(log.target, log, np.eye(log.target.shape[1])[0]),
        "gamma": float(log.discount),
    }
    estimator = SelfNormalizedPDIS()
    value = estimator.estimate_policy_value(**inputs)
    found = estimator.estimate_interval(
        **inputs, alpha=1 - log.level, ci="bootstrap", n_bootstrap_samples=1_000, random_state=log.seed
    )
    level = f"{100 * log.level}% CI"
    return {"estimate": value, "low": found[f"{level} (lower)"], "high": found[f"{level} (upper)"], "method": "SNPDIS"}
