"""Columns of Arrow tables as labels and codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import places
from offpolicy.errors import DataError
from offpolicy.logs.actions import encode

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints


def numbers(table: Any, name: str) -> Floats:
    """A column as float64."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def codes_of(table: Any, name: str) -> tuple[tuple[Any, ...], Ints]:
    """Sorted labels of a column and the position of each entry among them; missing ones come last."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    if pa.types.is_nested(column.type):
        raise DataError(
            f"column {name!r} holds {column.type}, of which no value can be a label. A label is text or a number; join "
            "the parts into one text."
        )
    if (small := _small_integers(column)) is not None:
        return small
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    labels: tuple[Any, ...]
    if distinct.type in _number_types():
        values = distinct.to_numpy(zero_copy_only=False)
        order = np.argsort(values)
        rank = np.empty(len(values), dtype=np.int64)
        rank[order] = np.arange(len(values))
        labels = tuple(values[order].tolist())
    else:
        objects = np.empty(len(distinct), dtype=object)
        objects[:] = distinct.to_pylist()
        labels, rank = encode(objects, None, name)
    if column.null_count:
        labels, rank = (*labels, None), np.append(rank, len(labels))
    indices = encoded.indices.fill_null(len(distinct)) if column.null_count else encoded.indices
    index = indices.to_numpy(zero_copy_only=False)
    return labels, rank[index]


def _small_integers(column: Any) -> tuple[tuple[Any, ...], Ints] | None:
    """The same for integers of a narrow range, by marking those that occur."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count or len(column) == 0:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    if high - low >= len(values) or high >= 2**62:
        return None
    present, place = places(values.astype(np.int64) - low, high - low + 1)
    return tuple((present + low).tolist()), place


def _number_types() -> set[Any]:
    import pyarrow as pa

    return {pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8()}
