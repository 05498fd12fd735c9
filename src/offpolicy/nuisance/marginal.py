"""Ratio of state-action marginals w_t(s, a) = p_e,t(s, a) / p_b,t(s, a), for DRL.

Kallus and Uehara 2020. w_t(s, a) = w_t(s) π_e(a|s) / π_b(a|s), and the state ratio follows the chain
(Xie et al. 2019)

    w_0(s) = 1,   w_{t+1}(s') = E_b[ w_t(S_t) π_e(A_t|S_t) / π_b(A_t|S_t) | S_{t+1} = s' ].

`MarginalRatio` estimates it inside a training fold: as the ratio of two state distributions carried forward
by transitions pooled over t (discrete states, a stationary environment and policies), by cell means of the
chain at each t, or by regressing the chain on the next state (continuous states). A state that the training
fold never reached at that t has no ratio; it gets 0, which leaves the value model alone there, and is
counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.nuisance.crossfit import take_rows
from offpolicy.nuisance.learners import fitted, is_learner
from offpolicy.nuisance.tabular import DENSE_CELLS
from offpolicy.nuisance.values import ENDED, by_step

if TYPE_CHECKING:
    from offpolicy.arrays import Floats, Ints
    from offpolicy.nuisance.values import ValueData


@dataclass(frozen=True, eq=False)
class MarginalRatio:
    """How to estimate the ratio of state marginals.

    Parameters
    ----------
    time : {"pooled", "step"}
        Discrete states: transitions pooled over t, or the chain's cell means at each t. A
        time-dependent target is always taken step by step.
    learner : regressor, optional
        Continuous states: what the chain is regressed with at each t; default: gradient-boosted trees.

    Examples
    --------
    >>> MarginalRatio().time
    'pooled'
    """

    time: Literal["pooled", "step"] = "pooled"
    learner: Any = None

    def __post_init__(self) -> None:
        if self.time not in {"pooled", "step"}:
            raise UsageError(f"time= must be 'pooled' or 'step'. Got {self.time!r} instead.")
        if self.learner is not None and not is_learner(self.learner):
            raise UsageError(f"learner= must be a regressor. Got {self.learner!r} instead.")

    def fit_ratio(self, data: ValueData, ratio: Floats, seed: int) -> Any:
        """Fit on the training steps; ``ratio`` is π_e / π_b of their logged actions."""
        if not data.log.is_discrete:
            return _regressed(data, ratio, self.learner, seed)
        if self.time == "pooled" and not data.policy.is_timed:
            return _carried(data, ratio)
        return _chained(data, ratio)


@dataclass(frozen=True, eq=False)
class _StateTable:
    """w_t(s) as a (T+1, states) table; NaN where the training fold has no ratio."""

    log: Any
    table: Floats

    def predict(self, rows: Ints) -> Floats:
        t = np.minimum(self.log.layout.step[rows], len(self.table) - 1)
        return np.asarray(self.table[t, self.log.context.positions(rows)])


def _carried(data: ValueData, ratio: Floats) -> _StateTable:
    """d_e,t / d_b,t, both carried forward from the same S_0 by transitions pooled over t.

    M_b(s'|s) counts the logged transitions out of s and M_e(s'|s) weights each by π_e / π_b of its action,
    so that a state seen with few of its actions is not taken for one that has no others. At each t the
    weights are scaled to a mean of 1 under d_e,t, or their sampling error would compound over the horizon.
    """
    context = data.log.context
    n = context.n_table
    state = context.positions(data.rows)
    weight = np.ones(len(data.rows)) if data.weight is None else data.weight
    known = data.following >= ENDED
    out_of = np.bincount(state[known], weights=weight[known], minlength=n)
    onward = data.following >= 0
    start, end = state[onward], context.positions(data.following[onward])
    scale = weight[onward] / out_of[start]
    behave = transitions(start, end, scale, n)
    follow = transitions(start, end, scale * ratio[onward], n)
    leaving = np.bincount(state[known], weights=(weight * ratio)[known], minlength=n)
    mean_ratio = np.where(out_of > 0, leaving / np.where(out_of > 0, out_of, 1.0), 1.0)
    first = data.step == 0
    target = behavior = np.bincount(state[first], weights=weight[first], minlength=n) / float(
        weight[first].sum()
    )
    table = np.empty((data.horizon, n))
    for t in range(data.horizon):
        reached = behavior > 0
        table[t] = np.where(reached, target / np.where(reached, behavior, 1.0), np.nan)
        level = float(target @ mean_ratio)
        if level > 0:
            target = target * (float(target.sum()) / level)
        target, behavior = target @ follow, behavior @ behave
    return _StateTable(data.log, table)


def transitions(start: Ints, end: Ints, mass: Floats, n: int) -> Any:
    """(n, n) sums of mass by (start, end), sparse when there are many states."""
    if n * n <= DENSE_CELLS:
        return np.bincount(start * n + end, weights=mass, minlength=n * n).reshape(n, n)
    from scipy import sparse

    return sparse.coo_array((mass, (start, end)), shape=(n, n)).tocsr()


def _chained(data: ValueData, ratio: Floats) -> _StateTable:
    """Cell means of w_t(S_t) π_e / π_b over the steps that arrive in each state."""
    log = data.log
    n = log.context.n_table
    state = log.context.positions(data.rows)
    table = np.full((data.horizon, n), np.nan)
    weight = np.ones(len(data.rows)) if data.weight is None else data.weight
    chain = np.zeros(len(log.action))
    for t, at in reversed(list(data.backward())):
        if t == 0:
            table[0, state[at]] = 1.0
        else:
            mass = np.bincount(state[at], weights=weight[at], minlength=n)
            total = np.bincount(
                state[at], weights=weight[at] * chain[data.rows[at] - 1], minlength=n
            )
            table[t] = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), np.nan)
        chain[data.rows[at]] = _scaled(table[t, state[at]], ratio[at], weight[at])
    return _StateTable(log, table)


def _scaled(w: Floats, ratio: Floats, mass: Floats) -> Floats:
    """W · ratio with the ratios scaled to a mean of 1 under w, as they have in expectation."""
    level = float((mass * w) @ ratio)
    return w * ratio if level == 0 else w * ratio * (float(mass @ w) / level)


def _regressed(data: ValueData, ratio: Floats, learner: Any, seed: int) -> _Chain:
    """The chain regressed on the next state, one model for each t; ratios are kept non-negative."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    chosen = HistGradientBoostingRegressor(max_iter=60) if learner is None else learner
    log = data.log
    features = data.table(encoded=False)
    models: dict[int, Any] = {0: 1.0}
    fit = _Chain(log, features, models)
    chain = np.zeros(len(log.action))
    for t, at in reversed(list(data.backward())):
        rows = data.rows[at]
        if t > 0 and len(at):
            y = chain[rows - 1]
            weight = None if data.weight is None else data.weight[at]
            X = take_rows(features, log.context.positions(rows))
            if len(at) < 20 or np.ptp(y) == 0:
                models[t] = float(np.average(y, weights=weight))
            else:
                models[t] = fitted(chosen, X, y, weight, seed)
        mass = np.ones(len(at)) if data.weight is None else data.weight[at]
        chain[rows] = _scaled(fit.predict(rows), ratio[at], mass)
    return fit


@dataclass(frozen=True, eq=False)
class _Chain:
    log: Any
    features: Any
    models: dict[int, Any]

    def predict(self, rows: Ints) -> Floats:
        out = np.full(len(rows), np.nan)
        for t, at in by_step(self.log, rows).items():
            model = self.models.get(t)
            if model is None:
                continue
            if isinstance(model, float):
                out[at] = model
                continue
            X = take_rows(self.features, self.log.context.positions(rows[at]))
            out[at] = np.maximum(np.asarray(model.predict(X), dtype=np.float64), 0.0)
        return out
