"""Which decisions are separate draws of an action: all of them, or one in each cluster that keeps its action.

A user who keeps what she was assigned is one draw, however often she comes back: the rows of her earliest
batch share it. Sums over rows by these shares depend on neither the order nor the grouping of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.logs.log import Log


@dataclass(frozen=True, eq=False)
class Draws:
    """How many draws each decision stands for, and the analysis weight of each.

    Attributes
    ----------
    number : (S,) array
        Draws: the row's count, or its share of its cluster's one draw.
    weight : (S,) array
        Analysis weight.
    are_rows : bool
        Whether each row is a draw of its own, not a share of its cluster's.
    """

    number: Floats
    weight: Floats
    are_rows: bool = True

    @property
    def mass(self) -> Floats:
        """(S,) mass of the draws of each decision."""
        return self.number * self.weight

    @property
    def square(self) -> Floats:
        """(S,) sum of the squared masses of the draws of each decision."""
        return self.number * self.weight**2

    @property
    def mean_weight(self) -> float:
        """What a draw weighs on average, by which sums of masses are read as numbers of draws."""
        return float(self.mass.sum() / self.number.sum())


def draws_of(log: Log) -> Draws:
    """The draws of a log; its columns ``action``, ``cluster``, ``batch``, ``count`` and ``weight`` tell."""
    count, weight = counts_and_weights(log)
    if not log.has_clusters or not log.layout.is_single:
        return Draws(count, weight)
    _, group = np.unique(log.cluster, return_inverse=True)
    size = int(group.max()) + 1
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lowest, group, log.action)
    np.maximum.at(highest, group, log.action)
    if (lowest < highest).any() or size >= count.sum():
        return Draws(count, weight)
    taking_part = count
    if log.has_batches:
        earliest = np.full(size, int(log.batch.max()))
        np.minimum.at(earliest, group, log.batch)
        taking_part = np.where(log.batch == earliest[group], count, 0.0)
    return Draws(taking_part / np.bincount(group, weights=taking_part)[group], weight, are_rows=False)


def decision_mass(log: Log) -> Floats:
    """(S,) mass of each decision: how many it stands for times its analysis weight."""
    count, weight = counts_and_weights(log)
    return count * weight


def counts_and_weights(log: Log) -> tuple[Floats, Floats]:
    """(S,) how many decisions each row stands for, and the analysis weight of each."""
    if log.layout.is_single:
        return log.count, log.weight
    unit = log.layout.unit
    return log.count[unit], log.weight[unit]
