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
    features = _features(states, discrete=log.is_discrete)
    pi, k = target(states), len(log.actions)
    first = here[log.layout.offsets[:-1]]
    solve = [
        _solver(features, here[use], discrete=log.is_discrete) for use in _by_action(log, known, k)
    ]
    groups = _by_action(log, known, k)
    q = np.zeros((len(states), k))
    for step in range(log.horizon):
        v = (pi * q).sum(axis=1)
        y = log.reward + np.where(last, 0.0, v[following] if step else 0.0)
        q = np.column_stack([solve[a](y[groups[a]]) for a in range(k)])
    return float((pi * q).sum(axis=1)[first].mean())


def _by_action(log: op.Trajectories, known: Any, k: int) -> list[Ints]:
    return [np.flatnonzero(known & (log.action == a)) for a in range(k)]


def _features(states: Floats, *, discrete: bool) -> Floats:
    if discrete:
        return states
    x = states.reshape(len(states), -1)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    i, j = np.triu_indices(x.shape[1])
    return np.hstack([np.ones((len(x), 1)), x, x[:, i] * x[:, j]])


def _solver(features: Floats, rows: Ints, *, discrete: bool) -> Callable[[Floats], Floats]:
    """The map from outcomes of some rows to fitted values of every state."""
    n = len(features)
    if discrete:
        count = np.bincount(rows, minlength=n)

        def means(y: Floats) -> Floats:
            total = np.bincount(rows, weights=y, minlength=n)
            level = float(y.mean()) if len(y) else 0.0
            return np.where(count > 0, total / np.maximum(count, 1), level)

        return means
    X = features[rows]
    back = np.linalg.solve(X.T @ X + 1e-6 * len(X) * np.eye(X.shape[1]), X.T)
    return lambda y: features @ (back @ y)
