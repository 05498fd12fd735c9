"""From a file name and flags to a log."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.data.bandit import BanditLog
from offpolicy.errors import DataError, UsageError

if TYPE_CHECKING:
    import argparse


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


def bandit_log(frame: Any, options: argparse.Namespace) -> BanditLog:
    """Build the log from the flags."""
    for flag in ("action", "reward"):
        if getattr(options, flag) is None:
            columns = ", ".join(map(str, frame.columns))
            raise UsageError(f"--{flag} is missing: which column holds it? Columns: {columns}")
    propensity: Any = options.propensity
    if isinstance(propensity, list) and len(propensity) == 1:
        propensity = propensity[0]
    return BanditLog.from_frame(
        frame,
        context=options.context,
        action=options.action,
        reward=options.reward,
        propensity=propensity,
        batch=options.batch,
        cluster=options.cluster,
        weight=options.weight,
        actions=_typed(options.actions, frame[options.action]) if options.actions else None,
        eligible=options.eligible,
        keep_probability=options.keep_probability,
    )


def _typed(labels: list[str], column: Any) -> list[Any]:
    """Labels from the command line in the type of the column."""
    kind = column.dtype.kind
    if kind in "iu":
        return [int(label) for label in labels]
    return [float(label) for label in labels] if kind == "f" else list(labels)
