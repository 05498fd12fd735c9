"""Rows of a log in the order of time, and the blocks in which a learner is updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, UsageError
from offpolicy.logs.frame import Columns

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log


def _column(log: Log, given: Any, what: str) -> Array:
    """A column of the log's frame, or an array with one entry per row."""
    if not isinstance(given, str):
        values = np.asarray(given)
        if values.shape != (log.rows,):
            raise UsageError(
                f"{what}= must have one entry for each of the {log.rows:,} rows. Got shape {values.shape}."
            )
        return values if log.row_order is None else values[log.row_order]
    if log.source is None:
        raise UsageError(f"{what}={given!r} names a column, and this log was built from arrays. Give the array itself.")
    columns = Columns(log.source)
    return columns.values(columns.require(given, what))


def blocks_of(log: Log, blocks: Any, time: Any) -> tuple[Ints, tuple[Any, ...]]:
    """Block of each row, numbered in the order of time, and the labels of the blocks."""
    if blocks is None:
        if not log.has_batches:
            raise UsageError(
                "replay() needs an order of time, since the order of rows must not matter: blocks='day' (a column), "
                "blocks=20 with time='timestamp', or a log with batch=."
            )
        codes, labels = np.asarray(log.batch), tuple(log.batch_labels)
    elif isinstance(blocks, bool):
        raise UsageError(f"blocks= must be a number, a column or an array. Got {blocks!r} instead.")
    elif isinstance(blocks, int | np.integer):
        codes, labels = _equal_blocks(log, int(blocks), time)
    else:
        values = _column(log, blocks, "blocks")
        try:
            found, codes = np.unique(values, return_inverse=True)
        except TypeError as error:
            raise DataError(f"blocks= cannot be put in order: {error}. Use one type.") from error
        labels = tuple(found.tolist())
    if len(labels) < 2:
        raise UsageError(f"replay() needs at least 2 blocks: one to train on, one to score. There is {len(labels)}.")
    if log.has_clusters:
        _whole_clusters(log, codes)
    return np.asarray(codes, dtype=np.int64), labels


def _equal_blocks(log: Log, number: int, time: Any) -> tuple[Ints, tuple[Any, ...]]:
    if time is None:
        raise UsageError(
            f"blocks={number} needs time=, the column that puts rows in order: the order of rows must not matter."
        )
    if not 2 <= number <= log.rows:
        raise UsageError(f"blocks= must be between 2 and the number of rows, {log.rows:,}. Got {number}.")
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
        raise DataError(
            f"cluster of row {row} lies in more than one block: what a learner saw of it would be scored again. Use "
            "longer blocks, or blocks= of the time at which a cluster began."
        )


def ordered(log: BanditLog, block: Ints, time: Any, method: str) -> Ints:
    """Rows in the order of blocks, and of time inside them; rows of one moment follow the log's ids."""
    if time is None:
        if method == "rejection" and log.unit is None:
            raise UsageError(
                "method='rejection' shows rows one by one, so their order inside a block has to be known: give time=, "
                "or build the log with id=."
            )
        return np.argsort(block, kind="stable")
    _, rank = np.unique(_column(log, time, "time"), return_inverse=True)
    if method == "rejection" and log.unit is None and len(np.unique(rank)) < len(rank):
        raise UsageError(
            "several rows have the same time=, and method='rejection' shows rows one by one. Build the log with id=, "
            "which decides between them."
        )
    return np.lexsort((np.arange(len(rank)), rank, block))
