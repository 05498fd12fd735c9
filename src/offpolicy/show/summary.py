"""A result as Markdown, for a pull request or the summary of a pipeline's step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from offpolicy._visible import visible
from offpolicy.evaluation.shown import Traffic
from offpolicy.inference.figures import level_text, plain
from offpolicy.show.answer import answers
from offpolicy.show.provenance import digest, versions
from offpolicy.show.sections import gap
from offpolicy.show.segments import segment_rows
from offpolicy.show.text import best_of, cells, direction, headings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.segments import Column
    from offpolicy.trust.gate import GateResult

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
MARKS = {"passed": "✅", "failed": "❌", "not enough evidence": "⚠️"}


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> escaped("a|b <b>")
    'a\\|b \\<b\\>'
    """
    return SPECIAL.sub(r"\\\1", visible(text))


def _metric(ev: Evaluation, level: float, traffic: str | None) -> list[str]:
    """Answers and estimates by one metric; under its name, where there are several."""
    lines = []
    if ev.asked.are_several:
        lines += [f"### {escaped(ev.metric_name)} ({direction(ev)})", ""]
    for answer in answers(ev, level, None if traffic is None else Traffic.parse(traffic)):
        lines.append(f"- **{escaped(answer.policy)}: {answer.level}.** {escaped(answer.text)}")
        lines += [
            f"    - {escaped(f'{reason.text} {reason.remedy}'.strip())}"
            for reason in answer.reasons
            if reason.level != "ok"
        ]
    best = best_of(ev, level)
    lines += ["", escaped(best)] if best else []
    lines += ["", "<details><summary>Estimates</summary>", ""]
    return [*lines, *_table(headings(level), cells(ev, level)), "", "</details>", ""]


def _pareto(ev: Evaluation, level: float) -> list[str]:
    """Policies by metrics."""
    found = ev.pareto(level)
    rows = [
        (
            policy,
            *(f"{value} ({ends})" for value, ends in (found.cell(policy, m) for m in found.metrics)),
            ", ".join(found.dominated.get(policy, ())) or "none",
        )
        for policy in found.policies
    ]
    head = ["policy", *map(escaped, found.metrics), "worse in every metric than"]
    return [*_table(head, rows), "", escaped(found.statement)]


def _segments(ev: Evaluation, columns: Sequence[Column] | Column, level: float) -> list[str]:
    """Every policy inside groups of rows."""
    rows = [
        (
            r["policy"],
            f"{r['column']}: {r['segment']}",
            plain(r["value"]),
            plain(r["logged"]),
            gap(r["difference"], r["difference_low"], r["difference_high"], r["value"] / 100),
            f"{r['n']:,}",
        )
        for r in segment_rows(ev, columns, level=level)
    ]
    head = ("policy", "segment", "value", "current policy", "difference", "n")
    note = f"The {level_text(level)} intervals of a policy hold together."
    return [*_table(head, rows), "", note]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]


def markdown(
    evaluation: Evaluation,
    level: float = 0.95,
    gates: Sequence[GateResult] = (),
    *,
    title: str | None = None,
    segments: Sequence[Column] | Column | None = None,
    traffic: str | None = None,
) -> str:
    """Answer, gates, segments, estimates and origin of a result."""
    lines = [f"## {escaped(title or 'Off-policy evaluation')}", ""]
    if gates:
        lines += ["| gate | result | why |", "|---|---|---|"]
        lines += [
            f"| `{visible(g.expression).replace('|', '/').replace('`', ' ')}` | {MARKS[g.outcome]} {g.outcome} "
            f"| {escaped(g.why)} |"
            for g in gates
        ]
        lines.append("")
    for name in evaluation.metrics if evaluation.is_whole else [evaluation.metric_name]:
        lines += _metric(evaluation.metric(name), level, traffic)
    if segments is not None:
        lines += ["### By segment", "", *_segments(evaluation, segments, level), ""]
    if evaluation.asked.are_several and evaluation.is_whole:
        lines += ["### All metrics", "", *_pareto(evaluation, level), ""]
    lines.append(f"Log digest `{digest(evaluation)}`, ")
    lines[-1] += f"offpolicy {versions()['offpolicy']}."
    if evaluation.origin is not None and evaluation.origin.command:
        command = visible(evaluation.origin.command).replace("```", "` ` `")
        lines += ["", "```", command, "```"]
    return "\n".join(lines) + "\n"
