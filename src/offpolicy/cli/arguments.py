"""The parser of commands and of studies: a usage error ends with the exit code 1."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse with an exit code of its own for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Exit with 1 and the message."""
        self.print_usage()
        self.exit(1, f"{self.prog}: {message}\n")
