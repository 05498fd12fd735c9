"""Pictures with matplotlib: `Evaluation.plot` returns the axes, so that users can restyle them.

The same pictures as the report's. matplotlib is imported here and nowhere else in the library's core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._document import Picture
from offpolicy.errors import UsageError, did_you_mean, missing_dependency
from offpolicy.inference.figures import level_text
from offpolicy.show.document import OWN, PARTS, Document
from offpolicy.show.parts import Subject
from offpolicy.trust.verdict import policy_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._document import Mark, Row
    from offpolicy.evaluation.curves import StepCurves, ValueCurve
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.segments import Column

COLORS = {"accent": "#2557c7", "logged": "#b4540a", "soft": "#59616e"}
ACCENT, LOGGED, SOFT = COLORS.values()
FAINT = "#d5d8dd"
MOST_TICKS = 8
# Parts whose first picture is drawn; other kinds are called like their part.
FORMER = {"forest": ("estimates",), "pareto": ("metrics",), "calibration": ("calibration", "propensities")}
KINDS = (
    "forest", "differences", "pareto", "weights", "overlap", "batches", "calibration", "clipping", "horizon",
    "positions", "segments", "learning",
)  # fmt: skip


def plot(
    evaluation: Evaluation,
    kind: str,
    *,
    ax: Any = None,
    policy: str | None = None,
    segments: Sequence[Column] | Column | None = None,
    level: float = 0.95,
) -> Any:
    """Draw one kind of picture on ``ax`` (new axes when None) and return the axes."""
    known = (*KINDS, *OWN)
    if kind not in known:
        raise UsageError(f"no plot is called {kind!r}.{did_you_mean(kind, known)}")
    pyplot("ev.plot()")
    asked = [(PARTS | OWN)[key] for key in FORMER.get(kind, (kind,))]
    document, of_one = Document(evaluation, level, segments=segments), asked[0].place == "evidence"
    name = policy_name(evaluation, policy) if of_one else policy or evaluation.policies[0]
    subject = Subject(document, name)
    pictures = (block for part in asked for block in part.make(subject) if isinstance(block, Picture))
    picture = next(pictures, None)
    axes = new_axes(1, "ev.plot()") if ax is None else ax
    if picture is None:
        axes.text(
            0.5, 0.5, asked[-1].nothing, ha="center", va="center", transform=axes.transAxes, color=SOFT, wrap=True
        )
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        draw(picture, axes)
    if of_one and len(evaluation.policies) > 1:
        axes.set_title(name, loc="left", parse_math=False)
    return axes


def pyplot(what: str) -> Any:
    """matplotlib, or what to install."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise missing_dependency("matplotlib", "plot", what) from error
    return plt


def new_axes(rows: int, what: str) -> Any:
    """Axes one below the other, with one scale for what is across."""
    return pyplot(what).subplots(rows, 1, sharex=True, layout="constrained")[1]


def draw(p: Picture, axes: Any) -> None:
    """A picture on axes; names are drawn as text, never as mathematics."""
    if p.reference is not None:
        value, low, high = p.reference
        if low < high:
            axes.axvspan(low, high, color=LOGGED, alpha=0.14, lw=0)
        axes.axvline(value, color=LOGGED, lw=1.5)
    for mark in p.marks:
        (_in_rows if p.label else _on_axes)(axes, mark, p.rows)
    _label_axes(p, axes)
    axes.spines[["top", "right"]].set_visible(False)
    if p.legend:
        from matplotlib.lines import Line2D

        keys = [Line2D([], [], color=COLORS[key.split()[0]], marker="o", ms=5) for key, _ in p.legend]
        axes.legend(keys, [text for _, text in p.legend], frameon=False)


