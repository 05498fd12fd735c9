"""Progress of long work: stages with the time left on a terminal or in a notebook, nothing when piped.

Work that takes longer than two seconds is shown on standard error, stage below stage, and wiped away when it is
done. ``OFFPOLICY_PROGRESS=0`` turns this off, ``=1`` turns it on also where standard error is not a terminal (plain
lines, one every few seconds). Whoever works only counts; one thread of its own draws, so that counting costs nothing
and a single long step does not look like a standstill.
"""

from __future__ import annotations

import html
import math
import os
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DELAY = 2.0
REDRAWN_EVERY = 0.25
PLAIN_EVERY = 5.0
MOST_GROWTH = 1.2  # of the time that is left, beyond which none is shown
KERNEL = "ZMQInteractiveShell"
FITTING = "fitting models"


@dataclass(eq=False)
class Stage:
    """One stage of the work, and how far it is."""

    description: str
    total: int
    done: int = 0
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    thread: int = field(default_factory=threading.get_ident)
    pace: float = 0.0  # seconds per part, when a part was last done
    moved: float = 0.0  # when that was
    lowest: float = math.inf  # what was shown as left, at its lowest

    def advance(self, n: int = 1, note: str = "") -> None:
        """Count ``n`` more parts as done; no more than there are."""
        self.done = min(self.total, self.done + n)
        self.note = note
        self.moved = time.monotonic()
        self.pace = (self.moved - self.started) / self.done if self.done else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """Seconds that are left at the pace so far, which count down while a part is worked on.

        None before anything is done, and where the last part takes longer than its pace.
        """
        if not self.done:
            return None
        parts, over = self.total - self.done, time.monotonic() - self.moved
        if over <= self.pace:
            return max(0.0, self.pace * parts - over)
        return self.pace * (parts - 1) if parts > 1 else None if parts else 0.0

    @property
    def shown(self) -> float | None:
        """What is left, to be shown; None where it has grown by more than a fifth: then the pace is not known."""
        left = self.left
        if left is None or left > MOST_GROWTH * self.lowest:
            return None
        self.lowest = min(self.lowest, left)
        return left


@contextmanager
def track(description: str, total: int) -> Iterator[Callable[..., None]]:
    """Yield ``advance(n=1, note="")``, to be called as parts of the work are done.

    Stages inside stages are shown below each other; one of which nothing is to be done is not shown.

    >>> with track("fitting", total=2) as advance:
    ...     advance()
    ...     advance(note="fold 2")
    """
    stage = Stage(description, total)
    if total > 0:
        BOARD.open(stage)
    try:
        yield stage.advance
    finally:
        BOARD.close(stage)


def tick(description: str, note: str = "") -> None:
    """Count one more part of a stage that somebody further up has opened; nothing where nobody has."""
    BOARD.tick(description, note)


class Screen(Protocol):
    """Where progress is seen."""

    def draw(self, stages: Sequence[Stage]) -> None:
        """Show the stages as they are now."""
        ...

    def close(self) -> None:
        """Wipe it away."""
        ...


