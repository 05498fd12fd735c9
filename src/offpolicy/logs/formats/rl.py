"""Episodes as libraries of reinforcement learning hold them: transitions, environments, datasets and buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import DataError, PolicyError, UsageError, missing_dependency
from offpolicy.logs.frame import Columns
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from offpolicy._arrays import Array, Bools, Floats

ROUNDING = 1e-6  # of a logarithm


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
        over, cut = (_flags(step[name], f"transition {i}: {name!r}") for name in ("terminated", "truncated"))
        if over or cut:
            lengths.append(running)
            terminated.append(bool(over))
            running = 0
    if running:
        raise DataError(
            f"the last episode is unfinished: after {running} steps it is neither terminated nor truncated. "
            "Finish it, mark it truncated, or leave it out."
        )
    if not lengths:
        raise DataError("the log is empty: it has no transitions.")
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


def _flags(values: Any, what: str) -> Bools:
    """True and False, or 1 and 0; the text "False" would count as true."""
    array = np.asarray(values)
    if array.dtype == object and all(isinstance(v, bool | np.bool_) for v in array.reshape(-1)):
        return array.astype(bool)
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise DataError(f"{what} must be True or False. Got {array.reshape(-1)[:3].tolist()} instead.")
    return array.astype(bool)


def _probabilities(logarithms: Any) -> Floats:
    """Probabilities from their logarithms, which are not above 0 but for rounding."""
    values = np.asarray(logarithms, dtype=np.float64)
    if (values > ROUNDING).any():
        raise DataError(
            f"log-probabilities up to {values.max():g} are above 0. Those of discrete actions are not; densities of "
            "continuous ones cannot be used here."
        )
    return np.asarray(np.minimum(np.exp(values), 1.0))


def from_episodes(
    episodes: Iterable[tuple[Any, Any, Any, bool]],
    propensity: Callable[[Any, Any], Any] | None,
    options: Mapping[str, Any],
    log_probabilities: Sequence[Any] = (),
) -> Trajectories:
    """Build trajectories from (observations, actions, rewards, terminated) of one episode after another.

    Observations may go on after the last action. ``propensity`` is asked as `from_minari` says, where
    ``log_probabilities`` of the actions are not known.
    """
    states, actions, rewards, ends, known = [], [], [], [], []
    for i, (observations, decided, earned, terminated) in enumerate(episodes):
        if isinstance(observations, dict | tuple):
            raise DataError("observations are a dict or tuple. Flatten them first (gymnasium's FlattenObservation).")
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
    if len(log_probabilities) and log_probabilities[0] is not None:
        known = [_probabilities(each) for each in log_probabilities]
    return Trajectories.from_arrays(
        states, actions, rewards, propensities=known or None, terminated=np.asarray(ends), **options
    )


@checks_arguments
def roll_out(
    environment: Any,
    policy: Callable[[Any], Any] | Any,
    episodes: int,
    *,
    seed: int = 0,
    max_steps: int | None = None,
    **options: Any,
) -> Trajectories:
    """Run a policy and log states, actions, rewards and the policy's whole distribution.

    Parameters
    ----------
    environment : gymnasium.Env
        With discrete actions.
    policy : object with ``probabilities(states)``, or a callable
        Given a batch of one state, gives (1, K) probabilities.
    episodes : int
        How many.
    seed : int
        Of the environment and of the actions.
    max_steps : int, optional
        Truncate episodes there.
    **options
        Passed on to `Trajectories.from_arrays`; ``truncated="end"`` when a time limit is a part of the
        problem.

    Examples
    --------
    >>> import gymnasium, numpy as np
    >>> env = gymnasium.make("CartPole-v1")
    >>> log = roll_out(env, lambda s: np.full((len(s), 2), 0.5), 3, seed=1, truncated="end")
    >>> log.n, log.distribution.shape[1]
    (3, 2)
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise UsageError(f"episodes must be an int of at least 1. Got {episodes!r} instead.")
    count = getattr(environment.action_space, "n", None)
    if count is None:
        raise UsageError("roll_out() needs an environment with discrete actions.")
    ask = getattr(policy, "probabilities", policy)
    options.setdefault("labels", range(int(count)))
    return from_transitions(_steps(environment, ask, int(count), int(episodes), seed, max_steps), **options)


#: The same under the name that the other readers have.
from_gymnasium = roll_out


def _steps(
    environment: Any, ask: Any, count: int, episodes: int, seed: int, max_steps: int | None
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for number in range(episodes):
        state, _ = environment.reset(seed=seed if number == 0 else None)
        over, t = False, 0
        while not over:
            pi = np.asarray(ask(np.asarray(state)[None]), dtype=np.float64)
            if pi.shape != (1, count) or not np.isclose(pi.sum(), 1) or (pi < 0).any():
                raise PolicyError(f"the policy must give (1, {count}) probabilities for one state. Got {pi!r}.")
            action = int(min((pi[0].cumsum() < rng.random()).sum(), count - 1))
            following, reward, terminated, truncated, _ = environment.step(action)
            t += 1
            truncated = bool(truncated) or (max_steps is not None and t >= max_steps)
            yield {
                "state": np.asarray(state),
                "action": action,
                "reward": float(reward),
                "propensity": pi[0],
                "terminated": bool(terminated),
                "truncated": truncated and not terminated,
            }
            state, over = following, bool(terminated) or truncated


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
        try:
            dataset = minari.load_dataset(dataset)
        except FileNotFoundError as error:
            raise DataError(
                f"there is no Minari dataset {dataset!r} on this machine. Download it first: "
                f"minari.download_dataset({dataset!r})."
            ) from error
    parts = ((e.observations, e.actions, e.rewards, np.asarray(e.terminations)[-1]) for e in dataset.iterate_episodes())
    return from_episodes(parts, propensity, options)


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
    terminated = _flags(columns.values("terminateds"), "column 'terminateds'")[order]
    truncated = _flags(columns.values("truncateds"), "column 'truncateds'")[order]
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
        None if logp is None else _probabilities(logp)[order],
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
    whole = list(_whole_episodes(buffer))
    if not whole:
        raise DataError("the buffer has no complete episode. Collect more steps, or shorter episodes.")
    used = sum(len(e[1]) for e in whole)
    log = from_episodes((e[:4] for e in whole), propensity, options, [e[4] for e in whole])
    total = _filled(buffer) * int(buffer.n_envs)
    if used == total:
        return log
    note = f"{total - used:,} of {total:,} steps of the buffer belong to incomplete episodes and were left out"
    return replace(log, notes=(*log.notes, note))


def _filled(buffer: Any) -> int:
    return int(buffer.buffer_size if buffer.full else buffer.pos)


def _whole_episodes(buffer: Any) -> Iterator[Any]:
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
            logp = None
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
            yield states[at], actions[at], rewards[at], not stopped[end], picked(logp, at)
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
