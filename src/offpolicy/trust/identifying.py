"""Text with nearly as many levels as rows in the context: dates, ids and free text, from which models learn noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.hashes import HashCounts

if TYPE_CHECKING:
    from offpolicy._arrays import Array
    from offpolicy.logs.log import Log
    from offpolicy.trust.hashes import Hashes

Levels: TypeAlias = dict[str, HashCounts]

NAME = "identifying_columns"
MANY = 50  # levels from which on they are compared with the number of rows


def text_levels(columns: list[tuple[str, Array, Hashes]], bits: int) -> Levels:
    """Different values of each text column of a table of contexts, or of a block of it."""
    return {
        name: HashCounts.of(hashes, np.ones(len(hashes)), bits) for name, values, hashes in columns if is_text(values)
    }


def is_text(values: Array) -> bool:
    """Whether a column holds texts.

    >>> is_text(np.array([None, "a"], dtype=object)), is_text(np.array([1.5])), is_text(np.array(["a"]))
    (True, False, True)
    """
    if values.dtype.kind in "UT":
        return True
    return values.dtype.kind == "O" and any(isinstance(v, str) for v in values[:100])


def joined_levels(one: Levels, other: Levels) -> Levels:
    """Different values of both blocks."""
    both = {name: one[name] + other[name] for name in one if name in other}
    return {**one, **other, **both}


def finding(log: Log, levels: Levels) -> Finding:
    """The text column with most levels for its rows."""
    if not levels:
        return not_applicable(NAME, "the context has no text columns.")
    rows = float(log.count.sum()) if log.is_counted else float(len(log.action))
    shares = {n: c.distinct / rows for n, c in levels.items() if c.distinct > MANY}
    if not shares:
        return judged(NAME, 0.0, f"no text column of the context has more than {MANY} levels.")
    name = max(shares, key=lambda n: shares[n])
    number = levels[name].distinct
    sentence = f"context column {name!r} is text with {number:,.0f} different values in {rows:,.0f} rows."
    return judged(NAME, shares[name], sentence, {"column": name, "levels": number})
