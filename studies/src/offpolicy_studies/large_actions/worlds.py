"""Worlds with many actions whose rewards follow from features, or, where they do not, by how much.

Action a has one of five genres and one of four prices: 20 cells. Its mean reward in context x is that of the cell plus
``direct`` times its appeal s(x, a), by which logging policy and target choose as well: without that, what cells lose
would not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

GENRES = ("rock", "folk", "jazz", "soul", "punk")
PRICES = (1.0, 2.0, 3.0, 4.0)
CONTEXT = 3


@dataclass(frozen=True)
class Policy:
    """π(a | x) ∝ exp(strength · s(x, a)), or its mode."""

    world: World
    strength: float

    def probabilities(self, x: Floats) -> Floats:
        """(n, K) probabilities."""
        z = self.strength * self.world.appeal(np.asarray(x))
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Mode:
    """The action of largest appeal."""

    world: World

    def choices(self, x: Floats) -> Ints:
        """(n,) codes."""
        return np.asarray(self.world.appeal(np.asarray(x)).argmax(axis=1))


@dataclass(frozen=True)
class World:
    """Fixed by its number of actions and its seed."""

    actions: int = 300
    direct: float = 0.0
    seed: int = 7

    @cached_property
    def _parameters(self) -> tuple[Floats, Floats, Floats]:
        rng = np.random.default_rng(self.seed)
        taste = rng.normal(size=(CONTEXT, self.actions))
        return taste, rng.normal(size=len(GENRES)), rng.normal(size=(CONTEXT, len(GENRES)))

    @property
    def genre(self) -> Ints:
        """(K,) genre of each action."""
        return np.arange(self.actions) % len(GENRES)

    @property
    def price(self) -> Floats:
        """(K,) price of each action."""
        return np.asarray(PRICES)[(np.arange(self.actions) // len(GENRES)) % len(PRICES)]

    @property
    def features(self) -> dict[int, dict[str, Any]]:
        """The table of features."""
        return {
            a: {"genre": GENRES[g], "price": float(p)}
            for a, (g, p) in enumerate(zip(self.genre, self.price, strict=True))
        }

    def appeal(self, x: Floats) -> Floats:
        """(n, K) s(x, a)."""
        return np.asarray(x @ self._parameters[0] / np.sqrt(CONTEXT))

    def mean(self, x: Floats) -> Floats:
        """(n, K) mean reward."""
        _, level, slope = self._parameters
        cell = (level + 0.5 * x @ slope)[:, self.genre] + 0.3 * self.price
        return np.asarray(cell + self.direct * self.appeal(x))

    def targets(self) -> dict[str, Any]:
        """What is evaluated."""
        return {"soft": Policy(self, 1.5), "mode": Mode(self)}

    @cached_property
    def values(self) -> dict[str, float]:
        """True values: of the targets, and of the logging policy under "logged"."""
        rng = np.random.default_rng([self.seed, 1])
        total = dict.fromkeys(("soft", "mode", "logged"), 0.0)
        parts = 20
        for _ in range(parts):
            x = rng.normal(size=(5_000, CONTEXT))
            mean = self.mean(x)
            chosen = Mode(self).choices(x)
            total["mode"] += float(mean[np.arange(len(x)), chosen].mean())
            for name, strength in (("soft", 1.5), ("logged", 0.5)):
                total[name] += float((Policy(self, strength).probabilities(x) * mean).sum(1).mean())
        return {name: value / parts for name, value in total.items()}

    def log(self, n: int, rng: np.random.Generator) -> op.BanditLog:
        """A log of n rows with the propensity of the logged action."""
        x = rng.normal(size=(n, CONTEXT))
        p = Policy(self, 0.5).probabilities(x)
        a = np.minimum((rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1), self.actions - 1)
        at = np.arange(n)
        reward = self.mean(x)[at, a] + rng.normal(size=n)
        return op.BanditLog.from_arrays(
            x, a, reward, p[at, a], actions=range(self.actions), action_features=self.features
        )
