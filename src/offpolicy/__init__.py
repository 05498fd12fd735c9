"""offpolicy: what would another policy have earned?

Debiased off-policy evaluation from logged data, after Narita, Yasui and Yata (RecSys 2021). The names below
are loaded when first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from offpolicy._version import __version__

_NAMES = {
    "BanditLog": "offpolicy.logs.bandit",
    "Estimate": "offpolicy.inference.estimate",
    "Estimator": "offpolicy.scores.catalog",
    "Evaluation": "offpolicy.evaluation.result",
    "KFold": "offpolicy.splits.folds",
    "KernelRatio": "offpolicy.policies.kernel",
    "Labeled": "offpolicy.kinds.labeled",
    "evaluate": "offpolicy.evaluation.evaluate",
    "against": "offpolicy.evaluation.ranking",
    "returns": "offpolicy.evaluation.returns",
    "step_curves": "offpolicy.evaluation.step_curves",
    "position_values": "offpolicy.evaluation.position_values",
    "value_curve": "offpolicy.evaluation.value_curve",
    "from_d3rlpy": "offpolicy.logs.formats.d3rlpy",
    "from_gymnasium": "offpolicy.logs.formats.gymnasium_rollout",
    "from_minari": "offpolicy.logs.formats.minari",
    "from_rllib": "offpolicy.logs.formats.rllib",
    "from_sb3": "offpolicy.logs.formats.sb3",
    "from_transitions": "offpolicy.logs.formats.transitions",
    "read_router_log": "offpolicy.logs.formats.router",
    "roll_out": "offpolicy.logs.formats.gymnasium_rollout",
    "advise": "offpolicy.decide.advise",
    "learn_policy": "offpolicy.decide.learn",
    "PolicyLearner": "offpolicy.decide.search",
    "select": "offpolicy.decide.select",
    "policy_scorer": "offpolicy.evaluation.scorer",
    "scan": "offpolicy.engines.scan",
    "scan_slates": "offpolicy.engines.slate_scan",
    "SparkBoosted": "offpolicy.engines.spark_boosted",
    "PerAction": "offpolicy.models.rewards.reward",
    "CoarseRatio": "offpolicy.policies.coarse",
    "ActionFeature": "offpolicy.models.rewards.reward",
    "BoostedReward": "offpolicy.models.rewards.boosted",
    "paper_reward": "offpolicy.models.rewards.boosted",
    "LocationScale": "offpolicy.models.behavior.density",
    "SplineReward": "offpolicy.models.rewards.spline",
    "SeesTargets": "offpolicy.models.behavior.sees_targets",
    "Shares": "offpolicy.models.behavior.behavior",
    "Trajectories": "offpolicy.logs.trajectories",
    "Slates": "offpolicy.logs.slates",
    "Tabular": "offpolicy.models.values.tabular",
    "AutoQ": "offpolicy.models.values.auto_q",
    "FittedQ": "offpolicy.models.values.fitted_q",
    "ModelBased": "offpolicy.models.values.model_based",
    "TorchValue": "offpolicy.models.values.torch",
    "TorchBehavior": "offpolicy.models.values.torch",
    "Training": "offpolicy.models.values.torch",
    "BalancedModel": "offpolicy.models.values.balancing",
    "MarginalRatio": "offpolicy.models.values.marginal",
    "StateShares": "offpolicy.models.behavior.state_shares",
    "TimedBehavior": "offpolicy.models.behavior.state_shares",
    "check_policy": "offpolicy.policies",
    "check_reward_model": "offpolicy.models.rewards.check",
    "check_score": "offpolicy.scores.check",
}
_MODULES = {
    "errors": "offpolicy.errors",
    "formats": "offpolicy.logs.formats",
    "policies": "offpolicy.policies",
}

__all__ = ["__version__", *sorted(_NAMES), *sorted(_MODULES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from offpolicy import errors as errors
    from offpolicy import policies as policies
    from offpolicy.decide.advise import advise as advise
    from offpolicy.decide.learn import learn_policy as learn_policy
    from offpolicy.decide.search import PolicyLearner as PolicyLearner
    from offpolicy.decide.select import select as select
    from offpolicy.engines.scan import scan as scan
    from offpolicy.engines.slate_scan import scan_slates as scan_slates
    from offpolicy.engines.spark_boosted import SparkBoosted as SparkBoosted
    from offpolicy.evaluation.evaluate import evaluate as evaluate
    from offpolicy.evaluation.position_values import position_values as position_values
    from offpolicy.evaluation.ranking import against as against
    from offpolicy.evaluation.result import Evaluation as Evaluation
    from offpolicy.evaluation.returns import returns as returns
    from offpolicy.evaluation.scorer import policy_scorer as policy_scorer
    from offpolicy.evaluation.step_curves import step_curves as step_curves
    from offpolicy.evaluation.value_curve import value_curve as value_curve
    from offpolicy.inference.estimate import Estimate as Estimate
    from offpolicy.kinds.labeled import Labeled as Labeled
    from offpolicy.logs import formats as formats
    from offpolicy.logs.bandit import BanditLog as BanditLog
    from offpolicy.logs.formats.d3rlpy import from_d3rlpy as from_d3rlpy
    from offpolicy.logs.formats.gymnasium_rollout import from_gymnasium as from_gymnasium
    from offpolicy.logs.formats.gymnasium_rollout import roll_out as roll_out
    from offpolicy.logs.formats.minari import from_minari as from_minari
    from offpolicy.logs.formats.rllib import from_rllib as from_rllib
    from offpolicy.logs.formats.router import read_router_log as read_router_log
    from offpolicy.logs.formats.sb3 import from_sb3 as from_sb3
    from offpolicy.logs.formats.transitions import from_transitions as from_transitions
    from offpolicy.logs.slates import Slates as Slates
    from offpolicy.logs.trajectories import Trajectories as Trajectories
    from offpolicy.models.behavior.behavior import Shares as Shares
    from offpolicy.models.behavior.density import LocationScale as LocationScale
    from offpolicy.models.behavior.sees_targets import SeesTargets as SeesTargets
    from offpolicy.models.behavior.state_shares import StateShares as StateShares
    from offpolicy.models.behavior.state_shares import TimedBehavior as TimedBehavior
    from offpolicy.models.rewards.boosted import BoostedReward as BoostedReward
    from offpolicy.models.rewards.boosted import paper_reward as paper_reward
    from offpolicy.models.rewards.check import check_reward_model as check_reward_model
    from offpolicy.models.rewards.reward import ActionFeature as ActionFeature
    from offpolicy.models.rewards.reward import PerAction as PerAction
    from offpolicy.models.rewards.spline import SplineReward as SplineReward
    from offpolicy.models.values.auto_q import AutoQ as AutoQ
    from offpolicy.models.values.balancing import BalancedModel as BalancedModel
    from offpolicy.models.values.fitted_q import FittedQ as FittedQ
    from offpolicy.models.values.marginal import MarginalRatio as MarginalRatio
    from offpolicy.models.values.model_based import ModelBased as ModelBased
    from offpolicy.models.values.tabular import Tabular as Tabular
    from offpolicy.models.values.torch import TorchBehavior as TorchBehavior
    from offpolicy.models.values.torch import TorchValue as TorchValue
    from offpolicy.models.values.torch import Training as Training
    from offpolicy.policies import check_policy as check_policy
    from offpolicy.policies.coarse import CoarseRatio as CoarseRatio
    from offpolicy.policies.kernel import KernelRatio as KernelRatio
    from offpolicy.scores.catalog import Estimator as Estimator
    from offpolicy.scores.check import check_score as check_score
    from offpolicy.splits.folds import KFold as KFold


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
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'offpolicy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
