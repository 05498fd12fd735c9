"""The published toy settings, as small worlds with exact values.

ModelFail, ModelWin and the gridworld follow the descriptions of Thomas and Brunskill 2016; where a
description leaves something open (the gridworld's policies were learned there), the choice is stated below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy_studies.tabular.mdp import Mdp, random_mdp

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Toy:
    """A world, a target, a logging policy, and what of the state is logged.

    Attributes
    ----------
    observed : (S,) int array or None
        What each state looks like in the log; None shows it as it is.
    """

    world: Mdp
    pi_e: Floats
    pi_b: Floats
    observed: Ints | None = None

    def value(self) -> float:
        """Return the target's exact value."""
        return self.world.value(self.pi_e)

    def target(self, states: Ints) -> Floats:
        """π_e in observed states."""
        return np.asarray(self.pi_e[states])

    def simulate(self, n: int, rng: np.random.Generator, *, propensities: bool = True) -> op.Trajectories:
        """Draw n logged episodes."""
        log = self.world.simulate(self.pi_b, n, rng, propensities=propensities)
        if self.observed is None:
            return log
        return op.Trajectories.from_arrays(
            self.observed[log.context.table[log.context.index]],
            log.action,
            log.reward,
            np.diff(log.layout.offsets),
            log.propensity,
            labels=log.actions,
            horizon=log.horizon,
        )


def random_world() -> Toy:
    """Twenty states, three actions, eleven steps."""
    return Toy(*random_mdp())


def model_fail() -> Toy:
    """The first of two actions decides the reward of the second step, and the log shows no state at all.

    Action 1 leads to +1, action 2 to −1. The logging policy takes action 1 with probability 0.88, the target
    with 0.12. No model of what is logged can be right; importance weights can.
    """
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    mean = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    world = Mdp(np.array([1.0, 0, 0]), transition, mean, 0.0, 2)
    both = np.tile([0.12, 0.88], (3, 1))
    return Toy(world, both, both[:, ::-1].copy(), np.zeros(3, dtype=np.int64))


def model_win() -> Toy:
    """A Markov world that a tabular model gets right, twenty steps long, where weights multiply ten times.

    From the first state action 1 leads to the good state with probability 0.4 and to the bad one with 0.6,
    action 2 the other way round; both lead back whatever is done. They pay +1 and −1 when left (when entered
    in the original, which has the same value). π_b takes action 1 with probability 0.73, the target 0.27.
    """
    transition = np.zeros((3, 2, 3))
    transition[0, 0] = [0, 0.4, 0.6]
    transition[0, 1] = [0, 0.6, 0.4]
    transition[1, :, 0] = transition[2, :, 0] = 1.0
    mean = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    world = Mdp(np.array([1.0, 0, 0]), transition, mean, 0.0, 20)
    pi_e = np.array([[0.27, 0.73], [0.5, 0.5], [0.5, 0.5]])
    pi_b = np.array([[0.73, 0.27], [0.5, 0.5], [0.5, 0.5]])
    return Toy(world, pi_e, pi_b)


MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


def gridworld() -> Toy:
    """Four by four from corner to corner, at most 100 steps, −1 per step, −10, +1 and +10 on three cells.

    The policies are this study's: 0.4 and 0.3 of the optimal policy mixed with the uniform one.
    """
    transition, mean = np.zeros((16, 4, 16)), np.full((16, 4), -1.0)
    for x in range(4):
        for y in range(4):
            for a, (dx, dy) in enumerate(MOVES):
                to = (min(max(x + dx, 0), 3), min(max(y + dy, 0), 3))
                mean[x + 4 * y, a] = {(1, 1): -10.0, (1, 3): 1.0, (3, 3): 10.0}.get(to, -1.0)
                if to != (3, 3):
                    transition[x + 4 * y, a, to[0] + 4 * to[1]] = 1.0
    world = Mdp(np.eye(16)[0], transition, mean, 0.0, 100)
    best = optimal(world)
    return Toy(world, 0.4 * best + 0.15, 0.3 * best + 0.175)


def cliff_walking(target: float = 0.9, logging: float = 0.7, horizon: int = 60, noise: float = 0.0) -> Toy:
    """Four by twelve, −1 per step, −100 and the end on the cliff; policies a·greedy + (1 − a)·uniform.

    The walker starts in one corner of the cliff's side and ends in the other; a walk of ``horizon`` steps
    is cut off there. Without noise in the rewards nothing is random given state and action: a tabular model
    is exact once it has seen every pair, and all error comes from pairs it has not.
    """
    width, height = 12, 4
    size = width * height
    transition, mean = np.zeros((size, 4, size)), np.full((size, 4), -1.0)
    for x in range(width):
        for y in range(height):
            for a, (dx, dy) in enumerate(MOVES):
                to = (min(max(x + dx, 0), width - 1), min(max(y + dy, 0), height - 1))
                cliff = to[1] == 0 and 0 < to[0] < width - 1
                if cliff:
                    mean[x + width * y, a] = -100.0
                elif to != (width - 1, 0):
                    transition[x + width * y, a, to[0] + width * to[1]] = 1.0
    world = Mdp(np.eye(size)[0], transition, mean, noise, horizon)
    best = optimal(world)
    uniform = np.full((size, 4), 0.25)
    return Toy(world, target * best + (1 - target) * uniform, logging * best + (1 - logging) * uniform)


def noisy_cliff() -> Toy:
    """Cliff walking with rewards of standard deviation 1, and policies that reach a cell by many ways.

    Only then do weights of marginals differ from products of ratios: along the cliff's edge there is one way.
    """
    return cliff_walking(0.6, 0.2, noise=1.0)


def optimal(world: Mdp) -> Floats:
    """(S, K) the optimal stationary policy of a long horizon, ties going to the first action."""
    v = np.zeros(world.shape[0])
    for _ in range(200):
        q = world.mean + world.discount * world.transition @ v
        v = q.max(axis=1)
    return np.asarray(np.eye(world.shape[1])[(q > v[:, None] - 1e-9).argmax(axis=1)])
