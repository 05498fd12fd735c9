"""Parts of a report about one policy: its weights, overlap, positions, batches, segments, models, clipping, horizon."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offpolicy._document import Axis, Figure, Figures, Mark, Paragraph, Picture, Table
from offpolicy.inference.figures import DASH, count, level_text, measured, percent, plain
from offpolicy.logs.kinds import decision_word, unit_word
from offpolicy.show import evidence, segments, tables
from offpolicy.show.parts import BESIDE, BETWEEN, ORDERS, PAGE, Part, between, gap, interval_rows, per_unit, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._document import Block, Row
    from offpolicy.show.parts import Subject

BAND = (Mark("band"), Mark("line", y="value"), Mark("point", y="value"))
MOST_COLUMNS = 6
SMALL = 0.05


def _groups(s: Subject, first: str, rows: Sequence[Row], caption: str) -> Table:
    named = [{**r, "name": ": ".join([*([r["column"]] if "column" in r else []), r["group"]])} for r in rows]
    return Table.of(
        named,
        [(first, "name", str), ("Value", "value std_error", measured),
         (s.interval, BETWEEN, between), ("Logged", "logged std_error", measured),
         ("Against the current policy", "gap gap_low gap_high gap_error", gap),
         ("Units", "n", count), ("Share", "share", percent)],
        caption,
    )  # fmt: skip


def weights(s: Subject) -> list[Block]:
    """Distribution of the importance weights."""
    rows, checks = evidence.weights(s.view), s.ev.diagnostics[s.policy]
    size = checks["effective_sample_size"]
    share = f"{percent(checks['largest_weight_share'].value)} of the total"
    head = Figures((
        Figure("Effective sample", plain(size.value),
               f"{percent(size.details.get('share', float('nan')))} of the log"),
        Figure("Mean weight", plain(checks["mean_weight"].value, 4), "should be 1"),
        Figure("Largest weight", plain(checks["largest_weight"].value), share),
        Figure("Weight 0", percent(evidence.zero_share(s.view)), "the policy would act differently"),
    ))  # fmt: skip
    if not rows:
        return [head, Paragraph("No unit has a positive weight, so there is nothing to draw.")]
    picture = Picture(
        "weights",
        rows,
        [Mark("bar", y="share")],
        "Histogram of the positive importance weights on a logarithmic axis.",
        Axis("importance weight", rows[0]["low"], rows[-1]["high"], is_logarithmic=True),
        Axis(is_share=True),
        Table.of(
            rows,
            [("Weight from", "low", plain), ("to", "high", plain), ("Share of units", "share", percent),
             ("Share of the total weight", "carried", percent)],
            "Histogram of the positive weights",
        ),
        at=(1.0, "as often as logged"),
        measures=(("share", "share of units"), ("carried", "share of the total weight")),
        note=f"effective sample size {size.value:,.4g}",
    )  # fmt: skip
    return [head, picture]


def overlap(s: Subject) -> list[Block]:
    """Shares of actions in the log and under the policy."""
    rows = [{**r, "gap": abs(r["target"] - r["logged"])} for r in evidence.overlap(s.view)]
    if not rows:
        return []
    top = max(max(r["logged"], r["target"]) for r in rows) or 1.0
    data = Table.of(
        rows,
        [("Action", "action", str), ("In the log", "logged", percent),
         ("Under the policy", "target", percent),
         ("Covered by weights", "ratio", lambda share: DASH if share is None else percent(share))],
        "Shares of actions",
    )  # fmt: skip
    points = Mark("point", "logged", color="logged"), Mark("point", "target")
    return [
        Picture(
            "overlap",
            rows,
            [Mark("join", low="logged", high="target"), *points],
            "How often each action is taken in the log and under the policy.",
            Axis("share of decisions", 0.0, top * 1.02, is_share=True),
            table=data,
            label="action",
            legend=(("logged dot", "in the log"), ("accent dot", "under the policy")),
            orders=(("", "largest first"), ("gap", "by difference"), ("logged", "rarest in the log last"),
                    ("name", "by name")),
        )
    ]  # fmt: skip


def by_position(s: Subject) -> list[Block]:
    """What each position of a slate earns."""
    rows = evidence.by_position(s.view, s.level)
    if len(rows) < 2:
        return []
    about = "The estimate with its interval at each position, next to the logged value there."
    data = _groups(s, "Position", rows, "Estimate by position")
    more: dict[str, Any] = {"legend": BESIDE, "table": data, "note": s.note}
    return [interval_rows("positions", rows, "group", about, "reward at the position", **more)]


def horizon(s: Subject) -> list[Block]:
    """Weights of episodes step by step."""
    rows = evidence.horizon(s.view)
    if not rows:
        return []
    step, units = decision_word(s.view.log), unit_word(s.view.log, plural=True)
    series = [
        ("effective", "Effective sample size", "accent"),
        ("surviving", "Weight above 0", "logged"),
        ("running", "Still running", "soft"),
    ]
    shares = [(name, key, percent) for key, name, _ in series]
    return [
        Picture(
            "horizon",
            rows,
            [
                mark
                for key, _, color in reversed(series)
                for mark in (Mark("line", "step", key, color=color), Mark("point", "step", key, color=color))
            ],
            f"Effective sample size, surviving weight and running {units} by {step}.",
            Axis(step, 1.0, float(max(2, len(rows))), is_whole=True),
            Axis(is_share=True),
            Table.of(rows, [(step.capitalize(), "step", count), *shares], f"Remaining weight, {step} by {step}"),
            legend=[(color, name) for _, name, color in series],
        )
    ]


def batches(s: Subject) -> list[Block]:
    """The estimate from batch to batch."""
    rows = tables.batches(s.ev, s.policy, s.level)
    if len(rows) < 2:
        return []
    band, line, points = BAND
    return [
        Picture(
            "batches",
            rows,
            [band, Mark("line", y="logged", color="logged", is_dashed=True), line, points],
            "The estimate and the logged value in each batch, in order of time.",
            Axis("batch"),
            Axis.over(rows, "low high value logged"),
            _groups(s, "Batch", rows, "Estimate by batch"),
            ticks="group",
            legend=(("accent", "estimate and interval"), ("logged", "logged value")),
        )
    ]


def by_segment(s: Subject) -> list[Block]:
    """The estimate inside groups of context columns."""
    rows = segments.by_segment(s.ev, s.policy, s.document.groups, s.level)
    if not rows:
        return []
    shown, number = {g.column for g in s.document.groups}, len(s.document.groups)
    left_out = [name for name in s.ev.problem.log.context.names or () if name not in shown]
    note = (
        f"{len(rows)} segments of {'1 column' if number == 1 else f'{number} columns'} are shown. Their intervals are "
        f"widened so that all {len(rows)} hold at once with {level_text(s.level)} probability, both for values "
        "and for differences from the current policy. If the interval of a difference contains 0, the log cannot tell "
        "whether the policy earns more in that segment."
    )
    if left_out:
        some = ", ".join(left_out[:MOST_COLUMNS]) + (", …" if len(left_out) > MOST_COLUMNS else "")
        note += f" Not shown: {some}; ask for them with segments=."
    about = "The estimate with its interval inside each segment, next to the logged value there."
    data = _groups(s, "Segment", rows, "Estimate by segment")
    more: dict[str, Any] = {"heading": "column", "legend": BESIDE, "table": data, "orders": ORDERS, "note": s.note}
    return [Paragraph(note, "about"), interval_rows("segments", rows, "group", about, per_unit(s.ev), **more)]


def reward_model(s: Subject) -> list[Block]:
    """The reward or value model against what happened."""
    rows = evidence.reward_bins(s.view, s.level)
    if len(rows) < 2:
        return []
    single = s.view.decisions.layout.is_single
    what = "reward" if single else "value to come"
    where = "for rows that the model had not seen" if s.view.split != "full" else "for the model's training rows"
    against = "" if single else " They are compared with the reward plus the predicted value of the next step."
    about = f"Calibration of the model: observed against predicted {what}."
    return [Paragraph(f"Predictions {where}.{against}", "about"), _calibration(s, "reward", rows, what, about)]


def behavior(s: Subject) -> list[Block]:
    """The behavior policy against the actions that were taken."""
    rows = evidence.behavior_bins(s.view, s.level)
    if len(rows) >= 2:
        kind = "logged" if s.view.behavior_is_known else "estimated"
        about = "How often actions were taken, compared with their probability."
        small = rows[0]["predicted"] < SMALL
        picture = _calibration(s, "behavior", rows, "probability", about, is_logarithmic=small)
        return [Paragraph(f"Probabilities as {kind}, over all actions.", "about"), picture]
    inverse, total = evidence.inverse_propensities(s.view, s.level)
    if not inverse:
        return []
    shown = "the actions" if len(inverse) == total else f"the {len(inverse)} most played of the {total} actions"
    note = (
        f"The picture shows {shown} that the policy takes. For each, the mean of 1/propensity over the rows where it "
        "was logged (0 elsewhere) should be 1. The intervals are widened so that all of them hold at once with "
        f"{level_text(s.level)} probability."
    )
    about = "The mean of 1 over the propensity of each action, which should be 1."
    title = "mean of 1/propensity; 1 = as often as its propensity says"
    data = Table.of(
        inverse,
        [("Action", "action", str), ("Mean", "value", plain), (s.interval, "low high", span)],
        "Mean of the inverse propensity by action",
    )
    more: dict[str, Any] = {"references": (1.0,), "reference": (1.0, 1.0, 1.0), "table": data, "note": s.note}
    return [Paragraph(note, "about"), interval_rows("behavior", inverse, "action", about, title, **more)]


def _calibration(
    s: Subject, key: str, rows: Sequence[Row], what: str, about: str, *, is_logarithmic: bool = False
) -> Picture:
    """Observed against predicted, which agree on the diagonal."""
    drawn = [r for r in rows if not is_logarithmic or (r["predicted"] > 0 and r["observed"] > 0)]
    ends = [x for r in drawn for x in (r["predicted"], r["observed"])] or [0.1, 1.0]
    low, high = min(ends), max(ends)
    pad = 0.06 * (high - low) or 0.5
    low, high = (low / 1.3, high * 1.3) if is_logarithmic else (low - pad, high + pad)
    data = Table.of(
        rows,
        [(f"Predicted {what}", "predicted", plain), ("Observed", "observed", plain),
         (s.interval, "low high", span), ("Cases", "n", count)],
        f"Calibration of the {what}",
    )  # fmt: skip
    marks = [Mark("spread", "predicted", "observed"), Mark("point", "predicted", "observed")]
    across, up = (Axis(f"{word} {what}", low, high, is_logarithmic) for word in ("predicted", "observed"))
    return Picture(key, rows, marks, about, across, up, data, is_square=True, height=240)


def clipping(s: Subject) -> list[Block]:
    """The estimate with its largest weights cut."""
    rows = evidence.clipping(s.view, s.level)
    if not rows:
        return []
    caps = [r["threshold"] for r in rows]
    data = Table.of(
        rows,
        [("Weights capped at", "threshold", plain), ("Value", "value", plain),
         (s.interval, "low high", span), ("Decisions cut", "clipped", percent)],
        "Sensitivity to clipping",
    )  # fmt: skip
    return [
        Picture(
            "clipping",
            rows,
            [replace(mark, x="threshold") for mark in BAND],
            "The estimate against the largest weight allowed.",
            Axis("weights capped at", min(caps), max(caps), is_logarithmic=True),
            Axis.over(rows, "low high value"),
            data,
        )
    ]


PARTS: tuple[Part, ...] = (
    Part(
        "weights", "Importance weights",
        ("Each row counts by its [weight|importance weight]: how much more often the policy takes the logged action. "
        "The [effective|effective sample] is how many units the log is worth after weighting."),
        weights, nothing="no unit has a positive weight", shown=PAGE,
    ),
    Part(
        "overlap", "Actions in the log and under the policy",
        ("[overlap|Overlap]: where the policy favors actions that are rare in the log, a few rows stand in for many. "
        "Actions never logged have no data at all."),
        overlap, shown=PAGE,
    ),
    Part(
        "positions", "Value by position",
        ("The value of each slot of a slate, from the top. Weights add up to one at each position, and "
        "all intervals hold at once."),
        by_position, nothing="only slates with rewards of slots have positions", shown=PAGE,
    ),
    Part(
        "horizon", "Weights step by step",
        ("Weights are products over the steps of an episode, or the slots of a slate. The more steps or slots, "
        "the fewer episodes or slates determine the estimate."),
        horizon, nothing="an impression has one step", shown=PAGE,
    ),
    Part(
        "batches", "Estimate over time",
        ("The estimate inside each [batch|batch]. A trend here means that the past may not predict the future. "
        "The intervals are widened so that all of them hold at once."),
        batches, nothing="the log has no batches", shown=PAGE,
    ),
    Part(
        "segments", "Value by segment",
        ('The estimate inside groups of rows, next to the logged value. Open "Show the numbers" for the difference in '
        "each group, with its interval."),
        by_segment, nothing="the log has no context columns to group by", shown=PAGE,
    ),
    Part(
        "calibration", "Does the reward model predict what happened?",
        "On the diagonal, its predictions are right on average.",
        reward_model, nothing="no model was fitted", shown=PAGE,
    ),
    Part(
        "propensities", "Do the propensities match the log?",
        "Each action should have been logged as often as its probability says.",
        behavior, nothing="no model was fitted, and only the logged action's probability is known", shown=PAGE,
    ),
    Part(
        "clipping", "Sensitivity to large weights",
        ("The estimate when large weights are [clipping|capped] at ever lower values. If it moves a lot, a few rows "
        "drive it."),
        clipping, nothing="there are no weights to cap", shown=PAGE,
    ),
)  # fmt: skip
