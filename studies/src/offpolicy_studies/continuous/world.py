"""Worlds of numbers: what is logged, with which density, what it earns, and what two policies would have earned.

``synthetic`` has the law of the Open Bandit Pipeline's synthetic data with continuous actions: normal contexts, actions
drawn around a linear function of them and cut off at the ends of a range, and a mean reward that is quadratic in the
action with coefficients that depend on the context. Its policy is the mean of the context's columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.arrays import Floats

MANY = 1_000_000  # contexts from which true values are computed


@dataclass(frozen=True, eq=False)
class World:
    """A law of logs.

    Attributes
    ----------
    columns : int
        Of the context.
    draw : callable
        (contexts, rng) → actions and their densities.
    mean : callable
        (contexts, actions) → mean reward.
    reward : callable
        (mean rewards, actions, rng) → rewards.
    policies : {name: callable}
        Of the context, one number per row.
    span : (low, high)
        Range in which actions can be drawn; None: what was drawn.
    """

    columns: int
    contexts: Callable[[Any, int], Floats]
    draw: Callable[[Floats, Any], tuple[Floats, Floats]]
    mean: Callable[[Floats, Floats], Floats]
    reward: Callable[[Floats, Floats, Any], Floats]
    policies: dict[str, Callable[[Floats], Floats]]
    span: tuple[float, float] | None = None


def _normal(mean: Floats, sd: Any, rng: Any) -> tuple[Floats, Floats]:
    action = mean + sd * rng.normal(size=len(mean))
    u = (action - mean) / sd
    return action, np.exp(-u * u / 2) / (sd * np.sqrt(2 * np.pi))


def _cut(mean: Floats, sd: float, ends: tuple[float, float], rng: Any) -> tuple[Floats, Floats]:
    below, above = (special.ndtr((end - mean) / sd) for end in ends)
    action = mean + sd * special.ndtri(below + rng.random(len(mean)) * (above - below))
    u = (action - mean) / sd
    return action, np.exp(-u * u / 2) / (sd * np.sqrt(2 * np.pi) * (above - below))


def _uniform(x: Floats, ends: tuple[float, float], rng: Any) -> tuple[Floats, Floats]:
    return rng.uniform(*ends, size=len(x)), np.full(len(x), 1 / (ends[1] - ends[0]))


def _gamma(scale: Floats, shape: float, rng: Any) -> tuple[Floats, Floats]:
    action = scale * rng.gamma(shape, size=len(scale))
    density = (action / scale) ** (shape - 1) * np.exp(-action / scale)
    return action, np.asarray(density / (special.gamma(shape) * scale))


def _mixed(x: Floats, rng: Any) -> tuple[Floats, Floats]:
    """Around 3 or around 6, by the second column."""
    means, share = (3.0, 6.0), 0.3 + 0.4 * (x[:, 1] > 0)
    first = rng.random(len(x)) < share
    action = np.where(first, means[0], means[1]) + 1.3 * rng.normal(size=len(x))
    bells = [np.exp(-(((action - m) / 1.3) ** 2) / 2) / (1.3 * np.sqrt(2 * np.pi)) for m in means]
    return action, np.asarray(share * bells[0] + (1 - share) * bells[1])


def _noisy(sd: float) -> Callable[[Floats, Floats, Any], Floats]:
    return lambda mean, action, rng: mean + sd * rng.normal(size=len(action))


def _sale(mean: Floats, price: Floats, rng: Any) -> Floats:
    """The price, where it was paid: with probability mean / price."""
    return np.asarray(price * (rng.random(len(price)) < mean / price))


def _normal_contexts(columns: int) -> Callable[[Any, int], Floats]:
    return lambda rng, n: np.asarray(rng.normal(size=(n, columns)))


def _even_contexts(columns: int) -> Callable[[Any, int], Floats]:
    return lambda rng, n: np.asarray(rng.uniform(-1, 1, size=(n, columns)))


def _synthetic() -> World:
    c = np.random.default_rng(12345).normal(size=(4, 3)) / 2
    ends = (-6.0, 6.0)
    return World(
        3,
        _normal_contexts(3),
        lambda x, rng: _cut(x @ c[0] + 0.5, 2.0, ends, rng),
        lambda x, a: 0.5 * a * (x @ c[1]) + (x @ c[2]) * a + 0.3 * (a - x @ c[3]) ** 2,
        _noisy(1.0),
        {"mean": lambda x: np.asarray(x.mean(axis=1)), "shifted": lambda x: x.mean(axis=1) + 1.5},
        ends,
    )


def _sold(x: Floats, price: Floats) -> Floats:
    return np.asarray(special.expit(2.0 + x[:, 0] - 0.6 * price))


WORLDS: dict[str, World] = {
    "synthetic": _synthetic(),
    "wave": World(
        2,
        _even_contexts(2),
        lambda x, rng: _normal(5 + x[:, 0], 1.5, rng),
        lambda x, a: np.sin(2 * a) + 0.1 * a * x[:, 1],
        _noisy(0.5),
        {"mild": lambda x: 5.5 + 0.5 * x[:, 0], "low": lambda x: np.full(len(x), 4.5)},
    ),
    "prices": World(
        2,
        _even_contexts(2),
        lambda x, rng: _uniform(x, (1.0, 9.0), rng),
        lambda x, a: a * _sold(x, a),
        _sale,
        {"by context": lambda x: 4.0 + x[:, 0], "six": lambda x: np.full(len(x), 6.0)},
        (1.0, 9.0),
    ),
    "edge": World(
        2,
        _even_contexts(2),
        lambda x, rng: _uniform(x, (0.0, 6.0), rng),
        lambda x, a: np.sin(a) + 0.2 * a * x[:, 1],
        _noisy(0.5),
        {"top": lambda x: np.full(len(x), 5.9), "near": lambda x: 5.2 + 0.5 * x[:, 0]},
        (0.0, 6.0),
    ),
    "kink": World(
        2,
        _even_contexts(2),
        lambda x, rng: _uniform(x, (0.0, 6.0), rng),
        lambda x, a: -np.abs(a - 3 - x[:, 0]),
        _noisy(0.5),
        {"at the kink": lambda x: 3 + x[:, 0], "beside": lambda x: 3.5 + x[:, 0]},
        (0.0, 6.0),
    ),
    "jump": World(
        2,
        _even_contexts(2),
        lambda x, rng: _uniform(x, (0.0, 6.0), rng),
        lambda x, a: np.where(a >= 3 + x[:, 0], (8 - a) / 5, 0.0),
        _noisy(0.5),
        {"bids to win": lambda x: 3 + x[:, 0], "bids more": lambda x: 4 + x[:, 0]},
        (0.0, 6.0),
    ),
    "doses": World(
        3,
        _normal_contexts(3),
        lambda x, rng: _gamma(1.5 + 0.5 * special.expit(x[:, 0]), 2.5, rng),
        lambda x, a: 2 * a * np.exp(-a / (2 + special.expit(x[:, 1]))) - 0.05 * a * x[:, 2],
        _noisy(0.7),
        {"by weight": lambda x: 2.5 + special.expit(x[:, 1]), "three": lambda x: np.full(len(x), 3.0)},
    ),
    "two peaks": World(
        2,
        _even_contexts(2),
        _mixed,
        lambda x, a: np.exp(-((a - 3) ** 2)) + 1.5 * np.exp(-((a - 6 - x[:, 0]) ** 2) / 2),
        _noisy(0.4),
        {"second": lambda x: 6 + 0.5 * x[:, 0], "first": lambda x: np.full(len(x), 3.2)},
    ),
}
# Worlds whose mean reward breaks where the policy sits: outside of what intervals allow for.
BROKEN = ("kink", "jump")
# Worlds that were written after the constants of the bandwidths had been set.
FRESH = ("jump", "doses", "two peaks")


@dataclass(frozen=True, eq=False)
class Logged:
    """One log and what is true of its world."""

    context: Floats
    action: Floats
    reward: Floats
    density: Floats


def logged(name: str, n: int, rng: Any) -> Logged:
    """Draw a log."""
    world = WORLDS[name]
    x = world.contexts(rng, n)
    action, density = world.draw(x, rng)
    mean = world.mean(x, action)
    return Logged(x, action, world.reward(mean, action, rng), density)


def truths(name: str) -> dict[str, float]:
    """Values of the policies of a world, and of its log."""
    world, rng = WORLDS[name], np.random.default_rng(7)
    x = world.contexts(rng, MANY)
    values = {p: float(world.mean(x, act(x)).mean()) for p, act in world.policies.items()}
    return {**values, "logged": float(world.mean(x, world.draw(x, rng)[0]).mean())}
