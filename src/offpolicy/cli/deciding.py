"""The commands that lead to a decision: ``select``, ``learn``, ``advise`` and ``replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy._output import write_text
from offpolicy.cli import evaluate, logs, outputs, terminal
from offpolicy.cli.settings import given
from offpolicy.cli.terminal import in_flags
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from offpolicy.logs.log import Log

DONE, NO_ANSWER = 0, 4


def select(options: argparse.Namespace) -> int:
    """Print the choice and the bound of every policy; a choice of nothing is not green."""
    from offpolicy.decide.select import check_question
    from offpolicy.decide.select import select as choose
    from offpolicy.evaluation.evaluate import evaluate as estimate

    outputs.prepare(options)
    asked: dict[str, Any] = {"rate": 0.05, "method": "auto"} | given(options, "rate", "method")
    check_question(**asked)
    log = logs.open_log(options)
    metric = _metric(log, options)
    settings = given(options, "folds", "seed", "discount") | ({"minimize": [metric]} if options.minimize else {})
    policies = logs.parse_policies(options, log)
    ev = estimate(log, policies, estimators=options.estimator, **settings, **logs.models(log, options))
    choice = choose(ev.metric(metric), **asked)
    if options.json:
        write_text(options.json, choice.to_json() + "\n")
    if options.report:
        ev.metric(metric).report(options.report, decision=choice)
    terminal.say(in_flags(str(choice)))
    return NO_ANSWER if choice.keeps_logging else DONE


def learn(options: argparse.Namespace) -> int:
    """Learn a policy from the rows of a log, print it with its honest value, and write it where asked."""
    from offpolicy.decide.learn import learn_policy
    from offpolicy.decide.policies import TreePolicy

    outputs.prepare(options)
    if options.learner == "boosted" and (options.json or options.sql):
        raise UsageError("--json and --sql write a tree, and boosted regressions are not one. Use --learner tree.")
    if options.episode:
        raise UsageError("learn works on single decisions, not on episodes (--episode).")
    log = logs.open_log(options)
    metric = _metric(log, options)
    learned = learn_policy(
        log,
        metric=metric,
        minimize=[metric] if options.minimize else False,
        **given(options, "learner", "objective", "max_depth", "min_rows", "folds", "seed"),
        **logs.models(log, options),
    )
    policy = learned.policy
    if isinstance(policy, TreePolicy):
        for path, text in ((options.json, policy.to_json), (options.sql, policy.to_sql)):
            if path:
                write_text(path, text() + "\n")
    if options.report:
        learned.evaluation.report(options.report, decision=learned)
    terminal.say(in_flags(str(learned)))
    return DONE


def _metric(log: Log, options: argparse.Namespace) -> str:
    """The metric that decides: the one there is, or the one named."""
    names: list[str] = list(log.metrics)
    if options.metric is None and len(names) > 1:
        raise UsageError(f"name the metric that decides, one of {', '.join(names)}: --metric {names[0]}.")
    if options.metric is not None and options.metric not in names:
        raise UsageError(f"--metric {options.metric}: the metrics are {', '.join(names)}.")
    return names[0] if options.metric is None else str(options.metric)


def advise(options: argparse.Namespace) -> int:
    """How much exploration, and how many rows, a wanted width takes; a log that does not answer is not green."""
    from offpolicy.decide.advise import advise as advised

    outputs.prepare(options)
    asked = given(options, "width", "level", "folds", "seed", "discount")
    if options.exploration is not None:
        try:
            asked["exploration"] = [float(word) for word in options.exploration]
        except ValueError as error:
            raise UsageError(f"--exploration {','.join(options.exploration)}: give shares such as 0.05,0.1.") from error
    log = logs.open_log(options)
    if options.label_plan and not log.in_memory:
        raise UsageError("--label-plan numbers the rows of a file that is read whole: leave out --engine.")
    advice = advised(log, logs.parse_policies(options, log), **asked, **logs.models(log, options))
    if options.json:
        write_text(options.json, advice.to_json() + "\n")
    if options.label_plan:
        write_text(options.label_plan, _label_rows(log, advice))
    terminal.say(in_flags(str(advice)))
    return DONE if advice.answered else NO_ANSWER


def _label_rows(log: Log, advice: Any) -> str:
    """A CSV of the rows of the file, from 0 on, and the probability with which each policy's plan labels them."""
    import pandas as pd

    plans = {name: plan.probability for name, plan in advice.labels.items() if plan.probability is not None}
    if not plans:
        raise UsageError("--label-plan: no policy has a plan of labels that gives the width. Ask for a larger --width.")
    made = pd.DataFrame(plans)
    order = log.row_order
    made.insert(0, "row", range(len(made)) if order is None else order)
    text: str = made.sort_values("row").to_csv(index=False)
    return text


def replay(options: argparse.Namespace) -> int:
    """Replay algorithms that learn, judge the gates, write, and print the answer with its learning curves."""
    from offpolicy.decide.replay import replay as replayed
    from offpolicy.trust.gate import worst
    from offpolicy.trust.gate_text import expressions

    outputs.prepare(options)
    learners = _learners(options.learner)
    level = 0.95 if options.level is None else options.level
    log = logs.open_log(options)
    gates = expressions(options.gate, list(learners), list(log.metrics))
    settings = given(options, "method", "time", "metric", "accept", "seed", "minimize", "randomized")
    blocks = int(options.blocks) if (options.blocks or "").isdigit() else options.blocks
    asked = {"blocks": blocks, "estimators": options.estimator, **settings}
    ev = replayed(log, learners, **asked, **logs.models(log, options))
    judged = [ev.gate(gate, level=level) for gate in gates]
    failures = outputs.write(ev, options, level, judged)
    evaluate.show(ev, level, judged)
    terminal.say()
    curve = ev.learning_curve(level=level)
    wide = curve.pivot_table(index="block", columns="policy", values="value", sort=False)
    terminal.say(f"value by block, learned from earlier blocks:\n{wide.to_string(float_format='%.4g')}")
    for failure in failures:
        terminal.complain(failure)
    return worst([gate.exit_code for gate in judged]) if judged else int(bool(failures))


def _learners(specs: Sequence[str] | None) -> dict[str, Any]:
    """Learners by name: a word such as linucb, ``name=word``, or ``name=package.module:Learner``."""
    from offpolicy.decide import online
    from offpolicy.policies.forms import imported

    if not specs:
        words = ", ".join(online.WORDS)
        raise UsageError(f"which learner? Give --learner {words}, or name=package.module:Learner.")
    found: dict[str, Any] = {}
    for spec in specs:
        name, separator, what = spec.partition("=")
        what = what if separator else name
        if name in found:
            raise UsageError(f"--learner: the name {name!r} is used twice.")
        made = imported(what, None) if ":" in what else online.named(what)  # type: ignore[arg-type]
        found[name] = made() if isinstance(made, type) else made
    return found
