"""The synthetic world of Saito and Joachims 2022 (MIPS), as their code and OBP 0.5.7 describe it.

Ten numbers of context; every action has a distribution over ten categories in each of four dimensions, the first of
which matters to nobody and is not seen; a row's categories are drawn from those of its action, and its reward is a
weighted sum of linear functions of context and category, with noise of standard deviation 2.5. The logging policy is
a softmax of the negative mean reward, the target takes the best action but for 5%.

Two things in that code decide what its errors are of. The weights of the dimensions are drawn anew for every log and
for the test set that gives the "true" value, so that each log has a value of its own which is not the one it is
compared with; and the uniform numbers that draw actions and categories are the same for every log. Here they are drawn
afresh, and errors are given against both values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy_studies.arrays import Floats, Ints

CONTEXT, CATEGORIES, LATENT, DIMENSIONS = 10, 10, 5, 4
NOISE, BETA, EPSILON = 2.5, -1.0, 0.05
BLOCK = 2_000_000


@dataclass(frozen=True)
class World:
    """The world with some number of actions; ``seed`` fixes all but logs."""

    actions: int
    seed: int = 12345

    @cached_property
    def _parameters(self) -> tuple[Floats, Floats]:
        rng = np.random.default_rng([self.seed, self.actions])
        latent = rng.normal(size=(DIMENSIONS, CATEGORIES, LATENT))
        raw = np.exp(rng.normal(size=(DIMENSIONS, self.actions, CATEGORIES)))
        return latent, raw / raw.sum(axis=2, keepdims=True)

    @property
    def chances(self) -> Floats:
        """(dimensions, K, categories) distribution of the categories of each action."""
        return self._parameters[1]

    def by_category(self, x: Floats) -> Floats:
        """(dimensions, n, categories) mean reward of each category."""
        out = np.empty((DIMENSIONS, len(x), CATEGORIES))
        for d, latent in enumerate(self._parameters[0]):
            rng = np.random.default_rng([self.seed, d])
            left, right = (np.column_stack([np.ones(len(m)), m]) for m in (x, latent))
            own, other = (rng.uniform(-1, 1, m.shape[1]) for m in (left, right))
            cross = rng.uniform(-1, 1, (left.shape[1], right.shape[1]))
            out[d] = (left @ own)[:, None] + right @ other + left @ cross @ right.T
            # A constant: what the published code takes for standardizing.
            out[d] -= out[d].mean() / out[d].std()
        return out


def weights_of_dimensions(rng: np.random.Generator) -> Floats:
    """(dimensions,) how much each matters; the first does not."""
    alpha = rng.uniform(size=DIMENSIONS - 1)
    return np.concatenate([[0.0], rng.dirichlet(alpha)])


def blocks(n: int, width: int) -> Iterator[slice]:
    """Rows of bounded memory."""
    step = max(1, BLOCK // width)
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


@dataclass(frozen=True, eq=False)
class Log:
    """What estimators need of one log: rewards, exact ratios, ratios of the categories drawn, and the value."""

    reward: Floats
    exact: Floats
    marginal: Floats
    value: float


def draw(world: World, n: int, importance: Floats, rng: np.random.Generator) -> Log:
    """One log of n rows."""
    x = rng.normal(size=(n, CONTEXT))
    by_category = world.by_category(x)
    k = world.actions
    exact, marginal, reward, value = np.empty(n), np.empty(n), np.empty(n), 0.0
    for rows in blocks(n, k):
        own = by_category[:, rows]
        mean = np.einsum("d,dnc,dkc->nk", importance, own, world.chances, optimize=True)
        pi_b = np.exp(BETA * (mean - (BETA * mean).max(axis=1, keepdims=True) / BETA))
        pi_b /= pi_b.sum(axis=1, keepdims=True)
        pi_e = np.full_like(mean, EPSILON / k)
        at = np.arange(len(mean))
        pi_e[at, mean.argmax(axis=1)] += 1 - EPSILON
        value += float((pi_e * mean).sum())
        action = drawn(pi_b, rng)
        exact[rows] = pi_e[at, action] / pi_b[at, action]
        category = [drawn(world.chances[d][action], rng) for d in range(DIMENSIONS)]
        both = joint(world.chances, category)
        marginal[rows] = (pi_e * both).sum(axis=1) / (pi_b * both).sum(axis=1)
        reward[rows] = sum(importance[d] * own[d][at, category[d]] for d in range(DIMENSIONS))
    return Log(reward + rng.normal(scale=NOISE, size=n), exact, marginal, value / n)


def joint(chances: Floats, category: list[Ints]) -> Floats:
    """(m, K) probability with which each action has the categories that are seen: all dimensions but the first."""
    out: Floats = chances[1][:, category[1]].T.copy()
    for d in range(2, DIMENSIONS):
        out *= chances[d][:, category[d]].T
    return out


def drawn(matrix: Floats, rng: np.random.Generator) -> Ints:
    """One column for each row of probabilities."""
    at = (rng.random((len(matrix), 1)) > matrix.cumsum(axis=1)).sum(axis=1)
    return np.asarray(np.minimum(at, matrix.shape[1] - 1))


def squared_error(log: Log, ratio: Literal["exact", "marginal"], value: float) -> float:
    """Of the mean weighted reward."""
    weight = log.exact if ratio == "exact" else log.marginal
    return (float((weight * log.reward).mean()) - value) ** 2
