"""`Steps`: decisions kept flat, unit after unit, of which episodes and slates are made; in memory, or in blocks.

Where contexts are elsewhere (`passes`), what is narrow is held: actions, rewards, propensities, columns of units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from offpolicy._arrays import picked, some_of
from offpolicy._doors import door
from offpolicy.logs.columns import NOT_GIVEN, HasRows
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.kinds import HasKinds, space_of
from offpolicy.logs.layout import Layout
from offpolicy.logs.metrics import HasMetrics
from offpolicy.logs.reader import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.kinds import ActionSpace, UnitKind

ARRAYS = (
    "action", "reward", "ended", "propensity", "distribution", "cluster", "weight", "fold", "unit", "row_order",
    "eligible",
)  # fmt: skip


class Passes(Protocol):
    """Passes over rows that are elsewhere."""

    @property
    def fit_rows(self) -> int:
        """Most decisions that models are fitted to."""

    @property
    def roles(self) -> Any:
        """What the columns are."""

    @property
    def extra(self) -> tuple[str, ...]:
        """Columns that policies name."""

    def blocks(self) -> Iterator[Any]:
        """Logs in memory of whole units, in order."""

    def log(self, frame: Any, first: int = 0) -> Any:
        """A log in memory of some of the rows."""

    def coded(self, block: Any) -> Any:
        """A part of the log whose text columns know all values of the whole."""

    def each(self, task: Any, of: Any, folds: Any) -> Iterator[Any]:
        """What a task makes of each block, as a part of a log, in order: here, or where the rows are."""


@dataclass(frozen=True, eq=False)
class Steps(HasMetrics, HasRows, HasKinds):
    """Units of several decisions; `Trajectories` and `Slates` say what they are."""

    context: Context
    actions: tuple[Label, ...]
    action: Ints
    reward: Floats
    layout: Layout
    horizon: int
    ended: Bools
    propensity: Floats | None = None
    distribution: Floats | None = None
    cluster: Ints = NOT_GIVEN
    weight: Floats = NOT_GIVEN
    count: Floats = NOT_GIVEN
    batch: Ints = NOT_GIVEN
    fold: Ints | None = None
    unit: Ints | None = None
    source: Any = None
    names: Names = field(default_factory=Names)
    notes: tuple[str, ...] = ()
    unbounded: bool = False
    row_order: Ints | None = None  # row of the frame each step came from, when they were sorted
    further: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    eligible: Any = None  # (S, K) actions that could be taken, where not all could
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)  # where it was read
    undecided: bool = False
    passes: Passes | None = field(default=None, repr=False)  # over contexts that are elsewhere
    own_kind: UnitKind | None = field(default=None, repr=False)  # a kind of unit that is not the library's
    chosen: Ints | None = field(default=None, repr=False)  # which units of the passes these are; None: all
    outcomes: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of metrics seen in part

    half: ClassVar[None] = None
    batch_labels: ClassVar[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        self._keep(self.layout.n_units, ARRAYS)

    @property
    def unit_kind(self) -> UnitKind:
        """What a unit is, and what follows from it."""
        return super().unit_kind if self.own_kind is None else self.own_kind

    @property
    def space(self) -> ActionSpace:
        """What an action is: a label."""
        return space_of(self.actions)

    @property
    def in_memory(self) -> bool:
        """Whether the contexts are held."""
        return self.passes is None

    @property
    def n(self) -> int:
        """Units."""
        return self.layout.n_units

    @property
    def units(self) -> Ints:
        """(n,) numbers of the units (of their clusters), from which folds follow."""
        return np.arange(self.n, dtype=np.int64) if self.unit is None else self.unit

    @property
    def is_discrete(self) -> bool:
        """Whether states are ids (a table of distinct states and an index into it)."""
        return self.context.index is not None

    @property
    def bootstrapped(self) -> Ints:
        """Rows after which rewards are missing: the last steps of truncated episodes."""
        lengths = lengths_of(self.layout)
        open_ended = ~self.ended if self.unbounded else ~self.ended & (lengths < self.horizon)
        return np.asarray(self.layout.offsets[1:][open_ended] - 1)

    @classmethod
    def scan(cls, source: Any, *, way: str = "auto", **given: Any) -> Any:
        """Open a log of episodes or slates that is larger than memory, or that lives in an engine.

        Parameters
        ----------
        source : path or pattern, DuckDB relation or connection, Arrow dataset, Ibis table, Spark DataFrame
            One row per step or slot, in any order: the engine sorts by episode and step, or by slate and position.
        way : {"auto", "rows", "stream"}
            All units in memory, or blocks of whole units one after another, of which only actions, rewards,
            propensities and predictions stay. It is a matter of speed: the answer is the same. "auto" streams beyond
            ``max_rows`` rows.
        **given
            The roles of ``from_frame``, of which ``step`` is needed, and ``eligible`` and ``candidates`` are for tables
            in memory; and the options of `offpolicy.engines.reading.Reading` (``engine=``, ``memory_limit=``,
            ``chunk_rows=``, …).

        Examples
        --------
        >>> import pandas as pd, offpolicy as op
        >>> frame = pd.DataFrame({"id": [7, 7, 8], "t": [0, 1, 0], "s": [0.5, 1.5, 0.1], "a": [0, 1, 1],
        ...                       "r": [1.0, 0.5, 0.0], "p": [0.5, 0.5, 0.5]})
        >>> shared = {"action": "a", "reward": "r", "propensity": "p"}
        >>> episodes = op.Trajectories.scan(frame, episode="id", step="t", state=["s"], **shared)
        >>> slates = op.Slates.scan(frame, slate="id", position="t", context=["s"], **shared)
        >>> episodes.n, episodes.actions, slates.n
        (2, (0, 1), 2)
        """
        return door("scan of units")(cls, source, way, given)

    def take(self, units: Array) -> Self:
        """The log of these units only (positions or a mask); actions and states keep their codes."""
        chosen = np.asarray(units)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return self._pick(chosen, self.layout.rows_of(chosen), self.layout.subset(chosen))

    def _pick(self, units: Array, rows: Ints, layout: Layout) -> Self:
        def pick(values: Any, at: Array) -> Any:
            return picked(values, at)

        return replace(
            self,
            context=some_rows(self.context, rows),
            action=self.action[rows],
            reward=self.reward[rows],
            further={name: values[rows] for name, values in self.further.items()},
            outcomes={name: held.take(rows) for name, held in self.outcomes.items()},
            layout=layout,
            ended=self.ended[units],
            propensity=pick(self.propensity, rows),
            distribution=pick(self.distribution, rows),
            cluster=some_of(self.cluster, units),
            weight=some_of(self.weight, units),
            count=some_of(self.count, units),
            batch=some_of(self.batch, units),
            fold=picked(self.fold, (slice(None), units)),
            unit=self.units[units],
            source=None if self.source is None else Columns(self.source).rows(rows),
            row_order=None,
            eligible=pick(self.eligible, rows),
            chosen=self._of_passes(units),
        )

    @property
    def own_context(self) -> Context:
        """What was logged before each decision."""
        return self.context

    def with_levels(self, levels: dict[str, list[Any]]) -> Self:
        """The same log with all values of its text columns, also those of other parts of the log."""
        return replace(self, context=replace(self.context, levels=levels))

    # -- contexts that are elsewhere -----------------------------------------------------------------

    def _of_passes(self, units: Array) -> Ints | None:
        """Which units of the passes some of these are."""
        if self.passes is None:
            return None
        return np.asarray(units) if self.chosen is None else self.chosen[units]

    @property
    def roles(self) -> Any:
        """What the columns are; None where contexts are held."""
        return None if self.passes is None else self.passes.roles

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name: those that were asked for when the log was opened."""
        return self._passes.extra

    @property
    def fit_rows(self) -> int:
        """Most decisions that models are fitted to."""
        return self._passes.fit_rows

    @property
    def logs_distribution(self) -> bool:
        """Whether the probabilities of all actions were logged."""
        return bool(self.roles.distribution)

    @property
    def _passes(self) -> Passes:
        assert self.passes is not None
        return self.passes

    def blocks(self) -> Iterator[Self]:
        """Whole units with their contexts, in order: one block, where these are in memory."""
        if self.passes is None:
            yield self
            return
        first = 0
        for block in self.passes.blocks():
            here, _ = self.part(block, first)
            first += block.n
            if here.n:
                yield here

    def run(self, task: Callable[..., Any], folds: Any) -> Iterator[Any]:
        """What a task makes of each block and the folds of its units, in order: here, or where the rows are."""
        if self.passes is None:
            yield task(self, folds)
            return
        yield from self.passes.each(task, self.sent(self.passes), folds)

    def sent(self, passes: Any) -> Self:
        """The log as it goes to other machines: without rows, and with what makes blocks there."""
        none: Any = np.empty(0)
        empty = Context(np.empty((0, 0)), None, self.own_context.names)
        return replace(
            self,
            action=none,
            reward=none,
            further={},
            propensity=None,
            eligible=None,
            context=empty,
            passes=passes.rows,
        )

    def part(self, block: Any, first: int) -> tuple[Any, slice]:
        """A block of the passes as a part of this log, and which of its units; ``first`` is that of the passes."""
        here, start, stop = self._as_this(block), first, first + block.n
        if self.chosen is not None:
            start, stop = (int(place) for place in np.searchsorted(self.chosen, [first, first + block.n]))
            here = self._passes.coded(here.take(self.chosen[start:stop] - first))
        units = slice(start, stop)
        fold = picked(self.fold, (slice(None), units))
        return self._shaped(replace(here, cluster=self.cluster[units], fold=fold), self.ended[units]), units

    def gathered(self, blocks: list[Any]) -> Self:
        """One log in memory of the units of some blocks."""
        import pandas as pd

        frame = pd.concat([block.source for block in blocks], ignore_index=True)
        made = self._as_this(self._passes.log(frame))
        whole: Self = self._shaped(made, np.concatenate([block.ended for block in blocks]))
        return whole

    def _as_this(self, block: Any) -> Any:
        """A block for the same question as this log."""
        return self._passes.coded(block.with_reward(self.names.reward))

    def _shaped(self, block: Any, ended: Bools) -> Any:
        """A part of this log: of its horizon, and never of single decisions where the whole is not."""
        layout = block.layout
        if layout.is_single and not self.layout.is_single:
            layout = Layout(lengths_of(layout), layout.n_units, layout.link)
        return replace(block, layout=layout, ended=ended, horizon=self.horizon, unbounded=self.unbounded)


def lengths_of(layout: Layout) -> Ints:
    """(N,) decisions of each unit."""
    return np.ones(layout.n_units, dtype=np.int64) if layout.lengths is None else layout.lengths


def elsewhere(rows: int, names: tuple[str, ...] | None, load: Callable[[str], Array]) -> Context:
    """A context that is not held, of which single columns can be asked for."""
    return Context(np.empty((rows, 0)), None, names, {}, load)


def some_rows(context: Context, rows: Ints) -> Context:
    """Some rows of a context, held or not."""
    if context.load is None:
        return context.take(rows)
    return elsewhere(len(rows), context.names, partial(_some, context.load, rows))


def _some(load: Callable[[str], Array], rows: Ints, name: str) -> Array:
    return load(name)[rows]
