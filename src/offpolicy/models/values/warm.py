"""Warm starts: a learner's own ``warm_start=True``, honored from one step of the recursion to the next."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.fitting.learners import is_learner, weight_argument, with_action
from offpolicy.models.rewards.reward import ActionFeature, FittedReward

if TYPE_CHECKING:
    from offpolicy.models.rewards.reward import RewardData


def warm_model(learner: Any) -> WarmStart | None:
    """A warm-starting model, when the learner asks for one and means the solution, not more trees."""
    if not is_learner(learner):
        return None
    parameters = learner.get_params()
    adds_trees = "n_estimators" in parameters or "max_leaf_nodes" in parameters
    return WarmStart(learner) if parameters.get("warm_start") is True and not adds_trees else None


@dataclass(frozen=True, eq=False)
class WarmStart:
    """One model of (state, action) whose next fit starts at the solution of the one before.

    Parameters
    ----------
    learner : regressor
        With ``warm_start=True``.
    """

    learner: Any

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit from scratch."""
        return ActionFeature(self.learner).fit_reward(data, seed)

    def fit_from(self, data: RewardData, seed: int, previous: FittedReward) -> FittedReward:
        """Fit from the solution of the previous step."""
        if not hasattr(previous, "model"):
            return self.fit_reward(data, seed)
        after = deepcopy(previous)
        X = with_action(data.X, data.action, data.actions, data.action_name, self.learner)
        model = after.model.model
        # A neural net remembers its best loss so far, which was for other targets: without this it would
        # stop at once, or return to the weights of the step before.
        for name, fresh in (("best_loss_", np.inf), ("best_validation_score_", -np.inf)):
            if getattr(model, name, None) is not None:
                setattr(model, name, fresh)
        if hasattr(model, "_no_improvement_count"):
            model._no_improvement_count = 0  # noqa: SLF001
        keywords = {} if data.weight is None else {weight_argument(model): data.weight}
        model.fit(X, data.reward, **keywords)
        return after
