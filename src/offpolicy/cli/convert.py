"""``offpolicy convert``: a log in one format becomes a table, or a table a log in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._output import written_whole
from offpolicy.cli import logs, outputs, runfile, terminal
from offpolicy.cli.changes import is_number
from offpolicy.cli.settings import READABLE, TRACES
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import read_dsjson, read_jsonl, read_router, write_dsjson, write_jsonl
from offpolicy.logs.formats.lines import open_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

READERS: dict[str, Any] = dict(zip(READABLE, (read_dsjson, read_jsonl, read_router), strict=True))
WRITERS: dict[str, Any] = dict(zip(TRACES, (write_dsjson, write_jsonl), strict=True))


def run(options: argparse.Namespace) -> int:
    """Read one, write the other, say what was left out."""
    runfile.apply(options)
    if options.log is None or options.output is None:
        raise UsageError("name both files: offpolicy convert IN OUT --from dsjson")
    outputs.check(options)
    if options.source in READERS:
        return _to_table(options)
    if options.target in WRITERS:
        log = logs.log_of(logs.frame_of(options), options)
        n = WRITERS[options.target](log, options.output)
        terminal.say(f"Wrote {n:,} lines to {options.output}")
        return 0
    raise UsageError("name the format: --from dsjson|jsonl|router to make a table, or --to dsjson|jsonl.")


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def spreadsheet_safe(frame: Any) -> tuple[Any, int]:
    """A frame whose texts no spreadsheet takes for formulas, and how many were changed.

    Different texts stay different: what looks like a text with its mark is marked once more.

    >>> import pandas as pd
    >>> safe, changed = spreadsheet_safe(pd.DataFrame({"a": ["=1+1", "'=1+1", "-3", "x"]}))
    >>> safe["a"].tolist(), changed
    (["'=1+1", "''=1+1", '-3', 'x'], 2)
    """
    changed = 0

    def guarded(value: Any) -> Any:
        nonlocal changed
        text = value.lstrip("'") if isinstance(value, str) else ""
        if not text.startswith(FORMULA) or is_number(text):
            return value
        changed += 1
        return f"'{value}"

    safe = frame.rename(columns=guarded)
    for name in safe.columns:
        if safe[name].dtype.kind not in "biufmM":
            _refuse_twins(safe[name])
            safe[name] = safe[name].map(guarded)
    return safe, changed


def _refuse_twins(values: Any) -> None:
    """A CSV has no types: 1 and "1" would be read as one label."""
    held: dict[str, type] = {}
    for value in values.dropna():
        if held.setdefault(str(value), type(value)) is not type(value):
            raise DataError(
                f"column {values.name!r} contains {str(value)!r} both as text and as a {held[str(value)].__name__}, "
                "which look the same in a CSV. Write .parquet, or give the column one type."
            )


def _csv_lines(frame: Any) -> Iterator[str]:
    """Lines of a CSV: every text in quotes, numbers as they are, nothing where a value is missing."""
    yield ",".join(map(_quoted, map(str, frame.columns))) + "\n"
    for row in frame.itertuples(index=False, name=None):
        yield ",".join(map(_cell, row)) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    missing = value is None or value != value  # noqa: PLR0124
    return "" if missing else repr(value) if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _to_table(options: argparse.Namespace) -> int:
    reading = READERS[options.source](options.log, on_error="raise" if options.strict else "report")
    frame = reading.frame
    suffix = "".join(Path(options.output).suffixes).lower()
    if suffix.endswith((".parquet", ".pq")):
        with written_whole(options.output) as part:
            frame.to_parquet(part, index=False)
    elif suffix.endswith((".csv", ".csv.gz")):
        plain = frame.drop(columns=["eligible"], errors="ignore")
        safe, changed = spreadsheet_safe(plain)
        with written_whole(options.output) as part, open_text(part, "w") as out:
            out.writelines(_csv_lines(safe))
        if changed:
            terminal.say(
                f"{changed:,} texts that a spreadsheet would run as formulas got a leading apostrophe; "
                "write .parquet to keep them unchanged"
            )
    else:
        raise DataError(f"{options.output}: unknown file type. Write .parquet or .csv.")
    terminal.say(f"Wrote {len(frame):,} rows to {options.output}")
    terminal.say(f"context columns: {','.join(reading.context) or '(none)'}")
    for line in logs.left_out(reading):
        terminal.say(line)
    return 0
