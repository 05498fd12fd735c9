"""Names for the array types that appear in signatures, and what numpy does not have a word for."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]


def places(values: Array, size: int) -> tuple[Ints, Ints]:
    """Distinct integers in 0 … size − 1, in order, and the place of each entry among them, without sorting.

    >>> present, place = places(np.array([5, 2, 5]), 10)
    >>> present.tolist(), place.tolist()
    ([2, 5], [1, 0, 1])
    """
    marked = np.zeros(size, dtype=bool)
    marked[values] = True
    return np.flatnonzero(marked), (np.cumsum(marked) - 1)[values]
