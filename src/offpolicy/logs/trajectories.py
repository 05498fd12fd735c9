"""`Trajectories`: logged episodes (S_0, A_0, R_0, …, S_T, A_T, R_T), checked once and kept flat.

Steps are stored one episode after the other with the length of each, so that ragged episodes are never
padded. An episode of one step is an impression: a log in which every episode has one step is a bandit log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.logs import checks, episodes
from offpolicy.logs.actions import Label, encode
from offpolicy.logs.bandit import Names
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.identity import unit_numbers
from offpolicy.logs.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Trajectories:
    """A log of episodes. Build it with `from_frame` or `from_arrays`.

    **How episodes end.** With ``terminated=None`` the end of an episode is the end of its rewards: whatever
    would have come later is 0. With ``terminated`` flags, an episode that ends without the flag before the
    horizon was truncated: rewards are missing, and the value up to the horizon is not identified without a
    model of the tail. That raises, unless ``truncated=`` names a treatment: "end" (treat the end as the end
    of the rewards) or "cut" (evaluate only the steps that every truncated episode still has). Episodes that
    reach the horizon are complete, terminated or not.

    Attributes
    ----------
    actions : tuple of labels
        The K actions, in the order of every (steps, K) array.
    action, reward : (S,) arrays
        Codes of the logged actions and their rewards, episode after episode.
    propensity : (S,) array or None
        Probability with which each logged action was taken; None when unknown.
    distribution : (S, K) array or None
        The logging policy's whole distribution, when it was logged.
    layout : Layout
        Lengths of the episodes; ``layout.unit`` and ``layout.step`` say where a step belongs.
    horizon : int
        The longest an episode can be (the paper's T + 1).
    ended : (N,) bool array
        Episodes known to have terminated with their last step.
    cluster, weight, fold : (N,) arrays or None
        One entry per episode.

    Examples
    --------
    >>> log = Trajectories.from_arrays([[0, 1], [1]], [[0, 1], [1]], [[1.0, 0.0], [2.0]])
    >>> log.n, log.horizon, log.layout.lengths.tolist()
    (2, 2, [2, 1])
    """

    context: Context
    actions: tuple[Label, ...]
    action: Ints
    reward: Floats
    layout: Layout
    horizon: int
    ended: Bools
    propensity: Floats | None = None
    distribution: Floats | None = None
    cluster: Ints | None = None
    weight: Floats | None = None
    fold: Ints | None = None
    unit: Ints | None = None
    source: Any = None
    names: Names = field(default_factory=Names)
    notes: tuple[str, ...] = ()
    row_order: Ints | None = None  # row of the frame each step came from, when they were sorted

    kind: ClassVar[str] = "trajectories"
    in_memory: ClassVar[bool] = True
    about: ClassVar[dict[str, Any]] = {}
    half: ClassVar[None] = None
    batch: ClassVar[None] = None
    eligible: ClassVar[None] = None
    batch_labels: ClassVar[None] = None
    count: ClassVar[None] = None

    @property
    def n(self) -> int:
        """Episodes."""
        return self.layout.n_units

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.propensity is not None

    @property
    def rows(self) -> int:
        """Steps held."""
        return len(self.action)

    @property
    def units(self) -> Ints:
        """(n,) numbers of the episodes (of their clusters), from which folds follow."""
        return np.arange(self.n, dtype=np.int64) if self.unit is None else self.unit

    def blocks(self) -> Iterator[Trajectories]:
        """The log, block by block: one, since it is in memory."""
        yield self

    def opened(self, *_: Any) -> Trajectories:
        """The log itself: it is in memory already."""
        return self

    @property
    def is_discrete(self) -> bool:
        """Whether states are ids (a table of distinct states and an index into it)."""
        return self.context.index is not None

    def __repr__(self) -> str:
        known = "logged" if self.propensity is not None else "unknown"
        states = f"{self.context.n_table:,} states" if self.is_discrete else "continuous states"
        return (
            f"Trajectories({self.n:,} episodes, {self.rows:,} steps, at most {self.horizon} each, "
            f"{states}, {len(self.actions)} actions, mean return "
            f"{float(np.average(self.layout.sum(self.reward), weights=self.weight)):.6g}, "
            f"propensities {known})"
        )

    def take(self, units: Array) -> Trajectories:
        """The log of these episodes only (positions or a mask); actions and states keep their codes."""
        chosen = np.asarray(units)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return self._pick(chosen, self.layout.rows_of(chosen), self.layout.subset(chosen))

    def first(self, steps: int) -> Trajectories:
        """The first ``steps`` steps of every episode: the value over a shorter horizon.

        >>> log = Trajectories.from_arrays([[0, 1], [1]], [[0, 1], [1]], [[1.0, 0.0], [2.0]])
        >>> log.first(1).rows
        2
        """
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
            raise UsageError(f"first() takes an int of at least 1. Got {steps!r} instead.")
        lengths = _lengths_of(self.layout)
        kept = np.minimum(lengths, steps)
        rows = np.flatnonzero(self.layout.step < steps)
        cut = self._pick(np.arange(self.n), rows, Layout.ragged(kept))
        return replace(
            cut, horizon=min(self.horizon, int(steps)), ended=self.ended & (lengths <= steps)
        )

    def _pick(self, units: Array, rows: Ints, layout: Layout) -> Trajectories:
        def pick(values: Any, at: Array) -> Any:
            return None if values is None else values[at]

        return replace(
            self,
            context=self.context.take(rows),
            action=self.action[rows],
            reward=self.reward[rows],
            layout=layout,
            ended=self.ended[units],
            propensity=pick(self.propensity, rows),
            distribution=pick(self.distribution, rows),
            cluster=pick(self.cluster, units),
            weight=pick(self.weight, units),
            fold=None if self.fold is None else self.fold[:, units],
            unit=self.units[units],
            source=None if self.source is None else Columns(self.source).rows(rows),
            row_order=None,
        )

    @classmethod
    def from_arrays(
        cls,
        states: Any,
        actions: Any,
        rewards: Any,
        lengths: Any = None,
        propensities: Any = None,
        *,
        terminated: Any = None,
        truncated: Literal["raise", "end", "cut"] = "raise",
        horizon: int | None = None,
        cluster: Any = None,
        weight: Any = None,
        fold: Any = None,
        labels: Sequence[Label] | None = None,
        discrete: bool | None = None,
    ) -> Trajectories:
        """Build a log from arrays.

        Parameters
        ----------
        states : array, list of arrays, or None
            (n, T+1, …); or a list with one (length, …) array per episode; or (steps, …) with ``lengths``.
            Integers of shape (n, T+1) are discrete states. The state after the last action is not given.
        actions, rewards : as ``states``, one entry per step
            Labels of any type; integers 0 … K−1 are their own labels.
        lengths : (n,) ints, optional
            Steps of each episode, where arrays are padded or flat.
        propensities : as ``actions``, or with a last axis of K, optional
            Probability of the logged action, or the whole distribution; None when unknown.
        terminated : one flag an episode or a step, optional
            See the class. None: every episode ends where its rewards end.
        truncated : {"raise", "end", "cut"}
            What to do with episodes that end before the horizon without having terminated.
        horizon : int, optional
            The longest an episode can be; default: the longest in the log.
        cluster, weight, fold : (n,) arrays, optional
            Unit of independence (a user with several episodes), analysis weight, fold label.
        labels : sequence, optional
            All actions, also those never logged; default: the distinct logged ones, sorted.
        discrete : bool, optional
            Whether states are ids. Default: integers are, unless nearly every row is different.

        Examples
        --------
        >>> import numpy as np
        >>> log = Trajectories.from_arrays(
        ...     np.array([0, 1, 1]), np.array([0, 1, 1]), np.array([1.0, 0.0, 2.0]), lengths=[2, 1]
        ... )
        >>> log
        Trajectories(2 episodes, 3 steps, at most 2 each, 2 states, 2 actions, mean return 1.5, ...)
        """
        shape = episodes.shape_of(actions, lengths)
        n_steps, n = shape.n_steps, len(shape.lengths)
        known, codes = encode(shape.flat(actions, "actions"), labels, "actions")
        table = np.empty((n_steps, 0)) if states is None else shape.flat(states, "states")
        if table.dtype == object:
            raise DataError(
                "'states' is an array of objects. Give numbers, or a table to from_frame."
            )
        if table.dtype.kind in "fc":
            bad = ~np.isfinite(table).reshape(n_steps, -1).all(axis=1)
            if bad.any():
                raise DataError(
                    f"'states': {int(bad.sum()):,} of {n_steps:,} steps hold missing or infinite "
                    f"numbers (first: step row {int(bad.argmax())})."
                )
        flags = None
        if terminated is not None:
            flags = np.asarray(terminated) if _is_flat(terminated) else None
            if flags is None or flags.shape != (n,):
                flags = shape.flat(terminated, "terminated")
        distinct = episodes.distinct_states(table, discrete=discrete)
        return _checked(
            context=Context(table) if distinct is None else Context(*distinct),
            actions=known,
            action=codes,
            reward=checks.one_dimensional(shape.flat(rewards, "rewards"), "rewards", "reward"),
            lengths=shape.lengths,
            propensity=None
            if propensities is None
            else shape.flat(propensities, "propensities").astype(np.float64),
            terminated=flags,
            truncated=truncated,
            horizon=horizon,
            cluster=None if cluster is None else np.asarray(cluster),
            weight=None if weight is None else checks.one_dimensional(weight, "weight", "weight"),
            fold=None if fold is None else np.asarray(fold),
            names=Names("actions", "rewards", "propensities"),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        episode: str,
        state: Sequence[str] | str | None,
        action: str,
        reward: str,
        step: str | None = None,
        propensity: str | Sequence[str] | None = None,
        terminated: str | None = None,
        truncated: Literal["raise", "end", "cut"] = "raise",
        horizon: int | None = None,
        cluster: str | None = None,
        weight: str | None = None,
        fold: str | None = None,
        actions: Sequence[Label] | None = None,
        discrete: bool | None = None,
    ) -> Trajectories:
        """Build a log from a pandas, polars or pyarrow table with one row per step.

        Parameters
        ----------
        frame : table
            Rows in any order when ``step`` is given.
        episode : column name
            Which episode a row belongs to.
        state : list of column names
            What policies and models may look at; any dtype. A single integer or text column is a discrete
            state.
        action, reward : column names
            The action taken and what it earned at that step.
        step : column name, optional
            0, 1, 2, … inside each episode; None: rows of an episode are in order.
        propensity : column name, list of K columns, or None
            Probability of the logged action, or the whole distribution; None when unknown.
        terminated : column name, optional
            True at a step after which the episode is over. See the class.
        truncated, horizon, discrete
            As in `from_arrays`.
        cluster, weight, fold : column names, optional
            Constant inside an episode.
        actions : sequence of labels, optional
            All actions, also those never logged.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"id": [7, 7, 8], "t": [0, 1, 0], "s": [0, 1, 0], "a": [0, 1, 1],
        ...                       "r": [1.0, 0.5, 0.0], "p": [0.5, 0.5, 0.5]})
        >>> Trajectories.from_frame(frame, episode="id", step="t", state=["s"], action="a", reward="r",
        ...                         propensity="p").layout.lengths.tolist()
        [2, 1]
        """
        from offpolicy.logs.trajectory_frame import read

        return _checked(
            **read(
                frame,
                episode=episode,
                step=step,
                state=state,
                action=action,
                reward=reward,
                propensity=propensity,
                terminated=terminated,
                cluster=cluster,
                weight=weight,
                fold=fold,
                actions=actions,
                discrete=discrete,
            ),
            truncated=truncated,
            horizon=horizon,
        )


def _is_flat(values: Any) -> bool:
    return isinstance(values, np.ndarray) or not any(hasattr(v, "__len__") for v in values)


def _lengths_of(layout: Layout) -> Ints:
    return np.ones(layout.n_units, dtype=np.int64) if layout.lengths is None else layout.lengths


def _checked(
    *,
    lengths: Ints,
    terminated: Array | None,
    truncated: str,
    horizon: int | None,
    **parts: Any,
) -> Trajectories:
    """Validate every part and build the log: the one door all trajectories come through."""
    layout = Layout.ragged(lengths)
    limit, ended = _endings(lengths, terminated, truncated, horizon)
    log = Trajectories(layout=layout, horizon=limit, ended=ended, **parts)
    n, names, unit = len(lengths), log.names, log.unit
    checks.same_length(log.rows, {"states": len(log.context), "rewards": len(log.reward)})
    for name in ("cluster", "weight", "fold"):
        part = getattr(log, name)
        if part is not None and part.shape != (n,):
            raise DataError(f"{name!r} has shape {part.shape}. Give one entry per episode ({n:,}).")
    checks.finite(log.reward, names.reward, "reward")
    given, k = log.propensity, len(log.actions)
    if given is not None and given.ndim == 2 and given.shape[1] != k:
        raise DataError(
            f"{names.propensity!r} has {given.shape[1]} columns for {k} actions. "
            "Give one for each, also those never logged (name all actions), or of the logged one only."
        )
    propensity, whole = checks.logged_propensity(given, log.action, names.propensity)
    if log.weight is not None:
        checks.weights(log.weight, "weight")
    clusters, cluster = checks.coded(log.cluster, names.cluster, "cluster")
    if cluster is not None:
        unit = unit_numbers(clusters)[cluster]
    _, fold = checks.coded(log.fold, "fold", "fold")
    log = replace(
        log,
        propensity=propensity,
        distribution=whole,
        cluster=cluster,
        fold=None if fold is None else fold[None, :],
        unit=unit,
    )
    return _treated(log, lengths, truncated, flagged=terminated is not None)


def _endings(
    lengths: Ints, terminated: Array | None, truncated: str, horizon: int | None
) -> tuple[int, Bools]:
    if truncated not in {"raise", "end", "cut"}:
        raise UsageError(f"truncated= must be 'raise', 'end' or 'cut'. Got {truncated!r} instead.")
    longest = int(lengths.max())
    if horizon is not None:
        if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
            raise UsageError(f"horizon= must be an int of at least 1. Got {horizon!r} instead.")
        if longest > horizon:
            raise DataError(
                f"an episode has {longest} steps, more than horizon={horizon}. Raise horizon=, or leave "
                "it out and call .first(steps) on the log."
            )
        longest = int(horizon)
    if terminated is None:
        return longest, lengths < longest
    return longest, episodes.termination(terminated, lengths, "terminated")


def _treated(log: Trajectories, lengths: Ints, truncated: str, *, flagged: bool) -> Trajectories:
    """Deal with episodes whose last rewards are missing."""
    missing = ~log.ended & (lengths < log.horizon)
    if not flagged or not missing.any():
        return log
    count, shortest = int(missing.sum()), int(lengths[missing].min())
    if truncated == "raise":
        raise NotIdentifiedError(
            f"{count:,} of {log.n:,} episodes end before the horizon of {log.horizon} steps without "
            f"having terminated (first: episode {int(missing.argmax())}): their later rewards are "
            "missing, and the value up to the horizon is not identified without a model of them. Use "
            f"truncated='cut' to evaluate the first {shortest} steps, which every episode has, or "
            "truncated='end' to count missing rewards as 0."
        )
    if truncated == "cut":
        note = f"cut at {shortest} steps: {count:,} episodes were truncated"
        return replace(log.first(shortest), notes=(note,))
    note = f"rewards after the truncation of {count:,} episodes are counted as 0"
    return replace(log, ended=log.ended | missing, notes=(note,))
