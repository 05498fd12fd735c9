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
from offpolicy.inference.intervals.power import trial_for_means
from offpolicy.inference.intervals.rules import INSUFFICIENT

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.trust.finding import Finding

VerdictLevel: TypeAlias = Literal["trust", "caution", "insufficient evidence"]

# Which estimate speaks for a policy, first present first; then whichever was computed first.
HEADLINE = (
    "auto", "DML", "OCV", "DRL", "SNDR-cf", "WDR-cf", "WDR", "SNDR", "SNIPW", "DR-half", "DR-full", "IPW",
)  # fmt: skip
# Findings on products of ratios over an episode, which a ratio of marginals replaces.
PRODUCTS = {
    "mean_weight", "mean_weight_z", "effective_sample_size", "largest_weight_share", "pareto_k", "top_share",
    "top_unit_share", "clipping_sensitivity", "estimator_disagreement", "efficiency_ratio", "reward_tail",
}  # fmt: skip
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
        known = f" ({100 * RELEVANT:.0f}% of the logged value)" if self.assumed else ""
        return (
            f"an A/B test of {self.total:,} {self.unit} (half on each policy) would detect a difference of "
            f"{self.difference:+.3g}{known} with {100 * self.power:.0f}% power at level {self.level:g}"
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
    """

    level: VerdictLevel
    reasons: list[str]
    test: ABTest | None = None

    def __str__(self) -> str:
        lines = [self.level.upper()]
        for reason in self.reasons:
            lines += textwrap.wrap(
                reason, 100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False
            )
        return "\n".join(lines)


def headline(ev: Evaluation, policy: str) -> str:
    """Name of the estimator that speaks for a policy."""
    names = [name for (p, name) in ev.estimates if p == policy]
    return next((n for n in HEADLINE if n in names), names[0])


def policy_name(ev: Evaluation, policy: str | None) -> str:
    """Check the name of a policy; may be left out when there is one."""
    if policy is None:
        if len(ev.policies) != 1:
            raise UsageError(f"name the policy. Policies: {ev.policies}.")
        return ev.policies[0]
    if policy not in ev.targets:
        raise UsageError(f"no policy is called {policy!r}.{did_you_mean(policy, ev.policies)}")
    return policy


def is_direct(ev: Evaluation, policy: str, estimator: str | None) -> bool:
    """Whether the estimate rests on its model alone."""
    name = estimator or headline(ev, policy)
    return any(e.name == name and not e.needs & {"behavior", "marginal"} for e in ev.estimators)


def _relevant(ev: Evaluation, policy: str, estimator: str | None) -> list[Finding]:
    """Findings that are not well; those on products of ratios only where the estimate uses products."""
    name = estimator or headline(ev, policy)
    marginal = any(e.name == name and "marginal" in e.needs for e in ev.estimators)
    found: list[Finding] = ev.diagnostics[policy].worst()
    return [f for f in found if not (marginal and f.name in PRODUCTS)]


def judge(
    ev: Evaluation, policy: str | None = None, estimator: str | None = None, level: float = 0.95
) -> Verdict:
    """Verdict on one policy; see `Evaluation.verdict`."""
    name = policy_name(ev, policy)
    estimate = ev[name, estimator or headline(ev, name)]
    findings = _relevant(ev, name, estimator)
    if not estimate.is_defined:
        why = estimate.notes[-1] if estimate.notes else "its value is not identified"
        test = ab_test(ev, None)
        advice = [f"To find out, {test}."] if test else []
        return Verdict("insufficient evidence", [_sentence(why), *_texts(findings), *advice], test)
    interval = estimate.interval(level)
    # Sorting is stable: what decides comes first, then alarms, then cautions.
    findings = sorted(findings, key=lambda f: not f.decides)
    refused = interval.note.startswith(INSUFFICIENT)
    decided = refused or any(f.decides for f in findings)
    modeled = is_direct(ev, name, estimator)
    doubtful = bool(findings) or modeled
    said: VerdictLevel = "insufficient evidence" if decided else "caution" if doubtful else "trust"
    reasons = [_sentence(interval.note)] if refused else []
    reasons += _texts(findings)
    reasons += [DIRECT] if modeled else []
    test = ab_test(ev, None if decided else estimate.value - ev.logged.value)
    reasons += _conclusion(ev, estimate, interval, test, decided=decided)
    return Verdict(said, reasons, test)


def _texts(findings: list[Finding]) -> list[str]:
    """Sentences of findings, each remedy said once."""
    said: set[str] = set()
    texts = []
    for f in findings:
        remedy = "" if f.remedy in said else f.remedy
        said.add(f.remedy)
        texts.append(_sentence(f"{_sentence(f.sentence)} {remedy}".strip()))
    return texts


def _sentence(text: str) -> str:
    text = text if text.startswith("π") else text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _conclusion(
    ev: Evaluation,
    estimate: Estimate,
    interval: Interval,
    test: ABTest | None,
    *,
    decided: bool,
) -> list[str]:
    logged = ev.logged
    said = (
        f"{estimate.label} is {estimate.value:.4g} ({100 * interval.level:.4g}% interval "
        f"{interval.low:.4g} to {interval.high:.4g}, {interval.method}); "
        f"the logged value is {logged.value:.4g}."
    )
    if decided:
        advice = "These data cannot tell whether it is better. "
        advice += f"To find out, {test}." if test else "No test size follows from them."
        return [said, advice]
    change = (estimate - logged).interval(interval.level)
    if change.low > 0 and test is not None:
        return [said, f"Worth an A/B test of {test.total:,} {test.unit}: {test}."]
    if change.high < 0:
        return [said, "The log gives no reason to test it: it earns less than the logging policy."]
    advice = (
        f"The difference to the logging policy may be 0 ({change.low:.3g} to {change.high:.3g})"
    )
    return [said, f"{advice}; {test}." if test else f"{advice}."]


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
    per_arm = max(1, math.ceil(trial.control * per_row))
    return ABTest(2 * per_arm, per_arm, unit, difference, assumed=assumed)


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
        return f"clusters ({name})", len(np.unique(units.cluster)) / total
    return ("episodes" if log.kind == "trajectories" else "impressions"), 1.0
