"""Groups of units by a context column: categories as they are, numbers in fifths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.frame import Columns
from offpolicy.report import facts
from offpolicy.report.figures import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.evaluation.result import Evaluation

Column: TypeAlias = str | int

MOST_GROUPS = 12
PARTS = 5
AUTOMATIC = 4


def chosen_columns(log: Any, segments: Sequence[Column] | Column | None) -> list[Column]:
    """The columns asked for, checked; None takes the first four of a frame's context."""
    if segments is None:
        return list((log.context.names or ())[:AUTOMATIC])
    asked = [segments] if isinstance(segments, str | int) else list(segments)
    for column in asked:
        known = known_columns(log)
        if column not in known:
            raise UsageError(
                f"segments=: the log has no column {column!r}.{did_you_mean(column, known)}"
            )
    return asked


def known_columns(log: Any) -> list[Column]:
    """Columns that units can be grouped by: the context's, and a bandit frame's others."""
    if log.context.names is None:
        table = np.asarray(log.context.table)
        return list(range(table.shape[1])) if table.ndim == 2 else [0]
    names: list[Column] = list(log.context.names)
    if log.kind == "bandit" and log.source is not None and log.count is None:
        names += [n for n in Columns(log.source).names if n not in names]
    return names


def values_of(log: Any, column: Column) -> Array:
    """(N,) the column's value in each unit; an episode's is that of its first step."""
    first = log.layout.offsets[:-1]
    if log.context.names is not None and column not in log.context.names:
        return Columns(log.source).values(str(column))
    at = log.context.positions(first)
    if log.context.names is None:
        table = np.asarray(log.context.table)
        return np.asarray(table[at, int(column)] if table.ndim == 2 else table[at])
    return np.asarray(Columns(log.context.table).values(str(column))[at])


def groups(values: Array, mass: Floats) -> tuple[Ints, list[str]]:
    """Codes and labels of at most a dozen groups.

    >>> codes, labels = groups(np.array(["b", "a", "b"]), np.ones(3))
    >>> codes.tolist(), labels
    ([1, 0, 1], ['a', 'b'])
    """
    if values.dtype.kind in "iuf":
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        if len(np.unique(values[~missing])) > MOST_GROUPS:
            return _parts(values.astype(np.float64), missing)
    if values.dtype.kind == "M":
        values = values.astype("datetime64[D]")
    names, codes = _distinct(values)
    if len(names) <= MOST_GROUPS:
        return codes, names
    size = np.bincount(codes, weights=mass)
    kept = np.sort(np.argsort(-size, kind="stable")[: MOST_GROUPS - 1])
    place = np.full(len(names), len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return place[codes], [*(names[k] for k in kept), f"{len(names) - len(kept):,} others"]


def _distinct(values: Array) -> tuple[list[str], Ints]:
    """Labels in order, and the code of each value."""
    if values.dtype.kind != "O":
        distinct, codes = np.unique(values, return_inverse=True)
        return [_label(v) for v in distinct.tolist()], codes
    labels: dict[Any, str] = {}
    text = [labels.setdefault(v, _label(v)) if _is_plain(v) else _label(v) for v in values.tolist()]
    names, codes = np.unique(np.array(text, dtype=str), return_inverse=True)
    return [str(n) for n in names], codes


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int)


def _label(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) == "NaT":
        return "missing"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parts(values: Floats, missing: Array) -> tuple[Ints, list[str]]:
    """Fifths of a number, each closed on the left, and the missing apart."""
    edges = np.unique(np.quantile(values[~missing], np.linspace(0, 1, PARTS + 1)))
    codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    labels = [f"{plain(a)} to {plain(b)}" for a, b in pairwise(edges.tolist())]
    if missing.any():
        codes[missing] = len(labels)
        labels.append("missing")
    return codes, labels


@dataclass(frozen=True, eq=False)
class Grouping:
    """Units grouped by one column."""

    column: str
    codes: Ints
    labels: list[str]


def groupings(evaluation: Evaluation, segments: Sequence[Column] | Column | None) -> list[Grouping]:
    """The columns asked for, each cut into groups; the same for every policy."""
    log, mass = evaluation.problem.log, evaluation.problem.units.mass
    out = []
    for column in chosen_columns(log, segments):
        values = values_of(log, column)
        codes, labels = groups(values, np.ones(len(values)) if mass is None else mass)
        out.append(
            Grouping(column if isinstance(column, str) else f"context {column}", codes, labels)
        )
    return out


def by_segment(
    evaluation: Evaluation, policy: str, grouped: Sequence[Grouping], level: float = 0.95
) -> list[facts.Row]:
    """The estimate inside each group of each column."""
    return [
        {"column": g.column, **row}
        for g in grouped
        for row in facts.by_group(evaluation, policy, g.codes, g.labels, level)
    ]
