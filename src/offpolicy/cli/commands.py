"""The small commands: a simulated log, and the schema of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.cli import outputs, terminal
from offpolicy.inference.figures import align

if TYPE_CHECKING:
    import argparse

DONE = 0


def demo(options: argparse.Namespace) -> int:
    """Evaluate a simulated log and print the truth beside every estimate."""
    from offpolicy.cli import demo as simulated

    outputs.check(options)
    result = simulated.run(
        simulated.Args(impressions=options.impressions, seed=options.seed), lambda text: terminal.complain(f"· {text}")
    )
    terminal.say(align(simulated.HEADINGS, simulated.rows(result)))
    terminal.say()
    terminal.say("DML is the paper's estimator: doubly robust scores, every model fitted out of fold.")
    terminal.say("auto is the recommended one: as much of the model as lowers the variance.")
    terminal.say("The standard error of the direct method (DM) leaves out the error of its own model:")
    terminal.say("it can be far off, and sure of it.")
    if options.report:
        result.known.report(options.report, title="Demo: a simulated ad log")
        terminal.say(f"The report is in {options.report}.")
    terminal.say("Now your own file: offpolicy init LOG")
    return DONE


def schema(_: argparse.Namespace) -> int:
    """Print the JSON Schema of a result."""
    from offpolicy.show.schema import published

    terminal.say(published().rstrip())
    return DONE
