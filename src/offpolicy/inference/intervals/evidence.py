"""What is known about a sample besides its scores, and how lumpy the scores are in that light.

With residuals e = num − θ den, the estimate's skewness

    κ = max over signs of |Σ c e³ ± e₊³| / (Σ c e² + e₊²)^{3/2}

is taken after one more unit with the largest residual e₊ to be feared: a weight times the
reward span, or an end of the known score range; without either, a unit as extreme as the most extreme
one seen, or, where rewards have a heavy tail, one with the most extreme reward of the log. The weight is a
typical one, Σ w³ / Σ w², unless much of the target's mass lies beyond the weights seen (`Evidence.settled`).
κ ≈ 1/√m when m rare outcomes carry the estimate. Cochran's rule for a 95% interval with at
least 94% coverage, N > 25·skewness², reads κ < 0.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import picked
from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import column, frequencies
from offpolicy.inference.intervals.tails import effective_size, has_heavy_tail

if TYPE_CHECKING:
    from offpolicy._arrays import Ints
    from offpolicy.inference.intervals.sample import Floats, Sample
    from offpolicy.inference.intervals.tails import Pool

MOST_LEVELS, WELL_FILLED = 20, 100  # levels of rewards, and units at each end, that show a range
SIZES = 400  # sizes of weights that are told apart, up to 2¹⁰⁰
NEGLIGIBLE = 1.0  # standard errors by which unseen weights may move an estimate without being allowed for


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
        Range of the rewards; understood when they take few levels (`known_range`).
    score_low, score_high : float
        Range of the scores num/den.
    is_value : bool
        Whether the sample estimates E[w r] itself (IPW, SNIPW and doubly robust scores do; a
        difference of two policies does not), so that intervals made from w and r are about it.
    is_product : bool
        Whether the scores are weight × reward, so that nothing but the two is in them.
    pool : Pool
        What the whole log shows about rewards, at the weights of this estimate.
    constant : bool
        Whether every reward of the whole log is the same, so that it says nothing about other rewards.
    is_complete : bool
        Whether the range is what the whole log shows: of some of its units, rewards may take fewer values.
    heavy : bool
        Whether rewards have a tail too heavy for their variance to be estimated well; looked up where not given.
    tail : float
        Pareto tail index of the weights; looked up where not given.
    carried : (float, float, float)
        Of the weights u at which rewards enter the estimate, w − w' for a difference: the largest |u|, and the typical
        |u| of positive and of negative ones (`carried_by`); those of ``weights`` where not given.
    feared : (float, float)
        Weight of the one more unit that is allowed for, entering with a plus or with a minus; see `settled`.
    sizes : array of shape (B,)
        Shares of the target's mass by the size of the weight (`size_of`), where the whole logging policy is known.

    Examples
    --------
    >>> e = Evidence(np.array([0.0, 50.0]), np.array([20.0, 0.0]), np.array([980.0, 20.0]))
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
    pool: Pool | None = None
    constant: bool = False
    is_complete: bool = False
    heavy: bool | None = None
    tail: float | None = None
    carried: tuple[float, float, float] | None = None
    feared: tuple[float, float] | None = None
    sizes: Floats | None = None

    def __post_init__(self) -> None:
        length: int | None = None
        for name in ("weights", "rewards"):
            values = getattr(self, name)
            if values is None:
                continue
            values = column(name, values)
            if length is not None and len(values) != length:
                raise UsageError(f"{len(values):,} rewards for {length:,} weights. Give one reward per weight.")
            length = len(values)
            object.__setattr__(self, name, values)
        if self.count is None:
            return
        if length is None:
            raise UsageError("Counts need weights and rewards to count.")
        count = frequencies(self.count, length)
        object.__setattr__(self, "count", count)
        if count.min() == 0:
            for name in ("weights", "rewards", "count"):
                values = getattr(self, name)
                object.__setattr__(self, name, picked(values, count > 0))

    def completed(self) -> Evidence:
        """Fill in the range of rewards of few levels: 0 and 1, any other two, or more that are well filled."""
        given = self.reward_low is not None or self.reward_high is not None
        if self.rewards is None or given or self.is_complete:
            return self
        ends = known_range(self.rewards, self.count)
        if ends is None:
            return self
        if ends[0] == ends[1]:
            return replace(self, constant=True)
        return replace(self, reward_low=ends[0], reward_high=ends[1])

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
    def one_weight(self) -> bool:
        """Whether all units with a positive weight have the same, and no other can occur."""
        w = self.weights
        if w is None or not (w > 0).any():
            return True
        top = float(w.max()) if self.weight_high is None else self.weight_high
        return float(w[w > 0].min()) >= top * (1 - 1e-9)

    @property
    def bounded_scores(self) -> bool:
        """Whether the range of the scores is known."""
        return self.score_low is not None and self.score_high is not None

    def span(self, sample: Sample) -> tuple[float, float]:
        """How far below and above their weighted mean the ends of the range of the rewards lie."""
        assert self.reward_low is not None
        assert self.reward_high is not None
        center = sample.estimate if self.is_value else _weighted_mean(self, sample.estimate)
        inside = min(max(center, self.reward_low), self.reward_high)
        return self.reward_low - inside, self.reward_high - inside

    def settled(self, sample: Sample) -> Evidence:
        """The same, with a weight to be feared of one more unit in place of the largest possible one.

        One row in which an action that was not taken had a tiny propensity bounds the weights by a number that
        no unit comes near. The weight feared is a typical one. Where the whole logging policy is known, so is how much
        of the target's mass lies on weights beyond those seen, and what rewards there move the estimate by: that share
        of what they deviate by. Where this is negligible, no weight is taken to be larger than those seen; elsewhere
        the bound is of no use, and the weights are judged as if it were not known.

        >>> from offpolicy.inference.intervals import Sample
        >>> w, r = np.tile([0.0, 2.0], 500), np.repeat([0.0, 1.0], 500)
        >>> shares = np.bincount(size_of(np.array([2.0, 1e6])), [1 - 1e-4, 1e-4], SIZES)
        >>> known = Evidence(w, r, weight_high=1e6, sizes=shares).completed()
        >>> known.settled(Sample.of_mean(w * r)).feared
        (2.0, 0.0)
        """
        if self.feared is not None or self.weights is None or not self.bounded_rewards:
            return self
        largest, up, down = self.carried or carried_by(self.weights, self.count)
        top = self.weight_high
        if largest == 0 and top is not None:  # nothing was seen of the weights but what they can be
            up, down = top, 0.0 if self.is_value else top
        elif top is not None and self.sizes is not None:
            beyond = float(self.sizes[int(size_of(np.array([largest]))[0]) + 1 :].sum())
            negligible = beyond * weighted_spread(self) <= NEGLIGIBLE * sample.std_error
            top = min(top, max(largest, 1.0)) if negligible else None
        return replace(self, feared=(up, down), weight_high=top)


def carried_by(weights: Floats, count: Floats | None = None) -> tuple[float, float, float]:
    """Largest |u|, and the typical one, Σ |u|³ / Σ u², of positive and of negative weights u.

    One more unit of a typical weight adds to the third moment what those seen add on average.

    >>> carried_by(np.array([-2.0, 0.0, 1.0, 4.0]))[::2]
    (4.0, 2.0)
    """
    top = float(np.abs(weights).max())
    if top == 0:
        return 0.0, 0.0, 0.0
    share, c = weights / top, frequencies(count, len(weights))
    square = c * share * share

    def typical(u: Floats) -> float:
        total = float(square @ (u > 0))
        return top * float(square @ u) / total if total > 0 else 0.0

    return top, typical(np.maximum(share, 0.0)), typical(np.maximum(-share, 0.0))


def size_of(weight: Floats) -> Ints:
    """Size of weights in quarters of an octave; 0 for those below 1.

    >>> size_of(np.array([0.0, 1.0, 2.0, 4.1])).tolist()
    [0, 0, 4, 8]
    """
    size = np.floor(4 * np.log2(np.maximum(weight, 1.0)))
    return np.asarray(np.minimum(size, SIZES - 1), dtype=np.int64)


def two_values(values: Floats) -> tuple[float, float] | None:
    """The two values that a column takes, the smaller first, or its only one twice; None where it takes more.

    >>> two_values(np.array([20.0, 0.0, 20.0])), two_values(np.ones(3)), two_values(np.arange(3.0))
    ((0.0, 20.0), (1.0, 1.0), None)
    """
    low, high = float(values.min()), float(values.max())
    return (low, high) if bool(((values == low) | (values == high)).all()) else None


def known_range(values: Floats, count: Floats | None = None) -> tuple[float, float] | None:
    """The range of a column of few levels: its two values, or its only one twice; None where it is not known.

    Rewards of more levels, at most 20, have a known range where each end of it was met a hundred times: stars from
    1 to 5 have, numbers of items bought have not, of which the largest was met a few times.

    >>> known_range(np.array([1.0, 2.0, 5.0]), np.array([100.0, 3.0, 2000.0]))
    (1.0, 5.0)
    >>> known_range(np.array([0.0, 1.0, 2.0]), np.array([5000.0, 100.0, 2.0]))
    """
    ends = two_values(values)
    if ends is not None:
        return ends
    low, high = float(values.min()), float(values.max())
    at = [values == low, values == high]
    met = [float(here.sum() if count is None else count[here].sum()) for here in at]
    return (low, high) if min(met) >= WELL_FILLED and _few_levels(values) else None


def _few_levels(values: Floats) -> bool:
    """Whether a column takes no more than `MOST_LEVELS` values, looked for in ever more rows."""
    levels, rest = np.empty(0), values
    while len(rest) and len(levels) <= MOST_LEVELS:
        levels = np.union1d(levels, rest[:1000])
        near = np.minimum(np.searchsorted(levels, rest), len(levels) - 1)
        rest = rest[levels[near] != rest]
    return len(levels) <= MOST_LEVELS


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

    Where the range of the rewards is not known, it is not below the skewness that the rewards of the whole log
    would give the estimate (`Pool`).

    >>> from offpolicy.inference.intervals import Sample
    >>> round(lumpiness(Sample.of_mean([0.0, 1.0], count=[9900, 100])), 3)
    0.098
    """
    return lumps(sample, evidence)[1]


