"""What any scikit-learn learner needs around it: cloning, seeding, weights, and its input table.

Only `crossfit` calls `fitted`, through the reward and behavior models; it is the one place where a
learner is cloned and fitted.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError, OffPolicyError, first_rows
from offpolicy.logs.given import plain_numbers
from offpolicy.models.fitting.encode import fit_plain, needs_plain
from offpolicy.policies.asked import failing_row
from offpolicy.policies.distribution import one_hot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats, Ints


PROBABILITY_SUM = 1e-3  # single precision, summed over many classes


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
    if not y.flags.writeable:  # learners may center in place, and the log is not theirs
        y = y.copy()
    keywords = {} if weight is None else {weight_argument(copy): weight}
    categories = reads_categories(copy)
    try:
        if reads_numbers(copy) and needs_plain(X, keeps_categories=categories):
            name = type(learner).__name__
            return fit_plain(X, weight, lambda Z: copy.fit(Z, y, **keywords), name, keeps_categories=categories)
        return copy.fit(X, y, **keywords)
    except OffPolicyError:
        raise
    except Exception as error:
        text = "could not convert" in str(error) or "promote" in str(error)
        remedy = (
            " A pipeline must encode text columns itself: put a ColumnTransformer before the learner. Or pass "
            "the learner alone, and offpolicy encodes its text columns."
            if text
            else ""
        )
        raise ModelError(
            f"{type(learner).__name__} could not be fitted to {len(y):,} rows: {_said(error)}.{remedy}"
        ) from error


def weight_argument(learner: Any) -> str:
    """The name under which the learner (or the last step of its pipeline) takes sample weights."""
    steps = getattr(learner, "steps", None)
    if steps:
        return f"{steps[-1][0]}__{weight_argument(steps[-1][1])}"
    if "sample_weight" not in inspect.signature(learner.fit).parameters:
        raise ModelError(
            f"the log has weights or counts, but {type(learner).__name__}.fit takes no sample_weight. "
            "Use a learner that does, or a log without weights."
        )
    return "sample_weight"


def reads_categories(learner: Any) -> bool:
    """Whether the learner, or a pipeline inside it, can be handed a categorical column.

    Learners of scikit-learn itself read numbers only, but for pipelines (which encode by name) and the
    histogram trees (which read category dtypes); those of other libraries are trusted to know.
    """
    declared = getattr(learner, "reads_categories", None)
    if declared is not None:
        return bool(declared)
    histogram = any(c.startswith("HistGradientBoosting") for c in _of_sklearn(learner))
    return not reads_numbers(learner) or histogram


def reads_numbers(learner: Any) -> bool:
    """Whether text must be encoded for it: a learner of scikit-learn's, with no pipeline inside."""
    parts = [learner, *learner.get_params(deep=True).values()] if is_learner(learner) else [learner]
    if any(hasattr(part, "steps") or hasattr(part, "transformers") for part in parts):
        return False
    return bool(_of_sklearn(learner)) and not is_lightgbm(learner)


def _of_sklearn(learner: Any) -> list[str]:
    """Classes that the learner inherits from scikit-learn's learners."""
    return [
        c.__name__
        for c in type(learner).__mro__
        if c.__module__.startswith("sklearn.") and not c.__module__.startswith(("sklearn.base", "sklearn.utils"))
    ]


def are_numbers(action: Any) -> bool:
    """Whether actions are numbers, and not codes of labels, which are integers."""
    return bool(action.dtype.kind == "f")


def with_action(X: Any, codes: Ints, labels: tuple[Any, ...], name: str, learner: Any) -> Any:
    """The learner's input: context columns plus the action.

    A frame gets one categorical column under the action's own name, or, for learners that read numbers
    only, one 0/1 column per action; an array gets one-hot columns, or, for LightGBM, becomes a frame so
    that the action is a category there too. Actions that are numbers are one column of numbers.
    """
    if are_numbers(codes):
        if hasattr(X, "iloc"):
            frame = learner_input(X, learner).copy(deep=False)
            frame[name] = codes
            return frame
        return np.column_stack([np.asarray(X, dtype=np.float64), codes])
    if hasattr(X, "iloc") or is_lightgbm(learner):
        import pandas as pd

        if hasattr(X, "iloc"):
            frame = learner_input(X, learner).copy(deep=False)
        else:
            frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        if reads_categories(learner):
            frame[name] = pd.Categorical.from_codes(codes, categories=list(labels))
            return frame
        columns = [f"{name}={label}" for label in labels]
        taken = pd.DataFrame(one_hot(codes, len(labels)), columns=columns, index=frame.index, copy=False)
        return pd.concat([frame, taken], axis=1)
    return np.hstack([np.asarray(X, dtype=np.float64), one_hot(codes, len(labels))])


def learner_input(X: Any, learner: Any) -> Any:
    """Context rows in the form the learner reads."""
    return text_as_category(X) if hasattr(X, "iloc") and is_lightgbm(learner) else X


