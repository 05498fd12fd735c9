"""Results as plain text, Markdown and LaTeX: verdicts first, then the table of estimates, then how it was made."""

from __future__ import annotations

import math
import re
import textwrap
from typing import TYPE_CHECKING, Any

from offpolicy._document import Code, Facts, Figures, Markup, Paragraph, Picture, Table
from offpolicy._progress import track
from offpolicy._visible import visible
from offpolicy.errors import NotIdentifiedError
from offpolicy.inference.comparison import change
from offpolicy.inference.figures import align, level_text, plain, plural_of
from offpolicy.logs.kinds import unit_word
from offpolicy.logs.log import DETAIL
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.show.answer import answers, best_policies
from offpolicy.show.document import Document, digest, versions
from offpolicy.show.parts import gap
from offpolicy.show.segments import segment_rows
from offpolicy.show.tables import number_of_clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from offpolicy._document import Block
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.show.segments import Column
    from offpolicy.trust.gate import GateResult

HEADINGS = ("policy", "estimator", "value", "std error", "{level} interval", "vs current", "n")
WIDTH = 100


def number(value: float, digits: int = 4) -> str:
    """A number for people: significant digits, no trailing noise, a dash for what is not defined.

    >>> number(0.0213456), number(float("nan")), number(1234567.0)
    ('0.02135', '—', '1.235e+06')
    """
    return "—" if math.isnan(value) else f"{value:.{digits}g}"


def cells(evaluation: Evaluation, level: float = 0.95) -> list[tuple[str, ...]]:
    """The result as rows of text."""
    logged = evaluation.logged
    rows = [((LOGGING_POLICY, "mean"), logged), *((key, evaluation[key]) for key in _keys(evaluation))]
    out: list[tuple[str, ...]] = []
    with track("intervals", len(rows)) as advance:
        for names, e in rows:
            texts = (
                *(visible(name) for name in names),
                number(e.value),
                *_spread(e, level, counted=e is logged),
                _against(e, logged, level),
                f"{e.n:,}",
            )
            out.append(texts)
            advance()
    return out


def _spread(e: Estimate, level: float, *, counted: bool) -> tuple[str, str]:
    """Standard error and interval; estimates whose scores do not vary at all are no certainty, counted means are."""
    interval = e.interval(level)
    tiny = 1e-12 * (1 + abs(e.value))
    if e.std_error > tiny or counted:
        return number(e.std_error, 2), _interval(interval)
    return "—", _interval(interval) if interval.high - interval.low > 4 * tiny else "not stated"


def _against(e: Estimate, logged: Estimate, level: float) -> str:
    """A lift in percent, or the difference where the logged value is no base for one."""
    if e is logged or not e.is_defined:
        return ""
    against = change(e, logged, level)
    value, (low, high) = against.estimate.value, against.interval
    ends = f"[{low:+.3g}, {high:+.3g}]"
    if against.is_lift:
        ends = f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    size = f"{100 * value:+.1f}%" if against.is_lift else f"{value:+.3g}"
    return f"{size} {ends}" if against.interval.sufficient else f"{size} (refused)"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "no estimate"
    if not interval.sufficient:
        return "refused"
    return f"[{number(interval.low)}, {number(interval.high)}]"


def notes_of(evaluation: Evaluation, level: float) -> list[str]:
    """Refused intervals and notes of estimates, each said once, with the estimates that it is about."""
    subjects: dict[str, list[str]] = {}
    for e in evaluation.estimates.values():
        interval = e.interval(level) if e.is_defined else None
        texts = [] if interval is None or interval.sufficient else [f"no interval: {interval.reason}"]
        texts += filter(None, map(_for_readers, e.notes))
        for text in texts:
            subjects.setdefault(text, []).append(e.label)
    total = len(evaluation.estimates)
    return [
        f"{'all estimates' if len(labels) == total > 1 else ', '.join(labels)}: {text}"
        for text, labels in subjects.items()
    ]


def _for_readers(note: str) -> str:
    """A note without its details for authors."""
    return "; ".join(part for part in note.split("; ") if not part.startswith(DETAIL))


def headings(level: float) -> tuple[str, ...]:
    """Headings of the table of estimates, with the level of its intervals."""
    return tuple(h.format(level=level_text(level)) for h in HEADINGS)


def best_of(evaluation: Evaluation, level: float = 0.95) -> str:
    """Which of several policies is the best, or that the log cannot tell them apart; empty for a single one.

    The interval of the leader is one that holds although it was chosen.
    """
    if len(evaluation.policies) < 2:
        return ""
    try:
        comparison = evaluation.compare(level)
    except NotIdentifiedError as error:
        return str(error)
    best = best_policies(evaluation, level)
    lines = [visible(best.statement)]
    lines += ["Lower is better."] if evaluation.minimize else []
    own = comparison.values.get(best.leader)
    if own is not None and own.sufficient:
        lines.append(
            f"The interval of {visible(best.leader)} is {_interval(own)} after correcting for picking the winner "
            f"among {len(evaluation.policies)} policies."
        )
    return " ".join(lines)


