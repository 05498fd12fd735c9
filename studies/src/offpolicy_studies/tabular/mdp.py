"""A finite Markov decision process with exact values and exact variances of the scores.

With ψ of Eq. (DR) at the true nuisances, ψ − V is a sum of martingale differences, so

    σ² = Var v_0(S_0) + Σ_t γ^{2t} E_b[ρ_t² Var(R_t + γ v_{t+1}(S_{t+1}) | S_t, A_t)],

and with the ratio of marginals w_t in place of ρ_t it is the efficiency bound of a Markov decision process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats


@dataclass(frozen=True, eq=False)
class Mdp:
    """States 0 … S−1, actions 0 … K−1.

    Attributes
    ----------
    initial : (S,) array
        Distribution of S_0.
    transition : (S, K, S) array
        P(s'|s, a); what is missing from 1 is the probability that the episode ends.
    mean : (S, K) array
        μ(s, a).
    noise : float
        Standard deviation of the (normal) reward around μ.
    horizon : int
        T + 1.
    discount : float
        γ.
    """

    initial: Floats
    transition: Floats
    mean: Floats
    noise: float
    horizon: int
    discount: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(S, K)."""
        return self.mean.shape[0], self.mean.shape[1]

    def values(self, pi: Floats) -> tuple[Floats, Floats]:
        """(T+1, S, K) q_t and (T+2, S) v_t of a policy (S, K), v_{T+1} = 0."""
        n, k = self.shape
        q = np.zeros((self.horizon, n, k))
        v = np.zeros((self.horizon + 1, n))
        for t in range(self.horizon - 1, -1, -1):
            q[t] = self.mean + self.discount * self.transition @ v[t + 1]
            v[t] = (pi * q[t]).sum(axis=1)
        return q, v

    def value(self, pi: Floats) -> float:
        """V of a policy."""
        return float(self.initial @ self.values(pi)[1][0])

    def _step_variance(self, v_next: Floats) -> Floats:
        """(S, K) Var(R + γ v(S') | s, a), the end of the episode counting as v = 0."""
        first = self.transition @ v_next
        second = self.transition @ v_next**2
        return self.noise**2 + self.discount**2 * (second - first**2)

    def _start_variance(self, v_0: Floats) -> float:
        return float(self.initial @ v_0**2 - (self.initial @ v_0) ** 2)

    def sigma2(self, pi_e: Floats, pi_b: Floats) -> float:
        """σ² of Proposition 1: the variance of ψ at the true nuisances."""
        _, v = self.values(pi_e)
        total = self._start_variance(v[0])
        reached = self.initial.copy()
        factor = np.divide(pi_e**2, pi_b, out=np.zeros_like(pi_e), where=pi_e > 0)
        for t in range(self.horizon):
            squared = reached[:, None] * factor
            total += self.discount ** (2 * t) * float((squared * self._step_variance(v[t + 1])).sum())
            reached = np.einsum("sa,sat->t", squared, self.transition)
        return total

    def marginals(self, pi: Floats) -> Floats:
        """(T+1, S, K) probability of being in s and taking a at t."""
        n, k = self.shape
        out = np.empty((self.horizon, n, k))
        state = self.initial.copy()
        for t in range(self.horizon):
            out[t] = state[:, None] * pi
            state = np.einsum("sa,sat->t", out[t], self.transition)
        return out

    def bound(self, pi_e: Floats, pi_b: Floats) -> float:
        """The efficiency bound: the variance of the DRL score at the true nuisances."""
        _, v = self.values(pi_e)
        p_e, p_b = self.marginals(pi_e), self.marginals(pi_b)
        total = self._start_variance(v[0])
        for t in range(self.horizon):
            ratio = np.divide(p_e[t] ** 2, p_b[t], out=np.zeros_like(p_e[t]), where=p_e[t] > 0)
            total += self.discount ** (2 * t) * float((ratio * self._step_variance(v[t + 1])).sum())
        return total

    def simulate(self, pi: Floats, n: int, rng: np.random.Generator, *, propensities: bool = True) -> op.Trajectories:
        """N episodes of a policy, as a log."""
        n_states, k = self.shape
        state = sample(np.tile(self.initial, (n, 1)), rng)
        onward = self.transition.cumsum(axis=2)
        states, actions = np.zeros((n, self.horizon), int), np.zeros((n, self.horizon), int)
        lengths = np.full(n, self.horizon)
        alive = np.arange(n)
        for t in range(self.horizon):
            here = state[alive]
            action = sample(pi[here], rng)
            states[alive, t], actions[alive, t] = here, action
            # The state after the last one listed is the end of the episode.
            arrived = (onward[here, action] < rng.random(len(alive))[:, None] - 1e-12).sum(axis=1)
            lengths[alive[arrived == n_states]] = t + 1
            state[alive] = np.minimum(arrived, n_states - 1)
            alive = alive[arrived < n_states]
        inside = np.arange(self.horizon) < lengths[:, None]
        s, a = states[inside], actions[inside]
        reward = self.mean[s, a] + self.noise * rng.standard_normal(len(s))
        return op.Trajectories.from_arrays(
            s, a, reward, lengths, pi[s, a] if propensities else None, labels=range(k), horizon=self.horizon
        )


def random_mdp(
    n_states: int = 20, n_actions: int = 3, horizon: int = 11, *, seed: int = 0
) -> tuple[Mdp, Floats, Floats]:
    """A random world with its target and logging policies: (Mdp, π_e, π_b).

    >>> world, pi_e, pi_b = random_mdp()
    >>> world.shape, world.horizon
    ((20, 3), 11)
    """
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    mean = rng.normal(size=(n_states, n_actions))
    world = Mdp(np.full(n_states, 1 / n_states), transition, mean, 0.5, horizon)
    pi_b = 0.6 / n_actions + 0.4 * rng.dirichlet(np.full(n_actions, 2.0), size=n_states)
    preferred = np.eye(n_actions)[mean.argmax(axis=1)]
    pi_e = 0.7 * pi_b + 0.3 * preferred
    return world, pi_e, pi_b
