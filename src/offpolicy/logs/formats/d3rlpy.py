"""d3rlpy episodes as trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def from_d3rlpy(
    dataset: Any, *, propensity: Callable[[Any, Any], Any] | None = None, **options: Any
) -> Trajectories:
    """Build trajectories from a d3rlpy dataset (or its episodes) with discrete actions.

    Parameters
    ----------
    dataset : replay buffer, or iterable of episodes
        Anything with ``episodes``, or the episodes: each has ``observations``, ``actions``, ``rewards`` and
        ``terminated``.
    propensity : callable, optional
        As in `from_minari`.
    **options
        Passed on to `Trajectories.from_arrays`.
    """
    episodes: Iterable[Any] = getattr(dataset, "episodes", dataset)
    states, actions, rewards, terminated, known = [], [], [], [], []
    for i, episode in enumerate(episodes):
        taken = np.asarray(episode.actions)
        if taken.dtype.kind not in "iub" or taken.reshape(len(taken), -1).shape[1] != 1:
            raise DataError(
                f"episode {i}: actions have shape {taken.shape} and type {taken.dtype}; only discrete "
                "actions can be weighted by their probability."
            )
        taken = taken.reshape(len(taken))
        seen = np.asarray(episode.observations)[: len(taken)]
        states.append(seen)
        actions.append(taken)
        rewards.append(np.asarray(episode.rewards, dtype=np.float64).reshape(len(taken)))
        terminated.append(bool(episode.terminated))
        if propensity is not None:
            known.append(np.asarray(propensity(seen, taken)))
    if not states:
        raise DataError("the dataset has no episodes. There is nothing to evaluate.")
    return Trajectories.from_arrays(
        states,
        actions,
        rewards,
        propensities=known if propensity is not None else None,
        terminated=np.asarray(terminated),
        **options,
    )
