"""The stated rules behind the ``auto`` interval: which method, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.betting import confidence_sequence
from offpolicy.inference.intervals.evidence import (
    Evidence,
    carried_by,
    effective_units,
    extremes,
    lumps,
    weighted_spread,
)
from offpolicy.inference.intervals.exact import clopper_pearson, empirical_bernstein
from offpolicy.inference.intervals.likelihood import bounded_likelihood, cautious_likelihood, empirical_likelihood
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.intervals.tails import HEAVY_TAIL, tail_index, tail_is_visible
from offpolicy.inference.intervals.wald import normal, student
from offpolicy.inference.intervals.weight_likelihood import cressie_read

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.inference.intervals.sample import Sample

SMOOTH = 0.10
LUMPY = 0.25
DOMINATED = 0.50
FEW_UNITS = 10
MANY_UNITS = 200
UNITS_UNBOUNDED = 30
DECIDES = 1.5  # standard errors by which one unit decides a value
INSUFFICIENT = "insufficient evidence"
CONSTANT = (
    "every reward in the log is the same, so the range of possible rewards is unknown. Give it: "
    "reward_range=(low, high)"
)
LEAST_OF_HEAVY = 0.95  # level of the narrowest interval of a heavy tail
NORMAL_QUANTILE = 1.959964  # of the level for which SMOOTH is stated


class Choice(NamedTuple):
    """A method, the reason for it, and whether it can be expected to cover as often as it says."""

    method: str
    reason: str
    sufficient: bool = True


def smooth(level: float, units: float = math.inf) -> float:
    """Largest skewness for which a normal interval is taken: 0.10 at 95% and below, less farther out.

    The first error of a normal tail area at z is about κ z³/6 of itself. Of few units even normal scores show a
    skewness of √6/N or so, and Student's wider tails allow for it.

    >>> smooth(0.95), round(smooth(0.999), 3), smooth(0.999, 25)
    (0.1, 0.035, 0.1)
    """
    z = float(special.ndtri(0.5 + level / 2))
    return min(SMOOTH, max(SMOOTH * (NORMAL_QUANTILE / z) ** 2, 2 * math.sqrt(6) / units))


def critical(level: float, units: float) -> float:
    """How many standard errors a Wald interval reaches to either side; of fewer than 200 units Student's.

    >>> round(critical(0.95, 1000), 3), round(critical(0.95, 4), 3)
    (1.96, 3.675)
    """
    if units >= MANY_UNITS:
        return float(special.ndtri(0.5 + level / 2))
    return float(special.stdtrit(units - 1, 0.5 + level / 2)) * of_few(units)


def of_few(units: float) -> float:
    """What a standard error is multiplied by for Student's interval: √(N/(N−1)) of fewer than 200 units, else 1.

    >>> of_few(1000), round(of_few(4), 3)
    (1.0, 1.155)
    """
    return math.sqrt(units / (units - 1)) if units < MANY_UNITS else 1.0


def choose(sample: Sample, evidence: Evidence | None = None, level: float = 0.95) -> Choice:
    """Pick the interval method for a sample, and say why.

    In this order, with κ the estimate's skewness as `lumpiness` computes it:

    0. Every reward of the whole log is the same and no range is given: insufficient evidence, whatever
       that reward is.
    1. Weights without a known bound whose Pareto tail index exceeds 0.7, the largest of which
       carries at least what such a tail would give it: insufficient evidence, unless rewards have a known range and
       the largest weight of a log twice as long would not move the estimate by more than 1.5 standard errors.
    2. Fewer than 10 units (discounted for unequal sizes and weights) or κ > 0.25 (fewer than about
       16 large scores carry the estimate): an interval that needs no large sample.
       Where the range of the rewards is known and 10 units count (30 of weights without a known bound):
       ``bounded-likelihood``, but for binary rewards of one weight, which are ``clopper-pearson``'s. Of fewer
       units, and of products of weight and reward: ``clopper-pearson`` for binary rewards, ``cressie-read`` where
       the range of the weights is known as well, else ``confidence-sequence``.
       ``empirical-bernstein`` for scores of known range; ``cautious-likelihood`` when at least 10
       units and κ ≤ 0.5; otherwise insufficient evidence.
    3. 0.10 < κ ≤ 0.25 (from less than 0.10 on for levels above 95%; where the range of the rewards is known, this
       is asked of the scores seen): a likelihood interval, which follows the skewness. ``cressie-read`` where the
       ranges of weights and rewards are known and the score is their product (IPW: a model would be lost on it);
       ``empirical-likelihood`` for scores of known range; ``bounded-likelihood`` for rewards of known range;
       else ``cautious-likelihood``.
    4. Fewer than 200 units: ``t``. Otherwise ``normal``.

    Where evidence is insufficient no method here can be expected to cover as stated; the choice says
    so in ``sufficient``, and the method named is then the least bad one.

    Parameters
    ----------
    sample : Sample
        The scores.
    evidence : Evidence, optional
        Weights, rewards and ranges.
    level : float
        Of the interval.

    Returns
    -------
    Choice
        ``(method, reason, sufficient)``.

    Examples
    --------
    >>> from offpolicy.inference.intervals import Sample
    >>> choose(Sample.of_mean([0.0, 1.0], count=[500, 500])).method
    'normal'
    >>> import numpy as np
    >>> rare = Evidence(np.array([0.0, 50.0]), np.array([20.0, 0.0]), np.array([980.0, 20.0]))
    >>> choose(Sample.of_mean([0.0], count=[1000]), rare).method
    'clopper-pearson'
    """
    evidence = (evidence or Evidence()).completed().settled(sample)
    if evidence.constant and not evidence.bounded_rewards:
        return Choice("none", f"{INSUFFICIENT}: {CONSTANT}", sufficient=False)
    if (tail := _unbounded_tail(evidence)) is not None and _would_decide(sample, evidence, tail):
        reason = (
            f"{INSUFFICIENT}: the weights have no known bound and a Pareto tail index of "
            f"{tail:.2f}, so weights larger than any in the log could change the value"
        )
        return Choice(_least_bad(sample), reason, sufficient=False)
    units, (seen, worst) = effective_units(sample, evidence), lumps(sample, evidence)
    carriers = f"about {max(1 / max(worst, 1e-9) ** 2, 1):.2g} large scores carry the estimate"
    why = f"{carriers} (skewness {worst:.2f})"
    if units < FEW_UNITS:
        why = f"only {units:.3g} independent units count"
    if units < FEW_UNITS or worst > LUMPY:
        few = units < FEW_UNITS
        enough = not few and worst <= DOMINATED
        return _exact(sample, evidence, why, few=few) or _likely(sample, why, enough=enough)
    balanced = smooth(level, sample.total)
    # Of rewards of known range the one more unit is the worst that can be met, and not a guess at it.
    known = evidence.bounded_rewards and not _is_thin(sample, evidence)
    far = LUMPY / SMOOTH * balanced if known else balanced
    if seen > balanced or worst > far:
        return _skewed(sample, evidence, why)
    method = "t" if sample.total < MANY_UNITS else "normal"
    return Choice(method, f"{sample.total:,.0f} independent units with balanced scores")


def automatic(sample: Sample, evidence: Evidence | None = None, level: float = 0.95) -> Interval:
    """Interval by the chosen method; its note is the reason, and it says whether that is sufficient.

    Intervals made from weights and rewards alone are widened to hold the estimate where a doubly
    robust one lies outside, which can only raise their coverage. Where rewards have a heavy tail and few of them
    carry the estimate, a level below 95% gets the interval of 95%: what has not been seen of the tail puts the
    estimate on one side of the truth, and how often by how much the log cannot tell.

    >>> from offpolicy.inference.intervals import Sample
    >>> automatic(Sample.of_mean([0.0, 1.0], count=[500, 500])).method
    'normal'
    """
    evidence = (evidence or Evidence()).completed().settled(sample)
    method, reason, sufficient = choose(sample, evidence, level)
    heavy = bool(evidence.heavy) and RULES[method].extrapolates
    interval = RULES[method].make(sample, evidence, max(level, LEAST_OF_HEAVY) if heavy else level)
    return replace(interval, note=reason, sufficient=sufficient, level=level)


class Rule(NamedTuple):
    """How a method that `choose` names is made, and what it declares.

    Attributes
    ----------
    make : callable
        From scores, evidence and level to an interval.
    needs : tuple of {"rewards", "weights"}
        Whose range has to be known.
    of_value : bool
        Whether it is made from weights and rewards, and so about the value of one policy.
    wald : bool
        Whether it is value ± critical value · standard error.
    extrapolates : bool
        Whether it guesses from the scores seen how far others may lie.
    """

    make: Callable[[Sample, Evidence, float], Interval]
    needs: tuple[str, ...] = ()
    of_value: bool = False
    wald: bool = False
    extrapolates: bool = False


def by_name(method: str, sample: Sample, evidence: Evidence | None = None, level: float = 0.95) -> Interval:
    """Interval of a method that `choose` names, from the same inputs.

    >>> from offpolicy.inference.intervals import Sample
    >>> by_name("t", Sample.of_mean([0.0, 1.0, 2.0])).method
    't'
    """
    if method not in RULES:
        raise UsageError(f"No automatic interval method is called {method!r}.")
    return RULES[method].make(sample, (evidence or Evidence()).completed(), level)


def _within_range(sample: Sample, evidence: Evidence, level: float) -> Interval:
    ends, skewness = extremes(sample, evidence), lumps(sample, evidence)[1]
    return bounded_likelihood(sample, level, unseen=ends, skewness=skewness)


def _beyond_seen(sample: Sample, evidence: Evidence, level: float) -> Interval:
    pool = evidence.pool
    return cautious_likelihood(sample, level, unseen=None if pool is None else (pool.low, pool.high))


def _of_scores(sample: Sample, evidence: Evidence, level: float) -> Interval:
    low, high = _given("score_low", evidence.score_low), _given("score_high", evidence.score_high)
    return empirical_bernstein(sample, level, low=low, high=high)


def _from_weights(method: Callable[..., Interval], *, bounded: bool = False) -> Callable[..., Interval]:
    """An interval of E[w r] from weights and rewards alone, widened to hold the estimate."""

    def make(sample: Sample, evidence: Evidence, level: float) -> Interval:
        if evidence.weights is None or evidence.rewards is None:
            raise UsageError(f"{method.__name__.replace('_', '-')!r} needs the weights and rewards of the units.")
        low, high = _given("reward_low", evidence.reward_low), _given("reward_high", evidence.reward_high)
        top = _given("weight_high", evidence.weight_high) if bounded else evidence.weight_high
        ends: dict[str, Any] = {"weight_high": top, "reward_low": low, "reward_high": high}
        made = method(weights=evidence.weights, rewards=evidence.rewards, count=evidence.count, level=level, **ends)
        return holding(made, sample.estimate)

    return make


RULES = {
    "normal": Rule(lambda sample, _, level: normal(sample, level), wald=True),
    "t": Rule(lambda sample, _, level: student(sample, level), wald=True),
    "empirical-likelihood": Rule(
        lambda sample, known, level: empirical_likelihood(sample, level, low=known.score_low, high=known.score_high)
    ),
    "cautious-likelihood": Rule(_beyond_seen, extrapolates=True),
    "bounded-likelihood": Rule(_within_range, ("rewards",)),
    "cressie-read": Rule(_from_weights(cressie_read, bounded=True), ("rewards", "weights"), of_value=True),
    "clopper-pearson": Rule(_from_weights(clopper_pearson), ("rewards",), of_value=True),
    "confidence-sequence": Rule(_from_weights(confidence_sequence), ("rewards",), of_value=True),
    "empirical-bernstein": Rule(_of_scores),
    "none": Rule(lambda _, __, level: Interval(-math.inf, math.inf, level, "none", sufficient=False)),
}


def _unbounded_tail(evidence: Evidence) -> float | None:
    w, count = evidence.weights, evidence.count
    if w is None or evidence.weight_high is not None:
        return None
    tail = tail_index(w, count) if evidence.tail is None else evidence.tail
    return tail if tail > HEAVY_TAIL and tail_is_visible(w, count) else None


def _would_decide(sample: Sample, evidence: Evidence, tail: float) -> bool:
    """Whether the largest weight of a log twice as long, 2^k times that of this one, would decide the estimate.

    That is, move it by more than a standard error and a half, at a reward as far from the mean as rewards are. Where it
    would not, and the range of the rewards is known, what has not been seen of the tail is no reason to refuse.
    """
    if not evidence.bounded_rewards or evidence.weights is None or _is_thin(sample, evidence):
        return True
    largest = (evidence.carried or carried_by(evidence.weights, evidence.count))[0]
    total = float(sample.counts @ sample.denominator) * sample.std_error
    return bool(2.0**tail * largest * weighted_spread(evidence) > DECIDES * total)


def _exact(sample: Sample, evidence: Evidence, why: str, *, few: bool) -> Choice | None:
    """Choose a method that needs no large sample, if the evidence allows one."""
    # Of weights without a known bound, and of products without a model, a likelihood sees too little of what is rare.
    few = few or (evidence.is_value and evidence.is_product) or _is_thin(sample, evidence)
    if evidence.is_value and evidence.binary and (few or evidence.one_weight):
        return Choice("clopper-pearson", f"{why}; rewards are binary")
    ranges = f"{why}; the ranges of weights and rewards are known"
    if evidence.bounded_weights and evidence.units > 1 and few:
        return Choice("cressie-read", ranges)
    if evidence.bounded_rewards and not few and _is_usable(sample):
        return Choice("bounded-likelihood", ranges)
    if evidence.is_value and evidence.bounded_rewards:
        return Choice("confidence-sequence", f"{why}; rewards are bounded")
    if evidence.bounded_scores and sample.is_mean and sample.total > 1:
        return Choice("empirical-bernstein", f"{why}; the scores have a known range")
    return None


def _is_thin(sample: Sample, evidence: Evidence) -> bool:
    """Whether weights have no known bound and leave fewer than 30 units."""
    return evidence.weight_high is None and effective_units(sample, evidence) < UNITS_UNBOUNDED


def _skewed(sample: Sample, evidence: Evidence, why: str) -> Choice:
    if evidence.bounded_weights and evidence.is_product:
        return Choice("cressie-read", f"{why}; the ranges of weights and rewards are known")
    if evidence.bounded_scores and float(sample.denominator.min()) >= 0:
        return Choice("empirical-likelihood", f"{why}; the scores have a known range")
    thin = _is_thin(sample, evidence)
    if evidence.bounded_rewards and not thin and _is_usable(sample):
        return Choice("bounded-likelihood", f"{why}; the ranges of weights and rewards are known")
    return _likely(sample, why, enough=True)


def _likely(sample: Sample, why: str, *, enough: bool) -> Choice:
    if enough and _is_usable(sample):
        return Choice("cautious-likelihood", f"{why}; their range is not known")
    return Choice(_least_bad(sample), f"{INSUFFICIENT}: {why}", sufficient=False)


def _is_usable(sample: Sample) -> bool:
    """Whether a likelihood can be made of it."""
    return sample.total > 1 and float(sample.denominator.min()) >= 0


def _least_bad(sample: Sample) -> str:
    return "cautious-likelihood" if _is_usable(sample) else "normal"


def holding(interval: Interval, value: float) -> Interval:
    """Return the interval, widened to hold ``value``.

    >>> from offpolicy.inference.intervals import Interval
    >>> tuple(holding(Interval(0.1, 0.2, 0.95, "normal"), 0.3))
    (0.1, 0.3)
    """
    return replace(interval, low=min(interval.low, value), high=max(interval.high, value))


def _given(name: str, value: float | None) -> float:
    if value is None:
        raise UsageError(f"This interval needs {name!r}, which was not given.")
    return value
