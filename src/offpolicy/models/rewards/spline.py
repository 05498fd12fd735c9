"""A smooth reward model for actions that are numbers: splines of the action, crossed with the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError
from offpolicy.models.fitting.encode import Encoded, LinearDesign
from offpolicy.models.fitting.learners import are_numbers, quiet
from offpolicy.models.rewards.reward import ConstantReward, FittedReward, RewardData

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

CROSSED = 60  # columns of the context up to which each has a curve of its own


@checks_arguments
@dataclass(frozen=True)
class SplineReward:
    """Ridge (or logistic, for 0/1 rewards) of the context, a cubic spline of the action, and their products.

    Parameters
    ----------
    knots : int
        Of the spline, at quantiles of the logged actions.
    penalty : float
        Strength of the ridge penalty.
    """

    knots: int = 5
    penalty: float = 1.0
    wants_encoded = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit on the training rows."""
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.preprocessing import SplineTransformer

        if not are_numbers(data.action):
            raise ModelError("SplineReward is for actions that are numbers. Use LinearReward.")
        if np.ptp(data.reward) == 0:
            return ConstantReward(float(data.reward[0]))
        spline = SplineTransformer(n_knots=self.knots, degree=3, knots="quantile", extrapolation="linear").fit(
            data.action[:, None]
        )
        design = LinearDesign.learn(data.X, data.weight)
        binary = bool(np.isin(data.reward, (0.0, 1.0)).all())
        X = _columns(design, spline, data.X, data.action)
        learner: Any = LogisticRegression(C=1.0 / self.penalty, max_iter=300) if binary else Ridge(alpha=self.penalty)
        with quiet():
            learner.fit(X, data.reward, sample_weight=data.weight)
        return _Spline(learner, design, spline, binary)


def _columns(design: LinearDesign, spline: Any, X: Encoded, action: Any) -> Floats:
    """(n, p) the context, the curves of the action, and their products where the context is narrow."""
    base = design.transform(X).toarray()
    curve = spline.transform(action[:, None])
    parts = [base, curve]
    if design.width <= CROSSED:
        parts.append((base[:, :, None] * curve[:, None, :]).reshape(len(base), -1))
    return np.hstack(parts)


@dataclass(frozen=True, eq=False)
class _Spline:
    learner: Any
    design: LinearDesign
    spline: Any
    binary: bool

    def predict(self, X: Encoded, codes: Any) -> Floats:
        table = _columns(self.design, self.spline, X, codes)
        if self.binary:
            return np.asarray(self.learner.predict_proba(table)[:, 1], dtype=np.float64)
        return np.asarray(self.learner.predict(table), dtype=np.float64)
