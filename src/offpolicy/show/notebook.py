"""What a notebook shows for results: verdicts, checks and comparisons in the notebook's own colors, escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.inference.figures import capitalized, small_table
from offpolicy.show.answer import answers
from offpolicy.show.markup import sentence
from offpolicy.show.text import cells, headings, metrics_line
from offpolicy.trust.display import TONES, bar

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation


def evaluation_html(evaluation: Evaluation) -> str:
    """The answer about every policy with its verdict, then the table of estimates."""
    said = "".join(
        bar(TONES[a.level], f"<b>{esc(capitalized(a.level))}</b> {sentence(a.sentence)}", [r.text for r in a.reasons])
        for a in answers(evaluation)
    )
    about = metrics_line(evaluation)
    lead = f"<p>{esc(about)}</p>" if about else ""
    return lead + said + small_table(headings(0.95), cells(evaluation), left=2)
