"""Monte Carlo studies: many replications of many cells, in parallel, resumable, the same on any machine.

The random numbers of a replication follow from (seed, cell, replication) alone, so neither the number of
workers nor the order of work changes a result. Each finished replication is one line of a file; a run that
was interrupted takes up where it stopped, and a run with more replications adds to those already there.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offpolicy import __version__
from offpolicy.errors import UsageError
from offpolicy.testing import lock_folder
from offpolicy_studies.digests import digest
from offpolicy_studies.folder import VERSION, append_line, read_lines, refuse_other_version
from offpolicy_studies.progress import track
from offpolicy_studies.workers import finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from offpolicy_studies.arrays import Array

CHUNK = 10
INPUT = "input"
#: Standard errors on each side of a normal 95% interval.
Z = 1.959963984540054


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
        Processes; 0 takes one for each core, 1 stays in this process.
    out : Path, optional
        File of finished replications; None keeps nothing.
    settings : mapping, optional
        What else the numbers depend on: a file written with other settings is refused, as is one of another
        version of the library, and one whose cell of this name was another.

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
        raise UsageError(f"replications must be an int of at least 1. Got {replications!r} instead.")
    store = None if out is None else Store(out, {"seed": seed, **(settings or {})})
    inputs = {} if store is None else {name: digest(cell) for name, cell in cells.items()}
    done = {} if store is None else store.read(inputs)
    todo = _chunks(done, cells, replications)
    total = replications * len(cells)
    with track(title, total) as advance:
        advance(total - sum(len(numbers) for _, numbers in todo))
        tasks = [(name, cells[name], numbers) for name, numbers in todo]
        for (name, _, _), results in finished(partial(_chunk, replicate, seed), tasks, workers):
            done.update({(name, i): result for i, result in results})
            if store is not None:
                store.write(name, results, inputs[name])
            advance(len(results), note=name)
    return {name: [done[name, i] for i in range(replications)] for name in cells}


@dataclass(frozen=True)
class Store:
    """Finished replications as lines of a file, the first of which says what they depend on."""

    path: Path
    settings: dict[str, Any]

    def read(self, inputs: Mapping[str, str]) -> dict[tuple[str, int], Any]:
        """What is there; ``inputs`` are digests of the cells that are to be run."""
        lock_folder(self.path.parent)
        header = json.loads(json.dumps(self.settings))
        lines = read_lines(self.path)
        if not lines:
            append_line(self.path, {**header, VERSION: __version__})
            return {}
        first, *rest = lines
        # Stores from before versions and inputs were written down are taken as they are.
        refuse_other_version(self.path, first.pop(VERSION, __version__))
        if first != header:
            raise UsageError(
                f"{self.path} holds another run ({str(first)[:200]}). Choose another folder, or remove it."
            )
        for r in rest:
            known, now = r.get(INPUT), inputs.get(r["cell"])
            if known is not None and now is not None and known != now:
                raise UsageError(
                    f"{self.path}: what {r['cell']!r} is made from (its data or its settings) is not what it was "
                    "when replications of it were written. Choose another folder, or remove it."
                )
        return {(r["cell"], r["replication"]): r["result"] for r in rest}

    def write(self, cell: str, results: Sequence[tuple[int, Any]], made_from: str) -> None:
        """Append."""
        for i, result in results:
            line = {"cell": cell, "replication": i, "result": result, INPUT: made_from}
            append_line(self.path, line)


def _chunks(
    done: Mapping[tuple[str, int], Any], cells: Mapping[str, Any], replications: int
) -> list[tuple[str, list[int]]]:
    chunks = []
    for name in cells:
        missing = [i for i in range(replications) if (name, i) not in done]
        chunks += [(name, missing[k : k + CHUNK]) for k in range(0, len(missing), CHUNK)]
    return chunks


def _chunk(
    replicate: Callable[[Any, np.random.Generator], Any], seed: int, task: tuple[str, Any, list[int]]
) -> list[tuple[int, Any]]:
    name, cell, numbers = task
    return [(i, replicate(cell, generator(seed, name, i))) for i in numbers]
