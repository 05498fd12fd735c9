"""What each command does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import logs, runfile
from offpolicy.errors import UsageError
from offpolicy.report.text import align, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

DONE, FAILED, UNCERTAIN = 0, 3, 4


def _auto() -> Any:
    return "auto"


def _linear() -> Any:
    from offpolicy.models.rewards.auto import LinearReward

    return LinearReward()


def _lightgbm() -> Any:
    from offpolicy.models.rewards.boosted import BoostedReward

    return BoostedReward()


def _paper() -> Any:
    from offpolicy.models.rewards.boosted import paper_reward

    return paper_reward()


def _tabular() -> Any:
    from offpolicy.models.values.tabular import Tabular

    return Tabular()


def _fitted_q() -> Any:
    from lightgbm import LGBMRegressor

    from offpolicy.models.values.fitted_q import FittedQ

    return FittedQ(LGBMRegressor(n_estimators=100, verbosity=-1))


REWARD_MODELS: dict[str, Callable[[], Any]] = {
    "auto": _auto,
    "linear": _linear,
    "lightgbm": _lightgbm,
    "paper": _paper,
}
VALUE_MODELS: dict[str, Callable[[], Any]] = {"tabular": _tabular, "fitted-q": _fitted_q}


def demo(options: argparse.Namespace) -> int:
    """Evaluate a simulated log and print the truth beside every estimate."""
    from offpolicy.experiments import demo as study

    result = study.run(
        study.Args(impressions=options.impressions, seed=options.seed),
        lambda text: print(f"· {text}", file=sys.stderr, flush=True),
    )
    print(align(study.HEADINGS, study.rows(result)))
    print()
    print("DML is the paper's estimator: doubly robust scores, every model fitted out of fold.")
    print("auto is the recommended one: as much of the model as lowers the variance.")
    print("The standard error of the direct method (DM) leaves out the error of its own model:")
    print("it can be far off, and sure of it.")
    return DONE


def evaluate(options: argparse.Namespace) -> int:
    """Estimate, print, write, and judge the gate."""
    from offpolicy.cli.policies import parse_policies
    from offpolicy.evaluation.evaluate import evaluate as run
    from offpolicy.inference.intervals.sample import check_level
    from offpolicy.trust.gate import check as judge
    from offpolicy.trust.gate import verify

    runfile.apply(options)
    log = logs.open_log(options)
    policies = parse_policies(options.policy, log)
    level = 0.95 if options.level is None else check_level(options.level)
    if options.gate:
        verify(options.gate, list(policies))
    _check_folders(options)
    known = log.roles if getattr(log, "is_scan", False) else log
    if options.behavior_model == "logged" and known.propensity is None:
        raise UsageError(
            "--behavior-model logged: the log has no propensities. Name them: --propensity."
        )
    behavior = None if options.behavior_model in {None, "logged"} else options.behavior_model
    ev = run(
        log,
        policies,
        estimators=options.estimator,
        behavior_model=behavior,
        folds=2 if options.folds is None else options.folds,
        repeats=1 if options.repeats is None else options.repeats,
        discount=1.0 if options.discount is None else options.discount,
        seed=0 if options.seed is None else options.seed,
        n_jobs=options.jobs,
        **_value_model(log.kind, options),
    )
    print(table(ev, level))
    for name in ev.policies:
        print(f"\n{name}: {ev.verdict(name, level=level)}")
    if options.json:
        ev.to_json(options.json, level=level)
    if options.report:
        ev.report(options.report, level=level)
    if options.gate:
        result = judge(ev, options.gate, level=level, estimator=options.gate_estimator)
        print(f"\n{result.sentence}")
        return int(result.exit_code)
    return DONE


def _check_folders(options: argparse.Namespace) -> None:
    """Where to write is known before anything is fitted."""
    for flag in ("json", "report"):
        path = getattr(options, flag)
        if path and not Path(path).resolve().parent.is_dir():
            raise UsageError(f"--{flag} {path}: there is no folder {str(Path(path).parent)!r}.")


def _value_model(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """The model of rewards or values that was asked for, under the name `evaluate` gives it."""
    models = REWARD_MODELS if kind == "bandit" else VALUE_MODELS
    argument = "reward_model" if kind == "bandit" else "value_model"
    asked = getattr(options, argument)
    if asked is not None:
        return {argument: models[asked]()}
    wrong = "value_model" if kind == "bandit" else "reward_model"
    if getattr(options, wrong) is not None:
        flag = wrong.replace("_", "-")
        raise UsageError(
            f"--{flag} is for {'trajectories' if kind == 'bandit' else 'bandit logs'}."
        )
    return {}


def check(options: argparse.Namespace) -> int:
    """Print what a sceptic would check in the log itself."""
    from offpolicy.trust import check_log

    runfile.apply(options)
    findings = check_log(_in_memory(logs.open_log(options)))
    print(findings)
    if options.json:
        text = json.dumps(findings.rows(), indent=2, ensure_ascii=False, default=str)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return DONE


def _in_memory(log: Any) -> Any:
    """A scanned log as weighted cells, on which the same checks run."""
    return log.compress() if getattr(log, "is_scan", False) else log
