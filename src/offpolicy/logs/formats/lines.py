"""Files of one JSON object per line: read as a stream, bad lines kept with their numbers."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from offpolicy._output import written_whole
from offpolicy._visible import printable
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.bandit import BanditLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

OPTIONAL = ("propensity", "keep_probability", "eligible", "candidates")  # roles of columns by these names
LISTS = ("eligible", "candidates")
OnError: TypeAlias = Literal["report", "raise"]
MOST_SHOWN = 1_000
LONGEST_LINE = 10_000_000  # bytes
MOST_FIELDS = 10_000
MOST_DEPTH = 32
EXACT = 2**53  # beyond it not every whole number is a float
MOST_EXPANSION = 400  # a text file hardly ever compresses better than this
BOMB_SAMPLE = 64_000_000
# What a line can be wrong in, from its bytes to the layout of its fields.
UNUSABLE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class BadLine:
    """A line that could not be used, and why."""

    line: int
    reason: str

    @printable
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
    reward : str
        Column of the reward, unless `log` is told another.
    lines : tuple of int
        Number of the line that each row came from.
    roles : {argument: value}
        Further arguments of ``from_frame``, such as which columns are the slate and the position.
    makes : class
        The log that the rows are: `BanditLog`, `Trajectories` or `Slates`.
    """

    frame: Any
    context: tuple[str, ...]
    bad: tuple[BadLine, ...] = ()
    n_bad: int = 0
    n_skipped: int = 0
    reward: str = "reward"
    lines: tuple[int, ...] = ()
    roles: Mapping[str, Any] = field(default_factory=dict)
    makes: Any = BanditLog

    def log(self, **options: Any) -> Any:
        """Build the log; ``options`` are further arguments of its ``from_frame``."""
        columns = set(self.frame.columns)
        own = {role: role for role in OPTIONAL if role in columns}
        roles: dict[str, Any] = {"context": list(self.context), "action": "action", "reward": self.reward}
        roles |= own | dict(self.roles)
        listed = [column for role, column in own.items() if role in LISTS]
        if listed and "actions" not in options:
            labels = {label for row in self.frame[listed[0]] for label in row}
            roles["actions"] = sorted(labels, key=lambda x: (type(x).__name__, x))
        return self.makes.from_frame(self.frame, **{**roles, **options})


def plain_file(path: str | Path) -> Path:
    """The path of a file that can be read twice; a folder, a pipe or a device is none."""
    file = Path(path)
    if file.is_file():
        return file
    if file.is_dir():
        raise DataError(f"{str(path)!r} is a folder. Name a file, or a pattern: '{file}/*.parquet'.")
    if file.exists():
        raise DataError(f"{str(path)!r} is a pipe or a device, which can be read only once. Write it to a file first.")
    raise DataError(f"there is no file {str(path)!r}. Check the path; quote a pattern: 'logs/*.parquet'.")


def open_text(path: str | Path, mode: Literal["r", "w"] = "r") -> Any:
    """Open a text file, gzipped or not."""
    file = Path(path)
    if file.suffix == ".gz":
        return gzip.open(file, f"{mode}t", encoding="utf-8")
    return file.open(mode, encoding="utf-8")


def refuse_bomb(path: str | Path) -> None:
    """Refuse a gzip file whose beginning unpacks to more than a text log can."""
    unpacked = 0
    with Path(path).open("rb") as raw, gzip.open(raw) as packed:
        while unpacked < BOMB_SAMPLE and (part := packed.read(1 << 20)):
            unpacked += len(part)
        if unpacked >= BOMB_SAMPLE and unpacked > MOST_EXPANSION * raw.tell():
            raise DataError(
                f"{Path(path).name} unpacks to more than {MOST_EXPANSION} times its size, which is unusual for a log. "
                "Unpack it yourself if you trust it."
            )


