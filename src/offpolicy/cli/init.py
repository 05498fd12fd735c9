"""``offpolicy init``: look at a log, say what is in it, and write a run file that `evaluate` takes as it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._visible import visible
from offpolicy.cli import outputs, terminal
from offpolicy.cli.arguments import GIVEN
from offpolicy.cli.columns import facts_of
from offpolicy.cli.files import SAMPLE_LINES, commas_in, first_lines, kind_of, read_table, separator_of
from offpolicy.cli.guess import Guess, guess
from offpolicy.cli.runfile_text import run_file
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.figures import align

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from offpolicy.cli.columns import ColumnFacts
    from offpolicy.cli.files import Table

SAMPLE_ROWS = 200_000
HEADINGS = ("column", "role", "holds", "because")
MARGIN = 1e-6


def run(options: argparse.Namespace) -> int:
    """Guess, print, write."""
    output = Path(options.output)
    outputs.check(options)
    _check(output, options)
    table = _sample(options.log)
    rows = len(table.frame)
    if table.reading is not None:
        made, facts = Guess(), []
        terminal.say(f"{options.log}: {table.kind}, {rows:,} decisions, roles are part of the format")
        terminal.say(f"context: {', '.join(table.reading.context) or '(none)'}")
    else:
        facts = facts_of(table.frame)
        made = guess(facts, lambda names: _sums_to_one(table.frame, names), _given(options, facts))
        _add_metrics(made, options)
        terminal.say(f"{options.log}: {table.kind}, {rows:,} rows, {len(facts)} columns")
        for line in _about(table):
            terminal.say(line)
        terminal.say()
        show(made, facts)
    for line in made.advice:
        terminal.say(f"- {line}")
    missing = [role for role in ("action", "reward") if role not in made.roles]
    if table.reading is None and missing:
        flags = " ".join(f"--{role} COL" for role in missing)
        raise UsageError(f"nothing was written. Say which: offpolicy init {options.log} {flags}")
    log = os.path.relpath(Path(options.log).resolve(), output.resolve().parent)
    output.write_text(run_file(log, table, made, facts), encoding="utf-8")
    terminal.say(f"\nWrote {output}. Review it, then run: offpolicy evaluate {output}")
    return 0


def _check(output: Path, options: argparse.Namespace) -> None:
    if output.suffix.lower() != ".toml":
        raise UsageError(f"--output {output}: a run file ends in .toml.")
    if not output.resolve().parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {str(output.parent)!r}.")
    if output.exists() and not options.force:
        raise UsageError(f"{output} exists. Choose another name (--output), or --force to write over it.")


def _sample(path: str) -> Table:
    """The first rows of a file, read the way it is written."""
    file = Path(path)
    if kind_of(file) != "csv":
        return read_table(path, rows=SAMPLE_ROWS)
    head = first_lines(file, SAMPLE_LINES)
    separator = separator_of(head[0] if head else "")
    decimal = "," if commas_in(head, separator) else None
    return read_table(path, separator=separator, decimal=decimal, rows=SAMPLE_ROWS)


def _given(options: argparse.Namespace, facts: Sequence[ColumnFacts]) -> dict[str, str]:
    """Roles that flags name."""
    names = [f.name for f in facts]
    given = {role: getattr(options, role) for role in GIVEN if getattr(options, role) is not None}
    metrics = given.pop("reward", None) or []
    columns = [*given.items(), *(("reward", metric) for metric in metrics)]
    for role, column in columns:
        if column not in names:
            raise UsageError(f"--{role} {column}: no such column.{did_you_mean(column, names)}")
    return given | ({"reward": metrics[0]} if metrics else {})


def _add_metrics(made: Guess, options: argparse.Namespace) -> None:
    """Further rewards that flags name; what is an outcome is no context."""
    metrics = options.reward or []
    if len(metrics) < 2:
        return
    made.roles["reward"] = list(metrics)
    for role in ("context", "state"):
        columns = made.roles.get(role)
        if isinstance(columns, list):
            made.roles[role] = [c for c in columns if c not in metrics]
    made.left_out[:] = [c for c in made.left_out if c not in metrics]
    for metric in metrics[1:]:
        made.why[metric] = "named as a metric"


def _sums_to_one(frame: Any, names: Sequence[str]) -> bool:
    total = frame[list(names)].sum(axis=1)
    return bool(((total - 1).abs() < MARGIN).all())


def _about(table: Table) -> list[str]:
    if table.dialect is None:
        return []
    lines = []
    if table.dialect.separator != ",":
        lines.append(f"columns are separated by {table.dialect.separator!r}")
    if table.dialect.decimal != ".":
        lines.append("numbers are written with a decimal comma")
    return lines


def role_of(column: str, made: Guess) -> str:
    """What a column is used for, in a word."""
    for role, given in made.roles.items():
        if role != "success" and (column == given or (isinstance(given, list) and column in given)):
            return role
    return next((f"policy {name}" for name, spec in made.policies.items() if column in spec.split(",")), "-")


def show(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    """What was seen and guessed: a table with lines on a terminal, plain columns in a pipe."""
    import sys

    rows = [
        (visible(f.name), visible(role_of(f.name, made)), visible(f.describe()), visible(made.why.get(f.name, "")))
        for f in facts
    ]
    if sys.stdout is None or not sys.stdout.isatty():
        terminal.say(align(HEADINGS, rows, numbers=False))
        return
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(*HEADINGS)
    for row in rows:
        grid.add_row(*row, style="dim" if row[1] == "-" else None)
    Console(markup=False).print(grid)
