"""Temporary files of one scan: a folder that is removed when the scan is closed, dropped or interrupted."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any


class Workspace:
    """A private folder for spilled data.

    It goes away on `close`, when the last reference goes, and at interpreter exit, which an interrupt
    (Ctrl-C) leads to as well.

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
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="offpolicy-", dir=parent))
        self._finalizer = weakref.finalize(self, _remove, str(self.folder))
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


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
