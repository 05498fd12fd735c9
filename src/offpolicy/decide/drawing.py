"""A policy tree as a drawing (SVG): questions on top, actions at the leaves, left where the answer is yes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.decide.questions import condition
from offpolicy.decide.tree import Leaf, Node

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from offpolicy.decide.features import Feature

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
