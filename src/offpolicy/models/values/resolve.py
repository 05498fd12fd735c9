"""What a user passes as ``value_model=``, as a value model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import ModelError
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.values.auto_q import AutoQ
from offpolicy.models.values.fitted_q import FittedQ
from offpolicy.models.values.tabular import Tabular

if TYPE_CHECKING:
    from offpolicy.logs.log import Log
    from offpolicy.models.values.values import ValueModel


def as_value_model(spec: Any, log: Log) -> ValueModel:
    """Resolve ``value_model=``: None, "auto", a learner, or an object with ``fit_values``."""
    if spec is None:
        # With one step per episode this is the bandit's default, number for number.
        if log.kind == "slates":
            return FittedQ()  # what follows a slot depends on its position
        discrete = log.is_discrete and not log.layout.is_single
        return Tabular() if discrete else AutoQ()
    if hasattr(spec, "fit_values"):
        model: ValueModel = spec
        return model
    if isinstance(spec, str) and spec == "auto":
        return AutoQ()
    if is_learner(spec) or hasattr(spec, "fit_reward"):
        return FittedQ(spec)
    raise ModelError(
        "value_model= must be offpolicy.Tabular(), AutoQ(), FittedQ(regressor), ModelBased(…), TorchValue(…), a "
        "scikit-learn regressor, a (steps, K) array, or an object with fit_values(data, seed). "
        f"Got {spec!r} instead."
    )
