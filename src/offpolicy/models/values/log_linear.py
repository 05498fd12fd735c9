"""Regression of something that is never negative: exp(b'x), fitted by the likelihood of counts.

The fit solves Σ x (y − exp(b'x)) = penalty · b: with a small penalty the fitted values give every column of x the mean
that y gives it. For ratios of marginals these are moments of the target's states, and exp of a quadratic is what the
ratio of two normal densities is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats

PENALTY = 0.1  # of each coefficient but the first, in rows of the mean of y
MOST_ROUNDS = 25
SETTLED = 1e-12
LARGEST_LOG = 30.0


@dataclass(frozen=True, eq=False)
class LogLinear:
    """Coefficients of log E[y | x], in units of the mean of y, whatever its size.

    Examples
    --------
    >>> x = np.column_stack([np.ones(5), np.arange(5.0)])
    >>> fit = LogLinear.fit(x, np.exp(0.5 * np.arange(5.0)), np.ones(5), penalty=0.0)
    >>> fit.coefficients[1:].round(6).tolist(), fit.predict(x).round(3).tolist()[:2]
    ([0.5], [1.0, 1.649])
    """

    coefficients: Floats
    level: float

    @classmethod
    def fit(
        cls, X: Floats, y: Floats, weight: Floats, start: LogLinear | None = None, penalty: float = PENALTY
    ) -> LogLinear:
        """Newton's method from the mean of y, or from another fit of the same columns; the first column is 1."""
        size = float(weight.sum())
        level = float(weight @ y) / size
        y = y / level
        held = np.full(X.shape[1], penalty)
        held[0] = 0.0
        b = np.zeros(X.shape[1])
        if start is not None:
            b = start.coefficients.copy()
            b[0] = 0.0
        b[0] = -np.log(float(weight @ _exponential(X, b)) / size)

        def loss(at: Floats) -> float:
            logs = np.clip(X @ at, -LARGEST_LOG, LARGEST_LOG)
            return float(weight @ (np.exp(logs) - y * logs) + 0.5 * held @ (at * at))

        now = loss(b)
        for _ in range(MOST_ROUNDS):
            mean = weight * _exponential(X, b)
            slope = X.T @ (mean - weight * y) + held * b
            curve = (X * mean[:, None]).T @ X
            curve[np.diag_indices(len(b))] += held + 1e-9 * size
            move: Floats = np.linalg.solve(curve, slope).astype(np.float64)
            if float(slope @ move) < SETTLED * size:
                break
            b, now = _downhill(loss, b, move, now)
        return cls(b, level)

    def predict(self, X: Floats) -> Floats:
        """Fitted values."""
        return self.level * _exponential(X, self.coefficients)


def _exponential(X: Floats, b: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(X @ b, -LARGEST_LOG, LARGEST_LOG)))


def _downhill(loss: Callable[[Floats], float], b: Floats, move: Floats, now: float) -> tuple[Floats, float]:
    """The longest of ten halvings of a step that does not raise the loss."""
    for _ in range(10):
        there = loss(b - move)
        if there <= now:
            return b - move, there
        move = move / 2
    return b, now
