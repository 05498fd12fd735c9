"""Linear reward models, and the default: the simplest model that a validation part of the training fold prefers.

A constant, a ridge or logistic model with context × action interactions, or LightGBM, by squared error. The winner is
refitted on the whole training fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError
from offpolicy.models.auto import best_of, mean_loss
from offpolicy.models.fitting.encode import Encoded, LinearDesign
from offpolicy.models.fitting.learners import are_numbers, quiet
from offpolicy.models.rewards.boosted import BoostedReward, has_lightgbm
from offpolicy.models.rewards.reward import ConstantReward, FittedReward, RewardData

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints

SELECTION_ROWS = 60_000
LINEAR_COLUMNS = 5_000
SMALL = 400


@checks_arguments
@dataclass(frozen=True)
class LinearReward:
    """Ridge (or logistic, for 0/1 rewards) with context, action and their interactions.

    Parameters
    ----------
    penalty : float
        Strength of the ridge penalty.
    """

    penalty: float = 1.0
    wants_encoded = True
    merges_rows = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit on the training rows."""
        if are_numbers(data.action):  # a line is too little for a price: linear in splines of it
            return SplineReward(penalty=self.penalty).fit_reward(data, seed)
        return _line(_Design.learn(data).columns, data, self.penalty)


def _line(columns: Callable[[Encoded, Any], Any], data: RewardData, penalty: float) -> FittedReward:
    """Ridge, or a logit of 0/1 rewards, on a table of contexts and actions."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if np.ptp(data.reward) == 0:
        return ConstantReward(float(data.reward[0]))
    X = columns(data.X, data.action)
    binary = bool(np.isin(data.reward, (0.0, 1.0)).all())
    wide = not isinstance(X, np.ndarray) and X.shape[1] > 500
    learner: Any = Ridge(alpha=penalty, solver="lsqr" if wide else "auto")
    if binary:
        learner = LogisticRegression(C=1.0 / penalty, max_iter=300, tol=1e-4)
    with quiet():  # slow convergence only costs accuracy, which is validated
        learner.fit(X, data.reward, sample_weight=data.weight)
    return _Linear(learner, columns, binary)


@dataclass(frozen=True, eq=False)
class _Design:
    """Context, action, features of the action, and what few enough of their products there are."""

    context: LinearDesign
    features: LinearDesign | None
    k: int

    @classmethod
    def learn(cls, data: RewardData) -> _Design:
        k = len(data.actions)
        if data.X.of_action == 0:
            return cls(LinearDesign.learn(data.X, data.weight), None, k)
        context, features = (LinearDesign.learn(part, data.weight) for part in data.X.parts())
        return cls(context, features, k)

    def columns(self, X: Encoded, codes: Ints) -> Any:
        from scipy import sparse

        n, k = len(codes), self.k
        one_hot = sparse.csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, k))
        if self.features is None:
            base = self.context.transform(X)
            parts = [base, one_hot]
        else:
            first, rest = X.parts()
            base, own = self.context.transform(first), self.features.transform(rest)
            parts = [base, one_hot, own]
            if self.context.width * self.features.width <= LINEAR_COLUMNS:
                parts.append(_products(base, own))
        if (self.context.width + 1) * k <= LINEAR_COLUMNS:
            parts.append(_products(base, one_hot))
        return sparse.hstack(parts, format="csr")


def _products(left: Any, right: Any) -> Any:
    """Sparse (n, p·r) products of the columns of two sparse tables, row by row; those of one column of ``right``
    stand together.
    """
    from scipy import sparse

    n, p, r = left.shape[0], left.shape[1], right.shape[1]
    each, times = np.diff(left.indptr), np.diff(right.indptr)
    # Every entry of the right row meets every entry of the left one.
    row = np.repeat(np.arange(n), times)
    size = each[row]
    entry = np.repeat(np.arange(len(row)), size)
    start = np.repeat(np.concatenate([[0], np.cumsum(size)[:-1]]), size)
    at = np.arange(len(entry)) - start + left.indptr[row[entry]]
    values = left.data[at] * right.data[entry]
    columns = right.indices[entry] * p + left.indices[at]
    return sparse.csr_array((values, (row[entry], columns)), shape=(n, p * r))


@dataclass(frozen=True, eq=False)
class _Linear:
    learner: Any
    columns: Callable[[Encoded, Any], Any]
    binary: bool

    def predict(self, X: Encoded, codes: Any) -> Floats:
        table = self.columns(X, codes)
        if self.binary:
            return np.asarray(self.learner.predict_proba(table)[:, 1], dtype=np.float64)
        return np.asarray(self.learner.predict(table), dtype=np.float64)


@dataclass(frozen=True)
class _Constant:
    wants_encoded = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        return ConstantReward(data.mean())


@dataclass(frozen=True)
class AutoReward:
    """Choose among a constant, a linear model and LightGBM inside the training fold.

    Parameters
    ----------
    validation : float
        Share of the training rows (at most 60,000 are used) on which candidates are compared.
    """

    validation: float = 0.3
    wants_encoded = True
    merges_rows = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Compare on a validation part, refit the winner on all training rows."""
        if data.size < 20 or np.ptp(data.reward) == 0:
            return ConstantReward(data.mean())
        winner = self.chosen(data, seed)
        return _Chosen(winner.fit_reward(data, seed), type(winner).__name__.strip("_"))

    def chosen(self, data: RewardData, seed: int) -> Any:
        """The candidate of the smallest loss on a validation part."""
        held, train = data.split(self.validation, seed, SELECTION_ROWS)

        def loss(candidate: Any) -> float:
            model = candidate.fit_reward(train, seed)
            error = held.reward - model.predict(held.X, held.action)
            return mean_loss(error * error, held.weight)

        return best_of(self._candidates(data), loss)[0]

    def _candidates(self, data: RewardData) -> list[Any]:
        candidates: list[Any] = [_Constant(), LinearReward()]
        if data.size >= SMALL and has_lightgbm():
            candidates.append(BoostedReward(grid=({"num_leaves": 15},)))
        return candidates


@dataclass(frozen=True, eq=False)
class _Chosen:
    model: FittedReward
    choice: str

    def predict(self, X: Any, codes: Ints) -> Floats:
        return self.model.predict(X, codes)

    def predict_grid(self, X: Any, n_actions: int) -> Floats | None:
        grid = getattr(self.model, "predict_grid", None)
        return None if grid is None else grid(X, n_actions)


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
        from sklearn.preprocessing import SplineTransformer

        if not are_numbers(data.action):
            raise ModelError("SplineReward is for actions that are numbers. Use LinearReward.")
        spline = SplineTransformer(n_knots=self.knots, degree=3, knots="quantile", extrapolation="linear")
        design = LinearDesign.learn(data.X, data.weight)
        return _line(partial(_columns, design, spline.fit(data.action[:, None])), data, self.penalty)


def _columns(design: LinearDesign, spline: Any, X: Encoded, action: Any) -> Floats:
    """(n, p) the context, the curves of the action, and their products where the context is narrow."""
    base = design.transform(X).toarray()
    curve = spline.transform(action[:, None])
    parts = [base, curve]
    if design.width <= CROSSED:
        parts.append((base[:, :, None] * curve[:, None, :]).reshape(len(base), -1))
    return np.hstack(parts)