def text_as_category(frame: Any) -> Any:
    """LightGBM reads numbers, booleans and categories: text becomes a category."""
    out = frame.copy(deep=False)
    for column in out.columns:
        dtype = out[column].dtype
        if not hasattr(dtype, "categories") and dtype.kind not in "biuf":
            if dtype.kind == "M":
                # A missing time is the smallest integer to pandas; to a tree it must be missing.
                ticks = out[column].astype("int64").astype("float64")
                out[column] = ticks.where(out[column].notna())
            else:
                out[column] = out[column].astype("category")
    return out


def is_classifier(learner: Any) -> bool:
    """Whether predictions are class probabilities."""
    from sklearn.base import is_classifier as sklearn_says

    return bool(sklearn_says(learner))


@dataclass(frozen=True, eq=False)
class FittedMean:
    """A fitted learner that predicts a mean; ``values`` are the rewards of a classifier's classes."""

    model: Any
    values: Floats | None = None

    def mean(self, X: Any) -> Floats:
        """(m,) E[reward | x]; Σ_c P(c | x) · c for a classifier."""
        if self.values is None:
            return one_each(asked(self.model, "predict", X), _height(X), self.model)
        return np.asarray(class_probabilities(self.model, X) @ self.values, dtype=np.float64)


def _said(error: BaseException) -> str:
    """What an exception says, with its kind where that is not plain from the words."""
    plain = isinstance(error, ValueError | TypeError) and str(error)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def asked(model: Any, method: str, X: Any) -> Any:
    """What a fitted learner answers; its own exceptions say who raised them, and at which row."""
    try:
        return getattr(model, method)(X)
    except OffPolicyError:
        raise
    except Exception as error:
        row = failing_row(lambda rows: getattr(model, method)(_part(X, rows)), np.arange(_height(X)))
        where = f"{_height(X):,} rows together" if row is None else f"row {row:,} of those asked about"
        raise ModelError(f"{type(model).__name__}.{method} failed on {where}: {_said(error)}") from error


def _height(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)  # sparse tables have no length


def _part(X: Any, rows: Ints) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def one_each(values: Any, n: int, model: Any) -> Floats:
    """(n,) finite predictions; anything else is refused."""
    array = plain_numbers(values, f"{type(model).__name__}.predict", ModelError)
    if array.size != n or array.shape[:1] != (n,):
        raise ModelError(
            f"{type(model).__name__}.predict returned shape {array.shape} for {n:,} rows. It must return one number "
            "per row."
        )
    array = array.reshape(n)
    bad = ~np.isfinite(array)
    if bad.any():
        raise ModelError(f"{type(model).__name__}.predict returned {first_rows(bad, array)} that are not finite.")
    return array


def class_probabilities(model: Any, X: Any) -> Floats:
    """(n, C) probabilities of the classes, checked: rows that sum to 1, one column per class."""
    answer = asked(model, "predict_proba", X)
    given = plain_numbers(answer, f"{type(model).__name__}.predict_proba", ModelError)
    name, shape = type(model).__name__, (_height(X), len(model.classes_))
    if given.shape != shape:
        raise ModelError(f"{name}.predict_proba returned shape {given.shape}, but (rows, classes) is {shape}.")
    total = given.sum(axis=1)
    bad = ~np.isfinite(total) | (given < 0).any(axis=1) | (np.abs(total - 1) > PROBABILITY_SUM)
    if bad.any():
        raise ModelError(
            f"{name}.predict_proba returned probabilities that are negative or do not sum to 1: "
            f"{first_rows(bad, total)}. Calibrate or normalize inside the learner."
        )
    return given


def fitted_mean(learner: Any, X: Any, y: Floats, weight: Floats | None, seed: int) -> FittedMean:
    """Fit a regressor to y, or a classifier whose classes are the values of y."""
    if not is_classifier(learner):
        return FittedMean(fitted(learner, X, y, weight, seed))
    classes, codes = np.unique(y, return_inverse=True)
    # scikit-learn takes whole numbers as classes; other rewards are numbered.
    whole = bool((classes == np.floor(classes)).all())
    model = fitted(learner, X, y if whole else codes, weight, seed)
    seen = np.asarray(model.classes_)
    return FittedMean(model, seen.astype(np.float64) if whole else classes[seen.astype(np.int64)])


_LOCK = threading.Lock()
_INSIDE: list[warnings.catch_warnings[None]] = []
_DEPTH = [0]


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings inside the block.

    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("not shown")
    """
    with _LOCK:
        if _DEPTH[0] == 0:
            guard = warnings.catch_warnings()
            guard.__enter__()
            warnings.simplefilter("ignore")
            _INSIDE.append(guard)
        _DEPTH[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _DEPTH[0] -= 1
            if _DEPTH[0] == 0:
                _INSIDE.pop().__exit__(None, None, None)
