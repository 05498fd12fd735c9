"""The reward model of section 5.2: LightGBM, tuned on a validation part, refitted on all the data.

The paper holds out a validation part of whatever sample μ is fitted on, tunes on it a model trained on the
rest, and refits the tuned model on the whole sample.

The data are counted (context, design, click) cells. Boosting them with the counts as weights is
boosting the impressions they stand for, provided that no limit counts rows: leaves are limited
by their sum of hessians (about the number of expected clicks), ``min_data_in_leaf``,
``min_data_in_bin`` and ``min_data_per_group`` are 1, and the validation part takes impressions, not cells.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from offpolicy.models import RewardData
    from offpolicy_studies.arrays import Floats


@dataclass(frozen=True, eq=False)
class Boosted:
    """A fitted click model; the design is the last feature."""

    booster: Any
    known: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    def predict(self, X: Any, codes: NDArray[np.int64]) -> Floats:
        """Return predicted click rates; the same question is answered from memory."""
        matrix = features(X, codes)
        key = _digest(matrix)
        if key not in self.known:
            self.known[key] = np.asarray(self.booster.predict(matrix, num_threads=1))
        return self.known[key]


@dataclass(frozen=True)
class Constant:
    """The mean click rate, where no boosted model does better on the validation part."""

    value: float

    def predict(self, X: Any, codes: NDArray[np.int64]) -> Floats:
        """Return the mean for every row."""
        return np.full(len(codes), self.value)


@dataclass(frozen=True, eq=False)
class TunedBoosting:
    """LightGBM with leaves, rounds and the treatment of categories chosen on a validation part.

    Fits are remembered, so that estimates with the true and with the estimated behavior policy
    share the same models.

    Parameters
    ----------
    leaves : tuple of int
        Candidate tree sizes.
    learning_rate : float
        Shrinkage of each tree.
    max_rounds, patience : int
        Rounds at most, and rounds without progress on the validation part before stopping.
    validation : float
        Share of impressions in the validation part.
    min_hessian : float
        Smallest sum of hessians, about expected clicks, in a leaf.

    Examples
    --------
    >>> from offpolicy.models import RewardData
    >>> x = np.array([[0], [0], [1], [1]])
    >>> y, n = np.array([0.0, 1, 0, 1]), np.array([900.0, 100, 700, 300])
    >>> data = RewardData(x, np.zeros(4, dtype=np.int64), y, n, ("a",), "ad")
    >>> TunedBoosting().fit_reward(data, seed=0).predict(x[1:3], np.zeros(2, int)).round(1)
    array([0.1, 0.3])
    """

    leaves: tuple[int, ...] = (4, 16)
    learning_rate: float = 0.1
    max_rounds: int = 200
    patience: int = 10
    validation: float = 0.25
    min_hessian: float = 10.0
    known: dict[bytes, Any] = field(default_factory=dict, repr=False)

    def fit_reward(self, data: RewardData, seed: int) -> Boosted | Constant:
        """Split, tune and refit."""
        weight = np.ones(len(data.reward)) if data.weight is None else data.weight
        matrix = features(data.X, data.action)
        key = _digest(matrix, data.reward, weight, np.array([seed]))
        if key not in self.known:
            self.known[key] = self._tuned(matrix, data.reward, _counts(weight), seed)
        found: Boosted | Constant = self.known[key]
        return found

    def _tuned(self, matrix: NDArray[np.float32], y: Floats, count: NDArray[np.int64], seed: int) -> Boosted | Constant:
        import lightgbm as lgb

        held = np.random.default_rng(seed).binomial(count, self.validation)
        train, valid = _part(matrix, y, count - held), _part(matrix, y, held)
        mean = Constant(float(np.average(y, weights=count)))
        if _clicks(train) == 0 or _clicks(valid) == 0:
            return mean
        best_loss, best = _constant_loss(train, valid), None
        for categorical in ("", "all"):
            columns: Any = list(range(matrix.shape[1])) if categorical else []
            base = {"categorical_feature": columns, "free_raw_data": False}
            params = self.params(self.leaves[0])
            first = lgb.Dataset(train[0], train[1], weight=train[2], params=params, **base)
            second = lgb.Dataset(valid[0], valid[1], weight=valid[2], reference=first, params=params, **base)
            for leaves in self.leaves:
                booster = lgb.train(
                    self.params(leaves),
                    first,
                    self.max_rounds,
                    valid_sets=[second],
                    callbacks=[lgb.early_stopping(self.patience, verbose=False)],
                )
                loss = booster.best_score["valid_0"]["binary_logloss"]
                # A tree that cannot split only moves the loss by rounding.
                if loss < best_loss * (1 - 1e-7):
                    best_loss, best = loss, (leaves, columns, booster.best_iteration)
        if best is None:
            return mean
        leaves, columns, rounds = best
        everything = lgb.Dataset(matrix, y, weight=count.astype(np.float64), categorical_feature=columns)
        return Boosted(lgb.train(self.params(leaves), everything, rounds))

    def params(self, leaves: int) -> dict[str, Any]:
        """Return LightGBM's parameters for trees of this size."""
        return {
            "objective": "binary",
            "num_leaves": leaves,
            "learning_rate": self.learning_rate,
            "min_sum_hessian_in_leaf": self.min_hessian,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "min_data_per_group": 1,
            "feature_pre_filter": False,
            "max_bin": 63,
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


@dataclass(frozen=True, eq=False)
class OverfittingBoosting:
    """LightGBM as one should not use it: many leaves, a fixed number of rounds, nothing held out.

    A leaf needs a tenth of an expected click (ten in `TunedBoosting`), so that single clicks are learned by heart.

    Parameters
    ----------
    leaves, rounds : int
        Size and number of the trees.
    min_hessian : float
        Smallest sum of hessians in a leaf.
    """

    leaves: int = 128
    rounds: int = 50
    min_hessian: float = 0.1
    known: dict[bytes, Any] = field(default_factory=dict, repr=False)

    def fit_reward(self, data: RewardData, seed: int) -> Boosted | Constant:
        """Fit on all the data at once."""
        import lightgbm as lgb

        weight = np.ones(len(data.reward)) if data.weight is None else data.weight
        matrix = features(data.X, data.action)
        key = _digest(matrix, data.reward, weight, np.array([seed]))
        if key not in self.known:
            tuned = TunedBoosting(min_hessian=self.min_hessian)
            sample = lgb.Dataset(
                matrix,
                data.reward,
                weight=_counts(weight).astype(np.float64),
                categorical_feature=list(range(matrix.shape[1])),
            )
            self.known[key] = (
                Boosted(lgb.train(tuned.params(self.leaves), sample, self.rounds))
                if data.reward @ weight > 0
                else Constant(0.0)
            )
        fitted: Boosted | Constant = self.known[key]
        return fitted


def features(X: Any, codes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return context codes with the design's code as last column; float32 holds them exactly."""
    return np.column_stack([np.asarray(X), codes]).astype(np.float32)


def _counts(weight: Floats) -> NDArray[np.int64]:
    count = np.asarray(np.rint(weight), dtype=np.int64)
    if not np.array_equal(count, weight):
        raise ModelError(
            "TunedBoosting takes numbers of impressions as weights, and some are not whole. "
            "Use a log with counts and without analysis weights."
        )
    return count


def _part(
    matrix: NDArray[np.float32], y: Floats, count: NDArray[np.int64]
) -> tuple[NDArray[np.float32], Floats, Floats]:
    rows = np.flatnonzero(count)
    return matrix[rows], y[rows], count[rows].astype(np.float64)


def _clicks(part: tuple[NDArray[np.float32], Floats, Floats]) -> float:
    return float(part[1] @ part[2])


def _constant_loss(train: Any, valid: Any) -> float:
    """Validation log loss of the training part's mean."""
    p = _clicks(train) / train[2].sum()
    q = _clicks(valid) / valid[2].sum()
    return float(-q * np.log(p) - (1 - q) * np.log1p(-p))


def _digest(*arrays: NDArray[Any]) -> bytes:
    h = hashlib.blake2b(digest_size=16)
    for array in arrays:
        h.update(str(array.shape).encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.digest()
