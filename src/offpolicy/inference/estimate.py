"""`Estimate`: the mean of a score, its standard error, and arithmetic that keeps scores paired.

value = Σ ω_i ψ_i / Σ ω_i; with g running over clusters (or units), u_g = Σ_{i∈g} ω_i (ψ_i − value) and
std_error = √(Σ_g u_g²) / Σ ω_i. Unweighted and unclustered this is σ̂ / √N of Proposition 1. A unit that
stands for c identical ones counts c times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import Interval, Sample

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.intervals.facts import Facts

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units of a log: how many rows each stands for, its weight, cluster and batch.

    ``summed`` units have the mean and variance of the rows they stand for, and no more of them.
    """

    n_rows: int
    count: Floats | None = None
    weight: Floats | None = None
    cluster: Ints | None = None
    batch: Ints | None = None
    summed: bool = False

    @cached_property
    def mass(self) -> Floats | None:
        """(N,) weight in means; None when all are 1."""
        if self.count is None:
            return self.weight
        return self.count if self.weight is None else self.count * self.weight

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

    def sample(self, psi: Floats, scored: Bools | None = None) -> Sample:
        """Scores summed inside clusters, in the form intervals take."""
        weight: Floats = np.ones(self.n_rows) if self.weight is None else self.weight
        count, cluster = self.count, self.cluster
        if scored is not None:
            psi, weight = psi[scored], weight[scored]
            count = None if count is None else count[scored]
            cluster = None if cluster is None else cluster[scored]
        if cluster is None:
            weighted = psi if self.weight is None else weight * psi
            return Sample(np.asarray(weighted, dtype=np.float64), weight, count)
        mass = weight if count is None else weight * count
        present, group = np.unique(cluster, return_inverse=True)
        size = len(present)
        return Sample(
            np.bincount(group, weights=mass * psi, minlength=size).astype(np.float64),
            np.bincount(group, weights=mass, minlength=size).astype(np.float64),
        )


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value, its standard error and the scores behind it.

    Attributes
    ----------
    value, std_error : float
    n : int
        Units the score was taken on.
    psi : (R, N) array
        Linearized scores of every unit in each repetition of the folds; ``psi[r].mean()`` (by weight) is
        the estimate of repetition r. Units that a half-sample split does not score hold the value.
    units : Units
        What the N entries are.
    label : str
        What is estimated, for printing.
    notes : tuple of str
        What a reader should know about how it came about.
    facts : Facts or None
        Weights, rewards and their ranges, for the intervals that use them.
    parts : (Estimate, Estimate) or None
        What a difference or a lift is made of; ``relation`` says which.

    Examples
    --------
    >>> e = Estimate.from_scores([1.0, 2.0, 3.0, 2.0])
    >>> e.value, round(e.std_error, 4)
    (2.0, 0.3536)
    >>> low, high = e.interval(0.95, method="normal")
    >>> round(low, 3), round(high, 3)
    (1.307, 2.693)
    """

    psi: Floats
    units: Units
    label: str = "estimate"
    notes: tuple[str, ...] = ()
    scored: Bools | None = None
    facts: Facts | None = field(default=None, repr=False)
    relation: Literal["difference", "lift"] | None = None
    parts: tuple[Estimate, Estimate] | None = field(default=None, repr=False)

    @classmethod
    def from_scores(
        cls, psi: Floats | list[float], *, units: Units | None = None, label: str = "estimate"
    ) -> Estimate:
        """Build an estimate from (N,) scores, or (R, N) for R repetitions."""
        table = np.atleast_2d(np.asarray(psi, dtype=np.float64))
        return cls(table, Units(table.shape[1]) if units is None else units, label)

    @cached_property
    def values(self) -> Floats:
        """(R,) estimate of each repetition."""
        return np.array([self.units.mean(row) for row in self.psi])

    @property
    def value(self) -> float:
        """The estimate: the mean over repetitions."""
        return float(self.values.mean())

    @property
    def is_defined(self) -> bool:
        """Whether the data identify it at all."""
        return bool(np.isfinite(self.values).all())

    @cached_property
    def std_error(self) -> float:
        """√ of the mean over repetitions of (standard error² + (estimate − overall)²)."""
        if not self.is_defined:
            return math.nan
        spread = self.values - self.value
        errors = np.array([self.units.sample(row).std_error for row in self.psi])
        return float(np.sqrt(np.mean(errors**2 + spread**2)))

    @property
    def n(self) -> int:
        """Units the score was taken on."""
        return self.units.total(self.scored)

    @property
    def n_independent(self) -> int:
        """Independent units: clusters where given."""
        return round(self.sample().total) if self.is_defined else 0

    @property
    def variance(self) -> float:
        """σ̂², the variance of one unit's score: n · std_error²."""
        return self.n * self.std_error**2

    def sample(self) -> Sample:
        """The scored units (clusters) and their scores, averaged over repetitions.

        Residuals are scaled so that the sample has the standard error of the estimate, which counts the
        spread between repetitions and, for half-sample splits, only the scored half.
        """
        sample = self.units.sample(self.psi.mean(axis=0), self.scored)
        spread = sample.std_error
        factor = self.std_error / spread if spread > 0 else 1.0
        if abs(factor - 1) < 1e-12:
            return sample
        center = sample.estimate * sample.denominator
        scores = center + factor * (sample.numerator - center)
        return Sample(scores, sample.denominator, sample.count)

    def interval(
        self,
        level: float = 0.95,
        method: str = "auto",
        *,
        reward_range: tuple[float, float] | None = None,
        weight_high: float | None = None,
        seed: int = 0,
    ) -> Interval:
        """Confidence interval; unpacks as ``low, high`` and says how it came about.

        Parameters
        ----------
        level : float
            Coverage aimed at, in (0, 1).
        method : str
            "auto" picks by stated rules (rare successes, heavy weights, few units; see
            `intervals.choose`) and says in ``.method`` and ``.note`` what and why; a note that
            begins with "insufficient evidence" means that no method can be expected to cover. By name:
            "normal", "t", "bootstrap", "bca" (clusters resampled whole), "empirical-likelihood",
            "cautious-likelihood", "cressie-read", "clopper-pearson" (0/1 rewards), "bernstein",
            "hoeffding", "anytime" (may be looked at daily); "batch-pooled" and "adaptive" for logs
            whose policy learned from batch to batch; "delta", "fieller" and "log-scale" for a lift.
        reward_range : (low, high), optional
            Smallest and largest reward possible, for the methods that need it; 0/1 rewards are known.
        weight_high : float, optional
            Largest importance weight that can occur, likewise.
        seed : int
            Of the bootstrap.
        """
        from offpolicy.inference import confidence

        if self.units.summed and method not in {"normal", "t"}:
            if method != "auto":
                raise UsageError(
                    f"method={method!r} looks at every score, and the log was compressed to sums of rewards. "
                    "Use 'normal' or 't', or scan(…, way='cells')."
                )
            method = "normal"
        key = (level, method, reward_range, weight_high, seed)
        if key not in self._intervals:
            facts = self._facts(reward_range, weight_high)
            self._intervals[key] = confidence.interval(self, level, method, facts, seed)
        return self._intervals[key]

    @cached_property
    def _intervals(self) -> dict[object, Interval]:
        return {}

    def _facts(
        self, reward_range: tuple[float, float] | None, weight_high: float | None
    ) -> Facts | None:
        facts = self.facts
        if facts is None or (reward_range is None and weight_high is None):
            return facts
        if reward_range is not None:
            facts = replace(facts, reward_low=reward_range[0], reward_high=reward_range[1])
        return facts if weight_high is None else replace(facts, weight_high=weight_high)

    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided") -> float:
        """Normal p-value of the hypothesis that the estimated quantity equals ``null``.

        ``alternative`` "greater" tests against a larger value, "less" against a smaller one.
        """
        from scipy import stats

        if alternative not in {"two-sided", "greater", "less"}:
            raise UsageError(
                f"alternative= must be 'two-sided', 'greater' or 'less'. Got {alternative!r} instead."
            )
        if not self.is_defined:
            return math.nan
        if self.std_error == 0:
            z = 0.0 if self.value == null else math.copysign(math.inf, self.value - null)
        else:
            z = (self.value - null) / self.std_error
        if alternative == "greater":
            return float(stats.norm.sf(z))
        if alternative == "less":
            return float(stats.norm.cdf(z))
        return float(2 * stats.norm.sf(abs(z)))

    def __sub__(self, other: Estimate) -> Estimate:
        """Estimate of the difference: scores paired unit by unit."""
        if not isinstance(other, Estimate):
            return NotImplemented
        left, right = self._paired(other)
        label = f"{self.label} − {other.label}"
        return self._derived(_apart(left, right), other, label, "difference")

    def lift(self, other: Estimate) -> Estimate:
        """Estimate of self / other − 1 by the delta method, scores paired.

        >>> a, b = Estimate.from_scores([2.0, 4.0]), Estimate.from_scores([1.0, 2.0])
        >>> a.lift(b).value, a.lift(b).std_error
        (1.0, 0.0)
        """
        left, right = self._paired(other)
        top = np.array([self.units.mean(row) for row in left])[:, None]
        bottom = np.array([self.units.mean(row) for row in right])[:, None]
        if (bottom == 0).any():
            raise UsageError(f"the lift over {other.label} is undefined: its value is 0.")
        ratio = top / bottom
        psi = _apart(top, bottom) / bottom + _apart(left, ratio * right) / bottom
        return self._derived(psi, other, f"{self.label} / {other.label} − 1", "lift")

    def _paired(self, other: Estimate) -> tuple[Floats, Floats]:
        if self.units is not other.units and self.psi.shape[1] != other.psi.shape[1]:
            raise UsageError(
                f"{self.label} and {other.label} come from different units, so their scores cannot be "
                "paired. Evaluate both policies in one call."
            )
        if self.units is not other.units and not _same_units(self.units, other.units):
            raise UsageError(
                f"{self.label} and {other.label} come from different logs. Evaluate both in one call."
            )
        rows = max(len(self.psi), len(other.psi))
        for e in (self, other):
            if len(e.psi) not in {1, rows}:
                raise UsageError(f"{e.label} has {len(e.psi)} repetitions where {rows} are needed.")
        width = self.psi.shape[1]
        return np.broadcast_to(self.psi, (rows, width)), np.broadcast_to(other.psi, (rows, width))

    def _derived(
        self, psi: Floats, other: Estimate, label: str, relation: Literal["difference", "lift"]
    ) -> Estimate:
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        scored = self.scored if other.scored is None else other.scored
        if self.scored is not None and other.scored is not None:
            scored = self.scored | other.scored
        if (self.scored is None) != (other.scored is None):
            scored = None
        scale = 1.0 if relation == "difference" else abs(other.value)
        return replace(
            self,
            psi=psi,
            label=label,
            notes=notes,
            scored=scored,
            facts=_joint_facts(self, other, scale) if scored is None else None,
            relation=relation,
            parts=(self, other),
        )

    def __repr__(self) -> str:
        if not self.is_defined:
            reason = self.notes[-1] if self.notes else "not identified"
            return f"Estimate({self.label}: not identified: {reason})"
        low, high = self.interval()
        return (
            f"Estimate({self.label} = {self.value:.6g}, std_error {self.std_error:.3g}, "
            f"95% interval [{low:.6g}, {high:.6g}], n = {self.n:,})"
        )

    def _repr_html_(self) -> str:
        from offpolicy.report.notebook import estimate_html

        return estimate_html(self)


