"""A task: logs drawn from a seeded generator, the truth behind each, and what an entry may know.

A log is a set of named arrays. The names an entry may find are listed by kind in `FIELDS`; the truth is never among
them. Log i of a task at one size is the same everywhere: its generator is seeded by the task's name, the size and i.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

SIZES = ("quick", "full")
#: Logs that are drawn when nobody says how many.
LOGS = {"quick": 20, "full": 100}
LEVEL = 0.95

#: What a log of each kind holds. Those marked "may be absent" are left out where an entry may not know them.
FIELDS: dict[str, dict[str, str]] = {
    "bandit": {
        "context": "(n, d) what was known before the action",
        "action": "(n,) code of the action taken, 0 to K − 1",
        "reward": "(n,) what it earned",
        "target": "(n, K) π_e, the probabilities of the policy to value",
        "propensity": "(n,) π_b of the action taken; may be absent",
        "logging": "(n, K) π_b of all actions; may be absent",
        "batch": "(n,) the batch of a log whose policy learns; may be absent",
        "cluster": "(n,) the user behind the row; may be absent",
        "features": "(K, f) features of the actions; may be absent",
    },
    "difference": {
        "context": "(n, d) what was known before the action",
        "action": "(n,) code of the action taken",
        "reward": "(n,) what it earned",
        "target": "(n, K) π_e of a policy",
        "baseline": "(n, K) π_e of another; asked for is the difference of their values",
        "propensity": "(n,) π_b of the action taken",
    },
    "slate": {
        "context": "(n, d) what was known before the slate",
        "action": "(n, slots) items shown, from the top",
        "reward": "(n, slots) clicks; a slot's depend on its item and those above",
        "target": "(n, slots, K) π_e of each slot; slots are filled one by one, an item may be shown twice",
        "propensity": "(n, slots) π_b of the items shown",
    },
    "continuous": {
        "context": "(n, d) what was known before the action",
        "action": "(n,) the number that was chosen",
        "reward": "(n,) what it earned",
        "target": "(n,) the number that the policy to value would choose",
        "propensity": "(n,) density with which the logged number was drawn",
    },
    "episodes": {
        "state": "(steps,) codes or (steps, d) numbers, episode after episode",
        "action": "(steps,) code of the action taken",
        "reward": "(steps,) what it earned",
        "target": "(steps, K) π_e in the states visited",
        "length": "(n,) steps of each episode",
        "terminated": "(n,) whether the episode ended by itself",
        "propensity": "(steps,) π_b of the action taken; may be absent",
        "discount": "() γ",
        "horizon": "() longest possible episode",
    },
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """One log and the true value of its target; None where there is none, so that the right answer is a refusal."""

    arrays: Arrays
    truth: float | None


@dataclass(frozen=True, eq=False)
class Task:
    """A frozen task.

    Attributes
    ----------
    name, title : str
        By which it is asked for, and what a page calls it.
    kind : str
        A key of `FIELDS`.
    about : str
        The world, the target and what an entry may know.
    rows : {size: int}
        Decisions, slates or episodes of a log.
    draw : callable
        (rows, index, rng, data folder) → `Drawn`.
    data : tuple of str
        Files it reads, relative to the data folder.
    digests : tuple of str
        SHA-256 of those files, as `content` reads them.
    refuse : bool
        Whether the right answer is a refusal.
    """

    name: str
    title: str
    kind: str
    about: str
    rows: dict[str, int]
    draw: Callable[[int, int, np.random.Generator, Path], Drawn]
    data: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    refuse: bool = False

    def log(self, size: str, index: int, data: Path | None) -> Drawn:
        """Log ``index`` of a size."""
        return _kept(self, size, index, data) if self.data else self.drawn(size, index, data)

    def drawn(self, size: str, index: int, data: Path | None) -> Drawn:
        """The same, drawn anew."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), SIZES.index(size), index])
        drawn = self.draw(self.rows[size], index, rng, Path() if data is None else data)
        unknown = set(drawn.arrays) - set(FIELDS[self.kind])
        if unknown:
            raise KeyError(f"task {self.name} holds {sorted(unknown)}, which no entry is told about")
        return drawn

    def missing(self, data: Path | None) -> str | None:
        """Why the task cannot be drawn here, or None."""
        for file, digest in zip(self.data, self.digests, strict=True):
            path = None if data is None else data / file
            if path is None or not path.exists():
                return f"needs {file} in the data folder (--data)"
            if content(path) != digest:
                return f"{file} is not the file that the task was frozen with (SHA-256 differs)"
        return None


@lru_cache(maxsize=160)
def _kept(task: Task, size: str, index: int, data: Path | None) -> Drawn:
    """Logs of public data train models first: entries that run in one command share them."""
    return task.drawn(size, index, data)


def content(path: Path) -> str:
    """SHA-256 of a file; of the cells of a text, since mirrors put commas, blanks or tabs between the same ones."""
    raw = path.read_bytes()
    if path.suffix != ".gz":
        raw = b"\n".join(b",".join(line.replace(b",", b" ").split()) for line in raw.splitlines() if line.strip())
    return hashlib.sha256(raw).hexdigest()


def digest(arrays: Arrays) -> str:
    """Short digest of a log, the same where only the last digits of numbers differ."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        value = np.asarray(arrays[name], dtype=np.float64)
        total.update(f"{name}{value.shape}".encode())
        total.update((np.round(value, 6) + 0.0).tobytes())
    return total.hexdigest()[:16]


def sample(p: Floats, rng: np.random.Generator) -> Ints:
    """Draw a code from each row of (n, K) probabilities."""
    place = (rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1)
    return np.asarray(np.minimum(place, p.shape[1] - 1), dtype=np.int64)


def softmax(z: Floats) -> Floats:
    """Row-wise softmax."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
