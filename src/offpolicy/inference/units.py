"""The independent units of a log: how many rows each stands for, its weight, cluster and batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.intervals.sample import Sample

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Units:
    """N units, in the order of every column of scores."""

    n_rows: int
    count: Floats | None = None
    weight: Floats | None = None
    cluster: Ints | None = None
    batch: Ints | None = None

    @cached_property
    def mass(self) -> Floats | None:
        """(N,) weight in means; None when all are 1."""
        if self.count is None:
            return self.weight
        return self.count if self.weight is None else self.count * self.weight

    @cached_property
    def _ones(self) -> Floats:
        ones = np.ones(self.n_rows)
        ones.flags.writeable = False  # every sample of these units has it as its denominator
        return ones

    @cached_property
    def clusters(self) -> tuple[int, Ints]:
        """How many clusters there are, and which of them each unit is in."""
        if self.cluster is None:
            return self.n_rows, np.arange(self.n_rows)
        present, group = np.unique(self.cluster, return_inverse=True)
        return len(present), group

    @property
    def are_plain(self) -> bool:
        """Whether units are independent and count alike."""
        return self.cluster is None and self.weight is None

    def total(self, scored: Bools | None = None) -> int:
        """Units, counted."""
        if self.count is None:
            return self.n_rows if scored is None else int(scored.sum())
        return int(self.count.sum() if scored is None else self.count[scored].sum())

    def mean(self, psi: Floats) -> float:
        """Weighted mean of a score."""
        if self.mass is None:
            return float(psi.mean())
        return float(psi @ self.mass / self.mass.sum())

    def part(self, scored: Bools | Ints) -> Units:
        """Some of the units, by a mask or by their positions."""

        def pick(values: Any) -> Any:
            return None if values is None else values[scored]

        return Units(
            int(np.count_nonzero(scored)) if scored.dtype == bool else len(scored),
            pick(self.count),
            pick(self.weight),
            pick(self.cluster),
            pick(self.batch),
        )

    def sample(self, psi: Floats, scored: Bools | None = None) -> Sample:
        """Scores summed inside clusters, in the form intervals take."""
        if scored is not None:
            return self.part(scored).sample(psi[scored])
        weight: Floats = self._ones if self.weight is None else self.weight
        if self.cluster is None:
            weighted = psi if self.weight is None else weight * psi
            return Sample(np.asarray(weighted, dtype=np.float64), weight, self.count)
        mass = weight if self.count is None else weight * self.count
        size, group = self.clusters
        return Sample(
            np.bincount(group, weights=mass * psi, minlength=size).astype(np.float64),
            np.bincount(group, weights=mass, minlength=size).astype(np.float64),
        )
