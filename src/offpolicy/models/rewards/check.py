"""A public checker for reward models that users write themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy.errors import ModelError, OffPolicyError, first_rows
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData

ROWS = 80
RELATIVE, ABSOLUTE = 1e-6, 1e-8


def check_reward_model(model: Any, context: Any = None) -> None:
    """Check that a learner, or an object with ``fit_reward``, can serve as ``reward_model=``.

    It is fitted to a few made-up rewards and must predict one finite number per row; the same ones when fitted again
    with the same seed, when rows come in another order, and when they are passed in two parts; and it must not
    write into what it is given.

    Parameters
    ----------
    model : scikit-learn learner, or object with ``fit_reward(data, seed)``
    context : (n, p) array or pandas frame, optional
        Rows to try it on; default: eighty rows of two numbers.

    Raises
    ------
    ModelError
        That says what is wrong.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> check_reward_model(LinearRegression())
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)) if context is None else context
    n = len(X)
    action = rng.integers(2, size=n)
    reward = (rng.random(n) < 0.3 + 0.4 * action).astype(np.float64)
    data = RewardData(X, action, reward, None, ("a", "b"), "action")
    kept = [np.array(part, copy=True) for part in (X, action, reward)]
    name = type(model).__name__
    resolved = as_reward_model(model)
    try:
        fits = [resolved.fit_reward(data, 0) for _ in range(2)]
        one, again = (fit.predict(X, action) for fit in fits)
    except OffPolicyError:
        raise
    except Exception as error:  # the user's own code
        raise ModelError(
            f"{name} failed while it was tried on {n} rows with {type(error).__name__}: {error}"
        ) from error
    predicted = _finite(one, n, name)
    _same(predicted, _finite(again, n, name), name, "when fitted again with the same seed")
    order = rng.permutation(n)
    mixed = np.empty_like(predicted)
    mixed[order] = _finite(fits[0].predict(_rows(X, order), action[order]), n, name)
    _same(predicted, mixed, name, "when rows come in another order")
    halves = np.array_split(np.arange(n), 2)
    parts = [fits[0].predict(_rows(X, rows), action[rows]) for rows in halves]
    _same(predicted, np.concatenate(parts), name, "when rows are passed in two parts")
    for before, after in zip(kept, (X, action, reward), strict=True):
        if not np.array_equal(before, np.asarray(after)):
            raise ModelError(f"{name} writes into the rows it is given. Work on a copy.")


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _finite(values: Any, n: int, name: str) -> Any:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ModelError(
            f"{name} predicted shape {array.shape} for {n} rows. Give one number per row."
        )
    bad = ~np.isfinite(array)
    if bad.any():
        raise ModelError(f"{name} predicted {first_rows(bad, array)} that are not finite.")
    return array


def _same(one: Any, other: Any, name: str, when: str) -> None:
    differs = ~np.isclose(one, other, rtol=RELATIVE, atol=ABSOLUTE)
    if differs.any():
        raise ModelError(f"{name} predicts other numbers {when}: {first_rows(differs, other)}.")
