"""The verdict: can the estimate of a policy be relied on, why, and what test would settle the question.

- "insufficient evidence": the value is not identified, no interval covers as stated, or a check that
  decides (`offpolicy.trust.CHECKS`) raises an alarm;
- "caution": any other check is not well, or propensities were fitted and nothing more is known of them than that;
- "trust": all is well. Advice (notes) does not count.

A verdict is about the number, not about shipping: even a trusted gain is "worth an A/B test of N users".
The size is that of a two-sided test at 95% with 80% power (`trust.trial`).
"""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from offpolicy._visible import printable, visible
from offpolicy.errors import UnknownNameError, UsageError, did_you_mean
from offpolicy.inference.comparison import Change
from offpolicy.inference.figures import capitalized, level_text
from offpolicy.scores.catalog import headline
from offpolicy.trust.assumption import assumption, bounds_sentence, grounds, of_policy_and_rows
from offpolicy.trust.finding import TONES, Findings, bar
from offpolicy.trust.marginals import softened
from offpolicy.trust.stability import comparable, disagreement
from offpolicy.trust.trial import ABTest, ab_test
from offpolicy.trust.view import View, several

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.check import Answer
    from offpolicy.trust.finding import Finding

VerdictLevel: TypeAlias = Literal["trust", "caution", "insufficient evidence"]

VAGUE = 0.5  # share of the range of what was logged from which on an interval is hardly an answer
DIRECT = "DM is the only estimator here, and its interval ignores the error of its model. Compute DML as well."


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", [visible(reason) for reason in self.reasons])

    @printable
    def __str__(self) -> str:
        lines = [self.level.upper()]
        for reason in self.reasons:
            lines += textwrap.wrap(reason, 100, initial_indent="  - ", subsequent_indent="    ", break_long_words=False)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = f"<b>{html.escape(capitalized(self.level))}</b>"
        return bar(TONES[self.level], head, self.reasons)


def policy_name(ev: Answer, policy: str | None) -> str:
    """Check the name of a policy; may be left out when there is one."""
    if policy is None:
        if len(ev.policies) != 1:
            raise UsageError(f"name the policy. Policies: {ev.policies}.")
        return ev.policies[0]
    if policy not in ev.targets:
        raise UsageError(f"no policy is called {policy!r}.{did_you_mean(policy, ev.policies)}")
    return policy


def speaker(ev: Answer, estimator: str | None) -> Estimator:
    """The estimator that speaks for a policy: the one asked for, else the headline."""
    named = {e.name: e for e in ev.estimators}
    if estimator is None:
        return headline(ev.estimators)
    if estimator not in named:
        raise UnknownNameError(f"no estimate by {estimator!r}.{did_you_mean(estimator, named)}")
    return named[estimator]


def relevant(findings: list[Finding], estimator: Estimator, products: float, looks_back: float = 0.0) -> list[Finding]:
    """Statistics that bear on an estimate: shares of it rest on products and on looking back, the rest on marginals."""
    small = 0.2
    if "marginal" not in estimator.needs:
        return [f for f in findings if not f.limits.about_marginals]
    return [
        softened(f, products + looks_back) if f.limits.about_marginals else f
        for f in findings
        if not (f.limits.about_products and products < small)
        and not (f.limits.about_marginals and products > 1 - small)
    ]


def judge(ev: Answer, policy: str | None = None, estimator: str | None = None, level: float = 0.95) -> Verdict:
    """Verdict on one policy; see `Evaluation.verdict`."""
    name = policy_name(ev, policy)
    chosen = speaker(ev, estimator)
    estimate = ev[name, chosen.name]
    products, looks_back = ev.problem.blend(name, chosen)
    raised = _with_own_disagreement(ev, name, chosen, products + looks_back)
    # Sorting is stable: what decides comes first, then alarms, then cautions.
    findings = sorted(Findings(relevant(raised, chosen, products, looks_back)).worst(), key=lambda f: not f.decides)
    if not estimate.is_defined:
        why = capitalized(estimate.notes[-1] if estimate.notes else "its value cannot be estimated")
        test = ab_test(ev, None, None)
        advice = [f"To find out, {test}."] if test else []
        reasons = [why, *_texts(findings), *advice]
        return Verdict("insufficient evidence", reasons, test, tuple(findings), (why,))
    interval = estimate.interval(level)
    assumed, overturned = grounds(ev, name, level)
    decided = not interval.sufficient or any(f.decides for f in findings) or overturned
    refusal = [] if interval.sufficient else [capitalized(interval.note)]
    change = difference_to_log(ev, name, chosen.name, level)
    modeled = [*([DIRECT] if chosen.is_direct else []), *_vague(ev, interval)]
    test = ab_test(ev, None if decided else estimate, None if decided else change)
    conclusion = _conclusion(ev, name, estimate, interval, change, test, decided=decided)
    return Verdict(
        "insufficient evidence" if decided else "caution" if findings or modeled or assumed else "trust",
        [
            *refusal,
            *(assumed if overturned else ()),
            *_texts(findings),
            *modeled,
            *(() if overturned else assumed),
            *bounds_sentence(ev, name, level),
            *conclusion,
        ],
        test,
        tuple(findings),
        (*refusal, *modeled, *assumed),
    )


