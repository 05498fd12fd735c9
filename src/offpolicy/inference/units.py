"""The independent units of a log: how many rows each stands for, its weight, cluster and batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import some_of
from offpolicy.inference.intervals.sample import Sample
from offpolicy.logs.columns import DEFAULTS, NOT_GIVEN, HasColumns, fill

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Units(HasColumns):
    """N units, in the order of every column of scores."""

    n_rows: int
    count: Floats = NOT_GIVEN
    weight: Floats = NOT_GIVEN
    cluster: Ints = NOT_GIVEN
    batch: Ints = NOT_GIVEN

    def __post_init__(self) -> None:
        fill(self, self.n_rows)

    @cached_property
    def clusters(self) -> tuple[int, Ints]:
        """How many clusters there are, and which of them each unit is in."""
        if not self.has_clusters:
            return self.n_rows, np.arange(self.n_rows)
        present, group = np.unique(self.cluster, return_inverse=True)
        return len(present), group

    @property
    def are_plain(self) -> bool:
        """Whether units are independent and count alike."""
        return not self.has_clusters and not self.is_weighted

    def total(self, scored: Bools | None = None) -> int:
        """Units, counted."""
        return int(self.count.sum() if scored is None else self.count[scored].sum())

    def mean(self, psi: Floats) -> float:
        """Weighted mean of a score."""
        if not self.is_counted and not self.is_weighted:
            return float(psi.mean())
        return float(psi @ self.mass / self.mass.sum())

    @cached_property
    def relative_mass(self) -> Floats:
        """(n,) mass with analysis weights of mean 1: they have no unit, and rules about single units look at them."""
        if not self.is_weighted:
            return self.mass
        low, high = float(self.weight.min()), float(self.weight.max())
        mean = low if low == high else float(self.mass.sum() / self.count.sum())
        return self.mass / mean if mean > 0 else self.mass

    def part(self, scored: Bools | Ints) -> Units:
        """Some of the units, by a mask or by their positions."""
        size = int(np.count_nonzero(scored)) if scored.dtype == bool else len(scored)
        return Units(size, **{name: some_of(getattr(self, name), scored) for name in DEFAULTS})

    def sample(self, psi: Floats, scored: Bools | None = None) -> Sample:
        """Scores summed inside clusters, in the form intervals take."""
        if scored is not None:
            return self.part(scored).sample(psi[scored])
        if not self.has_clusters:
            weight = self.relative_mass / self.count if self.is_weighted else self.weight
            weighted = weight * psi if self.is_weighted else psi
            count = self.count if self.is_counted else None
            return Sample(np.asarray(weighted, dtype=np.float64), weight, count)
        size, group = self.clusters
        mass = self.relative_mass
        return Sample(
            np.bincount(group, weights=mass * psi, minlength=size).astype(np.float64),
            np.bincount(group, weights=mass, minlength=size).astype(np.float64),
        )
