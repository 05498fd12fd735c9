"""Vega-Lite specifications of the report's charts, as plain dictionaries.

Names from the data appear only as values of rows, never as field names, titles or expressions. Colors are
the page's CSS variables, so one drawing serves the light theme, the dark one and print. A chart redraws
from its rows, which the page may filter, reorder (``rank``) or show by another measure (``height``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from offpolicy.inference.figures import count, measured, percent, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.report.tables import Row

Spec: TypeAlias = dict[str, Any]

INK, SOFT, FAINT, ACCENT, LOGGED = (
    "var(--ink)", "var(--soft)", "var(--line)", "var(--accent)", "var(--logged)",
)  # fmt: skip
ROW = 24
BY_RANK = {"field": "rank", "op": "min"}
WIDEST = 6.0
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT, "titleColor": SOFT, "gridColor": FAINT, "domain": False, "ticks": False,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 400, "labelPadding": 8,
        "titlePadding": 10, "gridWidth": 1,
    },
    "axisY": {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0, "titleY": -14},
    "text": {"color": INK, "fontSize": 12.5, "fontWeight": 600},
    "point": {"filled": True, "size": 64, "opacity": 1},
}  # fmt: skip


def _chart(
    rows: list[Row], layers: list[Spec], description: str, *, height: int = 0, step: int = 0
) -> Spec:
    """A layered chart as wide as its place, of a fixed height or with a step for each row."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height or step * len(rows),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"name": "rows", "values": [{**row, "rank": i} for i, row in enumerate(rows)]},
        "layer": layers,
        "description": description,
        # The page keeps the step when it leaves rows out.
        "usermeta": {"step": step},
    }


def span(low: float, high: float) -> str:
    """An interval in few digits."""
    return f"{plain(low)} to {plain(high)}"


def _tips(*fields: str, named: bool = False) -> list[Spec]:
    """What hovering shows; the first field of a ``named`` row is its name, which needs no title."""
    tips: list[Spec] = [{"field": f, "type": "nominal"} for f in fields]
    return [{**tips[0], "title": " "}, *tips[1:]] if named else tips


