"""A reward model fitted on some rows of a log, and what it predicts for the others: a split by time, say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.logs.outcome import need_seen
from offpolicy.models.fitting.store import REWARD, seed_of
from offpolicy.models.fitting.tables import Tables
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.log import Log


def predictions_apart(
    log: Log, training: Bools, reward_model: Any, seed: int = 0, *, rows: Ints | None = None
) -> Floats:
    """(m, K) predicted rewards of rows that are not for training, by a model that never saw them.

    Parameters
    ----------
    log : BanditLog
        In memory, one unit per row.
    training : (n,) array of bool
        Rows to fit on.
    reward_model : learner, "auto" or None
        As in `evaluate`.
    seed : int
    rows : (m,) array, optional
        Which to predict; default: all that are not for training.

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 50, [0.0, 2.0] * 50)
    >>> predictions_apart(log, np.arange(100) < 60, "auto")[0].round().tolist()
    [0.0, 2.0]
    """
    need_seen(log, "a split by time")
    model, tables = as_reward_model(reward_model), Tables(log)
    used = np.flatnonzero(training)
    rest = np.flatnonzero(~training) if rows is None else rows
    data = RewardData(
        tables.pairs(model, log.context.positions(used), log.action[used]),
        log.action[used],
        log.reward[used],
        tables.mass(used),
        log.actions,
        log.names.action,
        tables.count(used),
    )
    with few_threads(len(used)):
        fit = model.fit_reward(data, seed_of(seed, REWARD, ("apart",)))
        out = np.empty((len(rest), len(log.actions)))
        for code in range(len(log.actions)):
            taken = np.full(len(rest), code, dtype=log.action.dtype)
            table = tables.pairs(model, log.context.positions(rest), taken)
            out[:, code] = fit.predict(table, taken)
    return out