def numbered_lines(path: str | Path) -> Iterator[tuple[int, bytes | None]]:
    """Lines that are not blank with their numbers, counted from 1; None for one that is too long to hold."""
    file = plain_file(path)
    name = file.name
    try:
        if file.suffix == ".gz":
            refuse_bomb(file)
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    while not line.endswith(b"\n") and (line := stream.readline(LONGEST_LINE)):
                        pass
                    yield number, None
                elif line.strip():
                    yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} is cut off or damaged: {error}.") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.") from error


def first_object(path: str | Path) -> dict[str, Any]:
    """The object on the first line of a file that is not blank."""
    line = next(numbered_lines(path), (1, b""))[1]
    try:
        return _object(line)
    except UNUSABLE as error:
        raise DataError(
            f"{Path(path).name}: the first line is not one JSON object ({_reason(error)}). Write one decision per line "
            "(JSON lines, dsjson), or a CSV or Parquet table."
        ) from error


def read_lines(
    path: str | Path,
    row_of: Callable[[dict[str, Any]], dict[str, Any] | None],
    on_error: OnError = "report",
    reward: str = "reward",
) -> Reading:
    """Gather the rows of usable lines into a table; context fields are those under ``context``.

    ``row_of`` gives None for a line that is to be skipped and raises for a bad one.
    """
    if on_error not in {"report", "raise"}:
        raise UsageError(f"on_error= must be 'report' or 'raise'. Got {on_error!r} instead.")
    import pandas as pd

    name = Path(path).name
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[BadLine] = []
    n_bad = skipped = 0
    fields: dict[str, None] = {}
    for number, line in numbered_lines(path):
        try:
            row = row_of(_object(line))
            if row is not None:
                _count_fields(row, fields)
        except UNUSABLE as error:
            n_bad += 1
            if len(bad) < MOST_SHOWN:
                bad.append(BadLine(number, _reason(error)))
            if on_error == "raise":
                raise DataError(f"{name}, {bad[-1]}") from error
            continue
        if row is None:
            skipped += 1
        else:
            rows.append(row)
            numbers.append(number)
    if not rows:
        first = f" The first bad one is {bad[0]}." if bad else ""
        raise DataError(f"{name}: no usable line ({n_bad:,} bad, {skipped:,} skipped).{first}")
    inner = [row.pop("context") for row in rows]
    right = pd.DataFrame(
        {field: column_of([row.get(field) for row in inner]) for field in fields}, index=range(len(rows))
    )
    outer = dict.fromkeys(field for row in rows for field in row)
    left = pd.DataFrame({field: column_of([row.get(field) for row in rows]) for field in outer})
    right = right.rename(columns={c: f"context.{c}" for c in right.columns if c in left.columns})
    frame = pd.concat([left, right], axis=1)
    names = tuple(str(c) for c in right.columns)
    return Reading(frame, names, tuple(bad), n_bad, skipped, reward, tuple(numbers))


def _count_fields(row: dict[str, Any], fields: dict[str, None]) -> None:
    """Remember the names of context fields; a log of ever new ones is no table."""
    new = [name for name in row["context"] if name not in fields]
    if len(fields) + len(new) > MOST_FIELDS:
        raise DataError(f"more than {MOST_FIELDS:,} different context fields, which is the limit")
    fields.update(dict.fromkeys(new))


