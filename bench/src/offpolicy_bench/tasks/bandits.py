"""Single decisions with exact truths: contexts are drawn from a fixed pool, so that a value is a finite sum.

V = (1/m) Σ_i Σ_a π_e(a | x_i) q(x_i, a) over the m contexts of the pool, from which rows are drawn with replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path  # noqa: TC003

import numpy as np
from scipy.special import expit

from offpolicy_bench.task import Drawn, Floats, Ints, Task, sample, softmax

POOL = 20_000
Pay = Callable[[Floats, np.random.Generator], Floats]


@dataclass(frozen=True, eq=False)
class Pool:
    """Contexts, mean rewards and the two policies, each (m, ·)."""

    context: Floats
    q: Floats
    logging: Floats
    target: Floats
    baseline: Floats | None = None

    @property
    def truth(self) -> float:
        """V of the target, less that of the baseline where there is one."""
        less = 0.0 if self.baseline is None else self.baseline
        return float(((self.target - less) * self.q).sum(axis=1).mean())


def clicks(q: Floats, rng: np.random.Generator) -> Floats:
    """0 or 1."""
    return (rng.random(q.shape) < q).astype(np.float64)


def noisy(q: Floats, rng: np.random.Generator) -> Floats:
    """The mean and standard normal noise."""
    return q + rng.normal(size=q.shape)


def baskets(q: Floats, rng: np.random.Generator) -> Floats:
    """Nothing nine times out of ten, else a log-normal basket."""
    spent = 10 * q * np.exp(rng.normal(size=q.shape) - 0.5)
    return np.where(rng.random(q.shape) < 0.1, spent, 0.0)


def _normal(seed: int, columns: int = 5) -> tuple[Floats, np.random.Generator]:
    rng = np.random.default_rng([2026, seed])
    return rng.normal(size=(POOL, columns)), rng


def _mixed(p: Floats, uniform: float) -> Floats:
    return np.asarray((1 - uniform) * p + uniform / p.shape[1])


@lru_cache(maxsize=16)
def pool(name: str) -> Pool:
    """The pool of a task."""
    return POOLS[name]()


def _clicks() -> Pool:
    x, rng = _normal(1)
    score = 0.5 * x @ rng.normal(size=(5, 4)) / np.sqrt(5)
    return Pool(
        x, 0.15 * expit(score - 0.6), _mixed(softmax(2 * score[:, ::-1]), 0.2), _mixed(softmax(6 * score), 0.05)
    )


def _money() -> Pool:
    x, rng = _normal(2)
    score = x @ rng.normal(size=(5, 3)) / np.sqrt(5)
    q = 5 * np.exp(0.5 * score + 0.2 * np.tanh(x[:, :1] * x[:, 1:2]))
    return Pool(x, q, _mixed(softmax(score[:, ::-1]), 0.3), _mixed(softmax(4 * score), 0.05))


def _rare() -> Pool:
    x, rng = _normal(3)
    q = 0.1 * expit(x @ rng.normal(size=(5, 5)) / np.sqrt(5) - 0.5 + 0.3 * np.arange(5))
    shares = np.array([0.5, 0.25, 0.15, 0.08, 0.02])
    return Pool(x, q, np.tile(shares, (POOL, 1)), np.tile(np.eye(5)[4], (POOL, 1)))


def _linear() -> Pool:
    x, rng = _normal(4)
    slope = rng.normal(size=(5, 3)) / np.sqrt(5)
    q = x @ slope + 0.3 * x[:, :1]
    return Pool(x, q, softmax(x @ (slope + rng.normal(size=(5, 3)) / np.sqrt(5))), _mixed(softmax(3 * q), 0.1))


def _nonlinear() -> Pool:
    x, rng = _normal(5)
    slope = rng.normal(size=(5, 3)) / np.sqrt(5)
    q = x @ slope + np.sin(2 * x[:, :1]) + np.abs(x[:, 1:2]) * np.arange(3) / 2
    bent = np.column_stack([x[:, 0] * x[:, 1], np.sign(x[:, 1]) * (np.abs(x[:, 2]) > 0.7), np.cos(2 * x[:, 0])])
    return Pool(x, q, _mixed(softmax(1.3 * bent), 0.05), _mixed(softmax(3 * q), 0.1))


def _adaptive() -> Pool:
    x, rng = _normal(6, 3)
    score = x @ rng.normal(size=(3, 3)) / np.sqrt(3) + 0.3 * np.arange(3)
    q = 0.4 * expit(score)
    return Pool(x, q, np.full(q.shape, 1 / 3), _mixed(np.eye(3)[(x[:, 0] > 0).astype(np.int64) + 1], 0.1))


def _users() -> Pool:
    x, rng = _normal(7)
    score = 0.7 * x @ rng.normal(size=(5, 3)) / np.sqrt(5)
    return Pool(x, 0.3 * expit(score), _mixed(softmax(score[:, ::-1]), 0.4), _mixed(softmax(5 * score), 0.1))


def _many() -> Pool:
    x, rng = _normal(8, 3)
    x = x[:4_000]
    appeal = x @ rng.normal(size=(3, MANY)) / np.sqrt(3)
    level, slope = rng.normal(size=5), rng.normal(size=(3, 5))
    features = action_features()
    q = (level + 0.5 * x @ slope)[:, features[:, 0].astype(np.int64)] + 0.3 * features[:, 1]
    return Pool(x, q, softmax(0.5 * appeal), softmax(1.5 * appeal))


def _pair() -> Pool:
    """Two policies that often agree: the best action as a good and a poor model see it."""
    x, rng = _normal(9)
    score = x @ rng.normal(size=(5, 8)) / np.sqrt(5)
    seen = [score + noise * x @ rng.normal(size=(5, 8)) / np.sqrt(5) for noise in (0.3, 1.0)]
    one, other = (np.eye(8)[s.argmax(axis=1)] for s in seen)
    return Pool(x, 0.4 * expit(score - 0.5), softmax(score @ rng.permutation(np.eye(8))), one, other)


MANY = 300
POOLS: dict[str, Callable[[], Pool]] = {
    "clicks": _clicks,
    "money": _money,
    "rare-arm": _rare,
    "unknown-linear": _linear,
    "unknown-nonlinear": _nonlinear,
    "adaptive": _adaptive,
    "clusters": _users,
    "many-actions": _many,
    "difference": _pair,
}


def action_features() -> Floats:
    """(K, 2) genre and price of the many actions: 20 cells."""
    a = np.arange(MANY)
    return np.column_stack([a % 5, 1 + a // 5 % 4]).astype(np.float64)


def logged(
    here: Pool, at: Ints, pay: Pay, rng: np.random.Generator, *, known: str = "propensity", action: Ints | None = None
) -> Drawn:
    """Rows of a pool with an action each; ``known``: nothing, the propensity of the action, or the whole of π_b."""
    pi = here.logging[at]
    action = sample(pi, rng) if action is None else action
    rows = np.arange(len(at))
    arrays = {
        "context": here.context[at],
        "action": action,
        "reward": pay(here.q[at, action], rng),
        "target": here.target[at],
    }
    if here.baseline is not None:
        arrays["baseline"] = here.baseline[at]
    if known != "nothing":
        arrays["propensity"] = pi[rows, action]
    if known == "all":
        arrays["logging"] = pi
    return Drawn(arrays, here.truth)


def _plain(name: str, pay: Pay, known: str) -> Callable[[int, int, np.random.Generator, Path], Drawn]:
    def draw(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
        return logged(pool(name), rng.integers(len(pool(name).q), size=rows), pay, rng, known=known)

    return draw


def _draw_adaptive(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """Ten batches; each is logged ε-greedily by the click rates so far, by arm and sign of the first column."""
    here, batches = pool("adaptive"), 10
    at = rng.integers(POOL, size=rows)
    group = (here.context[at, 0] > 0).astype(np.int64)
    batch = np.arange(rows) * batches // rows
    shown, clicked = np.ones((2, 3)), np.full((2, 3), 0.2)
    pi, action, reward = np.empty((rows, 3)), np.empty(rows, dtype=np.int64), np.empty(rows)
    for b in range(batches):
        mine = np.flatnonzero(batch == b)
        greedy = np.eye(3)[(clicked / shown).argmax(axis=1)]
        epsilon = max(0.1, 0.8**b)
        pi[mine] = (1 - epsilon) * greedy[group[mine]] + epsilon / 3
        action[mine] = sample(pi[mine], rng)
        reward[mine] = clicks(here.q[at[mine], action[mine]], rng)
        np.add.at(shown, (group[mine], action[mine]), 1)
        np.add.at(clicked, (group[mine], action[mine]), reward[mine])
    arrays = {
        "context": here.context[at],
        "action": action,
        "reward": reward,
        "target": here.target[at],
        "propensity": pi[np.arange(rows), action],
        "logging": pi,
        "batch": batch,
    }
    return Drawn(arrays, here.truth)


def _draw_users(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """Users with eight visits on average: one context, mostly one action, and a mood of their own."""
    here = pool("clusters")
    sizes = 1 + rng.geometric(1 / 7, size=rows)
    cluster = np.repeat(np.arange(rows), sizes)[:rows]
    user = rng.integers(POOL, size=rows)
    at = user[cluster]
    pi = here.logging[at]
    own = sample(here.logging[user], rng)[cluster]
    action = np.where(rng.random(rows) < 0.9, own, sample(pi, rng))
    mood = rng.choice([0.0, 2.0], size=rows)[cluster]
    arrays = {
        "context": here.context[at],
        "action": action,
        "reward": clicks(here.q[at, action] * mood, rng),
        "target": here.target[at],
        "propensity": pi[np.arange(rows), action],
        "cluster": cluster,
    }
    return Drawn(arrays, here.truth)


def _draw_many(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    here = pool("many-actions")
    drawn = logged(here, rng.integers(len(here.q), size=rows), noisy, rng, known="all")
    return Drawn({**drawn.arrays, "features": action_features()}, drawn.truth)


def _sizes(quick: int, full: int) -> dict[str, int]:
    return {"quick": quick, "full": full}


TASKS = (
    Task(
        "clicks",
        "Clicks",
        "bandit",
        "Four ads, click rates around 5%, five normal context columns; propensities logged.",
        _sizes(2_000, 10_000),
        _plain("clicks", clicks, "propensity"),
    ),
    Task(
        "money",
        "Money",
        "bandit",
        "Three offers; nine of ten rows earn nothing, the others a log-normal basket; propensities logged.",
        _sizes(2_000, 10_000),
        _plain("money", baskets, "propensity"),
    ),
    Task(
        "rare-arm",
        "A rare arm",
        "bandit",
        "The target always takes an arm that 2% of rows were given; click rates around 5%; propensities logged.",
        _sizes(2_000, 10_000),
        _plain("rare-arm", clicks, "propensity"),
    ),
    Task(
        "unknown-linear",
        "π_b unknown, linear",
        "bandit",
        "Three actions, rewards with normal noise, a multinomial logit of the context logs; propensities withheld.",
        _sizes(2_000, 5_000),
        _plain("unknown-linear", noisy, "nothing"),
    ),
    Task(
        "unknown-nonlinear",
        "π_b unknown, not linear",
        "bandit",
        "As before, with products, steps and waves in π_b and in the rewards; propensities withheld.",
        _sizes(2_000, 5_000),
        _plain("unknown-nonlinear", noisy, "nothing"),
    ),
    Task(
        "adaptive",
        "An adaptive log",
        "bandit",
        "ε-greedy by the click rates so far, ten batches, ε from 1 down to 0.13; the whole of π_b logged.",
        _sizes(2_000, 10_000),
        _draw_adaptive,
    ),
    Task(
        "clusters",
        "Users who return",
        "bandit",
        "Eight rows per user on average, with a mood of its own and mostly one action; propensities and users logged.",
        _sizes(2_000, 10_000),
        _draw_users,
    ),
    Task(
        "difference",
        "A difference of two policies",
        "difference",
        "Eight actions, clicks; two deterministic policies that agree in about half of the contexts. Asked for is the "
        "difference of their values; propensities logged.",
        _sizes(3_000, 12_000),
        _plain("difference", clicks, "propensity"),
    ),
    Task(
        "many-actions",
        "300 actions with features",
        "bandit",
        "Rewards follow from genre and price (20 cells); π_b of all actions and the features logged.",
        _sizes(1_000, 4_000),
        _draw_many,
    ),
)
