"""One 64-bit number per row of a log: the same row has the same number in memory, counted or in a stream.

Numbers are hashed by the bits of their float64, moments by their microseconds, texts by BLAKE2: nothing
depends on the process, on the kind of frame or on the codes that a log gives its labels. Two different rows
agree with a chance of 2⁻⁶⁴.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from offpolicy.logs.frame import Columns
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offpolicy._arrays import Array, Floats

Hashes: TypeAlias = NDArray[np.uint64]

MISSING = 0x9E3779B97F4A7C15
MOST = 1 << 17  # different hashes that are kept
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mixed(bits: Hashes) -> Hashes:
    """The finalizer of splitmix64: every input bit reaches every output bit."""
    out = bits ^ (bits >> np.uint64(30))
    out = out * np.uint64(0xBF58476D1CE4E5B9)
    out ^= out >> np.uint64(27)
    out = out * np.uint64(0x94D049BB133111EB)
    return np.asarray(out ^ (out >> np.uint64(31)))


def text_hash(text: str) -> int:
    """64 bits of a text.

    >>> text_hash("a") == text_hash("a"), text_hash("a") == text_hash("b")
    (True, False)
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def column_hashes(values: Array) -> Hashes:
    """(n,) hash of each value of a column of any dtype.

    >>> objects = np.array([1, None, 2.5], dtype=object)
    >>> bool((column_hashes(objects) == column_hashes(np.array([1.0, np.nan, 2.5]))).all())
    True
    """
    kind = values.dtype.kind
    if kind in "biuf":
        return _number_hashes(np.asarray(values, dtype=np.float64))
    if kind in "mM":
        unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
        micro = values.astype(unit).astype(np.int64)
        return np.where(np.isnat(values), np.uint64(MISSING), mixed(micro.view(np.uint64)))
    every = values.tolist()
    try:
        return np.fromiter(map(_Seen().__getitem__, every), np.uint64, len(every))
    except TypeError:  # lists and the like, which no dictionary takes
        return np.fromiter(map(_value_hash, every), np.uint64, len(every))


class _Seen(dict[Any, int]):
    """The hash of each value met so far; values that are equal have equal hashes, whatever their types."""

    def __missing__(self, value: Any) -> int:
        made = self[value] = _value_hash(value)
        return made


def _number_hashes(values: Floats) -> Hashes:
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # −0 equals 0
    return np.where(np.isnan(values), np.uint64(MISSING), mixed(bits))


def _value_hash(value: Any) -> int:
    if isinstance(value, str):
        return text_hash(value)
    if isinstance(value, list | dict | np.ndarray):  # as it is written, whichever container a path gives
        return text_hash(str(value.tolist() if isinstance(value, np.ndarray) else value))
    if str(value) in {"None", "nan", "NaT", "<NA>"}:
        return MISSING
    if isinstance(value, bool | int | float | Decimal | np.number | np.bool_):
        return int(_number_hashes(np.array([float(value)]))[0])
    if isinstance(value, date):
        micro = _microseconds(value)
        return int(mixed(np.array([micro]).view(np.uint64))[0])
    return text_hash(str(value))


def _microseconds(value: date) -> int:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - EPOCH) // timedelta(microseconds=1)


def joined(columns: Iterable[Hashes], n: int) -> Hashes:
    """(n,) hash of rows from the hashes of their columns, in order."""
    out = np.full(n, MISSING, dtype=np.uint64)
    for column in columns:
        out = mixed(out ^ column)
    return out


def context_hashes(block: Any) -> Hashes:
    """(S,) hash of the context of each decision of a log, or of a block of it."""
    whole, index = table_hashes(block), block.context.index
    return whole if index is None else whole[index]


def table_hashes(block: Any) -> Hashes:
    """(m,) hash of each row of the table of contexts."""
    return joined((column_hashes(values) for _, values in _named(block)), block.context.n_table)


def table_columns(block: Any) -> list[tuple[str, Array, Hashes]]:
    """Name, values and hashes of each column of the table of contexts."""
    return [(name, values, column_hashes(values)) for name, values in _named(block)]


def _named(block: Any) -> Iterator[tuple[str, Array]]:
    """Columns of the table of contexts, one after the other."""
    context = block.context
    if context.names is not None:
        table = Columns(context.table)
        yield from ((name, table.values(name)) for name in context.names)
    else:
        array = np.asarray(context.table)
        flat = array.reshape(len(array), -1) if array.size else np.empty((len(array), 0))
        yield from ((f"column {j}", flat[:, j]) for j in range(flat.shape[1]))


def row_hashes(block: Any, contexts: Hashes | None = None) -> Hashes:
    """(S,) hash of everything that a log says of a decision, for a log or a block of it.

    Actions and batches enter by their labels, clusters by the numbers that folds follow from.

    Parameters
    ----------
    block : BanditLog or Trajectories
    contexts : (S,) array, optional
        `context_hashes` of the block, where they are known already.
    """
    contexts = context_hashes(block) if contexts is None else contexts
    unit = block.layout.unit
    named = {"action": labels_of(block), "reward": _reward_hashes(block)}
    if several(block):
        named["step"] = column_hashes(block.layout.step)
    if block.distribution is not None:
        parts = [column_hashes(p) for p in block.distribution.T]
        named["distribution"] = joined(parts, len(block.action))
    elif block.propensity is not None:
        named["propensity"] = column_hashes(block.propensity)
    if block.eligible is not None:
        parts = [column_hashes(able) for able in block.eligible.T]
        named["eligible"] = joined(parts, len(block.action))
    if block.has_batches:
        batches = np.array([_value_hash(label) for label in block.batch_labels], dtype=np.uint64)
        named["batch"] = batches[block.batch]
    if block.has_clusters:
        named["cluster"] = column_hashes(np.asarray(block.units))[unit]
    if block.is_weighted:
        named["weight"] = column_hashes(block.weight)[unit]
    out = contexts
    for name, column in named.items():
        # The name keeps a reward of 1 apart from a propensity of 1.
        out = mixed(out ^ column ^ np.uint64(text_hash(name)))
    return out


