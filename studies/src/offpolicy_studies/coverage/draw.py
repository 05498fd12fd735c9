"""One log drawn from a world, with what `evaluate` is told about it and the exact value it is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Draw:
    """A log and the question about it.

    Attributes
    ----------
    log : BanditLog or Trajectories
    policy : policy
        Whose value is asked for.
    truth : float
        The value.
    models : dict
        Models for `evaluate`.
    logged : float
        The logging policy's own value; nan where it has none (it learned while logging).
    """

    log: Any
    policy: Any
    truth: float
    models: dict[str, Any] = field(default_factory=dict)
    logged: float = math.nan


class World(Protocol):
    """Something to draw logs from."""

    @property
    def easy(self) -> bool:
        """Whether a careful statistician would expect an answer, not a refusal."""
        ...

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw one log."""
        ...
