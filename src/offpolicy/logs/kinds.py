"""The protocols of kinds: what an action is (`ActionSpace`), a unit (`UnitKind`), a weight (`Ratio`); and their table.

A log holds its space and its kind of unit, as ``log.space`` and ``log.unit_kind``, and a question its ratio; whoever
would ask which kind it has calls them instead. The kinds themselves stand in `offpolicy.kinds`, one file each, to the
right of all that they hand over; `KINDS` says where. An action space of your own is given as ``actions=``, a unit as
``episode=``, a ratio as ``ratio=``.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.link import Link
    from offpolicy.logs.log import Log, Scan

ActionKind: TypeAlias = Literal["discrete", "continuous"]

#: Where each kind stands: a class of action spaces by ``action_kind=``, an object by ``log.kind`` or ``ratio=``.
KINDS: dict[str, Any] = {
    "discrete": "offpolicy.kinds.labels:Labels",
    "continuous": "offpolicy.kinds.numbers:Numbers",
    "bandit": "offpolicy.kinds.single:SINGLE",
    "trajectories": "offpolicy.kinds.episodes:EPISODES",
    "slates": "offpolicy.kinds.slots:SLOTS",
    "exact": "offpolicy.kinds.exact:EXACT",
    "auto": "offpolicy.kinds.cells:AUTO",
    "marginal": "offpolicy.kinds.marginal:Marginal",
}


def kind_called(name: str) -> Any:
    """The kind of a name, imported when it is first asked for.

    >>> kind_called("slates").unit
    'slate'
    """
    entry = KINDS[name]
    if isinstance(entry, str):
        module, _, attribute = entry.partition(":")
        entry = KINDS[name] = getattr(import_module(module), attribute)
    return entry


@dataclass(frozen=True, eq=False)
class Logged:
    """The column of logged actions: its name, its values as they are, and as numbers."""

    name: str
    values: Callable[[], Array]
    numbers: Callable[[], Floats]


class ActionSpace:
    """What an action is. `Labels` and `Numbers` are the library's own; one of yours is given as ``actions=``.

    What a space does not say itself is what labels do.
    """

    #: Whether an action is one of K, each with a probability: whether actions can be listed, counted and merged.
    finite: ClassVar[bool] = True
    #: Whether the logged column is read as numbers.
    numeric: ClassVar[bool] = False
    #: Why what is said of each of K actions does not apply; empty where actions can be listed.
    why_not: ClassVar[str] = ""
    #: What the logging policy's numbers are called.
    propensities: ClassVar[str] = "propensities"
    #: The sensible estimators, and what "auto" is; none: those of the kind of unit.
    default: ClassVar[tuple[str, ...]] = ()
    auto: ClassVar[Any] = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The K actions; none where they cannot be listed."""
        return ()

    @property
    def span(self) -> tuple[float, float] | None:
        """Smallest and largest action that is a number; None where there is no such thing."""
        return None

    def ends(self, center: Floats) -> tuple[Any, Any]:
        """Where windows around some actions end, whatever their width."""
        return self.span or (0.0, 0.0)

    def check_given(self, given: Mapping[str, Any]) -> None:
        """Refuse arguments of a log that make no sense beside these actions; None stands for one left out."""

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, logged: Logged) -> tuple[ActionSpace, Array]:
        """The space of a log's actions, and what the log holds of each: codes, or numbers."""
        raise NotImplementedError

    def scanned(self, values: Array, times: list[int], name: str) -> ActionSpace:
        """The same from queries: distinct values and how often each occurs; of numbers the smallest and largest."""
        raise NotImplementedError

    def encode(self, values: Array) -> Array:
        """What a log holds of some logged values, the space being known."""
        raise NotImplementedError

    def whole_columns(self, propensity: Any) -> list[str]:
        """Columns of a whole logging distribution, in the order of the actions."""
        raise NotImplementedError

    def whole(self, propensity: Array, n: int) -> Array:
        """A whole logging distribution that was given as an array of several columns."""
        raise NotImplementedError

    def logged_propensity(self, values: Any, action: Any, name: str) -> tuple[Any, Any]:
        """Propensities of logged actions, checked, and the whole distribution; None where there is none."""
        raise NotImplementedError

    def described(self, name: str) -> str:
        """The actions in a few words; ``name`` is what the owner calls them."""
        raise NotImplementedError

    # -- policies, models and ratios -----------------------------------------------------------------------------

    def is_one_policy(self, given: Any) -> bool:
        """Whether a mapping is one policy, and not several by name."""
        return False

    def adapted(self, name: str, policy: Any, surface: Any) -> Any:
        """A policy from whichever form it came in."""
        raise NotImplementedError

    def resolve(self, name: str, policy: Any, log: Log) -> Any:
        """The policy on the rows of a log: a `Target`."""
        raise NotImplementedError

    def ratio(self, asked: Any) -> Any:
        """What ``ratio="exact"`` and ``"auto"`` stand for, where that is another ratio."""
        return asked

    def predict(self, *asked: Any) -> tuple[Floats, dict[str, Floats]]:
        """Q at the logged actions and v of each target, from a fitted reward model."""
        raise NotImplementedError

    def behavior_model(self, spec: Any) -> Any:
        """What is fitted where π_b was not logged: a model of probabilities, or of densities."""
        raise NotImplementedError

    def beside(self, log: Log) -> Any:
        """Columns that reward models read of an action besides its name; None where there are none."""
        return None

    # -- checks --------------------------------------------------------------------------------------------------

    def binned(self, log: Log) -> Any:
        """The log with labels for actions, for checks that compare actions with each other."""
        return log

    def hashed(self, action: Any) -> Any:
        """(n,) hash of each action, the same on every path."""
        raise NotImplementedError


