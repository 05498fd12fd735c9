"""``offpolicy select`` and ``offpolicy learn``: which policy to adopt, and a better one from the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.cli import evaluating, logs, models, outputs, runfile, terminal
from offpolicy.cli.wording import in_flags
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from offpolicy.evaluation.shown import Decision
    from offpolicy.logs.log import Log

DONE, NOTHING_SHOWN = 0, 4


def select(options: argparse.Namespace) -> int:
    """Print the choice and the bound of every policy; a choice of nothing is not green."""
    from offpolicy._output import write_text
    from offpolicy.cli.policies import parse_policies
    from offpolicy.decide.select import check_question
    from offpolicy.decide.select import select as choose
    from offpolicy.evaluation.evaluate import evaluate

    runfile.apply(options)
    outputs.check(options)
    asked: dict[str, Any] = {"rate": 0.05 if options.rate is None else options.rate, "method": options.method or "auto"}
    check_question(**asked)
    log = logs.open_log(options)
    metric = _metric(log, options)
    settings = _given(options, "folds", "seed", "discount")
    settings |= {"minimize": [metric]} if options.minimize else {}
    ev = evaluate(
        log,
        parse_policies(options.policy, log, options.config),
        estimators=options.estimator,
        behavior_model=evaluating.behavior(log, options),
        **settings,
        **models.asked_for(log.kind, options),
    )
    choice = choose(ev.metric(metric), **asked)
    if options.json:
        write_text(options.json, choice.to_json() + "\n")
    _report(ev.metric(metric), choice, options)
    terminal.say(in_flags(str(choice)))
    return NOTHING_SHOWN if choice.keeps_logging else DONE


def learn(options: argparse.Namespace) -> int:
    """Learn a policy from the rows of a log, print it with its honest value, and write it where asked."""
    from offpolicy._output import write_text
    from offpolicy.decide.learn import learn_policy
    from offpolicy.decide.policies import TreePolicy

    runfile.apply(options)
    outputs.check(options)
    if options.learner == "boosted" and (options.json or options.sql):
        raise UsageError("--json and --sql write a tree; boosted regressions cannot be written so. Use --learner tree.")
    if options.episode:
        raise UsageError("learn is for single decisions, not for episodes (--episode).")
    log = logs.open_log(options)
    metric = _metric(log, options)
    learned = learn_policy(
        log,
        metric=metric,
        minimize=[metric] if options.minimize else False,
        **_given(options, "learner", "objective", "max_depth", "min_rows", "folds", "seed"),
        behavior_model=evaluating.behavior(log, options),
        **models.asked_for(log.kind, options),
    )
    policy = learned.policy
    if isinstance(policy, TreePolicy):
        for path, text in ((options.json, policy.to_json), (options.sql, policy.to_sql)):
            if path:
                write_text(path, text() + "\n")
    _report(learned.evaluation, learned, options)
    terminal.say(in_flags(str(learned)))
    return DONE


def _metric(log: Log, options: argparse.Namespace) -> str:
    """The metric that decides: the one there is, or the one named."""
    names: list[str] = list(log.metrics)
    if options.metric is None and len(names) > 1:
        raise UsageError(f"--metric: by which of the metrics {', '.join(names)}? Name it: --metric {names[0]}.")
    if options.metric is not None and options.metric not in names:
        raise UsageError(f"--metric {options.metric}: the metrics are {', '.join(names)}.")
    return names[0] if options.metric is None else str(options.metric)


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _report(ev: Any, decision: Decision, options: argparse.Namespace) -> None:
    if options.report:
        ev.report(options.report, decision=decision)
