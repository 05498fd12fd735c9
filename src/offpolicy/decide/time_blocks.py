"""Rows of a log in the order of time, and the blocks in which a learner is updated.

`timed` gives any log as `Timed`: in memory, or behind an engine, where one block at a time is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from offpolicy._doors import door
from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.logs import time_order
from offpolicy.logs.actions import encode, is_missing
from offpolicy.logs.frame import Columns
from offpolicy.logs.outcome import arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log, Scan


class Timed(Protocol):
    """A log in the order of time.

    Attributes
    ----------
    labels : tuple
        Of the blocks, the burn-in first.
    sizes : (T,) ints
        Rows of each block.
    """

    @property
    def labels(self) -> tuple[Any, ...]:
        """Of the blocks, the burn-in first."""
        ...

    @property
    def sizes(self) -> Ints:
        """(T,) rows of each block."""
        ...

    def steps(self) -> Iterator[tuple[BanditLog | None, BanditLog]]:
        """For each block: the rows whose rewards became known since the block before began, and its own rows."""
        ...

    def scored(self) -> Any:
        """The log of the blocks after the first, each a batch of it."""
        ...


class TimedStream(Timed, Protocol):
    """A log that is not held, in the order of time."""

    @property
    def fit_rows(self) -> int:
        """Most rows that a reward model is fitted to."""
        ...

    def gathered(self, blocks: list[BanditLog]) -> BanditLog:
        """One log in memory of the rows of some blocks."""
        ...


def timed(given: Log | Scan, blocks: Any, time: Any, method: str, metric: str) -> Timed:
    """A log in the order of time; one that is not held is read where the method needs all of it."""
    log = cast("BanditLog", given)
    if not log.in_memory:
        for what, named in (("blocks", blocks), ("time", time)):
            if not isinstance(named, str | int | np.integer | None):
                raise UsageError(f"{what}= must name a column of a scanned log. Got an array.")
        log = door("scan in the order of time")(log, blocks, time, whole=method == "rejection")
    if not log.in_memory:
        return cast("Timed", log)
    if float(np.max(log.count)) > 1:
        raise UsageError(
            "some rows of this log stand for several decisions in unknown order. Give one row per decision."
        )
    block, labels = blocks_of(log, blocks, time)
    order = ordered(log, block, time, method, labels)
    last = _final_blocks(log, block, labels, metric)
    return TimedLog(log, block, order[block[order] < last], labels[:last], metric)


def _final_blocks(log: BanditLog, block: Ints, labels: tuple[Any, ...], metric: str) -> int:
    """How many blocks can be replayed: those before the first in which a reward may still come.

    What is still to come is made up for on average over all rows, and not block by block.
    """
    arrival = arrivals(log, metric)
    if arrival is None or not (arrival.final > 0).any():
        return len(labels)
    first = int(block[arrival.final > 0].min())
    if first < 2:
        raise DataError(
            f"rewards of {metric!r} may still come in block {labels[first]!r}, so no block after the first can be "
            "scored. Wait, use a shorter window=, or shorter blocks."
        )
    return first


@dataclass(frozen=True, eq=False)
class TimedLog:
    """A log in memory in the order of time.

    Attributes
    ----------
    block : (n,) ints
        Block of each row.
    order : (n,) ints
        Rows in the order of time.
    metric : str
        The reward that learners see.
    """

    log: BanditLog
    block: Ints
    order: Ints
    labels: tuple[Any, ...]
    metric: str

    @cached_property
    def sizes(self) -> Ints:
        """(T,) rows of each block."""
        return np.bincount(self.block[self.order], minlength=len(self.labels))

    @cached_property
    def rows(self) -> Ints:
        """Scored rows, in the order of time."""
        return self.order[self.block[self.order] > 0]

    @cached_property
    def shown_before(self) -> Ints:
        """(n,) number of the block before which a learner sees the reward of a row; T where it never does."""
        never = len(self.labels)
        arrival = arrivals(self.log, self.metric)
        if arrival is not None:
            begins = np.array([arrival.decided[self.block == t].min() for t in range(never)])
            if (np.diff(begins) < 0).any():
                t = int(np.argmax(np.diff(begins) < 0)) + 1
                raise DataError(
                    f"by age= of the outcome, block {self.labels[t]!r} begins before the previous one. Blocks "
                    "must follow each other in time."
                )
            after = np.searchsorted(begins, arrival.known, side="left")
            return np.asarray(np.maximum(after, self.block + 1))
        held = self.log.outcomes.get(self.metric)
        return self.block + 1 if held is None else np.where(held.seen, self.block + 1, never)

    def steps(self) -> Iterator[tuple[BanditLog | None, BanditLog]]:
        """For each block: what is shown before it, and its own rows."""
        log = replace(self.log, source=None)
        for number in range(len(self.labels)):
            fresh = self.order[self.shown_before[self.order] == number]
            own = self.order[self.block[self.order] == number]
            yield (log.take(fresh) if len(fresh) else None), log.take(own)

    def scored(self) -> BanditLog:
        """The log of the blocks after the first."""
        return replace(self.log.take(self.rows), batch=self.block[self.rows] - 1, batch_labels=self.labels[1:])


def _column(log: Log, given: Any, what: str) -> Array:
    """A column of the log's frame, or an array with one entry per row."""
    if not isinstance(given, str):
        values = np.asarray(given)
        if values.shape != (log.rows,):
            raise UsageError(
                f"{what}= must have one entry for each of the {log.rows:,} rows. Got shape {values.shape}."
            )
        values = values if log.row_order is None else values[log.row_order]
    elif log.source is None:
        raise UsageError(f"{what}={given!r} names a column, but this log was built from arrays. Give the array itself.")
    else:
        columns = Columns(log.source)
        values = columns.values(columns.require(given, what))
    missing = is_missing(values)
    if missing.any():
        raise DataError(time_order.missing(given if isinstance(given, str) else what, first_rows(missing)))
    return values