def lesson_hashes(block: Any, contexts: Hashes) -> Hashes:
    """(S,) hash of what a learner could see of a decision: context, action and rewards, however they were weighted."""
    return mixed(mixed(contexts ^ labels_of(block)) ^ _reward_hashes(block))


def labels_of(block: Any) -> Hashes:
    """(S,) hash of the action of each decision."""
    return np.asarray(block.space.hashed(block.action))


def _reward_hashes(block: Any) -> Hashes:
    """Of the reward, or of all metrics of a row, in whichever order they are named."""
    if not block.further:
        return column_hashes(block.reward)
    named = block.metrics.items()
    parts = [mixed(column_hashes(values) ^ np.uint64(text_hash(name))) for name, values in named]
    return np.asarray(np.sum(parts, axis=0, dtype=np.uint64))


def beside_context(block: Any) -> list[Hashes]:
    """Hashes of what else was settled before a decision: batch, weight, and which actions were possible."""
    columns = []
    if block.has_batches:
        batches = np.array([_value_hash(label) for label in block.batch_labels], dtype=np.uint64)
        columns.append(batches[block.batch])
    if block.is_weighted:
        columns.append(column_hashes(block.weight))
    if block.eligible is not None:
        columns += [column_hashes(able) for able in block.eligible.T]
    return columns


def unit_hashes(block: Any, rows: Hashes) -> Hashes:
    """(N,) hash of each unit: that of its row, or of an episode's steps (which carry their number)."""
    if not several(block):
        return rows
    total = np.zeros(block.layout.n_units, dtype=np.uint64)
    np.add.at(total, block.layout.unit, rows)
    return mixed(total)


@dataclass(frozen=True, eq=False)
class HashCounts:
    """How often each hash comes; two blocks add up with ``+``.

    Beyond `MOST` different hashes only those with leading zeros are kept. The hashes themselves decide, so
    that every way through a log keeps the same.

    Attributes
    ----------
    hashes : (m,) array
        Different hashes in order, all below 2^(64 − bits).
    counts : (m,) array
        How often each comes.
    bits : int
        Leading bits that must be 0: one of 2^bits hashes is kept.

    Examples
    --------
    >>> one = HashCounts.of(np.array([3, 3, 5], dtype=np.uint64), np.ones(3))
    >>> both = one + one
    >>> both.hashes.tolist(), both.counts.tolist(), both.distinct
    ([3, 5], [4.0, 2.0], 2.0)
    """

    hashes: Hashes
    counts: Floats
    bits: int = 0

    @classmethod
    def of(cls, hashes: Hashes, counts: Floats, bits: int = 0) -> HashCounts:
        """Count hashes, thinning them where there are too many different ones."""
        if bits:
            kept = np.flatnonzero(hashes < (np.uint64(1) << np.uint64(64 - bits)))
            hashes, counts = hashes[kept], counts[kept]
        different, place = np.unique(hashes, return_inverse=True)
        total = np.bincount(place, weights=counts, minlength=len(different)).astype(np.float64)
        size = _below(different, bits)
        while size > MOST:
            bits += 1
            size = _below(different, bits)
        return cls(different[:size], total[:size], bits)

    def __add__(self, other: HashCounts) -> HashCounts:
        """Counts over both blocks."""
        return HashCounts.of(
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.counts, other.counts]),
            max(self.bits, other.bits),
        )

    @property
    def distinct(self) -> float:
        """Number of different hashes, also of those not kept."""
        return float(len(self.hashes)) * 2.0**self.bits

    @property
    def repeated_share(self) -> float:
        """Share of all that come after an equal one."""
        total = float(self.counts.sum())
        return (total - len(self.hashes)) / total if total > 0 else math.nan


def _below(ordered: Hashes, bits: int) -> int:
    if bits == 0:
        return len(ordered)
    return int(np.searchsorted(ordered, np.uint64(1) << np.uint64(64 - bits)))


@dataclass(frozen=True)
class Digest:
    """128 bits of a set of rows, whatever their order and whether they are counted; ``+`` joins two blocks.

    Examples
    --------
    >>> rows = np.array([7, 8, 7], dtype=np.uint64)
    >>> cells = Digest.of(np.array([8, 7], dtype=np.uint64), np.array([1.0, 2.0]))
    >>> Digest.of(rows, np.ones(3)) == cells, len(str(cells))
    (True, 32)
    """

    first: int
    second: int

    @classmethod
    def of(cls, hashes: Hashes, counts: Floats) -> Digest:
        """Digest of rows by their hashes and how many rows each stands for."""
        times = counts.astype(np.uint64)
        sums = (
            int((mixed(hashes ^ np.uint64(text_hash(seed))) * times).sum(dtype=np.uint64))
            for seed in ("first", "second")
        )
        return cls(*sums)

    def __add__(self, other: Digest) -> Digest:
        """Digest of the rows of both."""
        return Digest((self.first + other.first) % 2**64, (self.second + other.second) % 2**64)

    def __str__(self) -> str:
        return f"{self.first:016x}{self.second:016x}"
