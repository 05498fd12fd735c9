"""Minari datasets as trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, missing_dependency
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Callable


def from_minari(
    dataset: Any, *, propensity: Callable[[Any, Any], Any] | None = None, **options: Any
) -> Trajectories:
    """Build trajectories from a Minari dataset with discrete actions.

    Parameters
    ----------
    dataset : MinariDataset or str
        A dataset, or the name of one that is on this machine.
    propensity : callable, optional
        Called with the (length, …) observations and actions of an episode; gives the probability of each
        logged action, or the whole distribution. Minari does not record it; without it π_b is estimated.
    **options
        Passed on to `Trajectories.from_arrays`. Episodes that end by a time limit are truncated: when their
        lengths differ, ``truncated=`` says what to do.
    """
    if isinstance(dataset, str):
        try:
            import minari
        except ImportError as error:
            raise missing_dependency("minari", "rl", "Reading a Minari dataset by name") from error
        dataset = minari.load_dataset(dataset)
    states, actions, rewards, terminated, known = [], [], [], [], []
    for episode in dataset.iterate_episodes():
        if isinstance(episode.observations, dict | tuple):
            raise DataError(
                "observations are a dict or tuple. Flatten them first (gymnasium's FlattenObservation)."
            )
        taken = np.asarray(episode.actions)
        if taken.ndim != 1 or taken.dtype.kind not in "iub":
            raise DataError(
                f"actions have shape {taken.shape} and type {taken.dtype}: only discrete actions can be "
                "weighted by their probability."
            )
        # Minari keeps the observation after the last action as well.
        seen = np.asarray(episode.observations)[: len(taken)]
        states.append(seen)
        actions.append(taken)
        rewards.append(np.asarray(episode.rewards))
        terminated.append(bool(np.asarray(episode.terminations)[-1]))
        if propensity is not None:
            known.append(np.asarray(propensity(seen, taken)))
    return Trajectories.from_arrays(
        states,
        actions,
        rewards,
        propensities=known if propensity is not None else None,
        terminated=np.asarray(terminated),
        **options,
    )
