"""What a notebook shows for an estimate: a small table that takes on the notebook's own colors."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from offpolicy.inference.figures import count, level_text, measured, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.inference.pareto import Pareto

NUMBER = ' style="text-align:right;font-variant-numeric:tabular-nums"'
TEXT = ' style="text-align:left"'


def estimate_html(e: Estimate, level: float = 0.95) -> str:
    """One estimate as a row, its notes below."""
    headings = ("estimate", "value", "std error", f"{level_text(level)} interval", "n")
    row = (e.label, measured(e.value, e.std_error), plain(e.std_error, 2), reach_of(e, level), count(e.n))
    notes = "".join(f'<div style="opacity:.8">{html.escape(note)}</div>' for note in e.notes)
    return small_table(headings, [row], left=1) + notes


def comparison_html(c: Comparison) -> str:
    """Which policy may be the best, then every policy with intervals that hold together."""
    rows = [
        (name, _ends(value), _ends(c.differences[name]), plain(c.p_values[name], 2)) for name, value in c.values.items()
    ]
    kind = f"{level_text(c.level)} interval"
    head = ("policy", f"value, {kind}", f"against the current policy, {kind}", "adjusted p")
    said = f"<p><b>{html.escape(c.best.statement)}</b></p>"
    note = "<div>The intervals of a column hold together.</div>"
    return said + small_table(head, rows, left=1) + note


def pareto_html(p: Pareto) -> str:
    """Policies by metrics, and who is shown to be worse than another in all of them."""
    rows = [(policy, *(" · ".join(p.cell(policy, metric)) for metric in p.metrics)) for policy in p.policies]
    head = ("policy", *(f"{m} ({'lower' if m in p.minimized else 'higher'} is better)" for m in p.metrics))
    said = f"<p><b>{html.escape(p.statement)}</b></p>"
    note = f"<div>All {level_text(p.level)} intervals hold together.</div>"
    return said + small_table(head, rows, left=1) + note


def _ends(interval: Interval) -> str:
    if not interval.sufficient:
        return "refused"
    return f"{plain(interval.low, 4)} to {plain(interval.high, 4)}"


def reach_of(e: Estimate, level: float) -> str:
    """The interval of an estimate in words, with the digits that its standard error supports."""
    return interval_text(e, e.interval(level))


def interval_text(e: Estimate, interval: Interval) -> str:
    """An interval of an estimate in words."""
    if not e.is_defined:
        return "not identified"
    if not interval.sufficient:
        return "refused"
    low, high = interval
    return f"{measured(low, e.std_error)} to {measured(high, e.std_error)}"


def small_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """An HTML table of escaped texts whose first ``left`` columns are words and the others numbers.

    >>> small_table(["a"], [["<b>"]], left=0).count("&lt;b&gt;")
    1
    """

    def line(values: Sequence[str], tag: str) -> str:
        inner = "".join(f"<{tag}{TEXT if j < left else NUMBER}>{html.escape(v)}</{tag}>" for j, v in enumerate(values))
        return f"<tr>{inner}</tr>"

    body = "".join(line(r, "td") for r in rows)
    return f"<table><thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>"


def align(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """Columns of text, the first two to the left, ``numbers`` to the right."""
    widths = [max(len(r[j]) for r in (headings, *rows)) for j in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = [
            c.ljust(w) if j < 2 or not numbers else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    rule = "  ".join("─" * w for w in widths)
    return "\n".join([line(headings), rule, *(line(r) for r in rows)])
