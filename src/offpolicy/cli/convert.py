"""``offpolicy convert``: a log in one format becomes a table, or a table a log in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import logs, runfile, terminal
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import read_dsjson, read_jsonl, write_dsjson, write_jsonl

if TYPE_CHECKING:
    import argparse

READERS: dict[str, Any] = {"dsjson": read_dsjson, "jsonl": read_jsonl}
WRITERS: dict[str, Any] = {"dsjson": write_dsjson, "jsonl": write_jsonl}


def run(options: argparse.Namespace) -> int:
    """Read one, write the other, say what was left out."""
    runfile.apply(options)
    if options.log is None or options.output is None:
        raise UsageError("name both files: offpolicy convert IN OUT --from dsjson")
    if options.source in READERS:
        return _to_table(options)
    if options.target in WRITERS:
        log = logs.bandit_log(logs.frame_of(options), options)
        n = WRITERS[options.target](log, options.output)
        terminal.say(f"{n:,} lines written to {options.output}")
        return 0
    raise UsageError("say which format: --from dsjson|jsonl to make a table, or --to dsjson|jsonl.")


def _to_table(options: argparse.Namespace) -> int:
    reading = READERS[options.source](options.log, on_error="raise" if options.strict else "report")
    frame = reading.frame
    suffix = "".join(Path(options.output).suffixes).lower()
    if suffix.endswith((".parquet", ".pq")):
        frame.to_parquet(options.output, index=False)
    elif suffix.endswith((".csv", ".csv.gz")):
        plain = frame.drop(columns=["eligible"], errors="ignore")
        plain.to_csv(options.output, index=False)
    else:
        raise DataError(f"{options.output}: unknown kind of table. Write .parquet or .csv.")
    terminal.say(f"{len(frame):,} rows written to {options.output}")
    terminal.say(f"context columns: {','.join(reading.context) or '(none)'}")
    for line in logs.left_out(reading):
        terminal.say(line)
    return 0
