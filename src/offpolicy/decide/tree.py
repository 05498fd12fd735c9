"""Policy trees: which action to take where, found by adding up doubly robust scores.

A leaf takes the action whose scores Γ(a) add up to most there, or, with ``caution`` z > 0, the one with the
largest lower end Σ Γ(a) − z √(n Var Γ(a)). A split is chosen by what its two sides can then earn; where two
levels remain and the table is not too large, by what their own best splits can earn, so that trees of depth
two are the best there are over the bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.decide.features import Feature

#: Additions up to which pairs of splits are searched: about two seconds.
MOST_ADDITIONS = 4e8
TINY = 1e-12


@dataclass(frozen=True)
class Leaf:
    """What to do here.

    Attributes
    ----------
    action : int
        Code of the action.
    rows : int
        Rows of the log that ended here.
    """

    action: int
    rows: int


@dataclass(frozen=True)
class Split:
    """Left where the feature is at most its cut (or equals its level), right otherwise."""

    feature: int
    at: int
    left: Node
    right: Node


Node: TypeAlias = Leaf | Split


class Found(NamedTuple):
    """A split and what it earns."""

    earned: float
    feature: int
    at: int


@dataclass(frozen=True, eq=False)
class Search:
    """Rows with their bins and scores, and how a group of them is judged.

    Attributes
    ----------
    features : list of Feature
    codes : list of (n,) arrays
    scores : (n, K) array
        Γ, already multiplied by the row's mass.
    smallest : int
        Rows that a leaf must have.
    caution : float
        Standard errors subtracted; 0 for the plain sum.
    """

    features: Sequence[Feature]
    codes: list[Ints]
    scores: Floats
    smallest: int
    caution: float = 0.0

    def grow(self, depth: int, rows: Ints | None = None) -> Node:
        """The tree of these rows."""
        rows = np.arange(len(self.scores)) if rows is None else rows
        whole = self._sums(rows)
        earned, action = self._best(whole)
        leaf = Leaf(int(action), len(rows))
        if depth == 0 or len(rows) < 2 * self.smallest:
            return leaf
        found = self._deep(rows) if depth > 1 and self._is_cheap(rows) else self._flat(rows)
        if found is None or found.earned <= float(earned) + TINY * (1 + abs(float(earned))):
            return leaf
        left = self.features[found.feature].goes_left(self.codes[found.feature][rows], found.at)
        sides = [self.grow(depth - 1, rows[left]), self.grow(depth - 1, rows[~left])]
        if (
            isinstance(sides[0], Leaf)
            and isinstance(sides[1], Leaf)
            and sides[0].action == sides[1].action
        ):
            return leaf
        return Split(found.feature, found.at, sides[0], sides[1])

    def _is_cheap(self, rows: Ints) -> bool:
        d = len(self.features)
        return bool(len(rows) * self.scores.shape[1] * d * d <= MOST_ADDITIONS)

    def _sums(self, rows: Ints) -> Floats:
        """(1 + K) or (1 + 2K) sums: rows, scores, and squares where they are needed."""
        g = self.scores[rows]
        parts = [np.array([float(len(rows))]), g.sum(axis=0)]
        return np.concatenate([*parts, (g**2).sum(axis=0)] if self.caution else parts)

    def _histogram(self, codes: Ints, bins: int, rows: Ints) -> Floats:
        """(bins, 1 + K or 1 + 2K) the same sums, in each bin."""
        g = self.scores[rows]
        columns: list[Any] = [np.bincount(codes, minlength=bins)]
        columns += [np.bincount(codes, weights=x, minlength=bins) for x in g.T]
        if self.caution:
            columns += [np.bincount(codes, weights=x * x, minlength=bins) for x in g.T]
        return np.column_stack(columns).astype(np.float64, copy=False)

    def _best(self, sums: Floats) -> tuple[Floats, Ints]:
        """What the best action earns in groups with these sums (…, 1 + K or 1 + 2K), and which it is."""
        n, k = sums[..., :1], self.scores.shape[1]
        total = sums[..., 1 : k + 1]
        if self.caution:
            spread = sums[..., k + 1 :] - total**2 / np.maximum(n, 1.0)
            total = total - self.caution * np.sqrt(np.maximum(spread, 0.0))
        return total.max(axis=-1), total.argmax(axis=-1)

    def _flat(self, rows: Ints) -> Found | None:
        """The best single split."""
        best: Found | None = None
        for j, feature in enumerate(self.features):
            sums = self._histogram(self.codes[j][rows], feature.bins, rows)
            earned = self._split(sums, is_text=feature.is_text)
            at = int(earned.argmax())
            if earned[at] > -np.inf and (best is None or earned[at] > best.earned):
                best = Found(float(earned[at]), j, at)
        return best

    def _split(self, sums: Floats, *, is_text: bool) -> Floats:
        """(…, bins − 1) what both sides of every split earn; −∞ where a side is too small."""
        left = sums[..., :-1, :] if is_text else np.cumsum(sums, axis=-2)[..., :-1, :]
        right = sums.sum(axis=-2, keepdims=True) - left
        earned = self._best(left)[0] + self._best(right)[0]
        return np.where(self._allowed(left, right), earned, -np.inf)

    def _allowed(self, left: Floats, right: Floats) -> Bools:
        return np.asarray((left[..., 0] >= self.smallest) & (right[..., 0] >= self.smallest))

    def _deep(self, rows: Ints) -> Found | None:
        """The split whose sides earn most after their own best splits."""
        best: Found | None = None
        for j, feature in enumerate(self.features):
            outer = self.codes[j][rows]
            sums = self._histogram(outer, feature.bins, rows)
            left = sums[:-1] if feature.is_text else np.cumsum(sums, axis=0)[:-1]
            right = sums.sum(axis=0) - left
            earned = [self._best(left)[0], self._best(right)[0]]
            for i, inner in enumerate(self.features):
                joint = outer * inner.bins + self.codes[i][rows]
                table = self._histogram(joint, feature.bins * inner.bins, rows)
                table = table.reshape(feature.bins, inner.bins, -1)
                lefts = table[:-1] if feature.is_text else np.cumsum(table, axis=0)[:-1]
                rights = table.sum(axis=0) - lefts
                for side, part in enumerate((lefts, rights)):
                    best_inner = self._split(part, is_text=inner.is_text).max(axis=-1)
                    earned[side] = np.maximum(earned[side], best_inner)
            total = np.where(self._allowed(left, right), earned[0] + earned[1], -np.inf)
            at = int(total.argmax())
            if total[at] > -np.inf and (best is None or total[at] > best.earned):
                best = Found(float(total[at]), j, at)
        return best


def choose(node: Node, features: Sequence[Feature], codes: list[Ints]) -> Ints:
    """(n,) action codes of rows with these bins."""
    out = np.zeros(len(codes[0]) if codes else 0, dtype=np.int64)
    _fill(node, features, codes, np.arange(len(out)), out)
    return out


def _fill(
    node: Node, features: Sequence[Feature], codes: list[Ints], rows: Ints, out: Ints
) -> None:
    if isinstance(node, Leaf):
        out[rows] = node.action
        return
    left = features[node.feature].goes_left(codes[node.feature][rows], node.at)
    _fill(node.left, features, codes, rows[left], out)
    _fill(node.right, features, codes, rows[~left], out)
