"""Trajectory worlds: random Markov decision processes with exact values, and the models that meet them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.coverage.draw import Draw
from offpolicy_studies.tabular.mdp import Mdp, random_mdp

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats


@dataclass(frozen=True)
class Episodes:
    """Episodes of a random Markov decision process.

    Attributes
    ----------
    n, steps, states : int
        Episodes, their length, and states.
    model : {"good", "overfit", "weak"}
        Cell means pooled over time; cell means for each step; q = 0 everywhere.
    known : bool
        Whether propensities were logged.
    distance : float
        How far the target is from the logging policy: 0.3 takes the best action 30% more often.
    noise : float
        Standard deviation of a reward.
    """

    n: int = 500
    steps: int = 3
    states: int = 5
    model: str = "good"
    known: bool = True
    distance: float = 0.3
    noise: float = 0.5
    easy: bool = False

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw one log."""
        world, pi_e, pi_b = _world(self.states, self.steps, self.distance, self.noise)
        log = world.simulate(pi_b, self.n, rng, propensities=self.known)
        model: Any = op.Tabular(time="step" if self.model == "overfit" else "pooled")
        if self.model == "weak":
            model = np.zeros((log.layout.n_steps, 3))
        models = {"value_model": model}
        return Draw(log, _Table(pi_e), world.value(pi_e), models, world.value(pi_b))


@dataclass(frozen=True, eq=False)
class _Table:
    table: Floats

    def probabilities(self, states: Any) -> Floats:
        return np.asarray(self.table[np.asarray(states)])


@lru_cache(maxsize=32)
def _world(states: int, steps: int, distance: float, noise: float) -> tuple[Mdp, Floats, Floats]:
    world, _, pi_b = random_mdp(states, 3, steps, seed=3)
    preferred = np.eye(3)[world.mean.argmax(axis=1)]
    pi_e = (1 - distance) * pi_b + distance * preferred
    return Mdp(world.initial, world.transition, world.mean, noise, steps), pi_e, pi_b
