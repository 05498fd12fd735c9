"""What arguments carry besides their numbers: a numpy mask, or the labels of pandas rows.

Both are easily lost on the way into an array, and what is lost is which row is which.
"""

from __future__ import annotations

import hashlib
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached, masked
from offpolicy.errors import DataError, OffPolicyError, first_rows
from offpolicy.logs.actions import label_array, plain
from offpolicy.logs.checks import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Array, Floats, Ints


def check_given(arguments: Mapping[str, Any]) -> Any:
    """Refuse masked entries, and pandas objects whose rows have different labels; returns those labels.

    >>> import pandas as pd
    >>> check_given({"action": pd.Series([0, 1]), "reward": pd.Series([1, 0], index=[1, 0])})
    Traceback (most recent call last):
    offpolicy.errors.DataError: 'reward' and 'action' have different indexes (first: row 0 is labeled 1 in
    one and 0 in the other). Rows are matched by position, which would pair the wrong rows. Align them with
    .reindex, or pass .to_numpy() if the positions do match.
    """
    labels, first = None, ""
    for name, values in arguments.items():
        refuse_masked(values, name)
        theirs = row_labels(values)
        if theirs is None:
            continue
        if labels is None:
            labels, first = theirs, name
        elif not theirs.equals(labels):
            raise DataError(f"{name!r} and {first!r} have different indexes{differing(theirs, labels)}")
    return labels


def refuse_masked(values: Any, name: str, kind: type[OffPolicyError] = DataError) -> None:
    """Masked entries are missing ones."""
    parts = values if isinstance(values, list | tuple) else [values]
    for i, part in enumerate(parts):
        hidden = masked(part)
        if hidden is not None and hidden.any():
            rows = np.asarray(hidden.reshape(max(len(np.atleast_1d(hidden)), 1), -1).any(axis=1))
            where = f"episode {i}: " if part is not values else ""
            raise kind(
                f"{name!r}: {where}{first_rows(rows)} are masked, which means missing. Fill them, or leave "
                "these rows out."
            )


def row_labels(values: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and hasattr(index, "get_indexer") else None


def differing(mine: Any, theirs: Any) -> str:
    """Where two indexes part, and what to do about it."""
    where = f" ({len(mine):,} rows against {len(theirs):,})"
    if len(mine) == len(theirs):
        unequal = np.asarray([a != b for a, b in zip(mine, theirs, strict=True)], dtype=bool)
        row = int(unequal.argmax())
        where = f" (first: row {row} is labeled {plain(mine[row])!r} in one and {plain(theirs[row])!r} in the other)"
    return (
        f"{where}. Rows are matched by position, which would pair the wrong rows. Align them with .reindex, "
        "or pass .to_numpy() if the positions do match."
    )


def refuse_other_rows(answer: Any, given: Any, who: str, kind: type[OffPolicyError]) -> None:
    """An answer about rows has their index, or a fresh one, which says nothing about rows: 0, 1, 2, …."""
    mine, theirs = row_labels(answer), row_labels(given)
    fresh = mine is not None and mine.equals(type(mine)(range(len(mine))))
    if mine is not None and theirs is not None and not fresh and not mine.equals(theirs):
        raise kind(f"{who}: its answer and the context have different indexes{differing(mine, theirs)}")


def plain_numbers(values: Any, what: str, kind: type[OffPolicyError], largest: float = LARGEST) -> Floats:
    """An array of numbers as float64: masked, complex, dates, text and sizes that cannot be squared are refused.

    >>> plain_numbers([1, 2.5], "the score", DataError).tolist()
    [1.0, 2.5]
    >>> plain_numbers(np.array([1 + 2j]), "the score", DataError)
    Traceback (most recent call last):
    offpolicy.errors.DataError: the score holds complex128, not numbers.
    """
    refuse_masked(values, what, kind)
    array = np.asarray(detached(values))
    if array.dtype.kind == "O" and all(isinstance(v, Real) for v in array.flat):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise kind(f"{what} holds {array.dtype}, not numbers.")
    numbers: Floats = array.astype(np.float64, copy=False)
    large = np.abs(numbers) > largest
    if large.any() and np.isfinite(numbers[large]).all():
        rows = np.atleast_1d(large).reshape(len(np.atleast_1d(large)), -1).any(axis=1)
        raise kind(
            f"{what}: {first_rows(np.asarray(rows))} are larger than {largest:g}, and their squares would overflow."
        )
    return numbers


def own_copy(values: Any) -> Array:
    """An array that shares nothing with what it was made from."""
    try:
        return np.array(detached(values), copy=True)
    except ValueError as error:
        raise DataError("rows differ in shape. Give every row as many numbers, or a table to from_frame.") from error


def unit_numbers(values: Any) -> Ints:
    """(n,) integers that tell units apart.

    >>> unit_numbers(np.array([3, 4])).tolist(), unit_numbers(np.array(["a"])).tolist()
    ([3, 4], [214005177])
    """
    array = label_array(values)  # numpy would make floats of whole numbers beyond 2^63 beside smaller ones
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind in "mM":
        return array.astype("int64")
    distinct: dict[Any, int] = {}
    for value in array.tolist():
        if value not in distinct:
            distinct[value] = _number(value)
    return np.fromiter((distinct[v] for v in array.tolist()), dtype=np.int64, count=len(array))


def signed(number: int) -> int:
    """A whole number as the 64 bits with a sign that numpy would cast it to.

    >>> signed(7), signed(2**63)
    (7, -9223372036854775808)
    """
    return (number + 2**63) % 2**64 - 2**63


def _number(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, float) and value == int(value)):
        return signed(int(value))
    digest = hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16)


def order_of_ids(values: Array, column: str) -> Ints:
    """Positions that put rows in the order of their ids; two rows with one id raise."""
    if values.dtype.kind not in "iu":
        odd = np.fromiter((not isinstance(v, int | str) for v in values.tolist()), bool, len(values))
        if odd.any():
            raise DataError(
                f"column {column!r}: {first_rows(odd, values)} are neither integers nor text. An id or cluster "
                "must be an integer or text."
            )
    numbers = unit_numbers(values)
    text = values.dtype.kind not in "iub"
    keys = [np.array([str(v) for v in values.tolist()]), numbers] if text else [numbers]
    order = np.lexsort(keys)
    same = np.zeros(len(order), dtype=bool)
    same[1:] = keys[0][order][1:] == keys[0][order][:-1]
    if same.any():
        repeated = np.zeros(len(order), dtype=bool)
        repeated[order[same]] = True
        raise DataError(
            f"column {column!r}: {first_rows(repeated, values)} repeat the id of another row. An id must be "
            "unique: remove repeated rows, or name the column that groups rows with cluster=."
        )
    return np.asarray(order, dtype=np.int64)
