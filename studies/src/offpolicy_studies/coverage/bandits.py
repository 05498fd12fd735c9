"""Contextual-bandit worlds: one recipe, whose parts (overlap, rewards, models, …) are varied one by one.

A context is drawn from 512 points of a three-dimensional normal sample, so that values are exact sums. The
score of action a is s_a(x) = c_a + x'θ_a; the target prefers actions with a high score, the logging policy is
softmax(τ z_a(x)) with other preferences z, mixed with some uniform exploration. Rewards have mean s (or its
logistic transform), plus noise of the kind the world says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import offpolicy as op
from offpolicy.models import LinearReward
from offpolicy_studies.coverage.draw import Draw
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

CONTEXTS = 512
# Softmax temperature and uniform exploration of the logging policy.
OVERLAP = {
    "uniform": (0.0, 1.0),
    "mild": (0.7, 0.2),
    "strong": (1.5, 0.1),
    "poor": (3.0, 0.02),
    "none": (8.0, 0.0005),
    "logistic": (0.25, 0.0),
}
Rewards = Literal["continuous", "binary", "rare", "heavy", "negative"]


@dataclass(frozen=True)
class Bandit:
    """A contextual-bandit world.

    Attributes
    ----------
    n, actions : int
        Rows of a log, and actions.
    overlap : {"uniform", "mild", "strong", "poor", "none", "logistic"}
        How much the logging policy explores; "logistic" is a softmax without exploration, which a
        logistic model of π_b can get right.
    rewards : {"continuous", "binary", "rare", "heavy", "negative"}
        Normal; 0/1 at about 40%; 0/1 at about 1%; log-normal with σ = 1.5; normal around −5.
    model : {"good", "weak", "overfit", "auto"}
        Linear with interactions; a constant; a full-grown tree for each action; the library's default.
    propensities : {"logged", "distribution", "shares", "classifier"}
        Of the logged action, of all actions, or unknown and estimated by shares or a logistic model.
    clusters : int
        Number of clusters with a common effect on rewards; 0 for independent rows.
    soft : bool
        Whether the target randomizes.
    easy : bool
        Whether an answer is expected.
    """

    n: int = 1000
    actions: int = 4
    overlap: str = "mild"
    rewards: Rewards = "continuous"
    model: str = "good"
    propensities: str = "logged"
    clusters: int = 0
    soft: bool = False
    easy: bool = False

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw one log."""
        points = population(self.actions, self.rewards)
        at = rng.integers(CONTEXTS, size=self.n)
        logging = self._logging(points)
        action = sample(logging[at], rng)
        mean = points.mean[at, action]
        effect = np.zeros(self.n)
        cluster = None
        if self.clusters:
            cluster = rng.integers(self.clusters, size=self.n)
            effect = 0.7 * rng.standard_normal(self.clusters)[cluster]
        log = op.BanditLog.from_arrays(
            points.context[at],
            action,
            noisy(self.rewards, mean, effect, rng),
            self._logged(logging[at], action),
            cluster=cluster,
            actions=range(self.actions),
        )
        target = points.target(soft=self.soft)
        return Draw(
            log, target[at], points.value(target), learners(self.model, self.propensities), points.value(logging)
        )

    def _logging(self, points: Population) -> Floats:
        if self.propensities == "shares":
            # Shares are right where the logging policy ignores the context.
            shares = np.arange(1, self.actions + 1) / np.arange(1, self.actions + 1).sum()
            return np.broadcast_to(shares, points.mean.shape)
        temperature, explored = OVERLAP[self.overlap]
        return points.logging(temperature, explored)

    def _logged(self, logging: Floats, action: Ints) -> Floats | None:
        if self.propensities == "distribution":
            return logging
        if self.propensities == "logged":
            return np.asarray(logging[np.arange(len(action)), action])
        return None


