"""The default reward model where π_b is fitted: what held-out residuals still show is put right by least squares.

With a fitted π_b the doubly robust score is off by E[(1 − π_b/π̂_b)(q − q̂)]. Penalties and early stopping leave q̂ and
π̂_b too smooth in the same places, so that this product does not average out, and no standard error shows it. Least
squares of held-out residuals on a few functions of the context (columns, squares and products, leaves of small trees
of the action and of the reward) has no such bias along these functions; its noise is independent of π̂_b − π_b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import or_ones, picked
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.learners import are_numbers
from offpolicy.models.fitting.tables import TrainingRows
from offpolicy.models.rewards.auto import AutoReward
from offpolicy.models.rewards.boosted import PARAMETERS, has_lightgbm, lightgbm

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.fitting.encode import Encoded
    from offpolicy.models.rewards.reward import FittedReward, RewardData

FEWEST, MOST = 200, 60_000  # units between which residuals are looked at
MOST_ACTIONS = 10
DRAWS, SHARE = 3, 1 / 3  # held-out parts and their size
PENALTY = 3.0  # in rows
WIDEST = 60  # columns, and products of columns, at most
LEAVES, TREES = 8, 3


@dataclass(frozen=True)
class CorrectedReward:
    """`AutoReward` and, action by action, least squares of its residuals on held-out rows; the mean of some draws."""

    wants_encoded = True
    merges_rows = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Choose a model, fit it on parts, and correct each by the rows that it has not seen."""
        auto = AutoReward()
        k, few = len(data.actions), not FEWEST <= data.size <= MOST
        none = data.X.matrix.shape[1] == 0 or np.ptp(data.reward) == 0  # nothing to correct by, or to correct
        if few or none or k > MOST_ACTIONS or are_numbers(data.action):
            return auto.fit_reward(data, seed)
        model = auto.chosen(data, seed)
        return _Mean(tuple(_member(model, *data.split(SHARE, seed + draw), seed) for draw in range(DRAWS)))


def _member(model: Any, held: RewardData, rest: RewardData, seed: int) -> _Corrected:
    base, basis = model.fit_reward(rest, seed), Basis.learn(rest)
    table = basis.columns(held.X)
    error = held.reward - base.predict(held.X, held.action)
    weight = or_ones(held.weight, len(error))
    slopes = np.zeros((len(held.actions), table.shape[1]))
    for a in range(len(slopes)):
        own = held.action == a
        z = table[own] * weight[own, None]
        slopes[a] = np.linalg.solve(z.T @ table[own] + PENALTY * np.eye(table.shape[1]), z.T @ error[own])
    return _Corrected(base, basis, slopes)


@dataclass(frozen=True, eq=False)
class _Corrected:
    base: FittedReward
    basis: Basis
    slopes: Floats

    def predict(self, X: Encoded, codes: Ints) -> Floats:
        return np.asarray(
            self.base.predict(X, codes) + np.einsum("ij,ij->i", self.basis.columns(X), self.slopes[codes])
        )