@runtime_checkable
class UnitKind(Protocol):
    """What a unit is: `Single`, `Episodes`, `Slots`, or your own.

    Your own stands where the column of episodes is named, which it names itself:
    ``Trajectories.from_frame(frame, episode=Visits(column="visit"), …)``.
    """

    name: str
    unit: str  # one of them, in words
    decision: str  # one decision of a unit, in words
    argument: str  # what the models of the reward are called: reward_model or value_model
    decides_once: bool  # whether a unit is one decision, whatever the log
    leads_on: bool  # whether one decision leads to the next
    shows_items: bool  # whether the decisions of a unit are items shown together
    column: str | None  # of the units, where a kind is given in place of its name

    def link(self, horizon: int) -> Link | None:
        """Which decisions a reward answers to; None: all up to its own, and one leads to the next."""
        ...

    def check(self, question: Any) -> None:
        """Refuse arguments of a question that make no sense for these units."""

    def settings(self, log: Log, discount: float) -> dict[str, Any]:
        """Which value the log speaks of, for the settings of a result."""
        ...

    def estimators(self, log: Log) -> tuple[str, ...]:
        """Names of the estimators to use when none are asked for."""
        ...

    def auto(self, log: Log) -> Any:
        """What the estimator "auto" is here; None: what it is for single decisions."""
        ...

    def value_model(self, log: Log) -> Any:
        """The model of q where none is asked for; None where that is the reward model's business."""
        ...

    def folds(self, log: Log) -> int:
        """How many folds to use when their number is not asked for."""
        ...

    def behavior_model(self, log: Log, spec: Any) -> Any:
        """The model of π_b where "auto", "shares" or none is asked for; None: that of single decisions."""
        ...