@dataclass(frozen=True, eq=False)
class Population:
    """Contexts of a world with mean rewards and preferences of the logging policy, all (m, K)."""

    context: Floats
    score: Floats
    preference: Floats
    mean: Floats

    def logging(self, temperature: float, explored: float) -> Floats:
        """π_b of every context."""
        k = self.mean.shape[1]
        return np.asarray((1 - explored) * softmax(temperature * self.preference) + explored / k)

    def target(self, *, soft: bool) -> Floats:
        """π_e of every context."""
        if soft:
            return softmax(2.0 * self.score)
        return np.asarray(np.eye(self.mean.shape[1])[self.score.argmax(axis=1)])

    def value(self, target: Floats) -> float:
        """Exact value of a policy."""
        return float((target * self.mean).sum(axis=1).mean())


@lru_cache(maxsize=32)
def population(actions: int, rewards: Rewards) -> Population:
    """The contexts of every world with these actions and rewards."""
    rng = np.random.default_rng([11, actions])
    x = rng.standard_normal((CONTEXTS, 3))
    score = 0.5 * rng.standard_normal(actions) + 0.5 * x @ rng.standard_normal((3, actions))
    preference = x @ rng.standard_normal((3, actions)) - 0.5 * score
    return Population(x, score, preference, mean_reward(rewards, score))


def mean_reward(rewards: Rewards, score: Floats) -> Floats:
    """Mean rewards of scores."""
    if rewards == "binary":
        return logistic(score - 0.5)
    if rewards == "rare":
        return logistic(0.5 * score - 4.6)
    if rewards == "heavy":
        return np.exp(0.5 * score + 1.5**2 / 2)
    return score - 5.0 if rewards == "negative" else score


def noisy(rewards: Rewards, mean: Floats, effect: Floats, rng: np.random.Generator) -> Floats:
    """Rewards around their means; ``effect`` moves those of a cluster together and has mean 0."""
    n = len(mean)
    if rewards in {"binary", "rare"}:
        # A cluster's effect moves the uniform draw, whose distribution stays uniform.
        u = normal_cdf((rng.standard_normal(n) + effect) / np.sqrt(1 + 0.7**2 * (effect != 0)))
        return (u < mean).astype(np.float64)
    if rewards == "heavy":
        return mean * np.exp(1.5 * rng.standard_normal(n) - 1.5**2 / 2)
    return mean + effect + rng.standard_normal(n)


def learners(model: str, propensities: str) -> dict[str, Any]:
    """What `evaluate` is told of models: of rewards, and of π_b where propensities are unknown."""
    models: dict[str, Any] = {"reward_model": reward_model(model)}
    if propensities == "shares":
        models["behavior_model"] = "shares"
    elif propensities == "classifier":
        from sklearn.linear_model import LogisticRegression

        models["behavior_model"] = LogisticRegression(C=100.0)
    return models


def reward_model(name: str) -> Any:
    """The model of a name."""
    from sklearn.dummy import DummyRegressor
    from sklearn.tree import DecisionTreeRegressor

    models = {
        "good": LinearReward(),
        "weak": DummyRegressor(),
        "overfit": op.models.PerAction(DecisionTreeRegressor()),
        "auto": None,
    }
    return models[name]


def softmax(z: Floats) -> Floats:
    """Row-wise softmax."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def logistic(z: Floats) -> Floats:
    """1 / (1 + e^{−z})."""
    return np.asarray(1 / (1 + np.exp(-z)))


def normal_cdf(z: Floats) -> Floats:
    """Φ."""
    from scipy import special

    return np.asarray(special.ndtr(z))


@dataclass(frozen=True)
class RareArm:
    """One arm of fifty, shown 2% of the time, clicked 1% of the time; the target always shows it."""

    n: int = 1000
    easy: bool = False

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw one log."""
        action = rng.integers(50, size=self.n)
        reward = (rng.random(self.n) < 0.01).astype(np.float64)
        log = op.BanditLog.from_arrays(None, action, reward, np.full(self.n, 0.02), actions=range(50))
        models = {"reward_model": reward_model("weak")}
        return Draw(log, op.policies.Fixed(0), 0.01, models, 0.01)
