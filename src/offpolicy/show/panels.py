"""Panels about one policy: its weights, overlap, batches, segments, models, clipping and horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.inference.figures import count, level_text, measured, percent, plain
from offpolicy.logs.words import decision_word, unit_word
from offpolicy.show import calibration, charts, curves, positions, segments, tables
from offpolicy.show.answer import Figure
from offpolicy.show.glossary import tiles
from offpolicy.show.markup import columns_table
from offpolicy.show.sections import (
    BETWEEN,
    ORDERS,
    between,
    figure,
    gap,
    legend_of,
    per_unit,
    relative,
    span,
    tools_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.tables import Row
    from offpolicy.trust.view import View


MOST_COLUMNS = 6


@dataclass(frozen=True, eq=False)
class Subject:
    """What a panel is about: a policy of an evaluation, seen by its checks, and where charts are put."""

    ev: Evaluation
    policy: str
    view: View
    groups: Sequence[segments.Segments]
    tag: str  # of the policy, in the names of its charts
    level: float

    @property
    def interval(self) -> str:
        """Heading of a column of intervals."""
        return f"{level_text(self.level)} interval"


def weights(s: Subject) -> str:
    """Distribution of the importance weights."""
    rows, checks = curves.weights(s.view), s.ev.diagnostics[s.policy]
    size = checks["effective_sample_size"]
    share = f"{percent(checks['largest_weight_share'].value)} of the total"
    head = tiles([
        Figure("Effective sample", plain(size.value),
               f"{percent(size.details.get('share', float('nan')))} of the log"),
        Figure("Mean weight", plain(checks["mean_weight"].value, 4), "should be 1"),
        Figure("Largest weight", plain(checks["largest_weight"].value), share),
        Figure("Weight 0", percent(curves.zero_share(s.view)), "the policy would act otherwise"),
    ])  # fmt: skip
    if not rows:
        return head + "<p>No unit has a positive weight: there is nothing to draw.</p>"
    heights = [("share", "share of units"), ("carried", "share of the total weight")]
    data = columns_table(
        rows,
        [("Weight from", "low", plain), ("to", "high", plain), ("Share of units", "share", percent),
         ("Share of the total weight", "carried", percent)],
        "Histogram of the positive weights",
    )  # fmt: skip
    about = "Histogram of the positive importance weights on a logarithmic axis."
    tools = tools_of("Height", "measure", heights)
    return head + figure(f"weights-{s.tag}", charts.weights(rows), about, tools=tools, data=data)


def overlap(s: Subject) -> str:
    """Shares of actions in the log and under the policy."""
    rows = curves.overlap(s.view)
    if not rows:
        return ""
    orders = [("", "largest first"), ("gap", "by difference"), ("logged", "rarest in the log last"),
              ("name", "by name")]  # fmt: skip
    data = columns_table(
        rows,
        [("Action", "action", str), ("In the log", "logged", percent),
         ("Under the policy", "target", percent),
         ("Covered by weights", "ratio", relative)],
        "Shares of actions",
    )  # fmt: skip
    legend = legend_of(("logged dot", "in the log"), ("accent dot", "under the policy"))
    about = "How often each action is taken in the log and under the policy."
    tools = tools_of("Order", "order", orders)
    return figure(f"overlap-{s.tag}", charts.overlap(rows), about, tools=tools, legend=legend, data=data)


def batches(s: Subject) -> str:
    """The estimate from batch to batch."""
    rows = tables.batches(s.ev, s.policy, s.level)
    if len(rows) < 2:
        return ""
    data = _groups_table(s, "Batch", rows, "Estimate by batch")
    legend = legend_of(("accent", "estimate and interval"), ("logged", "logged value"))
    about = "The estimate and the logged value in each batch, in time."
    return figure(f"batches-{s.tag}", charts.batches(rows), about, legend=legend, data=data)


def _groups_table(s: Subject, first: str, rows: Sequence[Row], caption: str) -> str:
    named = [{**r, "name": ": ".join([*([r["column"]] if "column" in r else []), r["group"]])} for r in rows]
    return columns_table(
        named,
        [(first, "name", str), ("Value", "value std_error", measured),
         (s.interval, BETWEEN, between), ("Logged", "logged std_error", measured),
         ("Against the current policy", "gap gap_low gap_high gap_error", gap),
         ("Units", "n", count), ("Share", "share", percent)],
        caption,
    )  # fmt: skip


def by_segment(s: Subject) -> str:
    """The estimate inside groups of context columns."""
    rows = segments.by_segment(s.ev, s.policy, s.groups, s.level)
    if not rows:
        return ""
    log = s.ev.problem.log
    shown = {g.column for g in s.groups}
    left_out = [name for name in log.context.names or () if name not in shown]
    note = (
        f"{len(rows)} segments of {_columns(len(s.groups))} are shown. Their intervals are widened so that all "
        f"{len(rows)} hold together with {level_text(s.level)} probability, those of the values and those of the "
        "differences to the log. Where the latter holds 0, the log does not say for whom the policy earns more."
    )
    if left_out:
        some = ", ".join(left_out[:MOST_COLUMNS]) + (", …" if len(left_out) > MOST_COLUMNS else "")
        note += f" Not shown: {some}; ask for them with segments=."
    ends = charts.domain(rows, tuple(r["logged"] for r in rows))
    names = list(dict.fromkeys(r["column"] for r in rows))
    groups = [(name, [r for r in rows if r["column"] == name]) for name in names]
    drawing = charts.intervals(groups, "group", ends, title=per_unit(s.ev))
    about = "The estimate with its interval inside each segment, beside the logged value there."
    legend = legend_of(("soft", "estimate and interval"), ("logged", "logged value"))
    data = _groups_table(s, "Segment", rows, "Estimate by segment")
    tools = tools_of("Order", "order", ORDERS)
    body = figure(f"segments-{s.tag}", drawing, about, tools=tools, legend=legend, data=data)
    return f'<p class="about">{esc(note)}</p>{body}'


def _columns(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"


def reward_model(s: Subject) -> str:
    """The reward or value model against what happened."""
    rows = calibration.reward(s.view, s.level)
    if len(rows) < 2:
        return ""
    single = s.view.decisions.layout.is_single
    what = "reward" if single else "value to come"
    drawing = charts.calibration(rows, what=what, is_logarithmic=False)
    about = f"Calibration of the model: observed against predicted {what}."
    body = figure(f"reward-{s.tag}", drawing, about, data=_calibration_table(s, rows, what))
    where = "for rows that the model had not seen" if s.view.split != "full" else "for the rows it was fitted to"
    against = "" if single else " They are held against the reward plus the predicted value of the next step."
    return f'<p class="about">Predictions {where}.{against}</p><div class="narrow">{body}</div>'


def behavior(s: Subject) -> str:
    """The behavior policy against the actions that were taken."""
    rows = calibration.behavior(s.view, s.level)
    if len(rows) >= 2:
        small = rows[0]["predicted"] < calibration.SMALL
        drawing = charts.calibration(rows, what="probability", is_logarithmic=small)
        about = "How often actions were taken against their probability."
        data = _calibration_table(s, rows, "probability")
        body = figure(f"behavior-{s.tag}", drawing, about, data=data)
        kind = "logged" if s.view.behavior_is_known else "estimated"
        return f'<p class="about">Probabilities as {kind}, over all actions.</p><div class="narrow">{body}</div>'
    inverse, total = calibration.by_action(s.view, s.level)
    if not inverse:
        return ""
    ends = charts.domain(inverse, (1.0,))
    title = "mean of 1 / propensity; 1 = as often as said"
    drawing = charts.intervals([("", inverse)], "action", ends, title=title, reference=(1.0, 1.0, 1.0))
    about = "The mean of 1 over the propensity of each action, which should be 1."
    data = columns_table(
        inverse,
        [("Action", "action", str), ("Mean", "value", plain), (s.interval, "low high", span)],
        "Mean of the inverse propensity by action",
    )
    shown = "the actions" if len(inverse) == total else f"the {len(inverse)} most played of the {total} actions"
    return (
        f"<p class=about>Shown are {shown} that the policy takes. For each, the mean of 1 / propensity over the "
        "rows where it was logged (0 elsewhere) should be 1. The intervals are widened so that all of them "
        f"hold together with {level_text(s.level)} probability.</p>"
        + figure(f"behavior-{s.tag}", drawing, about, data=data)
    )


def _calibration_table(s: Subject, rows: Sequence[Row], what: str) -> str:
    return columns_table(
        rows,
        [(f"Predicted {what}", "predicted", plain), ("Observed", "observed", plain),
         (s.interval, "low high", span), ("Cases", "n", count)],
        f"Calibration of the {what}",
    )  # fmt: skip


def clipping(s: Subject) -> str:
    """The estimate with its largest weights cut."""
    rows = curves.clipping(s.view, s.level)
    if not rows:
        return ""
    data = columns_table(
        rows,
        [("Weights cut off at", "threshold", plain), ("Value", "value", plain),
         (s.interval, "low high", span), ("Decisions cut", "clipped", percent)],
        "Sensitivity to clipping",
    )  # fmt: skip
    about = "The estimate against the largest weight allowed."
    return figure(f"clipping-{s.tag}", charts.clipping(rows), about, data=data)


def horizon(s: Subject) -> str:
    """Weights of episodes step by step."""
    rows = curves.horizon(s.view)
    if not rows:
        return ""
    shares = [(name, key, percent) for key, name, _ in charts.SERIES]
    step = decision_word(s.view.log.kind)
    data = columns_table(rows, [(step.capitalize(), "step", count), *shares], f"What is left, {step} by {step}")
    legend = legend_of(*((color, name) for _, name, color in charts.SERIES))
    units = unit_word(s.view.log.kind, plural=True)
    about = f"Effective sample size, surviving weight and running {units} by {step}."
    return figure(f"horizon-{s.tag}", charts.horizon(rows, step), about, legend=legend, data=data)


def by_position(s: Subject) -> str:
    """What each position of a slate earns."""
    rows = positions.by_position(s.view, s.level)
    if len(rows) < 2:
        return ""
    ends = charts.domain(rows, tuple(r["logged"] for r in rows))
    drawing = charts.intervals([("", rows)], "group", ends, title="reward at the position")
    legend = legend_of(("soft", "estimate and interval"), ("logged", "logged value"))
    about = "The estimate with its interval at each position, beside the logged value there."
    data = _groups_table(s, "Position", rows, "Estimate by position")
    return figure(f"positions-{s.tag}", drawing, about, legend=legend, data=data)


# Key and title of each section, how to read it, and the panel it has for each policy.
PANELS: tuple[tuple[str, str, str, Callable[[Subject], str]], ...] = (
    (
        "weights", "Importance weights",
        ("Each row counts by its [weight|importance weight]: how much more often the policy takes the logged action. "
        "The [effective|effective sample] is how many rows that leaves."),
        weights,
    ),
    (
        "overlap", "What the log and the policy do",
        ("[overlap|Overlap]: where the policy favors actions that are rare in the log, a few rows stand in for many. "
        "Actions never logged have no data at all."),
        overlap,
    ),
    (
        "positions", "Value by position",
        ("What the slots of a slate earn, from the top. Values are by weights that add up to one at each position, and "
        "the intervals hold together."),
        by_position,
    ),
    (
        "horizon", "Weights step by step",
        ("Weights are products over the steps of an episode, or the slots of a slate: the more there are, the fewer "
        "episodes or slates carry the estimate."),
        horizon,
    ),
    (
        "batches", "Estimate over time",
        ("The estimate inside each [batch|batch]. A trend here means that the past may not predict the future. "
        "The intervals are widened so that all of them hold together."),
        batches,
    ),
    (
        "segments", "Value by segment",
        ('The estimate inside groups of rows, beside the logged value. Open "Show the numbers" for the difference in '
        "each group, with its interval."),
        by_segment,
    ),
    (
        "calibration", "Does the reward model predict what happened?",
        "On the diagonal, its predictions are right on average.",
        reward_model,
    ),
    (
        "propensities", "Do the propensities fit the log?",
        "Each action should have been logged as often as its probability says.",
        behavior,
    ),
    (
        "clipping", "Sensitivity to large weights",
        ("The estimate when large weights are [clipping|capped] at ever lower values. If it moves a lot, a few rows "
        "drive it."),
        clipping,
    ),
)  # fmt: skip
