"""A reward model fitted on some rows of a log, and what it predicts for the others: a split by time, say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.models.fitting.store import REWARD, seed_of
from offpolicy.models.fitting.tables import Tables
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.log import Log


def predictions_apart(log: Log, training: Bools, reward_model: Any, seed: int = 0) -> Floats:
    """(m, K) predicted rewards of the m rows that are not for training, by a model that never saw them.

    Parameters
    ----------
    log : BanditLog
        In memory, one unit per row.
    training : (n,) array of bool
        Rows to fit on.
    reward_model : learner, "auto" or None
        As in `evaluate`.
    seed : int

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 50, [0.0, 2.0] * 50)
    >>> predictions_apart(log, np.arange(100) < 60, "auto")[0].round().tolist()
    [0.0, 2.0]
    """
    model, tables = as_reward_model(reward_model), Tables(log)
    rows, rest = np.flatnonzero(training), np.flatnonzero(~training)
    data = RewardData(
        tables.pairs(model, log.context.positions(rows), log.action[rows]),
        log.action[rows],
        log.reward[rows],
        tables.mass(rows),
        log.actions,
        log.names.action,
        tables.count(rows),
    )
    with few_threads(len(rows)):
        fit = model.fit_reward(data, seed_of(seed, REWARD, ("apart",)))
        out = np.empty((len(rest), len(log.actions)))
        for code in range(len(log.actions)):
            taken = np.full(len(rest), code, dtype=log.action.dtype)
            table = tables.pairs(model, log.context.positions(rest), taken)
            out[:, code] = fit.predict(table, taken)
    return out
