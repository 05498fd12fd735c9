"""Sections about all policies: estimates, paired differences, checks; and the parts that charts share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from offpolicy._visible import esc
from offpolicy.evaluation.shown import Section
from offpolicy.inference.figures import DASH, capitalized, count, level_text, measured, percent, plain
from offpolicy.show import charts, tables
from offpolicy.show.answer import decision
from offpolicy.show.glossary import described
from offpolicy.show.markup import columns_table, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.tables import Row

BETWEEN = "low high std_error value"  # keys of a row that an interval takes
ORDERS = (("", "as given"), ("value", "by value"), ("width", "by precision"))
MOST_PAIRED = 4
MARKS = {0.0: "Alarm", 1.0: "Caution", 1.5: "Note", 2.0: "OK", 3.0: "Not applicable"}


def figure(name: str, drawing: str, about: str, *, tools: str = "", legend: str = "", data: str = "") -> str:
    """A chart with its controls, its legend, and its numbers as a table."""
    numbers = f"<details class=numbers><summary>Show the numbers</summary>{data}</details>" if data else ""
    return (
        f'<figure class="chart">{tools}{legend}<div class="plot" id="chart-{name}" role="img" '
        f'aria-label="{esc(about)}">{drawing}</div>{numbers}</figure>'
    )


def legend_of(*entries: tuple[str, str]) -> str:
    """What the colors of a chart mean."""
    items = "".join(f'<li><span class="key {k}"></span>{esc(text)}</li>' for k, text in entries)
    return f'<ul class="legend">{items}</ul>'


def tools_of(label: str, role: str, options: Sequence[tuple[str, str]], before: str = "") -> str:
    """Controls of a chart: a labeled select, whose ``role`` tells the script what to do."""
    inner = "".join(f'<option value="{esc(v)}">{esc(text)}</option>' for v, text in options)
    choice = f'{esc(label)} <select data-role="{role}">{inner}</select>'
    return f'<div class="tools">{before}<label class="choice">{choice}</label></div>'


def between(low: float, high: float, error: float, value: float) -> str:
    """An interval in words."""
    if math.isnan(low):
        return "not identified" if math.isnan(value) else "refused"
    return f"{measured(low, error)} to {measured(high, error)}"


def gap(value: float, low: float, high: float, error: float) -> str:
    """A difference with its interval in words; a dash where there is none.

    >>> gap(0.02, -0.0101, 0.0499, 0.015), gap(-0.02, math.nan, math.nan, 0.015)
    ('+0.020 (−0.010 to +0.050)', '−0.020 (refused)')
    """
    if math.isnan(value):
        return DASH

    def signed(x: float) -> str:
        return f"{'−' if x < 0 else '+'}{measured(abs(x), error)}"

    ends = "refused" if math.isnan(low) else f"{signed(low)} to {signed(high)}"
    return f"{signed(value)} ({ends})"


def lift(value: float | None, low: float | None, high: float | None, refused: str | None) -> str:
    """A lift with its interval in percent; a dash where it is undefined, ∞ for an end that is none.

    >>> lift(0.2, 0.1, None, None), lift(-0.2, None, None, "few"), lift(None, None, None, "0")
    ('+20% (+10% to ∞)', '−20% (refused)', '—')
    """
    if value is None:
        return DASH

    def signed(x: float) -> str:
        return f"{'−' if x < 0 else '+'}{percent(abs(x))}"

    if refused:
        return f"{signed(value)} (refused)"
    ends = f"{'−∞' if low is None else signed(low)} to {'∞' if high is None else signed(high)}"
    return f"{signed(value)} ({ends})"


def span(low: float, high: float) -> str:
    """An interval in few digits."""
    if math.isnan(low):
        return "refused"
    return f"{plain(low)} to {plain(high)}"


def relative(share: float | None) -> str:
    """A share in percent, a dash where there is none."""
    return DASH if share is None else percent(share)


def estimates(ev: Evaluation, level: float) -> Section:
    """Policies × estimators."""
    rows = tables.forest(ev, level)
    logged = ev.logged
    low, high = logged.interval(level).shown
    ends = charts.domain(rows, (logged.value, low, high))
    drawing = charts.intervals(
        _by_policy(ev, rows), "estimator", ends, title=per_unit(ev), reference=(logged.value, low, high)
    )
    names = [e.name for e in ev.estimators]
    chips = "".join(
        f'<button type="button" class="chip" aria-pressed="true"{described(n)}>{esc(n)}</button>' for n in names
    )
    chips = f'<div class="chips" role="group" aria-label="Estimators shown">{chips}</div>'
    tools = tools_of("Order", "order", ORDERS, chips)
    data = columns_table(
        rows,
        [("Policy", "policy", str), ("Estimator", "estimator", str),
         ("Value", "value std_error", measured), ("Std. error", "std_error", lambda x: plain(x, 2)),
         (f"{level_text(level)} interval", BETWEEN, between), ("Units", "n", count)],
        "Estimates",
    )  # fmt: skip
    about = (
        "Every [estimator|estimator] uses the same log. Where they agree, the answer does not depend on one "
        "method; the one in bold is the headline."
    )
    if len(ev.policies) > 1:
        about += " Intervals here are not corrected for comparing several policies; those above are."
    cut = any(r["low"] < ends[0] or r["high"] > ends[1] for r in rows)
    first = ev.policies[0]
    biased = ", ".join(e.name for e in ev.estimators if ev[first, e.name].bias)
    if biased:
        about += (
            f" Some ({biased}) can be biased; they are shown with a sounder method's interval, widened to include "
            "their own estimate."
        )
    if cut:
        about += " Intervals that reach the edge continue beyond it."
    legend = legend_of(("accent", "headline estimator"), ("soft", "others"), ("logged", "logged value"))
    alt = (
        "Forest plot: the estimate of every policy by every estimator with its interval, beside the "
        "logged value. The numbers are in the table below."
    )
    body = figure("forest", drawing, alt, tools=tools, legend=legend, data=data)
    return Section("estimates", "Estimates", about, body)


def differences(ev: Evaluation, level: float, leader: str) -> Section:
    """Paired differences: among few policies all of them, among many those to the leader."""
    few = len(ev.policies) <= MOST_PAIRED
    pairs = None if few else [(leader, p) for p in ev.policies if p != leader]
    rows = tables.differences(ev, level, pairs)
    ends = charts.domain(rows, (0.0,))
    for row in rows:
        row["minus"] = "the log" if row["versus"] == "log" else row["versus"]
        row["label"] = row["estimator"] if row["versus"] == "log" else f"minus {row['versus']}"
    drawing = charts.intervals(
        _by_policy(ev, rows), "label", ends, title=f"difference, {per_unit(ev)}", reference=(0.0, 0.0, 0.0)
    )
    data = columns_table(
        rows,
        [("Policy", "policy", str), ("Minus", "minus", str), ("Estimator", "estimator", str),
         ("Difference", "value std_error", measured),
         (f"{level_text(level)} interval", BETWEEN, between),
         ("Relative", "lift lift_low lift_high lift_refused", lift)],
        "Paired differences",
    )  # fmt: skip
    about = (
        "[paired|Paired]: both sides are compared on the same rows, so shared luck cancels. An interval "
        "that excludes zero tells the two apart."
    )
    if len(ev.policies) > 1:
        about += (
            " Intervals here are not corrected for comparing several policies: some exclude zero by chance. Those "
            "above are corrected."
        )
    if not few:
        about += f" Policies are compared with the current policy and with {leader}."
    alt = "Paired differences between each policy and the current one, and between policies, with intervals."
    body = figure("differences", drawing, alt, data=data)
    return Section("differences", "Paired differences", about, body)


def _by_policy(ev: Evaluation, rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows under the name of their policy; a single policy needs no heading."""
    many = len(ev.policies) > 1
    return [(p if many else "", [r for r in rows if r["policy"] == p]) for p in ev.policies]


