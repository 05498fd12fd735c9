"""Episodes and slates in blocks of whole units: here, or where their rows are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import picked
from offpolicy.engines.table import unit_rows
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.checks import groups
from offpolicy.logs.frame import Columns
from offpolicy.logs.layout import Layout
from offpolicy.logs.steps import elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from offpolicy._arrays import Array
    from offpolicy.engines.facts import Facts
    from offpolicy.engines.scan import LogScan
    from offpolicy.logs.roles import Roles
    from offpolicy.logs.steps import Steps


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of whole units as logs in memory; plain values, so that it can be sent to other machines."""

    layout: Any
    roles: Roles
    facts: Facts
    engine: str

    def log(self, frame: Any, first: int = 0) -> Any:
        """A log of a pandas frame of whole units; ``first`` is the number of its first row."""
        try:
            log = self.layout.log(frame, self.roles, self.facts, part=True)
        except DataError as error:
            counted = f"from row {first:,} on, " if first else ""
            unit, step = self.roles.word("unit"), self.roles.word("step")
            raise DataError(f"{error} (Rows are counted {counted}in the order of {unit} and {step}.)") from error
        return self.coded(log)

    def coded(self, log: Steps) -> Any:
        """Units whose text columns know all their values, also those of other rows."""
        return log.with_levels(self.facts.levels) if self.facts.levels else log

    def frames(self, batches: Iterable[Any], chunk: int) -> Iterator[Any]:
        """Pandas frames of whole units, of about ``chunk`` rows."""
        import pyarrow as pa

        waiting: list[Any] = []
        for batch in batches:
            waiting.append(pa.Table.from_batches([batch]))
            if sum(part.num_rows for part in waiting) >= chunk:
                rows = pa.concat_tables(waiting)
                last = _start_of_last(rows[self.roles.unit])
                if last:
                    yield rows.slice(0, last).to_pandas()
                waiting = [rows.slice(last)]
        if sum(part.num_rows for part in waiting):
            yield pa.concat_tables(waiting).to_pandas()

    def blocks(self, batches: Iterable[Any], chunk: int) -> Iterator[Any]:
        """Logs of whole units."""
        first = 0
        for frame in self.frames(batches, chunk):
            log = self.log(frame, first)
            if log.row_order is not None:
                raise UsageError(
                    f"column {self.roles.unit!r}: {self.engine} sorts this text in its own order. Use "
                    f"whole numbers for {self.roles.word('unit')}s, or read the log with way='rows'."
                )
            yield log
            first += len(frame)


@dataclass(frozen=True, eq=False)
class UnitWork:
    """What is done with a part of the rows, where they are: blocks are cut, and a task is done with each.

    Attributes
    ----------
    of : Steps or None
        The log that blocks are parts of, without its rows; None: blocks as they are.
    folds : Folds or None
        Of all its units.
    """

    rows: UnitRows
    task: Callable[..., Any]
    chunk: int
    of: Any = None
    folds: Any = None

    def __call__(self, batches: Iterator[Any], first: int) -> Iterator[Any]:
        """What the task makes of each block; ``first`` is the number of the first unit."""
        for block in self.rows.blocks(batches, self.chunk):
            if self.of is None:
                yield self.task(block)
            else:
                here, units = self.of.part(block, first)
                if here.n:
                    yield self.task(here, self.folds.at(units))
            first += block.n


