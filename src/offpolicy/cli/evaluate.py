"""``offpolicy evaluate`` and ``offpolicy check``: estimate, judge the gates, write, and only then print.

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

import numpy as np

from offpolicy.cli import changes, logs, outputs, terminal
from offpolicy.cli.settings import given
from offpolicy.cli.terminal import in_flags
from offpolicy.errors import DataError, UsageError
from offpolicy.inference.figures import plural_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from offpolicy._arrays import Bools, Floats
    from offpolicy.cli.terminal import Color
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Traffic
    from offpolicy.trust.gate import GateResult

BAD, ALARM = 1, 3
VERDICTS: dict[str, Color] = {"trust": "green", "caution": "yellow", "insufficient evidence": "red"}
OUTCOMES: dict[str, Color] = {"passed": "green", "failed": "red", "not enough evidence": "yellow"}
FINDINGS: dict[str, Color] = {"caution": "yellow", "alarm": "red"}
WIDTH = 100
ASKED = ("folds", "repeats", "discount", "seed", "minimize", "randomized", "gamma", "learned_elsewhere")


def run(options: argparse.Namespace) -> int:
    """Answer, and return the exit code of the gates."""
    from offpolicy.evaluation.shown import Traffic
    from offpolicy.inference.intervals.sample import check_level
    from offpolicy.scores.catalog import named
    from offpolicy.trust.gate import check as judge
    from offpolicy.trust.gate import verdicts, worst

    outputs.prepare(options)
    level = 0.95 if options.level is None else check_level(options.level)
    if options.gate_estimator is not None:
        named(options.gate_estimator)  # known before anything is computed
    traffic = Traffic.parse(options.traffic) if options.traffic else None
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
    from offpolicy.evaluation.evaluate import evaluate
    from offpolicy.trust.gate_text import expressions

    if options.gate is not None and not options.policy:
        expressions(options.gate, ["policy"])
    asked = given(options, *ASKED)
    if options.minimize_metric:
        asked["minimize"] = options.minimize_metric
    elif options.minimize and len(options.reward or ()) > 1:
        raise UsageError(f"--minimize: name the metric to minimize, such as --minimize-metric {options.reward[-1]}.")
    if options.bandwidth is not None:  # the window around a policy's number
        from offpolicy.kinds.kernel import KernelRatio

        asked["ratio"] = KernelRatio(options.bandwidth)
    if options.train_before is not None:
        log, predictions = trained_before(options)
        models: dict[str, Any] = {"reward_model": predictions, "behavior_model": logs.behavior(log, options)}
    else:
        log = logs.open_log(options)
        models = logs.models(log, options)
    policies = logs.parse_policies(options, log)
    gates = expressions(options.gate, list(policies), list(log.metrics))
    ev = evaluate(log, policies, estimators=options.estimator, n_jobs=options.jobs, **asked, **models)
    return replace(ev, origin=_origin(options)), gates


def _origin(options: argparse.Namespace) -> Any:
    from offpolicy.evaluation.shown import Origin

    paths = filter(None, (options.config, options.log))
    return Origin(
        command=shlex.join(map(_short, options.words_given)),
        paths=tuple(map(_short, paths)),
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


# -- ``--train-before DATE``: earlier rows train the reward model, later ones are evaluated ----------------------------


def trained_before(options: argparse.Namespace) -> tuple[Any, dict[str, Floats]]:
    """The log of the later rows, and (n, K) rewards by each metric, predicted for them from the earlier ones."""
    from offpolicy.models.fitting.policy_fits import predictions_apart

    if not options.time:
        raise UsageError("--train-before needs --time, the column with the date.")
    logs.check_flags(options)
    if options.engine or options.episode or options.slate:
        raise UsageError("--train-before works on a table of single decisions that is read into memory.")
    table = logs.table_of(options)
    if table.reading is not None:
        raise UsageError("--train-before works on tables. Convert the trace first: offpolicy convert.")
    frame = changes.apply(table.frame, options)
    early = is_early(frame[options.time], options.train_before, options.time_format)
    whole = logs.log_of(frame, options)
    order = np.arange(len(frame)) if whole.row_order is None else np.asarray(whole.row_order)
    predicted = {}
    for metric in whole.metrics:
        own = whole.with_reward(metric)
        found = predictions_apart(own, early[order], options.reward_model, options.seed or 0)
        in_frame = np.empty((len(frame), found.shape[1]))
        in_frame[order[~early[order]]] = found
        predicted[metric] = in_frame[~early]
    _say(frame, early, options)
    later = frame[~early].reset_index(drop=True)
    return logs.log_of(later, options, whole.actions), predicted


def is_early(values: Any, date: str, written: str | None = None) -> Bools:
    """Which rows come before a date."""
    import pandas as pd

    moments = pd.to_datetime(changes.moments_of(values, written), utc=True)
    try:
        cut = pd.Timestamp(date)
    except ValueError as error:
        raise UsageError(f"--train-before {date}: write a date such as 2026-01-31.") from error
    cut = cut.tz_localize("UTC") if cut.tzinfo is None else cut
    early = np.asarray(moments < cut, dtype=bool)
    if not early.any() or early.all():
        side = "before" if not early.any() else "on or after"
        raise DataError(
            f"--train-before {date}: no row is {side} that date; the log goes from {moments.min()} to {moments.max()}."
        )
    return early


def _say(frame: Any, early: Bools, options: argparse.Namespace) -> None:
    terminal.complain(
        f"The reward model is trained on {int(early.sum()):,} rows before {options.train_before}; "
        f"{int((~early).sum()):,} later rows are evaluated."
    )
    if options.cluster is not None:
        names = frame[options.cluster]
        both = len(set(names[early]) & set(names[~early]))
        if both:
            terminal.complain(
                f"{both:,} {plural_of(options.cluster)} have rows on both sides of that date, so the model has seen "
                "them before."
            )


# -- ``offpolicy check``: what a sceptic would check in the log itself ------------------------------------------------


def check(options: argparse.Namespace) -> int:
    """Print the findings; an alarm is not green."""
    from offpolicy._output import write
    from offpolicy.trust import check_log
    from offpolicy.trust.finding import wrapped

    outputs.prepare(options)
    log = logs.open_log(options).whole()
    several = len(log.metrics) > 1
    found = {name: check_log(log.with_reward(name)) for name in log.metrics}
    alarms = [f for findings in found.values() for f in findings if f.level == "alarm"]
    if options.json:
        rows = {name: findings.rows() for name, findings in found.items()}
        named = [{"metric": name, **row} for name, own in rows.items() for row in own]
        write(named if several else next(iter(rows.values())), options.json)
    said: set[str] = set()
    for name, findings in found.items():
        # What does not depend on the reward is said once.
        new = [f for f in findings if f"{f.level} {f.name} {f.sentence}" not in said]
        said |= {f"{f.level} {f.name} {f.sentence}" for f in new}
        start = "" if name == log.names.reward else "\n"
        if several and new:
            terminal.say(f"{start}{name}\n{'═' * len(name)}")
        for finding in new:
            terminal.say(in_flags("\n".join(wrapped(finding))), FINDINGS.get(finding.level))
    if alarms:
        names = ", ".join(dict.fromkeys(f.name for f in alarms))
        terminal.say(f"\nalarm: {names}. Do not rely on estimates from this log as it is.", "red")
    return ALARM if alarms else 0
