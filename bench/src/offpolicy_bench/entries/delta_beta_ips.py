# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy==2.4.6"]
# [tool.offpolicy-bench]
# name = "delta-beta-ips"
# kinds = ["difference"]
# recipe = "Δβ-IPS of Jeunen and Ustimenko (RecSys 2024), the formulas of their paper in numpy: the optimal baseline of the paired weights, normal interval of the mean"
# ///
"""Δβ-IPS: mean of d (R − β) with d = (π_a − π_b)/π_0 of the logged action and the β of smallest variance, E[d² R] / E[d²]."""

import numpy as np

NORMAL = 1.959963984540054


def answer(log):
    rows = np.arange(len(log.action))
    d = (log.target - log.baseline)[rows, log.action] / log.propensity
    if not d.any():
        return {"refused": "no logged action tells the two policies apart"}
    beta = (d**2 * log.reward).mean() / (d**2).mean()
    score = d * (log.reward - beta)
    value, error = score.mean(), score.std(ddof=1) / np.sqrt(len(score))
    return {"estimate": value, "low": value - NORMAL * error, "high": value + NORMAL * error, "method": "Δβ-IPS"}
