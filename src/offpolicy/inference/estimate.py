"""`Estimate`: the mean of a score, its standard error, and arithmetic that keeps scores paired.

value = Σ ω_i ψ_i / Σ ω_i; with g running over clusters (or units), u_g = Σ_{i∈g} ω_i (ψ_i − value) and
std_error = √(Σ_g u_g²) / Σ ω_i. Unweighted and unclustered this is σ̂ / √N of Proposition 1. A unit that
stands for c identical ones counts c times.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._visible import printable
from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference import arithmetic
from offpolicy.inference.intervals.sample import Interval, Sample
from offpolicy.inference.score_table import MOST_ROWS, SMALL, Affine, EvidenceColumns, ScoreTable, Units
from offpolicy.scores.control_variates import best_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.columns.store import Name
    from offpolicy.inference.intervals.evidence import Evidence

# The bias of a symmetric window grows with the square of its width, of one cut at the end of the range with the width:
# what halving it takes away is 3/4, or 1/2, of all of it.
INTERIOR, EDGE = 4 / 3, 2.0
UNSEEN = 1.0  # standard errors of an estimated bias that are added to it

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
NUMBER = int | float | np.integer | np.floating


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value, its standard error and the scores behind it: a table and an expression over its columns.

    Attributes
    ----------
    value, std_error : float
    n : int
        Units the score was taken on.
    table : ScoreTable
        Scores of all units.
    rows : tuple of Affine
        The linearized score as an expression over columns, one for each repetition of the folds.
    label : str
        What is estimated, for printing.
    notes : tuple of str
        What a reader should know about how it came about.
    scored : column name or None
        Which units a half-sample split scores; the others hold the value.
    evidence : EvidenceColumns or None
        Weights, rewards and their ranges, for the intervals that use them.
    parts : tuple of Estimate, or None
        What a difference, a lift, a multiple or a sum is made of; ``relation`` says which.
    factors : tuple of float
        What the parts of a multiple or a sum are multiplied by.
    reward : column name or None
        The reward (or return) of each unit that is estimated; None where it is of several, or not known.
    bias : str
        Why its own standard error does not bound its error; empty where it does.
    reference : Estimate or None
        An estimate of the same quantity whose interval covers, for one that has a bias.
    shares_means : bool
        Whether the score of a unit looks at other units, through means over the whole log or coefficients.
    finer : Estimate or None
        The same with half the smoothing, for an estimate that values a smoothed policy in place of the policy itself.
    extrapolation : float
        What the step from ``finer`` to this estimate is multiplied by to be all of the bias.
    models : tuple of column names
        w q − v of each unit, one for each repetition, with which differences get coefficients of their own.
    corner : float
        What a corner of the mean reward at the policy's number, where one was found, moves the estimate by.

    Examples
    --------
    >>> e = Estimate.from_scores([1.0, 2.0, 3.0, 2.0])
    >>> e.value, round(e.std_error, 4)
    (2.0, 0.3536)
    >>> low, high = e.interval(0.95, method="normal")
    >>> round(low, 3), round(high, 3)
    (1.307, 2.693)
    """

    table: ScoreTable
    rows: tuple[Affine, ...]
    label: str = "estimate"
    notes: tuple[str, ...] = ()
    scored: Name | None = None
    evidence: EvidenceColumns | None = field(default=None, repr=False)
    relation: Literal["difference", "lift", "scaled", "sum"] | None = None
    parts: tuple[Estimate, ...] | None = field(default=None, repr=False)
    bias: str = ""
    reference: Estimate | None = field(default=None, repr=False)
    factors: tuple[float, ...] = ()
    reward: Name | None = None
    shares_means: bool = False
    finer: Estimate | None = field(default=None, repr=False)
    extrapolation: float = 1.0
    corner: float = 0.0
    models: tuple[Name, ...] = ()

    @classmethod
    def from_scores(cls, psi: Floats | list[float], *, units: Units | None = None, label: str = "estimate") -> Estimate:
        """Build an estimate from (N,) scores, or (R, N) for R repetitions.

        Estimates with the same ``units`` are scores of the same units: they can be subtracted. So can
        scores of equal number that are given without.
        """
        scores = np.atleast_2d(np.asarray(psi, dtype=np.float64))
        table = ScoreTable.shared(Units(scores.shape[1]) if units is None else units)
        table.anonymous = table.anonymous or units is None
        names = [(len(list(table.columns)), r) for r in range(len(scores))]
        for name, row in zip(names, scores, strict=True):
            table.put(name, row)
        return cls(table, tuple(Affine.column(name) for name in names), label)

    @property
    def units(self) -> Units:
        """What the scores are scores of."""
        return self.table.units

    @property
    def psi(self) -> Floats:
        """(R, N) linearized scores of every unit in each repetition of the folds."""
        return np.stack([self.table.scores(row) for row in self.rows])

    @cached_property
    def values(self) -> Floats:
        """(R,) estimate of each repetition."""
        if self.relation == "scaled" and self.parts is not None:
            return self.factors[0] * self.parts[0].values
        return np.array([self.units.mean(self.table.scores(row)) for row in self.rows])

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
        """Standard error: that of the scores' mean and, of a smoothed policy, of what its smoothing is off by.

        How much was smoothed was chosen on the same rows. What half the smoothing moves the estimate by, and the error
        of that, are part of what it may be off by.
        """
        return math.hypot(self.score_error, *self.smoothing)

    @cached_property
    def score_error(self) -> float:
        """Standard error of the mean of the scores, averaged over repetitions unit by unit.

        The scores of one repetition carry the noise of its folds; their average carries what is left of it.
        """
        if not self.is_defined:
            return math.nan
        if self.relation == "scaled" and self.parts is not None:
            return abs(self.factors[0]) * self.parts[0].score_error
        return self.units.sample(self.table.scores(Affine.mean(self.rows))).std_error

    @cached_property
    def smoothing(self) -> tuple[float, float]:
        """Estimated bias of the smoothing and its standard error; 0 where nothing is smoothed.

        With half the bandwidth a known part of the bias is gone: what the estimate moves by tells the whole of it.
        """
        if self.finer is None or not (self.is_defined and self.finer.is_defined):
            return 0.0, 0.0
        gap = Affine.mean(self.rows) - Affine.mean(self.finer.rows)
        spread = self.units.sample(self.table.scores(gap)).std_error
        return (self.extrapolation * (self.value - self.finer.value), self.extrapolation * spread)

    @property
    def allowance(self) -> float:
        """What every interval is widened by on both sides for the bias of the smoothing; 0 where there is none.

        At a corner the bias follows from its size as well. Bends of the reward beside it can hide a part of it from the
        step to half the bandwidth, so that the larger of the two is allowed for.
        """
        bias, error = self.smoothing
        return max(abs(bias), abs(self.corner)) + UNSEEN * error

    @property
    def fold_spread(self) -> float:
        """Standard deviation of the estimate over draws of the folds; NaN where they were drawn once.

        >>> Estimate.from_scores([[0.0, 1.0], [0.0, 3.0]]).fold_spread == 0.5**0.5
        True
        """
        return float(self.values.std(ddof=1)) if len(self.rows) > 1 else math.nan

    @property
    def n(self) -> int:
        """Units the score was taken on."""
        return self.units.total(self._scored)

    @property
    def looks_at_others(self) -> bool:
        """Whether the score of a unit rests on other units, later ones among them."""
        parts = any(part.looks_at_others for part in self.parts or ())
        return self.shares_means or self.relation == "lift" or parts

    @property
    def _scored(self) -> Bools | None:
        return None if self.scored is None else self.table.columns[self.scored]

    @property
    def n_independent(self) -> int:
        """Independent units: clusters where given."""
        return round(self.sample().total) if self.is_defined else 0

    @property
    def variance(self) -> float:
        """σ̂², the variance of one unit's score: n · std_error²."""
        return self.n * self.score_error**2

    def sample(self) -> Sample:
        """The scored units (clusters) and their scores, averaged over repetitions.

        Residuals are scaled so that the sample has the standard error of the scores' mean, which for half-sample
        splits counts the scored half only.
        """
        if "sample" in self._kept:
            return self._kept["sample"]  # type: ignore[return-value]
        psi = self.table.scores(Affine.mean(self.rows))
        sample = self.table.sample(psi, self._scored)
        spread = sample.std_error
        factor = self.score_error / spread if spread > 0 else 1.0
        if abs(factor - 1) >= 1e-12:
            center = sample.estimate * sample.denominator
            scores = center + factor * (sample.numerator - center)
            sample = Sample(scores, sample.denominator, sample.count)
        if len(sample.numerator) <= SMALL or self.units.n_rows > MOST_ROWS:
            self._kept["sample"] = sample
        return sample

    def conf_int(self, level: float = 0.95, method: str = "auto") -> tuple[float, float]:
        """Ends of the interval as two numbers, NaN where it is refused; `interval` says more.

        >>> [round(end, 3) for end in Estimate.from_scores([1.0, 2.0, 3.0, 2.0]).conf_int(method="normal")]
        [1.307, 2.693]
        """
        return self.interval(level, method).shown

    @checks_arguments
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
            `intervals.choose`) and says in ``.method`` and ``.note`` what and why; where
            ``.sufficient`` is False no method can be expected to cover. By name:
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

        if self.relation == "scaled" and self.parts is not None:
            own = self.parts[0].interval(level, method, reward_range=reward_range, weight_high=weight_high, seed=seed)
            return arithmetic.stretched(own, self.factors[0])
        key = (level, method, reward_range, weight_high, seed)
        if key not in self._kept:
            evidence = self._evidence(reward_range, weight_high)
            self._kept[key] = confidence.interval(self, level, method, evidence, seed)
        return self._kept[key]  # type: ignore[return-value]

    @cached_property
    def _kept(self) -> dict[object, object]:
        return {}

    def __getstate__(self) -> dict[str, object]:
        """Without intervals, which are made again."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}

    def known(self) -> Evidence | None:
        """Weights, rewards and their ranges; None where units are clusters or carry analysis weights."""
        plain = self.evidence is not None and self.evidence.is_plain
        return self.table.evidence(self.evidence) if plain and self.evidence else None

    def _evidence(self, reward_range: tuple[float, float] | None, weight_high: float | None) -> Evidence | None:
        if self.evidence is None:
            return None
        evidence = self.table.evidence(self.evidence)
        if reward_range is not None:
            self._check_range(reward_range)
            evidence = replace(evidence, reward_low=reward_range[0], reward_high=reward_range[1])
        return evidence if weight_high is None else replace(evidence, weight_high=weight_high)

    def _check_range(self, given: tuple[float, float]) -> None:
        """Refuse a range that a reward of the log contradicts."""
        assert self.evidence is not None
        reward = self.table.columns[self.evidence.reward] / self.evidence.scale
        bad = (reward < given[0]) | (reward > given[1])
        if bad.any():
            raise DataError(
                f"reward_range=({given[0]:g}, {given[1]:g}): the reward lies outside in "
                f"{first_rows(bad, reward)}. Give a range that holds every reward that can occur."
            )

    @checks_arguments
    def p_value(self, null: float = 0.0, alternative: Alternative = "two-sided", *, method: str = "auto") -> float:
        """P-value of the hypothesis that the estimated quantity equals ``null``, by inverting the interval.

        It is the smallest α for which the interval at level 1 − α leaves ``null`` out, so that p < 0.05 where and
        only where the 95% interval does. NaN where the interval is refused.

        Parameters
        ----------
        null : float
        alternative : {"two-sided", "greater", "less"}
            "greater" tests against a larger value, "less" against a smaller one.
        method : str
            Of the interval, as in `interval`.
        """
        from offpolicy.inference.confidence import p_value

        if alternative not in {"two-sided", "greater", "less"}:
            raise UsageError(f"alternative= must be 'two-sided', 'greater' or 'less'. Got {alternative!r} instead.")
        key = ("p-value", float(null), alternative, method)
        if key not in self._kept:
            self._kept[key] = p_value(self, float(null), alternative, method)
        return self._kept[key]  # type: ignore[return-value]

    def __sub__(self, other: Estimate) -> Estimate:
        """Estimate of the difference: scores paired unit by unit."""
        if not isinstance(other, Estimate):
            return NotImplemented
        return self._paired_with(other, "minus", partial(self._minus, other))

    def _paired_with(self, other: Estimate, relation: str, make: Callable[[], Estimate]) -> Estimate:
        """One derived estimate for as long as somebody has it, with the intervals that were made of it before.

        The intervals are kept and not the estimate: it refers to both it was made from, and would keep them for ever.
        """
        pairs: Any = self._kept.setdefault("pairs", WeakKeyDictionary())
        known, intervals = pairs.setdefault(other, {}).get(relation, (None, {}))
        made: Estimate | None = None if known is None else known()
        if made is None:
            made = make()
            vars(made)["_kept"] = intervals
            pairs[other][relation] = (weakref.ref(made), intervals)
        return made

    def _minus(self, other: Estimate) -> Estimate:
        if not arithmetic.is_difference(self, other):
            return arithmetic.summed(self, other, -1.0)
        best = self._best_rows(other)
        if best is None:
            return self.plain_difference(other)
        gap = self._derived(other, best[0], f"{self.label} − {other.label}", "difference")
        return replace(gap, notes=(*gap.notes, *best[1]))

    def plain_difference(self, other: Estimate) -> Estimate:
        """The difference of the two scores as they are, whose value is the difference of the values."""
        rows = tuple(a - b for a, b in self.paired(other))
        return self._derived(other, rows, f"{self.label} − {other.label}", "difference")

    def _best_rows(self, other: Estimate) -> tuple[tuple[Affine, ...], tuple[str, ...]] | None:
        """Scores of the difference by coefficients chosen for the pair, and notes; None where there are none."""
        one, two = self.evidence, other.evidence
        paired = one is not None and two is not None and len(self.models) == len(other.models) > 0
        if not paired or self.table is not other.table or self.is_same_as(other):
            return None
        assert one is not None
        assert two is not None
        table, units = self.table, self.units
        mass, single = units.mass, units.mass / units.count
        weight = table.columns[one.weight] - table.columns[two.weight]
        rows, notes = [], []
        for mine, theirs in zip(self.models, other.models, strict=True):
            name = ("pair", mine, theirs)
            model = table.columns[mine] - table.columns[theirs]
            best = best_difference(weight, model, table.columns[one.reward], mass, single)
            if best is None:
                return None
            table.put(name, best[0])
            rows.append(Affine.column(name))
            notes.append(best[1])
        return tuple(rows), tuple(dict.fromkeys(notes))

    def __add__(self, other: Estimate) -> Estimate:
        """Estimate of the sum: scores paired unit by unit."""
        return arithmetic.summed(self, other) if isinstance(other, Estimate) else NotImplemented

    def __radd__(self, other: int) -> Estimate:
        """0 + self, so that `sum` takes estimates."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> Estimate:
        """Estimate of a multiple; its interval is the same multiple."""
        if isinstance(factor, bool) or not isinstance(factor, NUMBER):
            return NotImplemented
        return arithmetic.scaled(self, float(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Estimate:
        """Estimate of a quotient by a number; of two estimates see `lift`."""
        if isinstance(divisor, bool) or not isinstance(divisor, NUMBER):
            return NotImplemented
        if divisor == 0:
            raise UsageError("an estimate cannot be divided by 0.")
        return arithmetic.scaled(self, 1 / float(divisor))

    def __neg__(self) -> Estimate:
        """Estimate of the negative."""
        return arithmetic.scaled(self, -1.0)

    @checks_arguments
    def lift(self, other: Estimate) -> Estimate:
        """Estimate of (self − other) / |other| by the delta method, scores paired.

        Positive where self is larger, whatever the sign of other: −1.5 against −2.0 is +25%.

        >>> units = Units(2)
        >>> a = Estimate.from_scores([2.0, 4.0], units=units)
        >>> b = Estimate.from_scores([1.0, 2.0], units=units)
        >>> round(a.lift(b).value, 12), a.lift(b).std_error
        (1.0, 0.0)
        """
        return self._paired_with(other, "over", partial(self._over, other))

    def _over(self, other: Estimate) -> Estimate:
        if self.relation == other.relation == "scaled" and self.factors == other.factors:
            assert self.parts is not None
            assert other.parts is not None
            sign = 1.0 if self.factors[0] > 0 else -1.0  # c·a is to |c·b| as ±a to |b|
            return arithmetic.scaled(self.parts[0].lift(other.parts[0]), sign)
        rows = []
        for (a, b), top, bottom in zip(self.paired(other), *self._repeated(other), strict=True):
            if bottom == 0:
                raise UsageError(f"the lift over {other.label} is undefined: its value is 0.")
            ratio, size = top / bottom, abs(bottom)
            # The linearized score (a − ratio·b)/|b| has mean 0; the lift itself is its constant.
            rows.append((a - b.scaled(ratio)).scaled(1 / size, (top - bottom) / size))
        label = f"lift of {self.label} over {other.label}"
        return self._derived(other, tuple(rows), label, "lift")

    @checks_arguments
    def within(self, members: Bools) -> Estimate | None:
        """The mean of the same score over some units alone; None where the split leaves nothing to average.

        Units that a half-sample split does not score hold its value, and those it scores are stretched
        around it; both are undone here, so that a subgroup's mean is that of its own scores.
        """
        members = np.asarray(members)
        if members.dtype != bool or members.shape != (self.units.n_rows,):
            raise UsageError(
                f"within: members= must hold True or False for each of {self.units.n_rows:,} units. Got "
                f"{members.dtype} of shape {members.shape} instead."
            )
        stretch, scored = 1.0, self._scored
        if scored is not None:
            mass = self.units.mass
            stretch = float(mass.sum() / mass[scored].sum())
            members = members & scored
        if not members.any():
            return None
        table = ScoreTable(self.units.part(members))
        for r, row in enumerate(self.rows):
            psi = self.table.scores(row)[members]
            table.put(r, psi if scored is None else self.value + (psi - self.value) / stretch)
        evidence = None
        if self.evidence is not None:
            evidence = replace(
                self.evidence,
                weight="weight",
                reward="reward",
                scored=None,
                carried=None if self.evidence.carried is None else Affine.column("carried"),
                # What the whole log shows, a few of its units may have missed.
                levels=self.table.levels(self.evidence),
                has_levels=True,
            )
            table.put("weight", self.table.columns[self.evidence.weight][members])
            table.put("reward", self.table.columns[self.evidence.reward][members])
            if self.evidence.carried is not None:
                table.put("carried", self.table.scores(self.evidence.carried)[members])
        rows = tuple(Affine.column(r) for r in range(len(self.rows)))
        reference = None if self.reference is None else self.reference.within(members)
        finer = None
        if self.finer is not None:
            for r, row in enumerate(self.finer.rows):
                table.put(("finer", r), self.finer.table.scores(row)[members])
            names = tuple(Affine.column(("finer", r)) for r in range(len(self.finer.rows)))
            finer = replace(self.finer, table=table, rows=names, scored=None, evidence=None)
        return replace(
            self,
            table=table,
            rows=rows,
            scored=None,
            evidence=evidence,
            relation=None,
            parts=None,
            factors=(),
            reference=reference,
            finer=finer,
            models=(),
        )

    def is_same_as(self, other: Estimate) -> bool:
        """Whether two estimates agree in every weight and score, so that nothing is left to estimate.

        Equal scores alone do not show it: where nobody clicked, every weight gives the score 0.
        """
        if self is other:
            return True
        if self.table is not other.table or self.evidence is None or other.evidence is None:
            return False
        columns = self.table.columns
        mine, theirs = columns[self.evidence.weight], columns[other.evidence.weight]
        return bool(
            len(self.rows) == len(other.rows)
            and np.array_equal(mine, theirs)
            and not any(self.table.scores(a - b).any() for a, b in self.paired(other))
        )

    def paired(self, other: Estimate) -> list[tuple[Affine, Affine]]:
        """The expressions of both, repetition by repetition, over this table."""
        theirs = other.rows
        if self.table is not other.table:
            if self.units.n_rows != other.units.n_rows:
                raise UsageError(
                    f"{self.label} and {other.label} come from different units, so their scores cannot be "
                    "paired. Evaluate both policies in one call."
                )
            if not (self.table.anonymous and other.table.anonymous):
                raise UsageError(
                    f"{self.label} and {other.label} come from different logs or evaluations, so that "
                    "their scores cannot be paired. Evaluate both in one call, or use ev.add(…)."
                )
            theirs = tuple(self.table.adopt(row, other.table) for row in theirs)
        number = max(len(self.rows), len(other.rows))
        for e in (self, other):
            if len(e.rows) not in {1, number}:
                raise UsageError(f"{e.label} has {len(e.rows)} repetitions where {number} are needed.")
        both = (rows * (number // len(rows)) for rows in (self.rows, theirs))
        return list(zip(*both, strict=True))

    def _repeated(self, other: Estimate) -> tuple[list[float], list[float]]:
        """Values of both, repetition by repetition."""
        number = max(len(self.rows), len(other.rows))
        top, bottom = (e.values.tolist() * (number // len(e.rows)) for e in (self, other))
        return top, bottom

    def _derived(
        self, other: Estimate, rows: tuple[Affine, ...], label: str, relation: Literal["difference", "lift"]
    ) -> Estimate:
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        # Halves of the same split pair; a half and the whole are both scores of all units.
        scored = self.scored if self.scored == other.scored else None
        bias, reference = self.bias or other.bias, None
        one, two = (e.reference if e.bias else e for e in (self, other))
        if bias and one is not None and two is not None:
            reference = one - two if relation == "difference" else one.lift(two)
        finer = None
        if self.finer is not None or other.finer is not None:
            a, b = (e if e.finer is None else e.finer for e in (self, other))
            finer = a - b if relation == "difference" else a.lift(b)
        scale, ratio = (1.0, 1.0) if relation == "difference" else (abs(other.value), self.value / other.value)
        return replace(
            self,
            rows=rows,
            label=label,
            notes=notes,
            scored=scored,
            evidence=_joint_evidence(self, other, relation) if scored is None else None,
            relation=relation,
            parts=(self, other),
            bias=bias,
            reference=reference,
            finer=finer,
            extrapolation=max(self.extrapolation, other.extrapolation),
            corner=(self.corner - ratio * other.corner) / scale,
            models=(),
        )

    @printable
    def __repr__(self) -> str:
        if not self.is_defined:
            reason = self.notes[-1] if self.notes else "not identified"
            return f"Estimate({self.label}: not identified: {reason})"
        interval = self.interval()
        low, high = interval
        ends = f"[{low:.6g}, {high:.6g}]" if interval.sufficient else f"refused: {interval.reason}"
        return (
            f"Estimate({self.label} = {self.value:.6g}, std_error {self.std_error:.3g}, "
            f"95% interval {ends}, n = {self.n:,})"
        )

    def _repr_html_(self) -> str:
        from offpolicy.inference.figures import estimate_html

        return estimate_html(self)


def _joint_evidence(a: Estimate, b: Estimate, relation: Literal["difference", "lift"]) -> EvidenceColumns | None:
    """Evidence on a difference: the heavier weights of the two, rewards in units of the base of a lift."""
    known = [e.evidence for e in (a, b) if e.evidence is not None and e.evidence.scored is None]
    scale = 1.0 if relation == "difference" else abs(b.value)
    if not known or scale == 0:
        return None
    worse = min(known, key=lambda e: a.table.effective_size(e.weight))
    bounds = [e.weight_high for e in known]
    high = None if None in bounds else max(w for w in bounds if w is not None)
    # Where both put mass beyond the weights seen, what one leaves out the other mostly does as well.
    sizes = [e.sizes for e in known if e.weight_high != 1.0]
    carried, residual = worse.carried, worse.residual
    if len(known) == 2:
        # What a model leaves of a reward enters both: one's residual stands for the other's as well.
        ratio = 1.0 if relation == "difference" else a.value / b.value
        carried = (known[0].carries - known[1].carries.scaled(ratio)).scaled(1 / scale)
        residual = known[0].residual if known[0].residual is not None else known[1].residual
    return replace(
        worse,
        weight_high=high,
        scale=scale,
        is_value=False,
        is_product=False,
        carried=carried,
        residual=residual,
        sizes=_largest(sizes),
        largest=max(float(a.table.columns[e.weight].max()) for e in known),
    )


def _largest(sizes: list[Floats | None]) -> Floats | None:
    """The larger share of each size; None where one is not known."""
    given = [shares for shares in sizes if shares is not None]
    return np.max(given, axis=0) if given and len(given) == len(sizes) else None


def embedded(psi: Floats, units: Units, rows: Ints) -> tuple[Floats, Bools]:
    """Scores of some units as scores of all: same mean, same standard error.

    ψ_i = value + (Σω / Σ_scored ω) 1{i scored} (ψ_i − value), so that estimates of different splits can be
    paired on the same N units.
    """
    scored = np.zeros(units.n_rows, dtype=bool)
    scored[rows] = True
    mass = units.mass
    own = mass[rows]
    held = float(own.sum())
    value = float(psi @ own) / held
    out = np.full(units.n_rows, value)
    out[rows] = value + (float(mass.sum()) / held) * (psi - value)
    return out, scored
