"""stub"""

from __future__ import annotations

from typing import Any


def run(options: Any) -> int:
    """Nothing yet."""
    return 0 if options else 1
