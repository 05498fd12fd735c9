"""A scanned log as blocks of rows, one in memory at a time, in an order that every pass and engine repeats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from offpolicy.engines.rows import joined
from offpolicy.engines.table import in_order, normalized
from offpolicy.errors import UsageError
from offpolicy.logs.frame import Columns
from offpolicy.logs.kinds import HasKinds
from offpolicy.logs.layout import Layout
from offpolicy.logs.metrics import check_metric
from offpolicy.logs.reader import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        return self.scan.engine.frame(self.table())

    def run(self, task: Callable[[BanditLog], Any]) -> Iterator[Any]:
        """What a task makes of each block, in order: here, or where the rows are."""
        if self.scan.engine.elsewhere:
            yield from self.scan.engine.run(
                self.table(), Work(self.schema, task, self.scan.reading.chunk_rows), (), self.scan.reading.chunk_rows
            )
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
                "the rows changed, or came in a different order, between two passes over the log. Name a column "
                "that identifies rows with id=."
            )


@dataclass(frozen=True, eq=False)
class Work:
    """What is done with the rows of a part of the log, where they are: blocks are cut, and a task is done with each."""

    schema: Schema
    task: Callable[[BanditLog], Any]
    chunk: int

    def __call__(self, batches: Iterator[Any], first: int) -> Iterator[Any]:
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
