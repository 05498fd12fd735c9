"""Rows in blocks of bounded size, so that no n × K array is made for a large log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Ints

BLOCK_CELLS = 4_000_000


def blocks(n: int, width: int) -> Iterator[Ints]:
    """Consecutive row numbers in blocks of bounded size."""
    step = max(1, BLOCK_CELLS // max(width, 1))
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step), dtype=np.int64)


def fit_together(n: int, width: int) -> bool:
    """Whether so many rows are one block."""
    return n * width <= BLOCK_CELLS
