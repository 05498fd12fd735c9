"""One log with the questions asked of it and their exact answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


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
    spread : callable, optional
        (policy or None for the logging policy) → variance of the mean of an A/B test's arm times its units:
        impressions, or users where those are what a test would assign. Infinite where rewards have none.
    gamma : float
        By how much hidden causes moved the odds of an action, or could have; 1 where that is not asked.
    worst : float
        Value of the first policy where hidden causes have done what they did, or the worst within ``gamma``.
    """

    log: Any
    policies: dict[str, Any]
    truths: dict[str, float]
    logged: float = math.nan
    models: dict[str, Any] = field(default_factory=dict)
    segments: dict[str, float] = field(default_factory=dict)
    spread: Callable[[str | None], float] | None = None
    gamma: float = 1.0
    worst: float = math.nan


class Asker(Protocol):
    """A world to draw questions from."""

    def ask(self, rng: np.random.Generator) -> Question:
        """Draw a log and say what is true."""
        ...
