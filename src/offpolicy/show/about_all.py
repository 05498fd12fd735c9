"""Parts of a report about all policies: metrics, estimates, paired differences, checks; and what was decided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from offpolicy._document import Axis, Code, Mark, Markup, Paragraph, Picture, Section, Table
from offpolicy.decide.policies import TreePolicy
from offpolicy.inference.figures import DASH, capitalized, count, level_text, measured, percent, plain
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.show import tables
from offpolicy.show.parts import BETWEEN, ORDERS, PAGE, Part, between, interval_rows, per_unit, span
from offpolicy.show.words import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._document import Block, Row
    from offpolicy.decide.learners import Learned
    from offpolicy.decide.select import Selection
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.pareto import Pareto
    from offpolicy.show.parts import Subject

MOST_PAIRED = 4
MOST_PICTURES = 6
# What a check says, the most serious first: a level, or that it does not apply.
MARKS = {0.0: "Alarm", 1.0: "Caution", 1.5: "Note", 2.0: "OK", 3.0: "Not applicable"}


def metrics(s: Subject) -> list[Block]:
    """Policies × metrics, and one metric against another."""
    if not (s.ev.asked.are_several and s.ev.is_whole):
        return []
    front = s.ev.pareto(s.level)
    first, *others = front.metrics
    about = (
        f"{front.statement} All {level_text(s.level)} intervals in the table hold at once. The rest of "
        f"this page is about {first}; ev.metric(…).report(…) writes the same page for another metric."
    )
    rows = [
        (
            policy,
            "" if policy == LOGGING_POLICY else _worst_verdict(s, policy),
            ", ".join(front.dominated.get(policy, ())) or "none",
            *("{} ({})".format(*front.cell(policy, metric)) for metric in front.metrics),
        )
        for policy in front.policies
    ]
    headings = [_axis(front, metric).replace(" is better", "") for metric in front.metrics]
    table = Table(("Policy", "Verdict", "Worse in all than", *headings), rows, "All metrics", words=3)
    drawn = [_against(front, first, metric, i, s.note) for i, metric in enumerate(others[:MOST_PICTURES])]
    return [Paragraph(about, "about"), table, *drawn]


def _against(front: Pareto, first: str, metric: str, number: int, note: str) -> Picture:
    """Points with intervals in both directions."""
    rows = points(front, metric, first)
    data = Table.of(
        rows,
        [
            ("Policy", "policy", str),
            (first, "y", plain),
            ("interval", "y_low y_high", span),
            (metric, "x", plain),
            ("interval", "x_low x_high", span),
        ],
        f"{first} and {metric}",
    )
    return Picture(
        f"metrics-{number}",
        rows,
        [
            Mark("spread", "x", "y", "x_low", "x_high", "[kind]", is_flat=True),
            Mark("spread", "x", "y", "y_low", "y_high", "[kind]"),
            Mark("point", "x", "y", color="[kind]"),
            Mark("name", "x", "y", "policy", color="[kind]"),
        ],
        f"{first} against {metric}: one point with its intervals per policy",
        Axis.over(rows, "x x_low x_high", _axis(front, metric), pad=0.08),
        Axis.over(rows, "y y_low y_high", _axis(front, first), pad=0.08),
        data,
        legend=(
            ("accent", "no policy is better in every metric"),
            ("soft", "another policy is better in every metric"),
            ("logged", "current policy"),
        ),
        height=280,
        note=f"{note} that hold at once",
    )


def points(front: Pareto, across: str, up: str) -> list[Row]:
    """Where each policy lies by two metrics; an end that is not known is NaN."""
    rows: list[Row] = []
    for policy in front.policies:
        ends: Row = {}
        for axis, metric in (("x", across), ("y", up)):
            low, high = front.intervals[policy, metric].shown
            ends |= {axis: front.values[policy, metric].value, f"{axis}_low": low, f"{axis}_high": high}
        kind = "soft" if policy in front.dominated else "accent"
        rows.append({"policy": policy, "kind": "logged" if policy == LOGGING_POLICY else kind, **ends})
    return rows


def _axis(front: Pareto, metric: str) -> str:
    return f"{metric} ({'lower' if metric in front.minimized else 'higher'} is better)"


def _worst_verdict(s: Subject, policy: str) -> str:
    """The worst verdict of all metrics, and by which of them."""
    levels = {m: s.ev.metric(m).verdict(policy, level=s.level).level for m in s.ev.metrics}
    worst = max(levels.values(), key=list(VERDICTS).index)
    where = [metric for metric, own in levels.items() if own == worst]
    return VERDICTS[worst] if len(where) == len(levels) else f"{VERDICTS[worst]} ({', '.join(where)})"


def estimates(s: Subject) -> list[Block]:
    """Policies × estimators."""
    ev, logged = s.ev, s.ev.logged
    rows = tables.forest(ev, s.level)
    reference = (logged.value, *logged.interval(s.level).shown)
    data = Table.of(
        rows,
        [("Policy", "policy", str), ("Estimator", "estimator", str),
         ("Value", "value std_error", measured), ("Std. error", "std_error", lambda x: plain(x, 2)),
         (s.interval, BETWEEN, between), ("Units", "n", count)],
        "Estimates",
    )  # fmt: skip
    alt = (
        "Forest plot: the estimate of every policy by every estimator with its interval, next to the "
        "logged value. The numbers are in the table below."
    )
    picture = interval_rows(
        "forest",
        rows,
        "estimator",
        alt,
        per_unit(ev),
        references=reference,
        reference=reference,
        heading=_heading(ev),
        legend=(("accent", "headline estimator"), ("soft", "others"), ("logged", "logged value")),
        orders=ORDERS,
        names=[e.name for e in ev.estimators],
        table=data,
        note=s.note,
    )
    about = (
        "Every [estimator|estimator] uses the same log. Where they agree, the answer does not depend on one "
        "method; the one in bold is the headline."
    )
    if len(ev.policies) > 1:
        about += " Intervals here are not corrected for comparing several policies; those above are."
    biased = ", ".join(e.name for e in ev.estimators if ev[ev.policies[0], e.name].bias)
    if biased:
        about += (
            f" Some ({biased}) can be biased; they are shown with a sounder method's interval, widened to include "
            "their own estimate."
        )
    if any(r["low"] < picture.x.low or r["high"] > picture.x.high for r in rows):
        about += " Intervals that reach the edge continue beyond it."
    return [Paragraph(about, "about"), picture]


def differences(s: Subject) -> list[Block]:
    """Paired differences: among few policies all of them, among many those to the leader."""
    ev, few = s.ev, len(s.ev.policies) <= MOST_PAIRED
    pairs = None if few else [(s.policy, p) for p in ev.policies if p != s.policy]
    rows = sorted(tables.differences(ev, s.level, pairs), key=lambda row: ev.policies.index(row["policy"]))
    for row in rows:
        row["minus"] = "the log" if row["versus"] == "log" else row["versus"]
        row["label"] = row["estimator"] if row["versus"] == "log" else f"minus {row['versus']}"
    data = Table.of(
        rows,
        [("Policy", "policy", str), ("Minus", "minus", str), ("Estimator", "estimator", str),
         ("Difference", "value std_error", measured),
         (s.interval, BETWEEN, between),
         ("Relative", "lift lift_low lift_high lift_refused", lift)],
        "Paired differences",
    )  # fmt: skip
    about = (
        "[paired|Paired]: both sides are compared on the same rows, so shared luck cancels. If an interval "
        "excludes zero, the two differ."
    )
    if len(ev.policies) > 1:
        about += (
            " Intervals here are not corrected for comparing several policies, so some may exclude zero by chance. "
            "Those above are corrected."
        )
    if not few:
        about += f" Policies are compared with the current policy and with {s.policy}."
    alt = "Paired differences between each policy and the current one, and between policies, with intervals."
    more: dict[str, Any] = {"reference": (0.0, 0.0, 0.0), "heading": _heading(ev), "table": data, "note": s.note}
    title = f"difference, {per_unit(ev)}"
    return [
        Paragraph(about, "about"),
        interval_rows("differences", rows, "label", alt, title, references=(0.0,), **more),
    ]


def lift(value: float | None, low: float | None, high: float | None, refused: str | None) -> str:
    """A lift with its interval in percent; a dash where it is undefined, ∞ for an end that is none.

    >>> lift(0.2, 0.1, None, None), lift(-0.2, None, None, "few"), lift(None, None, None, "0")
    ('+20% (+10% to ∞)', '−20% (refused)', '—')
    """
    if value is None:
        return DASH

    def signed(x: float | None, end: str) -> str:
        return end if x is None else f"{'−' if x < 0 else '+'}{percent(abs(x))}"

    ends = "refused" if refused else f"{signed(low, '−∞')} to {signed(high, '∞')}"
    return f"{signed(value, '')} ({ends})"


def _heading(ev: Evaluation) -> str:
    """Rows stand under the name of their policy; a single policy needs no heading."""
    return "policy" if len(ev.policies) > 1 else ""


def checks(s: Subject) -> list[Block]:
    """Every diagnostic: what was raised in the open, what is well behind a click."""
    rows: list[dict[str, Any]] = sorted(s.ev.diagnostics.rows(), key=_rank)
    raised = [r for r in rows if r["level"] != "ok"]
    well = [r for r in rows if r["level"] == "ok"]
    idle = sum(_rank(r) == max(MARKS) for r in rows)
    calm = len(well) - idle
    about = (
        f"All {calm} checks passed" if not raised else f"{len(raised)} of {len(rows) - idle} checks raised a concern"
    ) + (f"; {idle} more do not apply." if idle else ".")
    blocks: list[Block] = [Paragraph(about, "about")]
    if raised:
        kinds = [r["level"] for r in raised]
        blocks.append(_check_table(raised, "Checks that raised a concern", kinds=kinds, stacks="wordy"))
    if well:
        blocks.append(
            _check_table(
                well,
                "Checks that passed or do not apply",
                folds="Show all other checks" if raised else "Show all checks",
            )
        )
    return blocks


def _rank(row: dict[str, Any]) -> float:
    """Alarms, cautions, what is well, what does not apply."""
    if row["level"] == "ok" and row["value"] != row["value"]:
        return 3.0
    return {"alarm": 0.0, "caution": 1.0, "note": 1.5, "ok": 2.0}[row["level"]]


def _sentences(row: dict[str, Any]) -> list[str]:
    """Of the statistics that are of the same level as the check."""
    alike = [s for s in row["statistics"] if (s["level"], s["ran"]) == (row["level"], row["ran"])]
    return [capitalized(s["sentence"]) for s in (alike if row["ran"] else alike[:1])]


def _check_table(rows: Sequence[dict[str, Any]], caption: str, **more: Any) -> Table:
    cells = [
        (
            r["name"].replace("_", " "),
            r["policy"] if r["policy"] is not None else "the log",
            (MARKS[_rank(r)], _rank(r)),
            " ".join([*_sentences(r), r["remedy"]]).strip(),
        )
        for r in rows
    ]
    return Table(("Check", "About", "Result", "Finding"), cells, caption, words=4, **more)


PARTS = (
    Part("metrics", "All metrics", "", metrics, "all", "the log has one metric", PAGE),
    Part("estimates", "Estimates", "", estimates, "all", shown=PAGE),
    Part("differences", "Paired differences", "", differences, "all", shown=PAGE),
    Part("checks", "Checks", "", checks, "end", shown=PAGE),
)


# -- what was decided -----------------------------------------------------------------------------------------------


def learned_section(learned: Learned) -> Section:
    """The policy, drawn where it is a tree, with its honest value and the one on its own rows."""
    i, own = learned.interval(), learned.value.interval()
    ends = f"95% {plain(i.low)} to {plain(i.high)}"
    honest, naive = plain(learned.value.value), plain(learned.naive.value)
    worth = (
        f"Its honest value is {honest} ({ends}): each row is scored by a policy learned from other rows. "
        f"On its training rows it is "
        + ("the same." if naive == honest else f"{naive}, which is {plain(learned.optimism, 2)} too optimistic.")
    )
    if i.width > own.width:
        worth += (
            " In some rows the policy learned from all rows acts differently from those. Its interval allows for that, "
            "so it is wider than theirs at the top of this page."
        )
    body: list[Block] = [Paragraph(str(learned.policy))]
    if isinstance(learned.policy, TreePolicy):
        rows = [(str(r["when"]), str(r["action"]), f"{r['rows']:,}") for r in learned.policy.table()]
        rules = Table(("When", "Action", "Rows"), rows, "The rules of the tree", words=2)
        tree = Markup(learned.policy.drawn(), "The learned tree: go left if the answer is yes.", "tree", rules)
        body = [tree, Code(learned.policy.to_sql(), "As SQL", folds=True)]
    return Section("learned", "The learned policy", worth, body)


def selection_section(selection: Selection) -> Section:
    """What to adopt, and the bound of every candidate."""
    rows = [
        (c.policy, c.method, c.shown, c.shown_bound if math.isfinite(c.bound) else "none") for c in selection.candidates
    ]
    headings = ("Policy", "Bound by", "Difference from the current policy", selection.word.capitalize())
    table = Table(headings, rows, "Bounds that hold at once", words=2)
    return Section("adopt", "What to adopt", str(selection).splitlines()[-1], [table])
