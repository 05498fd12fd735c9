"""Progress of long work, as the library itself shows it: ``with track(title, total) as advance``."""

from __future__ import annotations

from offpolicy.testing import track

__all__ = ["track"]
