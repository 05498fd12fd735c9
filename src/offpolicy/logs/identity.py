"""Which unit is which: ids and clusters as integers, the same on every path.

An integer is itself; text enters by the first 32 bits of its MD5 digest, which every engine can compute.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, first_rows
from offpolicy.logs.actions import label_array

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Ints


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
            f"column {column!r}: {first_rows(repeated, values)} repeat the id of another row. An id tells "
            "rows apart: remove repeated rows, or name what groups rows with cluster=."
        )
    return np.asarray(order, dtype=np.int64)
