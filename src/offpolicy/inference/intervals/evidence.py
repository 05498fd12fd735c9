"""What is known about a sample besides its scores, and how lumpy the scores are in that light.

With residuals e = num − θ den, the estimate's skewness

    κ = max over signs of |Σ c e³ ± e₊³| / (Σ c e² + e₊²)^{3/2}

is taken after one more unit with the largest residual e₊ that can occur: the known weight bound
times the reward span, or an end of the known score range; without either, a unit as extreme as the
most extreme one seen, or, where rewards have a heavy tail, one with the most extreme reward of the
log. κ ≈ 1/√m when m rare outcomes carry the estimate. Cochran's rule for a 95% interval with at
least 94% coverage, N > 25·skewness², reads κ < 0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import quantiles
from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import column, frequencies
from offpolicy.inference.intervals.tails import effective_size, tail_index

if TYPE_CHECKING:
    from offpolicy.inference.intervals.sample import Floats, Sample

NO_FOURTH_MOMENT = 0.25  # Pareto index from which on a variance cannot be estimated well


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known besides the scores; every field is optional.

    Weights and rewards have rows and counts of their own: they are those of the sample's units, but
    not in its order, nor grouped as it is.

    Attributes
    ----------
    weights, rewards : array of shape (M,)
        Importance weight and reward of each unit.
    count : array of shape (M,)
        How many units each row of weights and rewards stands for; ones by default.
    weight_high : float
        Largest weight that can occur.
    reward_low, reward_high : float
        Range of the rewards; 0 and 1 are understood when only these two values occur.
    score_low, score_high : float
        Range of the scores num/den.
    is_value : bool
        Whether the sample estimates E[w r] itself (IPW, SNIPW and doubly robust scores do; a
        difference of two policies does not), so that intervals made from w and r are about it.
    is_product : bool
        Whether the scores are weight × reward, so that nothing but the two is in them.

    Examples
    --------
    >>> e = Evidence(np.array([0.0, 50.0]), np.array([0.0, 0.0]), np.array([980.0, 20.0]))
    >>> e.completed().binary, e.units
    (True, 1000.0)
    """

    weights: Floats | None = None
    rewards: Floats | None = None
    count: Floats | None = None
    weight_high: float | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    is_value: bool = True
    is_product: bool = False

    def __post_init__(self) -> None:
        length: int | None = None
        for name in ("weights", "rewards"):
            values = getattr(self, name)
            if values is None:
                continue
            values = column(name, values)
            if length is not None and len(values) != length:
                raise UsageError(f"{len(values):,} rewards for {length:,} weights; give one each.")
            length = len(values)
            object.__setattr__(self, name, values)
        if self.count is None:
            return
        if length is None:
            raise UsageError("Counts of units without weights or rewards mean nothing.")
        count = frequencies(self.count, length)
        object.__setattr__(self, "count", count)
        if count.min() == 0:
            for name in ("weights", "rewards", "count"):
                values = getattr(self, name)
                object.__setattr__(self, name, None if values is None else values[count > 0])

    def completed(self) -> Evidence:
        """Fill in the range of rewards that are all 0 or 1."""
        if self.rewards is None or self.reward_low is not None or self.reward_high is not None:
            return self
        if bool(((self.rewards == 0) | (self.rewards == 1)).all()):
            return replace(self, reward_low=0.0, reward_high=1.0)
        return self

    @property
    def units(self) -> float:
        """Number of units that the weights and rewards are of; 0 where there are none."""
        if self.count is not None:
            return float(self.count.sum())
        columns = [x for x in (self.weights, self.rewards) if x is not None]
        return float(len(columns[0])) if columns else 0.0

    @property
    def bounded_rewards(self) -> bool:
        """Whether weights, rewards and the reward range are known."""
        needed = (self.weights, self.rewards, self.reward_low, self.reward_high)
        return all(x is not None for x in needed)

    @property
    def bounded_weights(self) -> bool:
        """Whether E[w r] is estimated and the ranges of both w and r are known."""
        return self.is_value and self.bounded_rewards and self.weight_high is not None

    @property
    def binary(self) -> bool:
        """Whether rewards take only the two ends of their range."""
        r = self.rewards
        if r is None or not self.bounded_rewards:
            return False
        return bool(((r == self.reward_low) | (r == self.reward_high)).all())

    @property
    def bounded_scores(self) -> bool:
        """Whether the range of the scores is known."""
        return self.score_low is not None and self.score_high is not None


def effective_units(sample: Sample, evidence: Evidence | None = None) -> float:
    """Number of units, discounted for unequal sizes and weights: (Σ c d)² / Σ c d².

    >>> from offpolicy.inference.intervals import Sample
    >>> rare = Evidence(np.array([0.0, 50.0]), count=np.array([98.0, 2.0]))
    >>> effective_units(Sample.of_mean([0.0], count=[100]), rare)
    2.0
    """
    units = effective_size(sample.denominator, sample.count)
    if evidence is not None and evidence.weights is not None:
        units = min(units, effective_size(evidence.weights, evidence.count))
    return units


def lumpiness(sample: Sample, evidence: Evidence | None = None) -> float:
    """Skewness κ of the estimate after one more unit at the worst possible score.

    >>> from offpolicy.inference.intervals import Sample
    >>> round(lumpiness(Sample.of_mean([0.0, 1.0], count=[9900, 100])), 3)
    0.098
    """
    c, e = sample.counts, sample.residual
    square, cube = float(c @ (e * e)), float(c @ (e * e * e))
    if square == 0:
        return 1.0
    extremes = (0.0, *_unseen(sample, (evidence or Evidence()).completed()))
    return max(float(abs(cube + x**3) / (square + x * x) ** 1.5) for x in extremes)


def _unseen(sample: Sample, evidence: Evidence) -> list[float]:
    """Residuals of the most extreme units that can occur."""
    theta = sample.estimate
    low, high, w = evidence.reward_low, evidence.reward_high, evidence.weights
    if evidence.score_low is not None and evidence.score_high is not None:
        size = float(sample.denominator.max())
        return [size * (evidence.score_high - theta), size * (evidence.score_low - theta)]
    if evidence.bounded_rewards and low is not None and high is not None and w is not None:
        top = float(w.max()) if evidence.weight_high is None else evidence.weight_high
        inside = min(max(theta, low), high)
        return [top * (high - inside), top * (low - inside)]
    peak = float(np.abs(sample.residual).max())
    return [peak, -peak, *_heavy_rewards(evidence, theta)]


def _heavy_rewards(evidence: Evidence, theta: float) -> list[float]:
    """Residuals of the most extreme rewards of the log, had the target earned them.

    Only for rewards with a tail too heavy for their variance to be estimated well: the units that carry
    weight may have missed it, and then look harmless. Their weight is that of a typical unit of the
    target, Σ w² / Σ w.
    """
    w, r = evidence.weights, evidence.rewards
    if w is None or r is None:
        return []
    c = frequencies(evidence.count, len(w))
    total = float(c @ w)
    # A row that stands for many counts as many, so that a compressed log is judged as its rows are.
    middle = quantiles(r, [0.5], evidence.count)[0]
    if total <= 0 or not tail_index(np.abs(r - middle), evidence.count) > NO_FOURTH_MOMENT:
        return []
    typical = float(c @ (w * w)) / total
    return [typical * (float(end) - theta) for end in (r.max(), r.min())]
