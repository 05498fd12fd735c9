"""Progress of long work: a bar with the time left on a terminal or in a notebook, nothing when piped.

The bar appears only after two seconds, on standard error. ``OFFPOLICY_PROGRESS=0`` turns it off, ``=1``
turns it on also when standard error is not a terminal (plain lines, one every few seconds).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DELAY = 2.0
PLAIN_EVERY = 5.0


@contextmanager
def track(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yield ``advance(n=1, note="")``, to be called as parts of the work are done.

    >>> with track("fitting", total=2) as advance:
    ...     advance()
    ...     advance(note="fold 2")
    """
    display = _Display(description, total)
    try:
        yield display.advance
    finally:
        display.close()


@dataclass
class _Display:
    description: str
    total: int
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    spoke: float = 0.0
    bar: Any = None
    task: Any = None

    def advance(self, n: int = 1, note: str = "") -> None:
        self.done += n
        elapsed = time.monotonic() - self.started
        if elapsed < DELAY or not _wanted():
            return
        if sys.stderr.isatty() or _in_notebook():
            self._show(note)
        elif elapsed - self.spoke > PLAIN_EVERY:
            self.spoke = elapsed
            left = elapsed / max(self.done, 1) * (self.total - self.done)
            print(
                f"{self.description}: {self.done}/{self.total}, about {left:.0f} s left {note}".rstrip(),
                file=sys.stderr,
                flush=True,
            )

    def _show(self, note: str) -> None:
        if self.bar is None:
            try:
                from rich.console import Console
                from rich.progress import (
                    BarColumn,
                    MofNCompleteColumn,
                    Progress,
                    TimeRemainingColumn,
                )
            except ImportError:
                return
            self.bar = Progress(
                "{task.description}",
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                "{task.fields[note]}",
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.description, total=self.total, note=note)
        self.bar.update(self.task, completed=self.done, note=note)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _wanted() -> bool:
    choice = os.environ.get("OFFPOLICY_PROGRESS", "")
    if choice in {"0", "1"}:
        return choice == "1"
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    active = shell.get_ipython()
    return active is not None and type(active).__name__ == "ZMQInteractiveShell"
