"""The verdict: can the estimate of a policy be relied on, why, and what test would settle the question.

- "insufficient evidence": the value is not identified, no interval covers as stated, or a check that
  decides (`offpolicy.trust.THRESHOLDS`) raises an alarm;
- "caution": any other check is not well;
- "trust": none is.

A verdict is about the number, not about shipping: even a trusted gain is "worth an A/B test of N users".
The size is that of a two-sided test at 95% with 80% power to detect the estimated difference.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.change import Change
from offpolicy.inference.figures import capitalized, plural_of
from offpolicy.inference.intervals.power import trial_for_means
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.finding import Finding

VerdictLevel: TypeAlias = Literal["trust", "caution", "insufficient evidence"]

TEST_LEVEL, TEST_POWER = 0.95, 0.8
DIRECT = (
    "The direct method alone speaks here, and its interval leaves out the error of its model: compute "
    "DML as well."
)
RELEVANT = 0.1  # relative change worth detecting where the estimate gives none


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
        Difference of means to detect: the estimated one.
    assumed : bool
        Whether the difference is not the estimated one but 10% of the logged value.
    level, power : float
    """

    total: int
    per_arm: int
    unit: str
    difference: float
    level: float = TEST_LEVEL
    power: float = TEST_POWER
    assumed: bool = False

    def __str__(self) -> str:
        share = f" ({100 * RELEVANT:.0f}% of the logged value)" if self.assumed else ""
        return (
            f"an A/B test of {self.total:,} {self.unit} (half on each policy) would detect a difference of "
            f"{self.difference:+.3g}{share} with {100 * self.power:.0f}% power at level {self.level:g}"
        )


@dataclass(frozen=True)
class Verdict:
    """How far an estimate can be relied on.

    Attributes
    ----------
    level : {"trust", "caution", "insufficient evidence"}
    reasons : list of str
        Plain sentences with numbers, the most serious first.
    test : ABTest or None
        The test that would settle the question; None where no finite one would.
    findings : tuple of Finding
        The checks among the reasons, the most serious first.
    grounds : tuple of str
        The other reasons but for the conclusion: why no interval covers, or what the estimator leaves out.
    """

    level: VerdictLevel
    reasons: list[str]
    test: ABTest | None = None
    findings: tuple[Finding, ...] = ()
    grounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.level.upper()]
        for reason in self.reasons:
            lines += textwrap.wrap(
                reason, 100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False
            )
        return "\n".join(lines)


def policy_name(ev: Evaluation, policy: str | None) -> str:
    """Check the name of a policy; may be left out when there is one."""
    if policy is None:
        if len(ev.policies) != 1:
            raise UsageError(f"name the policy. Policies: {ev.policies}.")
        return ev.policies[0]
    if policy not in ev.targets:
        raise UsageError(f"no policy is called {policy!r}.{did_you_mean(policy, ev.policies)}")
    return policy


def speaker(ev: Evaluation, estimator: str | None) -> Estimator:
    """The estimator that speaks for a policy: the one asked for, else the headline."""
    named = {e.name: e for e in ev.estimators}
    if estimator is None:
        return headline(ev.estimators)
    if estimator not in named:
        raise KeyError(f"no estimate by {estimator!r}.{did_you_mean(estimator, named)}")
    return named[estimator]


def relevant(findings: list[Finding], estimator: Estimator) -> list[Finding]:
    """Findings that bear on an estimate: a ratio of marginals replaces products of ratios."""
    if "marginal" not in estimator.needs:
        return findings
    return [f for f in findings if not f.about_products]


def judge(
    ev: Evaluation, policy: str | None = None, estimator: str | None = None, level: float = 0.95
) -> Verdict:
    """Verdict on one policy; see `Evaluation.verdict`."""
    name = policy_name(ev, policy)
    chosen = speaker(ev, estimator)
    estimate = ev[name, chosen.name]
    findings = relevant(ev.diagnostics[name].worst(), chosen)
    # Sorting is stable: what decides comes first, then alarms, then cautions.
    findings = sorted(findings, key=lambda f: not f.decides)
    if not estimate.is_defined:
        why = capitalized(estimate.notes[-1] if estimate.notes else "its value is not identified")
        test = ab_test(ev, None)
        advice = [f"To find out, {test}."] if test else []
        reasons = [why, *_texts(findings), *advice]
        return Verdict("insufficient evidence", reasons, test, tuple(findings), (why,))
    interval = estimate.interval(level)
    decided = not interval.sufficient or any(f.decides for f in findings)
    refusal = [] if interval.sufficient else [capitalized(interval.note)]
    modeled = [DIRECT] if chosen.is_direct else []
    change = difference_to_log(ev, name, chosen.name, level)
    test = ab_test(ev, None if decided else estimate.value - ev.logged.value)
    conclusion = _conclusion(ev, estimate, interval, change, test, decided=decided)
    return Verdict(
        "insufficient evidence" if decided else "caution" if findings or modeled else "trust",
        [*refusal, *_texts(findings), *modeled, *conclusion],
        test,
        tuple(findings),
        (*refusal, *modeled),
    )


