"""One log with the questions asked of it and their exact answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from offpolicy_studies.arrays import Floats


@dataclass(frozen=True, eq=False)
class Question:
    """A log, policies and what is true of them.

    Attributes
    ----------
    log : BanditLog or Trajectories
    policies : {name: policy}
        The first is the one that single questions are about.
    truths : {name: float}
        Value of each.
    logged : float
        Value of the logging policy; nan where it has none (it learned while logging).
    models : dict
        Arguments of `evaluate`.
    segments : {label: float}
        Value of the first policy in each group of the context's column 0; empty where that is not asked.
    outcomes : callable, optional
        (policy or None for the logging policy, number of units, generator) → what these units earn: what
        an A/B test would see.
    gamma : float
        By how much hidden causes moved the odds of an action; 1 where nothing is hidden.
    """

    log: Any
    policies: dict[str, Any]
    truths: dict[str, float]
    logged: float = math.nan
    models: dict[str, Any] = field(default_factory=dict)
    segments: dict[str, float] = field(default_factory=dict)
    outcomes: Callable[[str | None, int, np.random.Generator], Floats] | None = None
    gamma: float = 1.0


class Asker(Protocol):
    """A world to draw questions from."""

    def ask(self, rng: np.random.Generator) -> Question:
        """Draw a log and say what is true."""
        ...
