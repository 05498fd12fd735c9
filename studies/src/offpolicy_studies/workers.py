"""Work done by several processes: a result follows from its task alone, whatever the number of workers."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


def finished(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int = 0) -> Iterator[tuple[Task, Result]]:
    """Yield each task with its result as it is done; the first tasks are begun first.

    Parameters
    ----------
    work : callable
        Importable by name, since other processes call it.
    tasks : sequence
        What it is called with; anything that can be pickled.
    workers : int
        Processes; 0 takes one for each core, 1 stays in this process.

    Examples
    --------
    >>> list(finished(abs, [-1, 2], workers=1))
    [(-1, 1), (2, 2)]
    """
    number = min(workers or os.cpu_count() or 1, len(tasks))
    if number <= 1:
        for task in tasks:
            # The products are small: threads would only get in each other's way.
            with threadpool_limits(1):
                result = work(task)
            yield task, result
        return
    # Spawned, not forked: a forked OpenMP runtime can hang, and CUDA does not survive.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, context, initializer=_prepare) as pool:
        try:
            waiting: dict[Future[Result], Task] = {pool.submit(work, task): task for task in tasks}
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare() -> None:
    """Keep linear algebra in a worker to one thread, and end the worker when its parent has gone."""
    threadpool_limits(1)
    threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True).start()


def _follow_parent(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)
