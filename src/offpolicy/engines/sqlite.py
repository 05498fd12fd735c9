"""SQLite through Ibis: all that an engine of one's own needs.

SQLite has neither NaN nor MD5. The first is declared; the second is lent to the connection, so that text ids give
the folds that they give everywhere.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from offpolicy.engines.engine import Backend

if TYPE_CHECKING:
    from pathlib import Path


class SQLite(Backend):
    """Queries on an SQLite database that Ibis is connected to."""

    has_nan = False

    def __init__(self, backend: Any, *, temp_directory: str | Path | None = None) -> None:
        super().__init__(backend, temp_directory=temp_directory)
        backend.con.create_function("MD5", 1, _md5, deterministic=True)


def _md5(text: str | None) -> str | None:
    if text is None:
        return None
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
