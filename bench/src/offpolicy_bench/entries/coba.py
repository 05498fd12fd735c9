# /// script
# requires-python = ">=3.11"
# dependencies = ["coba==8.1.0", "vowpalwabbit==9.11.9", "numpy==2.4.6"]
# [tool.offpolicy-bench]
# name = "coba"
# kinds = ["bandit"]
# recipe = "OpeRewards('DR') turns logged interactions into estimated rewards of all actions (a Vowpal Wabbit regression); the value is their mean under the target, as SequentialCB scores a policy. No interval"
# ///
"""coba: doubly robust rewards, a point estimate; needs logged probabilities."""

import numpy as np
from coba.environments import OpeRewards
from coba.primitives import LoggedInteraction


def answer(log):
    if log.propensity is None:
        return {"refused": "needs logged probabilities (a missing one counts as 1)"}
    k = log.target.shape[1]
    actions = [f"a{a}" for a in range(k)]
    logged = [
        LoggedInteraction(tuple(x), actions[a], r, p, actions=actions)
        for x, a, r, p in zip(
            log.context.tolist(), log.action.tolist(), log.reward.tolist(), log.propensity.tolist(), strict=True
        )
    ]
    # Interactions come back in the order of batches that are shuffled: a number in the interaction says which is which.
    for row, interaction in enumerate(logged):
        interaction["row"] = row
    total = 0.0
    for interaction in OpeRewards("DR").filter(logged):
        chances = log.target[interaction["row"]]
        total += sum(chances[a] * interaction["rewards"](actions[a]) for a in np.flatnonzero(chances))
    return {"estimate": total / len(logged), "method": "DR"}
