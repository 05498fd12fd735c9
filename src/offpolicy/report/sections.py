"""Sections about all policies: estimates, paired differences, checks; and the parts that charts share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offpolicy.report import charts, facts
from offpolicy.report.figures import capitalized, count, measured, percent, plain
from offpolicy.report.markup import esc, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.report.charts import Spec
    from offpolicy.report.facts import Row

MARKS = {0.0: "Alarm", 1.0: "Caution", 2.0: "OK", 3.0: "Not applicable"}


@dataclass
class Charts:
    """Specifications by the id of the element they are drawn in."""

    specs: dict[str, Spec] = field(default_factory=dict)

    def figure(
        self, name: str, spec: Spec, *, tools: str = "", legend: str = "", data: str = ""
    ) -> str:
        """A chart with its controls, its legend, and its numbers as a table."""
        key = f"chart-{name}"
        self.specs[key] = spec
        numbers = (
            f"<details class=numbers><summary>Show the numbers</summary>{data}</details>"
            if data
            else ""
        )
        return (
            f'<figure class="chart">{tools}{legend}<div class="plot" id="{key}" role="img" '
            f'aria-label="{esc(spec["description"])}"></div>{numbers}</figure>'
        )


@dataclass(frozen=True)
class Section:
    """A part of the page; ``about`` says in a sentence or two how to read it."""

    key: str
    title: str
    about: str
    body: str


def legend_of(*entries: tuple[str, str]) -> str:
    """What the colors of a chart mean."""
    items = "".join(f'<li><span class="key {k}"></span>{esc(text)}</li>' for k, text in entries)
    return f'<ul class="legend">{items}</ul>'


def choice_of(label: str, role: str, options: Sequence[tuple[str, str]]) -> str:
    """A labeled select; ``role`` tells the script what to do."""
    inner = "".join(f'<option value="{esc(v)}">{esc(text)}</option>' for v, text in options)
    return f'<label class="choice">{esc(label)} <select data-role="{role}">{inner}</select></label>'


def between(row: Row, error: float) -> str:
    """The interval of a row in words."""
    if row["low"] != row["low"]:
        return "not identified"
    return f"{measured(row['low'], error)} to {measured(row['high'], error)}"


def estimates(ev: Evaluation, drawn: Charts, level: float) -> Section:
    """Policies × estimators."""
    rows = facts.forest(ev, level)
    logged = ev.logged
    low, high = logged.interval(level)
    ends = charts.domain(rows, (logged.value, low, high))
    for row in rows:
        row["tips"] = {"Note": row["note"] or "—"}
    groups = _by_policy(ev, rows)
    spec = charts.intervals(
        charts.interval_rows(groups, "estimator", ends),
        ends,
        "Forest plot: the estimate of every policy by every estimator with its interval, beside the "
        "logged value. The numbers are in the table below.",
        title=per_unit(ev),
        reference=(logged.value, low, high),
        tips=("Note",),
    )
    names = [e.name for e in ev.estimators]
    chips = "".join(
        f'<button type="button" class="chip" aria-pressed="true" data-name="{esc(n)}">{esc(n)}</button>'
        for n in names
    )
    tools = (
        '<div class="tools"><div class="chips" role="group" aria-label="Estimators shown">'
        f"{chips}</div>"
        + choice_of(
            "Order", "order", [("", "as given"), ("value", "by value"), ("width", "by precision")]
        )
        + "</div>"
    )
    data = table(
        ("Policy", "Estimator", "Value", "Std. error", f"{percent(level)} interval", "Units"),
        [
            (
                r["policy"],
                r["estimator"],
                (measured(r["value"], r["std_error"]), r["value"]),
                (plain(r["std_error"], 2), r["std_error"]),
                (between(r, r["std_error"]), r["low"]),
                (count(r["n"]), float(r["n"])),
            )
            for r in rows
        ],
        caption="Estimates",
        numeric=(2, 3, 4, 5),
        marked=[i for i, r in enumerate(rows) if r["headline"]],
    )
    about = (
        "Every estimator looks at the same log. Where they agree, the answer does not hang on one method; "
        "the one in bold is the one the answer above is taken from."
    )
    cut = any(r["low"] < ends[0] or r["high"] > ends[1] for r in rows)
    if any(n == "DM" or n.startswith("DM-") for n in names):
        about += " The direct method’s (DM) interval leaves out the error of its own model."
    if cut:
        about += " Intervals that reach the edge go on beyond it."
    legend = legend_of(
        ("accent", "headline estimator"), ("soft", "others"), ("logged", "logged value")
    )
    figure = drawn.figure("forest", spec, tools=tools, legend=legend, data=data)
    return Section("estimates", "Estimates", about, figure)


def differences(ev: Evaluation, drawn: Charts, level: float) -> Section:
    """Paired differences."""
    rows = facts.differences(ev, level)
    ends = charts.domain(rows, (0.0,))
    for row in rows:
        change = "—" if row["lift"] is None else f"{percent(row['lift'])}"
        row["tips"] = {"Relative": change}
        row["label"] = row["estimator"] if row["versus"] == "log" else f"minus {row['versus']}"
    groups = _by_policy(ev, rows)
    spec = charts.intervals(
        charts.interval_rows(groups, "label", ends),
        ends,
        "Paired differences between each policy and the log, and between policies, with intervals.",
        title=f"difference, {per_unit(ev)}",
        reference=(0.0, 0.0, 0.0),
        tips=("Relative",),
    )
    data = table(
        ("Policy", "Minus", "Estimator", "Difference", f"{percent(level)} interval", "Relative"),
        [
            (
                r["policy"],
                "the log" if r["versus"] == "log" else r["versus"],
                r["estimator"],
                (measured(r["value"], r["std_error"]), r["value"]),
                (between(r, r["std_error"]), r["low"]),
                ("—" if r["lift"] is None else percent(r["lift"]), r["lift"]),
            )
            for r in rows
        ],
        caption="Paired differences",
        numeric=(3, 4, 5),
        marked=[i for i, r in enumerate(rows) if r["headline"]],
    )
    about = (
        "Scores are subtracted unit by unit before they are averaged, so what is common to both sides "
        "cancels. An interval clear of zero tells the two apart."
    )
    return Section(
        "differences", "Paired differences", about, drawn.figure("differences", spec, data=data)
    )


def _by_policy(ev: Evaluation, rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows under the name of their policy; a single policy needs no heading."""
    many = len(ev.policies) > 1
    return [(p if many else "", [r for r in rows if r["policy"] == p]) for p in ev.policies]


