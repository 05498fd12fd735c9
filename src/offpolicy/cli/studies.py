"""``offpolicy reproduce STUDY``: studies are other distributions that announce themselves.

A study is an entry point of the group ``offpolicy.studies``, which loads an object that follows `Study`. This
package knows none of them by name.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Protocol

from offpolicy.cli.commands import Parser
from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import argparse

GROUP = "offpolicy.studies"
COMMANDS = "offpolicy.commands"
INSTALL = "Install the project's studies from a checkout of its repository: pip install ./studies"


class Study(Protocol):
    """What an entry point of a study loads."""

    @property
    def name(self) -> str:
        """What the command line calls it: the name of the entry point."""

    @property
    def help(self) -> str:
        """One line for the list of studies, without a full stop."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags of the study."""

    def run(self, arguments: argparse.Namespace) -> str:
        """Run it and return what to print."""


def installed() -> dict[str, EntryPoint]:
    """The studies of all installed distributions, by name and not yet loaded."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def listing() -> str:
    """The installed studies, a line for each, or how to install some."""
    found = installed()
    if not found:
        return f"no study is installed. {INSTALL}"
    width = 2 + max(map(len, found))
    lines = [f"  {name:{width}}{_help(entry)}" for name, entry in found.items()]
    return "\n".join(["studies:", *lines, "", "flags of a study: offpolicy reproduce STUDY --help"])


def _help(entry: EntryPoint) -> str:
    try:
        study: Study = entry.load()
    except (ImportError, AttributeError) as error:  # one broken study must not hide the others
        return f"cannot be loaded: {error}"
    return study.help


def run(options: argparse.Namespace) -> int:
    """Run a study with its own flags and print its tables; without one, list those installed."""
    if not options.words:
        print(f"usage: offpolicy reproduce STUDY [flags of the study]\n\n{listing()}")
        return 0
    name, *flags = options.words
    found = installed()
    if name not in found:
        remedy = did_you_mean(name, found) if found else f" None is installed. {INSTALL}"
        raise UsageError(f"no study is called {name!r}.{remedy}")
    return _run(found[name].load(), f"offpolicy reproduce {name}", flags)


def run_command(options: argparse.Namespace) -> int:
    """Run a command that is a distribution of its own: an entry point of the group ``offpolicy.commands``."""
    found = {entry.name: entry for entry in entry_points(group=COMMANDS)}
    name = options.command
    if name not in found:
        remedy = f"Install it from a checkout of the repository: pip install ./{name}"
        raise UsageError(f"`offpolicy {name}` is a separate package, which is not installed. {remedy}")
    return _run(found[name].load(), f"offpolicy {name}", ["--help"] if options.help else options.words)


def _run(study: Study, prog: str, flags: list[str]) -> int:
    parser = Parser(prog=prog, description=f"{study.help}.")
    study.add_arguments(parser)
    sys.stdout.write(study.run(parser.parse_args(flags)).rstrip("\n") + "\n")
    return 0
