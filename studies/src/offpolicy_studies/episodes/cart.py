"""CartPole from its physical state, many episodes at once, in numpy: Gymnasium's dynamics, its own policies.

Both policies push towards where the pole leans, logistic in a linear controller; the target is steeper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy_studies.cartpole.dynamics import (
    ANGLE_LIMIT,
    CART_MASS,
    FORCE,
    GRAVITY,
    HALF_LENGTH,
    POLE_MASS,
    RESET_WIDTH,
    TAU,
    X_LIMIT,
)

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

CONTROLLER = np.array([0.1, 0.4, 6.0, 2.0])


def moved(physics: Floats, action: Ints) -> Floats:
    """(n, 4) states one Euler step later."""
    x, v, angle, spin = physics.T
    force = (2 * action - 1) * FORCE
    cos, sin = np.cos(angle), np.sin(angle)
    total, moment = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
    temp = (force + moment * spin**2 * sin) / total
    turn = (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / total))
    push = temp - moment * turn * cos / total
    return np.column_stack([x + TAU * v, v + TAU * push, angle + TAU * spin, spin + TAU * turn])


@dataclass(frozen=True)
class Cart:
    """Episodes of at most ``horizon`` steps, reward 1 each."""

    horizon: int = 200
    target_slope: float = 1.5
    logging_slope: float = 1.0

    def policy(self, states: Floats, slope: float) -> Floats:
        """(n, 2) probabilities of a logistic controller, never below 0.05."""
        right = 0.05 + 0.9 / (1 + np.exp(-slope * (np.asarray(states) @ CONTROLLER)))
        return np.column_stack([1 - right, right])

    def target(self, states: Floats) -> Floats:
        """π_e."""
        return self.policy(states, self.target_slope)

    def simulate(
        self, n: int, rng: np.random.Generator, *, propensities: bool, slope: float | None = None
    ) -> op.Trajectories:
        """N episodes of the logging policy, or of another slope."""
        chosen = self.logging_slope if slope is None else slope
        state = rng.uniform(-RESET_WIDTH, RESET_WIDTH, (n, 4))
        parts, lengths, over = [], np.full(n, self.horizon), np.zeros(n, dtype=bool)
        alive = np.arange(n)
        for t in range(self.horizon):
            pi = self.policy(state[alive], chosen)
            action = (rng.random(len(alive)) < pi[:, 1]).astype(np.int64)
            parts.append(
                (
                    alive,
                    np.full(len(alive), t),
                    state[alive],
                    action,
                    pi[np.arange(len(alive)), action],
                )
            )
            state[alive] = moved(state[alive], action)
            fell = (np.abs(state[alive, 0]) > X_LIMIT) | (np.abs(state[alive, 2]) > ANGLE_LIMIT)
            lengths[alive[fell]], over[alive[fell]] = t + 1, True
            alive = alive[~fell]
            if len(alive) == 0:
                break
        unit, step, states, actions, p = (np.concatenate(x) for x in zip(*parts, strict=True))
        order = np.lexsort((step, unit))
        return op.Trajectories.from_arrays(
            states[order],
            actions[order],
            np.ones(len(order)),
            lengths,
            p[order] if propensities else None,
            labels=range(2),
            terminated=over,
            horizon=self.horizon,
        )

    def value(self, n: int = 40_000, seed: int = 12345) -> float:
        """V of the target, the mean length of many episodes."""
        return _mean_length(self, n, seed)


@lru_cache(maxsize=8)
def _mean_length(cart: Cart, n: int, seed: int) -> float:
    log = cart.simulate(n, np.random.default_rng(seed), propensities=False, slope=cart.target_slope)
    return log.rows / log.n
