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
    from collections.abc import Iterator

    from offpolicy_studies.arrays import Bools, Floats, Ints

CONTROLLER = np.array([0.1, 0.4, 6.0, 2.0])
EPISODES = 1_000_000  # behind the true value: its own error is 2% of an estimate's
AT_ONCE = 5_000  # episodes that are walked together where only their lengths count


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
        parts, lengths, over = [], np.full(n, self.horizon), np.zeros(n, dtype=bool)
        for t, (alive, states, action, p, fell) in enumerate(self.walk(n, rng, chosen)):
            parts.append((alive, np.full(len(alive), t), states, action, p))
            lengths[alive[fell]], over[alive[fell]] = t + 1, True
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

    def value(self, n: int = EPISODES, seed: int = 12345) -> float:
        """V of the target, the mean length of many episodes."""
        return _mean_length(self, n, seed)

    def walk(
        self, n: int, rng: np.random.Generator, slope: float
    ) -> Iterator[tuple[Ints, Floats, Ints, Floats, Bools]]:
        """Of each step: who takes it, their states, actions and probabilities, and who falls."""
        state = rng.uniform(-RESET_WIDTH, RESET_WIDTH, (n, 4))
        alive = np.arange(n)
        for _ in range(self.horizon):
            pi = self.policy(state, slope)
            action = (rng.random(len(alive)) < pi[:, 1]).astype(np.int64)
            after = moved(state, action)
            fell = (np.abs(after[:, 0]) > X_LIMIT) | (np.abs(after[:, 2]) > ANGLE_LIMIT)
            yield alive, state, action, pi[np.arange(len(alive)), action], fell
            alive, state = alive[~fell], after[~fell]
            if len(alive) == 0:
                return


@lru_cache(maxsize=8)
def _mean_length(cart: Cart, n: int, seed: int) -> float:
    rng, steps = np.random.default_rng(seed), 0
    for first in range(0, n, AT_ONCE):
        many = min(AT_ONCE, n - first)
        steps += sum(len(taken[0]) for taken in cart.walk(many, rng, cart.target_slope))
    return steps / n
