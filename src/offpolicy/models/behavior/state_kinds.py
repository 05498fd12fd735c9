"""Kinds of states: what the actions of one discrete state tell about those of another.

A policy over discrete states seldom treats each of them in a way of its own. Most take one action in a state, another
now and then, and never the rest; which two these are is much the same wherever the first is the same. So states are a
mixture: a state is of the kind k with probability ρ_k, and its actions are drawn from the shares θ_k. There is one
kind for each action that is the most frequent one somewhere; ρ and θ are those of largest likelihood (EM).

Where a state was seen three times, shares of its own say 0 or 1/3 of an action with π_b = .1. An action that happens
to be missing then has no weight, the others weigh too little to stand for it, and nothing corrects the model of values
there: a target that does what the log rarely did looks as good as the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints

MOST_KINDS = 30
MOST_ROUNDS = 100
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class Kinds:
    """(Z,) shares ρ of the kinds, and their (Z, K) action shares θ."""

    share: Floats
    actions: Floats

    @classmethod
    def of(cls, counts: Floats) -> Kinds | None:
        """Learn from (S, K) counts; None where all states have the same most frequent action."""
        seen = counts[counts.sum(axis=1) > 0]
        first = seen.argmax(axis=1)
        each = np.bincount(first, weights=seen.sum(axis=1), minlength=counts.shape[1])
        kinds = np.flatnonzero(each)
        if len(kinds) < 2:
            return None
        kinds = np.sort(kinds[np.argsort(-each[kinds], kind="stable")[:MOST_KINDS]])
        prior = _one_step(seen, first, kinds)
        member = (first[:, None] == kinds).astype(np.float64)
        member[~member.any(axis=1)] = 1 / len(kinds)
        for _ in range(MOST_ROUNDS):
            found = cls._from(seen, member, prior)
            before, member = member, found.posterior(seen)
            if np.abs(member - before).max() < SETTLED:
                break
        return found

    @classmethod
    def _from(cls, counts: Floats, member: Floats, prior: Floats) -> Kinds:
        total = member.T @ counts + prior
        return cls(member.mean(axis=0) + 1e-12, total / total.sum(axis=1, keepdims=True))

    def _log_joint(self, counts: Floats) -> Floats:
        return np.asarray(np.log(self.share) + counts @ np.log(self.actions).T)

    def posterior(self, counts: Floats) -> Floats:
        """(S, Z) how likely each state is of each kind."""
        return normalized(self._log_joint(counts))

    def expected(self, counts: Floats) -> Floats:
        """(S, K) shares that the kinds of the states lead to expect."""
        return np.asarray(self.posterior(counts) @ self.actions)

    def without_one(self, counts: Floats) -> Floats:
        """(cells,) the expected share of each cell's action, had one step of the cell not been seen."""
        state, action = np.nonzero(counts)
        own = self.actions[:, action].T
        member = normalized(
            self._log_joint(counts)[state] - np.minimum(counts[state, action], 1.0)[:, None] * np.log(own)
        )
        return np.asarray((member * own).sum(axis=1))


def _one_step(seen: Floats, first: Ints, kinds: Ints) -> Floats:
    """(Z, K) one step for each kind: its first action with the share that first actions have, the rest equally."""
    k = seen.shape[1]
    share = float(seen[np.arange(len(seen)), first].sum() / seen.sum())
    share = min(max(share, 1 / k), 1 - 1e-3)
    prior = np.full((len(kinds), k), (1 - share) / max(k - 1, 1))
    prior[np.arange(len(kinds)), kinds] = share
    return prior


def normalized(log_joint: Floats) -> Floats:
    """Rows of probabilities from their logarithms but for a constant."""
    p = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