class Ratio:
    """What is weighted. The library's own are the files `exact`, `cells`, `kernel` and `marginal` of `offpolicy.kinds`.

    What a ratio does not say itself is what the ratio of the logged actions does.
    """

    @property
    def asked(self) -> Any:
        """What ``ratio=`` says to ask for it."""
        return self

    @property
    def key(self) -> Any:
        """What columns depend on; None where they are those of the logged actions."""
        return self

    @property
    def marginal(self) -> Any:
        """Ratios of state-action marginals, or their model; None where the library fits them if need be."""
        return None

    def cells(self, log: Log | Scan) -> Any:
        """Cells of actions that share a weight, before any model is fitted; None: each action has its own.

        Raises UsageError for a log that the ratio is not for.
        """
        return None

    def smoothed(self, policies: dict[str, Any], trials: Any) -> dict[str, Any]:
        """Policies as the ratio can weigh them; `offpolicy.trust.check.Trials` tries some on the log."""
        return policies

    def decided(self, targets: Mapping[str, Any], trials: Any) -> tuple[Ratio, str]:
        """The ratio that the log decides for, and why; itself where there is nothing to decide."""
        return self, ""

    def settings(self, policies: Mapping[str, Any]) -> dict[str, Any]:
        """What the settings of a result say besides its name."""
        return {}


def ratio_of(asked: Any, log: Log | Scan) -> Ratio:
    """The ratio that ``ratio=`` stands for on a log."""
    asked = log.space.ratio(asked)
    if isinstance(asked, Ratio):
        return asked
    made: Ratio
    if isinstance(asked, str) and asked in {"exact", "auto"}:
        made = kind_called(asked)
        return made
    if is_marginal(asked):
        made = kind_called("marginal")(asked)
        return made
    if isinstance(asked, type):
        raise UsageError(f"ratio= is the class {asked.__name__}. Give an instance: {asked.__name__}(…).")
    raise UsageError(
        f"ratio= must be 'exact', 'auto', op.CoarseRatio([…]) or op.KernelRatio(…). Got {asked!r} instead."
    )


def is_marginal(asked: Any) -> bool:
    """Whether ``ratio=`` speaks of ratios of state-action marginals."""
    return isinstance(asked, np.ndarray | list | tuple | MappingABC) or hasattr(asked, "fit_ratio")


def own_kind(given: str | UnitKind) -> tuple[str, UnitKind | None]:
    """The column of units, and the kind that was given in its place."""
    if isinstance(given, str):
        return given, None
    if not isinstance(given, UnitKind) or given.column is None:
        raise UsageError(f"name the column of units, or give a kind of unit that names it. Got {given!r} instead.")
    return given.column, given


def like_actions(space: ActionSpace, action: Any) -> Ints:
    """(n,) codes of groups of like actions: each label is one, all numbers are one."""
    return np.asarray(action) if space.finite else np.zeros(len(action), dtype=np.int64)


def unit_word(log: Log | Scan | HasKinds, *, plural: bool = False) -> str:
    """The units of a log in words."""
    return f"{log.unit_kind.unit}{'s' if plural else ''}"


def decision_word(log: Log | Scan | HasKinds, *, plural: bool = False) -> str:
    """The decisions of its units in words."""
    return f"{log.unit_kind.decision}{'s' if plural else ''}"


class HasKinds:
    """What every log and scan says of its kinds."""

    @property
    def unit_kind(self) -> UnitKind:
        """What a unit is, and what follows from it."""
        own: Any = self
        made: UnitKind = kind_called(own.kind)
        return made

    @property
    def decides_once(self) -> bool:
        """Whether a unit is one decision, whatever the log."""
        return self.unit_kind.decides_once

    @property
    def leads_on(self) -> bool:
        """Whether one decision leads to the next, as in episodes."""
        return self.unit_kind.leads_on

    @property
    def shows_items(self) -> bool:
        """Whether the decisions of a unit are items shown together, as in slates."""
        return self.unit_kind.shows_items

    @property
    def action_range(self) -> tuple[float, float] | None:
        """Range of actions that are numbers; None where they are labels."""
        own: Any = self
        span: tuple[float, float] | None = own.space.span
        return span


def space_of(actions: Any, action_kind: Any = "discrete") -> ActionSpace:
    """The space that ``actions=`` and ``action_kind=`` stand for, before any row is read."""
    if isinstance(actions, ActionSpace):
        return actions
    if action_kind not in get_args(ActionKind):
        raise UsageError(f"action_kind= must be 'discrete' or 'continuous'. Got {action_kind!r} instead.")
    made: ActionSpace = kind_called(action_kind)(actions)
    return made
