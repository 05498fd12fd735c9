"""Names for the array types that appear in signatures, and what numpy does not have a word for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]

# Sums of mass are rounded: a share that is reached up to rounding is reached.
ROUNDED = 1e-12

#: Largest logarithm of a product of ratios that is computed with; beyond it nothing of the rest would be left.
MOST_LOG = 200.0


def read_only(values: Any) -> Any:
    """The same numbers as an array that cannot be written to; anything but an array is left as it is.

    >>> read_only(np.zeros(2)).flags.writeable
    False
    """
    if not isinstance(values, np.ndarray) or not values.flags.writeable:
        return values
    view = values.view()
    view.flags.writeable = False
    return view


def constant(value: float, n: int) -> Any:
    """(n,) the same number everywhere, held once; it cannot be written to.

    >>> constant(1.0, 3).tolist(), constant(-1, 3).strides
    ([1.0, 1.0, 1.0], (0,))
    """
    return np.broadcast_to(np.float64(value) if isinstance(value, float) else np.int64(value), n)


def is_constant(values: Array) -> bool:
    """Whether an array was made by `constant`.

    >>> is_constant(constant(1.0, 3)), is_constant(np.array([1.0, 1.0]))
    (True, False)
    """
    return values.strides == (0,)


def some_of(values: Array, at: Any) -> Array:
    """Some entries, by a mask or positions; of a constant, a constant.

    >>> some_of(constant(1.0, 3), np.array([0, 2])).strides
    (0,)
    """
    if not is_constant(values):
        return np.asarray(values[at])
    return np.broadcast_to(values[:1].reshape(()) if len(values) else 0, len(values[at]))


def picked(values: Any, at: Any) -> Any:
    """Some entries of an array; None of None.

    >>> picked(np.arange(3), [0, 2]).tolist(), picked(None, [0, 2])
    ([0, 2], None)
    """
    return None if values is None else values[at]


def or_ones(values: Floats | None, n: int) -> Floats:
    """(n,) the array, or ones where there is none.

    >>> or_ones(None, 2).tolist()
    [1.0, 1.0]
    """
    return np.ones(n) if values is None else values


def detached(values: Any) -> Any:
    """A torch tensor as an array, whatever device it is on and whether or not it has a gradient; else unchanged."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        return values.detach().cpu().numpy()
    return values


def masked(values: Any) -> Bools | None:
    """Which entries of a numpy masked array are masked; None where there is no mask.

    >>> masked(np.ma.array([1, 2], mask=[False, True])).tolist()
    [False, True]
    """
    if not isinstance(values, np.ma.MaskedArray):
        return None
    return np.asarray(np.ma.getmaskarray(values), dtype=bool)


def places(values: Array, size: int) -> tuple[Ints, Ints]:
    """Distinct integers in 0 … size − 1, in order, and the place of each entry among them, without sorting.

    >>> present, place = places(np.array([5, 2, 5]), 10)
    >>> present.tolist(), place.tolist()
    ([2, 5], [1, 0, 1])
    """
    marked = np.zeros(size, dtype=bool)
    marked[values] = True
    return np.flatnonzero(marked), (np.cumsum(marked) - 1)[values]


def levels(values: Floats) -> tuple[Floats, Ints]:
    """Different values in order, and the place of each entry among them; few of them need no sort.

    >>> distinct, place = levels(np.array([2.0, 0.0, 2.0]))
    >>> distinct.tolist(), place.tolist()
    ([0.0, 2.0], [1, 0, 1])
    """
    few = np.unique(values[:1000])
    if len(few) <= 32:
        place = np.minimum(np.searchsorted(few, values), len(few) - 1)
        if bool((few[place] == values).all()):
            return few, place
    distinct, inverse = np.unique(values, return_inverse=True)
    return distinct, inverse


def place_of(share: float, size: int) -> int:
    """Place of a quantile among ``size`` values in order, counted from 0.

    >>> place_of(0.0, 4), place_of(0.5, 4), place_of(1.0, 4)
    (0, 1, 3)
    """
    return min(max(math.ceil((share - ROUNDED) * size) - 1, 0), size - 1)


def quantiles(values: Array, shares: Sequence[float] | Floats, mass: Floats | None = None) -> Floats:
    """Smallest values at or below which at least these shares of the mass lie.

    The one definition of a quantile in the library: a row of mass 3 counts as three rows, in any order.

    >>> quantiles(np.array([3.0, 1.0]), [0.5, 0.95], np.array([1.0, 9.0])).tolist()
    [1.0, 3.0]
    >>> quantiles(np.array([3.0, 1.0, 2.0, 4.0]), [0.0, 0.5, 1.0]).tolist()
    [1.0, 2.0, 4.0]
    """
    if mass is None:
        place = [place_of(float(share), len(values)) for share in shares]
        return np.asarray(np.sort(values)[place], dtype=np.float64)
    wanted = np.asarray(shares, dtype=np.float64) - ROUNDED
    values, mass = values[mass > 0], mass[mass > 0]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order])
    place = np.searchsorted(reached, wanted * reached[-1])
    return np.asarray(values[order[np.minimum(place, len(values) - 1)]], dtype=np.float64)


def ranked(codes: Ints) -> tuple[int, Ints]:
    """How many different codes there are, and the rank of each among them; small codes are not sorted.

    >>> number, rank = ranked(np.array([5, 2, 5, 9]))
    >>> number, rank.tolist()
    (3, [1, 0, 1, 2])
    """
    if codes.dtype.kind not in "iu" or not len(codes) or codes.min() < 0 or codes.max() > 8 * len(codes) + 1024:
        present, rank = np.unique(codes, return_inverse=True)
        return len(present), rank
    present, rank = places(codes, int(codes.max()) + 1)
    return len(present), rank
