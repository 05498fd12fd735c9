"""Pictures as SVG, without a library, a script or a fixed width.

Positions across are percentages of whatever width the page has, heights are pixels, so that a picture drawn once
fits a phone and a screen and its letters keep their size. Colors are classes that the page's style sheet knows. A mark
carries the place of its row in the table of numbers below the picture (``data-i``); hovering shows that row. Rows one
below the other are one small SVG each between words of the page, so that the page can leave rows out and put them in
another order (``data-value``, ``data-width`` …) by moving them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from offpolicy._document import Axis, is_finite
from offpolicy._visible import esc
from offpolicy.inference.figures import percent, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._document import Mark, Picture, Row

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
EDGE = 0.05  # labels nearer to an end than this lean inwards
LETTER = 7  # pixels, about
WIDE, NARROW = 640, 280  # pixels that labels may fill on a screen and on a phone
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SHORT = ((1e9, "B"), (1e6, "M"), (1e3, "k"))
WIDEST = 6.0
MOST_POINTS = 60
NAMES_LEAN = 0.75  # names of points farther to the right lean to the left


def domain(rows: Sequence[Row], reference: Sequence[float]) -> tuple[float, float]:
    """Ends of the axis: every interval, unless some are so wide that the others would vanish.

    The axis then reaches six times the width of the narrower half of the intervals beyond their points.
    """
    known = [r for r in rows if is_finite(r["value"])]
    others = [x for x in reference if is_finite(x)]
    ends = [x for r in known for x in (r["low"], r["high"], r["value"]) if is_finite(x)] + others
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    widths = sorted(r["high"] - r["low"] for r in known if is_finite(r["high"] - r["low"]))
    if widths:
        usual = widths[(len(widths) - 1) // 2]
        points = sorted([r["value"] for r in known] + others)
        middle = points[len(points) // 2]
        reach = max(WIDEST * usual, max((abs(x - middle) for x in reference), default=0.0))
        low, high = max(low, middle - reach), min(high, middle + reach)
    pad = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
    return low - pad, high + pad


@dataclass(frozen=True)
class Scale:
    """From values to shares of an axis; what lies beyond an end is drawn at the end."""

    low: float
    high: float
    is_logarithmic: bool = False

    @classmethod
    def of(cls, axis: Axis) -> Scale:
        """The scale of an axis."""
        return cls(axis.low, axis.high, axis.is_logarithmic)

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


def labeled(axis: Axis, about: int = 5) -> list[tuple[float, str]]:
    """Ticks of an axis with their texts."""
    ticks = Scale.of(axis).ticks(about)
    ticks = [t for t in ticks if t == int(t)] if axis.is_whole else ticks
    return list(zip(ticks, map(percent, ticks) if axis.is_share else numbers(ticks), strict=True))


def pos(share: float) -> str:
    """A share of an axis as a coordinate.

    >>> pos(0.25), pos(1 / 3)
    ('25%', '33.3%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def line(points: Sequence[tuple[float, float]]) -> str:
    """A path through (across, up) shares."""

    def number(value: float) -> str:
        return f"{value:.2f}".rstrip("0").rstrip(".")

    return "M" + "L".join(f"{number(100 * x)} {number(100 * (1 - y))}" for x, y in points)


def _anchor(share: float) -> str:
    """Which way a label leans: inwards at the ends, so that it stays in the picture."""
    return ' class="s"' if share < EDGE else ' class="e"' if share > 1 - EDGE else ""


def _across(scale: Scale, labels: Sequence[tuple[float, str]], dy: int) -> str:
    """Labels along a horizontal axis."""
    places = [(scale.at(v), text) for v, text in labels]
    return "".join(f'<text x="{pos(p)}" y="100%" dy="{dy}"{_anchor(p)}>{esc(text)}</text>' for p, text in places)


def thinned(labels: Sequence[str]) -> list[tuple[int, bool]]:
    """Which labels of equal places fit: (place, whether it fits a phone as well).

    >>> thinned(["mon", "tue", "wed"])
    [(0, True), (1, True), (2, True)]
    """
    room = LETTER * max(map(len, labels)) + 18
    wide = max(1, math.ceil(len(labels) * room / WIDE))
    narrow = wide * max(1, math.ceil(len(labels) * room / NARROW / wide))
    return [(i, i % narrow == 0) for i in range(0, len(labels), wide)]


def drawing(p: Picture) -> str:
    """A picture as SVG."""
    if p.label:
        return _in_rows(p)
    if not p.measures:
        return _on_axes(p, p.marks, p.y)
    drawn = ""
    for key, _ in p.measures:  # of which the page shows one
        y = Axis(high=max(r[key] for r in p.rows) * 1.05 or 1.0, is_share=p.y.is_share)
        drawn += f'<div class="measure {key}">{_on_axes(p, [replace(m, y=key) for m in p.marks], y)}</div>'
    return drawn


# -- rows one below the other ---------------------------------------------------------------------------------------


def _in_rows(p: Picture) -> str:
    """Rows under their headings, an axis above and a grid behind them."""
    x, ticks = Scale.of(p.x), labeled(p.x)
    behind = "".join(f'<line class="grid" x1="{pos(x.at(v))}" x2="{pos(x.at(v))}" y2="100%"/>' for v, _ in ticks)
    if p.reference is not None:
        value, low, high = (x.at(v) if is_finite(v) else 0.0 for v in p.reference)
        behind += (
            f'<rect class="band logged" x="{pos(low)}" width="{pos(high - low)}" y="0" height="100%"/>'
            f'<line class="logged" x1="{pos(value)}" x2="{pos(value)}" y2="100%"/>'
        )
    body = ""
    for heading, members in groupby(enumerate(p.rows), lambda each: each[1].get(p.heading, "")):
        title = f'<div class="heading">{esc(str(heading))}</div>' if heading else ""
        body += f'<div class="g">{title}{"".join(_row(p, i, row, x) for i, row in members)}</div>'
    return (
        f'<div class="rows"><div class="unit">{esc(p.x.title)}</div><svg class="axis" height="22">'
        f"{_across(x, ticks, -6)}</svg>"
        f'<div class="body"><svg class="behind">{behind}</svg>{body}</div></div>'
    )


def _row(p: Picture, place: int, row: Row, x: Scale) -> str:
    keys = "".join(f" data-{key}={row[key]:.4g}" for key, _ in p.orders if is_finite(row.get(key)))
    kind = '"r lead"' if row.get("headline") else "r"
    marks = "".join(_in_row(mark, row, x) for mark in p.marks)
    return f"<div class={kind} data-i={place}{keys}><span>{esc(str(row[p.label]))}</span><svg>{marks}</svg></div>"


def _in_row(mark: Mark, row: Row, x: Scale) -> str:
    if mark.kind == "point":
        return f'<circle class="{mark.color}" cx="{pos(x.at(row[mark.x]))}"/>'
    if mark.kind == "join":
        a, b = sorted((x.at(row[mark.low]), x.at(row[mark.high])))
        return f'<rect class="join" x="{pos(a)}" width="{pos(b - a)}"/>'
    value = row[mark.x]
    if not is_finite(value):
        return '<text class="s" x="0" y="16">no estimate</text>'
    if math.isnan(row[mark.low]):  # refused: a point that stands for nothing sure
        return f'<circle class="refused" cx="{pos(x.at(value))}"/>'
    low, high = (v if is_finite(v) else end for v, end in ((row[mark.low], x.low), (row[mark.high], x.high)))
    a, b = x.at(low), x.at(high)
    marks = f'<rect x="{pos(a)}" width="{pos(max(b - a, 0.001))}"/>'
    if low < x.low:
        marks += '<path d="M6 7.5L0 12L6 16.5z"/>'
    if high > x.high:
        marks += '<svg x="100%" overflow="visible"><path d="M-6 7.5L0 12L-6 16.5z"/></svg>'
    if "logged" in row and x.low <= row["logged"] <= x.high:
        marks += f'<rect class="logged" x="{pos(x.at(row["logged"]))}"/>'
    return marks + (f'<circle cx="{pos(x.at(value))}"/>' if x.low <= value <= x.high else "")


# -- two axes -------------------------------------------------------------------------------------------------------


def _on_axes(p: Picture, marks: Sequence[Mark], up: Axis) -> str:
    """Marks on a grid, with labels and what the axes count."""
    x, y = Scale.of(p.x), Scale.of(up)
    lines = [_path(m, p.rows, _places(m, p.rows, x), y) for m in marks if m.kind in {"line", "band"}]
    inner = '<line class="logged dashed" x1="0" y1="100%" x2="100%" y2="0"/>' if p.is_square else ""
    if lines:  # coordinates of a path cannot be percentages
        inner += (
            f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">{"".join(lines)}</svg>'
        )
    inner += "".join(_marks(m, p, x, y) for m in marks if m.kind not in {"line", "band"})
    if p.ticks:
        names, places = [str(r[p.ticks]) for r in p.rows], _places(p.marks[0], p.rows, x)
        inner += "".join(
            f'<text x="{pos(places[i])}" y="100%" dy="20" class="{"" if phone else "wide"}">{esc(names[i])}</text>'
            for i, phone in thinned(names)
        )
    if p.at is not None and x.low <= p.at[0] <= x.high:
        at = x.at(p.at[0])
        inner += (
            f'<line class="logged dashed" x1="{pos(at)}" x2="{pos(at)}" y2="100%"/>'
            f'<text{_anchor(at)} x="{pos(at)}" y="-6">{esc(p.at[1])}</text>'
        )
    labels = [] if p.ticks else labeled(p.x, 4 if p.is_square else 5)
    grid = f'<text class="s" x="-48" y="-14">{esc(up.title)}</text>' if up.title else ""
    grid += "".join(
        f'<line class="grid" x2="100%" y1="{pos(1 - y.at(v))}" y2="{pos(1 - y.at(v))}"/>'
        f'<text class="e" x="-8" y="{pos(1 - y.at(v))}" dy="4">{esc(text)}</text>'
        for v, text in labeled(up, 4)
    )
    if up.title:
        grid += "".join(f'<line class="grid" y2="100%" x1="{pos(x.at(v))}" x2="{pos(x.at(v))}"/>' for v, _ in labels)
    return (
        f'<svg class="xy{" up" if up.title else ""}" height="{p.height}">{grid}{_across(x, labels, 20)}'
        f'<text x="50%" y="100%" dy="40">{esc(p.x.title)}</text>{inner}</svg>'
    )


def _places(mark: Mark, rows: Sequence[Row], x: Scale) -> list[float]:
    """Where each row lies from left to right: by its value, or by its place among the rows."""
    return [x.at(r[mark.x]) if mark.x else (i + 0.5) / len(rows) for i, r in enumerate(rows)]


def _path(mark: Mark, rows: Sequence[Row], at: Sequence[float], y: Scale) -> str:
    """A line, or a band, which has a gap where an interval is refused."""
    if mark.kind == "line":
        d = line([(a, y.at(r[mark.y])) for a, r in zip(at, rows, strict=True)])
    else:
        whole = [(a, r) for a, r in zip(at, rows, strict=True) if is_finite(r[mark.low]) and is_finite(r[mark.high])]
        low, high = ([(a, y.at(r[key])) for a, r in whole] for key in (mark.low, mark.high))
        d = line([*low, *reversed(high)]) + "z" if len(whole) > 1 else ""
    return f'<path class="{mark.kind} {mark.color}{" dashed" if mark.is_dashed else ""}" d="{d}"/>' if d else ""


def _marks(mark: Mark, p: Picture, x: Scale, y: Scale) -> str:
    """The marks of all rows that have a place on the axes."""
    out, apart = "", math.ceil(len(p.rows) / MOST_POINTS)
    for i, (r, at) in enumerate(zip(p.rows, _places(mark, p.rows, x), strict=True)):
        if any(scale.is_logarithmic and not r[key] > 0 for scale, key in ((x, mark.x), (y, mark.y)) if key):
            continue
        color = mark.color_of(r)
        if mark.kind == "bar" and r[mark.y] > 0:
            left, right = x.at(r[mark.low]), x.at(r[mark.high])
            out += f'<rect data-i="{i}" x="{pos(left)}" width="{pos(right - left)}" y="{pos(1 - y.at(r[mark.y]))}"/>'
        elif mark.kind == "point" and i % apart == 0:
            out += f'<circle class="{color}" data-i="{i}" cx="{pos(at)}" cy="{pos(1 - y.at(r[mark.y]))}"/>'
        elif mark.kind == "name":
            side, shift = ("e", -8) if at > NAMES_LEAN else ("s", 8)
            place = f'x="{pos(at)}" y="{pos(1 - y.at(r[mark.y]))}" dx="{shift}" dy="{16 if color == "logged" else -8}"'
            out += f'<text class="{side}" {place}>{esc(r[mark.low])}</text>'
        elif mark.kind == "spread" and is_finite(r[mark.low]):
            scale = x if mark.is_flat else y
            a, b = (pos(scale.at(r[key]) if mark.is_flat else 1 - scale.at(r[key])) for key in (mark.low, mark.high))
            own, other = ("x", "y") if mark.is_flat else ("y", "x")
            there = pos(1 - y.at(r[mark.y]) if mark.is_flat else at)
            out += f'<line class="{color}" {own}1="{a}" {own}2="{b}" {other}1="{there}" {other}2="{there}"/>'
    return f'<svg class="bars" height="100%">{out}</svg>' if mark.kind == "bar" else out
