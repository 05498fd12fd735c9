"""A linear-Gaussian chain with two actions, whose value is known to rounding: double robustness in the open.

In the manner of Kallus and Uehara 2020's memoryless example (the constants are this study's own):

    S_0 ~ N(0, 1),   S_{t+1} = 0.7 S_t + 0.5 (2 A_t − 1) + N(0, 0.6²),   R_t = S_t + 0.5 A_t S_t + N(0, 0.5²),

logistic policies, T + 1 steps. v_t is computed on a grid by Gauss–Hermite quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats


def logistic(states: Floats, intercept: float, slope: float) -> Floats:
    """(n, 2) probabilities of a logistic policy of the state."""
    one = 1 / (1 + np.exp(-(intercept + slope * np.asarray(states).reshape(len(states)))))
    return np.column_stack([1 - one, one])


@dataclass(frozen=True)
class Chain:
    """The world and its two policies.

    Examples
    --------
    >>> round(Chain(horizon=1).value(), 6) == round(Chain(horizon=1).value(points=60), 6)
    True
    """

    horizon: int = 10
    discount: float = 1.0

    def target(self, states: Floats) -> Floats:
        """π_e."""
        return logistic(states, 0.3, 0.8)

    def logging(self, states: Floats) -> Floats:
        """π_b."""
        return logistic(states, 0.0, 0.3)

    def value(self, points: int = 40) -> float:
        """V of the target, by quadrature."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(points)
        weights = weights / weights.sum()
        grid = np.linspace(-9, 9, 1801)
        pi = self.target(grid)
        v = np.zeros(len(grid))
        for _ in range(self.horizon):
            q = np.empty((len(grid), 2))
            for a in (0, 1):
                after = 0.7 * grid[:, None] + 0.5 * (2 * a - 1) + 0.6 * nodes
                later = np.interp(after, grid, v) @ weights
                q[:, a] = grid * (1 + 0.5 * a) + self.discount * later
            v = (pi * q).sum(axis=1)
        return float(np.interp(nodes, grid, v) @ weights)

    def densities(self, grid: Floats, *, target: bool) -> Floats:
        """(T+1, points) density of S_t on a grid of equal spacing, under one of the policies."""
        width = float(grid[1] - grid[0])
        pi = self.target(grid) if target else self.logging(grid)
        onward = np.zeros((len(grid), len(grid)))
        for a in (0, 1):
            away = (grid[None, :] - 0.7 * grid[:, None] - 0.5 * (2 * a - 1)) / 0.6
            onward += pi[:, [a]] * np.exp(-(away**2) / 2) / (0.6 * np.sqrt(2 * np.pi))
        out = np.empty((self.horizon, len(grid)))
        out[0] = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
        for t in range(1, self.horizon):
            out[t] = width * (out[t - 1] @ onward)
        return out

    def ratios(self, log: op.Trajectories) -> Floats:
        """(steps,) true ratio of the state-action marginals at the steps of a log."""
        grid = np.linspace(-9, 9, 901)
        quotient = self.densities(grid, target=True) / self.densities(grid, target=False)
        state = np.asarray(log.context.table).reshape(-1)[log.context.positions(np.arange(log.rows))]
        made = np.empty(log.rows)
        for t in range(self.horizon):
            at = log.layout.step == t
            made[at] = np.interp(state[at], grid, quotient[t])
        row = np.arange(log.rows)
        step = self.target(state)[row, log.action] / self.logging(state)[row, log.action]
        return np.asarray(made * step)

    def simulate(self, n: int, rng: np.random.Generator, *, on_policy: bool = False) -> op.Trajectories:
        """Draw n episodes of the logging policy (or of the target), with propensities."""
        policy = self.target if on_policy else self.logging
        state = rng.standard_normal(n)
        states, actions = np.empty((n, self.horizon)), np.empty((n, self.horizon), dtype=np.int64)
        rewards, propensities = np.empty((n, self.horizon)), np.empty((n, self.horizon))
        for t in range(self.horizon):
            pi = policy(state)
            action = (rng.random(n) < pi[:, 1]).astype(np.int64)
            states[:, t], actions[:, t] = state, action
            propensities[:, t] = pi[np.arange(n), action]
            rewards[:, t] = state * (1 + 0.5 * action) + 0.5 * rng.standard_normal(n)
            state = 0.7 * state + 0.5 * (2 * action - 1) + 0.6 * rng.standard_normal(n)
        return op.Trajectories.from_arrays(states[:, :, None], actions, rewards, propensities=propensities)
