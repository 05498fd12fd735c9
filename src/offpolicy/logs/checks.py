"""Checks of one column, made once when a log is built; each names the column, the rows and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import DataError, first_rows
from offpolicy.logs import messages
from offpolicy.logs.actions import is_missing
from offpolicy.logs.frame import exact_in_float, to_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints

SUM_TOLERANCE = 1e-6
LARGEST = 1e30  # beyond it squares of weighted numbers leave the range of a float
SMALLEST = 1e-30
ROUNDING = 64 * float(np.finfo(np.float64).eps)


def one_dimensional(values: Any, column: str, role: str) -> Floats:
    """A numeric (n,) array from anything numpy understands."""
    array = np.asarray(detached(values))
    if array.ndim != 1:
        raise DataError(f"{column!r}: the {role} must be one number per row. Got shape {array.shape}.")
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        if array.dtype.kind in "iu":
            exact_in_float(numbers, column, role)
        return numbers
    return to_float(array if array.dtype.kind in "mM" else array.astype(object), column, role)


def same_length(n: int, lengths: dict[str, int]) -> None:
    """Every part of a log has n rows."""
    for name, length in lengths.items():
        if length != n:
            raise DataError(
                f"{name!r} has {length:,} rows, the actions have {n:,}. Every part of a log needs one entry per row."
            )


def not_empty(n: int) -> None:
    """A log has rows."""
    if n == 0:
        raise DataError(messages.EMPTY)


def finite(values: Floats, column: str, role: str) -> Floats:
    """No NaN, no infinity."""
    bad = ~np.isfinite(values)
    if bad.any():
        raise DataError(messages.not_finite(column, role, first_rows(bad, values)))
    return values


def computable(values: Floats, column: str, role: str) -> Floats:
    """Finite numbers whose squares are numbers too, and which differ by more than rounding or not at all."""
    finite(values, column, role)
    low, high = float(values.min()), float(values.max())
    largest = max(abs(low), abs(high))
    if largest > LARGEST:
        where = first_rows(np.abs(values) > LARGEST, values)
        raise DataError(messages.too_large(column, role, where))
    if 0 < largest < SMALLEST:
        raise DataError(messages.too_small(column, role, largest))
    if role == "reward" and 0 < high - low <= ROUNDING * largest:
        raise DataError(messages.only_rounding(column, low, high))
    return values


def probability(values: Floats, column: str, role: str = "propensity") -> Floats:
    """Every value lies in (0, 1]."""
    missing = np.isnan(values)
    if missing.any():
        raise DataError(messages.probability_missing(column, role, first_rows(missing)))
    low = values <= 0
    if low.any():
        raise DataError(messages.probability_low(column, role, first_rows(low, values)))
    vanishing = values < SMALLEST
    if vanishing.any():
        where = first_rows(vanishing, values)
        raise DataError(messages.probability_vanishing(column, role, where))
    high = values > 1
    if high.any():
        largest = float(values[np.isfinite(values)].max())
        raise DataError(messages.probability_high(column, role, first_rows(high, values), largest))
    return values


def density(values: Floats, column: str) -> Floats:
    """Every value is a density that something that happened can have had."""
    with np.errstate(invalid="ignore"):
        bad = ~((values >= SMALLEST) & (values <= LARGEST))
    if bad.any():
        raise DataError(messages.density_bad(column, first_rows(bad, values)))
    return values


def distribution(matrix: Floats, action: Ints, column: str, *, tolerance: float = SUM_TOLERANCE) -> Floats:
    """(n, K) rows are distributions that give the logged action a positive probability."""
    bad: Bools = np.asarray(
        ~np.isfinite(matrix).all(axis=1) | (matrix < 0).any(axis=1) | (matrix > 1 + tolerance).any(axis=1)
    )
    if bad.any():
        raise DataError(
            f"{column!r}: {first_rows(bad)} hold entries that are missing or outside [0, 1]. "
            "Propensity columns are the logging policy's probabilities of each action."
        )
    total = matrix.sum(axis=1)
    off = np.asarray(np.abs(total - 1) > tolerance)
    if off.any():
        raise DataError(
            f"{column!r}: {first_rows(off, total)} do not sum to 1 over the actions. Give one "
            "column for every action, in the order of `actions`."
        )
    probability(matrix[np.arange(len(matrix)), action], column)
    return matrix


def logged_propensity(values: Array | None, action: Ints, column: str) -> tuple[Floats | None, Floats | None]:
    """(n,) probability of the logged action and, where it was logged, the whole (n, K) distribution."""
    if values is None:
        return None, None
    if values.ndim == 1:
        return probability(values, column), None
    whole = distribution(values.astype(np.float64), action, column)
    return whole[np.arange(len(whole)), action], whole


def weights(values: Floats, column: str) -> Floats:
    """Finite, not negative, not all zero."""
    computable(values, column, "weight")
    bad = values < 0
    if bad.any():
        raise DataError(messages.negative_weight(column, first_rows(bad, values)))
    if not values.any():
        raise DataError(messages.no_weight(column))
    return values


def counts(values: Floats, column: str) -> Floats:
    """Whole numbers of at least one."""
    finite(values, column, "count")
    bad = (values < 1) | (values != np.floor(values))
    if bad.any():
        raise DataError(
            f"column {column!r}: {first_rows(bad, values)} are not counts. A count says how many "
            "identical rows one row stands for: 1, 2, 3, …"
        )
    return values


def groups(values: Array, column: str, role: str) -> tuple[tuple[Any, ...], Ints]:
    """Labels in sorted order and the (n,) codes of a grouping column."""
    missing = is_missing(values)
    if missing.any():
        raise DataError(messages.group_missing(column, role, first_rows(missing)))
    from offpolicy.logs.actions import encode

    labels, codes = encode(values, None, column)
    return labels, codes


def coded(values: Array | None, column: str, role: str) -> tuple[tuple[Any, ...] | None, Ints | None]:
    """`groups` of a column that may be missing."""
    return (None, None) if values is None else groups(values, column, role)


def eligible_from_lists(lists: Sequence[Any], actions: Sequence[Any], column: str) -> Bools:
    """(n, K) mask from one list of eligible labels per row."""
    position = {label: i for i, label in enumerate(actions)}
    mask = np.zeros((len(lists), len(actions)), dtype=bool)
    for row, labels in enumerate(lists):
        if isinstance(labels, str | bytes) or not hasattr(labels, "__iter__"):
            raise DataError(
                f"column {column!r}: row {row} is {labels!r}, not a list of eligible actions. Give every "
                "row a list of labels, or leave eligible= out."
            )
        for label in labels:
            code = position.get(label)
            if code is None:
                raise DataError(
                    f"column {column!r}: row {row} lists action {label!r}, which is not among the "
                    "log's actions. Name all actions with `actions=`."
                )
            mask[row, code] = True
    return mask


def eligible_mask(eligible: Any, n: int, actions: Sequence[Any]) -> Bools:
    """(n, K) mask from such an array, from lists of booleans, or from a list of eligible labels per row."""
    is_mask = isinstance(eligible, np.ndarray) and eligible.ndim == 2
    if is_mask or all(isinstance(v, bool | np.bool_) for row in eligible for v in row):
        mask = np.asarray(eligible)
        if mask.shape != (n, len(actions)) or not ((mask == 0) | (mask == 1)).all():
            raise DataError(
                f"'eligible' must have shape (n, K) = ({n}, {len(actions)}) and hold True and False, or be "
                f"one list of labels per row. Got shape {mask.shape}."
            )
        return mask.astype(bool)
    if len(eligible) != n:
        raise DataError(f"'eligible' has {len(eligible):,} rows, the actions have {n:,}.")
    for row, labels in enumerate(eligible):
        if len(set(labels)) < len(labels):  # zeros and ones meant as a mask would pass for labels
            raise DataError(f"'eligible': row {row} lists an action twice. Give labels, or a mask of booleans.")
    return eligible_from_lists(list(eligible), actions, "eligible")


def text_column(values: Array) -> Array:
    """One column of text held as objects, as pandas gives it, becomes an array of text."""
    is_text = values.dtype == object and values.ndim == 1
    return values.astype(str) if is_text and all(isinstance(v, str) for v in values) else values


def logged_is_eligible(mask: Bools, action: Ints, column: str) -> Bools:
    """The action that was taken was one that could be taken."""
    bad = ~mask[np.arange(len(mask)), action]
    if bad.any():
        raise DataError(
            f"column {column!r}: the logged action is not among the eligible ones in {first_rows(bad)}. "
            "What was taken could be taken; repair the lists or drop these rows."
        )
    return mask
