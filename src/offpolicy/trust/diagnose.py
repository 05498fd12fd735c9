"""`diagnose`: every check of a log and of the policies evaluated on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy._progress import track
from offpolicy.logs.outcome import settled_of
from offpolicy.trust import (
    clipping,
    coarse,
    confounding,
    copies,
    horizon,
    interaction,
    marginals,
    models,
    overlap,
    smoothing,
    stability,
    weights,
)
from offpolicy.trust.finding import Diagnostics, Finding, Findings
from offpolicy.trust.log_side import log_findings
from offpolicy.trust.own import REGISTERED
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.evaluation.problem import Problem
    from offpolicy.inference.estimate import Estimate
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator


def diagnose(
    problem: Problem,
    targets: Mapping[str, Target],
    estimates: Mapping[tuple[str, str], Estimate] | None = None,
    estimators: Sequence[Estimator] = (),
    learned_elsewhere: Sequence[str] = (),
) -> Diagnostics:
    """Check the log, and each policy's weights, overlap, models and stability.

    Parameters
    ----------
    problem : Problem
        The log with its nuisances; nothing is refitted.
    targets : {name: Target}
        The policies.
    estimates : {(policy, estimator): Estimate}, optional
        Estimates to compare with each other.
    estimators : sequence of Estimator
        What these estimates were made by.
    learned_elsewhere : sequence of str
        Policies that were declared not to be learned from this log.
    """
    by_policy = {}
    with track("checks", len(targets)) as advance:
        for name, target in targets.items():
            own = _of(estimates or {}, name)
            view, declared = View.of(problem, target), name in learned_elsewhere
            findings = [
                *_findings(view, own, estimators),
                copies.finding(view, declared=declared),
                *(check.finding(view) for check in REGISTERED.values()),
            ]
            by_policy[name] = Findings(findings)
            advance(note=name)
    return Diagnostics(Findings(log_findings(problem.log, problem.sums("log"))), by_policy)


def _of(estimates: Mapping[tuple[str, str], Estimate], policy: str) -> dict[str, Estimate]:
    return {name: e for (p, name), e in estimates.items() if p == policy}


def _findings(view: View, estimates: dict[str, Estimate], estimators: Sequence[Estimator]) -> list[Finding]:
    findings = [
        *weights.findings(view),
        overlap.finding(view),
        *coarse.findings(view),
        *models.findings(view),
        stability.drift(view),
        stability.disagreement(estimates, marginals.comparable(view, estimators)),
        clipping.finding(view),
        stability.reward_tail(view),
        confounding.finding(view),
    ]
    findings += [f for own in settled_of(view.problem.log) for f in own.policy_findings(view)]
    window = smoothing.finding(estimates, estimators)
    if window is not None:
        findings += [window, smoothing.break_finding(view)]
    if view.decisions.layout.is_single:
        return findings
    if view.log.kind == "slates":
        return [*findings, *horizon.findings(view), interaction.finding(view)]
    return [*findings, *horizon.findings(view), marginals.finding(view, estimators)]
