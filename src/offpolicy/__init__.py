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
    "KernelRatio": "offpolicy.kinds.kernel",
    "Delayed": "offpolicy.kinds.delayed",
    "Labeled": "offpolicy.kinds.labeled",
    "LongTerm": "offpolicy.kinds.long_term",
    "evaluate": "offpolicy.evaluation.evaluate",
    "read_router_log": "offpolicy.logs.formats.jsonl",
    "advise": "offpolicy.decide.advise",
    "learn_policy": "offpolicy.decide.learn",
    "replay": "offpolicy.decide.replay",
    "select": "offpolicy.decide.select",
    "scan": "offpolicy.engines.scan",
    "CoarseRatio": "offpolicy.kinds.cells",
    "Trajectories": "offpolicy.logs.trajectories",
    "Slates": "offpolicy.logs.slates",
    "Tabular": "offpolicy.models.values.tabular",
    "FittedQ": "offpolicy.models.values.fitted_q",
}
_MODULES = {
    "errors": "offpolicy.errors",
    "formats": "offpolicy.logs.formats",
    "learners": "offpolicy.decide.online",
    "models": "offpolicy.models",
    "policies": "offpolicy.policies",
    "testing": "offpolicy.testing",
    "trust": "offpolicy.trust",
}

__all__ = ["__version__", *sorted(_NAMES), *sorted(_MODULES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from offpolicy import errors as errors
    from offpolicy import models as models
    from offpolicy import policies as policies
    from offpolicy import testing as testing
    from offpolicy import trust as trust
    from offpolicy.decide import online as learners  # noqa: F401
    from offpolicy.decide.advise import advise as advise
    from offpolicy.decide.learn import learn_policy as learn_policy
    from offpolicy.decide.replay import replay as replay
    from offpolicy.decide.select import select as select
    from offpolicy.engines.scan import scan as scan
    from offpolicy.evaluation.evaluate import evaluate as evaluate
    from offpolicy.evaluation.result import Evaluation as Evaluation
    from offpolicy.inference.estimate import Estimate as Estimate
    from offpolicy.kinds.cells import CoarseRatio as CoarseRatio
    from offpolicy.kinds.delayed import Delayed as Delayed
    from offpolicy.kinds.kernel import KernelRatio as KernelRatio
    from offpolicy.kinds.labeled import Labeled as Labeled
    from offpolicy.kinds.long_term import LongTerm as LongTerm
    from offpolicy.logs import formats as formats
    from offpolicy.logs.bandit import BanditLog as BanditLog
    from offpolicy.logs.formats.jsonl import read_router_log as read_router_log
    from offpolicy.logs.slates import Slates as Slates
    from offpolicy.logs.trajectories import Trajectories as Trajectories
    from offpolicy.models.values.fitted_q import FittedQ as FittedQ
    from offpolicy.models.values.tabular import Tabular as Tabular
    from offpolicy.scores.catalog import Estimator as Estimator
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

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """By name: functions that use the package travel to other machines."""
        return importlib.import_module, (self.__name__,)


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
