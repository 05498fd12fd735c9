"""`diagnose`: every check of a log and of the policies evaluated on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.trust import confounding, horizon, models, overlap, stability, weights
from offpolicy.trust.finding import Diagnostics, Finding, Findings
from offpolicy.trust.log_side import log_findings
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy.evaluation.pipeline import Problem
    from offpolicy.inference.estimate import Estimate
    from offpolicy.policies.target import Target


def diagnose(
    problem: Problem,
    targets: Mapping[str, Target],
    estimates: Mapping[tuple[str, str], Estimate] | None = None,
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
    """
    found = {
        name: Findings(_findings(View.of(problem, target), _of(estimates or {}, name)))
        for name, target in targets.items()
    }
    return Diagnostics(Findings(log_findings(problem.log)), found)


def _of(estimates: Mapping[tuple[str, str], Estimate], policy: str) -> dict[str, Estimate]:
    return {name: e for (p, name), e in estimates.items() if p == policy}


def _findings(view: View, estimates: dict[str, Estimate]) -> list[Finding]:
    reach = overlap.of_view(view)
    found = [
        *weights.findings(view, reach),
        overlap.finding(view, reach),
        *models.findings(view),
        stability.drift(view),
        stability.disagreement(estimates),
        stability.clipping(view),
        stability.reward_tail(view),
        confounding.finding(view),
    ]
    if not view.decisions.layout.is_single:
        found += horizon.findings(view)
    return found
