"""Policies against a base and against each other: changes, intervals that hold together, which may be the best.

Against a base the change is a lift, (value − base)/|base|: positive where the value is larger, whatever the sign of the
base (costs of −1.5 against −2.0 are +25%). Where its interval holds 0, or is refused, a ratio to it says nothing:
the lift is undefined, and the difference is shown. It is shown for negative bases too, whose percentages mislead.

Values, differences to the logging policy and lifts over it are a `family` each. "k is worse than the leader" is
claimed at a level that holds for all pairs together, however the leader was picked; the leader's interval, being
one of a family, is corrected for having been chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy._visible import printable
from offpolicy.errors import NotIdentifiedError
from offpolicy.inference.confidence import no_base
from offpolicy.inference.family import BestPolicy, adjusted, covariance, largest_gap, together, units
from offpolicy.inference.intervals.rules import MANY_UNITS, of_few
from offpolicy.inference.registry import declared
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.scores.catalog import Estimator


MOST_PAIRED = 10  # policies of which any two are compared
MOST_SHOWN = 6  # differences of two policies that are printed


class Evaluated(Protocol):
    """What a comparison needs of an evaluation: estimates by policy and estimator, and the logged value."""

    @property
    def estimators(self) -> list[Estimator]:
        """Estimators that were computed."""
        ...

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        ...

    @property
    def logged(self) -> Estimate:
        """The logging policy's own value."""
        ...

    @property
    def minimize(self) -> bool:
        """Whether less is better."""
        ...

    def __getitem__(self, key: Any) -> Estimate:
        """The estimate of a policy by an estimator."""
        ...


@dataclass(frozen=True)
class Comparison:
    """Policies compared with each other and with the logging policy.

    Attributes
    ----------
    level : float
        Probability with which all intervals of a column hold together.
    values : {policy: Interval}
        Simultaneous intervals of the values; that of ``best.leader`` holds although it was chosen.
    differences : {policy: Interval}
        Simultaneous intervals of the differences to the logging policy.
    p_values : {policy: float}
        Two-sided p-values of the differences, adjusted for their number; NaN where the interval is refused.
    best : BestPolicy
        Which policies, the logging policy among them, may be the best: the highest, or the lowest where lower is
        better.
    changes : {policy: Estimate}
        Lifts over the logged value; empty where that may be 0.
    gaps : {(policy, policy): Estimate}
        Differences of any two policies, the better one first; of more than ten policies those to the leader only.
    """

    level: float
    values: dict[str, Interval]
    differences: dict[str, Interval]
    p_values: dict[str, float]
    best: BestPolicy
    changes: dict[str, Estimate] = field(default_factory=dict, repr=False)
    gaps: dict[tuple[str, str], Estimate] = field(default_factory=dict, repr=False)

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Interval]:
        """Simultaneous intervals of the differences of any two policies, the better one first."""
        made = together(list(self.gaps.values()), self.level).intervals if self.gaps else ()
        return dict(zip(self.gaps, made, strict=True))

    @cached_property
    def lifts(self) -> dict[str, Interval]:
        """Simultaneous intervals of the differences relative to the size of the logged value.

        Empty where that may be 0.
        """
        made = together(list(self.changes.values()), self.level).intervals if self.changes else ()
        return dict(zip(self.changes, made, strict=True))

    @printable
    def __str__(self) -> str:
        lines = [f"All intervals of a column hold at once with {100 * self.level:.10g}% probability."]
        for name, value in self.values.items():
            gap = self.differences[name]
            p = self.p_values[name]
            tail = "" if math.isnan(p) else f" (adjusted p = {p:.2g})"
            lines.append(
                f"{name}: value {_words(value, '.4g')}, difference from the current policy {_words(gap, '+.3g')}{tail}"
            )
        for (one, two), interval in self.pairs.items() if len(self.pairs) <= MOST_SHOWN else ():
            apart = self.gaps[one, two].value
            lines.append(f"{one} against {two}: {apart:+.3g}, {_words(interval, '+.3g')}")
        return "\n".join([*lines, self.best.statement])

    @printable
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from offpolicy.inference.figures import comparison_html

        return comparison_html(self)

    def change(self, ev: Evaluated, policy: str, estimator: str) -> Change:
        """A policy against the log, by intervals that hold together with those of the other policies."""
        e, base = ev[policy, estimator], ev.logged
        if policy in self.lifts and base.value > 0:
            return Change(e.lift(base), self.lifts[policy], is_lift=True)
        return Change(e - base, self.differences[policy], is_lift=False)


def _words(interval: Interval, digits: str) -> str:
    if not interval.sufficient:
        return f"refused ({interval.reason})"
    return f"{interval.low:{digits}} to {interval.high:{digits}}"


