"""Learned policies: a tree that people can read, and boosted regressions of the scores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._visible import esc, printable
from offpolicy.decide.features import Feature, coded, condition, condition_in_sql, shortened, sql_literal, sql_name
from offpolicy.decide.tree import Leaf, Node, Split, choose
from offpolicy.errors import PolicyError
from offpolicy.policies.distribution import one_hot, require_actions
from offpolicy.policies.protocol import n_rows

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from offpolicy._arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class TreePolicy:
    """A tree of yes-or-no questions about the context, with an action at each leaf.

    Attributes
    ----------
    root : Node
    features : tuple of Feature
        Columns that the tree may ask about.
    labels : tuple
        Labels of the actions that leaves name.
    otherwise : tuple of int
        Places among the labels: the first of these that is eligible is taken where a leaf's action is not.
    learned_from : str
        Digest of the rows it was learned from; empty for trees written by hand.
    """

    root: Node
    features: tuple[Feature, ...]
    labels: tuple[Hashable, ...]
    otherwise: tuple[int, ...] = ()
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    learned_from: str = field(default="", kw_only=True)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: tuple[Hashable, ...]) -> TreePolicy:
        """Return the policy for these actions, in this order."""
        require_actions(sorted({self.labels[leaf.action] for leaf in leaves(self.root)}, key=str), actions, "the tree")
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        # A tree that asks nothing may be asked about rows without columns.
        asked = [] if isinstance(self.root, Leaf) else coded(context, self.features)
        place = _places(self.labels, self.actions)
        open_to = _open_to(place, eligible)
        return place[self.decide(asked, n_rows(context), open_to)]

    def decide(self, codes: list[Ints], n: int, eligible: Bools | None = None) -> Ints:
        """(n,) places among the labels, of rows with these bins of each feature and these eligible labels."""
        chosen = choose(self.root, self.features, codes, n)
        if eligible is None or not self.otherwise:
            return chosen
        closed = np.flatnonzero(~eligible[np.arange(n), chosen])
        order = np.array(self.otherwise)
        chosen[closed] = order[eligible[closed][:, order].argmax(axis=1)]
        return chosen

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return 1 for the chosen action, 0 for the others; (n, K)."""
        return one_hot(self.choices(context, eligible=eligible), len(self.actions or self.labels))

    def table(self) -> list[dict[str, Any]]:
        """One row for each leaf: its conditions, its action, and how many logged rows it holds."""
        return [
            {"when": " and ".join(shortened(when)) or "always", "action": self.labels[leaf.action], "rows": leaf.rows}
            for when, leaf in paths(self.root, self.features)
        ]

    def to_sql(self, *, column: str = "action") -> str:
        """The tree as an SQL expression: ``CASE WHEN … THEN … END AS action``."""
        lines = [
            f"  WHEN {' AND '.join(when) or 'TRUE'} THEN {sql_literal(self.labels[leaf.action])}"
            for when, leaf in paths(self.root, self.features, as_sql=True)
        ]
        closed = f" -- {self._closed()}" if self.otherwise else ""
        return "\n".join([f"CASE{closed}", *lines, f"END AS {sql_name(column)}"])

    def to_json(self) -> str:
        """The tree as JSON: nested objects with column, at_most or equals, yes and no."""
        tree = _as_json(self.root, self)
        if self.otherwise:
            tree["otherwise"] = [self.labels[code] for code in self.otherwise]
        if self.learned_from:
            tree["learned_from"] = self.learned_from
        return json.dumps(tree, indent=1, default=str)

    @classmethod
    def from_json(cls, text: str) -> TreePolicy:
        """The tree that `to_json` wrote; trees written by hand will do as well.

        >>> import pandas as pd
        >>> tree = TreePolicy.from_json('{"column": "x", "at_most": 1, "yes": {"action": "a"}, "no": {"action": "b"}}')
        >>> tree.choices(pd.DataFrame({"x": [0.0, 2.0]})).tolist()
        [0, 1]
        """
        try:
            root = json.loads(text)
        except json.JSONDecodeError as error:
            raise PolicyError(f"the tree is not valid JSON: {error}.") from error
        features: list[Feature] = []
        labels: list[Hashable] = []
        node = _from_json(root, features, labels)
        order = root.get("otherwise", [])
        labels += [label for label in order if label not in labels]
        places = tuple(labels.index(a) for a in order)
        return cls(node, tuple(features), tuple(labels), places, learned_from=str(root.get("learned_from", "")))

    def drawn(self) -> str:
        """The tree as an SVG drawing."""
        return tree_svg(self.root, self.features, self.labels)

    def _repr_html_(self) -> str:
        return self.drawn()

    @printable
    def __str__(self) -> str:
        lines = [f"{row['when']}: {row['action']} ({row['rows']:,} rows)" for row in self.table()]
        return "\n".join([*lines, self._closed()] if self.otherwise else lines)

    def _closed(self) -> str:
        """What is done where a leaf's action is not eligible."""
        order = ", ".join(str(self.labels[code]) for code in self.otherwise)
        return f"if that is not eligible, the first eligible of {order}"


