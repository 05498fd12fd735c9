"""Which files a source is, that they agree, and that they stay as they were between two passes.

Files are listed once, when a scan begins. Parquet files must hold the same columns; types may differ where
one holds every value of the other. Sizes, times and the last bytes (a Parquet footer lies there) are kept, and
a pass that finds other ones raises instead of mixing two versions of a log.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from offpolicy.errors import DataError
from offpolicy.logs.formats.lines import plain_file
from offpolicy.logs.formats.parquet import different_names, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

REMOTE = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")  # sources on the network
TAIL = 65_536  # bytes at the end of a file that tell two versions apart
EXACT_INTEGERS = 2**53
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a folder's name where the value is missing


@dataclass(frozen=True)
class Fingerprint:
    """Sizes, times of change and digests of the last bytes of some files."""

    paths: tuple[str, ...]
    stats: tuple[tuple[int, int], ...]
    tails: tuple[str, ...]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Fingerprint:
        """Take it."""
        return cls(tuple(paths), tuple(map(_stat, paths)), tuple(map(_tail, paths)))

    @cached_property
    def digest(self) -> str:
        """One short text for names, sizes and last bytes: what a result says it was made from."""
        parts = [
            f"{Path(path).name}:{size}:{tail}"
            for path, (size, _), tail in zip(self.paths, self.stats, self.tails, strict=True)
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def check(self, *, tails: bool = False) -> None:
        """Raise if a file is not what it was; ``tails`` reads their last bytes as well."""
        for path, stat, tail in zip(self.paths, self.stats, self.tails, strict=True):
            if _stat(path) != stat or (tails and _tail(path) != tail):
                raise DataError(
                    f"{path!r} changed while it was read, so the passes saw different rows. "
                    "Work on a copy that nothing writes to."
                )


def _stat(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError as error:
        raise DataError(f"{path!r} cannot be read: {error.strerror}.") from error
    return found.st_size, found.st_mtime_ns


def _tail(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return hashlib.sha256(file.read(TAIL)).hexdigest()[:16]
    except OSError as error:
        raise DataError(f"{path!r} cannot be read: {error.strerror}.") from error


def on_this_machine(uris: Sequence[str]) -> list[str]:
    """Paths of the files that lie here, of those that an engine says it reads ("file:///logs/a%20b.parquet")."""
    parts = [urlsplit(uri) for uri in uris]
    paths = [unquote(p.path) for p in parts if p.scheme in {"", "file"} and not p.netloc]
    return sorted(path for path in paths if Path(path).is_file())


def sql_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def sql_files(paths: Sequence[str]) -> str:
    """A list of files as SQL writes it; characters of patterns in a name stand for themselves."""
    return ", ".join(sql_text(re.sub(r"[*?\[]", r"[\g<0>]", str(Path(path).absolute()))) for path in paths)


def is_pattern(source: str) -> bool:
    """Whether a text stands for several files; what exists by that very name is one file (``log[1].csv``)."""
    return any(c in source for c in "*?[") and not os.path.lexists(source)


def matching(source: str) -> list[str]:
    """The files of a path, folder or pattern, sorted; none where there are none."""
    pattern = source
    if not is_pattern(source):
        if not Path(source).is_dir():
            return [source] if Path(source).is_file() else []
        pattern = str(Path(glob.escape(source)) / "**" / "*")
    return sorted(p for p in glob.glob(pattern, recursive=True) if Path(p).is_file())  # noqa: PTH207


def listed(source: str) -> list[str]:
    """The files of a path or pattern, sorted."""
    if not is_pattern(source):
        plain_file(source)
        return [source]
    found = matching(source)
    if not found:
        raise DataError(f"no file matches {source!r}.")
    return found


@dataclass(frozen=True)
class Partitions:
    """Folders called ``key=value`` between a source and its files, as columns of text.

    Folders above the source say nothing about its rows: the name of a file's own folder is no column of it.
    """

    root: str
    keys: tuple[str, ...]

    @classmethod
    def of(cls, source: str, paths: Sequence[str]) -> Partitions:
        """Those of the files of a folder or pattern, which must all have the same keys."""
        folder = Path(source)
        if not is_pattern(source):
            root = folder if folder.is_dir() else folder.parent
        else:
            first = next(i for i, part in enumerate(folder.parts) if any(c in part for c in "*?["))
            root = Path(*folder.parts[:first])
        own = cls(str(root.absolute()), ())
        keys = tuple(own.values(paths[0]))
        for path in paths:
            if tuple(own.values(path)) != keys:
                raise DataError(
                    f"{path!r} and {paths[0]!r} are in folders with different key=value names. Files of one log must "
                    "have the same keys in their folder names, in the same order."
                )
        if len({key.casefold() for key in keys}) < len(keys):
            raise DataError(f"{paths[0]!r}: a key appears twice in its folder names.")
        return replace(own, keys=keys)

    def values(self, path: str) -> dict[str, str | None]:
        """What the folders of one file say."""
        folders = Path(path).absolute().relative_to(self.root).parts[:-1]
        pairs = [folder.partition("=") for folder in folders if "=" in folder.lstrip("=")]
        if len({key for key, _, _ in pairs}) < len(pairs):
            raise DataError(f"{path!r}: a key appears twice in its folder names.")
        return {unquote(k): None if v == NO_VALUE else unquote(v) for k, _, v in pairs}

    def refuse_columns(self, names: Sequence[str], path: str) -> None:
        """A key that is also a column would say two things about a row."""
        held = {name.casefold(): name for name in names}
        for key in self.keys:
            if key.casefold() in held:
                raise DataError(
                    f"{path!r} has a column {held[key.casefold()]!r} and is also in a folder named {key}=…. "
                    "Rename the folder or the column, or name the files one by one."
                )


def common_schema(paths: Sequence[str]) -> Any:
    """The columns of Parquet files with types that hold every value of each file.

    Raises
    ------
    DataError
        Naming two files and the column in which they cannot be reconciled.
    """
    import pyarrow as pa

    first, schema = paths[0], schema_of(paths[0])
    names = _unique(schema.names, first)
    for path in paths[1:]:
        other = schema_of(path)
        if set(_unique(other.names, path)) != set(names):
            odd = min(set(other.names) ^ set(names))
            has, lacks = (path, first) if odd in other.names else (first, path)
            raise DataError(
                f"column {odd!r} is in {has!r} but not in {lacks!r}. Files of one log must have the same columns."
            )
        for name in names:
            mine, theirs = schema.field(name).type, other.field(name).type
            if mine == theirs:
                continue
            try:
                pair = [pa.schema([(name, mine)]), pa.schema([(name, theirs)])]
                wide = pa.unify_schemas(pair, promote_options="permissive").field(name).type
            except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
                raise DataError(
                    f"column {name!r} holds {mine} in {first!r} but {theirs} in {path!r}. Files of one log must "
                    "agree; write the column with one type."
                ) from error
            _lossless(name, [(first, mine), (path, theirs)], wide)
            schema = schema.set(schema.get_field_index(name), pa.field(name, wide))
    return schema


def _unique(names: list[str], path: str) -> list[str]:
    different_names(names, path)
    return names


def _lossless(name: str, files: list[tuple[str, Any]], wide: Any) -> None:
    """Integers that become floats must be small enough to stay what they are."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not pa.types.is_floating(wide):
        return
    for path, kind in files:
        if not pa.types.is_integer(kind) or kind.bit_width < 64:
            continue
        bounds = pc.min_max(pq.read_table(path, columns=[name])[name]).as_py()
        if any(v is not None and abs(v) > EXACT_INTEGERS for v in bounds.values()):
            raise DataError(
                f"column {name!r} has integers beyond 2^53 in {path!r} and fractions in another file, and no "
                "numeric type can store both. Write the column with one type."
            )