class Board:
    """All stages under way in this process, and the thread that draws them while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: list[Stage] = []
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def open(self, stage: Stage) -> None:
        """Add a stage; the first one starts the thread, where anyone would see it."""
        with self._lock:
            self._stages.append(stage)
            if self._thread is None and wanted():
                self._over = threading.Event()
                self._thread = threading.Thread(target=self._watch, args=(self._over,), daemon=True)
                self._thread.start()

    def close(self, stage: Stage) -> None:
        """Remove a stage; the last one ends the thread, which wipes its drawing away first.

        Stages that its thread opened later go with it: an exception leaves a generator unfinished that counts.
        """
        with self._lock:
            if stage not in self._stages:
                return
            at = self._stages.index(stage)
            later = [s for s in self._stages[at:] if s.thread == stage.thread]
            self._stages = [s for s in self._stages if s not in later]
            thread = None
            if not self._stages and self._thread is not None:
                thread, self._thread = self._thread, None
                self._over.set()
        if thread is not None:
            thread.join()

    def tick(self, description: str, note: str) -> None:
        """Count one more part of the innermost stage of that name."""
        with self._lock:
            stage = next((s for s in reversed(self._stages) if s.description == description), None)
        if stage is not None:
            stage.advance(note=note)

    def _watch(self, over: threading.Event) -> None:
        if over.wait(DELAY):
            return
        screen = screen_of()
        try:
            while not over.is_set():
                with self._lock:
                    stages = list(self._stages)
                screen.draw(stages)
                over.wait(REDRAWN_EVERY)
        finally:
            screen.close()


BOARD = Board()


def wanted() -> bool:
    """Whether anyone would see progress."""
    choice = os.environ.get("OFFPOLICY_PROGRESS", "")
    if choice in {"0", "1"}:
        return choice == "1"
    return (sys.stderr is not None and sys.stderr.isatty()) or in_notebook()


def in_notebook() -> bool:
    """Whether this runs in a notebook."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    active = shell.get_ipython()
    return active is not None and type(active).__name__ == KERNEL


def screen_of() -> Screen:
    """The screen that fits where this runs."""
    if in_notebook():
        return Notebook()
    return Terminal() if sys.stderr.isatty() else Lines()


class Terminal:
    """Bars by rich, on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[time]}"),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        self._tasks: dict[Stage, Any] = {}
        self._bars.start()

    def draw(self, stages: Sequence[Stage]) -> None:
        """Show the stages as they are now."""
        for stage in [s for s in self._tasks if s not in stages]:
            self._bars.remove_task(self._tasks.pop(stage))
        for stage in stages:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage.description, total=stage.total, time="", note="")
            self._bars.update(self._tasks[stage], completed=stage.done, time=time_of(stage), note=stage.note)
        self._bars.refresh()

    def close(self) -> None:
        """Wipe it away."""
        self._bars.stop()


class Notebook:
    """A few lines of HTML below the cell, updated in place; needs nothing but the notebook itself."""

    def __init__(self) -> None:
        from IPython import display  # type: ignore[import-not-found,unused-ignore]

        self._html = display.HTML
        self._handle: Any = display.display(display.HTML(""), display_id=True)

    def draw(self, stages: Sequence[Stage]) -> None:
        """Show the stages as they are now."""
        lines = "".join(
            f'<div><progress value="{s.done}" max="{s.total}"></progress> '
            f"{html.escape(s.description)}, {html.escape(time_of(s))} "
            f'<span style="opacity:.7">{html.escape(s.note)}</span></div>'
            for s in stages
        )
        self._handle.update(self._html(lines))

    def close(self) -> None:
        """Wipe it away."""
        self._handle.update(self._html(""))


class Lines:
    """Plain lines, one stage at a time, every few seconds."""

    def __init__(self) -> None:
        self._spoke = -PLAIN_EVERY

    def draw(self, stages: Sequence[Stage]) -> None:
        """Say how far the innermost stage is, unless that was said just now."""
        if not stages or time.monotonic() - self._spoke < PLAIN_EVERY:
            return
        self._spoke = time.monotonic()
        s = stages[-1]
        text = f"{s.description}: {s.done:,}/{s.total:,}, {time_of(s)} {s.note}".rstrip()
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """What was printed stays."""


def time_of(stage: Stage) -> str:
    """How long it will take, or how long it has taken where that is not known.

    >>> time_of(Stage("fitting", 4, started=time.monotonic() - 75))
    '1 min 15 s so far'
    """
    left = stage.shown
    return f"{duration(stage.elapsed)} so far" if left is None else f"about {duration(left)} left"


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(3.2), duration(100), duration(7300)
    ('3 s', '1 min 40 s', '2 h 1 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