def _band(x: Spec, tips: list[Spec], size: int) -> tuple[list[Spec], Spec]:
    """A line of estimates with points and its band of intervals, and the axis of its values."""
    y = {"type": "quantitative", "title": None, "scale": {"zero": False}, "axis": {"tickCount": 5}}
    value = {"x": x, "y": {"field": "value", **y}}
    layers: list[Spec] = [
        {"mark": {"type": "area", "color": ACCENT, "opacity": 0.16},
         "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}}},
        {"mark": {"type": "line", "color": ACCENT, "strokeWidth": 2}, "encoding": value},
        {"mark": {"type": "point", "color": ACCENT, "size": size},
         "encoding": {**value, "tooltip": tips}},
    ]  # fmt: skip
    return layers, y


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


def interval_rows(
    groups: Sequence[tuple[str, Sequence[Row]]], label: str, ends: tuple[float, float]
) -> list[Row]:
    """Rows under group headings (none where a heading is empty), with the texts that hovering shows.

    The key keeps rows apart: three digits of the group, a star for the headline, then the label.
    """
    out: list[Row] = []
    for i, (heading, rows) in enumerate(groups):
        if heading:
            out.append({"key": f"{i:03d}#", "heading": heading, "group": i})
        for row in rows:
            star = "*" if row.get("headline") else " "
            defined = _finite(row["value"])
            low, high = row["low"], row["high"]
            error = row.get("std_error", (high - low) / 4)
            text = f"{measured(low, error)} to {measured(high, error)}"
            out.append(
                {
                    "key": f"{i:03d}{star}{row[label]}",
                    "heading": "",
                    "group": i,
                    "name": str(row[label]),
                    "lead": bool(row.get("headline")),
                    "value": row["value"] if defined else None,
                    "low": max(low, ends[0]) if _finite(low) else ends[0] if defined else None,
                    "high": min(high, ends[1]) if _finite(high) else ends[1] if defined else None,
                    "other": row.get("logged"),
                    "width": high - low if defined else None,
                    "Estimate": measured(row["value"], error),
                    "Interval": text if defined else "not identified",
                    **row.get("tips", {}),
                }
            )
    return out


def intervals(
    rows: list[Row],
    ends: tuple[float, float],
    description: str,
    *,
    title: str,
    reference: tuple[float, float, float] | None = None,
    tips: Sequence[str] = (),
    others: bool = False,
) -> Spec:
    """Points with intervals, one row each, beside a reference line with its own interval."""
    y = {
        "field": "key", "type": "nominal", "sort": BY_RANK, "title": None,
        "axis": {
            "labelExpr": "slice(datum.value, 4)", "labelLimit": 150, "grid": False,
            "labelColor": {"condition": {"test": "slice(datum.value, 3, 4) === '*'", "value": INK},
                           "value": SOFT},
            "labelFontWeight": {"condition": {"test": "slice(datum.value, 3, 4) === '*'",
                                              "value": 600}, "value": 400},
        },
    }  # fmt: skip
    x = {
        "type": "quantitative", "title": title, "scale": {"domain": list(ends), "nice": False, "zero": False},
        "axis": {"tickCount": 5, "orient": "top", "grid": True},
    }  # fmt: skip
    color = {"condition": {"test": "datum.lead", "value": ACCENT}, "value": SOFT}
    tooltip = _tips("name", "Estimate", "Interval", *tips, named=True)
    layers: list[Spec] = []
    if reference is not None:
        value, low, high = reference
        layers += [
            {"data": {"values": [{}]}, "mark": {"type": "rect", "color": LOGGED, "opacity": 0.14},
             "encoding": {"x": {"datum": low, **x}, "x2": {"datum": high}}},
            {"data": {"values": [{}]}, "mark": {"type": "rule", "color": LOGGED, "strokeWidth": 1.5},
             "encoding": {"x": {"datum": value, **x}}},
        ]  # fmt: skip
    layers.append(
        {"mark": {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round", "clip": True},
         "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": color,
                      "tooltip": tooltip}}
    )  # fmt: skip
    if others:
        layers.append(
            {"mark": {"type": "tick", "color": LOGGED, "thickness": 2.5, "size": 14, "clip": True},
             "encoding": {"y": y, "x": {"field": "other", **x}, "tooltip": tooltip}}
        )  # fmt: skip
    layers.append(
        {"mark": {"type": "point", "clip": True},
         "encoding": {"y": y, "x": {"field": "value", **x}, "color": color, "tooltip": tooltip}}
    )  # fmt: skip
    heading = {"type": "text", "align": "left", "x": 0, "dy": 3}
    text = {"y": y, "text": {"field": "heading"}}
    halo = {"stroke": "var(--page)", "strokeWidth": 6, "strokeJoin": "round"}
    layers += [{"mark": {**heading, **halo}, "encoding": text}, {"mark": heading, "encoding": text}]
    return _chart(rows, layers, description, step=ROW)


def weights(rows: list[Row], description: str) -> Spec:
    """Histogram of the weights on a logarithmic axis."""
    points = [
        {
            **row,
            "height": row["share"],
            "Weight": span(row["low"], row["high"]),
            "Share of units": percent(row["share"]),
            "Share of the total weight": percent(row["carried"]),
        }
        for row in rows
    ]
    scale = {"type": "log", "nice": False}
    bars = {
        "mark": {"type": "rect", "color": ACCENT, "stroke": "var(--page)", "strokeWidth": 0.5},
        "encoding": {
            "x": {"field": "low", "type": "quantitative", "scale": scale, "title": "importance weight",
                  "axis": {"grid": False, "tickCount": 5, "format": "~g"}},
            "x2": {"field": "high"},
            "y": {"field": "height", "type": "quantitative", "title": None,
                  "axis": {"format": "~%", "tickCount": 4}},
            "y2": {"datum": 0},
            "tooltip": _tips("Weight", "Share of units", "Share of the total weight"),
        },
    }  # fmt: skip
    one = {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "color": LOGGED, "strokeDash": [4, 3]},
        "encoding": {"x": {"datum": 1.0, "type": "quantitative", "scale": scale}},
    }
    spans = rows[0]["low"] <= 1 <= rows[-1]["high"]
    return _chart(points, [bars, one] if spans else [bars], description, height=220)


def overlap(rows: list[Row], description: str) -> Spec:
    """Share of each action in the log and under the target, joined by a line."""
    points = [
        {
            **row,
            "gap": abs(row["target"] - row["logged"]),
            "name": row["action"],
            "In the log": percent(row["logged"]),
            "Under the policy": percent(row["target"]),
            "Covered by weights": "—" if row["ratio"] is None else percent(row["ratio"]),
        }
        for row in rows
    ]
    y = {
        "field": "name", "type": "nominal", "sort": BY_RANK, "title": None,
        "axis": {"labelLimit": 150, "grid": False},
    }  # fmt: skip
    x = {
        "type": "quantitative", "title": "share of decisions",
        "axis": {"format": "~%", "tickCount": 5, "orient": "top"},
    }  # fmt: skip
    tips = _tips("name", "In the log", "Under the policy", "Covered by weights", named=True)
    both: Spec = {"y": y, "tooltip": tips}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": FAINT, "strokeWidth": 3},
         "encoding": {**both, "x": {"field": "logged", **x}, "x2": {"field": "target"}}},
        {"mark": {"type": "point", "color": LOGGED},
         "encoding": {**both, "x": {"field": "logged", **x}}},
        {"mark": {"type": "point", "color": ACCENT},
         "encoding": {**both, "x": {"field": "target", **x}}},
    ]  # fmt: skip
    return _chart(points, layers, description, step=20)


