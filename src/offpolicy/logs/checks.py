"""What a column must hold, by its role: declared once, for arrays and for queries of an engine alike.

A check is an expression over a column ``x`` and over which of its entries are ``gone`` (missing). Arrays and Ibis
columns know the same operators, so that it is written once, with the sentence that names the column, the rows (or
examples) and the remedy.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import DataError, first_rows, row_numbers
from offpolicy.logs.actions import encode, is_missing, label_array
from offpolicy.logs.frame import exact_in_float, to_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints

EMPTY = "the log is empty: it has no rows. There is nothing to evaluate."
SUM_TOLERANCE = 1e-6
LARGEST = 1e30  # beyond it squares of weighted numbers leave the range of a float
SMALLEST = 1e-30
ROUNDING = 64 * float(np.finfo(np.float64).eps)
BARELY = 1.001  # above 1 by rounding


@dataclass(frozen=True, eq=False)
class Finding:
    """Values of one kind that a column must not hold.

    Attributes
    ----------
    bad : (n,) mask, or an expression
        Which rows hold such a value.
    shown : (n,) array, expression or None
        What to show of them.
    says : callable
        The sentence, given where they are and the largest value of the column.
    """

    bad: Any
    shown: Any
    says: Callable[[str, float], str]


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


def one_label(action: Any) -> Array:
    """One label per row."""
    taken = label_array(action)
    if taken.ndim != 1:
        raise DataError(f"'action' must be one label per row. Got shape {taken.shape}.")
    return taken


def same_length(n: int, lengths: dict[str, int]) -> None:
    """Every part of a log has n rows."""
    for name, length in lengths.items():
        if length != n:
            raise DataError(
                f"{name!r} has {length:,} rows, but there are {n:,} actions. Every part of a log needs one entry per "
                "row."
            )


def not_empty(n: int) -> None:
    """A log has rows."""
    if n == 0:
        raise DataError(EMPTY)


def numbers(x: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """Finite numbers whose squares are numbers too."""
    most = sys.float_info.max
    large = (
        f"are larger than 1e30. The {role} is squared and multiplied by weights, which would overflow. "
        "Rescale the column."
    )
    seen = (
        " If a row was not labeled, or its reward may still come, pass outcome=op.Labeled(…) or op.Delayed(…)."
        if role == "reward"
        else ""
    )
    return [
        Finding(
            gone | (x > most) | (x < -most),
            x,
            lambda where, _: (
                f"column {column!r}: {where} are missing or infinite. "
                f"The {role} must be a finite number; drop these rows or fill them in "
                f"before building the log (offpolicy imputes nothing).{seen}"
            ),
        ),
        Finding((x > LARGEST) | (x < -LARGEST), x, lambda where, _: f"column {column!r}: {where} {large}"),
    ]


def seen_in_part(x: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """The same for rewards that are missing in some rows; an engine may count what is missing as the largest."""
    return [Finding(each.bad & ~gone, each.shown, each.says) for each in numbers(x, gone, column, role)]


def probabilities(x: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """Numbers in (0, 1]."""
    ending = ", or leave propensity= out to have it estimated." if role == "propensity" else "."
    drawn = {
        "keep-probability": "the row was kept",
        "probability of a label": "the row was labeled, whether it was or not",
    }
    what = drawn.get(role, "the logged action was taken")

    def high(where: str, largest: float) -> str:
        remedy = "Check the column."
        if largest <= BARELY:
            remedy = "They exceed 1 only by rounding: set them to 1."
        elif largest <= 100:
            remedy = "They look like percentages: divide by 100."
        return f"column {column!r}: {where} are above 1. A {role} is a probability in (0, 1]. {remedy}"

    return [
        Finding(
            gone, None, lambda where, _: f"column {column!r}: the {role} is missing in {where}. Drop these rows{ending}"
        ),
        Finding(
            ~gone & (x <= 0),
            x,
            lambda where, _: (
                f"column {column!r}: {where} are zero or negative. The {role} is the "
                f"probability with which {what}, which cannot be 0; check the column."
            ),
        ),
        Finding(
            ~gone & (x < SMALLEST),
            x,
            lambda where, _: (
                f"column {column!r}: {where} are below 1e-30. An action with such a {role} would never be "
                "logged. Look for log-probabilities, underflow or a wrong column. Leave these rows out if they are "
                "errors."
            ),
        ),
        Finding(~gone & (x > 1), x, high),
    ]


def densities(x: Any, gone: Any, column: str, _: str) -> list[Finding]:
    """Densities that something that happened can have had."""
    says = (
        "are not densities. When actions are numbers, the propensity is the density at the logged action, from 1e-30 "
        "to 1e30. Drop these rows, or leave propensity= out to have it estimated."
    )
    bad = gone | (x < SMALLEST) | (x > LARGEST)
    return [Finding(bad, x, lambda where, _: f"column {column!r}: {where} {says}")]


def weights(x: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """Numbers that are not negative."""
    says = "are negative. Weights must be at least 0."
    return [*numbers(x, gone, column, role), Finding(x < 0, x, lambda where, _: f"column {column!r}: {where} {says}")]


def counts(x: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """Whole numbers of at least one."""
    says = "are not counts. A count says how many identical rows one row stands for: 1, 2, 3, …"
    return [
        numbers(x, gone, column, role)[0],
        Finding((x < 1) | (x % 1 != 0), x, lambda where, _: f"column {column!r}: {where} {says}"),
    ]


def present(_: Any, gone: Any, column: str, role: str) -> list[Finding]:
    """Keys that no row lacks."""
    return [
        Finding(
            gone,
            None,
            lambda where, _: (
                f"column {column!r}: the {role} is missing in {where}. Every row belongs to one {role}; fill in or "
                "drop these rows."
            ),
        )
    ]


def distributions(columns: Sequence[Any], gone: Sequence[Any], column: str) -> list[Finding]:
    """Columns of which each row is a distribution."""
    bad = (g | (p < 0) | (p > 1 + SUM_TOLERANCE) for p, g in zip(columns, gone, strict=True))
    total = reduce(add, columns)
    off = total - 1
    return [
        Finding(
            reduce(or_, bad),
            None,
            lambda where, _: (
                f"{column!r}: {where} have entries that are missing or outside [0, 1]. "
                "Propensity columns are the logging policy's probabilities of each action."
            ),
        ),
        Finding(
            (off > SUM_TOLERANCE) | (off < -SUM_TOLERANCE),
            total,
            lambda where, _: (
                f"{column!r}: {where} do not sum to 1 over the actions. Give one column per action, in the "
                "order of `actions`."
            ),
        ),
    ]


#: What a column must hold, by its role; of an action that is a number the propensity is a density.
COLUMN: dict[str, Callable[[Any, Any, str, str], list[Finding]]] = {
    "reward": numbers,
    "partly observed reward": seen_in_part,
    "action": numbers,
    "propensity": probabilities,
    "density": densities,
    "keep-probability": probabilities,
    "weight": weights,
    "count": counts,
    "batch": present,
    "cluster": present,
    "fold": present,
    "id": present,
}


def raise_first(findings: Sequence[Finding]) -> None:
    """Raise for the first kind of bad value among arrays."""
    for each in findings:
        if each.bad.any():
            known = np.empty(0) if each.shown is None else each.shown[~np.isnan(each.shown)]
            raise DataError(each.says(first_rows(each.bad, each.shown), float(known.max(initial=-math.inf))))


def check(values: Array, column: str, role: str, what: str | None = None) -> Any:
    """The values, checked for what their role (or ``what``, a key of `COLUMN`) asks for."""
    with np.errstate(invalid="ignore"):
        raise_first(COLUMN.get(what or role, present)(values, is_missing(values), column, role))
    if (what or role) in {"reward", "weight", "action"} and len(values):
        check_ends(values.min(), values.max(), column, role)
    return values


def check_ends(low: Any, high: Any, column: str, role: str) -> None:
    """The smallest and largest of some numbers differ by more than rounding or not at all, and are not next to 0."""
    low, high = float(low), float(high)
    largest = max(abs(low), abs(high))
    if 0 < largest < SMALLEST:
        raise DataError(
            f"column {column!r}: the largest {role} is {largest:g}, and its square would underflow. Rescale the column."
        )
    if role == "reward" and 0 < high - low <= ROUNDING * largest:
        raise DataError(
            f"column {column!r}: all rewards are between {low!r} and {high!r}, which differ only in the last digits of "
            "a float. Subtract a constant from the rewards first."
        )
    if role == "weight" and high == 0:
        raise DataError(f"column {column!r}: every weight is 0, so no row would count.")


def logged_propensity(values: Array | None, action: Ints, column: str) -> tuple[Floats | None, Floats | None]:
    """(n,) probability of the logged action and, where it was logged, the whole (n, K) distribution."""
    if values is None:
        return None, None
    if values.ndim == 1:
        return check(values, column, "propensity"), None
    whole = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        raise_first(distributions(list(whole.T), list(np.isnan(whole).T), column))
    taken = whole[np.arange(len(whole)), action]
    return check(taken, column, "propensity"), whole


def groups(values: Array, column: str, role: str) -> tuple[tuple[Any, ...], Ints]:
    """Labels in sorted order and the (n,) codes of a grouping column."""
    return encode(check(values, column, role), None, column)


def eligible_from_lists(lists: Sequence[Any], actions: Sequence[Any], column: str) -> Bools:
    """(n, K) mask from one list of eligible labels per row."""
    position = {label: i for i, label in enumerate(actions)}
    mask = np.zeros((len(lists), len(actions)), dtype=bool)
    numbers = row_numbers(len(lists))
    for place, labels in enumerate(lists):
        row = place if numbers is None else numbers[place]
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
            mask[place, code] = True
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
        raise DataError(f"'eligible' has {len(eligible):,} rows, but there are {n:,} actions.")
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
            "A logged action must have been eligible; repair the lists or drop these rows."
        )
    return mask
