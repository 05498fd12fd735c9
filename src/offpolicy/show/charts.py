"""The report's charts as SVG: rows of intervals, shares of actions, histograms, curves with bands.

A mark carries the place of its row in the table of numbers below the chart (``data-i``); hovering shows that row.
Charts of rows are one small SVG for each row between words of the page, so that the page can leave rows out and
put them in another order (``data-value``, ``data-width`` …) by moving them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.show.svg import (
    Scale,
    across,
    anchor,
    frame,
    line,
    number,
    numbers,
    paths,
    pos,
    shares,
    thinned,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.show.tables import Row

WIDEST = 6.0
HEIGHT = 220
MOST_POINTS = 60
# Of episodes, step by step: key of a row, what it is called, class of its color.
SERIES = (
    ("effective", "Effective sample size", "accent"),
    ("surviving", "Weight above 0", "logged"),
    ("running", "Still running", "soft"),
)


def domain(rows: Sequence[Row], reference: Sequence[float]) -> tuple[float, float]:
    """Ends of the axis: every interval, unless some are so wide that the others would vanish.

    The axis then reaches six times the width of the narrower half of the intervals beyond their points.
    """
    finite = [r for r in rows if _finite(r["value"])]
    ends = [x for r in finite for x in (r["low"], r["high"], r["value"]) if _finite(x)]
    ends += [x for x in reference if _finite(x)]
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    widths = sorted(r["high"] - r["low"] for r in finite if _finite(r["high"] - r["low"]))
    if widths:
        usual = widths[(len(widths) - 1) // 2]
        points = [r["value"] for r in finite] + [x for x in reference if _finite(x)]
        points.sort()
        middle = points[len(points) // 2]
        reach = max(WIDEST * usual, max(abs(x - middle) for x in reference) if reference else 0.0)
        low, high = max(low, middle - reach), min(high, middle + reach)
    pad = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
    return low - pad, high + pad


def _finite(x: float | None) -> bool:
    return x is not None and math.isfinite(x)


def _rows(
    groups: Sequence[tuple[str, Sequence[str]]],
    x: Scale,
    title: str,
    show: Callable[[Sequence[float]], list[str]],
    behind: str = "",
) -> str:
    """Rows under group headings (none where a heading is empty), an axis above and a grid behind them."""
    ticks = x.ticks()
    labels = list(zip(ticks, show(ticks), strict=True))
    grid = "".join(f'<line class="grid" x1="{pos(x.at(v))}" x2="{pos(x.at(v))}" y2="100%"/>' for v in ticks)
    body = "".join(
        '<div class="g">' + (f'<div class="heading">{esc(heading)}</div>' if heading else "") + "".join(rows) + "</div>"
        for heading, rows in groups
    )
    return (
        f'<div class="rows"><div class="unit">{esc(title)}</div><svg class="axis" height="22">'
        f"{across(x, labels, '100%', -6)}</svg>"
        f'<div class="body"><svg class="behind">{grid}{behind}</svg>{body}</div></div>'
    )


def _row(place: int, name: str, marks: str, *, lead: bool = False, **keys: float | None) -> str:
    known = "".join(f" data-{key}={v:.4g}" for key, v in keys.items() if v is not None and _finite(v))
    kind = '"r lead"' if lead else "r"
    return f"<div class={kind} data-i={place}{known}><span>{esc(name)}</span><svg>{marks}</svg></div>"


def intervals(
    groups: Sequence[tuple[str, Sequence[Row]]],
    label: str,
    ends: tuple[float, float],
    *,
    title: str,
    reference: tuple[float, float, float] | None = None,
) -> str:
    """Points with intervals, one row each, beside a reference line with its own interval.

    ``label`` is the key of a row's name. A row with ``logged`` gets a tick there.
    """
    x = Scale(*ends)
    behind, place, drawn = "", 0, []
    if reference is not None:
        value, low, high = (x.at(v) if _finite(v) else 0.0 for v in reference)
        behind = (
            f'<rect class="band logged" x="{pos(low)}" width="{pos(high - low)}" y="0" height="100%"/>'
            f'<line class="logged" x1="{pos(value)}" x2="{pos(value)}" y2="100%"/>'
        )
    for heading, rows in groups:
        inner = []
        for row in rows:
            known = _finite(row["value"])
            width = row["high"] - row["low"] if known else None
            marks = _interval(row, x) if known else '<text class="s" x="0" y="16">not identified</text>'
            lead = bool(row.get("headline"))
            inner.append(_row(place, str(row[label]), marks, lead=lead, value=row["value"], width=width))
            place += 1
        drawn.append((heading, inner))
    return _rows(drawn, x, title, numbers, behind)


def _interval(row: Row, x: Scale) -> str:
    if math.isnan(row["low"]):  # refused: a point that stands for nothing sure
        return f'<circle class="refused" cx="{pos(x.at(row["value"]))}"/>'
    low, high = (v if _finite(v) else end for v, end in ((row["low"], x.low), (row["high"], x.high)))
    a, b = x.at(low), x.at(high)
    marks = f'<rect x="{pos(a)}" width="{pos(max(b - a, 0.001))}"/>'
    if low < x.low:
        marks += '<path d="M6 7.5L0 12L6 16.5z"/>'
    if high > x.high:
        marks += '<svg x="100%" overflow="visible"><path d="M-6 7.5L0 12L-6 16.5z"/></svg>'
    if "logged" in row and x.low <= row["logged"] <= x.high:
        marks += f'<rect class="logged" x="{pos(x.at(row["logged"]))}"/>'
    if x.low <= row["value"] <= x.high:
        marks += f'<circle cx="{pos(x.at(row["value"]))}"/>'
    return marks


def overlap(rows: Sequence[Row]) -> str:
    """Share of each action in the log and under the target, joined by a line."""
    top = max((max(r["logged"], r["target"]) for r in rows), default=0.0) or 1.0
    x = Scale(0.0, top * 1.02)
    inner = []
    for i, row in enumerate(rows):
        a, b = x.at(row["logged"]), x.at(row["target"])
        marks = (
            f'<rect class="join" x="{pos(min(a, b))}" width="{pos(abs(a - b))}"/>'
            f'<circle class="logged" cx="{pos(a)}"/>'
            f'<circle class="accent" cx="{pos(b)}"/>'
        )
        gap = abs(row["target"] - row["logged"])
        inner.append(_row(i, row["action"], marks, gap=gap, logged=row["logged"]))
    return _rows([("", inner)], x, "share of decisions", shares)


def weights(rows: Sequence[Row]) -> str:
    """Histogram of the weights on a logarithmic axis, by two measures of which the page shows one."""
    x = Scale(rows[0]["low"], rows[-1]["high"], is_logarithmic=True)
    ticks = x.ticks()
    labels = list(zip(ticks, numbers(ticks), strict=True))
    one = ""
    if x.low <= 1 <= x.high:
        p = x.at(1.0)
        one = (
            f'<line class="logged dashed" x1="{pos(p)}" x2="{pos(p)}" y2="100%"/>'
            f'<text{anchor(p)} x="{pos(p)}" y="-6">as often as logged</text>'
        )
    drawn = ""
    for key in ("share", "carried"):
        y = Scale(0.0, max(r[key] for r in rows) * 1.05 or 1.0)
        bars = "".join(
            f'<rect data-i="{i}" x="{pos(x.at(r["low"]))}" '
            f'width="{pos(x.at(r["high"]) - x.at(r["low"]))}" y="{pos(1 - y.at(r[key]))}"/>'
            for i, r in enumerate(rows)
            if r[key] > 0
        )
        up = y.ticks(4)
        chart = frame(
            f'<svg class="bars" height="100%">{bars}</svg>{one}', x, y, title="importance weight", labels=labels,
            heights=list(zip(up, shares(up), strict=True)), height=HEIGHT,
        )  # fmt: skip
        drawn += f'<div class="measure {key}">{chart}</div>'
    return drawn


def _curve(rows: Sequence[Row], at: Sequence[float], y: Scale, *, dashed: bool) -> str:
    """A line of estimates with points and its band of intervals, beside the logged value."""
    # A refused interval leaves a gap in the band.
    whole = [(p, r) for p, r in zip(at, rows, strict=True) if _finite(r["low"]) and _finite(r["high"])]
    low, high = ([(p, y.at(r[end])) for p, r in whole] for end in ("low", "high"))
    drawn = [("band accent", line([*low, *reversed(high)]) + "z")] if len(whole) > 1 else []
    if dashed:
        logged = [(p, y.at(r["logged"])) for p, r in zip(at, rows, strict=True)]
        drawn.append(("line logged dashed", line(logged)))
    middle = [(p, y.at(r["value"])) for p, r in zip(at, rows, strict=True)]
    drawn.append(("line accent", line(middle)))
    return paths(*drawn) + "".join(
        f'<circle data-i="{i}" cx="{pos(p)}" cy="{pos(1 - v)}"/>' for i, (p, v) in enumerate(middle)
    )


def _heights(rows: Sequence[Row], *keys: str) -> tuple[Scale, list[tuple[float, str]]]:
    """The upright axis of values, and its labels."""
    ends = [r[key] for r in rows for key in keys if _finite(r[key])] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
    y = Scale(low - pad, high + pad)
    ticks = y.ticks(4)
    return y, list(zip(ticks, numbers(ticks), strict=True))


def batches(rows: Sequence[Row]) -> str:
    """The estimate and the logged value from batch to batch."""
    y, heights = _heights(rows, "low", "high", "value", "logged")
    at = [(i + 0.5) / len(rows) for i in range(len(rows))]
    names = [str(r["group"]) for r in rows]
    texts = "".join(
        f'<text x="{pos(at[i])}" y="100%" dy="20" class="{"" if phone else "wide"}">{esc(names[i])}</text>'
        for i, phone in thinned(names)
    )
    inner = _curve(rows, at, y, dashed=True) + texts
    return frame(inner, Scale(0.0, 1.0), y, title="batch", labels=(), heights=heights, height=HEIGHT)


def clipping(rows: Sequence[Row]) -> str:
    """The estimate against the largest weight allowed."""
    y, heights = _heights(rows, "low", "high", "value")
    caps = [r["threshold"] for r in rows]
    x = Scale(min(caps), max(caps), is_logarithmic=True)
    ticks = x.ticks()
    labels = list(zip(ticks, numbers(ticks), strict=True))
    inner = _curve(rows, [x.at(c) for c in caps], y, dashed=False)
    return frame(inner, x, y, title="weights cut off at", labels=labels, heights=heights, height=HEIGHT)


def calibration(rows: Sequence[Row], *, what: str, is_logarithmic: bool) -> str:
    """Observed against predicted, which agree on the diagonal."""
    drawn = [(i, r) for i, r in enumerate(rows) if not is_logarithmic or (r["predicted"] > 0 and r["observed"] > 0)]
    ends = [x for _, r in drawn for x in (r["predicted"], r["observed"])] or [0.1, 1.0]
    low, high = min(ends), max(ends)
    if is_logarithmic:
        low, high = low / 1.3, high * 1.3
    else:
        pad = 0.06 * (high - low) or 0.5
        low, high = low - pad, high + pad
    both = Scale(low, high, is_logarithmic)
    ticks = both.ticks(4)
    labels = list(zip(ticks, numbers(ticks), strict=True))
    inner = '<line class="logged dashed" x1="0" y1="100%" x2="100%" y2="0"/>'
    for i, r in drawn:
        x, a, b = both.at(r["predicted"]), both.at(r["low"]), both.at(r["high"])
        inner += (
            f'<line class="accent" x1="{pos(x)}" x2="{pos(x)}" y1="{pos(1 - a)}" y2="{pos(1 - b)}"/>'
            f'<circle data-i="{i}" cx="{pos(x)}" '
            f'cy="{pos(1 - both.at(r["observed"]))}"/>'
        )
    return frame(
        inner, both, both, title=f"predicted {what}", labels=labels, heights=labels,
        height=240, upright=f"observed {what}", lines_up=True,
    )  # fmt: skip


def horizon(rows: Sequence[Row], step: str) -> str:
    """What is left of episodes and weights, step by step, counted from 1."""
    x, y = Scale(1.0, float(max(2, len(rows)))), Scale(0.0, 1.0)
    steps = [t for t in x.ticks() if t == int(t)]
    drawn, points, apart = [], "", math.ceil(len(rows) / MOST_POINTS)
    for key, _, color in reversed(SERIES):
        places = [(x.at(float(r["step"])), y.at(r[key])) for r in rows]
        drawn.append((f"line {color}", line(places)))
        points += "".join(
            f'<circle class="{color}" data-i="{i}" cx="{pos(p)}" cy="{pos(1 - v)}"/>'
            for i, (p, v) in enumerate(places)
            if i % apart == 0
        )
    up = [0.0, 0.25, 0.5, 0.75, 1.0]
    return frame(
        paths(*drawn) + points, x, y, title=step, labels=[(t, number(t)) for t in steps],
        heights=list(zip(up, shares(up), strict=True)), height=HEIGHT,
    )  # fmt: skip
