"""Slates whose contexts come in blocks: what is narrow (items, rewards, propensities) is held, what is wide is not."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.engines.slate_schema import ordered
from offpolicy.errors import DataError, UsageError
from offpolicy.logs import checks
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.interaction import Interaction
from offpolicy.logs.layout import Layout
from offpolicy.logs.slate_frame import shown_items
from offpolicy.logs.slates import UNDECIDED, Slates
from offpolicy.policies.blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.engines.slate_scan import SlateScan
    from offpolicy.engines.slate_schema import SlateRoles


@dataclass(frozen=True, eq=False)
class SlateRows:
    """Passes over the rows of a scan, in the order of slate and position."""

    scan: SlateScan
    extra: tuple[str, ...]

    def frames(self) -> Iterator[Any]:
        """Pandas frames of whole slates."""
        import pyarrow as pa

        scan, waiting = self.scan, None
        for batch in scan.engine.batches(self._rows(), scan.limits.chunk):
            rows = pa.Table.from_batches([batch])
            rows = rows if waiting is None else pa.concat_tables([waiting, rows])
            last = _start_of_last(rows[scan.roles.slate])
            if last:
                yield rows.slice(0, last).to_pandas()
            waiting = rows.slice(last)
        if waiting is not None and waiting.num_rows:
            yield waiting.to_pandas()

    def blocks(self) -> Iterator[Slates]:
        """Whole slates, under the interaction that was asked for."""
        first = 0
        for frame in self.frames():
            log = self.scan.schema.log(frame, first)
            if log.row_order is not None:
                raise UsageError(
                    f"column {self.scan.roles.slate!r}: {self.scan.engine.name} sorts this text in an order of its "
                    "own. Give slates whole numbers, or read the log with way='rows'."
                )
            yield log
            first += len(frame)

    @property
    def blocks_are_undecided(self) -> bool:
        """Whether the interaction is to be chosen when the log is evaluated."""
        asked = self.scan.roles.interaction
        return isinstance(asked, str) and asked == UNDECIDED

    def column(self, name: str) -> Array:
        """One column of all rows."""
        rows = self.scan.engine.table(self._rows().select(name))
        return Columns(rows).values(name)

    def _rows(self) -> Any:
        return ordered(self.scan.table, self.scan.roles, self.extra)


def _start_of_last(slate: Any) -> int:
    """Row at which the last slate of some rows starts, whose end may not have come yet."""
    import pyarrow.compute as pc

    if len(slate) == 0:
        return 0
    same = pc.fill_null(pc.equal(slate, slate[len(slate) - 1]), fill_value=False)
    other = np.flatnonzero(~np.asarray(same.to_numpy(), dtype=bool))
    return int(other[-1]) + 1 if len(other) else 0


@dataclass(frozen=True, eq=False)
class StreamedSlates(Slates):
    """A log of slates without its contexts, which `blocks` gives.

    Attributes
    ----------
    passes : SlateRows
        Passes over the rows.
    chosen : (n,) int array or None
        Which slates of the passes these are, in order; None: all.
    """

    passes: SlateRows | None = None
    chosen: Ints | None = None

    in_memory: ClassVar[bool] = False

    @classmethod
    def of(cls, passes: SlateRows) -> StreamedSlates:
        """What is narrow of all slates, each of which is checked in this pass."""
        scan, parts = passes.scan, []
        heads: list[Slates] = []
        for block in passes.blocks():
            heads = heads or [block.take(np.arange(1))]
            parts.append(_narrow(block, scan.roles))
        head = heads[0]
        whole = {name: _together([part[name] for part in parts]) for name in parts[0]}
        starts = {part["start"] for part in parts}
        if len(starts) > 1:
            raise DataError(
                f"column {scan.roles.position!r}: some slates start at position {max(starts)}, others at "
                f"{min(starts)}. A slate whose beginning is missing cannot be weighted; drop it, or renumber "
                f"{scan.roles.position!r} in each {scan.roles.slate!r}."
            )
        _, cluster = checks.coded(whole["cluster"], scan.roles.cluster or "cluster", "cluster")
        _, fold = checks.coded(whole["fold"], "fold", "fold")
        assert head.bare is not None
        rows, lengths = len(whole["action"]), whole["lengths"]
        fields = {each.name: getattr(head, each.name) for each in dataclasses.fields(head)}
        log = cls(
            **{
                **fields,
                "action": whole["action"],
                "reward": whole["slot_reward"],
                "slot_reward": whole["slot_reward"],
                "further": {name: whole["further", name] for name in head.further},
                "propensity": whole["propensity"],
                "distribution": None,
                "layout": Layout.ragged(lengths),
                "ended": np.ones(len(lengths), dtype=bool),
                "cluster": cluster,
                "weight": whole["weight"],
                "count": None,
                "batch": None,
                "fold": None if fold is None else fold[None, :],
                "unit": whole["unit"],
                "source": None,
                "row_order": None,
                "eligible": None,
                "allowed": None,
                "context": _elsewhere(rows, head.bare.names, passes.column),
                "bare": _elsewhere(rows, head.bare.names, passes.column),
                "about": scan.about("stream", scan.limits.chunk),
            },
            passes=passes,
        )
        undecided = passes.blocks_are_undecided
        return replace(log.assuming(head.interaction), undecided=undecided)

    @property
    def roles(self) -> SlateRoles:
        """What the columns are."""
        assert self.passes is not None
        return self.passes.scan.roles

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name: those that were asked for when the log was opened."""
        assert self.passes is not None
        return self.passes.extra

    @property
    def fit_rows(self) -> int:
        """Most slots that models are fitted to."""
        assert self.passes is not None
        return self.passes.scan.limits.fit_rows

    @property
    def logs_distribution(self) -> bool:
        """Whether the probabilities of all items were logged."""
        return bool(self.roles.distribution)

    def gathered(self, blocks: list[Slates]) -> Slates:
        """One log in memory of the slates of some blocks."""
        import pandas as pd

        assert self.passes is not None
        frame = pd.concat([block.source for block in blocks], ignore_index=True)
        return self._as_this(self.passes.scan.schema.log(frame))

    def blocks(self) -> Iterator[Slates]:
        """Whole slates with their contexts, in order, under the interaction of this log."""
        assert self.passes is not None
        first = done = 0
        for block in self.passes.blocks():
            here, n = self._as_this(block), block.n
            if self.chosen is not None:
                stop = int(np.searchsorted(self.chosen, first + n))
                start = int(np.searchsorted(self.chosen, first))
                here = self.passes.scan.schema.coded(here.take(self.chosen[start:stop] - first))
            first += n
            if here.n == 0:
                continue
            units = slice(done, done + here.n)
            done += here.n
            yield replace(
                here,
                cluster=self.cluster[units],
                fold=None if self.fold is None else self.fold[:, units],
            )

    def _as_this(self, block: Slates) -> Slates:
        assert self.passes is not None
        block = block.with_reward(self.names.reward)
        if block.interaction.name == "mask" or block.interaction.name != self.interaction.name:
            block = block.assuming(_asked(self.interaction))
        return self.passes.scan.schema.coded(block)

    def assuming(self, interaction: Any) -> StreamedSlates:
        """The same slates under another interaction: its states, weights and rewards."""
        known = isinstance(interaction, Interaction)
        chosen = interaction if known else Interaction.of(interaction, self.horizon)
        self._check_reward(chosen)
        assert self.bare is not None
        others = chosen.shown
        above = {self._column(j): j for j in np.flatnonzero(others.any(axis=0)).tolist()}
        loads = self.bare.load
        assert loads is not None
        names = (*(self.bare.names or ()), *above)

        def load(name: str) -> Array:
            return self._items_at(above[name], others) if name in above else loads(name)

        some = self.distinct and chosen.due is not None and self.horizon > 1
        able: Any = Candidates(self.action, self.layout, len(self.actions)) if some else None
        decided: StreamedSlates = replace(
            self,
            interaction=chosen,
            context=_elsewhere(self.rows, names, load),
            eligible=able,
            undecided=False,
            **self._paid(chosen),
        )
        return decided

    def _items_at(self, slot: int, others: Bools) -> Array:
        """Labels of the items at a slot, in the rows that may look at it."""
        unit, step = self.layout.unit, self.layout.step
        wide = shown_items(self.action, unit, step, self.horizon)
        codes = np.where(others[step, slot], wide[unit, slot], -1)
        labels = np.empty(len(self.actions) + 1, dtype=object)
        labels[:-1] = list(self.actions)
        return np.asarray(labels[codes])

    def _pick(self, units: Array, rows: Ints, layout: Layout) -> StreamedSlates:
        assert self.bare is not None
        plain: Any = replace(self, context=_none(self.rows), bare=_none(self.rows), eligible=None)
        picked: Any = Slates._pick(plain, units, rows, layout)  # noqa: SLF001
        loads = self.bare.load
        assert loads is not None
        at = np.asarray(units)
        made: StreamedSlates = replace(
            picked,
            bare=_elsewhere(len(rows), self.bare.names, partial(_some, loads, rows)),
            chosen=at if self.chosen is None else self.chosen[at],
        )
        return made.assuming(self.interaction)


