"""Silence warnings of the built-in learners, whose fits are judged by validation, on any number of threads.

Filters are global to the process, so threads that each saved and restored them would restore one another's:
the first to enter saves them and the last to leave puts them back.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = threading.Lock()
_INSIDE: list[warnings.catch_warnings[None]] = []
_DEPTH = [0]


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings inside the block.

    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("not shown")
    """
    with _LOCK:
        if _DEPTH[0] == 0:
            guard = warnings.catch_warnings()
            guard.__enter__()
            warnings.simplefilter("ignore")
            _INSIDE.append(guard)
        _DEPTH[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _DEPTH[0] -= 1
            if _DEPTH[0] == 0:
                _INSIDE.pop().__exit__(None, None, None)
