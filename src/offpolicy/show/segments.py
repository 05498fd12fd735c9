"""Units grouped by a column of the context, and the estimate inside each group.

Categories are kept as they are, numbers with more than a dozen values are cut in fifths of the mass. Equal
rows give equal groups, in whichever order they come and whether or not they are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy._arrays import quantiles
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.figures import plain
from offpolicy.inference.reach import masses
from offpolicy.logs.frame import Columns
from offpolicy.show import tables
from offpolicy.trust.verdict import policy_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy._document import Row
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.log import Log

Column: TypeAlias = str | int

AUTOMATIC = 4
MOST_GROUPS = 12
PARTS = 5
MOST_TEXTS = 10_000
MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Segments:
    """Units grouped by one column: the (N,) group of each, and what the groups are called."""

    column: str
    codes: Ints
    labels: list[str]


def chosen_columns(log: Log, segments: Sequence[Column] | Column | None) -> list[Column]:
    """The columns asked for, checked; None takes the first four of a frame's context."""
    if segments is None:
        return list((log.context.names or ())[:AUTOMATIC])
    columns = [segments] if isinstance(segments, str | int) else list(segments)
    for column in columns:
        names = known_columns(log)
        if column not in names:
            raise UsageError(f"segments=: the log has no column {column!r}.{did_you_mean(column, names)}")
    return columns


def known_columns(log: Log) -> list[Column]:
    """Columns that units can be grouped by: the context's, and a bandit frame's others."""
    if log.context.names is None:
        table = np.asarray(log.context.table)
        return list(range(table.shape[1])) if table.ndim == 2 else [0]
    names: list[Column] = list(log.context.names)
    if log.unit_kind.decides_once and log.source is not None and not log.is_counted:
        names += [n for n in Columns(log.source).names if n not in names]
    return names


def values_of(log: Log, column: Column) -> Array:
    """(N,) the column's value in each unit; an episode's is that of its first step."""
    first = log.layout.offsets[:-1]
    if log.context.names is not None and column not in log.context.names:
        return Columns(log.source).values(str(column))
    at = log.context.positions(first)
    if log.context.names is None:
        table = np.asarray(log.context.table)
        return np.asarray(table[at, int(column)] if table.ndim == 2 else table[at])
    return np.asarray(log.context.column(str(column))[at])


def groupings(evaluation: Evaluation, segments: Sequence[Column] | Column | None) -> list[Segments]:
    """The columns asked for, each cut into groups; the same for every policy."""
    log = evaluation.problem.log
    mass, _ = masses(evaluation.problem.units)
    out = []
    for column in chosen_columns(log, segments):
        name = column if isinstance(column, str) else f"context {column}"
        groups = grouped(name, values_of(log, column), mass)
        if groups is not None:
            out.append(groups)
        elif segments is not None:
            raise UsageError(
                f"segments=: column {column!r} has more than {MOST_TEXTS:,} different values. Give one with fewer."
            )
    return out


def by_segment(evaluation: Evaluation, policy: str, segments: Sequence[Segments], level: float = 0.95) -> list[Row]:
    """The estimate inside each group of each column; the intervals of all of them hold together."""
    total = sum(len(s.labels) for s in segments)
    return [
        {"column": s.column, **row}
        for s in segments
        for row in tables.by_group(evaluation, policy, s.codes, s.labels, level, among=total)
    ]


def segment_rows(
    ev: Evaluation, columns: Sequence[Column] | Column | None, policy: str | None = None, level: float = 0.95
) -> list[Row]:
    """What `Evaluation.segments` holds: one row per policy, column and group."""
    names = ev.policies if policy is None else [policy_name(ev, policy)]
    groups = groupings(ev, columns)
    return [
        {
            "policy": name,
            "column": row["column"],
            "segment": row["group"],
            "value": row["value"],
            "low": row["low"],
            "high": row["high"],
            "logged": row["logged"],
            "difference": row["gap"],
            "difference_low": row["gap_low"],
            "difference_high": row["gap_high"],
            "n": row["n"],
            "share": row["share"],
        }
        for name in names
        for row in by_segment(ev, name, groups, level)
    ]


def grouped(column: str, values: Array, mass: Floats) -> Segments | None:
    """At most a dozen groups of a column's values; None where it has too many different texts.

    >>> groups = grouped("x", np.array([2.0, 1.0, np.nan]), np.ones(3))
    >>> groups.labels, groups.codes.tolist()
    (['1', '2', 'missing'], [1, 0, 2])
    """
    if values.dtype.kind in "iuf":
        return _numbers(column, values.astype(np.float64) + 0.0, mass)
    return _texts(column, values, mass)


def _numbers(column: str, values: Floats, mass: Floats) -> Segments:
    """Every number, or fifths of their mass, each closed on the right; the missing apart."""
    missing = np.isnan(values)
    present = values[~missing]
    different = np.unique(present)
    if len(different) <= MOST_GROUPS:
        codes, labels = (np.searchsorted(different, values), [label_of(v) for v in different.tolist()])
    else:
        cuts = np.unique(quantiles(present, np.arange(1, PARTS) / PARTS, mass[~missing]))
        cuts = cuts[cuts < different[-1]]
        codes = np.searchsorted(cuts, values)
        labels = [
            plain(a) if math.isclose(a, b) else f"{plain(a)} to {plain(b)}"
            for a, b in pairwise([different[0], *cuts.tolist(), different[-1]])
        ]
    if missing.any():
        labels.append(MISSING)
    return Segments(column, np.where(missing, len(labels) - 1, codes), labels)


def _texts(column: str, values: Array, mass: Floats) -> Segments | None:
    """Every label, or the most frequent ones and the others together; missing values are the last label."""
    if values.dtype.kind == "M":
        values = values.astype("datetime64[D]")
    seen: dict[str, int] = {}
    if values.dtype.kind == "O":
        codes = [seen.setdefault(label_of(v), len(seen)) for v in values.tolist()]
        place = np.array(codes, dtype=np.int64)
    else:
        different, place = np.unique(values, return_inverse=True)
        seen = {label_of(v): i for i, v in enumerate(different.tolist())}
    names = sorted(seen, key=lambda name: (name == MISSING, name))
    if len(seen.keys() - {MISSING}) > MOST_TEXTS:
        return None
    labels = names
    if len(names) > MOST_GROUPS:
        size = np.bincount(place, weights=mass)[[seen[name] for name in names]]
        frequent = np.sort(np.argsort(-size, kind="stable")[: MOST_GROUPS - 1])
        labels = [names[i] for i in frequent]
        labels = [*labels, f"{len(names) - len(labels):,} others"]
    own = {name: i for i, name in enumerate(labels)}
    rank = np.array([own.get(name, len(labels) - 1) for name in seen], dtype=np.int64)
    return Segments(column, rank[place], labels)


def label_of(value: Any) -> str:
    """What a value is called; whole numbers without a point.

    >>> label_of(2.0), label_of(0.25), label_of(None), label_of("x")
    ('2', '0.25', 'missing', 'x')
    """
    if isinstance(value, str):
        return value
    if str(value) in {"None", "nan", "NaT", "<NA>"}:
        return MISSING
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:g}"
    return str(value)
