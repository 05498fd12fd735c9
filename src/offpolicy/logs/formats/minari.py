"""Minari datasets as trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, missing_dependency
from offpolicy.logs.formats.transitions import from_episodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.logs.trajectories import Trajectories


@checks_arguments
def from_minari(dataset: Any, *, propensity: Callable[[Any, Any], Any] | None = None, **options: Any) -> Trajectories:
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
    return from_episodes(map(_parts, dataset.iterate_episodes()), propensity, options)


def _parts(episode: Any) -> tuple[Any, Any, Any, bool]:
    if isinstance(episode.observations, dict | tuple):
        raise DataError("observations are a dict or tuple. Flatten them first (gymnasium's FlattenObservation).")
    ended = bool(np.asarray(episode.terminations)[-1])
    return episode.observations, episode.actions, episode.rewards, ended
