"""What a result and a decision hand to the pages and trackers that show them: plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Origin:
    """How a result came about, where whoever asked for it knows.

    Attributes
    ----------
    command : str
        As it was typed.
    paths : tuple of str
        Files that were read.
    made : str
        When, in ISO 8601.
    """

    command: str | None = None
    paths: tuple[str, ...] = ()
    folder: str | None = None
    made: str | None = None


@dataclass(frozen=True)
class Section:
    """A part of the report; ``about`` says in a sentence or two how to read it, ``body`` is HTML."""

    key: str
    title: str
    about: str
    body: str


@dataclass(frozen=True)
class Tracked:
    """What goes to an experiment tracker besides the evaluation.

    Attributes
    ----------
    metrics : {name: number}
    tags : {name: text}
    files : {file name: text}
        Artifacts.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


class Decision(Protocol):
    """Anything that was decided from an evaluation and can be shown with it."""

    def sections(self) -> list[Section]:
        """Parts of the report that come first."""
        ...

    def tracked(self) -> Tracked:
        """What a tracker is told."""
        ...


def name_of(text: str) -> str:
    """A name as trackers take it: letters, digits, spaces, and ``_ - .`` stay.

    >>> name_of("new (v2)")
    'new _v2_'
    """
    return re.sub(r"[^\w\-. ]", "_", text)
