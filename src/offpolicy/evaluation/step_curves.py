"""What a policy earns step by step, and what the weights of each step are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation


@dataclass(frozen=True, eq=False)
class StepCurves:
    """Curves over the steps of an episode, (T+1,) each.

    Attributes
    ----------
    logged : array
        Mean discounted reward of the log, episodes that have ended counted with 0.
    target : array
        The same for the target, by weights normalized at each step; NaN where no episode follows it.
    error : array
        Its standard error.
    effective : array
        Effective number of episodes.
    """

    logged: Floats
    target: Floats
    error: Floats
    effective: Floats

    def plot(self, ax: Any = None) -> Any:
        """Draw both with matplotlib: value by step, and the effective number of episodes below it."""
        from offpolicy.report.plots import new_axes

        axes = new_axes(2, "step_curves().plot()") if ax is None else ax
        upper, lower = axes
        steps = np.arange(len(self.logged))
        upper.plot(steps, self.logged, label="logged")
        upper.plot(steps, self.target, label="target")
        upper.fill_between(
            steps, self.target - 1.96 * self.error, self.target + 1.96 * self.error, alpha=0.2
        )
        upper.set_ylabel("reward")
        upper.legend()
        lower.plot(steps, self.effective)
        lower.set_ylabel("effective episodes")
        lower.set_xlabel("step")
        return axes


def step_curves(ev: Evaluation, policy: str | None = None) -> StepCurves:
    """Value and weights of each step, from the weights of steps.

    Parameters
    ----------
    ev : Evaluation
        Of trajectories.
    policy : str, optional
        Which; may be left out when there is one.
    """
    from offpolicy.scores.catalog import named
    from offpolicy.trust.horizon import horizon_curve
    from offpolicy.trust.verdict import policy_name

    log = ev.problem.log
    if log.layout.is_single:
        raise UsageError("step_curves() is for episodes; a bandit log has one step.")
    if log.kind == "slates":
        raise UsageError("step_curves() is for episodes. Use position_values() for slates.")
    name = policy_name(ev, policy)
    d = ev.problem.decisions(ev.targets[name], named("SNIPW"))
    steps, mass = d.layout.horizon, d.mass
    size = float(mass.sum())
    logged, target, error = (np.full(steps, np.nan) for _ in range(3))
    for t, units, rows, log_now in d.log_rho_by_step():
        reward = np.zeros(d.n)
        reward[units] = d.gamma[rows] * d.reward[rows]
        logged[t] = float(mass @ reward) / size
        highest = float(log_now.max())
        if np.isneginf(highest):
            continue
        weight = mass * np.exp(log_now - highest)
        weight = weight / weight.sum()
        target[t] = float(weight @ reward)
        error[t] = float(np.sqrt((weight**2) @ (reward - target[t]) ** 2))
    return StepCurves(logged, target, error, horizon_curve(d, ev.problem.units).effective)
