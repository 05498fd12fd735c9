"""Sums over a log by which the propensities are held against the actions that were taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints

# Finer where probabilities are small, tenths above.
EDGES = np.array(
    [0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
)


@dataclass(frozen=True, eq=False)
class CalibrationSums:
    """Sums over pairs (context, action) by the size of π_b(a|S); those of two blocks add up with ``+``.

    Attributes
    ----------
    mass, predicted, taken : (bins,) arrays
        Σ m, Σ m π_b and Σ m 1{A = a}.
    square : (bins,) array
        Σ m².
    number : (bins,) array
        Pairs.
    """

    mass: Floats
    predicted: Floats
    taken: Floats
    square: Floats
    number: Floats

    def __add__(self, other: CalibrationSums) -> CalibrationSums:
        """The sums over both blocks."""
        mine, theirs = vars(self), vars(other)
        return CalibrationSums(**{name: mine[name] + theirs[name] for name in mine})


def calibration_sums(
    matrix: Floats, action: Ints, mass: Floats, square: Floats, count: Floats
) -> CalibrationSums:
    """Sums over a block of decisions.

    Parameters
    ----------
    matrix : (m, K) array
        π_b of every action.
    action : (m,) int array
        Logged actions.
    mass, square, count : (m,) arrays
        Mass of each decision, the sum of squared masses of those it stands for, and how many these are.
    """
    bins, k = len(EDGES) - 1, matrix.shape[1]
    place = np.clip(np.searchsorted(EDGES, matrix, side="right") - 1, 0, bins - 1)
    own, flat = place[np.arange(len(action)), action], place.ravel()

    def over(at: Ints, values: Floats) -> Floats:
        return np.bincount(at, weights=values, minlength=bins).astype(np.float64)

    return CalibrationSums(
        over(flat, np.repeat(mass, k)),
        over(flat, (mass[:, None] * matrix).ravel()),
        over(own, mass),
        over(flat, np.repeat(square, k)),
        over(flat, np.repeat(count, k)),
    )