def _asked(interaction: Interaction) -> Any:
    return interaction.mask if interaction.name == "mask" else interaction.name


def _some(load: Callable[[str], Array], rows: Ints, name: str) -> Array:
    return load(name)[rows]


def _none(rows: int) -> Context:
    return Context(np.empty((rows, 0)))


def _elsewhere(rows: int, names: tuple[str, ...] | None, load: Callable[[str], Array]) -> Context:
    """A context that is not held, of which single columns can be asked for."""
    return Context(np.empty((rows, 0)), None, names, {}, load)


def _narrow(block: Slates, roles: SlateRoles) -> dict[Any, Any]:
    """What is held of one block."""
    source, first = Columns(block.source), block.layout.offsets[:-1]

    def labels(name: str | None) -> Array | None:
        return None if name is None else source.values(name)[first]

    return {
        "action": block.action,
        "slot_reward": block.slot_reward,
        "propensity": block.propensity,
        "lengths": np.diff(block.layout.offsets),
        "weight": block.weight if block.is_weighted else None,
        "unit": block.units,
        "cluster": labels(roles.cluster),
        "fold": labels(roles.fold),
        "start": block.positions[0],
        **{("further", name): values for name, values in block.further.items()},
    }


def _together(parts: list[Any]) -> Any:
    if not isinstance(parts[0], np.ndarray):
        return None
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Candidates:
    """(S, K) whether an item could be shown: not where the slate shows it above; computed for the rows asked about."""

    action: Ints
    layout: Layout
    n_actions: int

    __array_ufunc__: ClassVar[None] = None  # products with arrays are made here

    def __len__(self) -> int:
        return len(self.action)

    def sum(self, axis: int) -> Ints:
        """(S,) how many items could be shown: all but those above, which are distinct."""
        assert axis == 1
        return np.asarray(self.n_actions - self.layout.step)

    def __rmatmul__(self, mass: Floats) -> Floats:
        """(K,) sums of a mass over the rows in which each item could be shown."""
        total = np.zeros(self.n_actions)
        for rows in blocks(len(self), self.n_actions):
            total += mass[rows] @ self[rows]
        return total

    def __getitem__(self, at: Any) -> Any:
        rows, item = at if isinstance(at, tuple) else (at, None)
        rows = np.asarray(rows)
        step = self.layout.step[rows]
        able = np.ones((len(rows), self.n_actions) if item is None else len(rows), dtype=bool)
        for back in range(1, int(step.max(initial=0)) + 1):
            here = np.flatnonzero(step >= back)
            above = self.action[rows[here] - back]
            if item is None:
                able[here, above] = False
            else:
                able[here] &= above != item
        return able
