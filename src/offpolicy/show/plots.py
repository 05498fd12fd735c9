"""Static pictures with matplotlib: `Evaluation.plot` returns the axes, so that users can restyle them.

The same facts as the report's charts. matplotlib is imported here and nowhere else in the library's core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError, did_you_mean, missing_dependency
from offpolicy.inference.figures import level_text
from offpolicy.show import calibration, curves, tables
from offpolicy.show import segments as grouping
from offpolicy.show.charts import SERIES, domain
from offpolicy.show.metrics import points as metric_points
from offpolicy.show.positions import by_position
from offpolicy.trust.verdict import policy_name
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.curves import StepCurves, ValueCurve
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.tables import Row

ACCENT, LOGGED, SOFT, FAINT = "#2557c7", "#b4540a", "#59616e", "#d5d8dd"


def plot(
    evaluation: Evaluation,
    kind: str,
    *,
    ax: Any = None,
    policy: str | None = None,
    segments: Sequence[grouping.Column] | grouping.Column | None = None,
    level: float = 0.95,
) -> Any:
    """Draw one kind of picture on ``ax`` (new axes when None) and return the axes."""
    if kind not in KINDS:
        raise UsageError(f"no plot is called {kind!r}.{did_you_mean(kind, KINDS)}")
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise missing_dependency("matplotlib", "plot", "ev.plot()") from error
    if kind in ALL_POLICIES:
        axes = _axes(plt, ax)
        ALL_POLICIES[kind](evaluation, axes, level)
    else:
        name = policy_name(evaluation, policy)
        view = View.of(evaluation.problem, evaluation.targets[name])
        axes = _axes(plt, ax)
        if kind == "segments":
            _segments(evaluation, name, grouping.groupings(evaluation, segments), axes, level)
        else:
            ONE_POLICY[kind](evaluation, name, view, axes, level)
        if len(evaluation.policies) > 1:
            axes.set_title(name, loc="left", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def new_axes(rows: int, what: str) -> Any:
    """Axes one below the other, with one scale for what is across."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise missing_dependency("matplotlib", "plot", what) from error
    return plt.subplots(rows, 1, sharex=True, layout="constrained")[1]


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
    axes.plot(curve.action, curve.value, "o-", color=ACCENT, ms=4, label="the same for everyone")
    axes.axhline(logged, color=LOGGED, lw=1.5, label="as logged")
    axes.set_xlabel(names.action)
    axes.set_ylabel(f"{names.reward}, {level_text(curve.level)} band over all actions")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes


def _axes(plt: Any, ax: Any) -> Any:
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _nothing(axes: Any, why: str) -> None:
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color=SOFT, wrap=True)
    axes.set_xticks([])
    axes.set_yticks([])


def _intervals(axes: Any, labels: list[str], rows: list[Row], colors: list[str]) -> None:
    """Points with intervals from top to bottom; names are drawn as text, never as mathematics."""
    for y, (row, color) in enumerate(zip(rows, colors, strict=True)):
        if row["value"] == row["value"]:
            axes.plot([row["low"], row["high"]], [y, y], color=color, lw=2, solid_capstyle="round")
            axes.plot([row["value"]], [y], "o", color=color, ms=6)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _band(axes: Any, x: list[Any], rows: list[Row]) -> None:
    """A line of estimates with its band of intervals."""
    ends = [r["low"] for r in rows], [r["high"] for r in rows]
    axes.fill_between(x, *ends, color=ACCENT, alpha=0.16, lw=0)
    axes.plot(x, [r["value"] for r in rows], "o-", color=ACCENT, ms=4, label="estimate")


def _forest(evaluation: Evaluation, axes: Any, level: float) -> None:
    rows = tables.forest(evaluation, level)
    low, high = evaluation.logged.interval(level).shown
    if low <= high:
        axes.axvspan(low, high, color=LOGGED, alpha=0.14, lw=0)
    axes.axvline(evaluation.logged.value, color=LOGGED, lw=1.5)
    _by_policy(evaluation, axes, rows)
    axes.set_xlim(*domain(rows, (evaluation.logged.value, low, high)))
    axes.set_xlabel(f"value (line: logged value), {level_text(level)} intervals")


def _differences(evaluation: Evaluation, axes: Any, level: float) -> None:
    rows = tables.differences(evaluation, level, pairs=())
    axes.axvline(0, color=LOGGED, lw=1.5)
    _by_policy(evaluation, axes, rows)
    axes.set_xlim(*domain(rows, (0.0,)))
    axes.set_xlabel(f"paired difference from the log, {level_text(level)} intervals")


def _pareto(evaluation: Evaluation, axes: Any, level: float) -> None:
    """The first two metrics against each other."""
    if not evaluation.asked.are_several:
        _nothing(axes, "the log has one metric")
        return
    up, across = evaluation.metrics[:2]
    for row in metric_points(evaluation.pareto(level), across, up):
        color = {"logged": LOGGED, "soft": SOFT}.get(row["kind"], ACCENT)
        axes.plot([row["x_low"], row["x_high"]], [row["y"]] * 2, color=color, lw=1.5)
        axes.plot([row["x"]] * 2, [row["y_low"], row["y_high"]], color=color, lw=1.5)
        axes.plot([row["x"]], [row["y"]], "o", color=color, ms=6)
        axes.annotate(
            row["policy"],
            (row["x"], row["y"]),
            xytext=(6, -13 if row["kind"] == "logged" else 6),
            textcoords="offset points",
            parse_math=False,
        )
    minimized = evaluation.asked.minimized
    for name, label in ((across, axes.set_xlabel), (up, axes.set_ylabel)):
        better = "lower" if name in minimized else "higher"
        label(f"{name} ({better} is better)", parse_math=False)
    axes.set_title(f"{level_text(level)} intervals that hold together", loc="left", fontsize="medium")


