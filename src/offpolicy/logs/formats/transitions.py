"""Transitions one at a time: an iterator of (state, action, reward, terminated, truncated) as a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@checks_arguments
def from_transitions(transitions: Iterable[Mapping[str, Any]], **options: Any) -> Trajectories:
    """Build trajectories from an iterator of transitions.

    Parameters
    ----------
    transitions : iterable of mappings
        Each with ``state``, ``action``, ``reward``, ``terminated`` and ``truncated`` (true at the last step
        of an episode), and optionally ``propensity``: a number, or K of them.
    **options
        Passed on to `Trajectories.from_arrays` (``truncated=``, ``horizon=``, ``labels=``, …).

    Examples
    --------
    >>> steps = [
    ...     {"state": 0, "action": 1, "reward": 1.0, "terminated": False, "truncated": False},
    ...     {"state": 1, "action": 0, "reward": 0.0, "terminated": True, "truncated": False},
    ... ]
    >>> from_transitions(steps).layout.lengths.tolist()
    [2]
    """
    columns: dict[str, list[Any]] = {k: [] for k in ("state", "action", "reward", "propensity")}
    lengths: list[int] = []
    terminated: list[bool] = []
    running = 0
    for i, step in enumerate(transitions):
        for name in ("state", "action", "reward", "terminated", "truncated"):
            if name not in step:
                raise DataError(
                    f"transition {i} has no {name!r}. Each needs state, action, reward, terminated and truncated."
                )
        for name in ("state", "action", "reward"):
            columns[name].append(step[name])
        if "propensity" in step:
            columns["propensity"].append(step["propensity"])
        running += 1
        if step["terminated"] or step["truncated"]:
            lengths.append(running)
            terminated.append(bool(step["terminated"]))
            running = 0
    if running:
        raise DataError(
            f"the last episode is unfinished: its {running} steps end without terminated or truncated. "
            "Finish it, mark it truncated, or leave it out."
        )
    if not lengths:
        raise DataError("the log is empty: there were no transitions.")
    known = columns["propensity"]
    if known and len(known) != len(columns["action"]):
        raise DataError("some transitions have a propensity and others do not. Give all or none.")
    return Trajectories.from_arrays(
        np.asarray(columns["state"]),
        np.asarray(columns["action"]),
        np.asarray(columns["reward"]),
        np.asarray(lengths),
        np.asarray(known) if known else None,
        terminated=np.asarray(terminated),
        **options,
    )


def from_episodes(
    episodes: Iterable[tuple[Any, Any, Any, bool]],
    propensity: Callable[[Any, Any], Any] | None,
    options: Mapping[str, Any],
) -> Trajectories:
    """Build trajectories from (observations, actions, rewards, terminated) of one episode after another.

    Observations may go on after the last action. ``propensity`` is asked as `from_minari` says.
    """
    states, actions, rewards, ends, known = [], [], [], [], []
    for i, (observations, decided, earned, terminated) in enumerate(episodes):
        taken = np.asarray(decided)
        if taken.dtype.kind not in "iub" or taken.reshape(len(taken), -1).shape[1] != 1:
            raise DataError(
                f"episode {i}: actions have shape {taken.shape} and type {taken.dtype}; only discrete "
                "actions can be weighted by their probability."
            )
        taken = taken.reshape(len(taken))
        states.append(np.asarray(observations)[: len(taken)])
        actions.append(taken)
        rewards.append(np.asarray(earned, dtype=np.float64).reshape(len(taken)))
        ends.append(bool(terminated))
        if propensity is not None:
            known.append(np.asarray(propensity(states[-1], taken)))
    if not states:
        raise DataError("the dataset has no episodes. There is nothing to evaluate.")
    probabilities = known if propensity is not None else None
    return Trajectories.from_arrays(
        states, actions, rewards, propensities=probabilities, terminated=np.asarray(ends), **options
    )
