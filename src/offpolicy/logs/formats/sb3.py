"""Buffers of Stable-Baselines3 as trajectories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.formats.transitions import from_episodes
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy._arrays import Array


@checks_arguments
def from_sb3(buffer: Any, *, propensity: Callable[[Any, Any], Any] | None = None, **options: Any) -> Trajectories:
    """Build trajectories from a replay or rollout buffer of Stable-Baselines3 with discrete actions.

    Whole episodes are taken: what an overwritten buffer has lost the beginning of, and what was still running when
    the buffer was read, is left out, and the log says how many steps that are.

    Parameters
    ----------
    buffer : ReplayBuffer or RolloutBuffer
        A replay buffer says with ``dones`` and ``timeouts`` how episodes ended. A rollout buffer says where they
        begin, and has the log-probabilities of its actions, which become propensities.
    propensity : callable, optional
        As in `from_minari`, for replay buffers, which do not record it.
    **options
        Passed on to `Trajectories.from_arrays`.
    """
    episodes = list(_episodes(buffer))
    whole = [e for e in episodes if e is not None]
    if not whole:
        raise DataError("the buffer holds no whole episode. Collect more steps, or shorter episodes.")
    used = sum(len(e[1]) for e in whole)
    log = _built(whole, buffer, propensity, options)
    total = _filled(buffer) * int(buffer.n_envs)
    if used == total:
        return log
    note = f"{total - used:,} of {total:,} steps of the buffer belong to episodes that are not whole: left out"
    return replace(log, notes=(*log.notes, note))


def _built(whole: list[Any], buffer: Any, propensity: Any, options: dict[str, Any]) -> Trajectories:
    if hasattr(buffer, "log_probs"):
        return Trajectories.from_arrays(
            [e[0] for e in whole],
            [e[1] for e in whole],
            [e[2] for e in whole],
            propensities=[np.minimum(np.exp(e[4]), 1.0) for e in whole],
            terminated=np.array([e[3] for e in whole]),
            **options,
        )
    return from_episodes(((e[0], e[1], e[2], e[3]) for e in whole), propensity, options)


def _filled(buffer: Any) -> int:
    return int(buffer.buffer_size if buffer.full else buffer.pos)


def _episodes(buffer: Any) -> Iterator[Any]:
    """(states, actions, rewards, terminated, log-probabilities) of each whole episode of each environment."""
    size = _filled(buffer)
    # A replay buffer that was overwritten begins at its position; a rollout buffer is filled once.
    wrapped = bool(buffer.full) and hasattr(buffer, "dones")
    order = (np.arange(size) + (buffer.pos if wrapped else 0)) % max(size, 1)
    for env in range(int(buffer.n_envs)):
        states = _by_step(buffer, "observations")[order, env]
        actions = _by_step(buffer, "actions")[order, env].reshape(size).astype(np.int64)
        rewards = np.asarray(buffer.rewards)[order, env]
        if hasattr(buffer, "dones"):
            ends = np.asarray(buffer.dones)[order, env].astype(bool)
            stopped = np.asarray(buffer.timeouts)[order, env].astype(bool)
            begins = 0
            if wrapped and len(ends) and ends.any():
                begins = int(ends.argmax()) + 1  # the first episode has lost its beginning
            logp = np.zeros(size)
        else:
            starts = np.asarray(buffer.episode_starts)[order, env].astype(bool)
            ends = np.append(starts[1:], False)
            stopped = np.zeros(size, dtype=bool)
            begins = int(starts.argmax()) if starts.any() else size
            logp = _by_step(buffer, "log_probs")[order, env].reshape(size)
        for end in np.flatnonzero(ends):
            if end < begins:
                continue
            at = slice(begins, end + 1)
            yield states[at], actions[at], rewards[at], not stopped[end], logp[at]
            begins = int(end) + 1


def _by_step(buffer: Any, name: str) -> Array:
    """(steps, environments, …) array of a buffer.

    Training draws batches from a rollout buffer, and lays some of its arrays out flat for that, one environment after
    another; the others stay as they were.
    """
    array = np.asarray(getattr(buffer, name))
    if not getattr(buffer, "generator_ready", False):
        return array
    envs = int(buffer.n_envs)
    return array.reshape(envs, -1, *array.shape[1:]).swapaxes(0, 1)