def direction(evaluation: Evaluation) -> str:
    """Which way is better."""
    return "lower is better" if evaluation.minimize else "higher is better"


def metrics_line(evaluation: Evaluation) -> str:
    """Which of several metrics an evaluation is about; empty where there is one."""
    if not evaluation.asked.are_several:
        return ""
    others = [visible(m) for m in evaluation.metrics if m != evaluation.metric_name]
    own = visible(evaluation.metric_name)
    return f"Metric: {own} ({direction(evaluation)}). See ev.metric(…) for {', '.join(others)}."


def pareto_table(evaluation: Evaluation, level: float = 0.95) -> str:
    """Policies by metrics with intervals that hold together, and the claim that they support."""
    front = evaluation.pareto(level)
    rows = []
    for policy in front.policies:
        cells = [
            f"{value} [{ends.replace(' to ', ', ')}]" if " to " in ends else f"{value} ({ends})"
            for value, ends in (front.cell(policy, metric) for metric in front.metrics)
        ]
        beaten = ", ".join(visible(p) for p in front.dominated.get(policy, ())) or "none"
        rows.append((visible(policy), *cells, beaten))
    names = [f"{visible(m)} ({'lower' if m in front.minimized else 'higher'})" for m in front.metrics]
    text = align(("policy", *names, "worse in all than"), rows, numbers=False)
    note = f"All intervals hold at once with {100 * front.level:.10g}% probability."
    return "\n".join([text, "", visible(front.statement), note])


def sizes(evaluation: Evaluation) -> str:
    """How much was logged, in the words of the log: impressions or episodes, and of how many users."""
    log, clusters = evaluation.problem.log, number_of_clusters(evaluation)
    text = f"{log.n:,} {unit_word(log, plural=True)}"
    if clusters is None:
        return text
    return f"{text} of {clusters:,} {visible(plural_of(log.names.cluster))}"


def table(evaluation: Evaluation, level: float = 0.95) -> str:
    """The table of estimates, then how they were made, on one line each."""
    text = align(headings(level), cells(evaluation, level))
    settings = evaluation.settings
    kind = "reward model" if settings["reward_model"] else "value model"
    model = settings[kind.replace(" ", "_")]
    repeats = f" × {settings['repeats']}" if settings["repeats"] != 1 else ""
    foot = (
        f"{sizes(evaluation)} · propensities: {settings['behavior_model'].removesuffix(' propensities')} · "
        f"{kind}: {model} · {settings['folds']} folds{repeats} · seed {settings['seed']}"
    )
    about = [settings["estimand"]] if "estimand" in settings else []
    if len(evaluation.policies) > 1:
        about.append("Intervals in this table are not corrected for comparing several policies.")
    of_policies = [f"{name}: {t.note}" for name, t in evaluation.targets.items() if t.note]
    return "\n".join([text, "", *about, foot, *of_policies, *notes_of(evaluation, level)])


def wrapped(text: str, indent: str = "", first: str | None = None) -> str:
    """Text in lines of at most 100 letters."""
    start = indent if first is None else first
    return textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=indent, break_long_words=False)


def verdict_lines(evaluation: Evaluation, level: float = 0.95) -> Iterable[str]:
    """The verdict and the answer of every policy, the most promising first."""
    for answer in answers(evaluation, level):
        yield f"{visible(answer.policy)}: {answer.level.upper()}"
        yield wrapped(visible(answer.text), "  ")


def whole(evaluation: Evaluation, level: float = 0.95) -> str:
    """What print() shows."""
    head = [metrics_line(evaluation), *verdict_lines(evaluation, level), best_of(evaluation, level)]
    return "\n".join([*filter(None, head), "", table(evaluation, level), *own_sections(Document(evaluation, level))])


def own_sections(document: Document) -> Iterator[str]:
    """Sections of your own as text: how to read each, its tables, and the numbers of its pictures."""
    for section, policy in document.own("text"):
        title = section.title + (f": {policy}" if policy else "")
        yield f"\n{visible(title)}\n{wrapped(visible(unmarked(section.about)), '  ')}"
        for block in section.body:
            yield in_words(block, lambda texts: align(texts.headings, texts.texts, numbers=False))


def in_words(block: Block, tabled: Callable[[Table], str]) -> str:
    """A block where nothing can be drawn: a picture is its numbers."""
    match block:
        case Paragraph():
            return wrapped(visible(unmarked(block.text)), "  ")
        case Table():
            return tabled(block)
        case Figures():
            return "\n".join(f"  {f.label}: {f.number} ({f.remark})" for f in block.figures)
        case Facts():
            return "\n".join(f"  {name}: {value}" for name, value in block.entries.items())
        case Code():
            return block.text
        case Picture() | Markup():
            return wrapped(block.about, "  ") + (f"\n{tabled(block.table)}" if block.table else "")