def blocks_of(log: Log, blocks: Any, time: Any) -> tuple[Ints, tuple[Any, ...]]:
    """Block of each row, numbered in the order of time, and the labels of the blocks."""
    if blocks is None:
        if not log.has_batches:
            raise UsageError(time_order.NONE)
        codes, labels = np.asarray(log.batch), tuple(log.batch_labels)
    elif isinstance(blocks, bool):
        raise UsageError(f"blocks= must be a number, a column or an array. Got {blocks!r} instead.")
    elif isinstance(blocks, int | np.integer):
        codes, labels = _equal_blocks(log, int(blocks), time)
    else:
        labels, codes = encode(_column(log, blocks, "blocks"), None, blocks if isinstance(blocks, str) else "blocks")
    if len(labels) < 2:
        raise UsageError(time_order.FEW)
    if log.has_clusters:
        _whole_clusters(log, codes)
    return np.asarray(codes, dtype=np.int64), labels


def _equal_blocks(log: Log, number: int, time: Any) -> tuple[Ints, tuple[Any, ...]]:
    if time is None:
        raise UsageError(time_order.needs_time(number))
    if not 2 <= number <= log.rows:
        raise UsageError(time_order.wrong_number(number, log.rows))
    _, rank = np.unique(_column(log, time, "time"), return_inverse=True)
    # Rows of one moment stay together: a block begins with a moment of its own.
    before = np.searchsorted(np.sort(rank), rank)
    cut = before * number // log.rows
    present, codes = np.unique(cut, return_inverse=True)
    return codes, tuple(int(each) + 1 for each in present)


def _whole_clusters(log: Log, codes: Ints) -> None:
    first = np.full(int(np.max(log.cluster)) + 1, -1)
    first[log.cluster] = codes
    if (first[log.cluster] != codes).any():
        row = int(np.argmax(first[log.cluster] != codes))
        raise DataError(time_order.split_cluster(f"the cluster of row {row}"))


def ordered(log: BanditLog, block: Ints, time: Any, method: str, labels: tuple[Any, ...]) -> Ints:
    """Rows in the order of blocks, and of time inside them; rows of one moment follow the log's ids."""
    if time is None:
        if method == "rejection" and log.unit is None:
            raise UsageError(
                "method='rejection' shows rows one by one, so it needs their order inside a block. Give time=, "
                "or build the log with id=."
            )
        return np.argsort(block, kind="stable")
    values, rank = np.unique(_column(log, time, "time"), return_inverse=True)
    ends, begins = np.full(len(labels), -1), np.full(len(labels), len(values))
    np.maximum.at(ends, block, rank)
    np.minimum.at(begins, block, rank)
    if (early := begins[1:] < ends[:-1]).any():
        number = int(np.argmax(early)) + 1
        raise DataError(time_order.overlapping(labels[number - 1], labels[number]))
    if method == "rejection" and log.unit is None and len(np.unique(rank)) < len(rank):
        raise UsageError(
            "several rows have the same time=, but method='rejection' shows rows one by one. Build the log with id= "
            "to put them in order."
        )
    return np.lexsort((np.arange(len(rank)), rank, block))
