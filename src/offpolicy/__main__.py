"""``python -m offpolicy`` is the command line."""

from __future__ import annotations

from offpolicy.cli import entry

if __name__ == "__main__":
    entry()
