"""What each command does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import logs, runfile
from offpolicy.errors import UsageError
from offpolicy.report.text import align, table

if TYPE_CHECKING:
    import argparse

DONE = 0


REWARD_MODELS = ("auto", "linear", "lightgbm", "paper")
VALUE_MODELS = ("tabular", "fitted-q")


def _model(name: str) -> Any:
    """The model of this name."""
    if name == "linear":
        from offpolicy.models.rewards.auto import LinearReward

        return LinearReward()
    if name == "fitted-q":
        from lightgbm import LGBMRegressor

        from offpolicy.models.values.fitted_q import FittedQ

        return FittedQ(LGBMRegressor(n_estimators=100, verbosity=-1))
    if name == "tabular":
        from offpolicy.models.values.tabular import Tabular

        return Tabular()
    if name in {"lightgbm", "paper"}:
        from offpolicy.models.rewards.boosted import BoostedReward, paper_reward

        return BoostedReward() if name == "lightgbm" else paper_reward()
    return name


def demo(options: argparse.Namespace) -> int:
    """Evaluate a simulated log and print the truth beside every estimate."""
    from offpolicy.cli import demo as simulated

    result = simulated.run(
        simulated.Args(impressions=options.impressions, seed=options.seed),
        lambda text: print(f"· {text}", file=sys.stderr, flush=True),
    )
    print(align(simulated.HEADINGS, simulated.rows(result)))
    print()
    print("DML is the paper's estimator: doubly robust scores, every model fitted out of fold.")
    print("auto is the recommended one: as much of the model as lowers the variance.")
    print("The standard error of the direct method (DM) leaves out the error of its own model:")
    print("it can be far off, and sure of it.")
    return DONE


def evaluate(options: argparse.Namespace) -> int:
    """Estimate, print, write, and judge the gate."""
    from offpolicy.cli.policies import parse_policies
    from offpolicy.inference.intervals.sample import check_level
    from offpolicy.trust.gate import check as judge
    from offpolicy.trust.gate import verify, worst

    runfile.apply(options)
    log = logs.open_log(options)
    policies = parse_policies(options.policy, log)
    level = 0.95 if options.level is None else check_level(options.level)
    gates = options.gate or []
    for gate in gates:
        verify(gate, list(policies))
    _check_folders(options)
    known = log if log.in_memory else log.roles
    if options.behavior_model == "logged" and known.propensity is None:
        raise UsageError(
            "--behavior-model logged: the log has no propensities. Name them: --propensity."
        )
    behavior = None if options.behavior_model in {None, "logged"} else options.behavior_model
    given = {k: getattr(options, k) for k in ("folds", "repeats", "discount", "seed")}
    from offpolicy.evaluation.evaluate import evaluate as run

    ev = run(
        log,
        policies,
        estimators=options.estimator,
        behavior_model=behavior,
        n_jobs=options.jobs,
        **{k: v for k, v in given.items() if v is not None},
        **_value_model(log.kind, options),
    )
    print(table(ev, level))
    for name in ev.policies:
        print(f"\n{name}: {ev.verdict(name, level=level)}")
    if options.json:
        ev.to_json(options.json, level=level)
    if options.report:
        ev.report(options.report, level=level)
    results = [judge(ev, gate, level=level, estimator=options.gate_estimator) for gate in gates]
    for result in results:
        print(f"\n{result.sentence}")
    return worst([result.exit_code for result in results])


def _check_folders(options: argparse.Namespace) -> None:
    """Where to write is known before anything is fitted."""
    for flag in ("json", "report"):
        path = getattr(options, flag)
        if path and not Path(path).resolve().parent.is_dir():
            raise UsageError(f"--{flag} {path}: there is no folder {str(Path(path).parent)!r}.")


def _value_model(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """The model of rewards or values that was asked for, under the name `evaluate` gives it."""
    argument = "reward_model" if kind == "bandit" else "value_model"
    asked = getattr(options, argument)
    if asked is not None:
        return {argument: _model(asked)}
    wrong = "value_model" if kind == "bandit" else "reward_model"
    if getattr(options, wrong) is not None:
        flag = wrong.replace("_", "-")
        raise UsageError(
            f"--{flag} is for {'trajectories' if kind == 'bandit' else 'bandit logs'}."
        )
    return {}


def check(options: argparse.Namespace) -> int:
    """Print what a sceptic would check in the log itself."""
    from offpolicy.report.schema import write
    from offpolicy.trust import check_log

    runfile.apply(options)
    findings = check_log(_in_memory(logs.open_log(options)))
    print(findings)
    if options.json:
        write(findings.rows(), options.json)
    return DONE


def _in_memory(log: Any) -> Any:
    """A scanned log as weighted cells, on which the same checks run."""
    return log if log.in_memory else log.compress()
