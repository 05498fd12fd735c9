"""A result in an experiment tracker: MLflow's runs, parameters, metrics and artifacts."""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import missing_dependency
from offpolicy.evaluation.shown import Tracked, name_of

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Decision

NUMBERS = ("value", "std_error", "low", "high")
LONGEST = 500  # characters that every tracking server takes as a parameter


def log_mlflow(ev: Evaluation, *, level: float, report: bool, folder: str, decision: Decision | None = None) -> str:
    """Log a result to the active MLflow run, or to a run of its own; the run's id."""
    try:
        import mlflow
    except ImportError as error:
        raise missing_dependency("mlflow", "mlflow", "log_mlflow()") from error
    with ExitStack() as stack:
        run = mlflow.active_run() or stack.enter_context(mlflow.start_run())
        mlflow.log_params(parameters(ev))
        more = Tracked() if decision is None else decision.tracked()
        decided = {name: x for name, x in more.metrics.items() if math.isfinite(x)}
        mlflow.log_metrics(decided | metrics(ev, level))
        mlflow.set_tags(verdicts(ev) | more.tags)
        with tempfile.TemporaryDirectory() as made:
            ev.to_json(Path(made) / "result.json", level=level)
            if report:
                ev.report(Path(made) / "report.html", level=level, decision=decision)
            for name, text in more.files.items():
                (Path(made) / name).write_text(text, encoding="utf-8")
            mlflow.log_artifacts(made, folder)
        return str(run.info.run_id)


def parameters(ev: Evaluation) -> dict[str, str]:
    """Settings of the call, each as a short text."""
    texts = {f"offpolicy.{name}": str(value) for name, value in ev.settings.items()}
    return {name: text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for name, text in texts.items()}


def verdicts(ev: Evaluation) -> dict[str, str]:
    """Verdicts on every policy, as tags."""
    return {
        f"offpolicy.verdict.{name.replace('/', '.')}{name_of(p)}": own.verdict(p).level
        for name, own in _named(ev)
        for p in ev.policies
    }


def _named(ev: Evaluation) -> list[tuple[str, Evaluation]]:
    """The evaluation of each metric under the beginning of its names: none where there is one, "cost/" of several."""
    if not ev.asked.are_several or not ev.is_whole:
        return [("", ev)]
    return [(f"{name_of(metric)}/", ev.metric(metric)) for metric in ev.metrics]


def metrics(ev: Evaluation, level: float) -> dict[str, float]:
    """Numbers of every policy and estimator; those that are not defined are left out."""
    found: dict[str, float | None] = {}
    for name, own in _named(ev):
        rows: list[dict[str, Any]] = own.rows(level)
        found |= {
            f"{name}{name_of(row['policy'])}/{name_of(row['estimator'])}/{number}": row[number]
            for row in rows
            for number in NUMBERS
        }
        logged = own.logged
        found |= {f"{name}logged/value": logged.value, f"{name}logged/std_error": logged.std_error}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}
