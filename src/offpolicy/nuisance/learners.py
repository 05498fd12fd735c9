"""What any scikit-learn learner needs around it: cloning, seeding, weights, and its input table.

Only `crossfit` calls `fitted`, through the reward and behavior models; it is the one place where a
learner is cloned and fitted.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError

if TYPE_CHECKING:
    from offpolicy.arrays import Array, Floats, Ints


def is_learner(value: Any) -> bool:
    """Whether ``value`` follows scikit-learn's estimator contract."""
    return hasattr(value, "fit") and hasattr(value, "get_params")


def is_lightgbm(learner: Any) -> bool:
    """Whether the learner itself (not a pipeline around it) is LightGBM's."""
    return type(learner).__module__.startswith("lightgbm")


def fitted(learner: Any, X: Any, y: Array, weight: Floats | None, seed: int) -> Any:
    """Clone, seed every open ``random_state``, and fit."""
    from sklearn.base import clone

    copy = clone(learner)
    open_seeds = {
        name: seed
        for name, value in copy.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    if open_seeds:
        copy.set_params(**open_seeds)
    keywords = {} if weight is None else {weight_argument(copy): weight}
    try:
        return copy.fit(X, y, **keywords)
    except ValueError as error:
        raise ModelError(f"{type(learner).__name__} could not be fitted: {error}") from error


def weight_argument(learner: Any) -> str:
    """The name under which the learner (or the last step of its pipeline) takes sample weights."""
    steps = getattr(learner, "steps", None)
    if steps:
        return f"{steps[-1][0]}__{weight_argument(steps[-1][1])}"
    if "sample_weight" not in inspect.signature(learner.fit).parameters:
        raise ModelError(
            f"the log carries weights or counts, and {type(learner).__name__}.fit takes no sample_weight. "
            "Use a learner that does, or a log without weights."
        )
    return "sample_weight"


def with_action(X: Any, codes: Ints, labels: tuple[Any, ...], name: str, learner: Any) -> Any:
    """The learner's input: context columns plus the action.

    A frame gets one categorical column under the action's own name; an array gets one-hot columns, or, for
    LightGBM, becomes a frame so that the action is a category there too.
    """
    if hasattr(X, "iloc"):
        import pandas as pd

        frame = text_as_category(X) if is_lightgbm(learner) else X.copy(deep=False)
        frame[name] = pd.Categorical.from_codes(codes, categories=list(labels))
        return frame
    if is_lightgbm(learner):
        import pandas as pd

        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        frame[name] = pd.Categorical.from_codes(codes, categories=list(labels))
        return frame
    one_hot = np.zeros((len(codes), len(labels)))
    one_hot[np.arange(len(codes)), codes] = 1.0
    return np.hstack([np.asarray(X, dtype=np.float64), one_hot])


def text_as_category(frame: Any) -> Any:
    """LightGBM reads numbers, booleans and categories: text becomes a category."""
    out = frame.copy(deep=False)
    for column in out.columns:
        dtype = out[column].dtype
        if not hasattr(dtype, "categories") and dtype.kind not in "biuf":
            out[column] = (
                out[column].astype("int64") if dtype.kind == "M" else out[column].astype("category")
            )
    return out


def class_means(learner: Any, X: Any) -> Floats:
    """E[reward | x] from a classifier: Σ_c P(c | x) · c, whatever the class values."""
    values = np.asarray(learner.classes_, dtype=np.float64)
    return np.asarray(learner.predict_proba(X) @ values, dtype=np.float64)


def is_classifier(learner: Any) -> bool:
    """Whether predictions are class probabilities."""
    from sklearn.base import is_classifier as sklearn_says

    return bool(sklearn_says(learner))


def mean_prediction(learner: Any, X: Any) -> Floats:
    """Predicted mean reward of a fitted classifier or regressor."""
    if is_classifier(learner):
        return class_means(learner, X)
    return np.asarray(learner.predict(X), dtype=np.float64).reshape(len(X))
