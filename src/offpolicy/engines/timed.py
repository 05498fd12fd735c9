"""A scanned log in the order of time: one block of it in memory at a time, as learners see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.engines.rows import codes_of, joined
from offpolicy.engines.table import normalized
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs import time_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Ints
    from offpolicy.engines.rows import Schema
    from offpolicy.engines.scan import LogScan
    from offpolicy.logs.bandit import BanditLog

BLOCK = "offpolicy_block"


def in_time(scan: LogScan, blocks: Any, time: Any, *, whole: bool) -> Any:
    """The rows in memory where these are few, or ``whole`` is asked for; else the log block by block of time."""
    named = [name for name in (blocks, time) if isinstance(name, str)]
    for name in named:
        if name not in scan.table.columns:
            raise UsageError(f"the log has no column {name!r}.{did_you_mean(name, scan.table.columns)}")
    if scan.way == "cells":
        raise UsageError("way='cells' counts equal rows and loses their order. Use way='rows' or 'stream'.")
    layout: Any = scan.layout
    partly = layout.outcome is not None
    if (whole or partly) and scan.n > scan.reading.max_rows:
        why = "partly observed rewards are completed" if partly else "method='rejection' reads all of them"
        remedy = "" if partly else ", or use method='progressive'"
        raise UsageError(
            f"the log has {scan.n:,} rows, but {why} in memory (max_rows={scan.reading.max_rows:,}). Scan a sample of "
            f"it{remedy}."
        )
    if whole or partly or (scan.n <= scan.reading.max_rows and scan.way in {"auto", "rows"}):
        return layout.rows(scan, tuple(dict.fromkeys(named)))
    if scan.roles.id is None:
        raise UsageError(
            "a log that is read block by block needs id=, a column that identifies rows and orders rows of the same "
            "moment. Name one in op.scan."
        )
    made = TimedScan(_cut(scan, blocks, time), time)
    made.check()
    return made


def _cut(scan: LogScan, blocks: Any, time: Any) -> LogScan:
    """The scan with its blocks as batches."""
    scan = scan.with_actions(scan.actions)  # those of all rows, also where some blocks are looked at
    if blocks is None:
        if scan.roles.batch is None:
            raise UsageError(time_order.NONE)
        return scan
    if isinstance(blocks, str):
        return replace(scan, roles=replace(scan.roles, batch=blocks))
    if time is None:
        raise UsageError(time_order.needs_time(blocks))
    if not 2 <= blocks <= scan.n:
        raise UsageError(time_order.wrong_number(blocks, scan.n))
    import pyarrow.compute as pc

    moments = scan.engine.table(scan.table.select(time))[time]
    if moments.null_count:
        raise DataError(time_order.missing(time, f"{moments.null_count:,} values"))
    # A row is in block j or a later one where at least as many rows as the blocks before hold are of earlier moments.
    places = [-(-j * scan.n // blocks) - 1 for j in range(1, blocks)]
    block: Any = 1
    for border in moments.take(pc.sort_indices(moments).take(places)).to_pylist():
        block = block + (scan.table[time] > border).cast("int64")
    return replace(scan, table=scan.table.mutate(**{BLOCK: block}), roles=replace(scan.roles, batch=BLOCK))


@dataclass(frozen=True, eq=False)
class TimedScan:
    """A scan whose batches are blocks of time."""

    scan: LogScan
    time: str | None

    in_memory: ClassVar[bool] = False

    @cached_property
    def _counted(self) -> tuple[tuple[Any, ...], Ints]:
        table, batch = self.scan.table, self.scan.roles.batch
        counts = self.scan.engine.table(table.group_by(batch).aggregate(n=table.count()))
        labels, code = codes_of(counts, str(batch))
        sizes = np.empty(len(labels), dtype=np.int64)
        sizes[code] = counts["n"].to_numpy()
        return labels, sizes

    @property
    def labels(self) -> tuple[Any, ...]:
        """Of the blocks, the burn-in first."""
        return self._counted[0]

    @property
    def sizes(self) -> Ints:
        """(T,) rows of each block."""
        return self._counted[1]

    @property
    def fit_rows(self) -> int:
        """Most rows that a reward model is fitted to."""
        return self.scan.reading.fit_rows

    def check(self) -> None:
        """Blocks fit in memory, follow each other, and hold whole clusters."""
        most, roles = self.scan.reading.max_rows, self.scan.roles
        if len(self.labels) < 2:
            raise UsageError(time_order.FEW)
        if self.labels[-1] is None:
            raise DataError(time_order.missing(str(roles.batch), f"{int(self.sizes[-1]):,} values"))
        if int(self.sizes.max()) > most:
            raise UsageError(
                f"the largest block has {int(self.sizes.max()):,} rows, more than the limit for reading into memory "
                f"(max_rows={most:,}). Use shorter blocks."
            )
        if self.time is not None:
            self._check_order(self.time)
        if roles.cluster is not None:
            self._check_clusters(roles.cluster)

    def _check_order(self, time: str) -> None:
        table, batch = self.scan.table, self.scan.roles.batch
        ends = table.group_by(batch).aggregate(low=table[time].min(), high=table[time].max())
        rows = {row[batch]: row for row in self.scan.engine.table(ends).to_pylist()}
        for before, after in zip(self.labels[:-1], self.labels[1:], strict=True):
            if rows[after]["low"] < rows[before]["high"]:
                raise DataError(time_order.overlapping(before, after))

    def _check_clusters(self, cluster: str) -> None:
        table = self.scan.table
        spread = table.group_by(cluster).aggregate(n=table[self.scan.roles.batch].nunique())
        bad = self.scan.engine.table(spread.filter(spread.n > 1).limit(1))
        if bad.num_rows:
            raise DataError(time_order.split_cluster(f"cluster {bad[cluster][0].as_py()!r}"))

    @cached_property
    def schema(self) -> Schema:
        """What all blocks share."""
        layout: Any = self.scan.layout
        made: Schema = layout.schema(self.scan, self._extra)
        return made

    @property
    def _extra(self) -> tuple[str, ...]:
        return () if self.time is None else (self.time,)

    def steps(self) -> Iterator[tuple[BanditLog | None, BanditLog]]:
        """For each block: the block before it, and its own rows, in the order of time and of their ids."""
        scan, before = self.scan, None
        for label in self.labels:
            table = scan.table.filter(scan.table[scan.roles.batch] == label)
            rows = normalized(table, scan.roles, scan.actions, self._extra)
            keys = [name for name in ("extra0", "id", "name") if name in rows.columns]
            block = replace(self.schema.log(scan.engine.table(rows.order_by(keys))), source=None)
            yield before, block
            before = block

    def scored(self) -> LogScan:
        """The scan of the blocks after the first."""
        table = self.scan.table
        return replace(self.scan, table=table.filter(table[self.scan.roles.batch] != self.labels[0]))

    def gathered(self, blocks: list[BanditLog]) -> BanditLog:
        """One log in memory of the rows of some blocks."""
        return joined(blocks)
