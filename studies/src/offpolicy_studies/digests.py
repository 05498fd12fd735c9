"""A short text for what a result was made from, so that results of two inputs are never put together."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = 1 << 24  # bytes up to which a file is read whole; of a larger one, its two ends


def digest(value: Any) -> str:
    """Of anything a cell of a study may hold; files and folders count by what is in them, not by where they are.

    A cell that reads some files of a folder only says so by ``made_from()``.

    >>> digest({"rows": 100, "weights": np.ones(2)}) == digest({"weights": np.ones(2), "rows": 100})
    True
    >>> digest({"rows": 100}) == digest({"rows": 101})
    False
    """
    found = hashlib.sha256()
    for part in _parts(value):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:16]


def _parts(value: Any) -> Iterator[bytes]:
    yield type(value).__qualname__.encode()
    if isinstance(value, Path):
        yield from _of_path(value)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, dict):
        yield from sorted(digest([k, v]).encode() for k, v in value.items())
    elif isinstance(value, set | frozenset):
        yield from sorted(digest(v).encode() for v in value)
    elif isinstance(value, list | tuple | np.ndarray):
        yield from (digest(v).encode() for v in value)
    elif hasattr(value, "made_from"):
        yield digest(value.made_from()).encode()
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (digest([f.name, getattr(value, f.name)]).encode() for f in fields(value))
    elif callable(value) and hasattr(value, "__qualname__"):
        yield f"{value.__module__}.{value.__qualname__}".encode()
    elif repr(value) != object.__repr__(value):
        yield repr(value).encode()
    else:  # a class of its own that says no more than its address
        yield digest(vars(value) if hasattr(value, "__dict__") else None).encode()


def _of_path(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        for p in inside:
            yield f"{p.relative_to(path)}:{p.stat().st_size}".encode()
    elif path.is_file():
        with path.open("rb") as file:
            size = path.stat().st_size
            yield f"{path.name}:{size}".encode()
            yield file.read(WHOLE)
            file.seek(max(0, size - WHOLE))
            yield file.read(WHOLE)
    else:
        yield str(path).encode()
