"""The sepsis simulator of Oberst and Sontag (2019) in the setting of Tang and Wiens (2023), written anew in factors.

A patient has a heart rate and a blood pressure (low, normal, high), oxygen (low, normal), glucose (five levels, two of
them abnormal), three treatments on or off (antibiotics, vasopressors, ventilation) and may be diabetic (20%): 1,440
states. Given the treatments before and after, the four vital signs move independently of one another, so that a
transition is a product of four small matrices: neither logs nor exact values need the matrix of all states.

Three abnormal signs are death (−1), none and no treatment is discharge (+1), paid one step after the state is entered.
The logging policy follows the optimal one but withholds or gives vasopressors against it one time in ten; the target
does so always in 50 random states, and never elsewhere. Episodes have at most 19 decisions, γ = .99.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path  # noqa: TC003

import numpy as np

from offpolicy_bench.task import Bools, Drawn, Floats, Ints, Task
from offpolicy_bench.tasks.episodes import episodes

#: Levels of heart rate, blood pressure, oxygen, glucose, antibiotics, vasopressors, ventilation; diabetes comes first.
SHAPE = (2, 3, 3, 2, 5, 2, 2, 2)
STATES, ACTIONS, STEPS, DISCOUNT, FLIPS, SLIP = 1_440, 8, 19, 0.99, 50, 0.1
PATIENTS = np.stack(np.unravel_index(np.arange(STATES), SHAPE), axis=1)


def _steps(levels: int, down: float, up: float) -> Floats:
    """Move to a neighboring level, where there is one."""
    out = np.eye(levels) * (1 - down - up) + np.eye(levels, k=-1) * down + np.eye(levels, k=1) * up
    out[0, 0] += down
    out[-1, -1] += up
    return np.asarray(out)


def _only(levels: int, moves: dict[tuple[int, int], float]) -> Floats:
    """Stay, but for the moves named."""
    out = np.eye(levels)
    for (here, there), p in moves.items():
        out[here, there] += p
        out[here, here] -= p
    return np.asarray(out)


def _antibiotics(before: int, now: int) -> Floats | None:
    """Their effect on heart rate and pressure; None: left to fluctuate."""
    return _only(3, {(2, 1): 0.5}) if now else _only(3, {(1, 2): 0.1}) if before else None


def _pressure(sick: int, before: tuple[int, int], now: tuple[int, int]) -> Floats:
    """Antibiotics first, then vasopressors; left alone, it fluctuates."""
    first = _antibiotics(before[0], now[0])
    second = None
    if now[1]:
        second = _only(3, {(0, 1): 0.5, (0, 2): 0.4, (1, 2): 0.9} if sick else {(0, 1): 0.7, (1, 2): 0.7})
    elif before[1]:
        second = _steps(3, 0.05 if sick else 0.1, 0.0)
    if first is None and second is None:
        return _steps(3, 0.1, 0.1)
    one, two = (np.eye(3) if m is None else m for m in (first, second))
    return np.asarray(one @ two)


@lru_cache(maxsize=256)
def factors(sick: int, before: tuple[int, int, int], now: tuple[int, int, int]) -> tuple[Floats, ...]:
    """Transition matrices of heart rate, pressure, oxygen and glucose, given all treatments before and after."""
    heart = _antibiotics(before[0], now[0])
    oxygen = _only(2, {(0, 1): 0.7}) if now[2] else _only(2, {(1, 0): 0.1}) if before[2] else _steps(2, 0.1, 0.1)
    swing = 0.3 if sick else 0.1
    still = _steps(5, 0.0, 0.5) if sick else np.eye(5)
    return (
        _steps(3, 0.1, 0.1) if heart is None else heart,
        _pressure(sick, before[:2], now[:2]),
        oxygen,
        still if now[1] else _steps(5, swing, swing),
    )


def treatments(action: int) -> tuple[int, int, int]:
    """Antibiotics, vasopressors and ventilation of an action."""
    return action >> 2 & 1, action >> 1 & 1, action & 1


@lru_cache(maxsize=1)
def outcomes() -> Floats:
    """(S,) −1 for death, +1 for discharge, else 0."""
    signs = PATIENTS[:, 1:5]
    abnormal = (signs[:, 0] != 1) * 1 + (signs[:, 1] != 1) + (signs[:, 2] == 0) + (signs[:, 3] != 2)
    well = (abnormal == 0) & (PATIENTS[:, 5:].sum(axis=1) == 0)
    return np.where(abnormal >= 3, -1.0, np.where(well, 1.0, 0.0))


def ahead(v: Floats) -> Floats:
    """(S, A) expectation of v in the next state."""
    table, out = v.reshape(SHAPE), np.empty((*SHAPE, ACTIONS))
    for sick, *before in np.ndindex(2, 2, 2, 2):
        for action in range(ACTIONS):
            now = treatments(action)
            after = table[(sick, ..., *now)]
            moved = np.einsum("ai,bj,ck,dl,ijkl->abcd", *factors(sick, tuple(before), now), after, optimize=True)
            out[(sick, slice(None), slice(None), slice(None), slice(None), *before, action)] = moved
    return out.reshape(STATES, ACTIONS)


@lru_cache(maxsize=1)
def policies() -> tuple[Floats, Floats]:
    """(S, A) logging policy and target."""
    paid, v = outcomes(), np.zeros(STATES)
    for _ in range(2_000):
        q = DISCOUNT * ahead(v)
        after = np.where(paid != 0, paid, q.max(axis=1))
        if np.abs(after - v).max() < 1e-10:
            break
        v = after
    best = np.round(q, 9).argmax(axis=1)
    other = best ^ 2  # the same antibiotics and ventilation, vasopressors the other way
    logging = (1 - SLIP) * np.eye(ACTIONS)[best] + SLIP * np.eye(ACTIONS)[other]
    alive = np.flatnonzero(paid == 0)
    flipped = np.random.default_rng([2026, 31]).choice(alive, FLIPS, replace=False)
    chosen = best.copy()
    chosen[flipped] = other[flipped]
    return logging, np.eye(ACTIONS)[chosen]


@lru_cache(maxsize=1)
def initial() -> Floats:
    """(S,) every state that is not final, equally likely among the diabetic (20%) and the others."""
    alive = outcomes() == 0
    sick = PATIENTS[:, 0] == 1
    return np.asarray(np.where(sick, 0.2, 0.8) * alive / np.where(sick, (alive & sick).sum(), (alive & ~sick).sum()))


@lru_cache(maxsize=1)
def truth() -> float:
    """V of the target: backward recursion over 19 decisions."""
    pi, paid = policies()[1], outcomes()
    v = np.zeros(STATES)
    for _ in range(STEPS):
        after = DISCOUNT * ahead(np.where(paid != 0, paid, v))
        v = (pi * after).sum(axis=1)
    return float(initial() @ v)


def _next(state: Ints, action: Ints, rng: np.random.Generator) -> Ints:
    """Draw the next states, one vital sign after the other."""
    before = PATIENTS[state]
    after = before.copy()
    after[:, 5:] = np.stack([action >> 2 & 1, action >> 1 & 1, action & 1], axis=1)
    situation = np.column_stack([before[:, :1], before[:, 5:], after[:, 5:]])
    cells, at = np.unique(situation, axis=0, return_inverse=True)
    for cell, (sick, a, b, c, d, e, f) in enumerate(cells.tolist()):
        mine = np.flatnonzero(at == cell)
        for sign, matrix in enumerate(factors(sick, (a, b, c), (d, e, f)), start=1):
            p = matrix[before[mine, sign]].cumsum(axis=1)
            after[mine, sign] = (rng.random((len(mine), 1)) > p).sum(axis=1).clip(max=len(matrix) - 1)
    return np.asarray(np.ravel_multi_index(tuple(after.T), SHAPE), dtype=np.int64)


def _draw(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    logging, target = policies()
    paid = outcomes()
    state = rng.choice(STATES, size=rows, p=initial())
    alive: Ints = np.arange(rows)
    ended: Bools = np.zeros(rows, dtype=bool)
    states, actions, rewards, units = [], [], [], []
    for _ in range(STEPS):
        action = (rng.random((len(state), 1)) > logging[state].cumsum(axis=1)).sum(axis=1).clip(max=ACTIONS - 1)
        after = _next(state, action, rng)
        states.append(state)
        actions.append(action)
        rewards.append(DISCOUNT * paid[after])
        units.append(alive)
        over = paid[after] != 0
        ended[alive[over]] = True
        state, alive = after[~over], alive[~over]
        if len(state) == 0:
            break
    arrays = episodes(
        states,
        actions,
        rewards,
        units,
        ended,
        lambda s: logging[s],
        lambda s: target[s],
        discount=DISCOUNT,
        horizon=STEPS,
    )
    return Drawn(arrays, truth())


TASKS = (
    Task(
        "sepsis",
        "Sepsis, 1,440 states",
        "episodes",
        "The simulator of Oberst and Sontag with the logging policy and horizon of Tang and Wiens (2023); a "
        "deterministic target that differs from the optimal policy in 50 states; propensities logged.",
        {"quick": 500, "full": 1_000},
        _draw,
    ),
)
