"""How many threads numerical libraries use, and how these wait for each other."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadpoolctl import ThreadpoolController

SMALL_FIT = 50_000  # rows up to which threads wait for each other longer than they work

_OWNED = threading.Lock()


def spin_briefly() -> None:
    """Let OpenMP threads that are loaded from now on sleep soon after they begin to wait.

    LightGBM's threads wait for each other many times a tree. OpenMP's own choice is to spin for milliseconds,
    which on busy cores makes a fit tens of times slower; a short spin costs an idle machine nothing. A
    setting of the user's is left alone.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def threads_for(rows: int) -> int:
    """Threads of one fit or prediction, in LightGBM's words: 1 where it is small, else 0 (as many as it likes).

    >>> threads_for(2_000), threads_for(1_000_000)
    (1, 0)
    """
    return 1 if rows <= SMALL_FIT else 0


@contextmanager
def few_threads(rows: int) -> Iterator[None]:
    """Let BLAS and OpenMP use one thread inside the block where the work is small.

    Their settings belong to the process: who comes first sets them and puts them back, and blocks that are
    entered meanwhile, here or on other threads, leave them alone.
    """
    if threads_for(rows) != 1 or not _OWNED.acquire(blocking=False):
        yield
        return
    try:
        import scipy.linalg  # noqa: F401  # only libraries that are loaded can be told

        with _loaded_libraries(len(sys.modules)).limit(limits=1):
            yield
    finally:
        _OWNED.release()


@lru_cache(maxsize=1)
def _loaded_libraries(modules: int) -> ThreadpoolController:  # noqa: ARG001 (the key)
    """The numerical libraries of this process; looked for anew only after ``modules`` has changed."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_used: set[int] = set()


def prepare_threads() -> None:
    """Make fits safe in a process that was forked from one that had fitted models.

    OpenMP's threads do not survive a fork, and a child that asks for them waits forever. Such a child gets one thread,
    which needs no others.
    """
    if _used and os.getpid() not in _used:
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)
        os.environ["OMP_NUM_THREADS"] = "1"
    _used.add(os.getpid())
