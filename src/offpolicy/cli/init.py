"""``offpolicy init``: look at a log, say what is in it, and write a run file that `evaluate` takes as it is."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from offpolicy._visible import visible
from offpolicy.cli import outputs, terminal
from offpolicy.cli.changes import MOST_LABELS, alike
from offpolicy.cli.files import SAMPLE_LINES, commas_in, first_lines, kind_of, read_table, separator_of
from offpolicy.cli.guess import Guess, guess
from offpolicy.cli.runfile import run_file
from offpolicy.cli.settings import GIVEN
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.figures import align

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

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
        terminal.say(f"{options.log}: {table.kind}, {rows:,} decisions; the format defines the roles")
        terminal.say(f"context: {', '.join(table.reading.context) or '(none)'}")
    else:
        facts = facts_of(table.frame)
        made = guess(
            facts,
            lambda names: _sums_to_one(table.frame, names),
            _given(options, facts),
            lambda column, action: tells(table.frame[column], table.frame[action]),
            lambda column, reward: tells(table.frame[column], table.frame[reward] != 0),
        )
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
        raise UsageError(f"no run file was written. Name the missing columns: offpolicy init {options.log} {flags}")
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
        raise UsageError(f"{output} exists. Choose another name with --output, or overwrite it with --force.")


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


def tells(column: Any, action: Any) -> bool:
    """Whether rows that agree in a column have the same action, far beyond what the actions' shares make likely.

    >>> import pandas as pd
    >>> a = pd.Series(list("ab") * 50)
    >>> tells(a.map({"a": 30.5, "b": 69.5}), a), tells(pd.Series([1, 1, 2, 2] * 25), a)
    (True, False)
    """
    rows = column.groupby([column, action]).size()
    same = rows.groupby(level=0)
    repeated = same.sum()[same.sum() > 1].index
    if not len(repeated):
        return False
    kept = rows[rows.index.get_level_values(0).isin(repeated)]
    right = kept.groupby(level=0).max().sum() / kept.sum()
    usual = float(action.value_counts(normalize=True).max())
    return bool(kept.sum() >= len(column) / 2 and len(repeated) <= len(column) / 5 and right > max(0.99, usual + 0.01))


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
        if role not in {"success", "propensity_unit", "time_format"} and (
            column == given or (isinstance(given, list) and column in given)
        ):
            return role
    listed = {name: spec.removeprefix("greedy:").split(",") for name, spec in made.policies.items()}
    return next((f"policy {name}" for name, columns in listed.items() if column in columns), "-")


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


Kind: TypeAlias = Literal["number", "whole", "text", "date", "truth", "list", "json", "empty"]

FEW = 20  # different values that are kept by name
SAMPLE = 200  # values whose writing is looked at
DATE = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}.*)?\s*|\s*\d{1,2}[./]\d{1,2}[./]\d{2,4}.*")
ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?\s*")
CLOCKS = ("", " %H:%M", " %H:%M:%S")
DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")


@dataclass(frozen=True)
class ColumnFacts:
    """A column in figures.

    Attributes
    ----------
    name : str
    kind : str
        What the values are: decimal numbers, whole numbers, text, dates (also as text), true and false, lists.
    rows, missing, distinct : int
        Rows of the sample, those without a value, and different values.
    low, high : float
        Of numbers.
    values : tuple of str
        The different values as text, sorted, where there are few.
    mean_inverse : float
        Mean of 1 / value where all lie in (0, 1], of 100 / value where all lie in (0, 100]: of true propensities it is
        near the number of actions.
    iso : bool
        Whether dates are written as 2026-01-31.
    time_formats : tuple of str
        The formats in which dates may be written instead; several where they cannot be told apart.
    alike : tuple of str
        Texts that differ from another one only by spaces or letter case, with that one.
    """

    name: str
    kind: Kind
    rows: int
    missing: int = 0
    distinct: int = 0
    low: float = math.nan
    high: float = math.nan
    values: tuple[str, ...] = ()
    mean_inverse: float = math.nan
    iso: bool = True
    time_formats: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()

    @property
    def filled(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        return self.filled >= 20 and self.distinct > 0.9 * self.filled

    @property
    def is_probability(self) -> bool:
        """Whether all values lie in (0, 1] and some are no whole numbers."""
        return self.kind == "number" and 0 < self.low <= self.high <= 1 and not self.missing

    @property
    def is_percentage(self) -> bool:
        """Whether all values lie in (0, 100] and some are above 1."""
        return self.kind in {"number", "whole"} and self.low > 0 and 1 < self.high <= 100 and not self.missing

    @property
    def words(self) -> tuple[str, ...]:
        """Parts of the name, in small letters."""
        return words_of(self.name)

    def describe(self) -> str:
        """What it holds, in a few words."""
        some = f"{self.distinct:,} different" if self.distinct != 1 else "always the same"
        text = {
            "number": f"numbers, {self.low:.4g} to {self.high:.4g}",
            "whole": f"whole numbers, {self.low:.10g} to {self.high:.10g} ({some})",
            "text": f"text, {some}",
            "date": f"dates or times, {some}",
            "truth": "true and false",
            "list": "lists",
            "json": "JSON as text",
            "empty": "nothing",
        }[self.kind]
        if self.kind == "text" and 1 < len(self.values) <= 4:
            text = f"text: {', '.join(self.values)}"
        return text + (f", {self.missing:,} missing" if self.missing and self.filled else "")


def words_of(name: str) -> tuple[str, ...]:
    """Parts of a column's name, whether written in snake or in camel case.

    >>> words_of("userId"), words_of("p_click-2"), words_of("recommended ad")
    (('user', 'id'), ('p', 'click', '2'), ('recommended', 'ad'))
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(w.lower() for w in re.split(r"[^0-9a-zA-Z]+", spaced) if w)