def _by_policy(evaluation: Evaluation, axes: Any, rows: list[Row]) -> None:
    many = len(evaluation.policies) > 1
    labels = [f"{r['policy']} · {r['estimator']}" if many else r["estimator"] for r in rows]
    _intervals(axes, labels, rows, [ACCENT if r["headline"] else SOFT for r in rows])


def _weights(evaluation: Evaluation, policy: str, view: View, axes: Any, _: float) -> None:
    rows = curves.weights(view)
    if not rows:
        _nothing(axes, "no unit has a positive weight")
        return
    edges = [r["low"] for r in rows] + [rows[-1]["high"]]
    axes.stairs([r["share"] for r in rows], edges, fill=True, color=ACCENT)
    axes.set_xscale("log")
    size = evaluation.diagnostics[policy, "effective_sample_size"]
    axes.set_xlabel(f"importance weight (effective sample size {size.value:,.4g})")
    axes.set_ylabel("share of units")


def _overlap(_: Evaluation, __: str, view: View, axes: Any, ___: float) -> None:
    rows = curves.overlap(view)
    for y, row in enumerate(rows):
        axes.plot([row["logged"], row["target"]], [y, y], color=FAINT, lw=3, zorder=1)
    axes.scatter([r["logged"] for r in rows], range(len(rows)), color=LOGGED, label="in the log")
    axes.scatter([r["target"] for r in rows], range(len(rows)), color=ACCENT, label="policy")
    axes.set_yticks(range(len(rows)), [r["action"] for r in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("share of decisions")
    axes.legend(frameon=False)


def _batches(evaluation: Evaluation, policy: str, _: View, axes: Any, level: float) -> None:
    rows = tables.batches(evaluation, policy, level)
    if not rows:
        _nothing(axes, "the log has no batches")
        return
    x = list(range(len(rows)))
    _band(axes, x, rows)
    axes.plot(x, [r["logged"] for r in rows], "--", color=LOGGED, label="logged")
    every = max(1, len(rows) // 8)
    axes.set_xticks(x[::every], [r["group"] for r in rows][::every], parse_math=False)
    axes.set_xlabel("batch")
    axes.legend(frameon=False)


def _calibration(_: Evaluation, __: str, view: View, axes: Any, level: float) -> None:
    rows = calibration.reward(view, level)
    what = "reward"
    if not rows:
        rows, what = calibration.behavior(view, level), "probability"
    if not rows:
        _nothing(axes, "no model was fitted, and only the logged action's probability is known")
        return
    ends = [x for r in rows for x in (r["predicted"], r["observed"])]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], "--", color=LOGGED, lw=1.5)
    for r in rows:
        axes.plot([r["predicted"]] * 2, [r["low"], r["high"]], color=ACCENT, lw=2)
    axes.plot([r["predicted"] for r in rows], [r["observed"] for r in rows], "o", color=ACCENT)
    axes.set_xlabel(f"predicted {what}")
    axes.set_ylabel(f"observed {what}")


def _clipping(_: Evaluation, __: str, view: View, axes: Any, level: float) -> None:
    rows = curves.clipping(view, level)
    if not rows:
        _nothing(axes, "there are no weights to cut")
        return
    _band(axes, [r["threshold"] for r in rows], rows)
    axes.set_xscale("log")
    axes.set_xlabel("weights cut off at")
    axes.set_ylabel("estimate")


def _horizon(_: Evaluation, __: str, view: View, axes: Any, ___: float) -> None:
    rows = curves.horizon(view)
    if not rows:
        _nothing(axes, "an impression has one step")
        return
    for (key, label, _color), color in zip(SERIES, (ACCENT, LOGGED, SOFT), strict=True):
        axes.plot([r["step"] for r in rows], [r[key] for r in rows], "o-", ms=4, color=color, label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("share left")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)


def _segments(evaluation: Evaluation, policy: str, grouped: list[grouping.Segments], axes: Any, level: float) -> None:
    rows = grouping.by_segment(evaluation, policy, grouped, level)
    if not rows:
        _nothing(axes, "the log has no context columns to group by")
        return
    _intervals(axes, [f"{r['column']}: {r['group']}" for r in rows], rows, [ACCENT] * len(rows))
    axes.plot([r["logged"] for r in rows], range(len(rows)), "|", color=LOGGED, ms=11, mew=2, label="logged")
    axes.set_xlim(*domain(rows, tuple(r["logged"] for r in rows)))
    axes.set_xlabel(f"value, {level_text(level)} intervals")
    axes.legend(frameon=False)


def _positions(_: Evaluation, __: str, view: View, axes: Any, level: float) -> None:
    rows = by_position(view, level)
    if not rows:
        _nothing(axes, "only slates with rewards of slots have positions")
        return
    at = list(range(len(rows)))
    _band(axes, at, rows)
    axes.plot(at, [r["logged"] for r in rows], "s--", ms=4, color=LOGGED, label="logged")
    axes.set_xticks(at, [r["group"] for r in rows])
    axes.set_xlabel("position")
    axes.set_ylabel("reward at the position")
    axes.legend(frameon=False)


ALL_POLICIES: dict[str, Callable[[Evaluation, Any, float], None]] = {
    "forest": _forest,
    "differences": _differences,
    "pareto": _pareto,
}
ONE_POLICY: dict[str, Callable[[Evaluation, str, View, Any, float], None]] = {
    "weights": _weights,
    "overlap": _overlap,
    "batches": _batches,
    "calibration": _calibration,
    "clipping": _clipping,
    "horizon": _horizon,
    "positions": _positions,
}
KINDS = (*ALL_POLICIES, *ONE_POLICY, "segments")
