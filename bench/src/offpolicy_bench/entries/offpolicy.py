# /// script
# requires-python = ">=3.11"
# dependencies = []
# [tool.offpolicy-bench]
# name = "offpolicy"
# package = "offpolicy"
# kinds = ["bandit", "difference", "slate", "continuous", "episodes"]
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


def difference(log):
    actions = range(log.target.shape[1])
    built = op.BanditLog.from_arrays(log.context, log.action, log.reward, log.propensity, actions=actions)
    return op.evaluate(built, {"target": log.target, "baseline": log.baseline})


def slate(log):
    n, slots = log.action.shape
    frame = pd.DataFrame(np.repeat(log.context, slots, axis=0)).add_prefix("x")
    context = list(frame.columns)
    frame = frame.assign(slate=np.repeat(np.arange(n), slots), position=np.tile(np.arange(slots), n))
    frame = frame.assign(item=log.action.ravel(), click=log.reward.ravel(), p=log.propensity.ravel())
    roles = {"slate": "slate", "position": "position", "action": "item", "reward": "click", "propensity": "p"}
    facts = {"interaction": "cascade", "actions": range(log.target.shape[2]), "distinct": False}
    built = op.Slates.from_frame(frame, context=context, **roles, **facts)
    return op.evaluate(built, {"target": log.target.reshape(n * slots, -1)})


def continuous(log):
    built = op.BanditLog.from_arrays(log.context, log.action, log.reward, log.propensity, action_kind="continuous")
    return op.evaluate(built, {"target": log.target})


def episodes(log):
    steps = (log.state, log.action, log.reward, log.length, log.propensity)
    facts = {"terminated": log.terminated, "labels": range(log.target.shape[1]), "horizon": int(log.horizon)}
    built = op.Trajectories.from_arrays(*steps, **facts)
    return op.evaluate(built, {"target": log.target}, discount=float(log.discount))


KINDS = {f.__name__: f for f in (bandit, difference, slate, continuous, episodes)}


def answer(log):
    ev = KINDS[log.kind](log)
    policies = ["target", "baseline"] if log.kind == "difference" else ["target"]
    verdicts = [ev.verdict(p) for p in policies]
    refused = " ".join(r for v in verdicts if v.level == "insufficient evidence" for r in v.reasons)[:300] or None
    estimate = ev["target", "auto"] if policies == ["target"] else ev["target", "auto"] - ev["baseline", "auto"]
    out = {"estimate": estimate.value, "refused": refused, "method": "auto"}
    try:
        low, high = estimate.interval(level=log.level)
    except op.errors.OffPolicyError as error:
        return {**out, "refused": refused or str(error)[:300]}
    return {**out, "low": low, "high": high}
