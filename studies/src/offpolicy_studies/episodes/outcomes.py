"""A finite world whose rewards belong to transitions: what each action may lead to, with its probability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Array, Floats, Ints


@dataclass(frozen=True, eq=False)
class World:
    """States 0 … S−1, actions 0 … K−1, at most J outcomes of each pair, at most ``horizon`` steps.

    Attributes
    ----------
    initial : (S,) array
        Distribution of the first state.
    chance, reward : (S, K, J) arrays
        Probability and reward of each outcome.
    to : (S, K, J) int array
        The state it leads to.
    ends : (S, K, J) bool array
        Whether the episode is over then.
    horizon : int
        Time limit.
    """

    initial: Floats
    chance: Floats
    reward: Floats
    to: Ints
    ends: Array
    horizon: int

    @property
    def shape(self) -> tuple[int, int]:
        """(S, K)."""
        return self.chance.shape[0], self.chance.shape[1]

    @cached_property
    def mean(self) -> Floats:
        """(S, K) expected reward."""
        return np.asarray((self.chance * self.reward).sum(axis=2))

    def action_values(self, v: Floats) -> Floats:
        """(S, K) q of one more step, given the value of what follows."""
        later = np.where(self.ends, 0.0, v[self.to])
        return np.asarray(self.mean + (self.chance * later).sum(axis=2))

    def value(self, pi: Floats) -> float:
        """V of a policy (S, K) over the time limit."""
        v = np.zeros(self.shape[0])
        for _ in range(self.horizon):
            v = (pi * self.action_values(v)).sum(axis=1)
        return float(self.initial @ v)

    def visits(self, pi: Floats) -> Floats:
        """(T, S) probability that an episode of a policy has a step t, and is in s there."""
        n = self.shape[0]
        out = np.empty((self.horizon, n))
        here = self.initial
        for t in range(self.horizon):
            out[t] = here
            flow = (here[:, None] * pi)[:, :, None] * np.where(self.ends, 0.0, self.chance)
            here = np.bincount(self.to.ravel(), flow.ravel(), n).astype(np.float64)
        return out

    def optimal(self, patience: float = 0.999, steps: int = 2_000) -> Floats:
        """(S, K) q of the optimal stationary policy, slightly discounted."""
        q = np.zeros(self.shape)
        for _ in range(steps):
            before = q
            q = self.action_values(patience * before.max(axis=1))
            if np.abs(q - before).max() < 1e-10:
                break
        return q

    def simulate(self, pi: Floats, n: int, rng: np.random.Generator, *, propensities: bool) -> op.Trajectories:
        """N episodes of a policy, as a log with flags of termination."""
        state = sample(np.tile(self.initial, (n, 1)), rng)
        states, actions = np.zeros((n, self.horizon), int), np.zeros((n, self.horizon), int)
        rewards = np.zeros((n, self.horizon))
        lengths, over = np.full(n, self.horizon), np.zeros(n, dtype=bool)
        alive = np.arange(n)
        for t in range(self.horizon):
            here = state[alive]
            action = sample(pi[here], rng)
            outcome = sample(self.chance[here, action], rng)
            at = (here, action, outcome)
            states[alive, t], actions[alive, t], rewards[alive, t] = here, action, self.reward[at]
            done = self.ends[at]
            lengths[alive[done]] = t + 1
            over[alive[done]] = True
            state[alive] = self.to[at]
            alive = alive[~done]
        inside = np.arange(self.horizon) < lengths[:, None]
        s, a = states[inside], actions[inside]
        return op.Trajectories.from_arrays(
            s,
            a,
            rewards[inside],
            lengths,
            pi[s, a] if propensities else None,
            labels=range(self.shape[1]),
            terminated=over,
            horizon=self.horizon,
        )


def from_gymnasium(name: str, horizon: int, **options: Any) -> World:
    """A toy-text environment of Gymnasium, by its table of transitions."""
    import gymnasium

    newest = max(spec for spec in gymnasium.registry if spec.startswith(f"{name}-v"))
    environment: Any = gymnasium.make(newest, **options).unwrapped
    table = environment.P
    n, k = len(table), len(table[0])
    most = max(len(outcomes) for actions in table.values() for outcomes in actions.values())
    chance, reward = np.zeros((n, k, most)), np.zeros((n, k, most))
    to, ends = np.zeros((n, k, most), dtype=np.int64), np.zeros((n, k, most), dtype=bool)
    for s, actions in table.items():
        for a, outcomes in actions.items():
            for j, (p, following, earned, done) in enumerate(outcomes):
                chance[s, a, j], reward[s, a, j] = p, earned
                to[s, a, j], ends[s, a, j] = following, done
    initial = np.asarray(environment.initial_state_distrib, dtype=np.float64)
    return World(initial / initial.sum(), chance, reward, to, ends, horizon)


def softmax(q: Floats, temperature: float) -> Floats:
    """(S, K) probabilities that follow the values of actions."""
    scaled = (q - q.max(axis=1, keepdims=True)) / temperature
    weight = np.exp(scaled)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def greedy(q: Floats, exploration: float) -> Floats:
    """(S, K) the best action, and with probability ``exploration`` any."""
    k = q.shape[1]
    best = np.eye(k)[(q > q.max(axis=1, keepdims=True) - 1e-9).argmax(axis=1)]
    return np.asarray((1 - exploration) * best + exploration / k)
