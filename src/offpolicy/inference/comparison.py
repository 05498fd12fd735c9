"""Several policies at once: simultaneous intervals, adjusted p-values, and which of them may be the best.

Scores of all policies are paired on the same units; their joint covariance comes from the standard errors
of differences, cov(a, b) = (se_a² + se_b² − se_{a−b}²)/2, which keeps clusters, weights and repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import NotIdentifiedError
from offpolicy.inference.intervals.multiple import (
    BestPolicy,
    adjusted_p_values,
    best_policy,
    simultaneous,
)
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval


@dataclass(frozen=True)
class Comparison:
    """Policies compared with each other and with the logging policy.

    Attributes
    ----------
    level : float
        Probability with which all intervals of a column hold together.
    values : {policy: Interval}
        Simultaneous intervals of the values.
    differences : {policy: Interval}
        Simultaneous intervals of the differences to the logging policy.
    p_values : {policy: float}
        Two-sided p-values of these differences, adjusted for their number (step-down max-t).
    best : BestPolicy
        Which policies, the logging policy among them, may be the best.
    """

    level: float
    values: dict[str, Interval]
    differences: dict[str, Interval]
    p_values: dict[str, float]
    best: BestPolicy

    def __str__(self) -> str:
        lines = [f"All intervals of a column hold together with probability {self.level:g}."]
        for name, value in self.values.items():
            gap = self.differences[name]
            lines.append(
                f"{name}: value {value.low:.4g} to {value.high:.4g}, difference to the logging policy "
                f"{gap.low:+.3g} to {gap.high:+.3g} (adjusted p = {self.p_values[name]:.2g})"
            )
        return "\n".join([*lines, f"Best: {self.best.statement}."])

    def __repr__(self) -> str:
        return str(self)


def covariance(estimates: Sequence[Estimate]) -> Floats:
    """Joint covariance of estimates on the same units."""
    size = len(estimates)
    out = np.diag([e.std_error**2 for e in estimates])
    for i in range(size):
        for j in range(i):
            gap = (estimates[i] - estimates[j]).std_error ** 2
            out[i, j] = out[j, i] = (out[i, i] + out[j, j] - gap) / 2
    return out


def compare(ev: Evaluation, level: float = 0.95, estimator: str | None = None) -> Comparison:
    """Compare every policy of an evaluation; see `Evaluation.compare`."""
    name = estimator or headline(ev.estimators).name
    chosen = {policy: ev[policy, name] for policy in ev.policies}
    for policy, e in chosen.items():
        if not e.is_defined:
            raise NotIdentifiedError(
                f"policy {policy!r} cannot be compared: {e.notes[-1] if e.notes else 'not identified'}. "
                "Leave it out."
            )
    everyone = [*chosen.values(), ev.logged]
    names = [*chosen, LOGGING_POLICY]
    theta, sigma = np.array([e.value for e in everyone]), covariance(everyone)
    contrast = np.hstack([np.eye(len(chosen)), -np.ones((len(chosen), 1))])
    gaps, spread = contrast @ theta, contrast @ sigma @ contrast.T
    live = np.diag(spread) > 1e-20 * (1 + theta[-1] ** 2)
    p = np.ones(len(chosen))
    if live.any():
        p[live] = adjusted_p_values(gaps[live], spread[np.ix_(live, live)])
    return Comparison(
        level,
        dict(zip(chosen, simultaneous(theta[:-1], sigma[:-1, :-1], level), strict=True)),
        dict(zip(chosen, simultaneous(gaps, spread, level), strict=True)),
        dict(zip(chosen, p.tolist(), strict=True)),
        best_policy(names, theta, sigma, level),
    )
