"""Folders: where the data of a study are, and what a run leaves behind so that it can be taken up again."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy import __version__
from offpolicy.errors import DataError, UsageError
from offpolicy.testing import lock_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "OFFPOLICY_DATA"
VERSION = "offpolicy_version"


def locate(given: Path | None, names: Sequence[str], parts: Sequence[str], source: str) -> Path:
    """Return the folder that holds a data set.

    Parameters
    ----------
    given : Path, optional
        The folder itself, or one that holds it; default: the variable OFFPOLICY_DATA.
    names : sequence of str
        What the data set's folder may be called.
    parts : sequence of str
        Files or folders in it, by which it is known.
    source : str
        Where the data set is published.
    """
    place = given if given is not None else os.environ.get(VARIABLE)
    inside = " and ".join(parts)
    if place is None:
        raise UsageError(
            f"Say where {names[0]}/ with {inside} is: as an argument, or in the environment variable "
            f"{VARIABLE}. The data are published at {source}."
        )
    for candidate in (Path(place), *(Path(place) / name for name in names)):
        if all((candidate / part).exists() for part in parts):
            return candidate
    raise DataError(f"{place} has no {inside}, nor has {names[0]}/ inside it.")


def claim(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Write what a run was asked for, or check that the folder's earlier run was asked for the same.

    Returns what the file says, which may be more than ``wanted``.
    """
    lock_folder(path.parent)
    wanted = json.loads(json.dumps(wanted))
    if not path.exists():
        write_json(path, {**wanted, VERSION: __version__})
        return wanted
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    refuse_other_version(path.parent, known.get(VERSION, __version__))
    for key, value in wanted.items():
        if known.get(key) != value:
            raise UsageError(
                f"{path.parent} holds a run with {key} = {_short(known.get(key))}, now {_short(value)}. "
                "Choose another --out, or repeat the request as it was to continue it."
            )
    return known


def refuse_other_version(place: Path, made_by: str) -> None:
    """A run is taken up by the version that began it, and by no other."""
    if made_by != __version__:
        raise UsageError(
            f"{place} holds a run of version {made_by} of offpolicy, this is {__version__}: the rest would not "
            "be comparable. Choose another --out, or continue it with that version."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def write_json(path: Path, value: Any) -> None:
    """Write a value through a temporary file, so that a kill leaves the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(finite(value), indent=1, allow_nan=False) + "\n")


def write_results(out: Path | None, result: Any, table: str) -> None:
    """Write ``results.json`` and ``table.md``; None writes nothing."""
    if out is None:
        return
    marked = {**result, VERSION: __version__} if isinstance(result, dict) else result
    write_json(out / "results.json", marked)
    write_text(out / "table.md", table.rstrip("\n") + "\n")


def finite(value: Any) -> Any:
    """Replace what JSON has no number for (an estimate that is not defined) by null.

    >>> finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def append_line(path: Path, value: Any) -> None:
    """Add one JSON line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(value) + "\n")


def read_lines(path: Path) -> list[Any]:
    """Read the JSON lines; a last line that was cut short by a kill is dropped from the file."""
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))  # in place: a full disk may be what cut it short
    return [json.loads(line) for line in whole.decode("utf-8").splitlines()]
