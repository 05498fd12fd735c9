"""Estimates from sums: n, Σz and Σzzᵀ of the scores of many policies and estimators, without the scores.

For an independent unit g (a row or a cluster) z_g holds Σ_{i∈g} ω_i ψ_i for every score and Σ_{i∈g} ω_i for
every set of rows that a split scores. An estimate is a ratio of two entries of Σz, and its influence is
linear in z: with value = Σz_j / Σz_d and a = (e_j − value·e_d) / Σz_d, std_error² = aᵀ C a, where C is the
centered Σzzᵀ. Differences and lifts are linear in the influences, so they stay paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference.estimate import Estimate, Units
from offpolicy.inference.intervals.sample import Interval, check_level

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.inference.intervals.sample import Sample


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of units, mean and centered second moments of their z.

    Examples
    --------
    >>> left, right = Moments.of(np.array([[1.0], [2.0]])), Moments.of(np.array([[6.0]]))
    >>> both = left + right
    >>> both.n, both.mean.tolist(), both.scatter.tolist()
    (3.0, [3.0], [[14.0]])
    """

    n: float
    mean: Floats
    scatter: Floats

    @classmethod
    def of(cls, z: Floats) -> Moments:
        """Moments of the rows of z, (units, entries)."""
        mean = z.mean(axis=0)
        apart = z - mean
        return cls(float(len(z)), mean, apart.T @ apart)

    @property
    def total(self) -> Floats:
        """Σz."""
        return self.n * self.mean

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of units (Chan, Golub and LeVeque 1979)."""
        n = self.n + other.n
        apart = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter = scatter + np.outer(apart, apart) * (self.n * other.n / n)
        return Moments(n, self.mean + apart * (other.n / n), scatter)


@dataclass(frozen=True, eq=False)
class SummedEstimate(Estimate):
    """An estimate whose scores were summed as they passed and not kept.

    Attributes
    ----------
    moments : Moments
        Shared by all estimates of one evaluation.
    influence : (entries,) array
        The estimate's influence as a combination of z.
    level : float
        The value.
    size : int
        Rows that were scored.
    """

    moments: Moments | None = field(default=None, repr=False)
    influence: Floats | None = field(default=None, repr=False)
    level: float = math.nan
    size: int = 0

    @classmethod
    def of_entry(
        cls,
        moments: Moments,
        entry: int,
        denominator: int,
        size: int,
        label: str,
        notes: tuple[str, ...] = (),
    ) -> SummedEstimate:
        """The ratio of two entries of Σz."""
        total = moments.total
        value = float(total[entry] / total[denominator])
        influence = np.zeros(len(total))
        influence[entry] = 1.0
        influence[denominator] -= value
        return cls(
            np.empty((1, 0)),
            Units(0),
            label,
            notes,
            moments=moments,
            influence=influence / total[denominator],
            level=value,
            size=size,
        )

    @cached_property
    def values(self) -> Floats:
        """The value, as an array of one repetition."""
        return np.array([self.level])

    @cached_property
    def std_error(self) -> float:
        """√(aᵀ C a)."""
        if not self.is_defined:
            return math.nan
        assert self.moments is not None
        assert self.influence is not None
        used = self.influence != 0
        scatter = self.moments.scatter[np.ix_(used, used)]
        a = self.influence[used]
        return math.sqrt(max(float(a @ scatter @ a), 0.0))

    @property
    def n(self) -> int:
        """Rows that were scored."""
        return self.size

    @property
    def n_independent(self) -> int:
        """Independent units: clusters where given."""
        assert self.moments is not None
        return round(self.moments.n)

    def sample(self) -> Sample:
        """Raise: the scores were not kept."""
        raise UsageError(
            f"{self.label}: the log was streamed, so its scores were summed and not kept. Intervals by "
            "'normal' and 't' need no more than that; for others compress the log (way='cells') or load it."
        )

    def interval(
        self,
        level: float = 0.95,
        method: str = "auto",
        *,
        reward_range: tuple[float, float] | None = None,
        weight_high: float | None = None,
        seed: int = 0,
    ) -> Interval:
        """Confidence interval from sums: "normal" (also for "auto") or "t"."""
        from scipy import stats

        del reward_range, weight_high, seed
        check_level(level)
        if method not in {"auto", "normal", "t"}:
            self.sample()
        name = "t" if method == "t" else "normal"
        if not self.is_defined:
            return Interval(math.nan, math.nan, level, name, "not identified")
        tail = (1 + level) / 2
        z = stats.norm.ppf(tail) if name == "normal" else stats.t.ppf(tail, self.n_independent - 1)
        reach = float(z) * self.std_error
        note = "scores of a streamed log are summed, not kept" if method == "auto" else ""
        return Interval(self.level - reach, self.level + reach, level, name, note)

    def __sub__(self, other: Estimate) -> Estimate:
        """Estimate of the difference: influences paired unit by unit."""
        if not isinstance(other, Estimate):
            return NotImplemented
        mine, theirs = self._influences(other)
        label = f"{self.label} − {other.label}"
        return self._combined(other, self.level - other.value, mine - theirs, label)

    def lift(self, other: Estimate) -> Estimate:
        """Estimate of self / other − 1 by the delta method, influences paired."""
        mine, theirs = self._influences(other)
        if other.value == 0:
            raise UsageError(f"the lift over {other.label} is undefined: its value is 0.")
        ratio = self.level / other.value
        influence = (mine - ratio * theirs) / other.value
        return self._combined(other, ratio - 1, influence, f"{self.label} / {other.label} − 1")

    def _influences(self, other: Estimate) -> tuple[Floats, Floats]:
        if not isinstance(other, SummedEstimate) or other.moments is not self.moments:
            raise UsageError(
                f"{self.label} and {other.label} come from different passes over a log, so their scores "
                "cannot be paired. Evaluate both policies in one call."
            )
        assert self.influence is not None
        assert other.influence is not None
        return self.influence, other.influence

    def _combined(self, other: Estimate, level: float, influence: Floats, label: str) -> Estimate:
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        size = max(self.size, other.n)
        return replace(self, level=level, influence=influence, label=label, notes=notes, size=size)
