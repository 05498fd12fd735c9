"""What `evaluate` writes: whether it can be written is known before any work starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._output import write_text
from offpolicy.errors import OffPolicyError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.trust.gate import GateResult

FILES = ("json", "report", "summary", "sql")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # CI systems name a file for each step's summary here


def check(options: argparse.Namespace) -> None:
    """Raise where a file that was asked for could not be written, or has a wrong name."""
    for flag in FILES:
        path = getattr(options, flag, None)
        if path:
            _writable(f"--{flag}", Path(path))
    report = getattr(options, "report", None)
    if report and Path(report).suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--report {report}: name the file .html.")


def _writable(flag: str, path: Path) -> None:
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{flag} {path}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise UsageError(f"{flag} {path} is a folder. Name a file in it.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{flag} {path}: no permission to write there.")


def write(
    ev: Evaluation, options: argparse.Namespace, level: float, gates: Sequence[GateResult]
) -> list[str]:
    """Write what was asked for; returns what could not be written, so that no gate's code is lost."""
    from offpolicy.show.summary import markdown

    def text() -> str:
        return markdown(
            ev,
            level,
            gates,
            title=options.title,
            segments=options.segments,
            traffic=options.traffic,
        )

    tasks: list[tuple[Any, Callable[[], object]]] = [
        (
            options.json,
            lambda: ev.to_json(
                options.json,
                level=level,
                gates=gates,
                segments=options.segments,
                traffic=options.traffic,
            ),
        ),
        (options.report, lambda: _report(ev, options, level, gates)),
        (options.summary, lambda: write_text(options.summary, text())),
        (os.environ.get(STEP_SUMMARY), lambda: _append(os.environ[STEP_SUMMARY], text())),
    ]
    failures = []
    for path, task in tasks:
        try:
            _ = task() if path else None
        except (OSError, OffPolicyError, ImportError) as error:
            failures.append(f"{path} could not be written: {error}")
    return failures


def _report(
    ev: Evaluation, options: argparse.Namespace, level: float, gates: Sequence[GateResult]
) -> None:
    ev.report(
        options.report,
        level=level,
        title=options.title,
        segments=options.segments,
        command=None if ev.origin is None else ev.origin.command,
        gates=gates,
        traffic=options.traffic,
    )


def _append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
