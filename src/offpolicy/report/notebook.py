"""What a notebook shows for a result: a small table that takes on the notebook's own colors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.report.figures import count, measured, plain
from offpolicy.report.markup import esc
from offpolicy.report.text import cells, headings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate

NUMBER = ' style="text-align:right;font-variant-numeric:tabular-nums"'
TEXT = ' style="text-align:left"'
TONES = {"trust": "#2a9d5c", "caution": "#c98a12", "insufficient evidence": "#d6453d"}


def evaluation_html(evaluation: Evaluation) -> str:
    """The verdict on every policy, then the table of estimates."""
    verdicts = "".join(
        f'<div style="border-left:3px solid {TONES[v.level]};padding:.1em .7em;margin:.3em 0">'
        f"<b>{esc(name)}</b>: {esc(v.level)}<br>"
        f'<span style="opacity:.8">{"<br>".join(esc(r) for r in v.reasons)}</span></div>'
        for name, v in ((p, evaluation.verdict(p)) for p in evaluation.policies)
    )
    return verdicts + _table(headings(0.95), cells(evaluation), left=2)


def estimate_html(e: Estimate, level: float = 0.95) -> str:
    """One estimate as a row."""
    low, high = e.interval(level)
    interval = (
        f"{measured(low, e.std_error)} to {measured(high, e.std_error)}"
        if e.is_defined
        else "not identified"
    )
    headings = ("estimate", "value", "std error", f"{100 * level:g}% interval", "n")
    row = (
        e.label,
        measured(e.value, e.std_error),
        plain(e.std_error, 2),
        interval,
        count(e.n),
    )
    notes = "".join(f'<div style="opacity:.8">{esc(note)}</div>' for note in e.notes)
    return _table(headings, [row], left=1) + notes


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    def line(values: Sequence[str], tag: str) -> str:
        inner = "".join(
            f"<{tag}{TEXT if j < left else NUMBER}>{esc(v)}</{tag}>" for j, v in enumerate(values)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(line(r, "td") for r in rows)
    return f"<table><thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>"
