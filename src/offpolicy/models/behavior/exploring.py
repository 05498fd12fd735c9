"""π_b of an agent that explores: a multinomial logit, but for a share of actions taken at random.

    π_b(a|s) = ε/K + (1 − ε) softmax(B's)_a.

Policies that collect episodes rarely rule an action out: they take one at random now and then, or keep every
probability above a floor. A logit alone has no floor; what it gets wrong in its tails, a weight of many steps
multiplies. ε and B maximize the likelihood together; ε = 0 is the logit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.behavior.auto_behavior import LogisticBehavior
from offpolicy.models.behavior.behavior import share_of_unseen
from offpolicy.models.fitting.encode import LinearDesign

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior

MOST_COLUMNS = 200  # wider states are left to the logit
FIRST_SHARE = 0.05
MOST_ROUNDS = 200


@dataclass(frozen=True)
class ExploringLogit:
    """Multinomial logit of the state with a share of actions at random.

    Parameters
    ----------
    penalty : float
        Strength of the ridge penalty on the slopes.
    """

    penalty: float = 1.0
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        design = LinearDesign.learn(data.X, data.weight)
        if len(np.unique(data.action)) == 1 or design.width > MOST_COLUMNS:
            return LogisticBehavior(self.penalty).fit_behavior(data, seed)
        X = _with_ones(design, data.X)
        weight = np.ones(len(data.action)) if data.weight is None else data.weight
        slopes, share = most_likely(X, data.action, data.n_actions, weight, self.penalty)
        return FittedExploring(slopes, share, design, share_of_unseen(data))


def _with_ones(design: LinearDesign, table: Any) -> Floats:
    dense = np.asarray(design.transform(table).todense(), dtype=np.float64)
    return np.hstack([np.ones((len(dense), 1)), dense])


def softmax(values: Floats) -> Floats:
    """Rows of probabilities."""
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def most_likely(X: Floats, action: Ints, n_actions: int, weight: Floats, penalty: float) -> tuple[Floats, float]:
    """(p, K) slopes and the share at random of largest likelihood; the first column of X is 1, without a penalty."""
    from scipy.optimize import minimize

    rows, columns = X.shape
    taken = np.eye(n_actions)[action]
    own = np.arange(rows)

    def loss(at: Floats) -> tuple[float, Floats]:
        slopes, share = at[:-1].reshape(columns, n_actions), 1 / (1 + np.exp(-at[-1]))
        p = softmax(X @ slopes)
        logit = p[own, action]
        total = share / n_actions + (1 - share) * logit
        held = penalty * slopes
        held[0] = 0.0
        by_logit = weight * (1 - share) * logit / total
        down = held - X.T @ ((taken - p) * by_logit[:, None])
        sideways = share * (1 - share) * float(weight @ ((logit - 1 / n_actions) / total))
        value = 0.5 * float((held * slopes).sum()) - float(weight @ np.log(total))
        return value, np.append(down.ravel(), sideways)

    start = np.zeros(columns * n_actions + 1)
    start[-1] = np.log(FIRST_SHARE / (1 - FIRST_SHARE))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_ROUNDS, "ftol": 1e-12}).x
    return found[:-1].reshape(columns, n_actions), float(1 / (1 + np.exp(-found[-1])))


@dataclass(frozen=True, eq=False)
class FittedExploring:
    """Slopes, and the share of actions at random."""

    slopes: Floats
    share: float
    design: LinearDesign
    floor: float

    @property
    def note(self) -> str:
        """How π_b was estimated, for the notes of an estimate."""
        return "π_b: a logit of the state, but for a share of actions at random"

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) probabilities."""
        p = softmax(_with_ones(self.design, X) @ self.slopes)
        return np.asarray(self.share / p.shape[1] + (1 - self.share) * p)
