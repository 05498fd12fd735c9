"""Keys of a GROUP BY packed into one integer, which DuckDB groups and numpy sorts several times faster.

Every key column is replaced by the number of its value among the sorted distinct values, and the numbers
share the bits of a 64-bit integer. Sorting the integers sorts the cells by their keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Ints
    from offpolicy.engines.engine import Engine

MOST_VALUES = 20_000
MOST_BITS = 62
KEY = "packed"


@dataclass(frozen=True, eq=False)
class Packing:
    """How a row's keys become one integer, first key highest.

    Attributes
    ----------
    names : tuple of str
        The key columns.
    bits : tuple of int
        Bits that each takes.
    values : dict
        Sorted distinct values of the columns that are looked up; the others are small numbers already.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    values: dict[str, Any]

    def pack(self, engine: Engine, rows: Any) -> Any:
        """Rows with the packed key beside their columns."""
        import pyarrow as pa

        for name, values in self.values.items():
            codes = pa.array(np.arange(len(values)), pa.int64())
            known = engine.upload(pa.table({f"{name}_value": values, f"{name}_code": codes}))
            rows = rows.join(known, [rows[name] == known[f"{name}_value"]])
        key: Any = None
        for name, bits in zip(self.names, self.bits, strict=True):
            code = rows[f"{name}_code" if name in self.values else name].cast("int64")
            key = code if key is None else key * (1 << bits) + code
        return rows.mutate(**{KEY: key})

    def unpack(self, cells: Any) -> Any:
        """Cells in the order of their keys, with a column for each key instead of the packed one."""
        import pyarrow as pa

        key, others = self._sorted(cells)
        columns: dict[str, Any] = {}
        shift = sum(self.bits)
        for name, bits in zip(self.names, self.bits, strict=True):
            shift -= bits
            column = pa.array(((key >> shift) & ((1 << bits) - 1)).astype(np.int32))
            columns[name] = self.values[name].take(column) if name in self.values else column
        return pa.table({**columns, **others})

    def _sorted(self, cells: Any) -> tuple[Ints, dict[str, Any]]:
        """Sorted keys, and the other columns in their order."""
        import pyarrow as pa

        key = np.asarray(cells[KEY].to_numpy(), dtype=np.int64)
        names = [name for name in cells.column_names if name != KEY]
        free = MOST_BITS - sum(self.bits)
        if names == ["n"]:
            count = np.asarray(cells["n"].to_numpy(), dtype=np.int64)
            if int(count.max(initial=0)) < 1 << free:
                # Counts travel in the free bits: numbers sort faster than their order is found.
                both = np.sort((key << free) | count)
                return both >> free, {"n": pa.array(both & ((1 << free) - 1))}
        order = np.argsort(key)
        return key[order], {name: cells[name].take(pa.array(order)) for name in names}


def find_packing(engine: Engine, rows: Any, sizes: dict[str, int | None]) -> Packing | None:
    """A packing of the keys, or None where they do not fit or values are missing.

    ``sizes`` gives the number of values of each key that is a number from 0 on, and None for the others.
    """
    import pyarrow.compute as pc

    values: dict[str, Any] = {}
    for name, size in sizes.items():
        if size is None:
            found = engine.table(rows.select(name).distinct().limit(MOST_VALUES + 1))[name]
            found = found.combine_chunks()
            if len(found) > MOST_VALUES or found.null_count:
                return None
            values[name] = found.take(pc.sort_indices(found))
    bits = [_bits(len(values[name]) if size is None else size) for name, size in sizes.items()]
    if sum(bits) > MOST_BITS:
        return None
    return Packing(tuple(sizes), tuple(bits), values)


def _bits(size: int) -> int:
    return max(1, (size - 1).bit_length())
