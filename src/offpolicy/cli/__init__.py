"""The command line: ``offpolicy demo | evaluate | check | reproduce``.

Exit codes: 0 done (gate passed), 1 bad data or usage, 3 gate failed, 4 not enough evidence to say.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from offpolicy._threads import spin_briefly
from offpolicy.cli.parser import build_parser
from offpolicy.errors import OffPolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, BAD, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return DONE
    try:
        code: int = options.run(options)
    except OffPolicyError as error:
        print(f"offpolicy {options.command}: {error}", file=sys.stderr)
        return BAD
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush
        return DONE
    except (OSError, ImportError) as error:
        print(f"offpolicy {options.command}: {error}", file=sys.stderr)
        return BAD
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def entry() -> None:
    """Console script."""
    spin_briefly()
    sys.exit(main())
