"""What everyone writes first, in plain numpy: importance sampling in four versions, and fitted Q evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import offpolicy as op
    from offpolicy_studies.arrays import Floats, Ints


def padded(log: op.Trajectories, values: Floats, fill: float) -> Floats:
    """(n, T) values of steps, ``fill`` after the end of an episode."""
    table = np.full((log.n, log.layout.horizon), fill)
    table[log.layout.unit, log.layout.step] = values
    return table


def importance_sampling(log: op.Trajectories, pi_e: Floats) -> dict[str, float]:
    """IS and WIS with one weight per episode, PDIS and PDWIS with one per step; γ = 1."""
    assert log.propensity is not None
    ratio = padded(log, pi_e / log.propensity, 1.0)
    rho = np.cumprod(ratio, axis=1)
    reward = padded(log, log.reward, 0.0)
    whole, total = rho[:, -1], reward.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "IS": float(np.mean(whole * total)),
            "WIS": float(whole @ total / whole.sum()),
            "PDIS": float(np.mean((rho * reward).sum(axis=1))),
            "PDWIS": float(((rho * reward).sum(axis=0) / rho.sum(axis=0)).sum()),
        }


def fitted_q(log: op.Trajectories, target: Callable[[Any], Floats]) -> float:
    """Fitted Q evaluation pooled over steps: cell means of states, or least squares on the state and its products."""
    states = np.asarray(log.context.table)
    here = log.context.positions(np.arange(log.rows))
    unit = log.layout.unit
    last = np.append(unit[1:] != unit[:-1], True)
    known = ~last | log.ended[unit]
    following = np.where(last, 0, np.append(here[1:], 0))
    pi, k = target(states), len(log.actions)
    first = here[log.layout.offsets[:-1]]
    groups = _by_action(log, known, k)
    if log.is_discrete:
        steps = [_cell_means(log.reward, here, following, last, use, len(states)) for use in groups]
    else:
        features = _features(states)
        steps = [_least_squares(log.reward, features, here, following, last, use) for use in groups]
    q = np.zeros((len(states), k))
    for _ in range(log.horizon):
        v = (pi * q).sum(axis=1)
        q = np.column_stack([step(v) for step in steps])
    return float((pi * q).sum(axis=1)[first].mean())


def _by_action(log: op.Trajectories, known: Any, k: int) -> list[Ints]:
    return [np.flatnonzero(known & (log.action == a)) for a in range(k)]


def _features(states: Floats) -> Floats:
    x = states.reshape(len(states), -1)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    i, j = np.triu_indices(x.shape[1])
    return np.hstack([np.ones((len(x), 1)), x, x[:, i] * x[:, j]])


def _cell_means(
    reward: Floats, here: Ints, following: Ints, last: Any, rows: Ints, n: int
) -> Callable[[Floats], Floats]:
    """The map from v to the mean of R + v' in every state, from some rows; states without one get the overall mean."""
    count = np.bincount(here[rows], minlength=n)
    share = 1.0 / np.maximum(count, 1)
    gain = np.bincount(here[rows], weights=reward[rows], minlength=n) * share
    onward = rows[~last[rows]]
    moves = np.bincount(here[onward] * n + following[onward], minlength=n * n).reshape(n, n)
    chance = moves * share[:, None]

    def means(v: Floats) -> Floats:
        mean = gain + chance @ v
        level = float(count @ mean / max(count.sum(), 1))
        return np.where(count > 0, mean, level)

    return means


def _least_squares(
    reward: Floats, features: Floats, here: Ints, following: Ints, last: Any, rows: Ints
) -> Callable[[Floats], Floats]:
    """The map from v to fitted values of R + v' in every state, by ridge regression on some rows."""
    X, y, after, over = features[here[rows]], reward[rows], following[rows], last[rows]
    back = np.linalg.solve(X.T @ X + 1e-6 * len(X) * np.eye(X.shape[1]), X.T)
    return lambda v: features @ (back @ (y + np.where(over, 0.0, v[after])))
