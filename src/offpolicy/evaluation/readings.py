"""What can be read off an evaluation: checks, verdicts, gates, comparisons, tables, pages and pictures.

Pages and pictures stand in rooms to the right, behind doors (`offpolicy._doors`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy.errors import UsageError, missing_dependency
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from offpolicy._document import Section
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Decision
    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.pareto import Pareto
    from offpolicy.trust import Diagnostics
    from offpolicy.trust.gate import GateResult
    from offpolicy.trust.verdict import Verdict


def assumption(ev: Evaluation) -> str:
    """What the numbers assume of hidden causes, as half a sentence; empty where propensities were logged.

    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0])
    >>> op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]).assumption
    'assumes that nothing outside the context columns affected both the action and the reward'
    """
    from offpolicy.trust.assumption import assumption

    return assumption(ev)


def diagnostics(ev: Evaluation) -> Diagnostics:
    """Overlap, weights, effective sample size and model quality, by policy."""
    from offpolicy.trust import diagnose

    declared = ev.settings.get("learned_elsewhere", ())
    return diagnose(ev.problem, ev.targets, ev.estimates, ev.estimators, declared)


@checks_arguments
def verdict(ev: Evaluation, policy: str | None = None, estimator: str | None = None, *, level: float = 0.95) -> Verdict:
    """Whether the estimate of a policy can be relied on: a level and its reasons.

    Parameters
    ----------
    policy : str, optional
        Name of the policy; may be left out when there is one.
    estimator : str, optional
        Whose estimate to judge; default: the recommended one among those computed.
    level : float
        Of the intervals that the reasons quote.
    """
    from offpolicy.trust.verdict import judge

    return judge(ev, policy, estimator, level)


@checks_arguments
def gate(
    ev: Evaluation,
    expression: str,
    *,
    level: float = 0.95,
    estimator: str | None = None,
    require: Literal["trust"] | None = None,
    draws: int | None = None,
) -> GateResult:
    """Whether the log shows that a policy clears a bar: passed, failed, or not enough evidence.

    Parameters
    ----------
    expression : str
        Such as ``"lift > 0"``, ``"new - old > 0"``, or conditions on several metrics whose intervals hold
        together: ``"revenue lift > 0 and cost lift < 2%"``.
    level : float
        Of the intervals that must clear the bar.
    estimator : str, optional
        Whose estimates to use; default: the recommended one among those computed.
    require : "trust", optional
        Let nothing pass whose verdict is not "trust"; by default a verdict of "caution" may.
    draws : int, optional
        Draws of the folds in which it must pass; default: 7, and 1 for more than 50,000 units.
    """
    from offpolicy.trust.gate import check

    return check(ev, expression, level, estimator=estimator, require=require, draws=draws)


@checks_arguments
def bounds(
    ev: Evaluation, gamma: float, policy: str | None = None, *, level: float = 0.95
) -> tuple[float, float] | None:
    """Ends that hold a policy's value although an unrecorded cause changes the odds of an action by up to ``gamma``.

    None where the policy takes no logged action; an end for which there is too little evidence is infinite.

    Parameters
    ----------
    gamma : float
        The factor Γ of the marginal sensitivity model (Tan 2006), at least 1.
    policy : str, optional
        May be left out when there is one.
    level : float
        Probability with which the ends hold the value.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=2000)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=2000))
    >>> ev = op.evaluate(log, "always:1", estimators=["IPW"], behavior_model="shares")
    >>> low, high = ev.bounds(1.5)
    >>> low < 1.0 < high
    True
    """
    from offpolicy.trust.confounding import Sensitivity
    from offpolicy.trust.verdict import policy_name
    from offpolicy.trust.view import View

    view = View.of(ev.problem, ev.targets[policy_name(ev, policy)])
    return Sensitivity.of(view).ends(gamma, level) if view.weight.any() else None


@checks_arguments
def compare(ev: Evaluation, level: float = 0.95, estimator: str | None = None) -> Comparison:
    """Simultaneous intervals of all policies, and which of them may be the best.

    Parameters
    ----------
    level : float
        Probability with which all intervals hold together.
    estimator : str, optional
        Whose estimates to compare; default: the recommended one among those computed.
    """
    from offpolicy.inference.comparison import compare

    key = (level, estimator or headline(ev.estimators).name)
    return cast("Comparison", _once(ev, ("compared", *key), lambda: compare(ev, *key)))


@checks_arguments
def pareto(ev: Evaluation, level: float = 0.95, estimator: str | None = None) -> Pareto:
    """Every policy by every metric, by intervals that hold together, and who beats whom in all of them.

    Parameters
    ----------
    level : float
        Probability with which all intervals, and all claims, hold together.
    estimator : str, optional
        Whose estimates to compare; default: the recommended one among those computed.
    """
    from offpolicy.inference.pareto import pareto

    if not ev.is_whole:
        return ev.metric(ev.question.metrics.names[0]).pareto(level, estimator)
    by_metric = {metric: ev.metric(metric) for metric in ev.metrics}
    make = partial(pareto, by_metric, ev.asked.minimized, level, estimator)
    return cast("Pareto", _once(ev, ("front", level, estimator), make))


@checks_arguments
def frame(ev: Evaluation, *, backend: str | None = None, level: float = 0.95, verdicts: bool = True) -> Any:
    """Table of estimates as pandas (default) or polars: the current policy first, a verdict in every row.

    A log with several metrics has all of them, with a column ``metric``; ``ev.metric("cost").frame()`` has one.

    Parameters
    ----------
    backend : {"pandas", "polars"}, optional
        Kind of frame; default: polars when the log came from polars, else pandas.
    level : float
        Level of the intervals.
    verdicts : bool
        Whether to judge every estimate; False saves the checks, in simulations.
    """
    rows = door("rows")(ev, level, verdicts=verdicts)
    if ev.asked.are_several and ev.is_whole:
        rows = [
            {"metric": name, **row}
            for name in ev.metrics
            for row in door("rows")(ev.metric(name), level, verdicts=verdicts)
        ]
    return _as_frame(ev, rows, backend, "ev.frame()")


@checks_arguments
def summary(ev: Evaluation, *, backend: str | None = None, level: float = 0.95) -> Any:
    """One row per policy by the headline estimator: value, interval, change, verdict and A/B test.

    The intervals of several policies are corrected for their number, as in the report.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=4000)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=4000), np.full(4000, 0.5))
    >>> op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"]).summary()["verdict"].tolist()
    ['', 'trust']
    """
    return _as_frame(ev, door("summary")(ev, level), backend, "ev.summary()")


@checks_arguments
def segments(
    ev: Evaluation,
    columns: Sequence[str | int] | str | int | None = None,
    *,
    policy: str | None = None,
    backend: str | None = None,
    level: float = 0.95,
) -> Any:
    """Value, logged value and difference inside groups of rows, as a frame; all intervals hold together.

    Parameters
    ----------
    columns : column names, optional
        Context columns to group by; default: the first four of a frame's context.
    policy : str, optional
        Default: every policy.
    backend : {"pandas", "polars"}, optional
        Kind of frame, as in `frame`.
    level : float
        Probability with which all intervals of a policy hold.
    """
    rows = door("segments")(ev, columns, policy, level)
    return _as_frame(ev, rows, backend, "ev.segments()")


@checks_arguments
def to_latex(ev: Evaluation, *, level: float = 0.95) -> str:
    """The table of estimates for a paper: rounded, with intervals, changes and verdicts (needs booktabs)."""
    return str(door("latex")(ev, level))


def _as_frame(ev: Evaluation, rows: list[dict[str, Any]], backend: str | None, what: str) -> Any:
    if backend is None:
        source = getattr(ev.problem.log, "source", None)
        backend = "polars" if type(source).__module__.startswith("polars") else "pandas"
    try:
        if backend == "pandas":
            import pandas as pd

            return pd.DataFrame(rows)
        if backend == "polars":
            import polars as pl

            return pl.DataFrame(rows, infer_schema_length=None)
    except ImportError as error:
        raise missing_dependency(backend, None, what) from error
    raise UsageError(f"backend= must be 'pandas' or 'polars'. Got {backend!r} instead.")


@checks_arguments
def to_json(
    ev: Evaluation,
    path: str | Path | None = None,
    *,
    level: float = 0.95,
    gates: Sequence[GateResult] = (),
    segments: Sequence[str | int] | str | int | None = None,
    traffic: str | None = None,
) -> str:
    """Versioned JSON of everything shown, after the schema that ``offpolicy schema`` prints.

    Parameters
    ----------
    path : path, optional
        File to write.
    level : float
        Of the intervals.
    gates : sequence of GateResult
        Results of gates, to be kept with it.
    segments : column names, optional
        Columns to give the value by, as `segments` does; none by default.
    traffic : str, optional
        Such as "2M per month", to say what differences add up to.
    """
    return str(door("json")(ev, path, level, gates, segments, traffic))


@checks_arguments
def report(
    ev: Evaluation,
    path: str | Path,
    *,
    segments: Sequence[str | int] | str | int | None = None,
    level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
    decision: Decision | None = None,
    gates: Sequence[GateResult] = (),
    traffic: str | None = None,
    sections: Sequence[Section | Callable[[Evaluation], Section]] = (),
) -> Path:
    """Write one HTML file that answers the question and shows what the answer rests on.

    It opens from disk and asks the network for nothing; charts can be hovered over, sorted and
    filtered, and every number is in a table as well.

    Parameters
    ----------
    path : path
        File to write, ending in .html.
    segments : column names, optional
        Context columns to show the value by; default: the first four of a frame's context.
    level : float
        Level of the intervals.
    title : str, optional
        What to call the report.
    command : str, optional
        The command that made it, shown for reproduction; default: the call of `evaluate`.
    decision : Learned or Selection, optional
        What was decided from this evaluation: the tree is drawn, the bounds are listed.
    gates : sequence of GateResult
        Results of gates, shown under the answer.
    traffic : str, optional
        Such as "2M per month", to say what the difference adds up to.
    sections : sequence of Section, or of functions of the evaluation that return one
        Sections of your own, before the evidence.

    Returns
    -------
    Path
        The file written.
    """
    written: Path = door("report")(
        ev,
        path,
        segments=segments,
        level=level,
        title=title,
        command=command,
        decision=decision,
        gates=gates,
        traffic=traffic,
        sections=sections,
    )
    return written


@checks_arguments
def log_mlflow(
    ev: Evaluation,
    *,
    level: float = 0.95,
    report: bool = True,
    folder: str = "offpolicy",
    decision: Decision | None = None,
) -> str:
    """Log the result to MLflow: the active run, or a run of its own.

    Settings become parameters (``offpolicy.seed``), numbers metrics (``new/DML/value``, ``…/low``),
    verdicts tags (``offpolicy.verdict.new``); the JSON and the report become artifacts. Where it goes is
    MLflow's business: ``mlflow.set_tracking_uri(…)`` or MLFLOW_TRACKING_URI. Needs the extra ``mlflow``.

    Parameters
    ----------
    level : float
        Of the intervals.
    report : bool
        Whether to make the HTML report too.
    folder : str
        Of the artifacts.
    decision : Learned or Selection, optional
        What was decided from this evaluation: its numbers, tags and files (a tree as JSON and SQL) go along.

    Returns
    -------
    str
        The run's id.
    """
    return str(door("mlflow")(ev, level=level, report=report, folder=folder, decision=decision))


@checks_arguments
def learning_curve(ev: Evaluation, estimator: str | None = None, level: float = 0.95) -> Any:
    """What each learner of `offpolicy.replay` earned block by block, as a frame."""
    return door("learning curve")(ev, estimator, level)


@checks_arguments
def plot(
    ev: Evaluation,
    kind: str = "forest",
    *,
    ax: Any = None,
    policy: str | None = None,
    segments: Sequence[str | int] | str | int | None = None,
    level: float = 0.95,
) -> Any:
    """Draw one picture with matplotlib and return its axes, to restyle or save.

    Parameters
    ----------
    kind : str
        "forest", "differences", "weights", "overlap", "batches", "calibration", "clipping",
        "segments", "horizon" or, of slates, "positions"; "pareto" for two metrics against each other; "learning" for
        what algorithms earned as they learned.
    ax : matplotlib Axes, optional
        Where to draw; default: new axes.
    policy : str, optional
        Whose picture, for kinds that show one policy; may be left out when there is one policy.
    segments : column names, optional
        Columns of the "segments" picture.
    level : float
        Level of the intervals.
    """
    return door("plot")(ev, kind, ax=ax, policy=policy, segments=segments, level=level)


def _once(ev: Evaluation, key: Any, make: Callable[[], Any]) -> Any:
    """What is made when first asked for."""
    made = vars(ev).setdefault("_read", {})
    if key not in made:
        made[key] = make()
    return made[key]
