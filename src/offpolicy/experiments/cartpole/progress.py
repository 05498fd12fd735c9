"""Plain progress with the time left: one line rewritten on a terminal, few lines in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

SILENCE = 15.0


def clock(seconds: float) -> str:
    """Format a duration.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@dataclass
class Progress:
    """Counts work done towards ``total`` and says how long the rest will take."""

    total: float
    done: float = 0.0
    begin: float = field(default_factory=time.monotonic)
    said: float = 0.0

    def show(self, done: float, what: str) -> None:
        """Report that ``done`` of the total is done; in a log at most every 15 seconds."""
        now, live = time.monotonic(), sys.stderr.isatty()
        if not live and now - self.said < SILENCE and done < self.total:
            return
        self.said = now
        spent = now - self.begin
        left = f", {clock(spent / done * (self.total - done))} left" if done > 0 else ""
        share = f"{100 * done / self.total:3.0f}%" if self.total else "100%"
        line = f"{share} {what} ({clock(spent)} spent{left})"
        sys.stderr.write(f"\r\x1b[K{line}" if live else line + "\n")
        if live and done >= self.total:
            sys.stderr.write("\n")
        sys.stderr.flush()
