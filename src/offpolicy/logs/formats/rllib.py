"""RLlib's columnar recordings (one row per transition, usually Parquet) as trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.frame import Columns
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from offpolicy._arrays import Array

EPISODE, STEP = "eps_id", "t"


@checks_arguments
def from_rllib(recording: Any, **options: Any) -> Trajectories:
    """Build trajectories from what RLlib's offline recording writes in its columnar format.

    Parameters
    ----------
    recording : table, or path of a Parquet file or of a folder of them
        Columns ``eps_id``, ``obs``, ``actions``, ``rewards``, ``terminateds``, ``truncateds`` and, where the policy
        was stochastic, ``action_logp``, whose exponential is the propensity. Rows of an episode in order of ``t``
        where there is such a column, else as they come.
    **options
        Passed on to `Trajectories.from_arrays` (``horizon=``, ``labels=``, …).

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"eps_id": ["a", "a", "b"], "obs": [[0.0], [1.0], [0.5]], "actions": [0, 1, 1],
    ...                      "rewards": [0.0, 1.0, 1.0], "terminateds": [False, True, True],
    ...                      "truncateds": [False, False, False], "action_logp": [-0.5, -0.7, -0.7]})
    >>> from_rllib(rows).layout.lengths.tolist()
    [2, 1]
    """
    columns = Columns(_table(recording))
    for name in (EPISODE, "obs", "actions", "rewards", "terminateds", "truncateds"):
        columns.require(name, f"RLlib's {name}")
    ids = columns.values(EPISODE)
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[code.reshape(-1)]  # episodes in the order in which they begin
    keys = (columns.values(STEP), rank) if STEP in columns.names else (rank,)
    order = np.lexsort(keys) if len(keys) > 1 else np.argsort(rank, kind="stable")
    lengths = np.bincount(rank)
    ends = np.cumsum(lengths) - 1
    terminated = columns.values("terminateds").astype(bool)[order]
    truncated = columns.values("truncateds").astype(bool)[order]
    open_ended = ~(terminated | truncated)[ends]
    if open_ended.any():
        raise DataError(
            f"column 'terminateds': {int(open_ended.sum()):,} episodes are neither terminated nor truncated at their "
            f"last row (first: {ids[order][ends[open_ended.argmax()]]!r}). Record whole episodes "
            "(batch_mode='complete_episodes'), or drop those that are not."
        )
    logp = columns.values("action_logp") if "action_logp" in columns.names else None
    options.setdefault("truncated", "raise")
    return Trajectories.from_arrays(
        _stacked(columns.values("obs"))[order],
        _stacked(columns.values("actions")).reshape(len(order))[order],
        columns.values("rewards").astype(np.float64)[order],
        lengths,
        None if logp is None else np.minimum(np.exp(logp.astype(np.float64)), 1.0)[order],
        terminated=terminated[ends],
        **options,
    )


def _table(recording: Any) -> Any:
    if not isinstance(recording, str) and not hasattr(recording, "__fspath__"):
        return recording
    import pyarrow.parquet as pq

    return pq.read_table(recording)


def _stacked(values: Array) -> Array:
    """Rows of lists as an array with one axis more."""
    if values.dtype != object:
        return values
    try:
        return np.stack([np.asarray(v) for v in values])
    except ValueError as error:
        raise DataError(
            "observations or actions differ in shape from row to row. Flatten them before recording."
        ) from error
