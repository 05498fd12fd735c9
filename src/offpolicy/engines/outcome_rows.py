"""A scanned log whose rewards are seen in part: its rows in memory, in the order that every path has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offpolicy.engines.roles import NEEDS_ID
from offpolicy.errors import UsageError
from offpolicy.logs.bandit import BanditLog

if TYPE_CHECKING:
    from offpolicy.engines.scan import LogScan

TOO_MANY = (
    "the log has {n:,} rows, and rewards that are seen in part are made whole in memory (max_rows={most:,}). Scan a "
    "sample of it, or raise max_rows=."
)
OF_ROWS = "way={way!r} does not hold the rows, which outcome= needs. Use way='rows' or 'auto'."


def read_rows(log: LogScan, outcome: Any, **columns: Any) -> BanditLog:
    """All rows of a scanned log as `BanditLog.from_frame` reads them; refused where they are too many."""
    try:
        if log.way not in {"auto", "rows"}:
            raise UsageError(OF_ROWS.format(way=log.way))
        if columns["id"] is None and not log.engine.keeps_order:
            raise UsageError(NEEDS_ID.format(name=log.engine.name))
        n = int(log.engine.table(log.table.aggregate(n=log.table.count()))["n"][0].as_py())
        if n > log.limits.rows:
            raise UsageError(TOO_MANY.format(n=n, most=log.limits.rows))
        rows = log.engine.table(log.table).to_pandas()
        made = BanditLog.from_frame(rows, outcome=outcome, **columns)
        return replace(made, about={**made.about, **log.described_as("rows", n, n)})
    finally:
        log.close()