def lumps(sample: Sample, evidence: Evidence | None = None) -> tuple[float, float]:
    """Skewness of the estimate by the scores seen, and `lumpiness`, after one more unit."""
    c, e = sample.counts, sample.residual
    largest = float(np.abs(e).max())
    if largest == 0:
        return 1.0, 1.0
    e = e / largest
    square, cube = float(c @ (e * e)), float(c @ (e * e * e))
    evidence = (evidence or Evidence()).completed().settled(sample)
    # Cubes of very large residuals leave the range of a float: the ratio does not need them.
    unit = math.sqrt(square)
    cube /= unit**3
    own = max(_cube_share(cube, float(x) / (unit * largest)) for x in (0.0, *_unseen(sample, evidence)))
    known = evidence.bounded_rewards or evidence.bounded_scores
    if not known and evidence.pool is not None:
        own = max(own, evidence.pool.skewness)
    return abs(cube), own


def _cube_share(cube: float, x: float) -> float:
    """|cube + x³| / (1 + x²)^1.5 of any x, also where x³ leaves the range of a float.

    >>> _cube_share(0.5, 0.0), _cube_share(0.5, 1e200)
    (0.5, 1.0)
    """
    size = math.hypot(1.0, x)
    return abs(cube / size / size / size + (x / size) ** 3)


