"""A result as Markdown, for a pull request or the summary of a pipeline's step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from offpolicy.report.answer import answers
from offpolicy.report.provenance import digest, versions
from offpolicy.report.text import best_of, cells, headings
from offpolicy.report.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.trust.gate import GateResult

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
MARKS = {"passed": "✅", "failed": "❌", "not enough evidence": "⚠️"}


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> escaped("a|b <b>")
    'a\\|b \\<b\\>'
    """
    return SPECIAL.sub(r"\\\1", visible(text))


def markdown(
    evaluation: Evaluation,
    level: float = 0.95,
    gates: Sequence[GateResult] = (),
    *,
    title: str | None = None,
) -> str:
    """Answer, gates, estimates and origin of a result."""
    lines = [f"## {escaped(title or 'Off-policy evaluation')}", ""]
    if gates:
        lines += ["| gate | result | why |", "|---|---|---|"]
        lines += [
            f"| `{visible(g.expression).replace('|', '/').replace('`', ' ')}` | {MARKS[g.outcome]} {g.outcome} "
            f"| {escaped(g.sentence)} |"
            for g in gates
        ]
        lines.append("")
    for answer in answers(evaluation, level):
        lines.append(f"- **{escaped(answer.policy)}: {answer.level}.** {escaped(answer.text)}")
        lines += [
            f"    - {escaped(f'{reason.text} {reason.remedy}'.strip())}"
            for reason in answer.reasons
            if reason.level != "ok"
        ]
    best = best_of(evaluation, level)
    lines += ["", escaped(best)] if best else []
    head = headings(level)
    lines += ["", "<details><summary>Estimates</summary>", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in cells(evaluation, level)]
    lines += ["", "</details>", "", f"Log digest `{digest(evaluation)}`, "]
    lines[-1] += f"offpolicy {versions()['offpolicy']}."
    if evaluation.origin is not None and evaluation.origin.command:
        command = visible(evaluation.origin.command).replace("```", "` ` `")
        lines += ["", "```", command, "```"]
    return "\n".join(lines) + "\n"
