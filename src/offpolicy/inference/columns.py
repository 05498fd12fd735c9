"""Columns of numbers by name, one array per block of a log: in memory up to a limit, in files beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy._workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

    from offpolicy._arrays import Array

Name: TypeAlias = "Hashable"
LIMIT = 64_000_000


@dataclass(frozen=True)
class _File:
    """An array in a file: plain bytes, read back whole."""

    path: Path
    dtype: np.dtype[Any]

    def read(self) -> Array:
        return np.fromfile(self.path, dtype=self.dtype)


@dataclass(eq=False)
class Columns:
    """Columns of all units of a log.

    Small ones stay where they are; once more than ``limit`` bytes are held, further ones go to files of the
    workspace and are read when asked for.

    Examples
    --------
    >>> columns = Columns(limit=0)
    >>> columns.put("x", 0, np.arange(2.0))
    >>> columns.put("x", 1, np.arange(3.0))
    >>> columns["x"].tolist(), columns.block("x", 1).tolist(), columns.blocks
    ([0.0, 1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 2)
    """

    limit: int = LIMIT
    parent: str | Path | None = None
    _parts: dict[Name, dict[int, Array | _File]] = field(default_factory=dict, repr=False)
    _budget: list[int] = field(default_factory=lambda: [0], repr=False)  # bytes held

    @cached_property
    def _workspace(self) -> Workspace:
        return Workspace(self.parent)

    @property
    def blocks(self) -> int:
        """Blocks of the longest column."""
        return max((len(parts) for parts in self._parts.values()), default=0)

    def put(self, name: Name, block: int, values: Array) -> None:
        """Keep the values of one block."""
        part: Array | _File = values
        if self._budget[0] + values.nbytes > self.limit and len(values):
            path = self._workspace.path(".bin")
            np.ascontiguousarray(values).tofile(path)
            part = _File(path, values.dtype)
        else:
            self._budget[0] += values.nbytes
        self._parts.setdefault(name, {})[block] = part

    def block(self, name: Name, block: int) -> Array:
        """Values of one block."""
        part = self._parts[name][block]
        return part.read() if isinstance(part, _File) else part

    def __getitem__(self, name: Name) -> Array:
        """Values of all blocks, one after the other."""
        parts = self._parts[name]
        if len(parts) == 1:
            return self.block(name, next(iter(parts)))
        return np.concatenate([self.block(name, b) for b in sorted(parts)])

    def get(self, name: Name) -> Array | None:
        """Values of all blocks, or None where there is no such column."""
        return self[name] if name in self._parts else None

    def has(self, name: Name, block: int) -> bool:
        """Whether a column has values of a block."""
        return block in self._parts.get(name, ())

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[Name]:
        return iter(self._parts)

    def keep(self, name: Name, block: int, make: Callable[[], Array]) -> Array:
        """Values of one block, made when first asked for."""
        if not self.has(name, block):
            self.put(name, block, make())
        return self.block(name, block)

    def alias(self, name: Name, other: Name) -> None:
        """Another name for a column that is here."""
        self._parts[name] = self._parts[other]

    def share(self, name: Name, other: Columns) -> None:
        """Take a column over from columns that share their files with these."""
        self._parts[name] = other._parts[name]

    def drop(self, unwanted: Callable[[Name], bool]) -> None:
        """Let go of the columns whose names fulfil a condition."""
        self._parts = {name: parts for name, parts in self._parts.items() if not unwanted(name)}
        self._budget[0] = self._held()

    def _held(self) -> int:
        """Bytes in memory; a column of two names counts once."""
        arrays = {
            id(part): part.nbytes
            for parts in self._parts.values()
            for part in parts.values()
            if not isinstance(part, _File)
        }
        return sum(arrays.values())

    def only(self, wanted: Callable[[Name], bool], *, shared: bool = False) -> Columns:
        """The columns whose names fulfil a condition; files are shared with this one, and ``shared`` the limit too."""
        other = Columns(self.limit, self.parent)
        other._parts = {name: parts for name, parts in self._parts.items() if wanted(name)}
        other._budget = self._budget if shared else [other._held()]
        vars(other)["_workspace"] = self._workspace
        return other
