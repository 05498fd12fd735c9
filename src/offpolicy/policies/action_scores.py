"""One number per row and action, from a function, a model per action, or a reward model.

A *score* is any of

- a function of the context that returns an (n, K) array in the order of the log's actions;
- a mapping from action label to a fitted scikit-learn model, one per action. A classifier counts
  with its expected class, Σ class · probability, so its classes must be numbers;
- an object with ``predict(context, codes)`` that returns one number per row for the action
  ``codes[row]``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy.errors import PolicyError, UsageError, first_rows
from offpolicy.policies.context import n_rows
from offpolicy.policies.labels import require_actions

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from offpolicy._arrays import Floats

Score: TypeAlias = Any  # what the module's first lines list


def check_score(score: Score, policy: str) -> None:
    """Refuse what is not a score before any row is seen."""
    if isinstance(score, Mapping) or takes_codes(score):
        return
    if hasattr(score, "predict") or not callable(score):
        raise UsageError(
            f"The 'score' parameter of {policy} must be a function of the context that returns an "
            "(n, K) array, a mapping from action to fitted model, or an object with "
            f"predict(context, codes). Got {type(score).__name__} instead."
        )


def takes_codes(score: Score) -> bool:
    """Whether ``score.predict`` has a second parameter called ``codes``.

    The name is looked at because other second parameters exist (``return_std`` of a Gaussian
    process, say), and passing action codes for them would not fail.
    """
    predict = getattr(score, "predict", None)
    if predict is None:
        return False
    try:
        parameters = list(inspect.signature(predict).parameters)
    except (TypeError, ValueError):
        return False
    return parameters[1:2] == ["codes"]


def bind_score(score: Score, actions: tuple[Hashable, ...], policy: str) -> None:
    """Check that a mapping has a model for each of the log's actions and for no other."""
    if isinstance(score, Mapping):
        require_actions(score, actions, policy, every=True)


def score_columns(
    score: Score, context: Any, actions: tuple[Hashable, ...], policy: str
) -> Iterator[Floats]:
    """Yield the (n,) scores of one action after the other."""
    n, K = n_rows(context), len(actions)
    if isinstance(score, Mapping):
        for action in actions:
            name = f"{policy}, model of action {action!r}"
            yield _column(_prediction(score[action], context, name), n, name)
    elif takes_codes(score):
        for code in range(K):
            name = f"{policy}, action {actions[code]!r}"
            yield _column(score.predict(context, np.full(n, code)), n, name)
    else:
        matrix = np.asarray(score(context), dtype=np.float64)
        if matrix.shape != (n, K):
            raise PolicyError(
                f"{policy}: scores must have shape (n, K) = ({n}, {K}), one column per action of "
                f"the log in the log's order. Got {matrix.shape} instead."
            )
        for code in range(K):
            yield _column(matrix[:, code], n, f"{policy}, action {actions[code]!r}")


def score_matrix(score: Score, context: Any, actions: tuple[Hashable, ...], policy: str) -> Floats:
    """Return the (n, K) scores."""
    return np.column_stack(list(score_columns(score, context, actions, policy)))


def _prediction(model: Any, context: Any, name: str) -> Any:
    if not hasattr(model, "predict_proba"):
        return model.predict(context)
    try:
        classes = np.asarray(model.classes_, dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError(
            f"{name}: the classes {list(model.classes_)[:4]} are not numbers, so they have no "
            "expected value. Fit the classifier on numeric rewards."
        ) from None
    return np.asarray(model.predict_proba(context)) @ classes


def _column(values: Any, n: int, name: str) -> Floats:
    out = np.asarray(values, dtype=np.float64)
    if out.shape == (n, 1):
        out = out[:, 0]
    if out.shape != (n,):
        raise PolicyError(f"{name}: expected one score per row, ({n},). Got {out.shape} instead.")
    # −∞ is a common mask of logits and harmless; NaN and +∞ would decide the argmax.
    bad = np.isnan(out) | np.isposinf(out)
    if bad.any():
        raise PolicyError(f"{name}: scores are NaN or infinite in {first_rows(bad, out)}.")
    return out
