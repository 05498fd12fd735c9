"""The default behavior model: shares or a multinomial logistic model, whichever predicts better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offpolicy.models.behavior.behavior import (
    BehaviorData,
    FittedBehavior,
    FittedClassifier,
    Shares,
    floor_at,
    share_of_unseen,
)
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.quiet import quiet
from offpolicy.models.fitting.training import Part, held_out

SELECTION_ROWS = 30_000


def take(data: BehaviorData, part: Part) -> BehaviorData:
    """Chosen training rows."""
    batch = None if data.batch is None else data.batch[part.rows]
    X, action = data.X.rows(part.rows), data.action[part.rows]
    return BehaviorData(X, action, part.weight, data.n_actions, batch, part.count)


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
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(data.action)) == 1:
            return Shares(per_batch=False).fit_behavior(data, seed)
        design = LinearDesign.learn(data.X, data.weight)
        learner = LogisticRegression(C=1.0 / self.penalty, max_iter=200, tol=1e-4)
        with quiet():  # slow convergence only costs accuracy, which is validated
            learner.fit(design.transform(data.X), data.action, sample_weight=data.weight)
        return FittedClassifier(learner, data.n_actions, share_of_unseen(data), design.transform)


@dataclass(frozen=True)
class AutoBehavior:
    """Shares or a regression, by held-out log-loss inside the training fold.

    Parameters
    ----------
    validation : float
        Share of the training rows (at most 30,000 are used) on which the two are compared.
    regression : behavior model
        What is compared with shares; default: logistic regression.
    """

    validation: float = 0.3
    regression: Any = LogisticBehavior()
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Compare on a validation part, refit the winner on all training rows."""
        shares = Shares()
        if data.size < 20 or data.X.matrix.shape[1] == 0:
            return shares.fit_behavior(data, seed)
        held, train = (
            take(data, part)
            for part in held_out(
                len(data.action),
                data.weight,
                data.count,
                share=self.validation,
                seed=seed,
                limit=SELECTION_ROWS,
            )
        )
        losses = [_log_loss(m.fit_behavior(train, seed), held) for m in (shares, self.regression)]
        winner: Any = shares if losses[0] <= losses[1] else self.regression
        fit: FittedBehavior = winner.fit_behavior(data, seed)
        return fit


def _log_loss(model: FittedBehavior, held: BehaviorData) -> float:
    p = model.predict(held.X, held.batch)[np.arange(len(held.action)), held.action]
    return float(
        np.average(-np.log(np.maximum(p, floor_at(model, held.batch))), weights=held.weight)
    )
