"""The report: one HTML file that opens from disk, asks the network for nothing, and explains itself.

Every text is escaped. Pictures are SVG that is drawn here, so that they need no script; the page's own script sorts,
hovers and picks. A content security policy allows it by its hash and no other, so that a name from the data could not
run even if it were not escaped. Underlined words are explained on hover and focus, and in a list at the end.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from offpolicy import _document as blocks
from offpolicy._output import write_text
from offpolicy._progress import track
from offpolicy._visible import esc
from offpolicy.errors import UsageError
from offpolicy.inference.figures import capitalized, count, level_text, small_table
from offpolicy.logs.kinds import unit_word
from offpolicy.show.answer import answers, choice, question
from offpolicy.show.document import Document, parts
from offpolicy.show.svg import drawing
from offpolicy.show.text import cells, headings, metrics_line
from offpolicy.show.words import ESTIMATORS, TITLES, VERDICTS, WORDS
from offpolicy.trust.finding import TONES, bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpolicy._document import Block, Cell, Section
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.answer import Answer, Fragment, Reason
    from offpolicy.trust.gate import GateResult

MARKED = re.compile(r"\[(\w+)\|([^\]]+)\]")


# -- words ----------------------------------------------------------------------------------------------------------


def sentence(fragments: Iterable[Fragment]) -> str:
    """Fragments with their emphasis."""
    tags = {"text": "{}", "strong": "<strong>{}</strong>", "name": '<span class="name">{}</span>'}
    return "".join(tags[kind].format(esc(text)) for text, kind in fragments)


def term(key: str, text: str | None = None) -> str:
    """A word that explains itself on hover, focus and touch."""
    shown = WORDS[key][0] if text is None else text
    return f'<button type="button" class="term" aria-describedby="word-{key}">{esc(shown)}</button>'


def explained(text: str) -> str:
    """A text whose words in brackets explain themselves: "[weight|weights]"."""

    def word(match: re.Match[str]) -> str:
        key, shown = match.groups()
        return term(key, html.unescape(shown)) if key in WORDS else match.group()

    return MARKED.sub(word, esc(text))


# -- blocks ---------------------------------------------------------------------------------------------------------


def _table(t: blocks.Table, _: str = "") -> str:
    """A table whose columns sort at the press of a button.

    Where it is stacked on narrow screens, each cell carries its column's heading, which is then shown beside it instead
    of above. Closing tags that HTML does not need are left out: reports of many policies hold thousands of cells.
    """
    kinds = list(t.kinds) or [""] * len(t.rows)

    def cell(j: int, content: Cell | str) -> str:
        text, value = content if isinstance(content, tuple) else (content, None)
        key = "" if value is None or math.isnan(value) else f' data-value="{value:.6g}"'
        label = f' data-label="{esc(t.headings[j])}"' if t.stacks else ""
        return f"<{'td' if j else 'th scope=row'}{key}{label}>{esc(text)}"

    body = "".join(
        (f'<tr class="{esc(kind)}">' if kind else "<tr>") + "".join(cell(j, content) for j, content in enumerate(row))
        for kind, row in zip(kinds, t.rows, strict=True)
    )
    head = "".join(
        f'<th scope="col"><button type="button" class="sort">{esc(text)}</button></th>' for text in t.headings
    )
    if t.stacks:  # stacking would cost them their meaning as tables
        for element, role in (("tr", "row"), ("td", "cell"), ("tbody", "rowgroup")):
            body = body.replace(f"<{element}", f'<{element} role="{role}"')
        body = body.replace("<th scope=row", '<th scope=row role="rowheader"')
    table = (
        f'<div class="scroll"><table class="sortable words{t.words} {t.stacks}" data-words="{t.words}">'
        f"<caption>{esc(t.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return _folded(t.folds, table) if t.folds else table


def _folded(summary: str, inner: str) -> str:
    return f'<details class="numbers"><summary>{esc(summary)}</summary>{inner}</details>'


def _tiles(f: blocks.Figures, _: str = "") -> str:
    """Large numbers side by side; what should not be relied on is gray and says so."""

    def tile(f: blocks.Figure) -> str:
        label = term(TITLES[f.label]) if f.label in TITLES else esc(f.label)
        kind = ' class="doubtful"' if f.doubtful else ""
        note = "do not rely on this" if f.doubtful else f.remark
        return f"<div{kind}><dt>{label}</dt><dd>{esc(f.number)}<small>{esc(note)}</small></dd></div>"

    return f'<dl class="strip">{"".join(map(tile, f.figures))}</dl>'


def _paragraph(p: blocks.Paragraph, _: str = "") -> str:
    kind = f' class="{p.kind}"' if p.kind else ""
    return f"<p{kind}>{explained(p.text)}</p>"


def _facts(f: blocks.Facts, _: str = "") -> str:
    inner = "".join(f"<div><dt>{esc(k)}</dt><dd>{esc(v)}</dd></div>" for k, v in f.entries.items())
    return (f"<h3>{esc(f.title)}</h3>" if f.title else "") + f'<dl class="facts">{inner}</dl>'


def _code(c: blocks.Code, _: str = "") -> str:
    if c.folds:
        return f"<details><summary>{esc(c.title)}</summary><pre>{esc(c.text)}</pre></details>"
    return f"<h3>{esc(c.title)}</h3><pre tabindex=0><code>{esc(c.text)}</code></pre>"


def _markup(m: blocks.Markup, tag: str = "") -> str:
    return _chart(m.key + tag, f'<div style="overflow-x:auto">{m.html}</div>', m.about, m.table)


def _picture(p: blocks.Picture, tag: str = "") -> str:
    """A picture with its controls, its legend, and its numbers as a table."""
    choices = [("Order", "order", p.orders)] if p.orders else [("Height", "measure", p.measures)] if p.measures else []
    tools = ""
    for label, role, options in choices:
        inner = "".join(f'<option value="{esc(v)}">{esc(text)}</option>' for v, text in options)
        select = f'{esc(label)} <select data-role="{role}">{inner}</select>'
        tools = f'<div class="tools">{_chips(p.names)}<label class="choice">{select}</label></div>'
    keys = "".join(f'<li><span class="key {k}"></span>{esc(text)}</li>' for k, text in p.legend)
    above = tools + (f'<ul class="legend">{keys}</ul>' if keys else "")
    chart = _chart(p.key + tag, drawing(p), p.about, p.table, above)
    return f'<div class="narrow">{chart}</div>' if p.is_square else chart


def _chips(names: Sequence[str]) -> str:
    """Names that can be switched off; those of estimators explain themselves."""
    if not names:
        return ""
    inner = ""
    for name in names:
        described = f' aria-describedby="word-{esc(name)}"' if name in ESTIMATORS else ""
        inner += f'<button type="button" class="chip" aria-pressed="true"{described}>{esc(name)}</button>'
    return f'<div class="chips" role="group" aria-label="Estimators shown">{inner}</div>'


def _chart(name: str, drawn: str, about: str, table: blocks.Table | None, above: str = "") -> str:
    numbers = "" if table is None else _folded("Show the numbers", _table(table))
    return (
        f'<figure class="chart">{above}<div class="plot" id="chart-{esc(name)}" role="img" '
        f'aria-label="{esc(about)}">{drawn}</div>{numbers}</figure>'
    )


DRAWERS: dict[type, Callable[[Any, str], str]] = {
    blocks.Paragraph: _paragraph,
    blocks.Figures: _tiles,
    blocks.Facts: _facts,
    blocks.Code: _code,
    blocks.Markup: _markup,
    blocks.Table: _table,
    blocks.Picture: _picture,
}


def drawn(body: Sequence[Block], tag: str = "") -> str:
    """Blocks as HTML; ``tag`` tells pictures of several policies apart."""
    return "".join(DRAWERS[type(block)](block, tag) for block in body)


def _section(key: str, title: str, about: str, body: str) -> str:
    how = f'<p class="about">{explained(about)}</p>' if about else ""
    return (
        f'<section class="part" id="{esc(key)}" aria-labelledby="{esc(key)}-title">'
        f'<h2 id="{esc(key)}-title">{esc(title)}</h2>{how}{body}</section>'
    )


# -- the page -------------------------------------------------------------------------------------------------------


def write(evaluation: Evaluation, path: str | Path, **asked: Any) -> Path:
    """Write the report to ``path``; see `Evaluation.report`."""
    target = Path(path)
    if target.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"report() writes HTML, so the file name must end in .html. Got {str(path)!r} instead.")
    write_text(target, page(evaluation, **asked))
    return target


def page(evaluation: Evaluation, **asked: Any) -> str:
    """The whole report as text; ``asked`` are fields of a `Document`."""
    document = Document(evaluation, **asked)
    with track("writing the report", 3 + len(parts("page", "evidence")) * len(evaluation.policies)) as advance:
        ordered = document.answers
        advance(note="estimates")
        own = [] if document.decision is None else document.decision.sections()
        own += [each(evaluation) if callable(each) else each for each in document.sections]
        first = list(map(_drawn, [*own, *document.about_all("page", "all")]))
        advance(note="evidence")
        evidence = [
            (part.key, part.title, part.about, _panels(ordered, [drawn(b, f"-{i}") for i, b in enumerate(bodies)]))
            for part, bodies in document.evidence("page", advance)
        ]
        words = ("words", "Glossary", "Underlined terms above show the same definitions.", _glossary(evaluation))
        rest = [*map(_drawn, document.about_all("page", "end")), words, _drawn(document.origin())]
        advance()
    script = _asset("report.js")
    policy = (
        f"default-src 'none'; script-src {content_hash(script)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    everything = [*first, *evidence, *rest]
    return Template(_asset("report.html")).substitute(
        title=esc(document.title or f"Off-policy evaluation of {', '.join(evaluation.policies)}"),
        policy=policy,
        style=_asset("report.css"),
        subtitle=esc(document.title or "Off-policy evaluation"),
        about_log=esc(_about(evaluation)),
        question=sentence(question(evaluation)),
        hero=_hero(document) + _gates(document.gates),
        others=_others(ordered, document.level),
        contents="".join(f'<li><a href="#{esc(key)}">{esc(title)}</a></li>' for key, title, *_ in everything),
        sections="".join(_section(*each) for each in first),
        picker=_picker(ordered),
        evidence="".join(_section(*each) for each in evidence),
        rest="".join(_section(*each) for each in rest),
        script=script,
    )


def _drawn(s: Section) -> tuple[str, str, str, str]:
    return s.key, s.title, s.about, drawn(s.body)


def _asset(name: str) -> str:
    return resources.files("offpolicy.show").joinpath("assets", name).read_text(encoding="utf-8")


def _about(evaluation: Evaluation) -> str:
    log = evaluation.problem.log
    parts = [f"{count(log.n)} {unit_word(log, plural=True)}", log.space.described(log.names.action)]
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


def _hero(document: Document) -> str:
    a = document.answers[0]
    first = choice(document.ev, document.answers, document.level)
    about = f" on {esc(a.policy)}" if len(document.answers) > 1 else ""
    key = a.level.split()[0]
    return (
        (f'<p class="answer">{sentence(first)}</p>' if first else "")
        + f'<p class="answer{" second" if first else ""}">{sentence(a.sentence)}</p>'
        + f'<p class="basis">{esc(a.basis)}</p>{_tiles(blocks.Figures(a.numbers))}'
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
    kinds = ["doubtful" if a.is_refused else "lead" if i == 0 else "" for i, a in enumerate(ordered)]
    body = _table(blocks.Table(headings, rows, "All policies", words=2, kinds=kinds, stacks="policies"))
    note = (
        f"Intervals are {term('together', 'corrected')} for comparing {len(ordered)} policies: they all hold with "
        f"{level_text(level)} probability."
    )
    if any(a.is_refused for a in ordered):
        note += " Do not rely on numbers in gray."
    return f'<section id="policies" aria-label="All policies">{body}<p class="about">{note}</p></section>'


def _picker(ordered: list[Answer]) -> str:
    if len(ordered) == 1:
        return ""
    options = "".join(f'<option value="{i}">{esc(a.policy)}</option>' for i, a in enumerate(ordered))
    return f'<div class="picker"><label>Evidence about <select id="policy">{options}</select></label></div>'


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


def _glossary(ev: Evaluation) -> str:
    """All words, and the estimators of this report."""
    entries = [(key, word, meaning) for key, (word, meaning) in WORDS.items()]
    entries += [(e.name, e.name, ESTIMATORS[e.name]) for e in ev.estimators if e.name in ESTIMATORS]
    inner = "".join(
        f'<div><dt>{esc(word)}</dt><dd id="word-{esc(key)}">{esc(meaning)}</dd></div>' for key, word, meaning in entries
    )
    return f'<dl class="facts">{inner}</dl>'


def content_hash(script: str) -> str:
    """What a content security policy allows an inline script by."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def evaluation_html(evaluation: Evaluation) -> str:
    """The answer about every policy with its verdict, then the table of estimates."""
    said = "".join(
        bar(TONES[a.level], f"<b>{esc(capitalized(a.level))}</b> {sentence(a.sentence)}", [r.text for r in a.reasons])
        for a in answers(evaluation)
    )
    about = metrics_line(evaluation)
    lead = f"<p>{esc(about)}</p>" if about else ""
    return lead + said + small_table(headings(0.95), cells(evaluation), left=2)
