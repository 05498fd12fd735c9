"""What a notebook shows for verdicts and checks: escaped, in the notebook's own colors."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from offpolicy.inference.figures import capitalized, plain, small_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.trust.finding import Finding
    from offpolicy.trust.verdict import Verdict

TONES = {"trust": "#2a9d5c", "caution": "#c98a12", "insufficient evidence": "#d6453d"}
FIRST = {"alarm": 0, "caution": 1}


def bar(tone: str, head: str, lines: Sequence[str]) -> str:
    """A line of HTML and texts below it, beside a bar of a color."""
    inner = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return (
        f'<div style="border-left:3px solid {tone};padding:.1em .7em;margin:.4em 0">{head}'
        f'<ul style="margin:.2em 0;opacity:.8">{inner}</ul></div>'
    )


def verdict_html(verdict: Verdict) -> str:
    """The level, and why."""
    head = f"<b>{html.escape(capitalized(verdict.level))}</b>"
    return bar(TONES[verdict.level], head, verdict.reasons)


def findings_html(findings: Mapping[str, Finding]) -> str:
    """A table of checks, what was raised first."""
    ordered = sorted(findings.values(), key=lambda f: FIRST.get(f.level, 2))
    rows = [(f.name, f.level, f"{capitalized(f.sentence)} {f.remedy}".strip(), plain(f.value)) for f in ordered]
    return small_table(("check", "result", "finding", "value"), rows, left=3)
