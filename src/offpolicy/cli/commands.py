"""What each command does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import logs, runfile
from offpolicy.report.text import align, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

DONE, FAILED, UNCERTAIN = 0, 3, 4


def _auto() -> Any:
    return "auto"


def _linear() -> Any:
    from offpolicy.nuisance.auto import LinearReward

    return LinearReward()


def _lightgbm() -> Any:
    from offpolicy.nuisance.boosted import BoostedReward

    return BoostedReward()


def _paper() -> Any:
    from offpolicy.nuisance.boosted import paper_reward

    return paper_reward()


REWARD_MODELS: dict[str, Callable[[], Any]] = {
    "auto": _auto,
    "linear": _linear,
    "lightgbm": _lightgbm,
    "paper": _paper,
}


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
    print("The standard error of the direct method (DM) leaves out the error of its own model:")
    print("it can be far off, and sure of it.")
    return DONE


def evaluate(options: argparse.Namespace) -> int:
    """Estimate, print, write, and judge the gate."""
    from offpolicy.cli.policies import parse_policies
    from offpolicy.evaluate import evaluate as run

    runfile.apply(options)
    log = logs.bandit_log(logs.frame_of(options), options)
    policies = parse_policies(options.policy, log)
    behavior = None if options.behavior_model in {None, "logged"} else options.behavior_model
    ev = run(
        log,
        policies,
        estimators=options.estimator,
        reward_model=REWARD_MODELS[options.reward_model or "auto"](),
        behavior_model=behavior,
        folds=2 if options.folds is None else options.folds,
        repeats=1 if options.repeats is None else options.repeats,
        seed=0 if options.seed is None else options.seed,
        n_jobs=options.jobs,
    )
    print(table(ev))
    for name in ev.policies:
        print(f"\n{name}: {ev.verdict(name)}")
    if options.json:
        ev.to_json(options.json)
    if options.gate:
        from offpolicy.gate import check as judge

        result = judge(ev, options.gate, level=options.level or 0.95)
        print(f"\n{result.sentence}")
        return int(result.exit_code)
    return DONE


def check(options: argparse.Namespace) -> int:
    """Print what a sceptic would check in the log itself."""
    from offpolicy.diagnostics import check_log

    runfile.apply(options)
    findings = check_log(logs.bandit_log(logs.frame_of(options), options))
    print(findings)
    if options.json:
        text = json.dumps(findings.rows(), indent=2, ensure_ascii=False, default=str)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return DONE
