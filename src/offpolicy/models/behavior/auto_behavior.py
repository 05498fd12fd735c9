"""The default behavior model: shares or a multinomial logistic model, whichever predicts better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.behavior.behavior import (
    BehaviorData,
    FittedBehavior,
    Shares,
    floor_at,
    share_of_unseen,
)
from offpolicy.models.fitting.encode import Encoded, LinearDesign
from offpolicy.models.fitting.quiet import quiet

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints

SELECTION_ROWS = 30_000


def take(data: BehaviorData, rows: Ints) -> BehaviorData:
    """Chosen training rows."""

    def pick(values: Any) -> Any:
        return None if values is None else values[rows]

    return BehaviorData(
        data.X.rows(rows), data.action[rows], pick(data.weight), data.n_actions, pick(data.batch)
    )


@dataclass(frozen=True)
class LogisticBehavior:
    """Multinomial logistic regression on one-hot and standardized context columns.

    Parameters
    ----------
    penalty : float
        Strength of the ridge penalty.
    """

    penalty: float = 1.0
    wants_encoded = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(data.action)) == 1:
            return Shares(per_batch=False).fit_behavior(data, seed)
        design = LinearDesign.learn(data.X)
        learner = LogisticRegression(C=1.0 / self.penalty, max_iter=200, tol=1e-4)
        with quiet():  # slow convergence only costs accuracy, which is validated
            learner.fit(design.transform(data.X), data.action, sample_weight=data.weight)
        return _FittedLogistic(learner, design, data.n_actions, share_of_unseen(data))


@dataclass(frozen=True, eq=False)
class _FittedLogistic:
    model: Any
    design: LinearDesign
    n_actions: int
    floor: float

    def predict(self, X: Encoded, batch: Ints | None) -> Floats:
        out = np.zeros((len(X), self.n_actions))
        out[:, self.model.classes_] = self.model.predict_proba(self.design.transform(X))
        return out


@dataclass(frozen=True)
class AutoBehavior:
    """Shares or logistic regression, by held-out log-loss inside the training fold.

    Parameters
    ----------
    validation : float
        Share of the training rows (at most 30,000 are used) on which the two are compared.
    """

    validation: float = 0.3
    wants_encoded = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Compare on a validation part, refit the winner on all training rows."""
        n = len(data.action)
        shares = Shares()
        if n < 20 or data.X.matrix.shape[1] == 0:
            return shares.fit_behavior(data, seed)
        chosen = np.random.default_rng(seed).permutation(n)[:SELECTION_ROWS]
        cut = max(1, round(self.validation * len(chosen)))
        held, train = take(data, chosen[:cut]), take(data, chosen[cut:])
        losses = [
            _log_loss(m.fit_behavior(train, seed), held) for m in (shares, LogisticBehavior())
        ]
        winner: Any = shares if losses[0] <= losses[1] else LogisticBehavior()
        fit: FittedBehavior = winner.fit_behavior(data, seed)
        return fit


def _log_loss(model: FittedBehavior, held: BehaviorData) -> float:
    p = model.predict(held.X, held.batch)[np.arange(len(held.action)), held.action]
    return float(
        np.average(-np.log(np.maximum(p, floor_at(model, held.batch))), weights=held.weight)
    )