def unmarked(text: str) -> str:
    """A text without the marks of words that pages explain.

    >>> unmarked("[weight|Weights] of rows")
    'Weights of rows'
    """
    return re.sub(r"\[\w+\|([^\]]+)\]", r"\1", text)


# -- Markdown, for a pull request or the summary of a pipeline's step -------------------------------------------------

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
OUTCOMES = {"passed": "✅", "failed": "❌", "not enough evidence": "⚠️"}


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> escaped("a|b <b>")
    'a\\|b \\<b\\>'
    """
    return SPECIAL.sub(r"\\\1", visible(text))


def _metric(document: Document) -> list[str]:
    """Answers and estimates by one metric; under its name, where there are several."""
    ev, level, lines = document.ev, document.level, []
    if ev.asked.are_several:
        lines += [f"### {escaped(ev.metric_name)} ({direction(ev)})", ""]
    for answer in document.answers:
        lines.append(f"- **{escaped(answer.policy)}: {answer.level}.** {escaped(answer.text)}")
        lines += [
            f"    - {escaped(f'{reason.text} {reason.remedy}'.strip())}"
            for reason in answer.reasons
            if reason.level != "ok"
        ]
    best = best_of(ev, level)
    lines += ["", escaped(best)] if best else []
    lines += ["", "<details><summary>Estimates</summary>", ""]
    return [*lines, *_markdown_table(headings(level), cells(ev, level)), "", "</details>", ""]


def _pareto(ev: Evaluation, level: float) -> list[str]:
    """Policies by metrics."""
    found = ev.pareto(level)
    rows = [
        (
            policy,
            *("{} ({})".format(*found.cell(policy, m)) for m in found.metrics),
            ", ".join(found.dominated.get(policy, ())) or "none",
        )
        for policy in found.policies
    ]
    head = ["policy", *map(escaped, found.metrics), "worse in every metric than"]
    return [*_markdown_table(head, rows), "", escaped(found.statement)]


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
    note = f"The {level_text(level)} intervals of a policy hold at once."
    return [*_markdown_table(head, rows), "", note]


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]


def markdown(evaluation: Evaluation, level: float = 0.95, gates: Sequence[GateResult] = (), **asked: Any) -> str:
    """Answer, gates, segments, estimates and origin of a result; ``asked`` are further fields of a `Document`."""
    document = Document(evaluation, level, gates, **asked)
    lines = [f"## {escaped(document.title or 'Off-policy evaluation')}", ""]
    if gates:
        lines += ["| gate | result | why |", "|---|---|---|"]
        lines += [
            f"| `{visible(g.expression).replace('|', '/').replace('`', ' ')}` | {OUTCOMES[g.outcome]} {g.outcome} "
            f"| {escaped(g.why)} |"
            for g in gates
        ]
        lines.append("")
    for each in document.metrics():
        lines += _metric(each)
    if document.segments is not None:
        lines += ["### By segment", "", *_segments(evaluation, document.segments, level), ""]
    if document.is_of_several:
        lines += ["### All metrics", "", *_pareto(evaluation, level), ""]
    for section, policy in document.own("text"):
        lines += [
            f"### {escaped(section.title + (f': {policy}' if policy else ''))}",
            "",
            escaped(unmarked(section.about)),
        ]
        for block in section.body:
            lines += [
                "",
                in_words(block, lambda t: "\n".join(_markdown_table(list(map(escaped, t.headings)), t.texts))),
            ]
        lines.append("")
    lines.append(f"Log digest `{digest(evaluation)}`, offpolicy {versions()['offpolicy']}.")
    if evaluation.origin is not None and evaluation.origin.command:
        command = visible(evaluation.origin.command).replace("```", "` ` `")
        lines += ["", "```", command, "```"]
    return "\n".join(lines) + "\n"


# -- LaTeX ------------------------------------------------------------------------------------------------------------

LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "−": "$-$", "—": "---"}


def latex(evaluation: Evaluation, level: float = 0.95) -> str:
    """The table of estimates in LaTeX, for booktabs."""

    def line(texts: Iterable[str]) -> str:
        return " & ".join("".join(LATEX.get(c, c) for c in text) for text in texts) + r" \\"

    rows = cells(evaluation, level)
    verdicts = ["", *(evaluation.verdict(p, e, level=level).level for p, e in _keys(evaluation))]
    head = (*headings(level), "verdict")
    body = [line((*row, verdict)) for row, verdict in zip(rows, verdicts, strict=True)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{ll{'r' * (len(head) - 3)}l}}",
            r"\toprule",
            line(head),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _keys(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Policies and estimators in the order of `cells`."""
    return [(p, e.name) for p in evaluation.policies for e in evaluation.estimators]
