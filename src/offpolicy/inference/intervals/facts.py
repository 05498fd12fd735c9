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

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from offpolicy.inference.intervals.sample import Floats, Sample
from offpolicy.inference.intervals.tails import effective_size, tail_index

NO_FOURTH_MOMENT = 0.25  # Pareto index from which on a variance cannot be estimated well


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known besides the scores; every field is optional.

    Attributes
    ----------
    weights, rewards : array of shape (G,)
        Importance weight and reward of each unit, the same units as the sample.
    weight_high : float
        Largest weight that can occur.
    reward_low, reward_high : float
        Range of the rewards; 0 and 1 are understood when only these two values occur.
    score_low, score_high : float
        Range of the scores num/den.
    is_value : bool
        Whether the sample estimates E[w r] itself (IPW, SNIPW and doubly robust scores do; a
        difference of two policies does not), so that intervals made from w and r are about it.
    """

    weights: Floats | None = None
    rewards: Floats | None = None
    weight_high: float | None = None
    reward_low: float | None = None
    reward_high: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    is_value: bool = True

    def completed(self) -> Facts:
        """Fill in the range of rewards that are all 0 or 1."""
        if self.rewards is None or self.reward_low is not None or self.reward_high is not None:
            return self
        r = np.asarray(self.rewards)
        if bool(((r == 0) | (r == 1)).all()):
            return replace(self, reward_low=0.0, reward_high=1.0)
        return self

    @property
    def bounded_rewards(self) -> bool:
        """Whether weights, rewards and the reward range are known."""
        known = (self.weights, self.rewards, self.reward_low, self.reward_high)
        return all(k is not None for k in known)

    @property
    def bounded_weights(self) -> bool:
        """Whether E[w r] is estimated and the ranges of both w and r are known."""
        return self.is_value and self.bounded_rewards and self.weight_high is not None

    @property
    def binary(self) -> bool:
        """Whether rewards take only the two ends of their range."""
        if not self.bounded_rewards:
            return False
        r = np.asarray(self.rewards)
        return bool(((r == self.reward_low) | (r == self.reward_high)).all())

    @property
    def bounded_scores(self) -> bool:
        """Whether the range of the scores is known."""
        return self.score_low is not None and self.score_high is not None


def effective_units(sample: Sample, facts: Facts | None = None) -> float:
    """Number of units, discounted for unequal sizes and weights: (Σ c d)² / Σ c d².

    >>> from offpolicy.inference.intervals import Sample
    >>> effective_units(Sample.of_mean([0.0, 0.0], count=[98, 2]), Facts(np.array([0.0, 50.0])))
    2.0
    """
    units = effective_size(sample.denominator, sample.count)
    if facts is not None and facts.weights is not None:
        units = min(units, effective_size(facts.weights, sample.count))
    return units


def lumpiness(sample: Sample, facts: Facts | None = None) -> float:
    """Skewness κ of the estimate after one more unit at the worst possible score.

    >>> from offpolicy.inference.intervals import Sample
    >>> round(lumpiness(Sample.of_mean([0.0, 1.0], count=[9900, 100])), 3)
    0.098
    """
    known = (facts or Facts()).completed()
    c, e = sample.counts, sample.residual
    square, cube = float(c @ (e * e)), float(c @ (e * e * e))
    if square == 0:
        return 1.0
    extremes = (0.0, *_unseen(sample, known))
    return max(float(abs(cube + x**3) / (square + x * x) ** 1.5) for x in extremes)


def _unseen(sample: Sample, known: Facts) -> list[float]:
    """Residuals of the most extreme units that can occur."""
    theta = sample.estimate
    extremes: list[float] = []
    if known.bounded_scores and known.score_low is not None and known.score_high is not None:
        size = float(sample.denominator.max())
        extremes += [size * (known.score_high - theta), size * (known.score_low - theta)]
    elif known.bounded_rewards and known.reward_low is not None and known.reward_high is not None:
        w = np.asarray(known.weights)
        top = float(w.max()) if known.weight_high is None else known.weight_high
        inside = min(max(theta, known.reward_low), known.reward_high)
        extremes += [top * (known.reward_high - inside), top * (known.reward_low - inside)]
    else:
        peak = float(np.abs(sample.residual).max())
        extremes += [peak, -peak, *_heavy_rewards(sample, known, theta)]
    return extremes


def _heavy_rewards(sample: Sample, known: Facts, theta: float) -> list[float]:
    """Residuals of the most extreme rewards of the log, had the target earned them.

    Only for rewards with a tail too heavy for their variance to be estimated well: the units that carry
    weight may have missed it, and then look harmless. Their weight is that of a typical unit of the
    target, Σ w² / Σ w.
    """
    if known.weights is None or known.rewards is None:
        return []
    w, r, c = np.asarray(known.weights), np.asarray(known.rewards), sample.counts
    total = float(c @ w)
    # A row that stands for many counts as many, so that a compressed log is judged as its rows are.
    middle = (
        np.median(r)
        if sample.count is None
        else np.quantile(r, 0.5, weights=c, method="inverted_cdf")
    )
    if total <= 0 or not tail_index(np.abs(r - middle), c) > NO_FOURTH_MOMENT:
        return []
    typical = float(c @ (w * w)) / total
    return [typical * (float(end) - theta) for end in (r.max(), r.min())]


def check_facts(sample: Sample, known: Facts) -> None:
    """Refuse weights or rewards that are not one per row of the sample."""
    for name, values in (("weights", known.weights), ("rewards", known.rewards)):
        if values is not None and np.shape(values) != sample.numerator.shape:
            raise UsageError(
                f"{name} have shape {np.shape(values)} for {len(sample.numerator)} units; give one "
                "per row of the sample, or none for clusters."
            )
