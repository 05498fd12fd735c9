"""offpolicy: what would another policy have earned?

Debiased off-policy evaluation from logged data, after Narita, Yasui and Yata (RecSys 2021). The names below
are loaded when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "BanditLog": "offpolicy.data.bandit",
    "Estimate": "offpolicy.inference",
    "Estimator": "offpolicy.estimators",
    "Evaluation": "offpolicy.evaluation",
    "KFold": "offpolicy.folds",
    "evaluate": "offpolicy.evaluate",
    "scan": "offpolicy.engines.scan",
    "SparkBoosted": "offpolicy.engines.spark_boosted",
    "PerAction": "offpolicy.nuisance.reward",
    "ActionFeature": "offpolicy.nuisance.reward",
    "BoostedReward": "offpolicy.nuisance.boosted",
    "paper_reward": "offpolicy.nuisance.boosted",
    "SeesTargets": "offpolicy.nuisance.sees_targets",
    "Shares": "offpolicy.nuisance.behavior",
    "Trajectories": "offpolicy.data.trajectories",
    "Tabular": "offpolicy.nuisance.tabular",
    "FittedQ": "offpolicy.nuisance.fitted_q",
    "ModelBased": "offpolicy.nuisance.model_based",
    "TorchValue": "offpolicy.nuisance.torch",
    "TorchBehavior": "offpolicy.nuisance.torch",
    "Training": "offpolicy.nuisance.torch",
    "BalancedModel": "offpolicy.nuisance.balancing",
    "MarginalRatio": "offpolicy.nuisance.marginal",
    "StateShares": "offpolicy.nuisance.state_shares",
    "TimedBehavior": "offpolicy.nuisance.state_shares",
    "check_policy": "offpolicy.policies",
}
_MODULES = {"policies", "errors"}

__all__ = ["__version__", *sorted(_NAMES), *sorted(_MODULES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from offpolicy import errors as errors
    from offpolicy import policies as policies
    from offpolicy.data.bandit import BanditLog as BanditLog
    from offpolicy.data.trajectories import Trajectories as Trajectories
    from offpolicy.engines.scan import scan as scan
    from offpolicy.engines.spark_boosted import SparkBoosted as SparkBoosted
    from offpolicy.estimators import Estimator as Estimator
    from offpolicy.evaluate import evaluate as evaluate
    from offpolicy.evaluation import Evaluation as Evaluation
    from offpolicy.folds import KFold as KFold
    from offpolicy.inference import Estimate as Estimate
    from offpolicy.nuisance.balancing import BalancedModel as BalancedModel
    from offpolicy.nuisance.behavior import Shares as Shares
    from offpolicy.nuisance.boosted import BoostedReward as BoostedReward
    from offpolicy.nuisance.boosted import paper_reward as paper_reward
    from offpolicy.nuisance.fitted_q import FittedQ as FittedQ
    from offpolicy.nuisance.marginal import MarginalRatio as MarginalRatio
    from offpolicy.nuisance.model_based import ModelBased as ModelBased
    from offpolicy.nuisance.reward import ActionFeature as ActionFeature
    from offpolicy.nuisance.reward import PerAction as PerAction
    from offpolicy.nuisance.sees_targets import SeesTargets as SeesTargets
    from offpolicy.nuisance.state_shares import StateShares as StateShares
    from offpolicy.nuisance.state_shares import TimedBehavior as TimedBehavior
    from offpolicy.nuisance.tabular import Tabular as Tabular
    from offpolicy.nuisance.torch import TorchBehavior as TorchBehavior
    from offpolicy.nuisance.torch import TorchValue as TorchValue
    from offpolicy.nuisance.torch import Training as Training
    from offpolicy.policies import check_policy as check_policy


class _Package(ModuleType):
    """Keeps `offpolicy.evaluate` the function.

    Importing the submodule of the same name, which anything inside may do, would otherwise put the
    module in its place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _NAMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"offpolicy.{name}")
    raise AttributeError(f"module 'offpolicy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
