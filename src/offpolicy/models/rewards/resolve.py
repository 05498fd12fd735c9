"""What a user passes as ``reward_model=``, as a reward model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import ModelError
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.rewards.auto import AutoReward
from offpolicy.models.rewards.reward import ActionFeature

if TYPE_CHECKING:
    from offpolicy.models.rewards.reward import RewardModel


def as_reward_model(spec: Any) -> RewardModel:
    """Resolve ``reward_model=``: None or "auto", a learner, or an object with ``fit_reward``."""
    if spec is None or (isinstance(spec, str) and spec == "auto"):
        return AutoReward()
    if isinstance(spec, type):
        raise ModelError(
            f"reward_model= is the class {spec.__name__}. Give an instance: {spec.__name__}()."
        )
    if hasattr(spec, "fit_reward"):
        model: RewardModel = spec
        return model
    if is_learner(spec):
        return ActionFeature(spec)
    raise ModelError(
        f"reward_model= must be a scikit-learn regressor or classifier, 'auto', an (n, K) array, or an "
        f"object with fit_reward(data, seed). Got {spec!r} instead."
    )
