"""What a user passes as ``reward_model=``, as a reward model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import ModelError
from offpolicy.models.auto import resolved
from offpolicy.models.behavior.logging_policy import fits_contexts
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.rewards.auto import AutoReward, LinearReward
from offpolicy.models.rewards.boosted import BoostedReward, paper_reward
from offpolicy.models.rewards.corrected import CorrectedReward
from offpolicy.models.rewards.reward import ActionFeature

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.logs.log import Log, Scan
    from offpolicy.models.rewards.reward import RewardModel


#: Reward models in words, the same in Python and on the command line.
REWARD_WORDS: dict[str, Callable[[], Any]] = {
    "auto": AutoReward,
    "linear": LinearReward,
    "lightgbm": BoostedReward,
    "paper": paper_reward,
}


def as_reward_model(spec: Any) -> RewardModel:
    """Resolve ``reward_model=``: None or a word, a learner, or an object with ``fit_reward``."""
    model: RewardModel | None = resolved("reward_model=", "auto" if spec is None else spec, "fit_reward", REWARD_WORDS)
    if model is not None:
        return model
    if is_learner(spec):
        return ActionFeature(spec)
    raise ModelError(
        "reward_model= must be a scikit-learn regressor or classifier, a word such as 'auto' or 'linear', an (n, K) "
        f"array, or an object with fit_reward(data, seed). Got {spec!r} instead."
    )


def beside_behavior(spec: Any, log: Log | Scan, behavior: Any) -> Any:
    """``reward_model=``, whose default is `CorrectedReward` where π_b is fitted to contexts.

    With known propensities a smooth model costs precision only; beside a fitted π_b its errors are a bias.
    """
    return CorrectedReward() if spec is None and fits_contexts(behavior, log) else spec