def _with_own_disagreement(ev: Answer, policy: str, chosen: Estimator, resting: float) -> list[Finding]:
    """Statistics that were raised, with the disagreement of the estimator that speaks in place of the headline's."""
    name = "estimator_disagreement"
    findings: Findings = ev.diagnostics[policy]
    raised = [f for f in findings.statistics if f.is_raised]
    reference = findings[name].details.get("reference") if name in findings else None
    episodes = several(ev.problem.log)
    if reference is None or (reference == chosen.name and not episodes):
        return raised
    estimates = {e.name: ev[policy, e.name] for e in ev.estimators}
    view = View.of(ev.problem, ev.targets[policy])
    witnesses = comparable(view, ev.estimators, resting)
    if episodes and chosen not in witnesses:
        # Products that are not supported: what is wrong with them is said by the checks of the weights.
        return [f for f in raised if f.name != name]
    # Weights alone are no witness beside a fitted π_b, but where they speak they have to agree with the others.
    own = disagreement(estimates, [*witnesses, *(e for e in (chosen,) if e not in witnesses)], chosen)
    return [*(f for f in raised if f.name != name), *([own] if own.is_raised else ())]


def _vague(ev: Answer, interval: Interval) -> list[str]:
    """A reason where an interval holds most of the values that there can be."""
    earned = ev.problem.table.columns[ev.problem.earning]
    low, high = float(np.min(earned)), float(np.max(earned))
    share = (interval.high - interval.low) / (high - low) if high > low else 0.0
    if not interval.sufficient or share <= VAGUE:
        return []
    said = (
        f"The interval is {100 * share:.0f}% as long as the whole range of what was logged ({low:.4g} to {high:.4g}): "
        "it says hardly anything of the value. Log more, or with more of what the policy does."
    )
    return [said]


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
    ev: Answer,
    policy: str,
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
        f"{estimate.label} is {estimate.value:.4g} ({level_text(interval.level)} interval "
        f"{ends if interval.sufficient else 'refused'}); the logged value is {logged.value:.4g}."
    )
    if estimate.allowance:
        room = f"including {estimate.allowance:.2g} on each side for smoothing bias"
        summary = summary.replace(f"{interval.method});", f"{interval.method}, {room});", 1)
    assumed = " and ".join(part for part in (assumption(ev), of_policy_and_rows(ev, policy)) if part)
    summary = f"{summary[:-1]}; this {assumed}."
    if decided:
        advice = "The log cannot tell whether it is better."
        advice += f" To find out, {test}." if test else ""
        return [summary, advice]
    if change.better(minimize=ev.minimize) > 0 and test is not None:
        plan = f"Worth an A/B test: {str(test).removeprefix('an A/B test of ')}."
        if not test.is_reasonable:
            plan = f"It looks better, but by how much is uncertain: {test}. Log more data before planning one."
        return [summary, plan]
    if change.better(minimize=ev.minimize) < 0:
        worse = "costs more" if ev.minimize else "earns less"
        return [summary, f"It is not worth an A/B test: it {worse} than the current policy."]
    low, high = change.interval
    ends = f"{low:.3g} to {high:.3g}" if change.interval.sufficient else change.interval.reason
    if len(ev.policies) > 1 and change.interval.sufficient:
        ends += f", corrected for {len(ev.policies)} policies"
    advice = f"There may be no difference from the current policy ({ends})"
    return [summary, f"{advice}. To find out, {test}." if test else f"{advice}."]


def difference_to_log(ev: Answer, policy: str, estimator: str, level: float) -> Change:
    """A policy's difference from the current one, by an interval that holds together with those of the others."""
    gap = ev[policy, estimator] - ev.logged
    if len(ev.policies) == 1:
        return Change(gap, gap.interval(level), is_lift=False)
    return Change(gap, ev.compare(level, estimator).differences[policy], is_lift=False)
