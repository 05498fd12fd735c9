"""The ``bandit_feedback`` dictionary of Open Bandit Pipeline (OBP), both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, did_you_mean
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.frame import as_features
from offpolicy.logs.metrics import need_one_metric

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED = ("action", "reward", "context")


@checks_arguments
def from_obp(feedback: Mapping[str, Any], *, position: int | None = None) -> BanditLog:
    """Read OBP's dictionary.

    Parameters
    ----------
    feedback : mapping
        ``n_actions``, ``context``, ``action``, ``reward`` and, where known, ``pscore``.
    position : int, optional
        Keep the rounds of one position of a list only; needed when the log has several.

    Examples
    --------
    >>> feedback = {"n_rounds": 2, "n_actions": 3, "context": [[0.0], [1.0]], "action": [0, 2],
    ...             "reward": [0, 1], "pscore": [0.2, 0.5], "position": None}
    >>> from_obp(feedback).actions
    (0, 1, 2)
    """
    for key in REQUIRED:
        if key not in feedback:
            raise DataError(f"the dictionary has no {key!r}.{did_you_mean(key, feedback)}")
    action = np.asarray(feedback["action"])
    rounds = feedback.get("n_rounds")
    if rounds is not None and rounds != len(action):
        raise DataError(f"n_rounds is {rounds!r}, and there are {len(action):,} actions. Repair one.")
    n_actions = int(feedback.get("n_actions", int(action.max(initial=0)) + 1))
    kept: Any = slice(None)
    places = feedback.get("position")
    if places is not None:
        places = np.asarray(places)
        distinct = np.unique(places)
        if position is None and len(distinct) > 1:
            raise DataError(
                f"the log has {len(distinct)} positions; evaluate one at a time with position=, one of "
                f"{distinct.tolist()}."
            )
        kept = slice(None) if position is None else places == position
    pscore = feedback.get("pscore")
    return BanditLog.from_arrays(
        np.asarray(feedback["context"])[kept],
        action[kept],
        np.asarray(feedback["reward"])[kept],
        None if pscore is None else np.asarray(pscore)[kept],
        actions=range(n_actions),
    )


@checks_arguments
def to_obp(log: BanditLog) -> dict[str, Any]:
    """Give a log back as OBP's dictionary; text contexts must be encoded first."""
    need_one_metric(log, "OBP's dictionary")
    if log.is_counted:
        raise DataError("rows of this log carry counts, which OBP cannot express.")
    table = log.context.learner_table
    if log.context.is_frame:
        try:
            context = np.asarray(table.to_numpy(dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"OBP takes numeric contexts only: {error}") from error
    else:
        context = as_features(np.asarray(log.context.table))
    context = context if log.context.index is None else context[log.context.index]
    return {
        "n_rounds": log.rows,
        "n_actions": len(log.actions),
        "context": context,
        "action": log.action.copy(),
        "reward": log.reward.copy(),
        "pscore": None if log.propensity is None else log.propensity.copy(),
        "position": None,
        "action_context": np.eye(len(log.actions)),
    }
