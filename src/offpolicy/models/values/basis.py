"""Linear regression on a state and its products: the cheap model of values and of ratios of marginals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.models.values.values import ValueData

MOST_PRODUCTS = 24
PENALTY = 1e-3


def state_matrix(data: ValueData) -> Floats:
    """(n_table, d) states as numbers, in units of their spread over the training steps."""
    table = np.asarray(data.numbers, dtype=np.float64)
    table = table.reshape(len(table), -1)
    used = table[data.log.context.positions(data.rows)]
    center, spread = used.mean(axis=0), used.std(axis=0)
    return np.asarray((table - center) / np.where(spread > 0, spread, 1.0))


def products(states: Floats, *, quadratic: bool = True) -> Floats:
    """(n, p) 1, the state, and (where there are at most 24 columns) all products of two of its entries.

    >>> products(np.array([[2.0, 3.0]])).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    n, d = states.shape
    parts = [np.ones((n, 1)), states]
    if quadratic and d <= MOST_PRODUCTS:
        i, j = np.triu_indices(d)
        parts.append(states[:, i] * states[:, j])
    return np.hstack(parts)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The features of every state of a log."""

    matrix: Floats

    @classmethod
    def of(cls, data: ValueData, *, quadratic: bool = True) -> Quadratic:
        """Scaled by the training steps."""
        return cls(products(state_matrix(data), quadratic=quadratic))


@dataclass(frozen=True, eq=False)
class Ridge:
    """Coefficients of a ridge regression whose penalty is small beside the data's weight."""

    coefficients: Floats

    @classmethod
    def fit(cls, X: Floats, y: Floats, weight: Floats | None = None) -> Ridge:
        """Least squares with a penalty that grows with the number of columns, none on the first."""
        return cls(solver(X, weight)(y))

    def predict(self, X: Any) -> Floats:
        """Fitted values."""
        return np.asarray(X @ self.coefficients)


def solver(X: Floats, weight: Floats | None = None) -> Any:
    """The map y ↦ coefficients of one design, for regressions with many outcomes."""
    weighted = X if weight is None else X * weight[:, None]
    gram = weighted.T @ X
    size = float(len(X) if weight is None else weight.sum())
    penalty = np.full(X.shape[1], PENALTY * size + 1e-9)
    penalty[0] = 1e-12 * size
    inverse = np.linalg.pinv(gram + np.diag(penalty), rcond=1e-12, hermitian=True)
    back = inverse @ weighted.T
    return lambda y: back @ y
