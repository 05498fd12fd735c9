"""Several metrics in the report: policies by metrics, and pictures of one metric against another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.evaluation.shown import Section
from offpolicy.inference.figures import level_text, plain
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.show.markup import columns_table, table
from offpolicy.show.sections import figure, legend_of, span
from offpolicy.show.svg import Scale, frame, numbers, pos
from offpolicy.show.words import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.pareto import Pareto
    from offpolicy.show.tables import Row

HEIGHT = 280
MOST_PICTURES = 6
EDGE = 0.75  # names of points farther to the right lean to the left


def points(found: Pareto, across: str, up: str) -> list[Row]:
    """Where each policy lies by two metrics; an end that is not known is NaN."""
    rows: list[Row] = []
    for policy in found.policies:
        ends: Row = {}
        for axis, metric in (("x", across), ("y", up)):
            low, high = found.intervals[policy, metric].shown
            value = found.values[policy, metric].value
            ends |= {axis: value, f"{axis}_low": low, f"{axis}_high": high}
        kind = "soft" if policy in found.dominated else "accent"
        rows.append({"policy": policy, "kind": "logged" if policy == LOGGING_POLICY else kind, **ends})
    return rows


def section(ev: Evaluation, level: float) -> Section:
    """Policies × metrics."""
    found = ev.pareto(level)
    first, *others = found.metrics
    body = _table(ev, found, level)
    for number, metric in enumerate(others[:MOST_PICTURES]):
        rows = points(found, metric, first)
        body += figure(
            f"metrics-{number}",
            picture(rows, _axis(found, metric), _axis(found, first)),
            f"{first} against {metric}: one point with its intervals per policy",
            legend=legend_of(
                ("accent", "no policy is better in every metric"),
                ("soft", "another policy is better in every metric"),
                ("logged", "current policy"),
            ),
            data=columns_table(
                rows,
                [
                    ("Policy", "policy", str),
                    (first, "y", plain),
                    ("interval", "y_low y_high", span),
                    (metric, "x", plain),
                    ("interval", "x_low x_high", span),
                ],
                f"{first} and {metric}",
            ),
        )
    about = (
        f"{found.statement} All {level_text(level)} intervals in the table hold together. The rest of "
        f"this page is about {first}; ev.metric(…).report(…) writes the same page about another metric."
    )
    return Section("metrics", "All metrics", about, body)


def _axis(found: Pareto, metric: str) -> str:
    return f"{metric} ({'lower' if metric in found.minimized else 'higher'} is better)"


def _table(ev: Evaluation, found: Pareto, level: float) -> str:
    rows = []
    for policy in found.policies:
        values = [found.cell(policy, metric) for metric in found.metrics]
        cells = [f"{value} ({between})" for value, between in values]
        beaten = ", ".join(found.dominated.get(policy, ())) or "none"
        verdict = "" if policy == LOGGING_POLICY else _verdict(ev, policy, level)
        rows.append((policy, verdict, beaten, *cells))
    headings = [_axis(found, metric).replace(" is better", "") for metric in found.metrics]
    return table(("Policy", "Verdict", "Worse in all than", *headings), rows, caption="All metrics", words=3)


def _verdict(ev: Evaluation, policy: str, level: float) -> str:
    """The worst verdict of all metrics, and by which of them."""
    levels = {m: ev.metric(m).verdict(policy, level=level).level for m in ev.metrics}
    worst = max(levels.values(), key=list(VERDICTS).index)
    where = [metric for metric, own in levels.items() if own == worst]
    return VERDICTS[worst] if len(where) == len(levels) else f"{VERDICTS[worst]} ({', '.join(where)})"


def picture(rows: Sequence[Row], across: str, up: str) -> str:
    """Points with intervals in both directions."""
    x, y = _scale(rows, "x"), _scale(rows, "y")
    inner = ""
    for i, r in enumerate(rows):
        a, b, kind = x.at(r["x"]), 1 - y.at(r["y"]), r["kind"]
        if math.isfinite(r["x_low"]):
            inner += (
                f'<line class="{kind}" x1="{pos(x.at(r["x_low"]))}" x2="{pos(x.at(r["x_high"]))}" '
                f'y1="{pos(b)}" y2="{pos(b)}"/>'
            )
        if math.isfinite(r["y_low"]):
            inner += (
                f'<line class="{kind}" x1="{pos(a)}" x2="{pos(a)}" '
                f'y1="{pos(1 - y.at(r["y_low"]))}" y2="{pos(1 - y.at(r["y_high"]))}"/>'
            )
        side, shift = ("e", -8) if a > EDGE else ("s", 8)
        under = 16 if kind == "logged" else -8
        inner += (
            f'<circle class="{kind}" data-i="{i}" cx="{pos(a)}" cy="{pos(b)}"/>'
            f'<text class="{side}" x="{pos(a)}" y="{pos(b)}" dx="{shift}" dy="{under}">{esc(r["policy"])}</text>'
        )
    ticks, up_ticks = x.ticks(), y.ticks(4)
    return frame(
        inner,
        x,
        y,
        title=across,
        labels=list(zip(ticks, numbers(ticks), strict=True)),
        heights=list(zip(up_ticks, numbers(up_ticks), strict=True)),
        height=HEIGHT,
        upright=up,
        lines_up=True,
    )


def _scale(rows: Sequence[Row], axis: str) -> Scale:
    keys = (axis, f"{axis}_low", f"{axis}_high")
    ends = [r[key] for r in rows for key in keys if math.isfinite(r[key])] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    pad = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    return Scale(low - pad, high + pad)
