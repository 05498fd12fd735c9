"""What `evaluate` writes: whether it can be written is known before any work starts."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._output import OPEN_STREAM, write_text
from offpolicy.cli import runfile, terminal
from offpolicy.engines.files import REMOTE, matching
from offpolicy.errors import OffPolicyError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.trust.gate import GateResult

FILES = ("json", "report", "summary", "sql", "label_plan", "output")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # CI systems name a file for each step's summary here


def prepare(options: argparse.Namespace) -> None:
    """What every command begins with: its run file, and whether what is asked for can be written."""
    runfile.apply(options)
    check(options)


def check(options: argparse.Namespace) -> None:
    """Raise where a file that was asked for could not be written, has a wrong name, or is needed for something else."""
    taken = _inputs(options)
    if sys.stdout is not None and not sys.stdout.isatty():
        taken.append(("where standard output goes", sys.stdout))
    for flag in FILES:
        path = getattr(options, flag)
        if not path or OPEN_STREAM.fullmatch(str(path)):
            continue
        shown = str(path) if flag == "output" else f"--{flag.replace('_', '-')} {path}"
        _writable(shown, Path(path))
        for what, other in taken:
            if _same_file(Path(path), other):
                raise UsageError(f"{shown} is {what} and would be overwritten. Name another file.")
        taken.append((f"also --{flag.replace('_', '-')}", Path(path)))
    if options.report and Path(options.report).suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--report {options.report}: name the file .html.")


def _inputs(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """The files that a command reads: the log's, the run file, and the policies' tables and trees."""
    log, config = options.log, options.config
    files: list[tuple[str, Any]] = [("the run file", Path(config))] if config else []
    if log and not REMOTE.match(log):
        files += [("a file of the log", Path(path)) for path in matching(log)]
    specs = [text.partition("=")[2] for text in options.policy or ()]
    return files + [("a file of a policy", Path(spec)) for spec in specs if Path(spec).is_file()]


def _same_file(path: Path, other: Any) -> bool:
    """Whether two names, or a name and an open stream, are of one file, which need not exist yet."""
    try:
        if not isinstance(other, Path):
            mine = path.stat()
            return stat.S_ISREG(mine.st_mode) and os.path.samestat(mine, os.fstat(other.fileno()))
        if path.exists() and other.exists():
            return path.samefile(other)
    except (OSError, ValueError):  # gone meanwhile, or a stream that is no file
        return False
    return os.path.realpath(path) == os.path.realpath(other)


def _writable(shown: str, path: Path) -> None:
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise UsageError(f"{shown} is a link that leads back to itself. Name another file.")
    if not target.parent.is_dir():
        raise UsageError(f"{shown}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise UsageError(f"{shown} is a folder. Name a file in it.")
    if not os.access(path if path.exists() else target.parent, os.W_OK):
        raise UsageError(f"{shown}: no permission to write there.")


def write(ev: Evaluation, options: argparse.Namespace, level: float, gates: Sequence[GateResult]) -> list[str]:
    """Write what was asked for; returns what could not be written, so that no gate's code is lost."""
    from offpolicy.show.text import markdown

    asked: dict[str, Any] = {"level": level, "gates": gates, "segments": options.segments, "traffic": options.traffic}
    named = asked | {"title": options.title}
    command = None if ev.origin is None else ev.origin.command
    tasks: list[tuple[str | None, Callable[[str], object]]] = [
        (options.json, lambda path: ev.to_json(path, **asked)),
        (options.report, lambda path: ev.report(path, command=command, **named)),
        (options.summary, lambda path: write_text(path, markdown(ev, **named))),
        (os.environ.get(STEP_SUMMARY), lambda path: _append(path, markdown(ev, **named))),
    ]
    failures = []
    for path, task in tasks:
        try:
            _ = task(path) if path else None
        except (OSError, OffPolicyError, ImportError) as error:
            failures.append(f"{path} could not be written: {error}")
    return failures


def _append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def schema(_: argparse.Namespace) -> int:
    """Print the JSON Schema of a result."""
    from offpolicy.show.schema import published

    terminal.say(published().rstrip())
    return 0