def _apart(a: Floats, b: Floats) -> Floats:
    """Difference a − b, exactly 0 where two vectors differ by rounding alone.

    A policy that equals the logging policy must not differ from it significantly by 10⁻¹⁸.
    """
    gap = a - b
    largest = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    same = float(np.abs(gap).max(initial=0.0)) <= 1e-12 * largest
    return np.zeros_like(gap) if same else gap


def _joint_facts(a: Estimate, b: Estimate, scale: float) -> Facts | None:
    """Facts about a difference: the heavier weights of the two, rewards in units of ``scale``."""
    from offpolicy.inference.intervals.facts import Facts
    from offpolicy.inference.intervals.tails import effective_size

    whole = a.units.n_rows
    known = [
        e.facts
        for e in (a, b)
        if e.facts is not None and e.facts.weights is not None and len(e.facts.weights) == whole
    ]
    if not known or scale == 0:
        return None
    worse = min(known, key=lambda f: effective_size(f.weights, a.units.count))  # type: ignore[arg-type]
    bounds = [f.weight_high for f in known]
    ranges = [(f.reward_low, f.reward_high) for f in known if f.rewards is not None]
    low, high = ranges[0] if ranges else (None, None)
    return Facts(
        worse.weights,
        None if worse.rewards is None else worse.rewards / scale,
        None if None in bounds else max(w for w in bounds if w is not None),
        None if low is None else low / scale,
        None if high is None else high / scale,
        is_value=False,
    )


def _same_units(a: Units, b: Units) -> bool:
    def same(x: object, y: object) -> bool:
        if x is None or y is None:
            return x is y
        return bool(np.array_equal(np.asarray(x), np.asarray(y)))

    return all(same(getattr(a, k), getattr(b, k)) for k in ("n_rows", "count", "weight", "cluster"))


def embedded(psi: Floats, units: Units, rows: Ints) -> tuple[Floats, Bools]:
    """Scores of some units as scores of all: same mean, same standard error.

    ψ_i = value + (Σω / Σ_scored ω) 1{i scored} (ψ_i − value), so that estimates of different splits can be
    paired on the same N units.
    """
    scored = np.zeros(units.n_rows, dtype=bool)
    scored[rows] = True
    mass = np.ones(units.n_rows) if units.mass is None else units.mass
    own = mass[rows]
    held = float(own.sum())
    value = float(psi @ own) / held
    out = np.full(units.n_rows, value)
    out[rows] = value + (float(mass.sum()) / held) * (psi - value)
    return out, scored
