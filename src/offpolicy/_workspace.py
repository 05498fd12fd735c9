"""Temporary files of one scan: a folder that is removed when the scan is closed, dropped or interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from offpolicy._output import try_lock

PREFIX = ".offpolicy-ws-"  # a name that nobody chooses
MARK = ".offpolicy-workspace"  # in every workspace: whose it is, locked for as long as it is in use
OWNER = "A workspace of offpolicy, made by process"
# Signals that end a process without a word.
ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU")
_swept: set[str] = set()


class Workspace:
    """A private folder for spilled data.

    It goes away on `close`, when the last reference goes, at interpreter exit (which an interrupt, Ctrl-C, leads to
    as well), and on signals that end a process (SIGTERM, SIGHUP, SIGQUIT, …) where nothing else handles these. What a
    process leaves behind that was killed outright is removed by the next one that makes a workspace in the same place:
    folders that carry the library's own mark, and no others.

    Parameters
    ----------
    parent : path, optional
        Where to make it; default: the system's folder for temporary files.

    Examples
    --------
    >>> space = Workspace()
    >>> folder = space.folder
    >>> space.close()
    >>> folder.exists()
    False
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        place = Path(tempfile.gettempdir() if parent is None else parent)
        place.mkdir(parents=True, exist_ok=True)
        sweep(place)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = try_lock(self.folder / MARK)
        if lock is not None:  # locked first, so that a marked folder without a lock is nobody's
            try:
                os.write(lock.fileno(), f"{OWNER} {os.getpid()}\n".encode())
            except OSError:  # a full disk
                lock.close()
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        _clean_up_on_signals()
        _live[str(self.folder)] = os.getpid()
        self._finalizer = weakref.finalize(self, _remove, str(self.folder), os.getpid(), lock)
        self._names = 0

    def path(self, suffix: str) -> Path:
        """A fresh file name in the folder."""
        self._names += 1
        return self.folder / f"part{self._names:06d}{suffix}"

    def close(self) -> None:
        """Remove the folder now."""
        self._finalizer()

    def __reduce__(self) -> Any:
        raise TypeError("a workspace belongs to one process and cannot be sent to another.")


_live: dict[str, int] = {}


def _remove(folder: str, owner: int, lock: Any) -> None:
    if os.getpid() != owner:  # a fork ends; the folder is its parent's
        return
    _live.pop(folder, None)
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        lock.close()


def sweep(place: Path) -> None:
    """Remove the folders of processes that were killed, once per process and place."""
    if str(place) in _swept:
        return
    _swept.add(str(place))
    for folder in place.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not _is_marked(folder):
                continue
            lock = try_lock(folder / MARK)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()
        except (OSError, AttributeError):  # gone meanwhile, or a system without users
            continue


def _is_marked(folder: Path) -> bool:
    """Whether a workspace wrote its mark here."""
    mark = folder / MARK
    if mark.is_symlink() or not mark.is_file():
        return False
    return mark.read_bytes()[:200].startswith(OWNER.encode())


def _clean_up_on_signals() -> None:
    """Remove folders on signals that would end the process without a word."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: Any) -> None:
    for folder, owner in list(_live.items()):
        _remove(folder, owner, None)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