def _object(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise DataError(f"longer than {LONGEST_LINE:,} bytes")
    value = parsed(line.decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise DataError("not a JSON object")
    return value


def parsed(text: str) -> Any:
    """The value of a JSON text; an object that says two things under one name is refused, and half a character."""
    value = json.loads(text, object_pairs_hook=_once)
    if "\\ud" in text.lower():  # an escaped half of a pair
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise DataError(f"a text holds {half}, half of a character, which cannot be written again") from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the field {twice!r} appears twice")
    return fields


def column_of(values: list[Any]) -> Any:
    """Values of JSON as a column of pandas that holds them as they are written.

    A column becomes numbers where every entry is one and no digit is lost; everything else stays what it is.

    >>> column_of(["007", "7"]).tolist(), column_of([1, 2.5, None]).tolist(), column_of([1, "1"]).tolist()
    (['007', '7'], [1.0, 2.5, nan], [1, '1'])
    """
    import pandas as pd

    kinds = set(map(type, values))
    present = kinds - {type(None)}
    if present <= {str} or kinds == {bool}:
        return pd.Series(values)
    whole = [v for v in values if type(v) is int]
    exact = all(abs(v) <= EXACT for v in whole)
    if kinds == {int} and (exact or -(2**63) <= min(whole) <= max(whole) < 2**63):
        return pd.Series(values, dtype="int64")
    if present <= {int, float} and exact:
        return pd.Series(values, dtype="float64")
    return pd.Series(values, dtype=object)


def read_table(path: str | Path) -> Any:
    """JSON lines that are a plain table, as pandas: one object per line, whose fields are the columns."""
    import pandas as pd

    name = Path(path).name
    rows: list[dict[str, Any]] = []
    fields: dict[str, None] = {}
    for number, line in numbered_lines(path):
        try:
            rows.append(_object(line))
        except UNUSABLE as error:
            raise DataError(f"{name}, {BadLine(number, _reason(error))}") from error
        fields.update(dict.fromkeys(rows[-1]))
        if len(fields) > MOST_FIELDS:
            raise DataError(f"{name}: more than {MOST_FIELDS:,} different fields, which is the limit.")
    if not rows:
        raise DataError(f"{name}: no usable line.")
    return pd.DataFrame({field: column_of([row.get(field) for row in rows]) for field in fields})


def number_in(value: Any, name: str) -> float:
    """A finite number of a JSON object; true and false count as 1 and 0, text does not."""
    if not isinstance(value, int | float):
        raise DataError(f"the {name} {value!r:.60} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"the {name} {value!r:.60} is not a finite number")
    return number


def whole_in(value: Any, name: str) -> int:
    """A whole number of a JSON object."""
    number = number_in(value, name)
    if isinstance(value, bool) or number != int(number):
        raise DataError(f"the {name} {value!r} is not a whole number")
    return int(value)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg} at character {error.pos})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, KeyError):
        return f"no field {error.args[0]!r}"
    if isinstance(error, DataError):
        return str(error)
    return f"not in the expected form ({str(error) or type(error).__name__})"


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested features as ``a.b`` columns; fields whose name starts with ``_`` are not features.

    >>> flatten({"user": {"age": 3, "_id": 7}, "tags": [{"x": 1}, "y"]})
    {'user.age': 3, 'tags.x': 1, 'tags.1': 'y'}
    """
    out: dict[str, Any] = {}
    _spread(value, prefix, out, 0)
    return out


def _spread(value: Any, prefix: str, out: dict[str, Any], depth: int) -> None:
    if depth > MOST_DEPTH:
        raise DataError(f"nested more than {MOST_DEPTH} levels deep")
    if len(out) > MOST_FIELDS:
        raise DataError(f"more than {MOST_FIELDS:,} context fields, which is the limit")
    if isinstance(value, dict):
        for key, part in value.items():
            if not str(key).startswith("_"):
                _spread(part, f"{prefix}.{key}" if prefix else str(key), out, depth + 1)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            _spread(part, prefix if isinstance(part, dict) else f"{prefix}.{i}", out, depth + 1)
    elif prefix in out:
        raise DataError(f"two fields are called {prefix!r}")
    else:
        out[prefix] = value


def write_lines(path: str | Path, objects: Iterable[dict[str, Any]]) -> int:
    """Write one JSON object per line, gzipped when the name ends in .gz; return how many."""
    n = 0
    with written_whole(path) as part, open_text(part, "w") as out:
        for value in objects:
            n += 1
            try:
                out.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                raise DataError(
                    f"line {n} cannot be written as JSON: {error}. Labels are written as text, numbers or booleans; "
                    "make them one of these."
                ) from error
    return n
