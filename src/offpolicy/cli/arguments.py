"""The parser of commands and of studies: a usage error ends with the exit code 1."""

from __future__ import annotations

import argparse
from typing import NoReturn

from offpolicy.errors import UsageError

#: Roles that `offpolicy init` may be told instead of guessing.
GIVEN = ("action", "reward", "propensity", "cluster", "time", "episode", "step")
#: Formats of `offpolicy convert` besides tables.
TRACES = ("dsjson", "jsonl")
READABLE = (*TRACES, "router")


class Parser(argparse.ArgumentParser):
    """argparse with an exit code of its own for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Exit with 1 and the message."""
        self.print_usage()
        self.exit(1, f"{self.prog}: {message}\n")

    @property
    def declared(self) -> dict[str, argparse.Action]:
        """Every flag by the name of its value."""
        return {action.dest: action for action in self._actions if action.dest != "help"}


def names(text: str) -> list[str]:
    """Comma-separated names."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("an empty list of names was given.")
    return parts


def file_path(text: str) -> str:
    """A file to read or write; in a run file it is relative to that file."""
    if not text.strip():
        raise UsageError("an empty file name was given.")
    return text
