"""What a notebook shows for a result: the verdicts, then a small table in the notebook's own colors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.inference.display import small_table
from offpolicy.report.markup import esc
from offpolicy.report.text import cells, headings

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation

TONES = {"trust": "#2a9d5c", "caution": "#c98a12", "insufficient evidence": "#d6453d"}


def evaluation_html(evaluation: Evaluation) -> str:
    """The verdict on every policy, then the table of estimates."""
    verdicts = "".join(
        f'<div style="border-left:3px solid {TONES[v.level]};padding:.1em .7em;margin:.3em 0">'
        f"<b>{esc(name)}</b>: {esc(v.level)}<br>"
        f'<span style="opacity:.8">{"<br>".join(esc(r) for r in v.reasons)}</span></div>'
        for name, v in ((p, evaluation.verdict(p)) for p in evaluation.policies)
    )
    return verdicts + small_table(headings(0.95), cells(evaluation), left=2)
