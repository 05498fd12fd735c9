"""Scales, ticks and axes of the report's charts: SVG without a library, a script or a fixed width.

Positions across are percentages of whatever width the page has, heights are pixels, so that a chart drawn once
fits a phone and a screen and its letters keep their size. Colors are classes that the page's style sheet knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.inference.figures import percent, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
EDGE = 0.05  # labels nearer to an end than this lean inwards
LETTER = 7  # pixels, about
WIDE, NARROW = 640, 280  # pixels that labels may fill on a screen and on a phone
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SHORT = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Scale:
    """From values to shares of an axis; what lies beyond an end is drawn at the end."""

    low: float
    high: float
    is_logarithmic: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high = math.log10(low), math.log10(high)
            value = math.log10(value) if value > 0 else -math.inf
        if high <= low:
            return 0.5
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers inside the scale.

        >>> Scale(0.0, 1.0).ticks(4), Scale(0.02, 300.0, is_logarithmic=True).ticks()
        ([0.0, 0.25, 0.5, 0.75, 1.0], [0.1, 1.0, 10.0, 100.0])
        """
        if self.is_logarithmic:
            return _decades(self.low, self.high, about)
        width = self.high - self.low
        if not width > 0:
            return [self.low]
        size = 10.0 ** math.floor(math.log10(width / about))
        step = next(s * size for s in STEPS if s * size * about >= width * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def _decades(low: float, high: float, about: int) -> list[float]:
    """Powers of ten; ones, twos and fives where these are too few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = max(1, math.ceil((last - first) / (about + 1)))
    powers = [10.0**k for k in range(first, last + 1, stride) if low <= 10.0**k <= high]
    if len(powers) > 2:
        return powers
    finer = [m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5)]
    finer = [x for x in finer if low <= x <= high]
    return finer if len(finer) > 2 else Scale(low, high).ticks(about)


def numbers(values: Sequence[float]) -> list[str]:
    """Ticks with as many digits as tell them apart, large ones in thousands and millions.

    >>> numbers([0.0, 0.05, 0.1]), numbers([0.0, 250_000.0, 500_000.0]), numbers([1e-6, 1e-5])
    (['0', '0.05', '0.10'], ['0', '250k', '500k'], ['10⁻⁶', '10⁻⁵'])
    """
    top = max((abs(v) for v in values), default=0.0)
    if values and min(values) > 0 and not 1e-4 <= min(values) <= top < 1e5:
        powers = [math.log10(v) for v in values]
        if all(math.isclose(p, round(p), abs_tol=1e-9) for p in powers):
            return [f"10{str(round(p)).translate(SUPERSCRIPTS)}" for p in powers]
    gaps = [abs(b - a) for a, b in pairwise(values) if b != a]
    if not gaps or max(gaps) > 1.5 * min(gaps):
        return [plain(v) for v in values]
    unit, suffix = next(((u, s) for u, s in SHORT if top >= 10 * u), (1.0, ""))
    step = min(gaps) / unit
    places = next((d for d in range(12) if math.isclose(step, round(step, d), rel_tol=1e-6)), 12)
    return [_tidy(f"{v / unit:,.{places}f}") + (suffix if v else "") for v in values]


def _tidy(text: str) -> str:
    """No sign before nothing, a true minus elsewhere; 0 needs no places."""
    if not text.strip("-0.,"):
        return "0"
    return text.replace("-", "−")


def shares(values: Sequence[float]) -> list[str]:
    """Ticks in percent."""
    return [percent(v) for v in values]


def pos(share: float) -> str:
    """A share of an axis as a coordinate.

    >>> pos(0.25), pos(1 / 3)
    ('25%', '33.3%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def number(value: float) -> str:
    """A coordinate in few digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def anchor(share: float) -> str:
    """Which way a label leans: inwards at the ends, so that it stays in the picture."""
    return ' class="s"' if share < EDGE else ' class="e"' if share > 1 - EDGE else ""


def across(scale: Scale, labels: Sequence[tuple[float, str]], y: str, dy: int) -> str:
    """Labels along a horizontal axis."""
    places = [(scale.at(v), text) for v, text in labels]
    return "".join(f'<text x="{pos(p)}" y="{y}" dy="{dy}"{anchor(p)}>{esc(text)}</text>' for p, text in places)


def frame(
    inner: str,
    x: Scale,
    y: Scale,
    *,
    title: str,
    labels: Sequence[tuple[float, str]],
    heights: Sequence[tuple[float, str]],
    height: int,
    upright: str = "",
    lines_up: bool = False,
) -> str:
    """A chart of two axes around its marks: grid, labels and what the axes count."""
    grid = "".join(
        f'<line class="grid" x2="100%" y1="{pos(1 - y.at(v))}" y2="{pos(1 - y.at(v))}"/>'
        f'<text class="e" x="-8" y="{pos(1 - y.at(v))}" dy="4">{esc(text)}</text>'
        for v, text in heights
    )
    if lines_up:
        grid += "".join(f'<line class="grid" y2="100%" x1="{pos(x.at(v))}" x2="{pos(x.at(v))}"/>' for v, _ in labels)
    up = f'<text class="s" x="-48" y="-14">{esc(upright)}</text>' if upright else ""
    return (
        f'<svg class="xy{" up" if upright else ""}" height="{height}">{up}{grid}'
        f"{across(x, labels, '100%', 20)}"
        f'<text x="50%" y="100%" dy="40">{esc(title)}</text>{inner}</svg>'
    )


def paths(*drawn: tuple[str, str]) -> str:
    """Lines and areas in percentages of both axes, which coordinates of a path cannot be: (class, path)."""
    inner = "".join(f'<path class="{kind}" d="{d}"/>' for kind, d in drawn)
    return f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">{inner}</svg>'


def line(points: Sequence[tuple[float, float]]) -> str:
    """A path through (across, up) shares."""
    return "M" + "L".join(f"{number(100 * x)} {number(100 * (1 - y))}" for x, y in points)


def thinned(labels: Sequence[str]) -> list[tuple[int, bool]]:
    """Which labels of equal places fit: (place, whether it fits a phone as well).

    >>> thinned(["mon", "tue", "wed"])
    [(0, True), (1, True), (2, True)]
    """
    room = LETTER * max(map(len, labels)) + 18
    wide = max(1, math.ceil(len(labels) * room / WIDE))
    narrow = wide * max(1, math.ceil(len(labels) * room / NARROW / wide))
    return [(i, i % narrow == 0) for i in range(0, len(labels), wide)]
