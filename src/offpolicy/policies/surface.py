"""What a policy may refer to: the actions, columns and rows of a log, wherever the log is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from offpolicy.logs.frame import Columns

if TYPE_CHECKING:
    from collections.abc import Hashable

    from offpolicy.logs.log import Log, Scan


@dataclass(frozen=True)
class Surface:
    """The side of a log that policies see before any row is read.

    Attributes
    ----------
    actions : tuple
        The log's actions, in order.
    columns : tuple of str
        Columns that a policy may name; those of the frame or the table, not of the context only.
    context : tuple of str
        Names of the context's columns.
    action : str
        Name of the column of logged actions.
    rows : int or None
        Rows that an array can be matched with; None where rows are not held in memory.
    integer_states : bool
        Whether rows are decisions of episodes in states that are whole numbers.
    is_continuous : bool
        Whether actions are numbers, and not labels.
    of_slates : bool
        Whether units are slates, of items at positions.
    """

    actions: tuple[Hashable, ...]
    columns: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    action: str = "action"
    rows: int | None = None
    integer_states: bool = False
    is_continuous: bool = False
    of_slates: bool = False

    @classmethod
    def of(cls, given: Log | Scan) -> Surface:
        """Of a log in memory, scanned or streamed."""
        if given.in_memory:
            log = cast("Log", given)
            columns = () if log.source is None else tuple(Columns(log.source).names)
            rows, names = len(log.action), log.context.names or ()
            states = log.leads_on and _are_integers(log.context)
            return cls(
                log.actions, columns, tuple(names), log.names.action, rows, states, log.is_continuous, log.shows_items
            )
        scan = cast("Scan", given)
        return cls(
            scan.actions,
            scan.nameable,
            tuple(scan.roles.context),
            scan.roles.action,
            is_continuous=scan.is_continuous,
            of_slates=scan.kind == "slates",
        )


def _are_integers(context: Any) -> bool:
    if context.is_frame:
        table = Columns(context.table)
        return len(table.names) == 1 and table.values(table.names[0]).dtype.kind in "iu"
    return context.table.ndim == 1 and context.table.dtype.kind in "iu"
