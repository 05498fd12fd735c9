"""The command line: ``offpolicy demo | init | evaluate | check | convert | schema | reproduce``.

Exit codes: 0 done (all gates passed), 1 bad data or usage, 3 a gate failed or a check raised an alarm, 4 not enough
evidence to say.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from offpolicy._threads import spin_briefly
from offpolicy.cli import terminal
from offpolicy.cli.commands import build_parser
from offpolicy.cli.terminal import in_flags
from offpolicy.errors import OffPolicyError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DONE, BAD, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    terminal.prepare()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return terminal.finish(DONE)
    words = sys.argv[1:] if arguments is None else list(arguments)
    options.words_given = ["offpolicy", *words]
    return terminal.finish(_run(options))


def _run(options: argparse.Namespace) -> int:
    try:
        _check_folder()
        code: int = options.run(options)
    except BrokenPipeError:  # a study whose reader has seen enough; commands with gates never get here
        return DONE
    except (OffPolicyError, OSError, ImportError) as error:
        terminal.complain(f"offpolicy {options.command}: {in_flags(str(error))}")
        return BAD
    except MemoryError:
        terminal.complain(
            f"offpolicy {options.command}: there is not enough memory for this log. Read it in parts with an engine: "
            "--engine duckdb --memory-limit 2GB."
        )
        return BAD
    except KeyboardInterrupt:
        terminal.complain("\ninterrupted")
        return INTERRUPTED
    return code


def _check_folder() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError("the current folder no longer exists. Change to another one with cd.") from error


def entry() -> None:
    """Console script."""
    spin_briefly()
    sys.exit(main())