def per_unit(ev: Evaluation) -> str:
    """What the axis of values counts."""
    return f"value per {decision(ev.problem.log)}"


def checks(ev: Evaluation) -> Section:
    """Every diagnostic: what was raised in the open, what is well behind a click."""
    rows: list[dict[str, Any]] = sorted(ev.diagnostics.rows(), key=_rank)
    raised = [r for r in rows if r["level"] != "ok"]
    well = [r for r in rows if r["level"] == "ok"]
    idle = sum(_rank(r) == max(MARKS) for r in rows)
    calm = len(well) - idle
    about = (
        f"{len(rows) - idle} checks of the log, the weights, the models and the stability of the number were made: "
        f"{len(raised)} raised something, {calm} did not."
    )
    if idle:
        about += f" {idle} more do not apply here."
    body = _check_table(raised, "Checks that raised something") if raised else ""
    if well:
        more = f" and the {idle} that do not apply" if idle else ""
        body += (
            f'<details class="numbers"><summary>Show the {calm} that raised nothing{more}</summary>'
            f"{_check_table(well, 'Checks that raised nothing', stacks=False)}</details>"
        )
    return Section("checks", "Checks", about, body)


def _rank(row: dict[str, Any]) -> float:
    """Alarms, cautions, what is well, what does not apply."""
    if row["level"] == "ok" and row["value"] != row["value"]:
        return 3.0
    return {"alarm": 0.0, "caution": 1.0, "note": 1.5, "ok": 2.0}[row["level"]]


def _check_table(rows: Sequence[dict[str, Any]], caption: str, *, stacks: bool = True) -> str:
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
        words=4,
        rows_classes=[r["level"] for r in rows] if stacks else (),
        classes="wordy" if stacks else "",
    )
