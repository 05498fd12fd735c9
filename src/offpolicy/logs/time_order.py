"""What is wrong with an order of time, in words: the same for logs in memory and behind an engine."""

from __future__ import annotations

from typing import Any

NONE = (
    "replay() needs to know the order in time and does not take it from the order of rows. Give blocks='day' (a "
    "column), blocks=20 with time='timestamp', or a log with batch=."
)
FEW = "replay() needs at least 2 blocks, one to train on and one to score. Got 1."


def needs_time(number: int) -> str:
    """A number of blocks without a time."""
    return f"blocks={number} needs time=, the column to sort rows by. The order of rows is not used."


def wrong_number(number: Any, rows: int) -> str:
    """Too few or too many blocks."""
    return f"blocks= must be between 2 and the number of rows, {rows:,}. Got {number}."


def missing(column: str, which: str) -> str:
    """Rows without a moment."""
    return (
        f"column {column!r}: {which} are missing, so the time of these rows is not known. Fill them in, "
        "or leave the rows out."
    )


def overlapping(before: Any, after: Any) -> str:
    """Blocks that do not follow each other."""
    return (
        f"by time=, block {after!r} begins before block {before!r} ends. Blocks are taken in sorted order, so a "
        "learner would see the future. Name a column whose sorted values follow time, such as a date, or give blocks= "
        "as a number."
    )


def split_cluster(which: str) -> str:
    """A cluster in several blocks."""
    return (
        f"{which} is in more than one block, so a learner would be scored on a cluster it has seen. Use longer blocks, "
        "or blocks= by the time at which each cluster began."
    )
