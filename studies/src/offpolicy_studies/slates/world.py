"""Worlds of slates after Kiyohara et al., "Doubly Robust Off-Policy Evaluation for Ranking Policies under the Cascade
Behavior Model" (WSDM 2022).

A context has five standard normal features, there are five items and three to seven slots, each filled by itself with
probability softmax(b_a), b_a uniform on [0, 1]. Slot k is clicked with probability

    σ( f(x, a_k) + Σ_{j ∈ S_k} W(a_k, a_j) )     or     σ( f(x, a_k) + Σ_{j ∈ S_k} f(x, a_j) / (|k − j| + 1) ),

f a standardized linear function of x, a and both, W symmetric with entries N(0, 5²), and S_k no other slot
(independent), the slots above (cascade) or all others (full). The target has logits λ b, λ one of ±0.8, ±0.6, ±0.4,
±0.2 and 0. Every log has a world of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

FEATURES, ITEMS = 5, 5
LENGTHS = (3, 4, 5, 6, 7)
LAMBDAS = (-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)
KINDS = ("cascade", "independent", "full")
SCALE = 5.0
MANY = 200_000  # slates from which true values are computed


@dataclass(frozen=True)
class World:
    """One environment with its two policies."""

    kind: str
    slots: int
    additive: bool
    base: Floats  # (FEATURES + 1, ITEMS): of x, and of the item alone
    together: Floats  # (ITEMS, ITEMS)
    logits: Floats  # (ITEMS,)
    target: Floats  # (ITEMS,)

    @classmethod
    def draw(cls, kind: str, rng: np.random.Generator) -> World:
        """A world with random rewards, length and target."""
        square = np.tril(rng.normal(scale=SCALE, size=(ITEMS, ITEMS)))
        shared = rng.uniform(-1, 1, size=(FEATURES, 1))
        base = np.vstack([shared + rng.uniform(-1, 1, size=(FEATURES, ITEMS)), rng.uniform(-1, 1, size=(1, ITEMS))])
        level = base[-1] - base[-1].mean()
        spread = float(np.sqrt((base[:-1] ** 2).sum(axis=0).mean() + (level**2).mean()))
        logits = rng.uniform(size=ITEMS)
        return cls(
            kind,
            int(rng.choice(LENGTHS)),
            bool(rng.integers(2)),
            np.vstack([base[:-1], level]) / spread,
            square + square.T - np.diag(square.diagonal()),
            logits,
            float(rng.choice(LAMBDAS)) * logits,
        )

    def chances(self, x: Floats, items: Ints) -> Floats:
        """(n, slots) probability of a click in each slot."""
        own = x @ self.base[:-1] + self.base[-1]
        shown = np.ascontiguousarray(np.take_along_axis(own, items, axis=1).T)
        codes, table = np.ascontiguousarray(items.T), self.together.ravel()
        out = shown.copy()
        for k in range(self.slots):
            others = {"independent": 0, "cascade": k, "full": self.slots}[self.kind]
            for j in range(others):
                if j != k and self.additive:
                    out[k] += table[codes[k] * ITEMS + codes[j]]
                elif j != k:
                    out[k] += shown[j] / (abs(k - j) + 1)
        return np.ascontiguousarray((1 / (1 + np.exp(-out))).T)

    def fill(self, n: int, logits: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """(n, slots) items, each slot drawn by itself, and their probabilities."""
        p = np.exp(logits) / np.exp(logits).sum()
        items = np.searchsorted(p.cumsum()[:-1], rng.random((n, self.slots)))
        return items, p[items]

    def value(self, x: Floats, draws: int, rng: np.random.Generator) -> float:
        """Clicks per slate of the target on these contexts, from ``draws`` slates on each."""
        many = np.repeat(x, draws, axis=0)
        items, _ = self.fill(len(many), self.target, rng)
        return float(self.chances(many, items).sum(axis=1).mean())

    def values(self, rng: np.random.Generator) -> tuple[float, float]:
        """Clicks per slate of the target and of the logging policy on all contexts.

        Both are drawn with the same contexts and the same random numbers, so that their difference, which may be small,
        has an error that is smaller still.
        """
        x, seed = rng.normal(size=(MANY, FEATURES)), int(rng.integers(2**62))

        def value(logits: Floats) -> float:
            items, _ = self.fill(MANY, logits, np.random.default_rng(seed))
            return float(self.chances(x, items).sum(axis=1).mean())

        return value(self.target), value(self.logits)


@dataclass(frozen=True)
class Logged:
    """Slates of one world, and what is to be found out."""

    world: World
    x: Floats
    items: Ints
    propensity: Floats
    clicks: Floats
    here: float  # value of the target on these contexts
    everywhere: float  # and on all
    logged: float  # value of the logging policy on all contexts

    @classmethod
    def draw(cls, kind: str, n: int, rng: np.random.Generator) -> Logged:
        """A world and its log."""
        world = World.draw(kind, rng)
        x = rng.normal(size=(n, FEATURES))
        items, p = world.fill(n, world.logits, rng)
        clicks = (rng.uniform(size=items.shape) < world.chances(x, items)).astype(np.float64)
        here = world.value(x, max(1, 100_000 // n), rng)
        return cls(world, x, items, p, clicks, here, *world.values(rng))

    def frame(self) -> pd.DataFrame:
        """One row per slot."""
        n, slots = self.items.shape
        columns = {f"x{j}": np.repeat(self.x[:, j], slots) for j in range(FEATURES)}
        return pd.DataFrame(
            {
                "slate": np.repeat(np.arange(n), slots),
                "position": np.tile(np.arange(1, slots + 1), n),
                **columns,
                "item": self.items.ravel(),
                "click": self.clicks.ravel(),
                "p": self.propensity.ravel(),
            }
        )

    def policy(self) -> Floats:
        """(ITEMS,) the target's probabilities, at every slot."""
        p = np.exp(self.world.target)
        return np.asarray(p / p.sum())


def published_cascade_dr(logged: Logged) -> float:
    """Cascade-DR as published: a tree of depth 3 for each slot, weighted by ρ_k, fitted and used on the same slates."""
    from sklearn.tree import DecisionTreeRegressor

    n, slots = logged.items.shape
    pi, rho = logged.policy(), np.cumprod(logged.policy()[logged.items] / logged.propensity, axis=1)
    after, total = np.zeros(n), np.zeros(n)
    for k in range(slots - 1, -1, -1):
        above = np.column_stack([logged.x, logged.items[:, :k]])
        tree = DecisionTreeRegressor(max_depth=3, random_state=12345)
        tree.fit(np.column_stack([above, logged.items[:, k]]), logged.clicks[:, k] + after, sample_weight=rho[:, k])
        q = np.column_stack([tree.predict(np.column_stack([above, np.full(n, a)])) for a in range(ITEMS)])
        before = rho[:, k - 1] if k else np.ones(n)
        after = q @ pi
        own = q[np.arange(n), logged.items[:, k]]
        total += rho[:, k] * (logged.clicks[:, k] - own) + before * after
    return float(total.mean())