def compare(ev: Evaluated, level: float = 0.95, estimator: str | None = None) -> Comparison:
    """Compare every policy of an evaluation; see `Evaluation.compare`."""
    name = estimator or headline(ev.estimators).name
    chosen = {policy: ev[policy, name] for policy in ev.policies}
    if not any(e.is_defined for e in chosen.values()):
        policy, e = next(iter(chosen.items()))
        raise NotIdentifiedError(
            f"policy {policy!r} cannot be compared: {e.notes[-1] if e.notes else 'no estimate'}. Leave it out."
        )
    values = together(list(chosen.values()), level)
    differences = together([e - ev.logged for e in chosen.values()], level, tested=True)
    lifts = {}
    if has_lift(ev.logged, level):
        lifts = {p: e.lift(ev.logged) for p, e in chosen.items() if e.is_defined}
    judged = {p: chosen[p] for p, i in zip(chosen, values.intervals, strict=True) if i.sufficient}
    if ev.logged.interval(level).sufficient:
        judged[LOGGING_POLICY] = ev.logged
    unjudged = tuple(p for p in (*chosen, LOGGING_POLICY) if p not in judged)
    return Comparison(
        level,
        dict(zip(chosen, values.intervals, strict=True)),
        dict(zip(chosen, differences.intervals, strict=True)),
        dict(zip(chosen, differences.p_values, strict=True)),
        best(judged, unjudged, level, minimize=ev.minimize),
        lifts,
        _gaps({p: e for p, e in chosen.items() if e.is_defined}, minimize=ev.minimize),
    )


def _gaps(chosen: dict[str, Estimate], *, minimize: bool) -> dict[tuple[str, str], Estimate]:
    """Differences of any two policies, the better one first; of many policies those to the best one."""
    ranked = sorted(chosen, key=lambda p: chosen[p].value, reverse=not minimize)
    firsts = ranked if len(ranked) <= MOST_PAIRED else ranked[:1]
    return {(one, two): chosen[one] - chosen[two] for i, one in enumerate(firsts) for two in ranked[i + 1 :]}


def best(judged: dict[str, Estimate], unjudged: tuple[str, ...], level: float, *, minimize: bool = False) -> BestPolicy:
    """Policies that the one with the best estimate does not beat; it holds the best one at ``level``.

    Each pair is judged at a level that holds for all pairs together.
    """
    if not judged:
        return BestPolicy((), "", level, math.nan, unjudged)
    sign = -1.0 if minimize else 1.0
    leader = max(judged, key=lambda n: sign * judged[n].value)
    others = [n for n in judged if n != leader]
    if not others:
        return BestPolicy((leader,), leader, level, math.inf, unjudged)
    leads = _advantages(judged, leader, level, minimize=minimize)
    unbeaten = [n for n in judged if n == leader or not leads[n] > 0]
    return BestPolicy(tuple(unbeaten), leader, level, min(leads.values()), unjudged)


def _advantages(judged: dict[str, Estimate], leader: str, level: float, *, minimize: bool) -> dict[str, float]:
    """Lower limit of the leader's advantage over each of the others, all pairs together.

    Of those within a standard error of the leader only that it is negative is said.
    """
    number = len(judged)
    each = adjusted(level, number * (number - 1) // 2)
    sign = -1.0 if minimize else 1.0
    gaps = {n: judged[leader] - e for n, e in judged.items() if n != leader}
    # What is within a standard error is beaten by no rule: its interval is not looked for.
    near = {n for n, gap in gaps.items() if sign * gap.value <= gap.std_error}
    own = {n: gap.interval(each) for n, gap in gaps.items() if n not in near}

    def lead(n: str) -> float:
        if n in near:
            return sign * gaps[n].value - 2 * gaps[n].std_error
        if not own[n].sufficient:
            return -math.inf
        return -own[n].high if minimize else own[n].low

    leads = {n: lead(n) for n in gaps}
    plentiful = all(declared(i).balanced for i in own.values())
    if number < 3 or not own or not plentiful:
        return leads
    size = units(list(judged.values()))
    few = size < MANY_UNITS
    maxima = largest_gap(covariance(list(judged.values())), degrees=size - 1 if few else None)
    factor = float(np.quantile(maxima, level)) * of_few(size)
    limits = {n: sign * gaps[n].value - factor * gaps[n].score_error - gaps[n].allowance for n in own}
    return leads | {n: max(leads[n], limit) for n, limit in limits.items()}


@dataclass(frozen=True, eq=False)
class Change:
    """A lift or a difference with its interval.

    Attributes
    ----------
    estimate : Estimate
    interval : Interval
    is_lift : bool
        Whether the change is relative to the base.
    """

    estimate: Estimate
    interval: Interval
    is_lift: bool

    @property
    def sign(self) -> int:
        """1 or −1 where the interval is wholly above or below 0, else 0; 0 where it is refused."""
        if not self.interval.sufficient:
            return 0
        return 1 if self.interval.low > 0 else -1 if self.interval.high < 0 else 0

    def better(self, *, minimize: bool = False) -> int:
        """1 where the change is for the better, −1 where it is for the worse, 0 where it may be none."""
        return -self.sign if minimize else self.sign


def has_lift(base: Estimate, level: float = 0.95) -> bool:
    """Whether a ratio to ``base`` means something: its interval does not hold 0.

    >>> from offpolicy.inference.estimate import Estimate
    >>> bases = [2.0, 1.0] * 50, [-2.0, -1.0] * 50, [-2.0, 2.0] * 50
    >>> [has_lift(Estimate.from_scores(b)) for b in bases]
    [True, True, False]
    """
    return base.is_defined and no_base(base, level) is None


def lift(e: Estimate, base: Estimate, level: float = 0.95) -> Change | None:
    """The relative change of an estimate against a base; None where it means nothing."""
    if not e.is_defined or not has_lift(base, level):
        return None
    change = e.lift(base)
    return Change(change, change.interval(level), is_lift=True)


def change(e: Estimate, base: Estimate, level: float = 0.95) -> Change:
    """The lift where there is one over a positive base, else the difference."""
    relative = lift(e, base, level)
    if relative is not None and base.value > 0:
        return relative
    difference = e - base
    return Change(difference, difference.interval(level), is_lift=False)
