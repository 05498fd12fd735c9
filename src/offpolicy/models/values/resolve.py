"""What a user passes as ``value_model=``, as a value model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import ModelError, did_you_mean
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.values.auto_q import AutoQ
from offpolicy.models.values.fitted_q import FittedQ
from offpolicy.models.values.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.logs.log import Log
    from offpolicy.models.values.values import ValueModel


def _boosted_q() -> FittedQ:
    from lightgbm import LGBMRegressor

    return FittedQ(LGBMRegressor(n_estimators=100, verbosity=-1))


#: Value models in words, the same in Python and on the command line.
VALUE_WORDS: dict[str, Callable[[], Any]] = {"auto": AutoQ, "tabular": Tabular, "fitted-q": _boosted_q}


def as_value_model(spec: Any, log: Log) -> ValueModel:
    """Resolve ``value_model=``: None, "auto", a learner, or an object with ``fit_values``."""
    if spec is None:
        own: ValueModel = log.unit_kind.value_model(log)
        return own
    if hasattr(spec, "fit_values"):
        model: ValueModel = spec
        return model
    if isinstance(spec, str):
        if spec not in VALUE_WORDS:
            raise ModelError(
                f"value_model= as a word is one of {', '.join(map(repr, VALUE_WORDS))}. Got {spec!r}."
                f"{did_you_mean(spec, VALUE_WORDS)}"
            )
        word: ValueModel = VALUE_WORDS[spec]()
        return word
    if is_learner(spec) or hasattr(spec, "fit_reward"):
        return FittedQ(spec)
    raise ModelError(
        "value_model= must be offpolicy.Tabular(), AutoQ(), FittedQ(regressor), ModelBased(…), TorchValue(…), a "
        "scikit-learn regressor, a (steps, K) array, or an object with fit_values(data, seed). "
        f"Got {spec!r} instead."
    )
