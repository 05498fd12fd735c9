"""Pickling an evaluation: columns and facts travel, connections and functions that cannot be pickled stay behind."""

from __future__ import annotations

import io
import pickle
import sys
from types import FunctionType
from typing import Any

import numpy as np

from offpolicy.errors import UsageError


class LeftBehindError(UsageError, AttributeError):
    """What was asked for did not travel; to whoever looks for a capability it is not there."""


class LeftBehind:
    """Stands for what did not travel: whoever needs it is told so."""

    def __init__(self, what: str) -> None:
        self.what = what

    def _error(self) -> LeftBehindError:
        return LeftBehindError(
            f"this evaluation was pickled without {self.what}, which another process cannot load. What was estimated "
            "is here; for anything that needs a new pass over the log or the policy, call op.evaluate again."
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise self._error()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "what":
            raise AttributeError(name)
        raise self._error()


OURS = {"offpolicy", "builtins", "numpy", "functools", "collections", "pathlib", "dataclasses"}


class _Packer(pickle.Pickler):
    """Pickles what can be, and marks the places of the rest."""

    def reducer_override(self, value: Any) -> Any:
        """How to pickle a value; plain ones are left to the pickler."""
        if isinstance(value, np.ndarray | np.generic):
            return NotImplemented
        if isinstance(value, type | FunctionType):
            return NotImplemented if _is_importable(value) else _left(value)
        try:
            if type(value).__module__.split(".")[0] in OURS:
                return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            # What somebody else wrote is taken as a whole, if it comes back at all.
            data = pickle.dumps(value)
            pickle.loads(data)  # noqa: S301
        except Exception:  # noqa: BLE001 whatever an object says to being pickled, it does not travel
            return _left(value)
        return pickle.loads, (data,)


def _left(value: Any) -> tuple[Any, ...]:
    own = value if isinstance(value, type | FunctionType) else type(value)
    return LeftBehind, (f"{own.__module__}.{own.__qualname__}",)


def _is_importable(value: Any) -> bool:
    """Whether another process finds it by its name."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def packed(state: Any) -> bytes:
    """A state as bytes.

    >>> unpacked(packed([1, len]))[0], type(unpacked(packed(lambda: 0))).__name__
    (1, 'LeftBehind')
    """
    target = io.BytesIO()
    _Packer(target, pickle.HIGHEST_PROTOCOL).dump(state)
    return target.getvalue()


def unpacked(data: bytes) -> Any:
    """The state again."""
    return pickle.loads(data)  # noqa: S301
