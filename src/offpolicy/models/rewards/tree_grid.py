"""Predictions of a LightGBM model for every context × action at once.

A split looks at one column: at the context or at the action. With the action known, a tree is a function of
the context alone, so it is evaluated once for each group of actions that its action splits tell apart, on
whole columns, instead of once for each of the m × K pairs. Leaf values are added in the order of the trees,
as LightGBM adds them, so the sums are the same to the last bit.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats

BLOCK = 16_384
Parts: TypeAlias = "list[tuple[Bools, Array | float]]"


@dataclass(frozen=True, eq=False)
class TreeGrid:
    """The trees of a booster whose last column is the action code.

    Attributes
    ----------
    trees : list
        LightGBM's dump of each tree.
    action : int
        Position of the action column.
    sigmoid : float or None
        Slope of the logistic link of a 0/1 reward; None for a plain sum.
    """

    trees: list[dict[str, Any]]
    action: int
    sigmoid: float | None

    @classmethod
    def of(cls, booster: Any) -> TreeGrid | None:
        """Read a booster; None for one whose predictions are not a sum of constant leaves."""
        dump = booster.dump_model()
        words = dump["objective"].split()
        if words[0] not in {"binary", "cross_entropy", "regression"} or dump.get("average_output"):
            return None
        if words[0] == "regression" and len(words) > 1:
            return None
        sigmoid = None
        if words[0] == "cross_entropy":
            sigmoid = 1.0
        elif words[0] == "binary":
            sigmoid = float(words[1].removeprefix("sigmoid:"))
        trees = [tree["tree_structure"] for tree in dump["tree_info"]]
        return cls(trees, int(dump["max_feature_idx"]), sigmoid)

    def predict(self, X: Floats, n_actions: int) -> Floats:
        """(m, K) predictions for the context rows ``X`` and action codes 0 … K − 1."""
        out = np.empty((len(X), n_actions))

        def fill(start: int) -> None:
            out[start : start + BLOCK] = self._block(X[start : start + BLOCK], n_actions)

        # Rows do not depend on each other, so the number of threads changes no number.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, range(0, len(X), BLOCK)))
        return out

    def _block(self, X: Floats, n_actions: int) -> Floats:
        raw = np.zeros((n_actions, len(X)))
        codes = np.arange(n_actions, dtype=np.float64)
        everyone = np.ones(n_actions, dtype=bool)
        # A feature-major copy and remembered category codes: each is read by many trees.
        columns = [np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])]
        categories: dict[int, Array] = {}
        for tree in self.trees:
            for actions, value in self._parts(tree, everyone, codes, columns, categories):
                for a in np.flatnonzero(actions):
                    raw[a] += value
        if self.sigmoid is not None:
            raw = expit(self.sigmoid * raw)
        return raw.T

    def _parts(
        self, node: dict[str, Any], actions: Bools, codes: Floats, columns: list[Floats], categories: dict[int, Array]
    ) -> Parts:
        """Groups of actions and the leaf values that their rows reach under ``node``."""
        if "leaf_value" in node:
            return [(actions, float(node["leaf_value"]))]
        feature = node["split_feature"]
        if feature == self.action:
            left = goes_left(node, codes)
            found: Parts = []
            for child, group in (("left_child", actions & left), ("right_child", actions & ~left)):
                if group.any():
                    found += self._parts(node[child], group, codes, columns, categories)
            return found
        if node["decision_type"] == "==" and feature not in categories:
            categories[feature] = category_codes(columns[feature])
        column = categories[feature] if node["decision_type"] == "==" else columns[feature]
        left = goes_left(node, column)
        ones = self._parts(node["left_child"], actions, codes, columns, categories)
        others = self._parts(node["right_child"], actions, codes, columns, categories)
        return [
            (both, np.where(left, value, other))
            for group, value in ones
            for with_, other in others
            if (both := group & with_).any()
        ]


def category_codes(column: Floats) -> Array:
    """Categories as integers; missing and negative ones, which go right everywhere, as −1."""
    known = ~np.isnan(column)
    return np.where(known & (column >= 0), np.where(known, column, 0.0), -1.0).astype(np.int64)


def goes_left(node: dict[str, Any], column: Array) -> Bools:
    """Which rows take the left branch: LightGBM's rule for categories, numbers and missing values."""
    if node["decision_type"] == "==":
        codes = column if column.dtype.kind == "i" else category_codes(column)
        chosen = np.fromiter(map(int, str(node["threshold"]).split("||")), np.int64)
        table = np.zeros(max(int(chosen.max()), int(codes.max(initial=0))) + 2, dtype=bool)
        table[chosen] = True
        # The last entry stands for −1 and stays False.
        return np.asarray(table[codes])
    missing = node["missing_type"]
    values = column
    if missing != "NaN":
        values = np.where(np.isnan(column), 0.0, column)
    left: Bools = values <= node["threshold"]
    if missing == "NaN":
        left = np.where(np.isnan(column), node["default_left"], left)
    elif missing == "Zero":
        left = np.where(np.abs(values) <= 1e-35, node["default_left"], left)
    return left
