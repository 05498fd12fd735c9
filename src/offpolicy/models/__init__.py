"""Nuisances: the reward or value model q and the behavior policy π_b, fitted out of fold.

What can be passed as ``reward_model=``, ``value_model=``, ``behavior_model=`` and ``ratio_model=`` besides
scikit-learn's estimators. Each name is loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offpolicy.logs.frame import Context as Context
    from offpolicy.models.behavior.behavior import Shares as Shares
    from offpolicy.models.behavior.density import LocationScale as LocationScale
    from offpolicy.models.behavior.episodes import StateShares as StateShares
    from offpolicy.models.behavior.episodes import TimedBehavior as TimedBehavior
    from offpolicy.models.behavior.resolve import SeesTargets as SeesTargets
    from offpolicy.models.rewards.auto import LinearReward as LinearReward
    from offpolicy.models.rewards.auto import SplineReward as SplineReward
    from offpolicy.models.rewards.boosted import BoostedReward as BoostedReward
    from offpolicy.models.rewards.boosted import paper_reward as paper_reward
    from offpolicy.models.rewards.reward import ActionFeature as ActionFeature
    from offpolicy.models.rewards.reward import ConstantReward as ConstantReward
    from offpolicy.models.rewards.reward import PerAction as PerAction
    from offpolicy.models.rewards.reward import RewardData as RewardData
    from offpolicy.models.values.auto_q import AutoQ as AutoQ
    from offpolicy.models.values.balancing import BalancedModel as BalancedModel
    from offpolicy.models.values.fitted_q import FittedQ as FittedQ
    from offpolicy.models.values.marginal import MarginalRatio as MarginalRatio
    from offpolicy.models.values.model_based import ModelBased as ModelBased
    from offpolicy.models.values.tabular import Tabular as Tabular
    from offpolicy.models.values.torch import TorchBehavior as TorchBehavior
    from offpolicy.models.values.torch import TorchValue as TorchValue
    from offpolicy.models.values.torch import Training as Training

_NAMES = {
    "ActionFeature": "offpolicy.models.rewards.reward",
    "AutoQ": "offpolicy.models.values.auto_q",
    "BalancedModel": "offpolicy.models.values.balancing",
    "BoostedReward": "offpolicy.models.rewards.boosted",
    "ConstantReward": "offpolicy.models.rewards.reward",
    "Context": "offpolicy.logs.frame",
    "FittedQ": "offpolicy.models.values.fitted_q",
    "LinearReward": "offpolicy.models.rewards.auto",
    "LocationScale": "offpolicy.models.behavior.density",
    "MarginalRatio": "offpolicy.models.values.marginal",
    "ModelBased": "offpolicy.models.values.model_based",
    "PerAction": "offpolicy.models.rewards.reward",
    "RewardData": "offpolicy.models.rewards.reward",
    "SeesTargets": "offpolicy.models.behavior.resolve",
    "Shares": "offpolicy.models.behavior.behavior",
    "SplineReward": "offpolicy.models.rewards.auto",
    "StateShares": "offpolicy.models.behavior.episodes",
    "Tabular": "offpolicy.models.values.tabular",
    "TimedBehavior": "offpolicy.models.behavior.episodes",
    "TorchBehavior": "offpolicy.models.values.torch",
    "TorchValue": "offpolicy.models.values.torch",
    "Training": "offpolicy.models.values.torch",
    "paper_reward": "offpolicy.models.rewards.boosted",
}

__all__ = [*_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'offpolicy.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_NAMES)