def _label_axes(p: Picture, axes: Any) -> None:
    """Scales, ends, ticks and titles."""
    if p.label:
        names = [" · ".join(str(r[key]) for key in (p.heading, p.label) if key) for r in p.rows]
        axes.set_yticks(range(len(names)), names, parse_math=False)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(p.x.low, p.x.high)
    if p.is_square:
        axes.plot([p.x.low, p.x.high], [p.x.low, p.x.high], "--", color=LOGGED, lw=1.5)
    if p.ticks:
        every = max(1, len(p.rows) // MOST_TICKS)
        axes.set_xticks(range(0, len(p.rows), every), [str(r[p.ticks]) for r in p.rows][::every], parse_math=False)
    for axis, scale in ((p.x, axes.set_xscale), (p.y, axes.set_yscale)):
        if axis.is_logarithmic:
            scale("log")
    if p.y.is_share and not p.measures:
        axes.set_ylim(0, 1.02)
    if p.y.title:
        axes.set_title(p.note, loc="left", fontsize="medium")
    beside = "" if p.y.title else p.note
    axes.set_xlabel(", ".join(filter(None, (p.x.title, beside))), parse_math=False)
    axes.set_ylabel(p.measures[0][1] if p.measures else p.y.title, parse_math=False)


def _in_rows(axes: Any, mark: Mark, rows: Sequence[Row]) -> None:
    """A mark of rows from top to bottom."""
    if mark.kind == "point":
        axes.scatter([r[mark.x] for r in rows], range(len(rows)), color=COLORS[mark.color])
        return
    for y, row in enumerate(rows):
        if mark.kind == "join":
            axes.plot([row[mark.low], row[mark.high]], [y, y], color=FAINT, lw=3, zorder=1)
        elif row[mark.x] == row[mark.x]:
            color = ACCENT if row.get("headline") else SOFT
            axes.plot([row[mark.low], row[mark.high]], [y, y], color=color, lw=2, solid_capstyle="round")
            axes.plot([row[mark.x]], [y], "o", color=color, ms=6)
        if mark.kind == "interval" and "logged" in row:
            axes.plot([row["logged"]], [y], "|", color=LOGGED, ms=11, mew=2)


def _on_axes(axes: Any, mark: Mark, rows: Sequence[Row]) -> None:
    """A mark of rows on two axes."""
    x = [r[mark.x] if mark.x else i for i, r in enumerate(rows)]
    if mark.kind == "band":
        ends = [r[mark.low] for r in rows], [r[mark.high] for r in rows]
        axes.fill_between(x, *ends, color=COLORS[mark.color], alpha=0.16, lw=0)
    elif mark.kind == "line":
        axes.plot(x, [r[mark.y] for r in rows], "--" if mark.is_dashed else "-", color=COLORS[mark.color])
    elif mark.kind == "bar":
        edges = [*(r[mark.low] for r in rows), rows[-1][mark.high]]
        axes.stairs([r[mark.y] for r in rows], edges, fill=True, color=COLORS[mark.color])
    for r, at in zip(rows, x, strict=True):
        color = COLORS[mark.color_of(r)]
        if mark.kind == "point":
            axes.plot([at], [r[mark.y]], "o", color=color, ms=5)
        elif mark.kind == "spread":
            reach = [r[mark.low], r[mark.high]]
            axes.plot(*((reach, [r[mark.y]] * 2) if mark.is_flat else ([at] * 2, reach)), color=color, lw=1.5)
        elif mark.kind == "name":
            place = (6, -13 if color == LOGGED else 6)
            axes.annotate(r[mark.low], (at, r[mark.y]), xytext=place, textcoords="offset points", parse_math=False)


def plot_steps(curve: StepCurves, ax: Any = None) -> Any:
    """Value by step, and the effective number of episodes below it."""
    axes = new_axes(2, "step_curves().plot()") if ax is None else ax
    upper, lower = axes
    steps = np.arange(len(curve.logged))
    upper.plot(steps, curve.logged, label="logged")
    upper.plot(steps, curve.target, label="target")
    upper.fill_between(steps, curve.target - 1.96 * curve.error, curve.target + 1.96 * curve.error, alpha=0.2)
    upper.set_ylabel("reward")
    upper.legend()
    lower.plot(steps, curve.effective)
    lower.set_ylabel("effective episodes")
    lower.set_xlabel("step")
    return axes


def plot_value_curve(curve: ValueCurve, ax: Any = None) -> Any:
    """The curve and its band."""
    axes = new_axes(1, "value_curve().plot()") if ax is None else ax
    logged = curve.evaluation.logged.value
    names = curve.evaluation.problem.log.names
    axes.fill_between(curve.action, curve.low, curve.high, color=ACCENT, alpha=0.16, lw=0)
    axes.plot(curve.action, curve.value, "o-", color=ACCENT, ms=4, label="one action for everyone")
    axes.axhline(logged, color=LOGGED, lw=1.5, label="as logged")
    axes.set_xlabel(names.action)
    axes.set_ylabel(f"{names.reward}, {level_text(curve.level)} band over all actions")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes
