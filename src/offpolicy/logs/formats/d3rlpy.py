"""d3rlpy episodes as trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.logs.formats.transitions import from_episodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offpolicy.logs.trajectories import Trajectories


@checks_arguments
def from_d3rlpy(dataset: Any, *, propensity: Callable[[Any, Any], Any] | None = None, **options: Any) -> Trajectories:
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
    parts = ((e.observations, e.actions, e.rewards, e.terminated) for e in episodes)
    return from_episodes(parts, propensity, options)