@dataclass(frozen=True, eq=False)
class UnitPasses:
    """Passes over the rows of episodes or slates, in the order of unit and step."""

    scan: LogScan
    extra: tuple[str, ...]

    @cached_property
    def rows(self) -> UnitRows:
        """What makes logs of rows."""
        return UnitRows(self.scan.layout, self.scan.roles, self.scan.facts, self.scan.engine.name)

    @property
    def fit_rows(self) -> int:
        """Most decisions that models are fitted to."""
        return self.scan.reading.fit_rows

    @property
    def roles(self) -> Roles:
        """What the columns are."""
        return self.scan.roles

    def log(self, frame: Any, first: int = 0) -> Any:
        """A log in memory of some of the rows."""
        return self.rows.log(frame, first)

    def coded(self, log: Steps) -> Any:
        """A part of the log whose text columns know all values of the whole."""
        return self.rows.coded(log)

    def blocks(self) -> Iterator[Any]:
        """Logs of whole units, in order, here."""
        chunk = self.scan.reading.chunk_rows
        yield from self.rows.blocks(self.scan.engine.batches(self._table.order_by(self._keys), chunk), chunk)

    def each(self, task: Callable[..., Any], of: Any = None, folds: Any = None) -> Iterator[Any]:
        """What a task makes of each block, in order: here, or where the rows are."""
        chunk = self.scan.reading.chunk_rows
        work = UnitWork(self.rows, task, chunk, of, folds)
        yield from self.scan.engine.run(self._table, work, self._keys, chunk)

    def column(self, name: str) -> Array:
        """One column of all rows."""
        rows = self.scan.engine.table(self._table.order_by(self._keys).select(name))
        return Columns(rows).values(name)

    @property
    def _table(self) -> Any:
        return unit_rows(self.scan.table, self.roles, self.extra)

    @property
    def _keys(self) -> tuple[str, ...]:
        return (str(self.roles.unit), str(self.roles.step))


def _start_of_last(unit: Any) -> int:
    """Row at which the last unit of some rows starts, whose end may not have come yet."""
    import pyarrow.compute as pc

    if len(unit) == 0:
        return 0
    same = pc.fill_null(pc.equal(unit, unit[len(unit) - 1]), fill_value=False)
    other = np.flatnonzero(~np.asarray(same.to_numpy(), dtype=bool))
    return int(other[-1]) + 1 if len(other) else 0


def streamed(passes: UnitPasses) -> Any:
    """What is narrow of all units, each of which is checked in this pass; contexts come in blocks."""
    scan = passes.scan
    layout: Any = scan.layout
    parts = list(passes.each(Narrow(scan.roles)))
    head = parts[0].pop("head")
    whole = {name: _together([part[name] for part in parts]) for name in parts[0]}
    cluster = None if scan.roles.cluster is None else groups(whole["cluster"], scan.roles.cluster, "cluster")[1]
    fold = None if scan.roles.fold is None else groups(whole["fold"], "fold", "fold")[1]
    context = elsewhere(len(whole["action"]), head.own_context.names, passes.column)
    fields = {each.name: getattr(head, each.name) for each in dataclasses.fields(head)}
    changed = {
        "action": whole["action"],
        "reward": whole["reward"],
        "further": {name: whole["further", name] for name in head.further},
        "propensity": whole["propensity"],
        "distribution": None,
        "layout": Layout.ragged(whole["lengths"], head.unit_kind.link(int(whole["lengths"].max()))),
        "ended": np.ones(len(whole["lengths"]), dtype=bool),
        "cluster": cluster,
        "weight": whole["weight"],
        "count": None,
        "batch": None,
        "fold": picked(fold, (None, slice(None))),
        "unit": whole["unit"],
        "source": None,
        "row_order": None,
        "eligible": None,
        "context": context,
        "about": scan.about("stream", scan.reading.chunk_rows),
        "passes": passes,
    }
    return layout.narrow(type(head), {**fields, **changed}, whole, scan.roles)


@dataclass(frozen=True)
class Narrow:
    """What is held of a block: a task."""

    roles: Roles

    def __call__(self, block: Any) -> dict[Any, Any]:
        """Columns by name; the first unit says what is the same in all."""
        source, first, roles = Columns(block.source), block.layout.offsets[:-1], self.roles

        def labels(name: str | None) -> Array | None:
            return None if name is None else source.values(name)[first]

        return {
            "head": block.take(np.arange(1)),
            "action": block.action,
            "reward": block.metrics[block.names.reward],
            "propensity": block.propensity,
            "lengths": np.diff(block.layout.offsets),
            "weight": block.weight if block.is_weighted else None,
            "unit": block.units,
            "cluster": labels(roles.cluster),
            "fold": labels(roles.fold),
            "start": np.full(1, getattr(block, "positions", (0,))[0]),
            **{("flag", name): source.values(name) for name in (roles.terminated, roles.truncated) if name is not None},
            **{("further", name): values for name, values in block.further.items()},
        }


def _together(parts: list[Any]) -> Any:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else None
