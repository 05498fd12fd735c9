"""Slates and numbers as actions, with exact truths: contexts from a fixed pool, all slates of a context enumerated."""

from __future__ import annotations

import itertools
from functools import lru_cache
from pathlib import Path  # noqa: TC003

import numpy as np
from scipy.special import expit, ndtr, ndtri

from offpolicy_bench.task import Drawn, Floats, Ints, Task

ITEMS, SLOTS, SLATE_POOL = 5, 3, 1_000


@lru_cache(maxsize=1)
def _slates() -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Contexts, appeal of items, how items above change it, logging and target probabilities of a slot."""
    rng = np.random.default_rng([2026, 20])
    x = rng.normal(size=(SLATE_POOL, 5))
    appeal = x @ rng.uniform(-1, 1, size=(5, ITEMS)) / 2 + rng.uniform(-1, 1, size=ITEMS) - 0.5
    together = rng.normal(scale=1.5, size=(ITEMS, ITEMS))
    logits = rng.uniform(size=ITEMS)
    pi_b, pi_e = (np.exp(s * logits) / np.exp(s * logits).sum() for s in (1.0, -0.8))
    return x, appeal, (together + together.T) / 2, pi_b, pi_e


def _chances(appeal: Floats, items: Ints, together: Floats) -> Floats:
    """(n, slots) click probabilities, the cascade model: a slot depends on its item and those above."""
    out = np.take_along_axis(appeal, items, axis=1)
    for k, j in itertools.combinations(range(SLOTS), 2):
        out[:, j] += together[items[:, j], items[:, k]]
    return np.asarray(expit(out))


@lru_cache(maxsize=1)
def _slate_truth() -> float:
    """Clicks per slate of the target: over all contexts of the pool and all slates."""
    _, appeal, together, _, pi_e = _slates()
    total = 0.0
    for slate in itertools.product(range(ITEMS), repeat=SLOTS):
        items = np.tile(np.array(slate), (SLATE_POOL, 1))
        total += float(np.prod(pi_e[list(slate)]) * _chances(appeal, items, together).sum(axis=1).mean())
    return total


def _draw_slates(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    x, appeal, together, pi_b, pi_e = _slates()
    at = rng.integers(SLATE_POOL, size=rows)
    items = np.searchsorted(pi_b.cumsum()[:-1], rng.random((rows, SLOTS)))
    chance = _chances(appeal[at], items, together)
    arrays = {
        "context": x[at],
        "action": items,
        "reward": (rng.random(items.shape) < chance).astype(np.float64),
        "target": np.tile(pi_e, (rows, SLOTS, 1)),
        "propensity": pi_b[items],
    }
    return Drawn(arrays, _slate_truth())


NUMBER_POOL = 20_000


@lru_cache(maxsize=1)
def _numbers() -> tuple[Floats, Floats]:
    rng = np.random.default_rng([2026, 21])
    return rng.normal(size=(NUMBER_POOL, 3)), rng.normal(size=(4, 3)) / 2


def _quadratic(x: Floats, action: Floats, c: Floats) -> Floats:
    return np.asarray(action * (0.5 * x @ c[1] + x @ c[2]) + 0.3 * (action - x @ c[3]) ** 2)


def _draw_doses(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """The law of the Open Bandit Pipeline's synthetic data: a cut normal logs, rewards are quadratic in the action."""
    pool, c = _numbers()
    x, low, high, sd = pool[rng.integers(NUMBER_POOL, size=rows)], -6.0, 6.0, 2.0
    centre = x @ c[0] + 0.5
    below, above = ndtr((low - centre) / sd), ndtr((high - centre) / sd)
    action = centre + sd * ndtri(below + rng.random(rows) * (above - below))
    density = np.exp(-(((action - centre) / sd) ** 2) / 2) / (sd * np.sqrt(2 * np.pi) * (above - below))
    arrays = {
        "context": x,
        "action": action,
        "reward": _quadratic(x, action, c) + rng.normal(size=rows),
        "target": x.mean(axis=1),
        "propensity": density,
    }
    return Drawn(arrays, float(_quadratic(pool, pool.mean(axis=1), c).mean()))


def _draw_prices(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """Prices between 1 and 9, each equally likely; the price is earned where it is paid."""
    pool = np.tanh(_numbers()[0])
    x = pool[rng.integers(NUMBER_POOL, size=rows)]
    price = rng.uniform(1, 9, size=rows)
    paid = rng.random(rows) < expit(2 + x[:, 0] - 0.6 * price)
    arrays = {
        "context": x,
        "action": price,
        "reward": price * paid,
        "target": 4 + x[:, 0],
        "propensity": np.full(rows, 1 / 8),
    }
    chosen = 4 + pool[:, 0]
    return Drawn(arrays, float((chosen * expit(2 + pool[:, 0] - 0.6 * chosen)).mean()))


TASKS = (
    Task(
        "slates",
        "Slates of three",
        "slate",
        "Five items, three slots filled one by one, clicks by the cascade model; propensities of each slot logged.",
        {"quick": 1_000, "full": 4_000},
        _draw_slates,
    ),
    Task(
        "doses",
        "Numbers as actions",
        "continuous",
        "A normal density around a linear function of the context logs, rewards are quadratic; densities logged.",
        {"quick": 1_000, "full": 4_000},
        _draw_doses,
    ),
    Task(
        "prices",
        "Prices",
        "continuous",
        "Prices drawn evenly from 1 to 9, paid or not; the target's price depends on the context; densities logged.",
        {"quick": 1_000, "full": 4_000},
        _draw_prices,
    ),
)
