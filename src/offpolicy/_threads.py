"""How threads of numerical libraries wait for each other."""

from __future__ import annotations

import os


def spin_briefly() -> None:
    """Let OpenMP threads that are loaded from now on sleep soon after they begin to wait.

    LightGBM's threads wait for each other many times a tree. OpenMP's own choice is to spin for milliseconds,
    which on busy cores makes a fit tens of times slower; a short spin costs an idle machine nothing. A
    setting of the user's is left alone.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
