"""Regressions with a fixed structure: what they make of an outcome is linear in it.

Fitted Q evaluation regresses R + γ v_{t+1}(S') on (S, A) once for every step. With features, trees or neighbors that do
not change from step to step each regression is one matrix applied to another outcome, so that hundreds of steps
cost little; with trees and neighbors, which average, the recursion cannot diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.models.values.basis import products, solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints

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


@dataclass(frozen=True, eq=False)
class TreeSmoother:
    """Means over the leaves of a few extremely randomized trees, grown once for a stand-in outcome."""

    trees: Any
    leaves: Ints
    weight: Floats | None
    offset: Ints
    size: int

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
        return cls(trees, at, weight, offset, int(sizes.sum()))

    def fit(self, y: Floats) -> Floats:
        """Mean of each leaf."""
        weight = np.ones(len(y)) if self.weight is None else self.weight
        flat = self.leaves.reshape(-1)
        mass = np.bincount(flat, weights=np.repeat(weight, TREES), minlength=self.size)
        total = np.bincount(flat, weights=np.repeat(weight * y, TREES), minlength=self.size)
        return np.asarray(total / np.where(mass > 0, mass, 1.0))

    def features(self, states: Floats) -> Ints:
        """Leaves of each state."""
        return np.asarray(self.trees.apply(states), dtype=np.int64) + self.offset

    def predict(self, features: Ints, coefficients: Floats) -> Floats:
        """Mean over the trees."""
        return np.asarray(coefficients[features].mean(axis=1))


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
