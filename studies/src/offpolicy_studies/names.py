"""Worlds chosen by their names, or by the beginnings of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def chosen(asked: Sequence[str], worlds: Mapping[str, Any]) -> list[str]:
    """The worlds asked for, in their order; all when nothing was asked.

    >>> chosen(["a"], {"ab": 1, "c": 2}), chosen([], {"ab": 1})
    (['ab'], ['ab'])
    """
    for name in asked:
        if not any(w.startswith(name) for w in worlds):
            raise UsageError(f"no world is called {name!r}.{did_you_mean(name, list(worlds))}")
    return [w for w in worlds if not asked or any(w.startswith(name) for name in asked)]
