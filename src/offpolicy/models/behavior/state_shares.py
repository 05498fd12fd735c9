"""Behavior models of trajectories: shares per discrete state, and any model with time as a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from offpolicy.errors import ModelError, UsageError
from offpolicy.models.behavior.behavior import Shares, as_behavior_model

if TYPE_CHECKING:
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
        if self.time not in {"pooled", "step"}:
            raise UsageError(f"time= must be 'pooled' or 'step'. Got {self.time!r} instead.")

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
    time = "step"

    @property
    def wants_encoded(self) -> bool:
        """Whether the model inside reads encoded tables."""
        return bool(getattr(as_behavior_model(self.model), "wants_encoded", False))

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit the model inside."""
        return as_behavior_model(self.model).fit_behavior(data, seed)
