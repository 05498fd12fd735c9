"""`diagnose`: every check of a log and of the policies evaluated on it; `check_log`: those that need no policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy._progress import track
from offpolicy.logs.outcome import settle, settled_of
from offpolicy.splits.folds import Plan
from offpolicy.trust import (
    balance,
    confounding,
    copies,
    duplicates,
    horizon,
    leaks,
    marginals,
    mismatch,
    models,
    overlap,
    ratios,
    remainder,
    rewards,
    slots,
    stability,
    weights,
)
from offpolicy.trust.check import CHECKS, Moment, declare
from offpolicy.trust.finding import Diagnostics, Finding, Findings, judged, not_applicable
from offpolicy.trust.moments import furthest, mean_z
from offpolicy.trust.sums import log_sums
from offpolicy.trust.view import LogSide, View, several

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.check import Check, Problem
    from offpolicy.trust.sums import LogSums
    from offpolicy.trust.view import Subject

# The order in which findings are listed.
for _topic in (
    mismatch, balance, leaks, duplicates, weights, overlap, ratios, models, remainder, stability, rewards, confounding,
    horizon, slots, marginals, copies,
):  # fmt: skip
    declare(*_topic.CHECKS)


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
            own = {estimator: e for (policy, estimator), e in (estimates or {}).items() if policy == name}
            view = View.of(problem, target, estimates=own, estimators=estimators, declared=name in learned_elsewhere)
            by_policy[name] = Findings(policy_findings(view))
            advance(note=name)
    return Diagnostics(Findings(log_findings(problem.log, problem.sums("log"))), by_policy)


def check_log(log: Log) -> Diagnostics:
    """Every check that needs no policy.

    Parameters
    ----------
    log : BanditLog or Trajectories

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 500, [0.0, 1.0] * 500, [0.9, 0.1] * 500)
    >>> check_log(log)["sample_ratio_mismatch"].level
    'alarm'
    """
    plan = Plan()
    log = settle(log, lambda: plan.block(log.units), dict.fromkeys(log.metrics), plan.seed)
    return Diagnostics(Findings(log_findings(log, log_sums(log))), {})


def log_findings(log: Log, sums: LogSums, checks: Iterable[Check] | None = None) -> list[Finding]:
    """The findings of checks of a log, from its columns and the sums over its blocks; then those of its outcomes."""
    side, findings = LogSide(log, sums), []
    for check in CHECKS.values() if checks is None else checks:
        if check.log is not None and check.where(side):
            why = why_not(check, side)
            findings.append(not_applicable(check.name, why) if why else check.log(side))
    return findings if checks is not None else [*findings, *(f for own in settled_of(log) for f in own.findings())]


def policy_findings(view: View, checks: Iterable[Check] | None = None) -> list[Finding]:
    """The findings of checks about one policy, and those of the log's outcomes."""
    made = [found(check, view) for check in (list(CHECKS.values()) if checks is None else checks)]
    outcomes = settled_of(view.problem.log) if checks is None else []
    return [*(f for f in made if f is not None), *(f for own in outcomes for f in own.policy_findings(view))]


def found(check: Check, view: View) -> Finding | None:
    """What a check finds about one policy; None where it has nothing to do with it."""
    if (check.policy is None and check.columns is None) or not check.where(view):
        return None
    if why := why_not(check, view):
        return not_applicable(check.name, why)
    return check.policy(view) if check.policy is not None else _of_means(check, view)


def why_not(check: Check, subject: Subject) -> str:
    """Why a check cannot be made; empty where it can."""
    return check.singly if check.singly and several(subject.log) else check.applies(subject)


def _of_means(check: Check, view: View) -> Finding:
    """The column whose mean is furthest from 0, in standard errors."""
    columns = check.columns(view) if check.columns is not None else {}
    if not columns:
        return not_applicable(check.name, "there is nothing to compare.")
    means = [view.over_decisions(np.asarray(g, dtype=np.float64)) for g in columns.values()]
    top = furthest(np.array([mean_z(mean.sample(), 0.0) for mean in means]))
    calm = check.limits.level(top.value) == "ok"
    worst = Moment(list(columns)[top.place], means[top.place].value, top.z, top.value, calm)
    return judged(check.name, worst.value, check.sentence(worst), {"z": worst.z, "of": worst.label})
