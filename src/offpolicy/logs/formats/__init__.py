"""Logs in the formats people already have: each reader gives a table or a log, each writer gives it back.

`FORMATS` are the files that are known by their name and first line, to `read` and to the command line. A format of
your own becomes one of them by `register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats.dsjson import read_dsjson, read_dsjson_slates, write_dsjson
from offpolicy.logs.formats.jsonl import SIGNATURE, read_jsonl, read_router, read_router_log, write_jsonl
from offpolicy.logs.formats.lines import BadLine, Reading, first_object, read_lines
from offpolicy.logs.formats.rl import (
    from_d3rlpy,
    from_gymnasium,
    from_minari,
    from_rllib,
    from_sb3,
    from_transitions,
    roll_out,
)
from offpolicy.logs.formats.tables import from_exposures, from_obp, to_obp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BadLine",
    "Format",
    "Reading",
    "from_d3rlpy",
    "from_exposures",
    "from_gymnasium",
    "from_minari",
    "from_obp",
    "from_rllib",
    "from_sb3",
    "from_transitions",
    "read",
    "read_dsjson",
    "read_dsjson_slates",
    "read_jsonl",
    "read_lines",
    "read_router",
    "read_router_log",
    "register",
    "roll_out",
    "to_obp",
    "write_dsjson",
    "write_jsonl",
]

JSON = (".json", ".jsonl", ".ndjson", ".dsjson")


@dataclass(frozen=True)
class Format:
    """A kind of file that holds a log.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Ends of the names of such files, each with its point; ``.gz`` may follow.
    read : callable
        Given the path, gives a `Reading`: a table, its roles, and the lines that were left out.
    recognizes : callable, optional
        Given the first line of a file of JSON objects, whether it is of this format. Default: the name is enough.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Any], Reading]
    recognizes: Callable[[Mapping[str, Any]], bool] | None = None

    def fits(self, path: str | Path) -> bool:
        """Whether a file is of this format, by its name and, where that is not enough, by its first line."""
        if Path(Path(path).name.removesuffix(".gz")).suffix.lower() not in self.suffixes:
            return False
        return self.recognizes is None or self.recognizes(first_object(path))


def _is_dsjson(first: Mapping[str, Any]) -> bool:
    inner = first.get("c")
    return "_multi" in first or (isinstance(inner, Mapping) and "_multi" in inner) or "_label_cost" in first


FORMATS: list[Format] = [
    Format("dsjson", JSON, read_dsjson, _is_dsjson),
    Format("router", JSON, read_router, SIGNATURE.issubset),
    Format("trace", JSON, read_jsonl, {"action", "reward", "context"}.issubset),
]


@checks_arguments
def register(format: Format) -> None:  # noqa: A002
    """Make a format of your own known to `read` and to the command line; it is asked before those that were known."""
    if not all(suffix.startswith(".") for suffix in format.suffixes) or not format.suffixes:
        raise UsageError(f"suffixes= must be file endings with their dot, such as ('.log',). Got {format.suffixes!r}.")
    FORMATS[:] = [format, *(known for known in FORMATS if known.name != format.name)]


def format_of(path: str | Path) -> Format | None:
    """The format of a file; None where it is a plain table, or unknown."""
    return next((each for each in FORMATS if each.fits(path)), None)


@checks_arguments
def read(path: str | Path) -> Reading:
    r"""Read a file of a known format: dsjson, a trace, a router's log, or one that was registered.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "log.jsonl"
    ...     _ = file.write_text('{"context": {"age": 30}, "action": "b", "reward": 1, "act_prob": 0.25}\n')
    ...     read(file).log().n
    1
    """
    known = format_of(path)
    if known is None:
        names = ", ".join(each.name for each in FORMATS)
        raise DataError(f"{Path(path).name} has an unknown format. Known formats: {names}. See formats.register.")
    return known.read(path)