def per_unit(ev: Evaluation) -> str:
    """What the axis of values counts."""
    return f"value per {'impression' if ev.problem.log.kind == 'bandit' else 'episode'}"


def checks(ev: Evaluation) -> Section:
    """Every diagnostic: what was raised in the open, what is well behind a click."""
    rows: list[dict[str, Any]] = sorted(ev.diagnostics.rows(), key=_rank)
    raised = [r for r in rows if r["level"] != "ok"]
    well = [r for r in rows if r["level"] == "ok"]
    made = sum(_rank(r) < 3 for r in rows)
    about = (
        f"{made} checks of the log, the weights, the models and the stability of the number. "
        + (f"{len(raised)} raised something." if raised else "None raised anything.")
    )
    body = _check_table(raised, "Checks that raised something") if raised else ""
    if well:
        body += (
            f'<details class="numbers"><summary>Show the {len(well)} that raised nothing</summary>'
            f"{_check_table(well, 'Checks that raised nothing')}</details>"
        )
    return Section("checks", "Checks", about, body)


def _rank(row: dict[str, Any]) -> float:
    """Alarms, cautions, what is well, what does not apply."""
    if row["level"] == "ok" and row["value"] != row["value"]:
        return 3.0
    return {"alarm": 0.0, "caution": 1.0, "ok": 2.0}[row["level"]]


def _check_table(rows: Sequence[dict[str, Any]], caption: str) -> str:
    return table(
        ("Check", "About", "Result", "Finding"),
        [
            (
                r["name"].replace("_", " "),
                r["policy"] if r["policy"] is not None else "the log",
                (MARKS[_rank(r)], _rank(r)),
                f"{capitalized(r['sentence'])} {r['remedy']}".strip(),
            )
            for r in rows
        ],
        caption=caption,
        rows_classes=[r["level"] for r in rows],
        classes="wordy",
    )
