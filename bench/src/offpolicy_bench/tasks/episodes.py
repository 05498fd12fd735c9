"""Episodes whose values are known: a finite world by backward recursion, a linear-Gaussian chain by quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_bench.task import Arrays, Bools, Drawn, Floats, Ints, Task, sample, softmax

if TYPE_CHECKING:
    from collections.abc import Callable

STATES, ACTIONS, STEPS = 20, 3, 10


def episodes(
    states: list[Any],
    actions: list[Ints],
    rewards: list[Floats],
    units: list[Ints],
    ended: Bools,
    pi_b: Callable[[Any], Floats],
    pi_e: Callable[[Any], Floats],
    *,
    discount: float,
    horizon: int,
) -> Arrays:
    """Arrays of episodes from what was drawn step by step: of each step the episodes that take it."""
    unit = np.concatenate(units)
    step = np.concatenate([np.full(len(u), t) for t, u in enumerate(units)])
    order = np.lexsort((step, unit))
    state, action = np.concatenate(states)[order], np.concatenate(actions)[order]
    return {
        "state": state,
        "action": action,
        "reward": np.concatenate(rewards)[order],
        "target": pi_e(state),
        "length": np.bincount(unit, minlength=len(ended)),
        "terminated": ended,
        "propensity": pi_b(state)[np.arange(len(action)), action],
        "discount": np.array(discount),
        "horizon": np.array(horizon),
    }


@dataclass(frozen=True, eq=False)
class Finite:
    """Twenty states, three actions, ten steps; (S, A, S) transitions, (S, A) rewards, (S, A) policies."""

    initial: Floats
    onward: Floats
    reward: Floats
    pi_b: Floats
    pi_e: Floats

    @property
    def truth(self) -> float:
        """V of the target, by backward recursion."""
        v = np.zeros(STATES)
        for _ in range(STEPS):
            v = (self.pi_e * (self.reward + self.onward @ v)).sum(axis=1)
        return float(self.initial @ v)


@lru_cache(maxsize=1)
def finite() -> Finite:
    """The world."""
    rng = np.random.default_rng([2026, 30])
    onward = rng.dirichlet(np.full(STATES, 0.2), size=(STATES, ACTIONS))
    reward = rng.normal(size=(STATES, ACTIONS))
    score = rng.normal(size=(STATES, ACTIONS))
    return Finite(np.full(STATES, 1 / STATES), onward, reward, softmax(score), softmax(0.5 * score + 0.7 * reward))


def _draw_finite(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    world = finite()
    state = sample(np.tile(world.initial, (rows, 1)), rng)
    states, actions, rewards = [], [], []
    for _ in range(STEPS):
        action = sample(world.pi_b[state], rng)
        states.append(state)
        actions.append(action)
        rewards.append(world.reward[state, action] + 0.5 * rng.normal(size=rows))
        state = sample(world.onward[state, action], rng)
    units = [np.arange(rows)] * STEPS
    arrays = episodes(
        states,
        actions,
        rewards,
        units,
        np.zeros(rows, dtype=bool),
        lambda s: world.pi_b[s],
        lambda s: world.pi_e[s],
        discount=1.0,
        horizon=STEPS,
    )
    return Drawn(arrays, world.truth)


def _logistic(states: Floats, intercept: float, slope: float) -> Floats:
    one = 1 / (1 + np.exp(-(intercept + slope * states[:, 0])))
    return np.column_stack([1 - one, one])


def chain_logging(states: Floats) -> Floats:
    """π_b of the chain."""
    return _logistic(states, 0.0, 0.3)


def chain_target(states: Floats) -> Floats:
    """π_e of the chain."""
    return _logistic(states, 0.3, 0.8)


@lru_cache(maxsize=1)
def chain_truth(points: int = 40) -> float:
    """V of the target: v on a grid, expectations by Gauss–Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    grid = np.linspace(-9, 9, 1_801)
    pi, v = chain_target(grid[:, None]), np.zeros(1_801)
    for _ in range(STEPS):
        q = np.empty((len(grid), 2))
        for a in (0, 1):
            after = 0.7 * grid[:, None] + 0.5 * (2 * a - 1) + 0.6 * nodes
            q[:, a] = grid * (1 + 0.5 * a) + np.interp(after, grid, v) @ weights
        v = (pi * q).sum(axis=1)
    return float(np.interp(nodes, grid, v) @ weights)


def _draw_chain(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    state = rng.normal(size=(rows, 1))
    states, actions, rewards = [], [], []
    for _ in range(STEPS):
        action = sample(chain_logging(state), rng)
        states.append(state)
        actions.append(action)
        rewards.append(state[:, 0] * (1 + 0.5 * action) + 0.5 * rng.normal(size=rows))
        state = 0.7 * state + (0.5 * (2 * action - 1) + 0.6 * rng.normal(size=rows))[:, None]
    units = [np.arange(rows)] * STEPS
    arrays = episodes(
        states,
        actions,
        rewards,
        units,
        np.zeros(rows, dtype=bool),
        chain_logging,
        chain_target,
        discount=1.0,
        horizon=STEPS,
    )
    return Drawn(arrays, chain_truth())


TASKS = (
    Task(
        "episodes-tabular",
        "Episodes, 20 states",
        "episodes",
        "Ten steps in a random finite world, softmax policies; propensities logged.",
        {"quick": 300, "full": 1_000},
        _draw_finite,
    ),
    Task(
        "episodes-continuous",
        "Episodes, a continuous state",
        "episodes",
        "Ten steps of a linear-Gaussian chain, logistic policies; propensities logged.",
        {"quick": 300, "full": 1_000},
        _draw_chain,
    ),
)
