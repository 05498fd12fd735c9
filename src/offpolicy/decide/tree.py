"""Policy trees: which action to take where, found by adding up doubly robust scores.

A leaf takes the action whose scores Γ(a) add up to most there, or, with ``caution`` z > 0, the one with the
largest lower end Σ Γ(a) − z √(n Var Γ(a)). A split is chosen by what its two sides can then earn; where two
levels remain, by what their own best splits can earn, so that trees of depth two are the best there are over
the bins. Where three or more remain, as many of the splits that look best so as time allows are tried, each with the
best trees on its two sides: on small logs all of them, so that trees of depth three are the best as well; on long
ones the first. Where even pairs would take very long, they are judged by every second, third, … row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.decide.features import Feature

#: Additions up to which pairs of splits are judged by all rows: a few seconds.
MOST_ADDITIONS = 2e9
#: Additions that go into trying splits above the last two levels, about a second; how many a table's cell counts for.
MOST_TRIED, PER_CELL = 5e8, 20
TINY = 1e-12


@dataclass(frozen=True)
class Leaf:
    """What to do here.

    ``action`` is its code, ``rows`` are those of the log that ended here.
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


class Grown(NamedTuple):
    """A tree and what it earns."""

    node: Node
    earned: float


class Rows(NamedTuple):
    """Some rows: bins of each feature, and the columns that are added up (scores, and squares if needed)."""

    codes: list[Ints]
    columns: list[Floats]
    n: int

    def take(self, index: Any) -> Rows:
        """Some of them."""
        columns = [c[index] for c in self.columns]
        return Rows([c[index] for c in self.codes], columns, len(columns[0]))


@dataclass(frozen=True, eq=False)
class Search:
    """How a group of rows is judged, and the tree that earns most.

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
    most_additions : float
        Up to which pairs of splits are judged by all rows.
    """

    features: Sequence[Feature]
    codes: list[Ints]
    scores: Floats
    smallest: int
    caution: float = 0.0
    most_additions: float = MOST_ADDITIONS

    def grow(self, depth: int) -> Node:
        """The tree of all rows."""
        columns = [np.ascontiguousarray(g) for g in self.scores.T]
        if self.caution:
            columns += [g * g for g in columns]
        codes = [np.asarray(c, dtype=np.intp) for c in self.codes]
        return self._grow(depth, Rows(codes, columns, len(self.scores))).node

    def _grow(self, depth: int, rows: Rows, *, tries: bool = True) -> Grown:
        sums = self._totals(_sums(rows))
        leaf = Grown(Leaf(int(sums.argmax()), rows.n), float(sums.max()))
        if depth == 0 or rows.n < 2 * self.smallest:
            return leaf
        best = leaf
        for found in self._splits(depth, rows, tries=tries):
            left = self.features[found.feature].goes_left(rows.codes[found.feature], found.at)
            sides = [rows.take(np.flatnonzero(left)), rows.take(np.flatnonzero(~left))]
            if min(side.n for side in sides) < self.smallest:
                continue
            # Inside a split that is tried nothing else is: the levels below look two questions ahead.
            one, other = (self._grow(depth - 1, side, tries=False) for side in sides)
            grown = Grown(Split(found.feature, found.at, one.node, other.node), one.earned + other.earned)
            if grown.earned <= best.earned + TINY * (1 + abs(best.earned)):
                continue
            best = grown
            if not tries or depth <= 2:
                break
        root = best.node
        if isinstance(root, Split) and _same_action(root.left, root.right):
            return leaf
        return best

    def _splits(self, depth: int, rows: Rows, *, tries: bool) -> Iterator[Found]:
        """Splits that earn more than none, those first that look farther ahead."""
        if depth > 1:
            d = len(self.features)
            pairs = d * (d + 1) / 2
            additions = rows.n * (1 + len(rows.columns)) * pairs
            every = math.ceil(additions / self.most_additions) or 1
            part = rows if every == 1 else rows.take(slice(None, None, every))
            totals = self._deep(part, self.smallest / every)
            cells = max((f.bins for f in self.features), default=0) ** 2
            cost = additions + PER_CELL * cells * (1 + len(rows.columns)) * pairs
            many = MOST_TRIED / max(cost, 1.0) if tries and depth > 2 and every == 1 else 1
            yield from self._if_better(part, _ranked(totals, max(int(many), 1)), depth)
            if every == 1:
                return  # what a single split earns, a pair earns too
        yield from self._if_better(rows, _ranked(self._flat(rows), 1), depth)

    def _if_better(self, rows: Rows, found: list[Found], depth: int) -> list[Found]:
        """Those that earn more than no split; above the last two levels a split may pay only further down."""
        plain = float(self._earned(_sums(rows)))
        least = plain + TINY * (1 + abs(plain)) if depth <= 2 or len(found) <= 1 else -math.inf
        return [f for f in found if f.earned > least]

    def _totals(self, sums: Floats) -> Floats:
        """(K, …) what each action earns in groups with these sums (1 + K or 1 + 2K, …)."""
        k = self.scores.shape[1]
        total = sums[1 : k + 1]
        if self.caution:
            spread = sums[k + 1 :] - total**2 / np.maximum(sums[:1], 1.0)
            total = total - self.caution * np.sqrt(np.maximum(spread, 0.0))
        return total

    def _earned(self, sums: Floats) -> Floats:
        """What the best action earns."""
        return np.asarray(self._totals(sums).max(axis=0))

    def _flat(self, rows: Rows) -> list[Floats]:
        """What both sides of every split earn, of each feature."""
        sides = _all_sides(self.features, rows)
        return _both(sides, [[self._earned(s) for s in pair] for pair in sides], self.smallest)

    def _deep(self, rows: Rows, smallest: float) -> list[Floats]:
        """What they earn after their own best splits.

        A pair of features has one table of sums, whose four quadrants at each pair of cuts serve either order of
        the two questions.
        """
        sides = _all_sides(self.features, rows)
        earned = [[self._earned(s) for s in pair] for pair in sides]
        for j, outer in enumerate(self.features):
            for i, inner in enumerate(self.features[: j + 1]):
                joint = rows.codes[j] * inner.bins
                joint += rows.codes[i]
                sums = _histogram(joint, outer.bins * inner.bins, rows)
                quadrants = self._quadrants(sums.reshape(-1, outer.bins, inner.bins), outer, inner, smallest)
                for side in (0, 1):
                    asked_first = (quadrants[side][0] + quadrants[side][1]).max(axis=1)
                    asked_last = (quadrants[0][side] + quadrants[1][side]).max(axis=0)
                    earned[j][side] = np.maximum(earned[j][side], asked_first)
                    earned[i][side] = np.maximum(earned[i][side], asked_last)
        return _both(sides, earned, smallest)

    def _quadrants(self, table: Floats, outer: Feature, inner: Feature, smallest: float) -> list[list[Floats]]:
        """What is earned [left or right of one cut][left or right of the other]; −∞ where too few rows are."""
        left = _left(table, outer, 1)[:, :-1]
        corner = _left(left, inner, 2)[:, :, :-1]
        row = left.sum(axis=2, keepdims=True)
        column = _left(table.sum(axis=1, keepdims=True), inner, 2)[:, :, :-1]
        whole = table.sum(axis=(1, 2), keepdims=True)
        sums = [[corner, row - corner], [column - corner, whole - row - column + corner]]
        return [[np.where(s[0] >= smallest - 0.5, self._earned(s), -np.inf) for s in pair] for pair in sums]


