"""What a policy earns step by step, and what the weights of each step are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation


FEWEST = 20.0


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
        Its standard error; NaN where the weights are worth fewer than 20 episodes, which do not show it.
    effective : array
        Effective number of episodes.
    """

    logged: Floats
    target: Floats
    error: Floats
    effective: Floats

    def plot(self, ax: Any = None) -> Any:
        """Draw both with matplotlib: value by step, and the effective number of episodes below it."""
        return door("plot of steps")(self, ax)


@checks_arguments
def step_curves(ev: Evaluation, policy: str | None = None) -> StepCurves:
    """Value and weights of each step, from the weights of steps.

    Parameters
    ----------
    policy : str, optional
        Which; may be left out when there is one.
    """
    from offpolicy.scores.catalog import named
    from offpolicy.trust.horizon import horizon_curve
    from offpolicy.trust.verdict import policy_name

    log = ev.problem.log
    if log.layout.is_single:
        raise UsageError("step_curves() is for episodes; a bandit log has one step.")
    if log.shows_items:
        raise UsageError("step_curves() is for episodes. Use position_values() for slates.")
    name = policy_name(ev, policy)
    d = ev.problem.decisions(ev.targets[name], named("SNIPW"))
    units, effective = ev.problem.units, horizon_curve(d, ev.problem.units).effective
    logged, target, error = (np.full(d.layout.horizon, np.nan) for _ in range(3))
    for t, present, rows, log_now in d.log_rho_by_step():
        reward = np.zeros(d.n)
        reward[present] = d.gamma[rows] * d.reward[rows]
        logged[t] = units.mean(reward)
        highest = float(log_now.max())
        if np.isneginf(highest):
            continue
        weight = np.exp(log_now - highest)
        weight /= units.mean(weight)
        target[t] = units.mean(weight * reward)
        if effective[t] >= FEWEST:
            error[t] = units.sample(weight * (reward - target[t])).std_error
    return StepCurves(logged, target, error, effective)
