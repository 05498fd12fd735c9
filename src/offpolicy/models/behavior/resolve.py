"""What a user passes as ``behavior_model=``, as a behavior model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import ModelError, UsageError
from offpolicy.models.behavior.auto_behavior import AutoBehavior
from offpolicy.models.behavior.behavior import ClassifierBehavior, Shares

if TYPE_CHECKING:
    from offpolicy.models.behavior.behavior import BehaviorData, BehaviorModel, FittedBehavior


def as_behavior_model(spec: Any) -> BehaviorModel:
    """Resolve ``behavior_model=``: "shares", "auto", a classifier or an object with ``fit_behavior``."""
    if isinstance(spec, str):
        if spec == "shares":
            return Shares()
        if spec == "auto":
            return AutoBehavior()
        raise UsageError(f"behavior_model= must be 'shares', 'auto', a classifier or None. Got {spec!r} instead.")
    if isinstance(spec, type):
        raise ModelError(f"behavior_model= is the class {spec.__name__}. Give an instance: {spec.__name__}().")
    if hasattr(spec, "fit_behavior"):
        model: BehaviorModel = spec
        return model
    if hasattr(spec, "predict_proba"):
        return ClassifierBehavior(spec)
    raise ModelError(
        f"behavior_model= must be a classifier with predict_proba, 'shares', 'auto', an (n, K) array or "
        f"None. Got {spec!r} instead."
    )


def inner_model(wrapper: Any) -> BehaviorModel:
    """The model inside one that adds columns to what it reads."""
    return as_behavior_model(wrapper.model)


def inner_wants_encoded(wrapper: Any) -> bool:
    """Whether the model inside reads encoded tables."""
    return bool(getattr(inner_model(wrapper), "wants_encoded", False))


def fit_inner(wrapper: Any, data: BehaviorData, seed: int) -> FittedBehavior:
    """Fit the model inside."""
    return inner_model(wrapper).fit_behavior(data, seed)
