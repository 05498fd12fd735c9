# /// script
# requires-python = ">=3.11"
# dependencies = ["vw-estimators==0.2.2", "scipy==1.17.1", "numpy==2.4.6"]
# [tool.offpolicy-bench]
# name = "vw-estimators"
# kinds = ["bandit", "slate"]
# recipe = "estimators/basic-usage.py: cressieread.Estimator and cressieread.Interval, fed row by row; slates: pseudo_inverse and its Gaussian interval. The smallest and largest possible weight and reward are taken from the log, as the class recommends"
# ///
"""Vowpal Wabbit's estimators: no reward model, needs logged propensities."""

from estimators.bandits import cressieread
from estimators.slates import gaussian, pseudo_inverse


def slate(log):
    value, interval = pseudo_inverse.Estimator(), gaussian.Interval()
    for row in range(len(log.action)):
        p_log = log.propensity[row].tolist()
        p_new = log.target[row, range(len(p_log)), log.action[row]].tolist()
        clicks = float(log.reward[row].sum())
        value.add_example(p_log, clicks, p_new)
        interval.add_example(p_log, clicks, p_new)
    low, high = interval.get(1 - log.level)
    return {"estimate": value.get(), "low": low, "high": high, "method": "pseudo-inverse, Gaussian interval"}


def answer(log):
    if log.kind == "slate":
        return slate(log)
    if log.propensity is None:
        return {"refused": "needs logged propensities"}
    if log.logging is None:
        weights = log.target[range(len(log.action)), log.action] / log.propensity
    else:
        weights = log.target / log.logging
    bounds = {"wmin": min(0.0, float(weights.min())), "wmax": max(1.01, float(weights.max()))}
    rewards = {"rmin": float(log.reward.min()), "rmax": float(log.reward.max())}
    value, interval = cressieread.Estimator(**bounds), cressieread.Interval(**bounds, **rewards)
    for p_log, reward, p_new in zip(
        log.propensity.tolist(),
        log.reward.tolist(),
        log.target[range(len(log.action)), log.action].tolist(),
        strict=True,
    ):
        value.add_example(p_log, reward, p_new)
        interval.add_example(p_log, reward, p_new)
    low, high = interval.get(1 - log.level)
    return {"estimate": value.get(), "low": low, "high": high, "method": "Cressie–Read"}
