"""The report: one HTML file that opens from disk, asks the network for nothing, and explains itself.

Vega, Vega-Lite and the page's own script stand in the file; a content security policy allows these two
scripts by their hashes and no other, so that a name from the data could not run even if it were not escaped.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from offpolicy._progress import track
from offpolicy.errors import UsageError, missing_dependency
from offpolicy.report import charts, panels, provenance, sections
from offpolicy.report.answer import answers, decision, question
from offpolicy.report.figures import count, percent
from offpolicy.report.markup import content_hash, esc, script_json, sentence, table
from offpolicy.report.segments import groupings
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.report.answer import Answer
    from offpolicy.report.sections import Charts, Section
    from offpolicy.report.segments import Column, Grouping

EVIDENCE = 7  # kinds of evidence shown for each policy
VERDICTS = {
    "trust": ("trust", "Trust"),
    "caution": ("caution", "Caution"),
    "insufficient evidence": ("insufficient", "Insufficient evidence"),
}


def write(
    evaluation: Evaluation,
    path: str | Path,
    *,
    segments: Sequence[Column] | Column | None = None,
    level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
) -> Path:
    """Write the report to ``path``; see `Evaluation.report`."""
    target = Path(path)
    if target.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"report() writes HTML: name the file .html. Got {str(path)!r} instead.")
    text = page(evaluation, segments=segments, level=level, title=title, command=command)
    target.write_text(text, encoding="utf-8")
    return target


def page(
    evaluation: Evaluation,
    *,
    segments: Sequence[Column] | Column | None = None,
    level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
) -> str:
    """The whole report as text."""
    drawn = sections.Charts()
    with track("writing the report", 4 + EVIDENCE * len(evaluation.policies)) as advance:
        grouped = groupings(evaluation, segments)
        found = answers(evaluation, level)
        advance(note="estimates")
        parts = [sections.estimates(evaluation, drawn, level)]
        advance(note="differences")
        parts.append(sections.differences(evaluation, drawn, level))
        advance(note="evidence")
        parts += _evidence(evaluation, found, grouped, drawn, level, advance)
        parts += [sections.checks(evaluation), _origin(evaluation, command)]
        advance()
    libraries, own = bundle(), _asset("report.js")
    policy = (
        f"default-src 'none'; script-src {content_hash(libraries)} {content_hash(own)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("report.html")).substitute(
        title=esc(title or f"Off-policy evaluation of {', '.join(evaluation.policies)}"),
        policy=policy,
        style=_asset("report.css"),
        subtitle=esc(title or "Off-policy evaluation"),
        about_log=esc(_about(evaluation)),
        question=sentence(question(evaluation)),
        hero=_hero(found[0]),
        others=_others(found, level),
        contents="".join(f'<li><a href="#{s.key}">{esc(s.title)}</a></li>' for s in parts),
        sections="".join(_section(s) for s in parts[:2]),
        picker=_picker(found),
        evidence="".join(_section(s) for s in parts[2:-2]),
        rest="".join(_section(s) for s in parts[-2:]),
        data=script_json({"config": charts.CONFIG, "charts": drawn.specs}),
        libraries=libraries,
        script=own,
    )


@cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise missing_dependency("vl-convert-python", "report", "ev.report()") from error
    make: Any = vl_convert.javascript_bundle  # its stub asks for an argument that has a default
    text: str = make()
    # The parser of HTML would end the element here; strings in JavaScript may escape the slash.
    return text.replace("</script", "<\\/script")


def _asset(name: str) -> str:
    return resources.files("offpolicy.report").joinpath("assets", name).read_text(encoding="utf-8")


def _about(evaluation: Evaluation) -> str:
    log = evaluation.problem.log
    noun = decision(log)
    parts = [f"{count(log.n)} {noun}s", f"{count(len(log.actions))} actions"]
    if log.batch_labels is not None:
        parts.append(f"{count(len(log.batch_labels))} batches")
    if log.cluster is not None:
        parts.append(f"clustered by {log.names.cluster}")
    known = (
        "logged" if evaluation.settings["behavior_model"] == "logged propensities" else "estimated"
    )
    parts.append(f"propensities {known}")
    return " · ".join(parts)


def _badge(level: str) -> str:
    key, word = VERDICTS[level]
    return f'<span class="badge {key}">{esc(word)}</span>'


def _hero(a: Answer) -> str:
    reasons = "".join(
        f'<li class="{esc(r.level)}">{esc(r.text)}'
        + (f" <span class=remedy>{esc(r.remedy)}</span>" if r.remedy else "")
        + "</li>"
        for r in a.reasons
    )
    tiles = "".join(
        f"<div><dt>{esc(label)}</dt><dd>{esc(number)}<small>{esc(remark)}</small></dd></div>"
        for label, number, remark in a.numbers
    )
    key = VERDICTS[a.level][0]
    return (
        f'<p class="answer">{sentence(a.sentence)}</p>'
        f'<dl class="strip">{tiles}</dl>'
        f'<section class="verdict {key}" aria-labelledby="verdict"><h2 id="verdict">Verdict '
        f"{_badge(a.level)}</h2><ul>{reasons}</ul></section>"
    )


def _others(found: list[Answer], level: float) -> str:
    """All policies side by side; nothing for a single one."""
    if len(found) == 1:
        return ""
    rows = [
        (a.policy, (VERDICTS[a.level][1], float(i)), a.cells[0], a.cells[1], a.cells[2], a.cells[3])
        for i, a in enumerate(found)
    ]
    headings = (
        "Policy",
        "Verdict",
        "Value",
        f"{percent(level)} interval",
        "Against the log",
        "A/B test",
    )
    body = table(
        headings,
        rows,
        caption="All policies",
        numeric=(2, 3, 4, 5),
        marked=(0,),
        classes="policies",
    )
    return f'<section id="policies" aria-label="All policies">{body}</section>'


def _section(s: Section) -> str:
    return (
        f'<section class="part" id="{s.key}" aria-labelledby="{s.key}-title">'
        f'<h2 id="{s.key}-title">{esc(s.title)}</h2><p class="about">{esc(s.about)}</p>{s.body}</section>'
    )


def _picker(found: list[Answer]) -> str:
    if len(found) == 1:
        return ""
    options = "".join(f'<option value="{i}">{esc(a.policy)}</option>' for i, a in enumerate(found))
    return (
        '<div class="picker"><label>Evidence about <select id="policy">'
        f"{options}</select></label></div>"
    )


def _evidence(
    ev: Evaluation,
    found: list[Answer],
    grouped: list[Grouping],
    drawn: Charts,
    level: float,
    advance: Callable[..., None],
) -> list[Section]:
    """Sections with one panel for each policy; a section that has nothing to show is left out."""
    views = {a.policy: View.of(ev.problem, ev.targets[a.policy]) for a in found}
    makers: list[tuple[str, str, str, Callable[[str, str], str]]] = [
        (
            "weights",
            "Importance weights",
            (
                "Each unit counts as often as the policy would have done what was logged there. The "
                "effective sample size is how many evenly weighted units would carry as much information."
            ),
            lambda p, tag: panels.weights(ev, p, views[p], drawn, tag),
        ),
        (
            "overlap",
            "Overlap by action",
            (
                "Where the policy often does what the log rarely shows, few rows speak for many. Beyond the "
                "actions that were logged, nothing does."
            ),
            lambda p, tag: panels.overlap(views[p], drawn, tag),
        ),
        (
            "horizon",
            "Weights step by step",
            (
                "Weights are products over the steps of an episode: the longer it lasts, the fewer episodes "
                "carry the estimate."
            ),
            lambda p, tag: panels.horizon(views[p], drawn, tag),
        ),
        (
            "batches",
            "Estimate over time",
            (
                "The mean score of the headline estimator inside each batch. A trend here means that the "
                "past may not speak for the future."
            ),
            lambda p, tag: panels.batches(ev, p, drawn, tag, level),
        ),
        (
            "segments",
            "Value by segment",
            (
                "The headline estimator inside groups of the context. Each interval stands alone: among many "
                "segments a few look unusual by chance."
            ),
            lambda p, tag: panels.segments(ev, p, grouped, drawn, tag, level),
        ),
        (
            "calibration",
            "Calibration of the models",
            "Predictions against what happened. On the diagonal, they are right on average.",
            lambda p, tag: panels.calibrations(views[p], drawn, tag, level),
        ),
        (
            "clipping",
            "Sensitivity to large weights",
            (
                "The estimate with weights cut off at ever lower values. Cutting trades variance for bias: "
                "an estimate that moves a lot hangs on few units."
            ),
            lambda p, tag: panels.clipping(views[p], drawn, tag, level),
        ),
    ]
    out: list[Section] = []
    for key, title, about, make in makers:
        bodies = []
        for i, a in enumerate(found):
            bodies.append(make(a.policy, str(i)))
            advance(note=title.lower())
        if any(bodies):
            inner = "".join(
                f'<div class="panel" data-policy="{i}">'
                + (f'<h3 class="whose">{esc(a.policy)}</h3>' if len(found) > 1 else "")
                + (body or "<p>Nothing to show for this policy.</p>")
                + "</div>"
                for i, (a, body) in enumerate(zip(found, bodies, strict=True))
            )
            out.append(sections.Section(key, title, about, inner))
    return out


def _origin(evaluation: Evaluation, command: str | None) -> Section:
    def listed(entries: dict[str, str]) -> str:
        inner = "".join(
            f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in entries.items()
        )
        return f'<dl class="facts">{inner}</dl>'

    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    identity = {"SHA-256 of the inputs": provenance.input_hash(evaluation), "report made": made}
    body = (
        f"<h3>To reproduce</h3><pre tabindex=0><code>{esc(command or provenance.command(evaluation))}"
        f"</code></pre>{listed(identity)}"
        f"<h3>Settings</h3>{listed(provenance.settings(evaluation))}"
        f"<h3>Versions</h3>{listed(provenance.versions())}"
    )
    about = "The same inputs, settings and versions give the same numbers."
    return sections.Section("origin", "Where this comes from", about, body)
