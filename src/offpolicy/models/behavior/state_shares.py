"""Behavior models of trajectories: shares per discrete state, and any model with time as a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.errors import ModelError, UsageError, check_choice
from offpolicy.models.behavior.behavior import Shares
from offpolicy.models.behavior.resolve import fit_inner, inner_wants_encoded

if TYPE_CHECKING:
    from offpolicy._arrays import Ints
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior


@dataclass(frozen=True)
class StateShares:
    """Action shares in each discrete state, with add-one smoothing.

    Raw shares decide too much by themselves where a state was seen a few times: smoothing=0 gives them.
    A state the training fold never saw gets equal shares (smoothed) or the overall ones.

    Parameters
    ----------
    smoothing : float
        Pseudo-steps added to every (state, action).
    time : {"pooled", "step"}
        Whether steps share one policy, or each t has its own.

    Examples
    --------
    >>> StateShares(smoothing=0.5)
    StateShares(smoothing=0.5, time='pooled')
    """

    smoothing: float = 1.0
    time: Literal["pooled", "step"] = "pooled"

    def __post_init__(self) -> None:
        if self.smoothing < 0:
            raise UsageError(f"smoothing= must be at least 0. Got {self.smoothing!r} instead.")
        check_choice("time", self.time, "pooled", "step")

    def groups(self, log: Any, rows: Ints) -> Ints | None:
        """States, at each step where each has its own policy: inside them shares are taken."""
        if log.context.index is None:
            return None
        state = log.context.positions(rows)
        if self.time == "pooled":
            return np.asarray(state)
        return np.asarray(log.layout.step[rows] * log.context.n_table + state)

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Count."""
        if data.batch is None:
            raise ModelError("StateShares() needs trajectories with discrete states.")
        return Shares(self.smoothing).fit_behavior(data, seed)


@dataclass(frozen=True, eq=False)
class TimedBehavior:
    """A behavior model that also sees the step: π_b,t(a | s).

    Parameters
    ----------
    model : classifier or behavior model
        Gets the state's columns and t.
    """

    model: Any
    sees_step = True

    wants_encoded = property(inner_wants_encoded)
    fit_behavior = fit_inner
