"""How attractive an item is in a context, whatever else is shown: a linear model of the slots' own rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.rewards.auto import LinearReward
from offpolicy.models.rewards.reward import RewardData
from offpolicy.splits.hashing import drawn

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.logs.slates import Slates

MOST_ROWS = 20_000
MOST_CELLS = 2_000_000


def attraction(log: Slates) -> Floats | None:
    """(S, K) predicted reward of every item in every slot, each slate's by a model of the other half of the slates.

    None where there is no context to tell slots apart, or too much to predict.
    """
    context = log.bare
    assert context is not None
    assert log.slot_reward is not None
    if len(context.names or ()) < 2 or log.rows * len(log.actions) > MOST_CELLS:
        return None
    table = encode_table(context.learner_table)
    half = np.asarray(drawn(log.units, 0.5, 1))[log.layout.unit]
    out = np.zeros((log.rows, len(log.actions)))
    for side in (half, ~half):
        rows, others = np.flatnonzero(~side)[:MOST_ROWS], np.flatnonzero(side)
        if len(rows) == 0 or len(others) == 0:
            return None
        weight = log.weight[log.layout.unit[rows]] if log.is_weighted else None
        data = RewardData(
            table.rows(rows), log.action[rows], log.slot_reward[rows], weight, log.actions, log.names.action
        )
        fit = LinearReward().fit_reward(data, 0)
        for a in range(len(log.actions)):
            out[others, a] = fit.predict(table.rows(others), np.full(len(others), a))
    return out
