"""``offpolicy check``: what a sceptic would check in the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.cli import logs, outputs, runfile, terminal
from offpolicy.cli.wording import in_flags

if TYPE_CHECKING:
    import argparse

    from offpolicy.cli.terminal import Color
    from offpolicy.trust import Finding

DONE, ALARM = 0, 3
NEWLINE = "\n"
COLORS: dict[str, Color] = {"caution": "yellow", "alarm": "red"}


def run(options: argparse.Namespace) -> int:
    """Print the findings; an alarm is not green."""
    from offpolicy._output import write
    from offpolicy.trust import check_log

    runfile.apply(options)
    outputs.check(options)
    log = logs.open_log(options).whole()
    several = len(log.metrics) > 1
    found = {name: check_log(log.with_reward(name)) for name in log.metrics}
    alarms = [f for findings in found.values() for f in findings if f.level == "alarm"]
    code = ALARM if alarms else DONE
    if options.json:
        rows = {name: findings.rows() for name, findings in found.items()}
        named = [{"metric": name, **row} for name, own in rows.items() for row in own]
        write(named if several else next(iter(rows.values())), options.json)
    said: set[str] = set()
    for name, findings in found.items():
        # What does not depend on the reward is said once.
        new = [f for f in findings if f"{f.level} {f.name} {f.sentence}" not in said]
        said |= {f"{f.level} {f.name} {f.sentence}" for f in new}
        if several and new:
            terminal.say(f"{'' if name == log.names.reward else NEWLINE}{name}{NEWLINE}{'═' * len(name)}")
        for finding in new:
            show(finding)
    if alarms:
        names = ", ".join(dict.fromkeys(f.name for f in alarms))
        terminal.say(f"\nalarm: {names}. Estimates from this log cannot be relied on as it is.", "red")
    return code


def show(finding: Finding) -> None:
    """A finding with its remedy, in the words of the command line."""
    from offpolicy.trust.finding import wrapped

    terminal.say(in_flags("\n".join(wrapped(finding))), COLORS.get(finding.level))
