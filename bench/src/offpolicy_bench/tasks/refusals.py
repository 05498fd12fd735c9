"""Logs from which no honest number follows: the right answer is a refusal.

The world is that of ``clicks``. Each log has one defect, by turns, which stands in the arrays: an entry can see it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path  # noqa: TC003

import numpy as np

from offpolicy_bench.task import Arrays, Drawn, Task
from offpolicy_bench.tasks.bandits import POOL, clicks, logged, pool

Spoil = Callable[[Arrays, np.random.Generator], Arrays]


def _percent(log: Arrays, rng: np.random.Generator) -> Arrays:  # noqa: ARG001
    """Propensities in percent."""
    return {**log, "propensity": 100 * log["propensity"]}


def _gaps(log: Arrays, rng: np.random.Generator) -> Arrays:
    """One reward in twenty is not a number."""
    return {**log, "reward": np.where(rng.random(len(log["reward"])) < 0.05, np.nan, log["reward"])}


def _infinite(log: Arrays, rng: np.random.Generator) -> Arrays:
    """Three rewards are infinite."""
    reward = log["reward"].copy()
    reward[rng.choice(len(reward), 3, replace=False)] = np.inf
    return {**log, "reward": reward}


def _no_policy(log: Arrays, rng: np.random.Generator) -> Arrays:  # noqa: ARG001
    """The target's probabilities sum to 1.5."""
    return {**log, "target": 1.5 * log["target"]}


def _shuffled(log: Arrays, rng: np.random.Generator) -> Arrays:
    """Propensities of other rows, as after a join by the wrong key."""
    return {**log, "propensity": rng.permutation(log["propensity"])}


def _greedy(log: Arrays, rng: np.random.Generator) -> Arrays:  # noqa: ARG001
    """All propensities say .95, as if the exploration had not been counted."""
    return {**log, "propensity": np.full(len(log["propensity"]), 0.95)}


def _lost(log: Arrays, rng: np.random.Generator) -> Arrays:
    """Half of the rows of one action without a click were never written."""
    keep = (log["action"] != 0) | (log["reward"] > 0) | (rng.random(len(log["action"])) < 0.5)
    return {name: value[keep] for name, value in log.items()}


VALUES: tuple[Spoil, ...] = (_percent, _gaps, _infinite, _no_policy)
PROPENSITIES: tuple[Spoil, ...] = (_shuffled, _greedy, _lost)


def _spoiled(kinds: tuple[Spoil, ...]) -> Callable[[int, int, np.random.Generator, Path], Drawn]:
    def draw(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
        drawn = logged(pool("clicks"), rng.integers(POOL, size=rows), clicks, rng)
        return Drawn(kinds[index % len(kinds)](drawn.arrays, rng), None)

    return draw


def _no_overlap(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """The target takes an action that the log never took."""
    here = pool("clicks")
    at = rng.integers(POOL, size=rows)
    pi = here.logging[at].copy()
    pi[:, 3] = 0
    pi /= pi.sum(axis=1, keepdims=True)
    action = (rng.random((rows, 1)) > pi.cumsum(axis=1)[:, :3]).sum(axis=1).clip(max=2)
    arrays = {
        "context": here.context[at],
        "action": action,
        "reward": clicks(here.q[at, action], rng),
        "target": np.tile([0.0, 0.2, 0.0, 0.8], (rows, 1)),
        "propensity": pi[np.arange(rows), action],
    }
    return Drawn(arrays, None)


def _heavy(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    """Rewards with a Pareto tail of index 0.9: they have no mean."""
    here = pool("clicks")
    drawn = logged(here, rng.integers(POOL, size=rows), lambda q, draws: q * draws.pareto(0.9, size=q.shape), rng)
    return Drawn(drawn.arrays, None)


TASKS = (
    Task(
        "corrupted-values",
        "Impossible values",
        "bandit",
        "The world of clicks with propensities in percent, missing or infinite rewards, or a target that sums to 1.5.",
        {"quick": 2_000, "full": 10_000},
        _spoiled(VALUES),
        refuse=True,
    ),
    Task(
        "corrupted-propensities",
        "Propensities that contradict the log",
        "bandit",
        "The world of clicks with propensities of other rows, all .95, or half of an action's unclicked rows lost.",
        {"quick": 2_000, "full": 10_000},
        _spoiled(PROPENSITIES),
        refuse=True,
    ),
    Task(
        "no-overlap",
        "An action never logged",
        "bandit",
        "The target takes, with probability .8, an action that no row of the log has.",
        {"quick": 2_000, "full": 10_000},
        _no_overlap,
        refuse=True,
    ),
    Task(
        "heavy-tails",
        "Rewards without a mean",
        "bandit",
        "Rewards with a Pareto tail of index 0.9, propensities logged: there is no value to estimate.",
        {"quick": 2_000, "full": 10_000},
        _heavy,
        refuse=True,
    ),
)
