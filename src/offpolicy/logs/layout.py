"""Which decisions belong to which unit: an impression has one, an episode T + 1.

Decisions are stored flat, unit after unit, with offsets, so that ragged episodes need no padding and a
contextual bandit is the case of one decision per unit (the paper's T = 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.link import Link
    from offpolicy.logs.log import Log


def in_log_order(given: Any, log: Log) -> Any:
    """Arrays with one entry per row of the user's frame, in the order of the log's rows.

    Episodes are sorted when a log is built from a frame, so arrays made beside that frame follow it.
    """
    order = getattr(log, "row_order", None)
    if order is None:
        return given
    if isinstance(given, Mapping):
        return {name: in_log_order(part, log) for name, part in given.items()}
    if isinstance(given, np.ndarray) and given.ndim > 0 and len(given) == len(order):
        return given[order]
    return given


def in_frame_order(made: Array, log: Log) -> Array:
    """An array with one entry per row of the log, in the order of the user's frame: undoes `in_log_order`."""
    order = getattr(log, "row_order", None)
    if order is None:
        return made
    given = np.empty_like(made)
    given[order] = made
    return given


@dataclass(frozen=True, eq=False)
class Layout:
    """Units as runs of consecutive decisions.

    Parameters
    ----------
    lengths : (N,) int array or None
        Decisions in each unit; None means one each.
    n_units : int
        Number of units N.
    link : Link or None
        Which decisions of a unit a reward answers to; None: all up to its own, and rewards follow one another.

    Examples
    --------
    >>> layout = Layout.ragged([2, 1])
    >>> layout.unit.tolist(), layout.step.tolist()
    ([0, 0, 1], [0, 1, 0])
    """

    lengths: Ints | None
    n_units: int
    link: Link | None = None

    @classmethod
    def single(cls, n: int) -> Layout:
        """One decision per unit."""
        return cls(None, n)

    @classmethod
    def ragged(cls, lengths: Array | list[int], link: Link | None = None) -> Layout:
        """``lengths[i]`` decisions in unit i; one each is a bandit's layout, in every respect."""
        counts = np.asarray(lengths, dtype=np.int64)
        if bool((counts == 1).all()):
            return cls(None, len(counts))
        return cls(counts, len(counts), link)

    @property
    def is_single(self) -> bool:
        """Whether every unit is one decision."""
        return self.lengths is None

    @cached_property
    def offsets(self) -> Ints:
        """(N + 1,) start of each unit, and the end."""
        if self.lengths is None:
            return np.arange(self.n_units + 1, dtype=np.int64)
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def n_steps(self) -> int:
        """Decisions in all."""
        return self.n_units if self.lengths is None else int(self.offsets[-1])

    @property
    def horizon(self) -> int:
        """Length of the longest unit (the paper's T + 1)."""
        return 1 if self.lengths is None else int(self.lengths.max(initial=0))

    @cached_property
    def unit(self) -> Ints:
        """(S,) unit of each decision."""
        if self.lengths is None:
            return np.arange(self.n_units, dtype=np.int64)
        return np.repeat(np.arange(self.n_units, dtype=np.int64), self.lengths)

    @cached_property
    def step(self) -> Ints:
        """(S,) time index t of each decision inside its unit."""
        if self.lengths is None:
            return np.zeros(self.n_units, dtype=np.int64)
        return np.arange(self.n_steps, dtype=np.int64) - np.repeat(self.offsets[:-1], self.lengths)

    @cached_property
    def _longest_first(self) -> Ints:
        if self.lengths is None:
            return np.arange(self.n_units, dtype=np.int64)
        return np.argsort(-self.lengths, kind="stable")

    def by_step(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield (t, units that have a decision at t, rows of those decisions), t = 0, 1, ….

        The work of a whole pass is proportional to the number of decisions.
        """
        if self.lengths is None:
            yield 0, self.unit, self.unit
            return
        order = self._longest_first
        ordered_lengths = self.lengths[order]
        starts = self.offsets[order]
        for t in range(self.horizon):
            active = int(np.searchsorted(-ordered_lengths, -t, side="left"))
            yield t, order[:active], starts[:active] + t

    def sum(self, values: Floats) -> Floats:
        """(N,) sum of a per-decision quantity inside each unit."""
        if self.lengths is None:
            return values
        return np.bincount(self.unit, weights=values, minlength=self.n_units).astype(np.float64)

    def surplus(self, reward: Floats) -> Floats | float:
        """(N,) −(m − 1) R where all m decisions of a unit carry its one reward R; 0 otherwise."""
        if self.link is None or not self.link.additive or self.lengths is None:
            return 0.0
        return np.asarray((1.0 - self.lengths) * reward[self.offsets[:-1]])

    def last(self, values: Array) -> Array:
        """(N,) value of a per-decision quantity at each unit's last decision."""
        return values if self.lengths is None else values[self.offsets[1:] - 1]

    def rows_of(self, units: Array) -> Ints:
        """Rows of the decisions of ``units`` (integer indices), in order."""
        if self.lengths is None:
            return np.asarray(units, dtype=np.int64)
        lengths = self.lengths[units]
        total = int(lengths.sum())
        shift = np.repeat(self.offsets[units] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        rows: Ints = np.arange(total, dtype=np.int64) + shift
        return rows

    def subset(self, units: Array) -> Layout:
        """Layout of the chosen units only."""
        if self.lengths is None:
            return Layout.single(len(units))
        return Layout.ragged(self.lengths[units], self.link)