def _places(labels: tuple[Hashable, ...], actions: tuple[Hashable, ...] | None) -> Ints:
    """Where each label is among the actions; −1 where it is not."""
    known = labels if actions is None else actions
    return np.array([known.index(a) if a in known else -1 for a in labels], dtype=np.int64)


def _open_to(place: Ints, eligible: Bools | None) -> Bools | None:
    """(n, labels) which labels are eligible, from which actions are."""
    return None if eligible is None else np.where(place >= 0, eligible[:, place], False)


def leaves(node: Node) -> list[Leaf]:
    """The leaves, from left to right."""
    return [node] if isinstance(node, Leaf) else [*leaves(node.left), *leaves(node.right)]


def paths(node: Node, features: tuple[Feature, ...], *, as_sql: bool = False) -> list[tuple[list[str], Leaf]]:
    """The conditions that lead to each leaf, in words or in SQL."""
    if isinstance(node, Leaf):
        return [([], node)]
    yes, no = (condition_in_sql if as_sql else condition)(features[node.feature], node.at)
    return [
        ([said, *when], leaf)
        for said, side in ((yes, node.left), (no, node.right))
        for when, leaf in paths(side, features, as_sql=as_sql)
    ]


def _as_json(node: Node, tree: TreePolicy) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"action": tree.labels[node.action], "rows": node.rows}
    feature = tree.features[node.feature]
    known = node.at < len(feature.cuts)
    asked: dict[str, Any] = {"column": feature.name}
    if feature.is_text:
        asked["equals"] = feature.levels[node.at]
    else:
        asked["at_most"] = feature.cuts[node.at] if known else None
    return {**asked, "yes": _as_json(node.left, tree), "no": _as_json(node.right, tree)}


def _from_json(value: Any, features: list[Feature], labels: list[Hashable]) -> Node:
    """A node; its feature and its action are added to the lists."""
    if isinstance(value, dict) and "action" in value:
        if value["action"] not in labels:
            labels.append(value["action"])
        return Leaf(labels.index(value["action"]), int(value.get("rows", 0)))
    if not isinstance(value, dict) or not {"column", "yes", "no"} <= set(value):
        raise PolicyError(
            f"the tree has a node {str(value)[:80]!r}, which is neither a leaf (action) nor a question (column, "
            "at_most or equals, yes, no)."
        )
    name, at = value["column"], 0
    if "equals" in value:
        feature = Feature(name, levels=(str(value["equals"]),))
    elif value.get("at_most") is None:
        feature, at = Feature(name, cuts=(0.0,)), 1
    else:
        feature = Feature(name, cuts=(float(value["at_most"]),))
    features.append(feature)
    place = len(features) - 1
    yes, no = (_from_json(value[side], features, labels) for side in ("yes", "no"))
    return Split(place, at, yes, no)


def _predicted(models: tuple[Any, ...], matrix: Ints) -> Floats:
    return np.column_stack([model.predict(matrix) for model in models])


