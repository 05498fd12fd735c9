"""The report: one HTML file that opens from disk, asks the network for nothing, and explains itself.

Charts are SVG that is drawn here, so that they need no script; the page's own script sorts, hovers and picks. A
content security policy allows it by its hash and no other, so that a name from the data could not run even if it
were not escaped.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from offpolicy._output import write_text
from offpolicy._progress import track
from offpolicy._visible import esc
from offpolicy.errors import UsageError
from offpolicy.evaluation.shown import Section, Traffic
from offpolicy.inference.figures import capitalized, count, level_text
from offpolicy.show import metrics, panels, provenance, sections
from offpolicy.show.answer import actions_of, answers, choice, decision, question
from offpolicy.show.glossary import explained, listed, term, tiles
from offpolicy.show.markup import content_hash, sentence, table
from offpolicy.show.segments import groupings
from offpolicy.show.words import VERDICTS
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Decision
    from offpolicy.show.answer import Answer, Reason
    from offpolicy.show.segments import Column, Segments
    from offpolicy.trust.gate import GateResult


def write(
    evaluation: Evaluation,
    path: str | Path,
    *,
    segments: Sequence[Column] | Column | None = None,
    level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
    decision: Decision | None = None,
    gates: Sequence[GateResult] = (),
    traffic: str | None = None,
    sections: Sequence[Section | Callable[[Evaluation], Section]] = (),
) -> Path:
    """Write the report to ``path``; see `Evaluation.report`."""
    target = Path(path)
    if target.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"report() writes HTML: name the file .html. Got {str(path)!r} instead.")
    text = page(
        evaluation,
        segments=segments,
        level=level,
        title=title,
        command=command,
        decision=decision,
        gates=gates,
        traffic=traffic,
        own=sections,
    )
    write_text(target, text)
    return target


def page(
    evaluation: Evaluation,
    *,
    segments: Sequence[Column] | Column | None = None,
    level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
    decision: Decision | None = None,
    gates: Sequence[GateResult] = (),
    traffic: str | None = None,
    own: Sequence[Section | Callable[[Evaluation], Section]] = (),
) -> str:
    """The whole report as text."""
    with track("writing the report", 4 + len(panels.PANELS) * len(evaluation.policies)) as advance:
        grouped = groupings(evaluation, segments)
        ordered = answers(evaluation, level, None if traffic is None else Traffic.parse(traffic))
        advance(note="estimates")
        several = evaluation.asked.are_several and evaluation.is_whole
        parts = [] if decision is None else decision.sections()
        parts += [each(evaluation) if callable(each) else each for each in own]
        parts += [metrics.section(evaluation, level)] if several else []
        parts.append(sections.estimates(evaluation, level))
        advance(note="differences")
        parts.append(sections.differences(evaluation, level, ordered[0].policy))
        advance(note="evidence")
        first = len(parts)
        parts += _evidence(evaluation, ordered, grouped, level, advance)
        parts += [sections.checks(evaluation), _words(evaluation), _origin(evaluation, command)]
        advance()
    script = _asset("report.js")
    policy = (
        f"default-src 'none'; script-src {content_hash(script)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("report.html")).substitute(
        title=esc(title or f"Off-policy evaluation of {', '.join(evaluation.policies)}"),
        policy=policy,
        style=_asset("report.css"),
        subtitle=esc(title or "Off-policy evaluation"),
        about_log=esc(_about(evaluation)),
        question=sentence(question(evaluation)),
        hero=_hero(evaluation, ordered, level) + _gates(gates),
        others=_others(ordered, level),
        contents="".join(f'<li><a href="#{s.key}">{esc(s.title)}</a></li>' for s in parts),
        sections="".join(_section(s) for s in parts[:first]),
        picker=_picker(ordered),
        evidence="".join(_section(s) for s in parts[first:-3]),
        rest="".join(_section(s) for s in parts[-3:]),
        script=script,
    )


def _asset(name: str) -> str:
    return resources.files("offpolicy.show").joinpath("assets", name).read_text(encoding="utf-8")


def _about(evaluation: Evaluation) -> str:
    log = evaluation.problem.log
    noun = decision(log)
    parts = [f"{count(log.n)} {noun}s", actions_of(log)]
    if log.has_batches:
        batches = len(log.batch_labels)
        parts.append("1 batch" if batches == 1 else f"{count(batches)} batches")
    if log.has_clusters:
        parts.append(f"clustered by {log.names.cluster}")
    source = "logged" if evaluation.settings["behavior_model"] == "logged propensities" else "estimated"
    parts.append(f"propensities {source}")
    if evaluation.asked.are_several:
        parts.append(f"{len(evaluation.metrics)} metrics, this page: {evaluation.metric_name}")
    if evaluation.minimize:
        parts.append("lower is better")
    if "estimand" in evaluation.settings:
        parts.append(evaluation.settings["estimand"])
    return " · ".join(parts)


def _badge(level: str) -> str:
    return f'<span class="badge {level.split(maxsplit=1)[0]}">{VERDICTS[level]}</span>'


def _reason(r: Reason) -> str:
    remedy = f' <span class="remedy">{esc(r.remedy)}</span>' if r.remedy else ""
    return f'<li class="{esc(r.level)}">{esc(r.text)}{remedy}</li>'


def _behind(reasons: Sequence[Reason]) -> str:
    """The findings that the reasons rest on, with their numbers, behind a click."""
    inner = "".join(f"<li>{esc(text)}</li>" for r in reasons for text in r.behind)
    if not inner:
        return ""
    return f"<details><summary>Show the numbers behind this</summary><ul>{inner}</ul></details>"


def _hero(ev: Evaluation, ordered: list[Answer], level: float) -> str:
    a = ordered[0]
    first = choice(ev, ordered, level)
    about = f" on {esc(a.policy)}" if len(ordered) > 1 else ""
    key = a.level.split()[0]
    return (
        (f'<p class="answer">{sentence(first)}</p>' if first else "")
        + f'<p class="answer{" second" if first else ""}">{sentence(a.sentence)}</p>'
        + f'<p class="basis">{esc(a.basis)}</p>{tiles(a.numbers)}'
        + f'<section class="verdict {key}" aria-labelledby="verdict"><h2 id="verdict">{term("verdict")}'
        + f"{about} {_badge(a.level)}</h2><ul>{''.join(map(_reason, a.reasons))}</ul>"
        + f"{_behind(a.reasons)}</section>"
    )


def _gates(gates: Sequence[GateResult]) -> str:
    """Every gate with its outcome, right under the answer; nothing where none was asked for."""
    if not gates:
        return ""
    kinds = {"passed": "trust", "failed": "insufficient", "not enough evidence": "caution"}
    rows = "".join(
        f'<li><span class="badge {kinds[g.outcome]}">{capitalized(g.outcome)[:-1]}</span> '
        f"<code>{esc(g.expression)}</code><br>{esc(g.why)}</li>"
        for g in gates
    )
    title = "Gate" if len(gates) == 1 else "Gates"
    return (
        f'<section class="verdict gates" aria-labelledby="gates"><h2 id="gates">{term("gate", title)}</h2>'
        f"<ul>{rows}</ul></section>"
    )


def _others(ordered: list[Answer], level: float) -> str:
    """All policies side by side; nothing for a single one."""
    if len(ordered) == 1:
        return ""
    rows = [(a.policy, (VERDICTS[a.level], float(i)), *a.cells) for i, a in enumerate(ordered)]
    headings = ("Policy", "Verdict", "Value", f"{level_text(level)} interval", "Against the current policy", "A/B test")
    body = table(
        headings,
        rows,
        caption="All policies",
        words=2,
        rows_classes=["doubtful" if a.is_refused else "lead" if i == 0 else "" for i, a in enumerate(ordered)],
        classes="policies",
    )
    note = (
        f"Intervals are {term('together', 'corrected')} for comparing {len(ordered)} policies: they all hold with "
        f"{level_text(level)} probability."
    )
    if any(a.is_refused for a in ordered):
        note += " Do not rely on numbers in gray."
    return f'<section id="policies" aria-label="All policies">{body}<p class="about">{note}</p></section>'


def _section(s: Section) -> str:
    return (
        f'<section class="part" id="{s.key}" aria-labelledby="{s.key}-title">'
        f'<h2 id="{s.key}-title">{esc(s.title)}</h2><p class="about">{explained(s.about)}</p>{s.body}</section>'
    )


def _picker(ordered: list[Answer]) -> str:
    if len(ordered) == 1:
        return ""
    options = "".join(f'<option value="{i}">{esc(a.policy)}</option>' for i, a in enumerate(ordered))
    return f'<div class="picker"><label>Evidence about <select id="policy">{options}</select></label></div>'


def _evidence(
    ev: Evaluation, ordered: list[Answer], grouped: list[Segments], level: float, advance: Callable[..., None]
) -> list[Section]:
    """Sections with one panel for each policy; a section that has nothing to show is left out."""
    subjects = [
        panels.Subject(ev, a.policy, View.of(ev.problem, ev.targets[a.policy]), grouped, str(i), level)
        for i, a in enumerate(ordered)
    ]
    out: list[Section] = []
    for key, title, about, make in panels.PANELS:
        bodies = []
        for subject in subjects:
            bodies.append(make(subject))
            advance(note=title.lower())
        if any(bodies):
            out.append(Section(key, title, about, _panels(ordered, bodies)))
    return out


def _panels(ordered: list[Answer], bodies: list[str]) -> str:
    """One panel for each policy; a single one where all would show the same."""
    alike = {re.sub(r'(id="chart-\w+)-\d+"', r"\1", body) for body in bodies}
    if len(alike) == 1:
        note = '<p class="about">The same for every policy.</p>' if len(bodies) > 1 else ""
        return f'<div class="panel">{note}{bodies[0]}</div>'
    return "".join(
        f'<div class="panel" data-policy="{i}"><h3 class="whose">{esc(a.policy)}</h3>'
        + (body or "<p>Nothing to show for this policy.</p>")
        + "</div>"
        for i, (a, body) in enumerate(zip(ordered, bodies, strict=True))
    )


def _words(ev: Evaluation) -> Section:
    about = "Underlined terms above show the same definitions."
    return Section("words", "Glossary", about, listed(e.name for e in ev.estimators))


def _facts(entries: dict[str, str]) -> str:
    inner = "".join(f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in entries.items())
    return f'<dl class="facts">{inner}</dl>'


def _origin(ev: Evaluation, command: str | None) -> Section:
    origin = ev.origin
    identity = {"digest of the log": provenance.digest(ev)}
    if origin is not None:
        asked = {"files": ", ".join(origin.paths), "evaluated": origin.made}
        identity |= {key: value for key, value in asked.items() if value}
        command = command or origin.command
    identity["report made"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = (
        f"<h3>To reproduce</h3><pre tabindex=0><code>{esc(command or provenance.command(ev))}"
        f"</code></pre>{_facts(identity)}"
        f"<h3>Settings</h3>{_facts(provenance.settings(ev))}"
        f"<h3>Versions</h3>{_facts(provenance.versions())}"
    )
    about = "The same inputs, settings and versions give the same numbers."
    return Section("origin", "Where this comes from", about, body)
