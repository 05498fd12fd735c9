"""A scanned log as blocks of rows, one in memory at a time, in an order that every pass and engine repeats."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.engines.table import in_order, normalized, unit_rows
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.bandit import joined
from offpolicy.logs.checks import groups
from offpolicy.logs.frame import Columns
from offpolicy.logs.kinds import HasKinds
from offpolicy.logs.layout import Layout
from offpolicy.logs.metrics import check_metric
from offpolicy.logs.reader import names_of
from offpolicy.logs.steps import elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy._arrays import Array
    from offpolicy.engines.rows import Schema
    from offpolicy.engines.scan import LogScan
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.reader import Names
    from offpolicy.logs.roles import Roles


@dataclass(frozen=True, eq=False)
class StreamedLog(HasKinds):
    """Blocks of a log that is not held.

    Rows with ids come in the order of their ids, so that every pass and every engine gives the same blocks.
    Rows without come in the order of the file, and a pass that finds another order raises.
    """

    scan: LogScan
    schema: Schema
    _seen: dict[int, int] = field(default_factory=dict, repr=False)

    kind: ClassVar[str] = "bandit"
    in_memory: ClassVar[bool] = False
    undecided: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """Rows."""
        return self.scan.n

    @property
    def actions(self) -> tuple[Any, ...]:
        """The K actions."""
        return self.schema.labels

    @property
    def space(self) -> ActionSpace:
        """What an action is."""
        return self.schema.space

    @property
    def roles(self) -> Roles:
        """What the columns are."""
        return self.schema.roles

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name: those that were asked for when the log was opened."""
        return self.schema.extra

    @property
    def batch_labels(self) -> tuple[Any, ...] | None:
        """Labels of the batches, sorted."""
        return self.schema.batches

    @property
    def names(self) -> Names:
        """What the owner calls the parts of the log."""
        return names_of(self.schema.roles.with_reward(self.metrics[0]))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the rewards, the first of which is the log's."""
        roles = self.schema.roles
        return roles.with_reward(self.schema.metric or roles.reward).rewards

    def with_reward(self, name: str) -> StreamedLog:
        """The same blocks with another metric as the reward."""
        check_metric(name, self.metrics)
        return replace(self, schema=replace(self.schema, metric=name))

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.schema.roles.propensity is not None

    @property
    def layout(self) -> Layout:
        """One decision per unit."""
        return Layout.single(self.n)

    @property
    def fit_rows(self) -> int:
        """Most rows that learners get who cannot be fitted block by block."""
        return self.scan.reading.fit_rows

    @property
    def chunk_rows(self) -> int:
        """Rows of a block, about."""
        return self.scan.reading.chunk_rows

    @property
    def about(self) -> dict[str, Any]:
        """Where the log is read, and how."""
        return self.scan.about("stream", self.scan.reading.chunk_rows)

    def report(self, stage: str, done: float) -> None:
        """Tell whoever watches how far a stage is."""
        self.scan.report(stage, done)

    @property
    def rows(self) -> int:
        """Rows."""
        return self.scan.n

    @property
    def logs_distribution(self) -> bool:
        """Whether the probabilities of all actions were logged."""
        return bool(self.schema.roles.distribution)

    def gathered(self, blocks: list[BanditLog]) -> BanditLog:
        """One log in memory of the rows of some blocks."""
        return joined(blocks)

    def table(self) -> Any:
        """Ibis table of the rows in their order."""
        scan = self.scan
        rows = normalized(scan.table, scan.roles, scan.facts.labels, self.schema.extra)
        return rows if self._sorted else in_order(rows, scan.roles, scan.engine)

    @cached_property
    def _sorted(self) -> bool:
        """Whether integer ids come in order already, so that nothing has to be sorted in every pass."""
        roles, engine = self.schema.roles, self.scan.engine
        if roles.id is None or not engine.keeps_order:
            return False
        ids = self.scan.table.select(id=self.scan.table[roles.id])
        if not ids.id.type().is_integer():
            return False
        last = None
        for batch in engine.batches(ids, self.scan.reading.chunk_rows):
            numbers = batch.column(0).to_numpy(zero_copy_only=False)
            if (numbers[1:] < numbers[:-1]).any() or (last is not None and numbers[:1] < last):
                return False
            last = numbers[-1] if len(numbers) else last
        return True

    def blocks(self) -> Iterator[BanditLog]:
        """The log, block by block."""
        import pyarrow as pa

        first = 0
        for batch in self.scan.engine.batches(self.table(), self.scan.reading.chunk_rows):
            rows = pa.Table.from_batches([batch])
            self._check_order(first, rows)
            yield self.schema.log(rows, first)
            first += rows.num_rows

    def column(self, name: str) -> Any:
        """A column of the context, in the order of the blocks."""
        import pyarrow as pa

        place = f"x{self.schema.roles.context.index(name)}"
        batches = self.scan.engine.batches(self.table(), self.scan.reading.chunk_rows)
        table = pa.Table.from_batches([batch.select([place]) for batch in batches])
        return Columns(table).values(place)

    def spark_frame(self) -> Any:
        """The rows as a Spark DataFrame, where executors hold them; None elsewhere."""
        frame = getattr(self.scan.engine, "frame", None)
        return None if frame is None else frame(self.table())

    def run(self, task: Callable[[BanditLog], Any]) -> Iterator[Any]:
        """What a task makes of each block, in order: here, or where the rows are."""
        if self.scan.engine.elsewhere:
            yield from self.scan.engine.run(self.table(), Work(self.schema, task, self.chunk_rows), None)
            self.report("score", 1.0)
            return
        done = 0
        for block in self.blocks():
            result = task(block)
            done += block.rows
            self.report("score", done / self.n)
            yield result

    def _check_order(self, first: int, rows: Any) -> None:
        """Rows without ids are told apart by their place only: it must be the same in every pass."""
        if self.schema.roles.id is not None:
            return
        from pandas.util import hash_pandas_object

        values = rows.select(["action", "reward"]).to_pandas()
        key = hash(hash_pandas_object(values, index=False).to_numpy().tobytes())
        if self._seen.setdefault(first, key) != key:
            raise UsageError(
                "the rows came in another order, or changed, between two passes over the log. Name a column "
                "that tells rows apart with id=."
            )


