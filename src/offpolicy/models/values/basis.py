"""Regressions on a state: the cheap models of values and of ratios of marginals.

Those of values have a fixed structure: what they make of an outcome is linear in it. Fitted Q evaluation regresses
R + γ v_{t+1}(S') on (S, A) once for every step. With features, trees or neighbors that do not change from step to step
each regression is one matrix applied to another outcome, so that hundreds of steps cost little; with trees and
neighbors, which average, the recursion cannot diverge.

Those of ratios are never negative: exp(b'x), fitted by the likelihood of counts. The fit solves
Σ x (y − exp(b'x)) = penalty · b: with a small penalty the fitted values give every column of x the mean that y gives
it. For ratios of marginals these are moments of the target's states, and exp of a quadratic is what the ratio of two
normal densities is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.values.values import ValueData


MOST_PRODUCTS = 24
RIDGE_PENALTY = 1e-3


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


def solver(X: Floats, weight: Floats | None = None) -> Any:
    """The map y ↦ coefficients of one design, for regressions with many outcomes.

    Least squares with a ridge penalty that is small beside the data's weight, none on the first column.
    """
    weighted = X if weight is None else X * weight[:, None]
    gram = weighted.T @ X
    size = float(len(X) if weight is None else weight.sum())
    penalty = np.full(X.shape[1], RIDGE_PENALTY * size + 1e-9)
    penalty[0] = 1e-12 * size
    inverse = np.linalg.pinv(gram + np.diag(penalty), rcond=1e-12, hermitian=True)
    back = inverse @ weighted.T
    return lambda y: back @ y


TREES = 8
NEIGHBORS = 10


class Smoother(Protocol):
    """One action's regression."""

    def fit(self, y: Floats) -> Floats:
        """Coefficients for an outcome of the training rows."""
        ...

    def features(self, states: Floats) -> Any:
        """What `predict` needs to know of states, computed once."""
        ...

    def predict(self, features: Any, coefficients: Floats) -> Floats:
        """Fitted values."""
        ...

    def matrix(self, states: Floats) -> Any:
        """What makes fitted values at these states of coefficients, for predictions by many of them."""
        ...


@dataclass(frozen=True, eq=False)
class LinearSmoother:
    """Ridge regression on the state, or on the state and its products."""

    solve: Callable[[Floats], Floats]
    quadratic: bool

    @classmethod
    def of(cls, states: Floats, weight: Floats | None, *, quadratic: bool) -> LinearSmoother:
        """Prepare for the states of the training rows."""
        return cls(solver(products(states, quadratic=quadratic), weight), quadratic)

    def fit(self, y: Floats) -> Floats:
        """Coefficients of the columns."""
        return self.solve(y)

    def features(self, states: Floats) -> Floats:
        """The columns."""
        return products(states, quadratic=self.quadratic)

    def predict(self, features: Floats, coefficients: Floats) -> Floats:
        """Fitted values."""
        return features @ coefficients

    def matrix(self, states: Floats) -> Floats:
        """The columns."""
        return self.features(states)


def averages(members: Ints, size: int) -> Any:
    """(n, size) sparse matrix that takes the mean over the ``members`` (n, k) of each row.

    >>> (averages(np.array([[0, 2], [1, 1]]), 3) @ np.array([1.0, 5.0, 3.0])).tolist()
    [2.0, 5.0]
    """
    from scipy import sparse

    n, k = members.shape
    small = members.astype(np.int32).reshape(-1)
    return sparse.csr_array((np.full(n * k, 1.0 / k), small, np.arange(0, n * k + 1, k, dtype=np.int32)), (n, size))


@dataclass(frozen=True, eq=False)
class TreeSmoother:
    """Means over the leaves of a few extremely randomized trees, grown once for a stand-in outcome."""

    trees: Any
    means: Any  # (leaves, n) sparse matrix that takes the mean of an outcome in each leaf
    offset: Ints

    @classmethod
    def of(cls, states: Floats, stand_in: Floats, weight: Floats | None, seed: int, leaves: int = 200) -> TreeSmoother:
        """Grow the trees, to at most so many leaves each."""
        from sklearn.ensemble import ExtraTreesRegressor

        smallest = max(5, len(states) // leaves)
        trees = ExtraTreesRegressor(TREES, min_samples_leaf=smallest, max_features=1.0, random_state=seed % 2**31)
        trees.fit(states, stand_in, sample_weight=weight)
        sizes = np.array([tree.tree_.node_count for tree in trees.estimators_])
        offset = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        at = np.asarray(trees.apply(states), dtype=np.int64) + offset
        return cls(trees, _leaf_means(at, weight, int(sizes.sum())), offset)

    def fit(self, y: Floats) -> Floats:
        """Mean of each leaf."""
        return np.asarray(self.means @ y)

    def features(self, states: Floats) -> Ints:
        """Leaves of each state."""
        return np.asarray(self.trees.apply(states), dtype=np.int64) + self.offset

    def predict(self, features: Ints, coefficients: Floats) -> Floats:
        """Mean over the trees."""
        return np.asarray(coefficients[features].mean(axis=1))

    def matrix(self, states: Floats) -> Any:
        """Means over the leaves of each state."""
        return averages(self.features(states), self.means.shape[0])


def _leaf_means(leaves: Ints, weight: Floats | None, size: int) -> Any:
    """(size, n) sparse matrix that takes the weighted mean over the rows in each leaf."""
    from scipy import sparse

    n, k = leaves.shape
    flat, each = leaves.reshape(-1), np.repeat(np.ones(n) if weight is None else weight, k)
    mass = np.bincount(flat, weights=each, minlength=size)
    share = each / np.where(mass > 0, mass, 1.0)[flat]
    return sparse.csr_array((share, (flat, np.repeat(np.arange(n), k))), shape=(size, n))


@dataclass(frozen=True, eq=False)
class NeighborSmoother:
    """Means over the nearest training rows."""

    tree: Any
    neighbors: int

    @classmethod
    def of(cls, states: Floats) -> NeighborSmoother:
        """Index the training rows."""
        from scipy.spatial import KDTree

        return cls(KDTree(states), min(NEIGHBORS, len(states)))

    def fit(self, y: Floats) -> Floats:
        """The outcomes themselves."""
        return y

    def features(self, states: Floats) -> Ints:
        """Nearest training rows of each state."""
        found = self.tree.query(states, k=self.neighbors)[1]
        return np.asarray(found, dtype=np.int64).reshape(len(states), -1)

    def predict(self, features: Ints, coefficients: Floats) -> Floats:
        """Their mean."""
        return np.asarray(coefficients[features].mean(axis=1))

    def matrix(self, states: Floats) -> Any:
        """Means over the nearest training rows."""
        return averages(self.features(states), int(self.tree.n))


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