def _sums(rows: Rows) -> Floats:
    """(1 + K) or (1 + 2K) sums: rows, scores, and squares where they are needed."""
    return np.array([float(rows.n), *(c.sum() for c in rows.columns)])


def _histogram(codes: Ints, bins: int, rows: Rows) -> Floats:
    """(1 + K or 1 + 2K, bins) the same sums, in each bin."""
    sums = np.empty((1 + len(rows.columns), bins))
    sums[0] = np.bincount(codes, minlength=bins)
    for at, column in enumerate(rows.columns, 1):
        sums[at] = np.bincount(codes, weights=column, minlength=bins)
    return sums


def _left(sums: Floats, feature: Feature, axis: int) -> Floats:
    """Sums left of each cut: of all bins up to it for numbers, of the bin itself for text."""
    return sums if feature.is_text else np.cumsum(sums, axis=axis)


def _all_sides(features: Sequence[Feature], rows: Rows) -> list[tuple[Floats, Floats]]:
    """Of each feature: sums on both sides of every split."""
    sides = []
    for codes, feature in zip(rows.codes, features, strict=True):
        sums = _histogram(codes, feature.bins, rows)
        left = _left(sums, feature, 1)[:, :-1]
        sides.append((left, sums.sum(axis=1, keepdims=True) - left))
    return sides


def _both(sides: list[tuple[Floats, Floats]], earned: list[list[Floats]], smallest: float) -> list[Floats]:
    """What both sides of every split earn together; −∞ where one has too few rows."""
    totals = []
    for (left, right), both in zip(sides, earned, strict=True):
        enough = np.minimum(left[0], right[0]) >= smallest - 0.5
        totals.append(np.where(enough, both[0] + both[1], -np.inf))
    return totals


def _ranked(totals: list[Floats], many: int) -> list[Found]:
    """So many splits: the best of each feature first, by what they earn, then the others."""
    best = [Found(float(t.max()), j, int(t.argmax())) for j, t in enumerate(totals) if len(t)]
    found = sorted((f for f in best if f.earned > -math.inf), key=lambda f: -f.earned)
    if many > len(found):
        first = {(f.feature, f.at) for f in found}
        rest = [
            Found(earned, j, at)
            for j, t in enumerate(totals)
            for at, earned in enumerate(t.tolist())
            if earned > -math.inf and (j, at) not in first
        ]
        found += sorted(rest, key=lambda f: -f.earned)
    return found[:many]


def _same_action(one: Node, other: Node) -> bool:
    return isinstance(one, Leaf) and isinstance(other, Leaf) and one.action == other.action


def choose(node: Node, features: Sequence[Feature], codes: list[Ints], n: int) -> Ints:
    """(n,) action codes of rows with these bins."""
    out = np.zeros(n, dtype=np.int64)
    _fill(node, features, codes, np.arange(n), out)
    return out


def _fill(node: Node, features: Sequence[Feature], codes: list[Ints], rows: Ints, out: Ints) -> None:
    if isinstance(node, Leaf):
        out[rows] = node.action
        return
    left = features[node.feature].goes_left(codes[node.feature][rows], node.at)
    _fill(node.left, features, codes, rows[left], out)
    _fill(node.right, features, codes, rows[~left], out)