@dataclass(frozen=True, eq=False)
class BoostedPolicy:
    """The eligible action whose boosted regression of the scores is highest, less ``caution`` standard errors of it."""

    models: tuple[Any, ...]
    features: tuple[Feature, ...]
    labels: tuple[Hashable, ...]
    halves: tuple[tuple[Any, ...], ...] = ()
    caution: float = 0.0
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    learned_from: str = field(default="", kw_only=True)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: tuple[Hashable, ...]) -> BoostedPolicy:
        """Return the policy for these actions, in this order."""
        require_actions(list(self.labels), actions, "the learned policy")
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        place = _places(self.labels, self.actions)
        codes = coded(context, self.features)
        return np.asarray(place[self.decide(codes, n_rows(context), _open_to(place, eligible))])

    def decide(self, codes: list[Ints], n: int, eligible: Bools | None = None) -> Ints:
        """(n,) places among the labels, of rows with these bins of each feature and these eligible labels."""
        matrix = np.column_stack(codes)
        scores = _predicted(self.models, matrix)
        if self.halves:
            off = [np.square(_predicted(models, matrix) - scores) for models in self.halves]
            scores = scores - self.caution * np.sqrt(np.mean(off, axis=0))
        found: Ints = (scores if eligible is None else np.where(eligible, scores, -np.inf)).argmax(axis=1)
        return found

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return 1 for the chosen action, 0 for the others; (n, K)."""
        return one_hot(self.choices(context, eligible=eligible), len(self.actions or self.labels))

    @printable
    def __str__(self) -> str:
        return f"boosted regressions of {len(self.labels)} actions on {len(self.features)} columns"


ACROSS, DOWN, BOX = 142, 84, 134
LONGEST = 20
ASIDE = 4
#: Share of its full size below which the drawing is scrolled instead.
SMALLEST = 0.7


@dataclass
class _Drawing:
    parts: list[str] = field(default_factory=list)
    leaves: int = 0
    deepest: int = 0


def tree_svg(root: Node, features: Sequence[Feature], labels: Sequence[Hashable]) -> str:
    """The tree as one SVG element that scales with the page."""
    made = _Drawing()

    def place(node: Node, depth: int) -> float:
        made.deepest = max(made.deepest, depth)
        y = 8 + DOWN * depth
        if isinstance(node, Leaf):
            x = ACROSS * (made.leaves + 0.5)
            made.leaves += 1
            made.parts.append(_box(x, y, str(labels[node.action]), f"{node.rows:,} rows", bold=True))
            return x
        left, right = place(node.left, depth + 1), place(node.right, depth + 1)
        x = (left + right) / 2
        for child, word in ((left, "yes"), (right, "no")):
            made.parts.append(_edge(x, y + 40, child, y + DOWN, word))
        made.parts.append(_box(x, y, condition(features[node.feature], node.at)[0] + "?", ""))
        return x

    place(root, 0)
    width, height = ACROSS * made.leaves, 56 + DOWN * made.deepest
    return (
        f'<svg viewBox="0 0 {width} {height}" style="{_size(width)}" role="img" '
        f'aria-label="the learned tree">{"".join(made.parts)}</svg>'
    )


def _size(width: float) -> str:
    """As wide as the page, but no smaller than one can read."""
    return f"max-width:{width}px;min-width:{width * SMALLEST:.0f}px;width:100%"


def _box(x: float, y: float, text: str, small: str, *, bold: bool = False) -> str:
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    weight = ' font-weight="600"' if bold else ""
    top, bottom = (18, 34) if small else (24, 24)
    words = _text(x, y + top, 12, shown, weight)
    if small:
        words += _text(x, y + bottom, 11, small)
    return (
        f'<g><title>{esc(text)}</title><rect x="{x - BOX / 2:g}" y="{y:g}" width="{BOX}" height="40" rx="6" '
        f'fill="none" stroke="currentColor"/>{words}</g>'
    )


def _text(x: float, y: float, size: int, text: str, more: str = "", *, anchor: str = "middle") -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="currentColor"{more}>{esc(text)}</text>'


def _edge(x: float, y: float, to: float, down: float, word: str) -> str:
    line = f'<line x1="{x:g}" y1="{y:g}" x2="{to:g}" y2="{down:g}" stroke="currentColor"/>'
    # Above the line, on the side it goes to, so that it does not strike the word through.
    anchor, aside = ("end", -ASIDE) if to < x else ("start", ASIDE)
    return line + _text((x + to) / 2 + aside, (y + down) / 2 - ASIDE, 11, word, anchor=anchor)
