"""Worlds chosen by their names, or by the beginnings of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def chosen(asked: Sequence[str], worlds: Mapping[str, Any]) -> list[str]:
    """The worlds asked for, in their order; all when nothing was asked.

    A list on the command line is split at commas, so names are asked for without theirs.

    >>> chosen(["a"], {"ab": 1, "c": 2}), chosen([], {"ab": 1})
    (['ab'], ['ab'])
    >>> chosen(["clinic far"], {"clinic, near": 1, "clinic, far": 2})
    ['clinic, far']
    """
    plain = {world: world.replace(",", "") for world in worlds}
    starts = tuple(name.replace(",", "") for name in asked)
    for start in starts:
        if not any(name.startswith(start) for name in plain.values()):
            known = list(plain.values())
            raise UsageError(f"no world is called {start!r}.{did_you_mean(start, known)}")
    return [world for world in worlds if not starts or plain[world].startswith(starts)]