def facts_of(frame: Any) -> list[ColumnFacts]:
    """Facts of every column of a pandas frame."""
    return [column_facts(str(name), frame[name]) for name in frame.columns]


def column_facts(name: str, values: Any) -> ColumnFacts:
    """Facts of one column, a pandas series."""
    present = values.dropna()
    rows, missing = len(values), int(values.isna().sum())
    kind = kind_of_values(present)
    if kind in {"empty", "list"}:
        return ColumnFacts(name, kind, rows, missing)
    distinct = int(present.nunique())
    few = tuple(sorted(str(v) for v in present.unique())) if distinct <= FEW else ()
    plain = ColumnFacts(name, kind, rows, missing, distinct, values=few)
    if kind == "date":
        texts = present.iloc[:SAMPLE].astype(str)
        iso = all(ISO.fullmatch(t) for t in texts)
        return replace(plain, iso=iso, values=(), time_formats=() if iso else _time_formats(present))
    if kind == "text":
        return replace(plain, alike=alike(str(v) for v in present.unique()[:MOST_LABELS]))
    return _in_numbers(plain, present) if kind == "number" else plain


def _time_formats(present: Any) -> tuple[str, ...]:
    """The formats that read every text of a column."""
    import pandas as pd

    texts = pd.Series(present.astype(str).unique())
    able = (day + clock for day in DAYS for clock in CLOCKS)
    return tuple(f for f in able if bool(pd.to_datetime(texts, format=f, errors="coerce").notna().all()))


def kind_of_values(present: Any) -> Kind:
    """What the values of a column are; whole numbers are told from others by `column_facts`."""
    if not len(present):
        return "empty"
    by_type: dict[str, Kind] = {"b": "truth", "M": "date", "i": "number", "u": "number", "f": "number"}
    kind = by_type.get(present.dtype.kind)
    if kind is not None:
        return kind
    if present.dtype.kind == "O" and _is_list(present.iloc[0]):
        return "list"
    texts = present.iloc[:SAMPLE].astype(str)
    if {t.lower() for t in present.astype(str).unique()[:3]} <= {"true", "false"}:
        return "truth"
    if all(_is_json(t) for t in texts):
        return "json"
    return "date" if all(DATE.fullmatch(t) for t in texts) else "text"


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list."""
    if text.strip()[:1] not in {"{", "["}:
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _in_numbers(facts: ColumnFacts, present: Any) -> ColumnFacts:
    numbers = present.to_numpy(dtype=float)
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())
    scale = 1.0 if high <= 1 else 100.0
    inverse = float(np.mean(scale / numbers)) if low > 0 and high <= 100 else math.nan
    kind: Kind = "whole" if whole else "number"
    return replace(facts, kind=kind, low=low, high=high, mean_inverse=inverse)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | dict | np.ndarray)