@dataclass(frozen=True, eq=False)
class _Mean:
    members: tuple[_Corrected, ...]

    def predict(self, X: Encoded, codes: Ints) -> Floats:
        return np.asarray(np.mean([member.predict(X, codes) for member in self.members], axis=0))


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions of the context: 1, columns, squares and products, leaves of small trees of the action and the reward.

    Numbers are bounded at three standard deviations: a line through residuals says nothing of what lies far out.
    """

    design: LinearDesign
    trees: tuple[Any, ...]
    center: Floats
    scale: Floats

    @classmethod
    def learn(cls, data: RewardData) -> Basis:
        """Learn scales and trees from some rows."""
        raw = cls(LinearDesign.learn(data.X, data.weight), _trees(data), np.zeros(1), np.ones(1))
        table = raw._raw(data.X)
        weight = or_ones(data.weight, len(table))
        center = weight @ table / weight.sum()
        spread = np.sqrt(np.maximum(weight @ (table - center) ** 2 / weight.sum(), 0.0))
        return cls(raw.design, raw.trees, center, np.where(spread > 1e-9, spread, np.inf))

    def columns(self, X: Encoded) -> Floats:
        """(n, p) standardized, with a first column of ones."""
        table = (self._raw(X) - self.center) / self.scale
        return np.hstack([np.ones((len(table), 1)), table])

    def _raw(self, X: Encoded) -> Floats:
        parts = [np.empty((len(X), 0))]
        width = self.design.width
        if width <= WIDEST:
            parts.append(np.clip(self.design.transform(X).toarray(), -3.0, 3.0))
        if width * (width + 1) // 2 <= WIDEST:
            left, right = np.triu_indices(width)
            parts.append(parts[1][:, left] * parts[1][:, right])
        for model in self.trees:
            leaves = model.predict(X.matrix, pred_leaf=True, num_threads=1).reshape(len(X), -1)
            parts += [(leaf[:, None] == np.arange(1, LEAVES)).astype(np.float64) for leaf in leaves.T]
        return np.hstack(parts)


def _trees(data: RewardData) -> tuple[Any, ...]:
    """Small trees of the action, and of the reward."""
    if not has_lightgbm():
        return ()
    k = len(data.actions)
    action = {"objective": "binary"} if k == 2 else {"objective": "multiclass", "num_class": k}
    tasks: list[tuple[Any, dict[str, Any], int]] = [
        (data.reward, {"objective": "regression", "min_sum_hessian_in_leaf": 20.0}, TREES)
    ]
    if len(np.unique(data.action)) > 1:
        tasks.append((data.action, {**action, "min_sum_hessian_in_leaf": 5.0}, max(1, TREES // (k - 1))))
    made = []
    for target, settings, rounds in tasks:
        parameters = {**PARAMETERS, **settings, "num_leaves": LEAVES, "learning_rate": 0.5, "num_threads": 1}
        rows = lightgbm().Dataset(
            data.X.matrix, label=target, weight=data.weight, categorical_feature=list(data.X.categorical),
            params=parameters,
        )  # fmt: skip
        made.append(lightgbm().train(parameters, rows, rounds))
    return tuple(made)


def remainder(
    data: RewardData, fold: Ints, wanted: Floats, weight: Floats, error: Floats, mass: Floats, count: Floats
) -> tuple[float, float]:
    """E[Σ_a π_e(a|S)(1 − π_b/π̂_b)(q − q̂)] along functions of the context, and its standard error.

    A product of two means inside each fold, Σ_i {π_e(a|S_i) − 1{A_i = a} w_i} z_i and Σ_j 1{A_j = a} w_j (R_j − q̂_j)
    z_j, without the terms i = j; z is learned from the other folds.

    Parameters
    ----------
    data : RewardData
        Contexts, actions and rewards of the rows.
    fold : (n,) int array
        Rows of a fold have nuisances of the other folds.
    wanted : (n, K) array
        π_e.
    weight, error : (n,) arrays
        π_e/π̂_b of the logged action, and R − q̂.
    mass, count : (n,) arrays
        Of each row, and how many units it stands for.

    Examples
    --------
    >>> from offpolicy.models.fitting.encode import Encoded
    >>> from offpolicy.models.rewards.reward import RewardData
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> a = (rng.random(2000) < 0.2 + 0.6 * (x[:, 0] > 0)).astype(int)
    >>> r = x[:, 0] + rng.normal(size=2000)
    >>> data = RewardData(Encoded(x, ()), a, r, None, (0, 1), "a")
    >>> wanted, ones = np.tile([0.0, 1.0], (2000, 1)), np.ones(2000)
    >>> off, error = remainder(data, np.arange(2000) % 2, wanted, a / 0.5, r, ones, ones)
    >>> bool(off < -5 * error)
    True
    """
    total, noise = 0.0, 0.0
    for each in np.unique(fold):
        here, there = np.flatnonzero(fold == each), np.flatnonzero(fold != each)
        others = TrainingRows(there, picked(data.weight, there), None)
        z = Basis.learn(data.take(others)).columns(data.X.rows(here))
        action, m, w, e, c = (column[here] for column in (data.action, mass, weight, error, count))
        for a in np.flatnonzero(wanted[here].any(axis=0)):
            own = (action == a) * w
            gap, left = m * (wanted[here, a] - own), m * own * e
            gram = (z * (m * own)[:, None]).T @ z + PENALTY * np.eye(z.shape[1])
            inverse = np.linalg.inv(gram)
            same = np.einsum("ij,jk,ik->i", z, inverse, z)
            ends = [inverse @ (z.T @ g) for g in (gap, left)]
            spread = [(z * (g**2 / c)[:, None]).T @ z for g in (gap, left)]
            total += float(ends[0] @ gram @ ends[1] - (gap * left / c) @ same)
            # Of the mean of each factor times the other; both means have noise of their own, which counts once.
            both = float(np.trace(inverse @ spread[0] @ inverse @ spread[1]))
            one = float(ends[0] @ spread[1] @ ends[0] + ends[1] @ spread[0] @ ends[1])
            noise += max(one - both, both)
    return total / float(mass.sum()), float(np.sqrt(max(noise, 0.0)) / mass.sum())
