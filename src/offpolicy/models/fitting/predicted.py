"""What models predict for the decisions of a block: q and v, π_b, ratios of marginals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Values:
    """q at the logged action and v = Σ π_e q, (S,) each; NaN where a split does not score."""

    q: Floats
    v: Floats
    note: str = ""


@dataclass(frozen=True, eq=False)
class Behavior:
    """π_b of the logged action, (S,), and which entries were raised to the floor (None: none)."""

    probability: Floats
    raised: Bools | None = None
    note: str = ""

    def floored(self, rows: Ints | None = None) -> int:
        """How many of some rows (default: of all) were raised."""
        if self.raised is None:
            return 0
        return int(np.count_nonzero(self.raised if rows is None else self.raised[rows]))


@dataclass(frozen=True, eq=False)
class Ratios:
    """w_t(S_t, A_t), (S,), and how far the means of their steps were from what they must be.

    ``off`` is the largest |log| of what the ratios of a step were divided by to have the mean they must have.
    """

    ratio: Floats
    off: float = 0.0
