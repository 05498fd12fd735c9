"""Panels about one policy: its weights, overlap, batches, segments, models, clipping and horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.report import calibration, charts, evidence, facts
from offpolicy.report import segments as grouping
from offpolicy.report.figures import count, measured, percent, plain
from offpolicy.report.markup import Cell, esc, table
from offpolicy.report.sections import between, choice_of, legend_of, per_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.report.facts import Row
    from offpolicy.report.sections import Charts
    from offpolicy.trust.view import View


def weights(ev: Evaluation, policy: str, view: View, drawn: Charts, tag: str) -> str:
    """Distribution of the importance weights."""
    rows = evidence.weights(view)
    found = ev.diagnostics[policy]
    tiles = [
        ("Effective sample", plain(found["effective_sample_size"].value),
         percent(found["effective_sample_size"].details.get("share", float("nan")))),
        ("Mean weight", plain(found["mean_weight"].value, 4), "should be 1"),
        ("Largest weight", plain(found["largest_weight"].value),
         f"{percent(found['largest_weight_share'].value)} of the total"),
        ("Weight 0", percent(evidence.zero_share(view)), "the policy would act otherwise"),
    ]  # fmt: skip
    strip = "".join(
        f"<div><dt>{esc(a)}</dt><dd>{esc(b)}<small>{esc(c)}</small></dd></div>" for a, b, c in tiles
    )
    head = f'<dl class="strip">{strip}</dl>'
    if not rows:
        return head + "<p>No unit has a positive weight: there is nothing to draw.</p>"
    tools = '<div class="tools">' + choice_of(
        "Height", "measure", [("share", "share of units"), ("carried", "share of the total weight")]
    ) + "</div>"  # fmt: skip
    data = table(
        ("Weight from", "to", "Share of units", "Share of the total weight"),
        [
            (
                (plain(r["low"]), r["low"]),
                (plain(r["high"]), r["high"]),
                (percent(r["share"]), r["share"]),
                (percent(r["carried"]), r["carried"]),
            )
            for r in rows
        ],
        caption="Histogram of the positive weights",
        numeric=(0, 1, 2, 3),
    )
    spec = charts.weights(
        rows, "Histogram of the positive importance weights on a logarithmic axis."
    )
    return head + drawn.figure(f"weights-{tag}", spec, tools=tools, data=data)


def overlap(view: View, drawn: Charts, tag: str) -> str:
    """Shares of actions in the log and under the policy."""
    rows = evidence.overlap(view)
    tools = '<div class="tools">' + choice_of(
        "Order",
        "order",
        [("", "largest first"), ("gap", "by difference"), ("logged", "rarest in the log last"),
         ("name", "by name")],
    ) + "</div>"  # fmt: skip
    data = table(
        ("Action", "In the log", "Under the policy", "Covered by weights"),
        [
            (
                r["action"],
                (percent(r["logged"]), r["logged"]),
                (percent(r["target"]), r["target"]),
                ("—" if r["ratio"] is None else percent(r["ratio"]), r["ratio"]),
            )
            for r in rows
        ],
        caption="Shares of actions",
        numeric=(1, 2, 3),
    )
    legend = legend_of(("logged dot", "in the log"), ("accent dot", "under the policy"))
    spec = charts.overlap(rows, "How often each action is taken in the log and under the policy.")
    return drawn.figure(f"overlap-{tag}", spec, tools=tools, legend=legend, data=data)


def batches(ev: Evaluation, policy: str, drawn: Charts, tag: str, level: float) -> str:
    """The estimate from batch to batch."""
    rows = facts.batches(ev, policy, level)
    if len(rows) < 2:
        return ""
    data = _groups_table("Batch", rows, "Estimate by batch", level)
    legend = legend_of(("accent", "estimate and interval"), ("logged", "logged value"))
    spec = charts.batches(rows, "The estimate and the logged value in each batch, in time.")
    return drawn.figure(f"batches-{tag}", spec, legend=legend, data=data)


def _groups_table(first: str, rows: Sequence[Row], caption: str, level: float) -> str:
    cells: list[tuple[Cell | str, ...]] = []
    for r in rows:
        error = (r["high"] - r["low"]) / 4
        cells.append(
            (
                r["group"] if "column" not in r else f"{r['column']}: {r['group']}",
                (measured(r["value"], error), r["value"]),
                (between(r, error), r["low"]),
                (measured(r["logged"], error), r["logged"]),
                (count(r["n"]), float(r["n"])),
                (percent(r["share"]), r["share"]),
            )
        )
    headings = (first, "Value", f"{percent(level)} interval", "Logged", "Units", "Share")
    return table(headings, cells, caption=caption, numeric=(1, 2, 3, 4, 5))


def segments(
    ev: Evaluation,
    policy: str,
    grouped: Sequence[grouping.Grouping],
    drawn: Charts,
    tag: str,
    level: float,
) -> str:
    """The estimate inside groups of context columns."""
    rows = grouping.by_segment(ev, policy, grouped, level)
    if not rows:
        return ""
    ends = charts.domain(rows, tuple(r["logged"] for r in rows))
    for row in rows:
        row["tips"] = {"Logged": plain(row["logged"]), "Units": count(row["n"])}
    names = list(dict.fromkeys(r["column"] for r in rows))
    groups = [(name, [r for r in rows if r["column"] == name]) for name in names]
    spec = charts.intervals(
        charts.interval_rows(groups, "group", ends),
        ends,
        "The estimate with its interval inside each segment, beside the logged value there.",
        title=per_unit(ev),
        tips=("Logged", "Units"),
        others=True,
    )
    legend = legend_of(("soft", "estimate and interval"), ("logged", "logged value"))
    tools = '<div class="tools">' + choice_of(
        "Order", "order", [("", "as given"), ("value", "by value"), ("width", "by precision")]
    ) + "</div>"  # fmt: skip
    data = _groups_table("Segment", rows, "Estimate by segment", level)
    return drawn.figure(f"segments-{tag}", spec, tools=tools, legend=legend, data=data)


def calibrations(view: View, drawn: Charts, tag: str, level: float) -> str:
    """The two models against what happened."""
    parts = [
        _reward_calibration(view, drawn, tag, level),
        _behavior_calibration(view, drawn, tag, level),
    ]
    return f'<div class="pair">{"".join(p for p in parts if p)}</div>' if any(parts) else ""


def _reward_calibration(view: View, drawn: Charts, tag: str, level: float) -> str:
    rows = calibration.reward(view, level)
    if len(rows) < 2:
        return ""
    single = view.decisions.layout.is_single
    model, what = ("Reward model", "reward") if single else ("Value model", "value to come")
    spec = charts.calibration(
        rows,
        f"Calibration of the {model.lower()}: observed against predicted {what}.",
        what=what,
        logarithmic=False,
    )
    where = "out of fold" if view.out_of_fold else "on the rows it was fitted to"
    against = "" if single else ", against the reward and the predicted value of the next step"
    figure = drawn.figure(f"reward-{tag}", spec, data=_calibration_table(rows, what, level))
    return f"<div><h3>{model}</h3><p class=about>Predictions {where}{against}.</p>{figure}</div>"


def _behavior_calibration(view: View, drawn: Charts, tag: str, level: float) -> str:
    rows = calibration.behavior(view, level)
    if len(rows) >= 2:
        spec = charts.calibration(
            rows, "Calibration of the behavior policy: how often actions were taken against their "
            "probability.", what="probability",
            logarithmic=rows[0]["predicted"] < calibration.SMALL,
        )  # fmt: skip
        table_ = _calibration_table(rows, "probability", level)
        figure = drawn.figure(f"behavior-{tag}", spec, data=table_)
        kind = "logged" if view.known else "estimated"
        return f"<div><h3>Behavior policy, {kind}</h3><p class=about>Over all actions.</p>{figure}</div>"
    inverse = calibration.by_action(view, level)
    if not inverse:
        return ""
    ends = charts.domain(inverse, (1.0,))
    spec = charts.intervals(
        charts.interval_rows([("", inverse)], "action", ends),
        ends,
        "The mean of 1 over the propensity of each action, which should be 1.",
        title="mean of 1{A = a} / propensity",
        reference=(1.0, 1.0, 1.0),
    )
    data = table(
        ("Action", "Mean", f"{percent(level)} interval"),
        [
            (
                r["action"],
                (plain(r["value"]), r["value"]),
                f"{plain(r['low'])} to {plain(r['high'])}",
            )
            for r in inverse
        ],
        caption="Mean of the inverse propensity by action",
        numeric=(1, 2),
    )
    return (
        "<div><h3>Logged propensities</h3><p class=about>Only the logged action’s probability is known. "
        "For each action the mean of 1{A = a} / propensity should be 1.</p>"
        + drawn.figure(f"behavior-{tag}", spec, data=data)
        + "</div>"
    )


def _calibration_table(rows: Sequence[Row], what: str, level: float) -> str:
    return table(
        (f"Predicted {what}", "Observed", f"{percent(level)} interval", "Cases"),
        [
            (
                (plain(r["predicted"]), r["predicted"]),
                (plain(r["observed"]), r["observed"]),
                f"{plain(r['low'])} to {plain(r['high'])}",
                (count(r["n"]), float(r["n"])),
            )
            for r in rows
        ],
        caption=f"Calibration of the {what}",
        numeric=(0, 1, 2, 3),
    )


def clipping(view: View, drawn: Charts, tag: str, level: float) -> str:
    """The estimate with its largest weights cut."""
    rows = evidence.clipping(view, level)
    if not rows:
        return ""
    data = table(
        ("Weights cut off at", "Value", f"{percent(level)} interval", "Decisions cut"),
        [
            (
                (plain(r["threshold"]), r["threshold"]),
                (plain(r["value"]), r["value"]),
                f"{plain(r['low'])} to {plain(r['high'])}",
                (percent(r["clipped"]), r["clipped"]),
            )
            for r in rows
        ],
        caption="Sensitivity to clipping",
        numeric=(0, 1, 2, 3),
    )
    spec = charts.clipping(rows, "The estimate against the largest weight allowed.")
    return drawn.figure(f"clipping-{tag}", spec, data=data)


def horizon(view: View, drawn: Charts, tag: str) -> str:
    """Weights of episodes step by step."""
    rows = evidence.horizon(view)
    if not rows:
        return ""
    data = table(
        ("Step", *(s[1] for s in charts.SERIES)),
        [
            (
                (str(r["step"]), float(r["step"])),
                *((percent(r[s[0]]), r[s[0]]) for s in charts.SERIES),
            )
            for r in rows
        ],
        caption="What is left, step by step",
        numeric=(0, 1, 2, 3),
    )
    keys = ("accent", "logged", "soft")
    legend = legend_of(*((k, s[1]) for k, s in zip(keys, charts.SERIES, strict=True)))
    spec = charts.horizon(
        rows, "Effective sample size, surviving weight and running episodes by step."
    )
    return drawn.figure(f"horizon-{tag}", spec, legend=legend, data=data)
