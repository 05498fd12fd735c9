"""Monte Carlo studies: many replications of many cells, in parallel, resumable, the same on any machine.

The random numbers of a replication follow from (seed, cell, replication) alone, so neither the number of
workers nor the order of work changes a result. Each finished replication is one line of a file; a run that
was interrupted takes up where it stopped, and a run with more replications adds to those already there.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
import zlib
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offpolicy._progress import track
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from offpolicy._arrays import Array

CHUNK = 10


class Measured(NamedTuple):
    """A Monte Carlo average and its standard error."""

    value: float
    error: float


def mean(values: Array) -> Measured:
    """Mean over replications.

    >>> mean(np.array([1.0, 3.0]))
    Measured(value=2.0, error=1.0)
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        return Measured(float(x.mean()) if len(x) else math.nan, math.nan)
    return Measured(float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x))))


def root_mean_square(errors: Array) -> Measured:
    """√ of the mean squared error; its standard error by the delta method.

    >>> root_mean_square(np.array([3.0, -3.0, 3.0]))
    Measured(value=3.0, error=0.0)
    """
    square, error = mean(np.asarray(errors, dtype=np.float64) ** 2)
    root = math.sqrt(square)
    return Measured(root, error / (2 * root) if root > 0 else 0.0)


def share(flags: Array) -> Measured:
    """Share of replications; its standard error by Agresti and Coull, which is never 0.

    >>> share(np.array([True, True, False, True])).value
    0.75
    """
    x = np.asarray(flags, dtype=np.float64)
    n = len(x)
    if n == 0:
        return Measured(math.nan, math.nan)
    p = (x.sum() + 2) / (n + 4)
    return Measured(float(x.mean()), math.sqrt(p * (1 - p) / (n + 4)))


def generator(seed: int, cell: str, replication: int) -> np.random.Generator:
    """The random numbers of one replication."""
    return np.random.default_rng([seed, zlib.crc32(cell.encode()), replication])


def simulate(
    replicate: Callable[[Any, np.random.Generator], Any],
    cells: Mapping[str, Any],
    replications: int,
    *,
    seed: int = 0,
    workers: int = 0,
    out: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    title: str = "simulating",
) -> dict[str, list[Any]]:
    """Run every cell many times.

    Parameters
    ----------
    replicate : callable
        Takes a cell and a generator, returns what JSON can hold; importable by name, since other
        processes call it.
    cells : {name: cell}
        What to run; a cell is anything that can be pickled.
    replications : int
        How often.
    seed : int
    workers : int
        Processes; 0 takes one a core, 1 stays in this process.
    out : Path, optional
        File of finished replications; None keeps nothing.
    settings : mapping, optional
        What else the numbers depend on: a file written with other settings is refused.

    Returns
    -------
    {name: list}
        Results of each cell, by replication.

    Examples
    --------
    >>> def toss(cell, rng):
    ...     return int(rng.random() < cell)
    >>> results = simulate(toss, {"fair": 0.5}, 20, workers=1)
    >>> len(results["fair"])
    20
    """
    if replications < 1:
        raise UsageError(
            f"replications must be an int of at least 1. Got {replications!r} instead."
        )
    store = None if out is None else Store(out, {"seed": seed, **(settings or {})})
    done = {} if store is None else store.read()
    todo = _chunks(done, cells, replications)
    total = replications * len(cells)
    with track(title, total) as advance:
        advance(total - sum(len(numbers) for _, numbers in todo))
        tasks = [(name, cells[name], numbers) for name, numbers in todo]
        for name, results in _run(partial(_chunk, replicate, seed), tasks, workers):
            done.update({(name, i): result for i, result in results})
            if store is not None:
                store.write(name, results)
            advance(len(results), note=name)
    return {name: [done[name, i] for i in range(replications)] for name in cells}


@dataclass(frozen=True)
class Store:
    """Finished replications as lines of a file, the first of which says what they depend on."""

    path: Path
    settings: dict[str, Any]

    def read(self) -> dict[tuple[str, int], Any]:
        """What is there; a last line cut short by an interruption is dropped."""
        header = json.loads(json.dumps(self.settings))
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(header) + "\n")
            return {}
        text = self.path.read_text()
        if not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            self.path.write_text(text)
        first, *lines = text.splitlines() or ["null"]
        if json.loads(first) != header:
            raise UsageError(
                f"{self.path} holds another run ({first[:200]}). Choose another folder, or remove it."
            )
        return {(r["cell"], r["replication"]): r["result"] for r in map(json.loads, lines)}

    def write(self, cell: str, results: Sequence[tuple[int, Any]]) -> None:
        """Append."""
        with self.path.open("a") as stream:
            for i, result in results:
                line = {"cell": cell, "replication": i, "result": result}
                stream.write(json.dumps(line) + "\n")


def _chunks(
    done: Mapping[tuple[str, int], Any], cells: Mapping[str, Any], replications: int
) -> list[tuple[str, list[int]]]:
    chunks = []
    for name in cells:
        missing = [i for i in range(replications) if (name, i) not in done]
        chunks += [(name, missing[k : k + CHUNK]) for k in range(0, len(missing), CHUNK)]
    return chunks


def _chunk(
    replicate: Callable[[Any, np.random.Generator], Any],
    seed: int,
    task: tuple[str, Any, list[int]],
) -> tuple[str, list[tuple[int, Any]]]:
    name, cell, numbers = task
    return name, [(i, replicate(cell, generator(seed, name, i))) for i in numbers]


def _run(
    work: Callable[[Any], Any], tasks: Sequence[Any], workers: int
) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
    number = min(workers or os.cpu_count() or 1, len(tasks))
    if number <= 1:
        yield from map(work, tasks)
        return
    # Spawned, not forked: a forked OpenMP runtime can hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, context, initializer=one_thread) as pool:
        try:
            waiting: set[Future[Any]] = {pool.submit(work, task) for task in tasks}
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def one_thread() -> None:
    """Keep linear algebra in a worker to one thread, and end the worker when its parent has gone."""
    import threading

    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    threading.Thread(target=_follow_parent, args=(os.getppid(),), daemon=True).start()


def _follow_parent(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)
