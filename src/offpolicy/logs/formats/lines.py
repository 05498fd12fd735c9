"""Files of one JSON object per line: read as a stream, bad lines kept with their numbers."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from offpolicy.errors import DataError, UsageError
from offpolicy.logs.bandit import BanditLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OnError: TypeAlias = Literal["report", "raise"]
MOST_SHOWN = 1_000


@dataclass(frozen=True)
class BadLine:
    """A line that could not be used, and why."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Reading:
    """A table read from a file, and what was left out of it.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row per decision, with columns ``action``, ``reward``, ``propensity`` and, where the file has
        them, ``keep_probability``, ``eligible``, ``event`` and ``time``.
    context : tuple of str
        Names of the context columns.
    bad : tuple of BadLine
        Lines that could not be used (the first thousand; ``n_bad`` counts all).
    n_skipped : int
        Lines that say of themselves that they are not to be learned from.
    """

    frame: Any
    context: tuple[str, ...]
    bad: tuple[BadLine, ...]
    n_bad: int
    n_skipped: int

    def log(self, **options: Any) -> BanditLog:
        """Build the `BanditLog`; ``options`` are further arguments of `BanditLog.from_frame`."""
        columns = set(self.frame.columns)
        roles: dict[str, Any] = {
            "context": list(self.context),
            "action": "action",
            "reward": "reward",
            "propensity": "propensity" if "propensity" in columns else None,
            "keep_probability": "keep_probability" if "keep_probability" in columns else None,
            "eligible": "eligible" if "eligible" in columns else None,
        }
        if "eligible" in columns and "actions" not in options:
            labels = {label for row in self.frame["eligible"] for label in row}
            roles["actions"] = sorted(labels, key=lambda x: (type(x).__name__, x))
        return BanditLog.from_frame(self.frame, **{**roles, **options})


def open_text(path: str | Path, mode: Literal["r", "w"] = "r") -> Any:
    """Open a text file, gzipped or not."""
    file = Path(path)
    if file.suffix == ".gz":
        return gzip.open(file, f"{mode}t", encoding="utf-8")
    return file.open(mode, encoding="utf-8")


def read_lines(
    path: str | Path, row_of: Callable[[dict[str, Any]], dict[str, Any] | None], on_error: OnError
) -> Reading:
    """Gather the rows of usable lines into a table; context fields are those under ``context``.

    ``row_of`` gives None for a line that is to be skipped and raises for a bad one.
    """
    if on_error not in {"report", "raise"}:
        raise UsageError(f"on_error= must be 'report' or 'raise'. Got {on_error!r} instead.")
    import pandas as pd

    name = Path(path).name
    rows: list[dict[str, Any]] = []
    bad: list[BadLine] = []
    skipped = 0
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = row_of(_object(line))
            except (json.JSONDecodeError, DataError, KeyError, IndexError, TypeError) as error:
                bad.append(BadLine(number, _reason(error)))
                if on_error == "raise":
                    raise DataError(f"{name}, {bad[-1]}") from error
                continue
            if row is None:
                skipped += 1
            else:
                rows.append(row)
    if not rows:
        first = f" The first bad one is {bad[0]}." if bad else ""
        raise DataError(f"{name}: no usable line ({len(bad):,} bad, {skipped:,} skipped).{first}")
    right = pd.DataFrame([row.pop("context") for row in rows])
    left = pd.DataFrame(rows)
    right = right.rename(columns={c: f"context.{c}" for c in right.columns if c in left.columns})
    frame = pd.concat([left, right], axis=1)
    names = tuple(str(c) for c in right.columns)
    return Reading(frame, names, tuple(bad[:MOST_SHOWN]), len(bad), skipped)


def _object(line: str) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise DataError("not a JSON object")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg} at character {error.pos})"
    if isinstance(error, KeyError):
        return f"no field {error.args[0]!r}"
    return str(error) or type(error).__name__


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested features as ``a.b`` columns; fields whose name starts with ``_`` are not features.

    >>> flatten({"user": {"age": 3, "_id": 7}, "tags": [{"x": 1}, "y"]})
    {'user.age': 3, 'tags.x': 1, 'tags.1': 'y'}
    """
    out: dict[str, Any] = {}
    if isinstance(value, dict):
        for key, part in value.items():
            if not str(key).startswith("_"):
                out.update(flatten(part, f"{prefix}.{key}" if prefix else str(key)))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            inner = prefix if isinstance(part, dict) else f"{prefix}.{i}"
            out.update(flatten(part, inner))
    else:
        out[prefix] = value
    return out


def write_lines(path: str | Path, objects: Iterable[dict[str, Any]]) -> int:
    """Write one JSON object per line, gzipped when the name ends in .gz; return how many."""
    n = 0
    with open_text(path, "w") as out:
        for value in objects:
            out.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
            n += 1
    return n
