"""From a file name and flags to a log."""

from __future__ import annotations

import glob
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import DataError, UsageError
from offpolicy.logs.bandit import BanditLog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

BOOLEANS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
NAMES = {"i": "integers", "u": "integers", "f": "numbers", "b": "true and false"}
BANDIT = ("batch", "keep_probability", "id")  # columns of bandit logs only
LARGE = 500_000_000  # bytes of a file that an engine should read


def read_frame(path: str) -> Any:
    """Read CSV (also .gz) or Parquet as pandas."""
    import pandas as pd

    file = Path(path)
    if not file.exists():
        raise DataError(
            f"there is no file {path!r}. Check the path; quote a pattern: 'logs/*.parquet'."
        )
    kind = "".join(file.suffixes).lower()
    if kind.endswith((".parquet", ".pq")):
        return pd.read_parquet(file)
    if kind.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return pd.read_csv(file, sep="\t" if ".tsv" in kind else ",")
    raise DataError(f"{file.name}: unknown kind of file. Give CSV or Parquet.")


def open_log(options: argparse.Namespace) -> Any:
    """The log in the form that fits it: episodes, a scan where an engine should read it, or rows."""
    if not options.log:
        raise UsageError("which log? Give a CSV or Parquet file (or `log = …` in the run file).")
    _check_flags(options)
    if options.episode:
        return trajectories(frame_of(options), options)
    if _wants_engine(options):
        return scanned(options)
    return bandit_log(frame_of(options), options)


def _check_flags(options: argparse.Namespace) -> None:
    """No flag of the other kind of log is passed over."""
    if options.episode:
        wrong = ["batch", "keep_probability", "eligible", "engine", "memory_limit", "id", "table"]
        wrong += ["context"] if options.state else []
        said = "is not for episodes (--episode)"
    else:
        wrong, said = (
            ["step", "state", "terminated", "truncated", "horizon"],
            "is for episodes: name their column, --episode",
        )
    for name in wrong:
        if getattr(options, name, None):
            raise UsageError(f"--{name.replace('_', '-')} {said}.")


def _wants_engine(options: argparse.Namespace) -> bool:
    """Asked for, or many files, a folder, a database, or a file too large to read whole."""
    if options.engine:
        return True
    if options.eligible:
        return False
    file = Path(options.log)
    several = any(c in options.log for c in "*?[") or file.is_dir()
    database = file.suffix in {".duckdb", ".ddb", ".db"}
    return several or database or (file.is_file() and file.stat().st_size > LARGE)


def scanned(options: argparse.Namespace) -> Any:
    """A log that an engine reads."""
    from offpolicy.engines.scan import scan

    log = scan(
        options.log,
        **_roles(options, None),
        context=options.context,
        **{name: getattr(options, name) for name in BANDIT},
        table=options.table,
        engine=options.engine,
        memory_limit=options.memory_limit,
        progress=_stages(),
    )
    if not options.actions:
        return log
    held = log.table.schema()[options.action]
    kinds = {"i": held.is_integer(), "f": held.is_floating(), "b": held.is_boolean()}
    kind = next((k for k, found in kinds.items() if found), "O")
    return replace(log, given_actions=tuple(_as_kind(options.actions, kind, options.action)))


def _stages() -> Any:
    """Show the stages of an engine on standard error, where a person watches."""
    said: set[str] = set()

    def report(stage: str, done: float) -> None:
        if sys.stderr.isatty() and (stage not in said or done >= 1):
            said.add(stage)
            print(f"· {stage} {100 * done:.0f}%", file=sys.stderr, flush=True)

    return report


def frame_of(options: argparse.Namespace) -> Any:
    """The log's table: one file, or all files of a pattern one after the other."""
    if not options.log:
        raise UsageError("which log? Give a CSV or Parquet file (or `log = …` in the run file).")
    if not any(c in options.log for c in "*?["):
        return read_frame(options.log)
    paths = sorted(glob.glob(options.log, recursive=True))  # noqa: PTH207 (patterns may be absolute)
    if not paths:
        raise DataError(f"no file matches {options.log!r}.")
    import pandas as pd

    return pd.concat([read_frame(p) for p in paths], ignore_index=True)


def trajectories(frame: Any, options: argparse.Namespace) -> Any:
    """Episodes, one row per step."""
    from offpolicy.logs.trajectories import Trajectories

    return Trajectories.from_frame(
        frame,
        **_roles(options, frame),
        episode=options.episode,
        step=options.step,
        state=options.state or options.context,
        terminated=options.terminated,
        truncated=options.truncated or "raise",
        horizon=options.horizon,
        actions=_typed(options.actions, frame, options.action),
    )


def _roles(options: argparse.Namespace, frame: Any) -> dict[str, Any]:
    """The columns that logs of every kind have, by their role."""
    for flag in ("action", "reward"):
        if getattr(options, flag) is None:
            known = "" if frame is None else f" Columns: {', '.join(map(str, frame.columns))}"
            raise UsageError(f"--{flag} is missing: which column holds it?{known}")
    several = options.propensity
    one = isinstance(several, list) and len(several) == 1
    roles = {name: getattr(options, name) for name in ("action", "reward", "cluster", "weight")}
    return {**roles, "propensity": several[0] if one else several}


def bandit_log(frame: Any, options: argparse.Namespace) -> BanditLog:
    """Build the log from the flags."""
    return BanditLog.from_frame(
        frame,
        **_roles(options, frame),
        context=options.context,
        **{name: getattr(options, name) for name in BANDIT},
        actions=_typed(options.actions, frame, options.action),
        eligible=options.eligible,
    )


def _typed(labels: list[str] | None, frame: Any, column: str) -> list[Any] | None:
    """Labels from the command line in the type of the column."""
    if not labels or column not in frame.columns:  # the log says that the column is missing
        return labels
    return _as_kind(labels, frame[column].dtype.kind, column)


def _as_kind(labels: list[str], kind: str, column: str) -> list[Any]:
    make: dict[str, Callable[[str], Any]] = {
        "i": int,
        "u": int,
        "f": float,
        "b": BOOLEANS.__getitem__,
    }
    try:
        return [make[kind](label) if kind in make else label for label in labels]
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"--actions: {','.join(labels)} does not fit the column {column!r}, which holds {NAMES[kind]}."
        ) from error