def _unseen(sample: Sample, evidence: Evidence) -> list[float]:
    """Residuals of the most extreme units that can occur."""
    theta = sample.estimate
    if evidence.score_low is not None and evidence.score_high is not None:
        size = float(sample.denominator.max())
        return [size * (evidence.score_high - theta), size * (evidence.score_low - theta)]
    if evidence.bounded_rewards:
        return list(extremes(sample, evidence))
    peak = float(np.abs(sample.residual).max())
    return [peak, -peak, *_heavy_rewards(evidence, theta)]


def extremes(sample: Sample, evidence: Evidence) -> tuple[float, float]:
    """Lowest and highest residual of a unit, for rewards of known range.

    Of a difference what one policy loses the other gains: rewards enter with a plus or with a minus.
    """
    up, down = evidence.settled(sample).feared or (0.0, 0.0)
    low, high = evidence.span(sample)
    return min(up * low, -down * high), max(up * high, -down * low)


def _weighted_mean(evidence: Evidence, otherwise: float) -> float:
    """Σ w r / Σ w: where rewards lie, for an estimate (a difference, say) that is not on their scale."""
    w, r = evidence.weights, evidence.rewards
    if w is None or r is None:
        return otherwise
    mass = frequencies(evidence.count, len(w)) * w
    total = float(mass.sum())
    return float(mass @ r) / total if total > 0 else float(r.mean())


def weighted_spread(evidence: Evidence) -> float:
    """Standard deviation of the rewards by their weights."""
    w, r = evidence.weights, evidence.rewards
    if w is None or r is None:
        return 0.0
    away = (r - _weighted_mean(evidence, 0.0)) ** 2
    return math.sqrt(_weighted_mean(replace(evidence, rewards=away), 0.0))


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
    heavy = has_heavy_tail(r, evidence.count) if evidence.heavy is None else evidence.heavy
    if total <= 0 or not heavy:
        return []
    typical = float(c @ (w * w)) / total
    return [typical * (float(end) - theta) for end in (r.max(), r.min())]
