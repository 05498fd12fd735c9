"""`Trajectories`: logged episodes (S_0, A_0, R_0, …, S_T, A_T, R_T), checked once and kept flat.

Steps are stored one episode after the other with the length of each, so that ragged episodes are never
padded. An episode of one step is an impression: a log in which every episode has one step is a bandit log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from offpolicy._arguments import checks_arguments, takes
from offpolicy._visible import printable
from offpolicy.errors import DataError, NotIdentifiedError
from offpolicy.logs import checks, episodes
from offpolicy.logs.endings import TREATMENTS, describe, endings, whole_steps
from offpolicy.logs.frame import Context
from offpolicy.logs.given import check_given, own_copy
from offpolicy.logs.kinds import Logged, space_of
from offpolicy.logs.layout import Layout
from offpolicy.logs.outcome import Given, held_outcomes
from offpolicy.logs.reader import Names, labelled, measured, read, settled
from offpolicy.logs.roles import EPISODES, Roles, StepRoles
from offpolicy.logs.steps import Steps, lengths_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy._arguments import Rows
    from offpolicy._arrays import Array, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.endings import Ending
    from offpolicy.logs.kinds import UnitKind


@dataclass(frozen=True, eq=False)
class Trajectories(Steps):
    """A log of episodes. Build it with `from_frame` or `from_arrays`.

    **Which value.** A log says how its episodes ended, and the value follows from it; `estimand` says it in words.

    - ``horizon=H``: the value of up to H steps. Longer episodes are cut there.
    - every episode ended by itself (all ``terminated``, or no flags and lengths without a common end): the
      value of whole episodes, however long, also beyond the longest that was logged.
    - episodes that were cut off all have the longest length (a time limit; without flags: more episodes share
      the longest length than would by chance): the value of up to that many steps.
    - episodes that were cut off earlier: their later rewards are missing. That raises, unless ``truncated=``
      says what to do: "bootstrap" (the value of whole episodes, the value model standing in for what follows the
      last state of a truncated one), "cut" (the value of the steps that every truncated episode still has) or
      "end" (missing rewards count as 0).

    ``truncated`` may also be flags, as Gymnasium gives them: they mark the episodes that were cut off, which are
    then a time limit when all have the longest length, and bootstrapped otherwise.

    Attributes
    ----------
    actions : tuple of labels
        The K actions, in the order of every (steps, K) array.
    action, reward : (S,) arrays
        Codes of the logged actions and their rewards, episode after episode.
    further : {name: (S,) array}
        Other rewards of the same steps; ``metrics`` holds all, the first being ``reward``.
    propensity : (S,) array or None
        Probability with which each logged action was taken; None when unknown.
    distribution : (S, K) array or None
        The logging policy's whole distribution, when it was logged.
    layout : Layout
        Lengths of the episodes; ``layout.unit`` and ``layout.step`` say where a step belongs.
    horizon : int
        Steps that the value counts (the paper's T + 1); the longest logged episode where nothing limits them.
    unbounded : bool
        Whether the value is that of whole episodes, however long.
    ended : (N,) bool array
        Episodes that are over with their last step.
    cluster, weight : (N,) arrays
        Codes of the clusters (−1: none) and analysis weights (1: none), one entry per episode.
    fold : (R, N) array or None
        Fold labels that the log carries.

    Examples
    --------
    >>> log = Trajectories.from_arrays([[0, 1], [1]], [[0, 1], [1]], [[1.0, 0.0], [2.0]])
    >>> log.n, log.horizon, log.layout.lengths.tolist()
    (2, 2, [2, 1])
    """

    kind: ClassVar[str] = "trajectories"

    def estimand(self, discount: float = 1.0) -> str:
        """Which value estimates from this log are about.

        >>> Trajectories.from_arrays([[0, 1], [1, 0]], [[0, 1], [1, 0]], [[1.0, 0.0], [2.0, 1.0]]).estimand()
        'value of up to 2 steps, γ = 1'
        """
        return describe(self.horizon, discount, unbounded=self.unbounded)

    def up_to(self, steps: int) -> Trajectories:
        """The same log for the value of up to ``steps`` steps, fewer or more than the longest episode has."""
        limit = whole_steps(steps, "horizon=")
        lengths = lengths_of(self.layout)
        if limit < int(lengths.max()):
            return self.first(limit)
        open_ended = ~self.ended & (lengths < limit)
        if open_ended.any() and not len(self.bootstrapped):
            raise NotIdentifiedError(
                f"{int(open_ended.sum()):,} of {self.n:,} episodes may go on after their last logged step, before step "
                f"{limit} (first: episode {int(open_ended.argmax())}, {int(lengths[open_ended.argmax()])} steps), so "
                f"the value of {limit} steps cannot be estimated. Mark the episodes that ended with terminated=."
            )
        return replace(self, horizon=limit, unbounded=False)

    @printable
    def __repr__(self) -> str:
        known = "logged" if self.propensity is not None else "unknown"
        states = f"{self.context.n_table:,} states" if self.is_discrete else "continuous states"
        mean = "seen in part"
        if not self.outcomes:
            mean = f"{float(np.average(self.layout.sum(self.reward), weights=self.weight)):.6g}"
        return (
            f"Trajectories({self.n:,} episodes, {self.rows:,} steps, at most {self.horizon} each, "
            f"{states}, {len(self.actions)} actions, mean return {mean}, "
            f"propensities {known})"
        )

    @checks_arguments
    def first(self, steps: int) -> Trajectories:
        """The first ``steps`` steps of every episode: the value over a shorter horizon.

        >>> log = Trajectories.from_arrays([[0, 1], [1]], [[0, 1], [1]], [[1.0, 0.0], [2.0]])
        >>> log.first(1).rows
        2
        """
        steps = whole_steps(steps, "the number of steps")
        lengths = lengths_of(self.layout)
        if not self.unbounded:
            steps = min(self.horizon, steps)
        kept = np.minimum(lengths, steps)
        rows = np.flatnonzero(self.layout.step < steps)
        cut = self._pick(np.arange(self.n), rows, Layout.ragged(kept, self.layout.link))
        return replace(cut, horizon=steps, unbounded=False, ended=self.ended & (lengths <= steps))

    def _as_this(self, block: Any) -> Any:
        made = super()._as_this(block)
        longer = not self.unbounded and made.layout.horizon > self.horizon
        return made.first(self.horizon) if longer else made

    @classmethod
    @checks_arguments
    def from_arrays(
        cls,
        states: Rows | None,
        actions: Rows,
        rewards: Rows | Mapping[str, Rows],
        lengths: Rows | None = None,
        propensities: Rows | None = None,
        *,
        terminated: Any = None,
        truncated: Any = "raise",
        horizon: int | None = None,
        cluster: Any = None,
        weight: Any = None,
        fold: Any = None,
        labels: Sequence[Label] | None = None,
        discrete: bool | None = None,
        metrics: Sequence[str] | None = None,
        eligible: Any = None,
    ) -> Trajectories:
        """Build a log from arrays.

        Parameters
        ----------
        states : array, list of arrays, or None
            (n, T+1, …); or a list with one (length, …) array per episode; or (steps, …) with ``lengths``.
            Integers of shape (n, T+1) are discrete states. The state after the last action is not given.
        actions, rewards : as ``states``, one entry per step
            Labels of any type; integers 0 … K−1 are their own labels. Several rewards come as {name: rewards},
            or with a last axis of metrics.
        lengths : (n,) ints, optional
            Steps of each episode, where arrays are padded or flat.
        propensities : as ``actions``, or with a last axis of K, optional
            Probability of the logged action, or the whole distribution; None when unknown.
        terminated : one flag an episode or a step, optional
            See the class. None: every episode ends where its rewards end.
        truncated : {"raise", "bootstrap", "cut", "end"} or flags
            What to do with episodes that end before the horizon without having terminated; or one flag an
            episode or a step, true where it was cut off. See the class.
        horizon : int, optional
            Asks for the value of up to so many steps; default: as the ends of the episodes say, see the class.
        cluster, weight, fold : (n,) arrays, optional
            Unit of independence (a user with several episodes), analysis weight, fold label.
        labels : sequence, optional
            All actions, also those never logged; default: the distinct logged ones, sorted.
        discrete : bool, optional
            Whether states are ids. Default: integers are, unless nearly every row is different.
        metrics : sequence of str, optional
            Names of the last axis of the rewards.
        eligible : as ``actions`` with a last axis of K booleans, or a list of labels per step, optional
            Actions that could be taken at each step; default: all.

        Examples
        --------
        >>> import numpy as np
        >>> log = Trajectories.from_arrays(
        ...     np.array([0, 1, 1]), np.array([0, 1, 1]), np.array([1.0, 0.0, 2.0]), lengths=[2, 1]
        ... )
        >>> log
        Trajectories(2 episodes, 3 steps, at most 2 each, 2 states, 2 actions, mean return 1.5, ...)
        """
        earned = episodes.named_steps(rewards, metrics, actions)
        steps = {"actions": actions, "states": states, **earned}
        check_given({**steps, "propensities": propensities})
        check_given({"cluster": cluster, "weight": weight, "fold": fold})
        check_given({"terminated": terminated})
        shape = episodes.shape_of(actions, lengths)
        if lengths is None and labels is None:
            episodes.refuse_padding(actions)
        n_steps, taken = shape.n_steps, shape.flat(actions, "actions")
        space, codes = space_of(labels).read(Logged("actions", lambda: taken, lambda: taken))
        table = np.empty((n_steps, 0)) if states is None else own_copy(shape.flat(states, "states"))
        if table.dtype == object:
            raise DataError("'states' is an array of objects. Give numbers, or a table to from_frame.")
        if table.dtype.kind in "fc":
            bad = ~np.isfinite(table).reshape(n_steps, -1).all(axis=1)
            if bad.any():
                raise DataError(
                    f"'states': {int(bad.sum()):,} of {n_steps:,} steps have missing or infinite "
                    f"numbers (first: step row {int(bad.argmax())})."
                )
        k, whole = len(space.labels), None
        if propensities is not None:
            whole = shape.flat(propensities, "propensities").astype(np.float64)
            if whole.ndim == 2 and whole.shape[1] != k:
                raise DataError(
                    f"'propensities' has {whole.shape[1]} columns for {k} actions. "
                    "Give one per action, including those never logged (name all actions), or only that of the logged "
                    "action."
                )
        able = None if eligible is None else shape.flat(eligible, "eligible")
        distinct = episodes.distinct_states(table, discrete=discrete)
        flat = {
            name: checks.one_dimensional(shape.flat(values, name), name, "reward") for name, values in earned.items()
        }
        first = next(iter(flat))
        parts = {
            "context": Context(table) if distinct is None else Context(*distinct),
            "actions": space.labels,
            "action": codes,
            "reward": flat[first],
            "further": {name: values for name, values in flat.items() if name != first},
            "propensity": whole,
            "eligible": None if able is None else checks.eligible_mask(able, n_steps, space.labels),
            "names": Names("actions", first, "propensities"),
        }
        given = measured({"weight": weight}) | labelled({"cluster": cluster, "fold": fold})
        flags = truncated if isinstance(truncated, str) else episodes.flags_of(truncated, shape, "truncated")
        ending = endings(shape.lengths, episodes.flags_of(terminated, shape, "terminated"), flags, horizon)
        made: Trajectories = ended(cls, ending, parts, given, shape.lengths)
        return made

    @classmethod
    @checks_arguments
    @takes(StepRoles)
    def from_frame(
        cls,
        frame: Any,
        *,
        episode: str | UnitKind,
        state: Sequence[str] | str | None,
        action: str,
        reward: str | Sequence[str],
        step: str | None = None,
        propensity: str | Sequence[str] | None = None,
        terminated: str | None = None,
        truncated: Any = "raise",
        horizon: int | None = None,
        actions: Sequence[Label] | None = None,
        discrete: bool | None = None,
        outcome: Any = None,
        **columns: Unpack[StepRoles],
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
            The action taken and what it earned at that step; several rewards are metrics of the same steps, the
            first being the log's ``reward``.
        step : column name, optional
            0, 1, 2, … inside each episode; None: rows of an episode are in order.
        propensity : column name, list of K columns, or None
            Probability of the logged action, or the whole distribution; None when unknown.
        terminated : column name, optional
            True at a step after which the episode is over. See the class.
        truncated : {"raise", "bootstrap", "cut", "end"} or column name
            As in `from_arrays`; any other word is a column, true at a step after which the episode was cut off.
        horizon, discrete
            As in `from_arrays`.
        cluster, weight, fold : column names, optional
            Constant inside an episode.
        actions : sequence of labels, optional
            All actions, also those never logged.
        eligible : column name, optional
            A list of the actions that could have been taken, step by step; default: all.
        outcome : `Labeled`, `Delayed` or {metric: outcome}, optional
            Why rewards of steps are missing, and how they are made whole. Default: every step has its reward.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"id": [7, 7, 8], "t": [0, 1, 0], "s": [0, 1, 0], "a": [0, 1, 1],
        ...                       "r": [1.0, 0.5, 0.0], "p": [0.5, 0.5, 0.5]})
        >>> Trajectories.from_frame(frame, episode="id", step="t", state=["s"], action="a", reward="r",
        ...                         propensity="p").layout.lengths.tolist()
        [2, 1]
        """
        treatment = isinstance(truncated, str) and truncated in TREATMENTS
        roles = Roles.of(
            EPISODES,
            {
                "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
                "propensity": propensity, "terminated": terminated, "truncated": None if treatment else truncated,
                **columns,
            },
            space_of(actions),
        )  # fmt: skip
        return cls.built(frame, roles, truncated if treatment else "raise", horizon, discrete=discrete, outcome=outcome)

    @classmethod
    def built(
        cls, frame: Any, roles: Roles, treatment: str = "raise", horizon: int | None = None, *, discrete: bool | None,
        outcome: Any = None,
    ) -> Trajectories:  # fmt: skip
        """The log of a table whose columns play these roles."""
        rows = read(frame, roles, discrete=discrete)
        cut = rows.flags(roles.truncated)
        ending = endings(rows.lengths, rows.flags(roles.terminated), treatment if cut is None else cut, horizon)
        parts = {**rows.parts, "actions": rows.space.labels, "own_kind": roles.own_kind}
        if outcome is not None:
            made_of = {roles.reward: parts["reward"], **parts["further"]}
            parts["outcomes"] = held_outcomes(outcome, made_of, Given(len(rows.columns), rows.columns, roles))
        made: Trajectories = ended(cls, ending, parts, rows.given, rows.lengths, roles)
        return made


def ended(
    cls: Any, ending: Ending, parts: dict[str, Any], given: dict[str, Array], lengths: Ints, called: Any = None
) -> Any:
    """The log of parts that were read, for the value that follows from how its episodes end."""
    own: UnitKind | None = parts.get("own_kind")
    log = settled(
        cls(
            **parts,
            layout=Layout.ragged(lengths, None if own is None else own.link(int(lengths.max()))),
            horizon=ending.horizon if ending.cut is None else int(lengths.max()),
            ended=ending.ended,
            unbounded=ending.unbounded,
            notes=(ending.note,) if ending.note else (),
        ),
        given,
        called,
        unseen=parts.get("outcomes", ()),
    )
    return log if ending.cut is None else replace(log.first(ending.cut), ended=ending.ended)
