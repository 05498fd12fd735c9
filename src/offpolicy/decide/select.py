"""`select`: which policy to adopt, if any, with a stated rate of adopting one that is no better.

For each policy the difference to the logging policy has a one-sided lower bound that holds for all policies
together. Policies whose bound is above 0 are shown to be better; of these the one with the highest estimate is adopted
(the promise holds for whichever), and where there is none the logging policy is kept. Where the rules of intervals find
many units with balanced scores behind the difference, the bound is the lower end of its own interval. Elsewhere, with
logged propensities and independent units, it needs no large sample: a bet on w − 1 and r, paired row by row, where r is
the reward scaled by its range (of the logged ones, where none is declared); see `inference.intervals.betting`. Where
propensities are estimated, or units are clusters or carry weights, it is the end of the interval whatever made that.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy._output import write
from offpolicy._visible import printable
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.evaluation.result import Evaluation
from offpolicy.evaluation.shown import Tracked, name_of
from offpolicy.inference.family import adjusted
from offpolicy.inference.figures import signed
from offpolicy.inference.intervals.betting import exceeds_one
from offpolicy.inference.registry import Bet, bounds, declared, is_known, method_named, names
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy._document import Section
    from offpolicy.inference.estimate import Estimate

NOT_ENOUGH = "not enough evidence"
#: What needs no large sample, by default: the tightest of those that are registered.
TIGHTEST = "smoothing"
#: Rate at which correct propensities are taken for wrong ones.
CONTRADICTED = 0.001


@dataclass(frozen=True)
class Candidate:
    """A policy's claim.

    Attributes
    ----------
    policy : str
    difference : float
        Estimated difference to the logging policy.
    bound : float
        What it is at least; of a metric of which less is better, at most. Infinite where the log says nothing.
    method : str
        How the bound came about.
    value, value_bound : float
        Estimate of the policy's own value, and its bound; these hold together for all policies as well.
    """

    policy: str
    difference: float
    bound: float
    method: str
    value: float = math.nan
    value_bound: float = -math.inf

    @property
    def shown(self) -> str:
        """The difference in figures."""
        return signed(self.difference, self.value)

    @property
    def shown_bound(self) -> str:
        """The bound in figures."""
        return signed(self.bound, self.value)


@dataclass(frozen=True)
class Selection:
    """What to adopt.

    Attributes
    ----------
    chosen : str
        Name of the policy, or "logging policy" where none is shown to be better.
    rate : float
        Probability, at most, of adopting a policy that is not better than the logging policy.
    candidates : tuple of Candidate
        All policies, the best bound first.
    minimize : bool
        Whether less is better.
    """

    chosen: str
    rate: float
    candidates: tuple[Candidate, ...]
    minimize: bool = False

    @property
    def keeps_logging(self) -> bool:
        """Whether nothing is adopted."""
        return self.chosen == LOGGING_POLICY

    @property
    def word(self) -> str:
        """What a bound says of a difference."""
        return "at most" if self.minimize else "at least"

    def to_json(self) -> str:
        """The choice and every candidate; what is not finite is null."""
        return write({**asdict(self), "keeps_logging": self.keeps_logging})

    def sections(self) -> list[Section]:
        """The choice in a report."""
        return [door("selection")(self)]

    def tracked(self) -> Tracked:
        """What a tracker is told of the choice."""
        bounds = {f"{name_of(c.policy)}/adoption bound": c.bound for c in self.candidates}
        tags = {"offpolicy.adopted": self.chosen, "offpolicy.adoption_rate": f"{self.rate:g}"}
        return Tracked(bounds, tags, {"selection.txt": str(self)})

    @printable
    def __str__(self) -> str:
        lines = [
            f"{c.policy}: {c.shown} against the current policy, {self._limit(c)}({c.method})" for c in self.candidates
        ]
        said = (
            "Keep the current policy: no other is shown to be better" if self.keeps_logging else f"Adopt {self.chosen}"
        )
        return "\n".join([*lines, f"{said} (wrong adoptions: at most {100 * self.rate:.3g}%)."])

    def _limit(self, c: Candidate) -> str:
        return f"{self.word} {c.shown_bound} " if math.isfinite(c.bound) else ""

    @printable
    def __repr__(self) -> str:
        return str(self)


@checks_arguments
def select(ev: Evaluation, *, rate: float = 0.05, method: str = "auto", estimator: str | None = None) -> Selection:
    """Choose a policy to adopt, or keep the logging policy.

    Parameters
    ----------
    ev : Evaluation
        Of one or more policies; with several metrics, of the one that decides: ``select(ev.metric("revenue"))``.
    rate : float
        Probability, at most, of adopting a policy that earns no more than the logging policy.
    method : {"auto", "smoothing", "exploration", "bernstein", "interval"} or the name of an interval
        "smoothing" (logarithmic smoothing), "exploration" (implicit exploration) and "bernstein" (empirical
        Bernstein) hold at any sample size, for logged propensities and independent units; "bernstein" needs a
        largest possible weight. "interval" takes the lower end of the difference's interval; a name, such as "bca",
        that of the interval of this name. "auto": the interval where many units with balanced scores stand behind
        the difference; else smoothing, the tightest of the three, where they hold.
    estimator : str, optional
        Whose estimates to show, and whose intervals to take; default: the recommended one.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=2000)
    >>> r = (rng.random(2000) < 0.2 + 0.2 * a).astype(float)
    >>> log = op.BanditLog.from_arrays(None, a, r, np.full(2000, 0.5))
    >>> ev = op.evaluate(log, {"one": op.policies.Fixed(1), "zero": op.policies.Fixed(0)})
    >>> op.select(ev).chosen
    'one'
    """
    if not isinstance(ev, Evaluation):
        raise UsageError(
            f"select takes the result of evaluate: op.select(op.evaluate(log, policies)). Got {type(ev).__name__} "
            "instead."
        )
    check_question(rate, method)
    computed = [e.name for e in ev.estimators]
    if estimator is not None and estimator not in computed:
        near = did_you_mean(estimator, computed)
        raise UsageError(f"there is no estimate by {estimator!r}.{near}")
    each = 1 - adjusted(1 - rate, len(ev.policies))
    name = headline(ev.estimators).name if estimator is None else estimator
    found = [_candidate(ev, policy, name, each, method) for policy in ev.policies]
    sign = -1.0 if ev.minimize else 1.0
    ranked = tuple(sorted(found, key=lambda c: -sign * c.bound))
    shown = [c for c in ranked if sign * c.bound > 0]
    chosen = max(shown, key=lambda c: sign * c.difference).policy if shown else LOGGING_POLICY
    return Selection(chosen, rate, ranked, ev.minimize)


def check_question(rate: float, method: str) -> None:
    """Refuse what cannot be asked for, before anything is fitted."""
    if not (isinstance(rate, int | float) and 0 < rate < 1):
        raise UsageError(f"rate= must be between 0 and 1. Got {rate!r} instead.")
    known = ["auto", "interval", *dict.fromkeys([*bounds(), *names()[1:]])]
    if method not in known and not is_known(method):
        raise UsageError(f"method= must be one of {known}.{did_you_mean(method, known)}")


def _candidate(ev: Evaluation, policy: str, estimator: str, rate: float, method: str) -> Candidate:
    e = ev[policy, estimator]
    difference = e - ev.logged
    exact = _is_exact(ev, e)
    by_interval = method in {"auto", "interval"} or method_named(method).bound is None
    if not by_interval and not exact:
        raise UsageError(
            f"method={method!r} needs logged propensities and independent units without weights, which this log "
            "does not have. Leave method= out."
        )
    nothing = math.inf if ev.minimize else -math.inf
    unknown = Candidate(policy, difference.value, nothing, NOT_ENOUGH, e.value, nothing)
    if not e.is_defined:
        return unknown
    if by_interval:
        how = "auto" if method == "interval" else method
        sound = _is_sound(ev, policy, estimator, by_interval=True)
        intervals = [x.interval(1 - 2 * rate, how) for x in (difference, e)]
        # What needs no large sample is for where there is none.
        if method != "auto" or not exact or (sound and declared(intervals[0]).balanced):
            if not sound:
                return unknown
            ends = [(i.high if ev.minimize else i.low) if i.sufficient else nothing for i in intervals]
            return Candidate(policy, difference.value, ends[0], intervals[0].method, e.value, ends[1])
    if not _is_sound(ev, policy, estimator, by_interval=False):
        return unknown
    evidence = e.known()
    sign = -1.0 if ev.minimize else 1.0
    name = TIGHTEST if method == "auto" else method
    bound, how = _bound(evidence, rate, name, sign, less_logged=True)
    worst, _ = _bound(evidence, rate, name, sign, less_logged=False)
    return Candidate(policy, difference.value, sign * bound, how, e.value, sign * worst)


def _is_sound(ev: Evaluation, policy: str, estimator: str, *, by_interval: bool) -> bool:
    """Whether nothing speaks against the bound.

    An exact bound needs no large sample, and what the log does not hold counts as earning the least possible reward;
    that the weights have no mean above 1 is tested by the bound itself, so that too small propensities are found out.
    """
    if by_interval:
        return ev.verdict(policy, estimator).level != "insufficient evidence"
    if any(f.decides and not f.limits.about_reach for f in ev.diagnostics[policy].statistics):
        return False
    evidence = ev[policy, estimator].known()
    if evidence is None or evidence.weights is None:
        return False
    return not exceeds_one(evidence.weights, CONTRADICTED, evidence.count)


def _is_exact(ev: Evaluation, e: Estimate) -> bool:
    """Whether weights are known, not estimated, and units are independent and alike."""
    problem = ev.problem
    return problem.log.unit_kind.decides_once and problem.weights_known and e.known() is not None


def _bound(evidence: Any, rate: float, method: str, sign: float, *, less_logged: bool) -> tuple[float, str]:
    """Lower bound of the difference to the logging policy, or of the value itself, of rewards times the sign."""
    weight, reward, count = evidence.weights, sign * evidence.rewards, evidence.count
    ends = evidence.reward_low, evidence.reward_high
    given = [None if end is None else sign * end for end in ends][:: 1 if sign > 0 else -1]
    low = float(reward.min()) if given[0] is None else given[0]
    high = float(reward.max()) if given[1] is None else given[1]
    scale = high - low
    if scale <= 0:
        return -math.inf if less_logged else low, "all rewards are equal"
    earned = (reward - low) / scale
    chosen = method_named(method)
    assert chosen.bound is not None
    found = chosen.bound(Bet(weight, earned, rate, count, evidence.weight_high, less_logged))
    return (0.0 if less_logged else low) + scale * found, chosen.says
