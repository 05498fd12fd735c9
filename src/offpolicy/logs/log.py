"""What every log is, whatever a unit and an action are: facts, columns and `blocks`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.frame import Context
    from offpolicy.logs.kinds import ActionSpace, UnitKind
    from offpolicy.logs.layout import Layout
    from offpolicy.logs.reader import Names

#: How a note begins that is for authors of estimators: frames and JSON have it, printed tables leave it out.
DETAIL = "detail: "


class Described(Protocol):
    """What a log says of itself, whether it is in memory, in blocks or behind an engine."""

    @property
    def kind(self) -> str:
        """What a unit is: "bandit", "trajectories" or "slates"."""

    @property
    def unit_kind(self) -> UnitKind:
        """What a unit is, and what follows from it."""

    @property
    def space(self) -> ActionSpace:
        """What an action is, and what follows from it."""

    @property
    def decides_once(self) -> bool:
        """Whether a unit is one decision, whatever the log."""

    @property
    def leads_on(self) -> bool:
        """Whether one decision leads to the next, as in episodes."""

    @property
    def shows_items(self) -> bool:
        """Whether the decisions of a unit are items shown together, as in slates."""

    @property
    def in_memory(self) -> bool:
        """Whether the contexts are held."""

    @property
    def n(self) -> int:
        """Units that the log stands for."""

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions; none where actions are numbers."""

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""

    def with_reward(self, name: str) -> Self:
        """The same log with another of its metrics as the reward."""

    def up_to(self, steps: int) -> Any:
        """The same log for the value of up to ``steps`` decisions of a unit."""


class OfDecisions(Protocol):
    """Columns of the S decisions of a log."""

    @property
    def rows(self) -> int:
        """Decisions held."""

    @property
    def layout(self) -> Layout:
        """Which decisions belong to which unit."""

    @property
    def context(self) -> Context:
        """What was known before each decision."""

    @property
    def action(self) -> Any:
        """(S,) codes of the logged actions, or the numbers."""

    @property
    def reward(self) -> Floats:
        """(S,) what the actions earned."""

    @property
    def further(self) -> Mapping[str, Floats]:
        """Other rewards of the same decisions."""

    @property
    def metrics(self) -> dict[str, Floats]:
        """Every reward by its name, the one that ``reward`` holds first."""

    @property
    def propensity(self) -> Any:
        """(S,) probability of the logged action; None when unknown."""

    @property
    def distribution(self) -> Any:
        """(S, K) the logging policy's whole distribution; None when it was not logged."""

    @property
    def eligible(self) -> Any:
        """(S, K) actions that could be taken; None: all could."""

    @property
    def row_order(self) -> Ints | None:
        """Row of the frame that each decision came from, where they were sorted."""

    @property
    def source(self) -> Any:
        """The frame that the log was built from."""

    @property
    def action_range(self) -> Any:
        """(low, high) of actions that are numbers; None where they are labels."""

    @property
    def is_discrete(self) -> bool:
        """Whether states are ids: a table of distinct states and an index into it."""

    @property
    def bootstrapped(self) -> Ints:
        """Rows after which rewards are missing."""


class OfUnits(Protocol):
    """Columns of the n units of a log."""

    @property
    def units(self) -> Ints:
        """(n,) numbers from which folds follow."""

    @property
    def batch(self) -> Ints:
        """(n,) codes of the batches; −1 where there are none."""

    @property
    def batch_labels(self) -> tuple[Any, ...]:
        """Labels of the batches, sorted."""

    @property
    def cluster(self) -> Ints:
        """(n,) codes of the clusters; −1 where units are independent."""

    @property
    def weight(self) -> Floats:
        """(n,) analysis weights."""

    @property
    def count(self) -> Floats:
        """(n,) how many identical rows a row stands for."""

    @property
    def mass(self) -> Floats:
        """(n,) weight in means: count × analysis weight."""

    @property
    def fold(self) -> Any:
        """(R, n) fold labels that the log carries."""

    @property
    def half(self) -> Any:
        """(R, n) scored halves that the log carries."""

    @property
    def ended(self) -> Bools:
        """(n,) units that are over with their last decision."""

    @property
    def is_counted(self) -> bool:
        """Whether the log says how many rows each stands for."""

    @property
    def is_weighted(self) -> bool:
        """Whether units have analysis weights."""

    @property
    def has_clusters(self) -> bool:
        """Whether units come in clusters."""

    @property
    def has_batches(self) -> bool:
        """Whether the log says which batch a unit is of."""


class Log(Described, OfDecisions, OfUnits, Protocol):
    """Logged decisions, in memory or in blocks: what every room may ask of them.

    `BanditLog`, `Trajectories` and `Slates` are logs.
    """

    @property
    def names(self) -> Names:
        """What the parts of the log are called by their owner."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any estimate should know."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Where the log was read, and how."""

    @property
    def horizon(self) -> int:
        """Decisions of a unit that its value counts (the paper's T + 1)."""

    @property
    def unbounded(self) -> bool:
        """Whether the value is that of whole units, however long."""

    @property
    def outcomes(self) -> Mapping[str, Any]:
        """What is seen of rewards that are not seen in every row, by metric."""

    def with_rewards(self, rewards: Mapping[str, Floats]) -> Self:
        """The same log with other numbers for some of its metrics."""

    @property
    def undecided(self) -> bool:
        """Whether what a reward depends on is to be chosen when the log is evaluated."""

    def estimand(self, discount: float = 1.0) -> str:
        """Which value estimates from this log are about."""

    def take(self, units: Array, /) -> Any:
        """The log of these units only."""

    def blocks(self) -> Iterator[Any]:
        """The log, block by block."""

    def opened(self, *columns: Any) -> Any:
        """The log, ready to be read."""

    def whole(self) -> Any:
        """The log itself: it is in memory."""


class Scan(Described, Protocol):
    """A log that stays where it is: facts about it, until `opened` makes it a log."""

    @property
    def action_features(self) -> Any:
        """What is known of each action besides its name."""

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the rewards, the first of which is the log's."""

    @property
    def roles(self) -> Any:
        """What the columns are."""

    def opened(self, plan: Any, named: Any, model: Any, behavior_model: Any, /) -> Any:
        """The log in the smallest exact form that fits."""

    def whole(self) -> Any:
        """All of it in memory: rows, or weighted cells."""


L = TypeVar("L", bound=Log)


def changed(log: L, **columns: Any) -> L:
    """The same log with other columns."""
    made: L = replace(cast("Any", log), **columns)
    return made
