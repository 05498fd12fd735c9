# /// script
# requires-python = ">=3.11"
# dependencies = []
# [tool.offpolicy-bench]
# name = "offpolicy"
# kinds = ["bandit", "slate", "continuous", "episodes"]
# recipe = "op.evaluate(log, policy) with its defaults; the verdict \"insufficient evidence\" is a refusal; ratio=\"auto\" where actions have features, as its page on many actions has it"
# ///
"""offpolicy in the environment that runs the bench: the headline estimate ``auto``, its interval, the verdict."""

import numpy as np
import pandas as pd

import offpolicy as op


def bandit(log):
    roles = {"batch": log.batch, "cluster": log.cluster, "actions": range(log.target.shape[1])}
    pi_b = log.logging if log.logging is not None else log.propensity
    if log.features is not None:
        roles["action_features"] = pd.DataFrame(log.features, columns=["genre", "price"]).assign(
            action=roles["actions"]
        )
    built = op.BanditLog.from_arrays(log.context, log.action, log.reward, pi_b, **roles)
    return op.evaluate(built, {"target": log.target}, ratio="exact" if log.features is None else "auto")


def slate(log):
    n, slots = log.action.shape
    columns = {f"x{j}": np.repeat(log.context[:, j], slots) for j in range(log.context.shape[1])}
    frame = pd.DataFrame({"slate": np.repeat(np.arange(n), slots), "position": np.tile(np.arange(slots), n), **columns})
    frame = frame.assign(item=log.action.ravel(), click=log.reward.ravel(), p=log.propensity.ravel())
    built = op.Slates.from_frame(
        frame,
        slate="slate",
        position="position",
        context=list(columns),
        action="item",
        reward="click",
        propensity="p",
        interaction="cascade",
        actions=range(log.target.shape[2]),
        distinct=False,
    )
    return op.evaluate(built, {"target": log.target.reshape(n * slots, -1)})


def continuous(log):
    built = op.BanditLog.from_arrays(log.context, log.action, log.reward, log.propensity, action_kind="continuous")
    return op.evaluate(built, {"target": log.target})


def episodes(log):
    built = op.Trajectories.from_arrays(
        log.state,
        log.action,
        log.reward,
        log.length,
        log.propensity,
        terminated=log.terminated,
        labels=range(log.target.shape[1]),
        horizon=int(log.horizon),
    )
    return op.evaluate(built, {"target": log.target}, discount=float(log.discount))


KINDS = {"bandit": bandit, "slate": slate, "continuous": continuous, "episodes": episodes}


def answer(log):
    ev = KINDS[log.kind](log)
    estimate, verdict = ev["target", "auto"], ev.verdict("target")
    refused = " ".join(verdict.reasons)[:300] if verdict.level == "insufficient evidence" else None
    out = {"estimate": estimate.value, "refused": refused, "method": "auto"}
    try:
        low, high = estimate.interval(level=log.level)
    except op.errors.OffPolicyError as error:
        return {**out, "refused": refused or str(error)[:300]}
    return {**out, "low": low, "high": high}