def _texts(findings: list[Finding]) -> list[str]:
    """Sentences of findings, each remedy said once."""
    remedies: set[str] = set()
    texts = []
    for f in findings:
        remedy = "" if f.remedy in remedies else f.remedy
        remedies.add(f.remedy)
        texts.append(capitalized(f"{capitalized(f.sentence)} {remedy}".strip()))
    return texts


def _conclusion(
    ev: Evaluation,
    estimate: Estimate,
    interval: Interval,
    change: Change,
    test: ABTest | None,
    *,
    decided: bool,
) -> list[str]:
    logged = ev.logged
    ends = f"{interval.low:.4g} to {interval.high:.4g}, {interval.method}"
    summary = (
        f"{estimate.label} is {estimate.value:.4g} ({100 * interval.level:.4g}% interval "
        f"{ends if interval.sufficient else 'refused'}); the logged value is {logged.value:.4g}."
    )
    if decided:
        advice = "These data cannot tell whether it is better. "
        advice += f"To find out, {test}." if test else "No test size follows from them."
        return [summary, advice]
    if change.better(minimize=ev.minimize) > 0 and test is not None:
        return [summary, f"Worth an A/B test of {test.total:,} {test.unit}: {test}."]
    if change.better(minimize=ev.minimize) < 0:
        worse = "costs more" if ev.minimize else "earns less"
        return [
            summary,
            f"The log gives no reason to test it: it {worse} than the logging policy.",
        ]
    low, high = change.interval
    ends = f"{low:.3g} to {high:.3g}" if change.interval.sufficient else change.interval.reason
    advice = f"The difference to the logging policy may be 0 ({ends})"
    return [summary, f"{advice}; {test}." if test else f"{advice}."]


def difference_to_log(ev: Evaluation, policy: str, estimator: str, level: float) -> Change:
    """A policy's difference to the log, by an interval that holds together with those of the other policies."""
    gap = ev[policy, estimator] - ev.logged
    if len(ev.policies) == 1:
        return Change(gap, gap.interval(level), is_lift=False)
    return Change(gap, ev.compare(level, estimator).differences[policy], is_lift=False)


def ab_test(ev: Evaluation, difference: float | None) -> ABTest | None:
    """Size of the test of a difference to the logged value; None where no finite test is meant.

    Where the estimate cannot be relied on (``difference`` None), of a change by 10% of the logged value.
    """
    logged = ev.logged
    base, control = logged.value, logged.variance
    assumed = difference is None
    if difference is None:
        difference = RELEVANT * abs(base)
    small = 1e-12 * (1 + abs(base))
    if not math.isfinite(difference) or abs(difference) <= small or not control > 0:
        return None
    treated = _treated_variance(ev, base + difference, control)
    trial = trial_for_means(difference, control, treated, level=TEST_LEVEL, power=TEST_POWER)
    unit, per_row = _unit(ev)
    per_arm = rounded_up(trial.control * per_row)
    return ABTest(2 * per_arm, per_arm, unit, difference, assumed=assumed)


def rounded_up(size: float) -> int:
    """Units of an arm: whole ones, and no more than four digits of a size that none will count.

    >>> rounded_up(1234.1), rounded_up(0.2), rounded_up(123_456_789.0)
    (1235, 1, 123500000)
    """
    if size < 100_000:
        return max(1, math.ceil(size - 1e-9 * size))
    step = int(10 ** (math.floor(math.log10(size)) - 3))
    return math.ceil(size / step - 1e-9) * step


def _treated_variance(ev: Evaluation, value: float, control: float) -> float:
    """Variance of a unit's reward under the target: v(1 − v) for 0/1 rewards, else as logged.

    Weighted second moments would need the very overlap that is in doubt. The logged variance carries
    the design effect of clusters; a rate keeps it.
    """
    log = ev.problem.log
    reward = log.reward
    if not log.layout.is_single or not bool(((reward == 0) | (reward == 1)).all()):
        return control
    rate, base = float(np.clip(value, 0.0, 1.0)), ev.logged.value
    plain = base * (1 - base)
    return control * rate * (1 - rate) / plain if plain > 0 else control


def _unit(ev: Evaluation) -> tuple[str, float]:
    """What an A/B test would randomize, and how many there are to a unit of the log."""
    log, units = ev.problem.log, ev.problem.units
    if units.cluster is not None:
        name = log.names.cluster
        total = units.total()
        return plural_of(name), len(np.unique(units.cluster)) / total
    return ("episodes" if log.kind == "trajectories" else "impressions"), 1.0
