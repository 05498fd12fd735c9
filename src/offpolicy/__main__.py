"""``python -m offpolicy`` is the command line."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python looks for modules in the working folder first, where data of others may lie.
    if not sys.flags.safe_path and sys.path[:1] in ([""], [str(Path.cwd())]):
        del sys.path[0]
    from offpolicy.cli import entry

    entry()