def batches(rows: list[Row], description: str) -> Spec:
    """The estimate and the logged value from batch to batch."""
    points = [
        {
            **row,
            "Batch": row["group"],
            "Estimate": plain(row["value"]),
            "Interval": span(row["low"], row["high"]),
            "Logged": plain(row["logged"]),
            "Units": count(row["n"]),
        }
        for row in rows
    ]
    x = {
        "field": "group", "type": "ordinal", "sort": None, "title": "batch",
        "scale": {"type": "point", "padding": 0.4},
        "axis": {"labelAngle": 0, "labelOverlap": True, "grid": False, "labelLimit": 90},
    }  # fmt: skip
    tips = _tips("Batch", "Estimate", "Interval", "Logged", "Units")
    layers, y = _band(x, tips, size=48)
    logged = {
        "mark": {"type": "line", "color": LOGGED, "strokeWidth": 1.5, "strokeDash": [5, 3]},
        "encoding": {"x": x, "y": {"field": "logged", **y}},
    }
    layers.insert(1, logged)
    return _chart(points, layers, description, height=240)


def calibration(rows: list[Row], description: str, *, what: str, logarithmic: bool) -> Spec:
    """Observed against predicted, which agree on the diagonal."""
    ends = [x for r in rows for x in (r["predicted"], r["observed"]) if x > 0 or not logarithmic]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if not logarithmic:
        pad = 0.06 * (high - low) or 0.5
        low, high = low - pad, high + pad
    points = [
        {
            **row,
            "low": max(row["low"], low),
            "high": min(row["high"], high),
            "Predicted": plain(row["predicted"]),
            "Observed": plain(row["observed"]),
            "Interval": span(row["low"], row["high"]),
            "Cases": count(row["n"]),
        }
        for row in rows
        if not logarithmic or (row["predicted"] > 0 and row["observed"] > 0)
    ]
    scale = {
        "domain": [low, high], "nice": False, "clamp": True,
        **({"type": "log"} if logarithmic else {"zero": False}),
    }  # fmt: skip
    axis = {"tickCount": 4, "format": "~g", "grid": not logarithmic}
    x = {"type": "quantitative", "scale": scale, "title": f"predicted {what}", "axis": axis}
    y = {"type": "quantitative", "scale": scale, "title": f"observed {what}", "axis": axis}
    layers: list[Spec] = [
        {"data": {"values": [{"a": low, "b": low}, {"a": high, "b": high}]},
         "mark": {"type": "line", "color": LOGGED, "strokeDash": [4, 3], "strokeWidth": 1.5},
         "encoding": {"x": {"field": "a", **x}, "y": {"field": "b", **y}}},
        {"mark": {"type": "rule", "color": ACCENT, "strokeWidth": 2, "clip": True},
         "encoding": {"x": {"field": "predicted", **x}, "y": {"field": "low", **y},
                      "y2": {"field": "high"}}},
        {"mark": {"type": "point", "color": ACCENT, "clip": True},
         "encoding": {"x": {"field": "predicted", **x}, "y": {"field": "observed", **y},
                      "tooltip": _tips("Predicted", "Observed", "Interval", "Cases")}},
    ]  # fmt: skip
    return _chart(points, layers, description, height=260)


def clipping(rows: list[Row], description: str) -> Spec:
    """The estimate against the largest weight allowed."""
    points = [
        {
            **row,
            "Largest weight": plain(row["threshold"]),
            "Estimate": plain(row["value"]),
            "Interval": span(row["low"], row["high"]),
            "Decisions cut": percent(row["clipped"]),
        }
        for row in rows
    ]
    x = {
        "field": "threshold", "type": "quantitative", "scale": {"type": "log", "nice": False},
        "title": "weights cut off at", "axis": {"grid": False, "tickCount": 5, "format": "~g"},
    }  # fmt: skip
    tips = _tips("Largest weight", "Estimate", "Interval", "Decisions cut")
    return _chart(points, _band(x, tips, size=40)[0], description, height=240)


SERIES = (("effective", "Effective sample size", ACCENT), ("surviving", "Weight above 0", LOGGED),
          ("running", "Still running", SOFT))  # fmt: skip


def horizon(rows: list[Row], description: str) -> Spec:
    """What is left of episodes and weights, step by step."""
    points = [
        {"step": r["step"], "series": name, "share": r[key], "Step": str(r["step"]),
         "Left": percent(r[key])}
        for r in rows
        for key, name, _ in SERIES
    ]  # fmt: skip
    encoding = {
        "x": {"field": "step", "type": "quantitative", "title": "step",
              "axis": {"grid": False, "tickMinStep": 1}},
        "y": {"field": "share", "type": "quantitative", "title": None, "scale": {"domain": [0, 1]},
              "axis": {"format": "~%", "tickCount": 4}},
        "color": {"field": "series", "type": "nominal", "legend": None,
                  "scale": {"domain": [s[1] for s in SERIES], "range": [s[2] for s in SERIES]}},
        "tooltip": _tips("series", "Step", "Left", named=True),
    }  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": encoding},
        {"mark": {"type": "point", "size": 36}, "encoding": encoding},
    ]
    return _chart(points, layers, description, height=240)
