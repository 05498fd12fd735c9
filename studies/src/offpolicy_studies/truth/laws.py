"""Reward laws: how a reward is drawn around the score of (context, action), and its exact mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special, stats

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats


class Law(Protocol):
    """A distribution of rewards given a score, which is about standard normal over contexts and actions."""

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        ...

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        ...

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        ...


@dataclass(frozen=True)
class Normal:
    """scale · (score + noise) + shift."""

    scale: float = 1.0
    shift: float = 0.0

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return self.scale * score + self.shift

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        return self.mean(score) ** 2 + self.scale**2

    def largest(self, score: Floats, gamma: float) -> Floats:
        """Largest mean where hidden causes may change odds by ``gamma``."""
        cut = float(special.ndtri(gamma / (1 + gamma)))
        density = math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
        return self.mean(score) + abs(self.scale) * density * (gamma - 1 / gamma)

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return self.scale * (score + rng.standard_normal(score.shape)) + self.shift


@dataclass(frozen=True)
class Coin:
    """One of two levels, the upper one with probability 1 / (1 + exp(−slope · score − intercept))."""

    low: float = 0.0
    high: float = 1.0
    intercept: float = -0.5
    slope: float = 1.0

    def chance(self, score: Floats) -> Floats:
        """Probability of the upper level."""
        return np.asarray(1 / (1 + np.exp(-self.slope * score - self.intercept)))

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return self.low + (self.high - self.low) * self.chance(score)

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        return self.low**2 + (self.high**2 - self.low**2) * self.chance(score)

    def largest(self, score: Floats, gamma: float) -> Floats:
        """Largest mean where hidden causes may change odds by ``gamma``."""
        p = self.chance(score)
        pick = np.minimum if gamma >= 1 else np.maximum
        return self.low + (self.high - self.low) * pick(gamma * p, 1 - (1 - p) / gamma)

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.where(rng.random(score.shape) < self.chance(score), self.high, self.low)


@dataclass(frozen=True)
class RareLoss:
    """A small gain, and once in a while a large loss that no score predicts."""

    gain: float = 1.0
    loss: float = -200.0
    chance: float = 0.004

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return np.full(score.shape, self.gain + self.chance * (self.loss - self.gain))

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        both = self.gain**2 + self.chance * (self.loss**2 - self.gain**2)
        return np.full(score.shape, both)

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.where(rng.random(score.shape) < self.chance, self.loss, self.gain)


@dataclass(frozen=True)
class Pareto:
    """Pareto rewards with tail index ``index`` > 1, larger where the score is."""

    index: float = 2.0

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return np.exp(0.5 * score) * self.index / (self.index - 1)

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        if self.index <= 2:
            return np.full(score.shape, math.inf)
        return np.asarray(np.exp(score) * self.index / (self.index - 2))

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.asarray(np.exp(0.5 * score) * (1 + rng.pareto(self.index, score.shape)))


@dataclass(frozen=True)
class Spend:
    """Nothing mostly; with a small probability a purchase, gamma distributed with shape 2."""

    chance: float = 0.03
    purchase: float = 50.0

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return self._chance(score) * self.purchase

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        return self._chance(score) * 1.5 * self.purchase**2

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        bought = rng.random(score.shape) < self._chance(score)
        return np.where(bought, rng.gamma(2.0, self.purchase / 2, score.shape), 0.0)

    def _chance(self, score: Floats) -> Floats:
        return self.chance * np.exp(0.3 * np.clip(score, -3, 3))


@dataclass(frozen=True)
class Rating:
    """One to five stars."""

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return 1 + 4 / (1 + np.exp(-score))

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        stars = self.mean(score)
        return np.asarray(stars**2 + (stars - 1) * (5 - stars) / 4)

    def largest(self, score: Floats, gamma: float) -> Floats:
        """Largest mean where hidden causes may change odds by ``gamma``."""
        stars = np.arange(1.0, 6.0)
        chance = stats.binom.pmf(stars - 1, 4, (1 / (1 + np.exp(-score)))[..., None])
        # Of all cuts the best is one of the levels: any other gives wider bounds.
        pick, made = (np.minimum, np.inf) if gamma >= 1 else (np.maximum, -np.inf)
        for cut in stars:
            off = stars - cut
            worth = cut + np.where(off > 0, gamma, 1 / gamma) * off
            made = pick(made, chance @ worth)
        return np.asarray(made)

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.asarray(1.0 + rng.binomial(4, 1 / (1 + np.exp(-score))), dtype=np.float64)


@dataclass(frozen=True)
class LogNormal:
    """Skewed spending with a finite variance."""

    sigma: float = 1.5

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return np.exp(0.5 * score + self.sigma**2 / 2)

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        return np.asarray(np.exp(score + 2 * self.sigma**2))

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.exp(0.5 * score + self.sigma * rng.standard_normal(score.shape))


@dataclass(frozen=True)
class Same:
    """The same reward always."""

    value: float = 0.1

    def mean(self, score: Floats) -> Floats:
        """E[R | score]."""
        return np.full(score.shape, self.value)

    def square(self, score: Floats) -> Floats:
        """E[R² | score]."""
        return np.full(score.shape, self.value**2)

    def draw(self, score: Floats, rng: np.random.Generator) -> Floats:
        """One reward for each score."""
        return np.full(score.shape, self.value)
