"""Columns of numbers by name, one array per block of a log: in memory up to a limit, in files beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy._workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Iterator
    from pathlib import Path

    from offpolicy._arrays import Array

Name: TypeAlias = "Hashable"
LIMIT = 64_000_000


def plain(name: Name) -> tuple[Name]:
    """The key of a column that is told apart by its name alone."""
    return (name,)


@dataclass(frozen=True)
class _File:
    """An array in a file: plain bytes, read back whole."""

    path: Path
    dtype: np.dtype[Any]

    def read(self) -> Array:
        return np.fromfile(self.path, dtype=self.dtype)


@dataclass(eq=False)
class _Shelf:
    """What all views of some columns share."""

    parts: dict[Any, dict[int, Array | _File]] = field(default_factory=dict)
    held: int = 0  # bytes in memory

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace()

    def __getstate__(self) -> dict[str, Any]:
        """Columns travel; files are read."""
        read = {
            key: {b: part.read() if isinstance(part, _File) else part for b, part in parts.items()}
            for key, parts in self.parts.items()
        }
        return {"parts": read, "held": self.held}


@dataclass(eq=False)
class Columns:
    """Columns of all units of a log.

    Small ones stay where they are; once more than ``limit`` bytes are held, further ones go to files of the
    workspace and are read when asked for.

    Parameters
    ----------
    limit : int
        Bytes to hold in memory.
    key : callable, optional
        Turns names into keys that say all that a column depends on (`offpolicy.columns.keys.Keys`): views with other
        keys share what has equal ones.

    Examples
    --------
    >>> columns = Columns(limit=0)
    >>> columns.put("x", 0, np.arange(2.0))
    >>> columns.put("x", 1, np.arange(3.0))
    >>> columns["x"].tolist(), columns.block("x", 1).tolist(), columns.blocks
    ([0.0, 1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 2)
    >>> other = columns.under(lambda name: (name, "of another question"))
    >>> "x" in other, list(columns)
    (False, ['x'])
    """

    limit: int = LIMIT
    key: Callable[[Name], Any] = plain
    _shelf: _Shelf = field(default_factory=_Shelf, repr=False)

    def under(self, key: Callable[[Name], Any]) -> Columns:
        """The same columns by other keys."""
        return Columns(self.limit, key, self._shelf)

    @property
    def blocks(self) -> int:
        """Blocks of the longest column."""
        return max((len(self._shelf.parts[self.key(name)]) for name in self), default=0)

    def put(self, name: Name, block: int, values: Array) -> None:
        """Keep the values of one block."""
        part: Array | _File = values
        shelf = self._shelf
        if shelf.held + values.nbytes > self.limit and len(values):
            path = shelf.workspace.path(".bin")
            np.ascontiguousarray(values).tofile(path)
            part = _File(path, values.dtype)
        else:
            shelf.held += values.nbytes
        shelf.parts.setdefault(self.key(name), {})[block] = part

    def block(self, name: Name, block: int) -> Array:
        """Values of one block."""
        part = self._shelf.parts[self.key(name)][block]
        return part.read() if isinstance(part, _File) else part

    def __getitem__(self, name: Name) -> Array:
        """Values of all blocks, one after the other."""
        parts = self._shelf.parts[self.key(name)]
        if len(parts) == 1:
            return self.block(name, next(iter(parts)))
        return np.concatenate([self.block(name, b) for b in sorted(parts)])

    def get(self, name: Name) -> Array | None:
        """Values of all blocks, or None where there is no such column."""
        return self[name] if self.key(name) in self._shelf.parts else None

    def has(self, name: Name, block: int) -> bool:
        """Whether a column has values of a block."""
        return block in self._shelf.parts.get(self.key(name), ())

    def __contains__(self, name: object) -> bool:
        return self.key(name) in self._shelf.parts

    def lacking(self, names: Iterable[Name], sums: Container[Any] = ()) -> list[Name]:
        """Names that are neither columns nor among some sums, each once."""
        return [n for n in dict.fromkeys(names) if self.key(n) not in self._shelf.parts and self.key(n) not in sums]

    def __iter__(self) -> Iterator[Name]:
        """Names of the columns that this view sees."""
        for key in list(self._shelf.parts):
            if self.key(key[0]) == key:
                yield key[0]

    def keep(self, name: Name, block: int, make: Callable[[], Array]) -> Array:
        """Values of one block, made when first asked for."""
        if not self.has(name, block):
            self.put(name, block, make())
        return self.block(name, block)

    def alias(self, name: Name, other: Name) -> None:
        """Another name for a column that is here."""
        self._shelf.parts[self.key(name)] = self._shelf.parts[self.key(other)]

    def drop(self, unwanted: Callable[[Name], bool]) -> None:
        """Let go of the columns of this view whose names fulfil a condition; they can be made again."""
        shelf = self._shelf
        for name in [name for name in self if unwanted(name)]:
            del shelf.parts[self.key(name)]
        arrays = {
            id(part): part.nbytes
            for parts in shelf.parts.values()
            for part in parts.values()
            if not isinstance(part, _File)
        }
        shelf.held = sum(arrays.values())  # a column of two names counts once
