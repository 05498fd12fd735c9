"""Files that are written whole or not at all, and folders that one process writes to at a time."""

from __future__ import annotations

import errno
import importlib
import json
import math
import os
import re
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


STREAMS = {"stdout": 1, "stderr": 2}
OPEN_STREAM = re.compile(r"/dev/(?P<name>stdout|stderr)|(/dev/fd|/proc/self/fd)/(?P<number>\d+)")
# Not every system has file locks.
_locks: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` when it is complete and on the disk.

    A full disk, an exception or a kill leaves what was there before. The name keeps its suffixes; what is no
    plain file (a pipe, a device) is written to directly, and ``/dev/stdout`` after what the process has said so far.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "a.txt") as part:
    ...     _ = part.write_text("whole")
    >>> [p.name for p in folder.iterdir()], (folder / "a.txt").read_text()
    (['a.txt'], 'whole')
    """
    target = Path(path)
    stream = OPEN_STREAM.fullmatch(str(target))
    if stream is not None:
        with _named(target), tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / target.name
            yield part
            _pass_on(part, int(stream["number"] or STREAMS[stream["name"]]))
        return
    with _named(target):
        target = Path(os.path.realpath(target, strict=target.is_symlink() and target.exists()))
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_file():
            yield target
            return
        handle, name = tempfile.mkstemp(prefix=".partial-", suffix=f"-{target.name}", dir=target.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            _settle(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """What a disk has to say while a file is written, with the file's own name."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        told = f"{error.strerror}; nothing was written, and any earlier file is unchanged"
        raise OSError(error.errno, told, str(target)) from error


def _pass_on(part: Path, descriptor: int) -> None:
    """Write a file's bytes to an open stream, after what has been printed to it."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    left = memoryview(part.read_bytes())
    while left:
        left = left[os.write(descriptor, left) :]


def _settle(part: Path, target: Path) -> None:
    """Put a complete file in its place, with the rights that a new (or the old) file has."""
    rights = target.stat().st_mode if target.exists() else 0o666 & ~_umask()
    part.chmod(rights & 0o777)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(target)
    with suppress(OSError):  # not every system can do this with a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


_HELD: dict[str, tuple[int, IO[str]]] = {}


def try_lock(path: Path) -> IO[str] | None:
    """Take a file as a lock for as long as it stays open; None where another process has it."""
    file = path.open("a", encoding="utf-8")
    if _locks is None:
        return file
    try:
        _locks.flock(file.fileno(), _locks.LOCK_EX | _locks.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def lock_folder(folder: Path) -> None:
    """Keep other processes from writing to a folder until this one ends.

    Raises
    ------
    UsageError
        Where another process writes to it now.
    """
    key = str(folder.resolve())
    if key in _HELD and _HELD[key][0] == os.getpid():
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = try_lock(folder / ".lock")
    if file is None:
        raise UsageError(
            f"another run is writing to {str(folder)!r}. Wait for it to end, or choose another folder (--out)."
        )
    _HELD[key] = (os.getpid(), file)


def write(value: Any, path: str | Path | None = None) -> str:
    """Any result as JSON, written to ``path`` when given."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False, allow_nan=False)
    if path is not None:
        write_text(path, text + "\n")
    return text


def jsonable(value: Any, digits: int | None = None) -> Any:
    """Plain values: numbers that are not finite become None, labels and other objects their text.

    ``digits`` rounds numbers to as many significant digits.

    >>> jsonable({1: (np.float64(0.123456), float("inf"))}, digits=3)
    {'1': [0.123, None]}
    """
    if isinstance(value, dict):
        return {str(k): jsonable(v, digits) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [jsonable(v, digits) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value if isinstance(value, str | int | bool) or value is None else str(value)
