"""``offpolicy advise``: how much exploration, and how many rows, a wanted width takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.cli import evaluating, logs, models, outputs, runfile, terminal
from offpolicy.cli.wording import in_flags
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse

DONE, NO_ANSWER = 0, 4


def run(options: argparse.Namespace) -> int:
    """Print the advice; a log that does not answer as it is is not green."""
    from offpolicy._output import write_text
    from offpolicy.cli.policies import parse_policies
    from offpolicy.decide.advise import SHARES, advise

    runfile.apply(options)
    outputs.check(options)
    log = logs.open_log(options)
    advice = advise(
        log,
        parse_policies(options.policy, log, options.config),
        width=options.width,
        level=0.95 if options.level is None else options.level,
        exploration=SHARES if options.exploration is None else _shares(options.exploration),
        behavior_model=evaluating.behavior(log, options),
        **{k: v for k in ("folds", "seed", "discount") if (v := getattr(options, k)) is not None},
        **models.asked_for(log.kind, options),
    )
    if options.json:
        write_text(options.json, advice.to_json() + "\n")
    terminal.say(in_flags(str(advice)))
    return DONE if advice.answered else NO_ANSWER


def _shares(words: list[str]) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise UsageError(f"--exploration {','.join(words)}: give shares such as 0.05,0.1.") from error
