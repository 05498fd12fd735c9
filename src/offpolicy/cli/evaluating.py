"""``offpolicy evaluate``: estimate, judge the gates, write, and only then print.

The exit code is settled before anything is printed, so that neither a closed pipe nor a file that cannot be written
turns a failed gate green.
"""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import logs, models, outputs, runfile, terminal
from offpolicy.cli.wording import in_flags
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from offpolicy.cli.terminal import Color
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Traffic
    from offpolicy.logs.log import Log, Scan
    from offpolicy.trust.gate import GateResult

BAD = 1
VERDICTS: dict[str, Color] = {"trust": "green", "caution": "yellow", "insufficient evidence": "red"}
OUTCOMES: dict[str, Color] = {"passed": "green", "failed": "red", "not enough evidence": "yellow"}
WIDTH = 100


def run(options: argparse.Namespace) -> int:
    """Answer, and return the exit code of the gates."""
    from offpolicy.evaluation.shown import Traffic
    from offpolicy.inference.intervals.sample import check_level
    from offpolicy.scores.catalog import named
    from offpolicy.trust.gate import check as judge
    from offpolicy.trust.gate import verdicts, worst

    runfile.apply(options)
    level = 0.95 if options.level is None else check_level(options.level)
    if options.gate_estimator is not None:
        named(options.gate_estimator)  # known before anything is computed
    outputs.check(options)
    traffic = None if options.traffic is None else Traffic.parse(options.traffic)
    ev, gates = _evaluated(options)
    how: dict[str, Any] = {"level": level, "estimator": options.gate_estimator}
    results = [judge(ev, gate, require=options.require, **how) for gate in gates]
    if options.require and not gates:
        results = [verdicts(ev, **how)]
    code = worst([result.exit_code for result in results])
    failures = outputs.write(ev, options, level, results)
    show(ev, level, results, traffic)
    for failure in failures:
        terminal.complain(f"offpolicy evaluate: {failure}")
    return code or (BAD if failures else 0)


def _evaluated(options: argparse.Namespace) -> tuple[Evaluation, list[str]]:
    """The evaluation that was asked for, and its gates, which are read before anything is fitted."""
    from offpolicy.cli.policies import parse_policies
    from offpolicy.evaluation.evaluate import evaluate
    from offpolicy.trust.gate_text import expressions

    if options.gate is not None and not options.policy:
        expressions(options.gate, ["policy"])
    log, reward_model = _opened(options)
    policies = parse_policies(options.policy, log, options.config)
    gates = expressions(options.gate, list(policies), list(log.metrics))
    ev = evaluate(
        log,
        policies,
        estimators=options.estimator,
        behavior_model=behavior(log, options),
        **_ratio(options),
        n_jobs=options.jobs,
        **_settings(options),
        **reward_model,
    )
    return replace(ev, origin=_origin(options)), gates


def _opened(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The log, and the model of rewards or values to evaluate it with."""
    if options.train_before is not None:
        from offpolicy.cli import by_time

        log, predictions = by_time.opened(options)
        return log, {"reward_model": predictions}
    log = logs.open_log(options)
    return log, models.asked_for(log.kind, options)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("folds", "repeats", "discount", "seed", "minimize", "randomized", "gamma", "learned_elsewhere")
    given = {k: getattr(options, k) for k in names}
    if options.minimize_metric is not None:
        given["minimize"] = options.minimize_metric
    elif options.minimize and len(options.reward or ()) > 1:
        raise UsageError(
            f"--minimize: of which metric is less better? Name it: --minimize-metric {options.reward[-1]}."
        )
    return {k: v for k, v in given.items() if v is not None}


def _ratio(options: argparse.Namespace) -> dict[str, Any]:
    """The window around a policy's number, where one was asked for."""
    if options.bandwidth is None:
        return {}
    from offpolicy.policies.densities import KernelRatio

    return {"ratio": KernelRatio(options.bandwidth)}


def behavior(log: Log | Scan, options: argparse.Namespace) -> Any:
    """The behavior model that was asked for; None for the logged propensities."""
    asked = options.behavior_model
    if asked != "logged":
        return asked
    if not log.has_propensity:
        raise UsageError("--behavior-model logged: the log has no propensities. Name them: --propensity.")
    return None


def _origin(options: argparse.Namespace) -> Any:
    from offpolicy.evaluation.shown import Origin

    paths = [options.config] if options.config else []
    return Origin(
        command=shlex.join(map(_short, options.words_given)),
        paths=tuple(map(_short, (*paths, options.log))),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _short(word: str) -> str:
    """A path without the folders of this machine: relative to the working folder, or its name."""
    flag, mark, rest = word.partition("=") if word.startswith("--") else ("", "", word)
    path = Path(rest)
    if not path.is_absolute():
        return word
    inside = path.is_relative_to(Path.cwd())
    return f"{flag}{mark}{path.relative_to(Path.cwd()) if inside else path.name}"


def show(ev: Evaluation, level: float, gates: Sequence[GateResult], traffic: Traffic | None = None) -> None:
    """The plain sentence first, then why, then the figures, then the gates."""
    from offpolicy._visible import visible
    from offpolicy.show.text import pareto_table

    for name in ev.metrics:
        _show_metric(ev.metric(name), level, traffic)
    if ev.asked.are_several:
        terminal.say()
        terminal.say(pareto_table(ev, level))
    for gate in gates:
        terminal.say()
        terminal.say(in_flags(visible(gate.sentence)), OUTCOMES[gate.outcome])


def _show_metric(ev: Evaluation, level: float, traffic: Traffic | None) -> None:
    """Answers by one metric, under its name where there are several."""
    from offpolicy._visible import visible
    from offpolicy.show.answer import answers
    from offpolicy.show.text import best_of, direction, table

    if ev.asked.are_several:
        heading = f"{visible(ev.metric_name)} ({direction(ev)})"
        lead = "" if ev.is_whole else "\n"
        terminal.say(f"{lead}{heading}\n{'═' * len(heading)}")
    for answer in answers(ev, level, traffic):
        terminal.say(f"{visible(answer.policy)}: {answer.level.upper()}", VERDICTS[answer.level])
        terminal.say(_wrapped(answer.text, "  "))
        for reason in answer.reasons:
            if reason.level == "ok" and not ev.is_whole:  # said of the first metric
                continue
            text = f"{reason.text} {reason.remedy}".strip()
            terminal.say(_wrapped(in_flags(text), "  - "))
        terminal.say()
    best = best_of(ev, level)
    if best:
        terminal.say(_wrapped(best, ""))
        terminal.say()
    terminal.say(in_flags(table(ev, level)))


def _wrapped(text: str, indent: str) -> str:
    rest = " " * len(indent)
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=rest, break_long_words=False)
