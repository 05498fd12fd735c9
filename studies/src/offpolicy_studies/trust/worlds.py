"""Clean worlds by name (names have no commas), shared by the table of false alarms and the matrix of corruptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import offpolicy as op
from offpolicy_studies.coverage.episodes import Episodes
from offpolicy_studies.trust.clean import Visits

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes with what they are asked."""

    log: Any
    policy: Any
    settings: dict[str, Any]

    def evaluate(self, seed: int) -> op.Evaluation:
        """Evaluate the policy with the default set of estimators."""
        return op.evaluate(self.log, self.policy, seed=seed, **self.settings)


@dataclass(frozen=True)
class Played3:
    """Short episodes of a random Markov decision process."""

    world: Episodes
    randomized: bool = False

    def draw(self, rng: np.random.Generator) -> Played:
        """Draw one log."""
        drawn = self.world.draw(rng)
        settings = dict(drawn.models)
        if self.randomized:
            settings["randomized"] = True
        return Played(drawn.log, drawn.policy, settings)


WORLDS: dict[str, Visits | Played3] = {
    "uniform / binary": Visits(logging="uniform"),
    "uniform / normal": Visits(logging="uniform", rewards="normal"),
    "softmax / binary": Visits(),
    "softmax / normal": Visits(rewards="normal"),
    "softmax / stars": Visits(rewards="stars"),
    "softmax / log-normal": Visits(rewards="lognormal"),
    "softmax / distribution logged": Visits(propensity="distribution"),
    "greedy on context": Visits(logging="greedy"),
    "no effect": Visits(null=True),
    "clicks of 2%": Visits(n=5000, rewards="rare", logging="uniform"),
    "99% success": Visits(rewards="success"),
    "zero-inflated spend": Visits(n=5000, rewards="spend", logging="uniform"),
    "coarse columns": Visits(columns="coarse"),
    "coarse columns / uniform": Visits(columns="coarse", logging="uniform", n=5000),
    "text columns": Visits(columns="text"),
    "heavy-tailed columns": Visits(columns="heavy", rewards="normal"),
    "20 actions": Visits(n=5000, actions=20, logging="uniform"),
    "actions not always possible": Visits(logging="partial", propensity="eligible"),
    "sticky users": Visits(n=4800, dependence="users"),
    "sticky sessions": Visits(n=4800, dependence="sessions"),
    "returning users": Visits(n=4800, dependence="visits"),
    "sticky users / normal": Visits(n=4800, dependence="users", rewards="normal"),
    "weights": Visits(weighted=True),
    "keep_probability": Visits(n=10_000, rewards="rare", kept=0.2),
    "keep_probability / spend": Visits(n=10_000, rewards="spend", kept=0.2, logging="uniform"),
    "batches": Visits(batches=20),
    "weekly season": Visits(batches=28, season=0.7),
    "weekly season / normal": Visits(batches=28, season=0.7, rewards="normal"),
    "ε-greedy": Visits(logging="learning", batches=30),
    "ε-greedy / small batches": Visits(logging="learning", batches=75),
    "decaying ε": Visits(logging="decaying", batches=30),
    "decaying ε / normal": Visits(logging="decaying", batches=30, rewards="normal"),
    "unknown π_b": Visits(propensity="unknown"),
    "unknown π_b / no effect": Visits(propensity="unknown", null=True),
    "unknown π_b / uniform": Visits(propensity="unknown", logging="uniform", rewards="normal"),
    "unknown π_b / sticky users": Visits(n=4800, propensity="unknown", dependence="users", logging="uniform"),
    "episodes": Played3(Episodes(n=1000)),
    "episodes / 6 steps": Played3(Episodes(n=2000, steps=6)),
    "episodes / unknown π_b": Played3(Episodes(n=1000, known=False), randomized=True),
}
