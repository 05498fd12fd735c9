"""The A/B test that would settle whether a policy beats the logging policy, and how large it must be.

A test is proposed where the estimated difference δ̂ stands out from its noise, and an estimate that was picked for
standing out is too large on average: sized for δ̂ itself, the test would have a third of the power it promises
where the log is weak. With z the number of standard errors between δ̂ and 0, and c the number that it had to exceed
(1.96 for one policy at 95%, more for one of several), it is sized for

    δ = δ̂ s/z,    s = z − 2.3 c^1.4 exp((c − z)/1.5) / z,    not below 0.35,

for which the power, averaged over the logs in which the test is proposed, is 0.74 to 0.90 for every true difference
of one standard error or more and every c from 1.3 to 3.5 (0.80 is promised). Where the printed interval is wider than
normal scores would have it, so is the standard error: the distance to its end is 1.96 of them at 95%. Where the
difference may be 0 nothing is known of its size, and the test is that of a change by 10% of the logged value.
A test of more than ten times the units of the log is still the right size, and says that the log hardly tells how
large the difference is; the sentences that propose it say so.

The variance of the new arm is that of the target: v(1 − v) for binary rewards with v the
value that it is sized for, else Σ w (r − v)² / Σ w, or that of the log where nothing can be relied on. Rows count
with their weights, so that a log of kept rows speaks of all impressions; of clusters, which a test would randomize
whole, the variance is that of their sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import special

from offpolicy._visible import printable
from offpolicy.inference.comparison import has_lift
from offpolicy.inference.figures import count, percent, plain, plural_of
from offpolicy.inference.intervals.evidence import two_values
from offpolicy.inference.intervals.rules import NORMAL_QUANTILE
from offpolicy.inference.intervals.wald import trial_for_means
from offpolicy.inference.registry import declared
from offpolicy.logs.kinds import unit_word
from offpolicy.trust.moments import ROUNDING

if TYPE_CHECKING:
    from offpolicy.inference.comparison import Change
    from offpolicy.inference.estimate import Estimate
    from offpolicy.trust.check import Answer

TEST_LEVEL, TEST_POWER = 0.95, 0.8
RELEVANT = 0.1  # relative change worth detecting where the estimate gives none
MOST_LOGS = 10  # logs of the same size as this one up to which a test is one to plan
SELECTION, POWER_OF_BAR, FADES, LEAST = 2.3, 1.4, 1.5, 0.35
MOST = 1e6  # standard errors; more are all the same


@dataclass(frozen=True)
class ABTest:
    """The A/B test that would settle whether a policy beats the logging policy.

    Attributes
    ----------
    total, per_arm : int
        Units needed, half of them in each arm.
    unit : str
        What is counted: impressions, episodes, or clusters by their name.
    difference : float
        Difference of means that the test is sized for.
    assumed : bool
        Whether that is not an estimate but 10% of the logged value.
    estimated : float or None
        The estimate from which the difference was shrunken.
    relative : float or None
        The difference relative to the size of the logged value; None where that may be 0.
    logs : float
        Units of the test for each unit of the log.
    level, power : float
    """

    total: int
    per_arm: int
    unit: str
    difference: float
    level: float = TEST_LEVEL
    power: float = TEST_POWER
    assumed: bool = False
    estimated: float | None = None
    relative: float | None = None
    logs: float = 0.0

    @property
    def is_reasonable(self) -> bool:
        """Whether it is one to plan: of no more than ten times the units of the log."""
        return self.logs <= MOST_LOGS

    @property
    def effect(self) -> str:
        """The change that it would detect, in words: "a gain of 8%", "a drop of 0.02"."""
        word = "gain" if self.difference > 0 else "drop"
        if self.assumed:
            return f"a change of {percent(RELEVANT)}"
        if self.relative is None:
            return f"a {word} of {plain(abs(self.difference))}"
        return f"a {word} of {percent(abs(self.relative))}"

    @property
    def size(self) -> str:
        """How many of what, and where that is many, how many times the log."""
        text = f"{count(self.total, 2)} {self.unit}"
        return text if self.is_reasonable else f"{text}, {count(self.logs, 2)} times this log"

    @printable
    def __str__(self) -> str:
        origin = ""
        if self.assumed:
            origin = f" ({100 * RELEVANT:.0f}% of the logged value)"
        elif self.estimated is not None:
            origin = f" (the estimate, {self.estimated:+.3g}, shrunk to offset selection)"
        many = "" if self.is_reasonable else f", {count(self.logs, 2)} times this log"
        return (
            f"an A/B test of {self.total:,} {self.unit} ({self.per_arm:,} per arm{many}) would detect a difference of "
            f"{self.difference:+.3g}{origin} with {100 * self.power:.0f}% power"
        )


def shrunken(z: float, bar: float = NORMAL_QUANTILE) -> float:
    """What is left of an estimate of z standard errors that was picked for exceeding ``bar`` of them.

    >>> round(shrunken(2.0), 3), round(shrunken(4.0), 3), round(shrunken(20.0), 2)
    (0.35, 3.621, 20.0)
    """
    excess = SELECTION * bar**POWER_OF_BAR * math.exp(min((bar - z) / FADES, 0.0)) / z
    return float(max(z - excess, LEAST))


def ab_test(ev: Answer, estimate: Estimate | None, change: Change | None) -> ABTest | None:
    """Size of the test of a policy against the log; None where no finite test is meant.

    Parameters
    ----------
    ev : Evaluation
    estimate, change : Estimate, Change, optional
        Of the policy, and of its difference to the log; None where they cannot be relied on.
    """
    base = ev.logged.value
    difference, estimated = RELEVANT * abs(base), None
    control = _variance(ev, None, base)
    # What is 0 but for rounding is 0: the same policy, or a tenth of nothing, is no change to look for.
    small = ROUNDING * math.hypot(base, math.sqrt(control))
    if change is not None:
        if not abs(change.estimate.value) > small:
            return None
        if change.sign:
            estimated = change.estimate.value
            z, bar = _standing_out(change)
            difference = estimated * shrunken(z, bar) / z
    if not control > 0 or not small < abs(difference) < math.inf:
        return None
    treated = _variance(ev, estimate, base + difference)
    units, own = ev.problem.units, float(ev.logged.n)
    unit = unit_word(ev.problem.log, plural=True)
    if units.has_clusters:
        unit = plural_of(ev.problem.log.names.cluster)
        own = ev.logged.sample().total
        whole = own * ev.logged.std_error**2
        control, treated = whole, whole * treated / control
    trial = trial_for_means(difference, control, treated, level=TEST_LEVEL, power=TEST_POWER)
    per_arm = rounded_up(max(trial.control, trial.treatment))
    return ABTest(
        2 * per_arm,
        per_arm,
        unit,
        difference,
        assumed=estimated is None,
        estimated=estimated,
        relative=difference / abs(base) if has_lift(ev.logged) else None,
        logs=2 * per_arm / own,
    )


def _standing_out(change: Change) -> tuple[float, float]:
    """Standard errors between a difference and 0, and how many of them its interval asked for.

    Where the difference's own interval, corrected for no other policy, is wider than a normal one, so is the error.
    """
    gap, interval = change.estimate, change.interval
    own = gap.interval(interval.level)
    near, alone = (abs(gap.value - (i.low if gap.value > 0 else i.high)) for i in (interval, own))
    if not min(near, alone, gap.std_error) > 0:
        return MOST, NORMAL_QUANTILE
    error = gap.std_error
    if own.sufficient and not declared(own).balanced:
        error = alone / float(special.ndtri(0.5 + interval.level / 2))
    return min(abs(gap.value) / error, MOST), near / error


def _variance(ev: Answer, estimate: Estimate | None, value: float) -> float:
    """Variance of the reward (return) of one unit of the population, under the target or as logged.

    ``value`` is the mean of binary rewards; others are spread around the one that was estimated, or as logged.
    """
    reward = ev.problem.table.columns[ev.problem.earning]
    ends = two_values(reward)
    if ends is not None:
        return float(max(value - ends[0], 0.0) * max(ends[1] - value, 0.0))
    mass = ev.problem.units.mass
    if estimate is None:
        return float(mass @ (reward - mass @ reward / mass.sum()) ** 2 / mass.sum())
    if estimate.evidence is not None:
        weighted = mass * ev.problem.table.columns[estimate.evidence.weight]
        mass = weighted if float(weighted.sum()) > 0 else mass
    return float(mass @ (reward - estimate.value) ** 2 / mass.sum())


def rounded_up(size: float) -> int:
    """Units of an arm: whole ones, and no more than four digits of a size that none will count.

    >>> rounded_up(1234.1), rounded_up(0.2), rounded_up(123_456_789.0)
    (1235, 1, 123500000)
    """
    if size < 100_000:
        return max(1, math.ceil(size - 1e-9 * size))
    step = int(10 ** (math.floor(math.log10(size)) - 3))
    return math.ceil(size / step - 1e-9) * step