@dataclass(frozen=True, eq=False)
class Work:
    """What is done with the rows of a part of the log, where they are: blocks are cut, and a task is done with each."""

    schema: Schema
    task: Callable[[BanditLog], Any]
    chunk: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """What the task makes of each block."""
        import pyarrow as pa

        waiting: list[Any] = []
        for batch in batches:
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= self.chunk:
                yield self.task(self.schema.log(pa.Table.from_batches(waiting)))
                waiting = []
        if sum(b.num_rows for b in waiting):
            yield self.task(self.schema.log(pa.Table.from_batches(waiting)))


@dataclass(frozen=True, eq=False)
class UnitPasses:
    """Passes over the rows of episodes or slates, in the order of unit and step."""

    scan: LogScan
    extra: tuple[str, ...]

    @property
    def fit_rows(self) -> int:
        """Most decisions that models are fitted to."""
        return self.scan.reading.fit_rows

    @property
    def roles(self) -> Roles:
        """What the columns are."""
        return self.scan.roles

    def frames(self) -> Iterator[Any]:
        """Pandas frames of whole units."""
        import pyarrow as pa

        scan, waiting = self.scan, None
        for batch in scan.engine.batches(self._rows(), scan.reading.chunk_rows):
            rows = pa.Table.from_batches([batch])
            rows = rows if waiting is None else pa.concat_tables([waiting, rows])
            last = _start_of_last(rows[scan.roles.unit])
            if last:
                yield rows.slice(0, last).to_pandas()
            waiting = rows.slice(last)
        if waiting is not None and waiting.num_rows:
            yield waiting.to_pandas()

    def log(self, frame: Any, first: int = 0) -> Any:
        """A log in memory of a pandas frame of whole units; ``first`` is the number of its first row."""
        layout: Any = self.scan.layout
        try:
            log = layout.log(frame, self.roles, self.scan.facts, part=True)
        except DataError as error:
            counted = f"from row {first:,} on, " if first else ""
            unit, step = self.roles.word("unit"), self.roles.word("step")
            raise DataError(f"{error} (Rows are counted {counted}in the order of {unit} and {step}.)") from error
        return self.coded(log)

    def coded(self, log: Any) -> Any:
        """Units whose text columns know all their values, also those of other rows."""
        levels = self.scan.facts.levels
        if not levels:
            return log
        changed = {"context": replace(log.context, levels=levels)}
        if getattr(log, "bare", None) is not None:
            changed["bare"] = replace(log.bare, levels=levels)
        return replace(log, **changed)

    def blocks(self) -> Iterator[Any]:
        """Logs of whole units, as `log` makes them."""
        first = 0
        for frame in self.frames():
            log = self.log(frame, first)
            if log.row_order is not None:
                raise UsageError(
                    f"column {self.roles.unit!r}: {self.scan.engine.name} sorts this text in an order of its own. Give "
                    f"{self.roles.word('unit')}s whole numbers, or read the log with way='rows'."
                )
            yield log
            first += len(frame)

    def column(self, name: str) -> Array:
        """One column of all rows."""
        rows = self.scan.engine.table(self._rows().select(name))
        return Columns(rows).values(name)

    def _rows(self) -> Any:
        return unit_rows(self.scan.table, self.roles, self.extra).order_by([self.roles.unit, self.roles.step])


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
    scan, parts, heads = passes.scan, [], list[Any]()
    layout: Any = scan.layout
    for block in passes.blocks():
        heads = heads or [block.take(np.arange(1))]
        parts.append(_narrow(block, scan))
    head = heads[0]
    whole = {name: _together([part[name] for part in parts]) for name in parts[0]}
    cluster = None if scan.roles.cluster is None else groups(whole["cluster"], scan.roles.cluster, "cluster")[1]
    fold = None if scan.roles.fold is None else groups(whole["fold"], "fold", "fold")[1]
    names = (head.context if getattr(head, "bare", None) is None else head.bare).names
    context = elsewhere(len(whole["action"]), names, passes.column)
    fields = {each.name: getattr(head, each.name) for each in dataclasses.fields(head)}
    changed = {
        "action": whole["action"],
        "reward": whole["reward"],
        "further": {name: whole["further", name] for name in head.further},
        "propensity": whole["propensity"],
        "distribution": None,
        "layout": Layout.ragged(whole["lengths"]),
        "ended": np.ones(len(whole["lengths"]), dtype=bool),
        "cluster": cluster,
        "weight": whole["weight"],
        "count": None,
        "batch": None,
        "fold": None if fold is None else fold[None, :],
        "unit": whole["unit"],
        "source": None,
        "row_order": None,
        "eligible": None,
        "context": context,
        "about": scan.about("stream", scan.reading.chunk_rows),
        "passes": passes,
    }
    return layout.narrow(type(head), {**fields, **changed}, whole, scan.roles)


def _narrow(block: Any, scan: LogScan) -> dict[Any, Any]:
    """What is held of one block."""
    source, first, roles = Columns(block.source), block.layout.offsets[:-1], scan.roles

    def labels(name: str | None) -> Array | None:
        return None if name is None else source.values(name)[first]

    return {
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
