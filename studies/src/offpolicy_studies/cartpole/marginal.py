"""Ratio of state-action marginals from the hidden physical state, for DRL on the longer policy.

    w_0 = 1,   w_t(s) = E_b[ w_{t−1}(S_{t−1}) π_e/π_b(A_{t−1}|S_{t−1}) | S_t = s ],
    w_t(s, a) = w_t(s) π_e/π_b(a|s)

(Kallus and Uehara, 2020): each conditional mean is a ridge regression on squares and products of
(x, ẋ, θ, θ̇), fitted on the other folds. The expectation is over episodes still running at t.
"""

from __future__ import annotations

import numpy as np

PENALTY = 10.0
FEWEST = 20


def marginal_ratio(physics: np.ndarray, lengths: np.ndarray, ratio: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return w_t(s, a) at every logged step, from models that did not see the step's fold.

    Parameters
    ----------
    physics : (steps, 4) array
        Hidden states, episodes one after the other.
    lengths : (n,) array
        Steps per episode.
    ratio : (steps,) array
        π_e/π_b of the logged actions.
    labels : (n,) array
        Fold of each episode.

    Examples
    --------
    A policy compared with itself has ratio 1 everywhere.

    >>> rng = np.random.default_rng(0)
    >>> w = marginal_ratio(rng.normal(size=(60, 4)), np.full(30, 2), np.ones(60), np.arange(30) % 2)
    >>> bool(np.allclose(w, 1))
    True
    """
    episode = np.repeat(np.arange(len(lengths)), lengths)
    first = np.cumsum(lengths) - lengths
    time = np.arange(len(episode)) - first[episode]
    features = _features(physics)
    out = np.zeros(len(episode))
    for label in np.unique(labels):
        chain = np.zeros(len(episode))
        outside = (labels != label)[episode]
        for t in range(int(lengths.max())):
            train = np.flatnonzero(outside & (time == t))
            score = np.flatnonzero(~outside & (time == t))
            state = np.ones(len(train)), np.ones(len(score))
            if t > 0 and len(train):
                state = _regressed(features[train], chain[train - 1], features[score])
            chain[train] = state[0] * ratio[train]
            out[score] = state[1] * ratio[score]
            # Beyond the training episodes nothing is known about the ratio; the last step's is kept.
            if t > 0 and not len(train):
                out[score] = out[score - 1] * ratio[score]
    return out


def _features(physics: np.ndarray) -> np.ndarray:
    z = (physics - physics.mean(0)) / physics.std(0)
    i, j = np.triu_indices(z.shape[1])
    return np.column_stack([z, z[:, i] * z[:, j]])


def _regressed(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit y on x by ridge with a free intercept; predict both, never below 0; a mean when few."""
    mean = y.mean()
    if len(y) < FEWEST or np.ptp(y) == 0:
        return np.full(len(y), mean), np.full(len(new), mean)
    center = x.mean(0)
    a = x - center
    beta = np.linalg.solve(a.T @ a + PENALTY * np.eye(x.shape[1]), a.T @ (y - mean))
    return np.maximum(mean + a @ beta, 0.0), np.maximum(mean + (new - center) @ beta, 0.0)
