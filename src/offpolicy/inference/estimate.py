"""`Estimate`: the mean of a score, its standard error, and arithmetic that keeps scores paired.

value = Σ ω_i ψ_i / Σ ω_i; with g running over clusters (or units), u_g = Σ_{i∈g} ω_i (ψ_i − value) and
std_error = √(Σ_g u_g²) / Σ ω_i. Unweighted and unclustered this is σ̂ / √N of Proposition 1. A unit that
stands for c identical ones counts c times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._visible import printable
from offpolicy.errors import UsageError
from offpolicy.inference import expression
from offpolicy.inference.expression import Lift, Score, Smoothed
from offpolicy.inference.intervals.sample import Interval, Sample
from offpolicy.inference.score_table import MOST_ROWS, SMALL, Affine, EvidenceColumns, ScoreTable, Units

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
    of : Score, Multiple, Sum, Difference or Lift
        What it is made of.
    reward : column name or None
        The reward (or return) of each unit that is estimated; None where it is of several, or not known.
    bias : str
        Why its own standard error does not bound its error; empty where it does.
    reference : Estimate or None
        An estimate of the same quantity whose interval covers, for one that has a bias.
    shares_means : bool
        Whether the score of a unit looks at other units, through means over the whole log or coefficients.
    smoothed : Smoothed or None
        What tells its bias, where it values a smoothed policy in place of the policy itself.
    models : tuple of column names
        w q − v of each unit, one for each repetition, with which differences get coefficients of their own.

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
    of: Score = field(default_factory=Score, repr=False)
    bias: str = ""
    reference: Estimate | None = field(default=None, repr=False)
    reward: Name | None = None
    shares_means: bool = False
    smoothed: Smoothed | None = field(default=None, repr=False)
    models: tuple[Name, ...] = ()

    @classmethod
    @checks_arguments
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
        return self.of.values(self)

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
        return self.of.score_error(self) if self.is_defined else math.nan

    @cached_property
    def smoothing(self) -> tuple[float, float]:
        """Estimated bias of the smoothing and its standard error; 0 where nothing is smoothed.

        With half the bandwidth a known part of the bias is gone: what the estimate moves by tells the whole of it.
        """
        if self.smoothed is None or not (self.is_defined and self.smoothed.finer.is_defined):
            return 0.0, 0.0
        finer, more = self.smoothed.finer, self.smoothed.extrapolation
        gap = Affine.mean(self.rows) - Affine.mean(finer.rows)
        spread = self.units.sample(self.table.scores(gap)).std_error
        return more * (self.value - finer.value), more * spread

    @property
    def allowance(self) -> float:
        """What every interval is widened by on both sides for the bias of the smoothing; 0 where there is none.

        At a corner the bias follows from its size as well. Bends of the reward beside it can hide a part of it from the
        step to half the bandwidth, so that the larger of the two is allowed for.
        """
        bias, error = self.smoothing
        corner = 0.0 if self.smoothed is None else self.smoothed.corner
        return max(abs(bias), abs(corner)) + UNSEEN * error

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
        return self.units.total(self._scored())

    @property
    def looks_at_others(self) -> bool:
        """Whether the score of a unit rests on other units, later ones among them."""
        return self.shares_means or isinstance(self.of, Lift) or any(part.looks_at_others for part in self.of.parts)

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
        kept: Sample | None = self.kept.get("sample")
        if kept is not None:
            return kept
        psi = self.table.scores(Affine.mean(self.rows))
        sample = self.table.sample(psi, self._scored())
        spread = sample.std_error
        factor = self.score_error / spread if spread > 0 else 1.0
        if abs(factor - 1) >= 1e-12:
            center = sample.estimate * sample.denominator
            scores = center + factor * (sample.numerator - center)
            sample = Sample(scores, sample.denominator, sample.count)
        if len(sample.numerator) <= SMALL or self.units.n_rows > MOST_ROWS:
            self.kept["sample"] = sample
        return sample

    def _scored(self) -> Bools | None:
        return None if self.scored is None else self.table.columns[self.scored]

    @checks_arguments
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
        from offpolicy.inference.confidence import interval

        asked = (level, method, reward_range, weight_high, seed)
        made: Interval = self._once(asked, lambda: interval(self, *asked))
        return made

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Samples, intervals and p-values that were asked for before."""
        return {}

    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def __getstate__(self) -> dict[str, object]:
        """Without intervals, which are made again."""
        return {name: value for name, value in vars(self).items() if name != "kept"}

    def known(self) -> Evidence | None:
        """Weights, rewards and their ranges; None where units are clusters or carry analysis weights."""
        plain = self.evidence is not None and self.evidence.is_plain
        return self.table.evidence(self.evidence) if plain and self.evidence else None

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
        make = lambda: p_value(self, float(null), alternative, method)  # noqa: E731
        return float(self._once(("p-value", float(null), alternative, method), make))

    def __sub__(self, other: Estimate) -> Estimate:
        """Estimate of the difference: scores paired unit by unit."""
        return expression.once(self, other, expression.difference) if isinstance(other, Estimate) else NotImplemented

    def __add__(self, other: Estimate) -> Estimate:
        """Estimate of the sum: scores paired unit by unit."""
        return expression.summed(self, other) if isinstance(other, Estimate) else NotImplemented

    def __radd__(self, other: int) -> Estimate:
        """0 + self, so that `sum` takes estimates."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> Estimate:
        """Estimate of a multiple; its interval is the same multiple."""
        if isinstance(factor, bool) or not isinstance(factor, NUMBER):
            return NotImplemented
        return expression.scaled(self, float(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Estimate:
        """Estimate of a quotient by a number; of two estimates see `lift`."""
        if isinstance(divisor, bool) or not isinstance(divisor, NUMBER):
            return NotImplemented
        if divisor == 0:
            raise UsageError("an estimate cannot be divided by 0.")
        return expression.scaled(self, 1 / float(divisor))

    def __neg__(self) -> Estimate:
        """Estimate of the negative."""
        return expression.scaled(self, -1.0)

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
        return expression.once(self, other, expression.lift)

    @checks_arguments
    def within(self, members: Bools | Ints) -> Estimate | None:
        """The mean of the same score over some units alone; None where the split leaves nothing to average.

        Units are told by a mask, or by their positions in order. Those that a half-sample split does not score hold
        its value, and those it scores are stretched around it; both are undone here, so that a subgroup's mean is that
        of its own scores.
        """
        some: Any = np.asarray(members)
        if some.dtype.kind in "iu" and some.ndim == 1:
            return expression.within(self, some)
        if some.dtype != bool or some.shape != (self.units.n_rows,):
            raise UsageError(
                f"within: members= must be True or False for each of {self.units.n_rows:,} units. Got "
                f"{some.dtype} of shape {some.shape} instead."
            )
        return expression.within(self, np.flatnonzero(some))

    @printable
    def __repr__(self) -> str:
        if not self.is_defined:
            reason = f": {self.notes[-1]}" if self.notes else ""
            return f"Estimate({self.label}: no estimate{reason})"
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
