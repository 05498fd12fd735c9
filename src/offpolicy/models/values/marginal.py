"""Ratio of state-action marginals w_t(s, a) = p_e,t(s, a) / p_b,t(s, a), for DRL.

Kallus and Uehara 2020. w_t(s, a) = w_t(s) π_e(a|s) / π_b(a|s), and the state ratio follows the chain
(Xie et al. 2019)

    w_0(s) = 1,   w_{t+1}(s') = E_b[ w_t(S_t) π_e(A_t|S_t) / π_b(A_t|S_t) | S_{t+1} = s' ].

`MarginalRatio` estimates it inside a training fold: as the ratio of two state distributions carried forward
by one pooled P̂ (discrete states, a stationary environment and behavior), by cell means of the chain at each
t, or by regressing the chain on the next state (continuous states). A state that the training
fold never reached at that t has no ratio; it gets 0, which leaves the value model alone there, and is
counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.errors import NotIdentifiedError, UsageError, check_choice
from offpolicy.models.fitting.learners import fitted, is_learner
from offpolicy.models.fitting.predictions import take_rows
from offpolicy.models.values.tabular import Cells, summed
from offpolicy.models.values.values import ENDED, by_step

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.values.values import ValueData

LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class MarginalRatio:
    """How to estimate the ratio of state marginals.

    Parameters
    ----------
    time : {"pooled", "step"}
        Discrete states: one P̂ for all t, or the chain's cell means at each t.
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
        check_choice("time", self.time, "pooled", "step")
        if self.learner is not None and not is_learner(self.learner):
            raise UsageError(f"learner= must be a regressor. Got {self.learner!r} instead.")

    def fit_ratio(self, data: ValueData, pi_e: Floats, pi_b: Floats, seed: int) -> Any:
        """Fit on the training steps, with both policies' probabilities of their logged actions."""
        if not data.log.is_discrete:
            return _regressed(data, pi_e / pi_b, self.learner, seed)
        if self.time == "pooled":
            return _carried(data, pi_b)
        return _chained(data, pi_e / pi_b)


@dataclass(frozen=True, eq=False)
class _StateTable:
    """w_t(s) as a (T+1, states) table; NaN where the training fold has no ratio."""

    log: Any
    table: Floats

    def predict(self, rows: Ints) -> Floats:
        t = np.minimum(self.log.layout.step[rows], len(self.table) - 1)
        return np.asarray(self.table[t, self.log.context.positions(rows)])


def _carried(data: ValueData, pi_b: Floats) -> _StateTable:
    """d_e,t / d_b,t, both carried forward from the same S_0 by one P̂ pooled over t.

    Over the cells (s, a) that were seen, d_e moves by Σ_a π_e(a|s) P̂(·|s, a) and d_b by
    Σ_a π_b(a|s) P̂(·|s, a). Both lose what they give to cells never seen, so that a state seen with one
    action is not taken for a state that has no other, and neither gains or loses by chance elsewhere.
    """
    context, k = data.log.context, len(data.log.actions)
    n = context.n_table
    cells = Cells(n, k)
    state = context.positions(data.rows)
    cell = cells.of(state, data.action)
    weight = np.ones(len(data.rows)) if data.weight is None else data.weight
    taken = cells.count(cell, weight)
    logged = np.bincount(cell, weights=weight * pi_b, minlength=cells.size)
    logging = logged / np.where(taken > 0, taken, 1.0)
    known = data.following >= ENDED
    out_of = cells.count(cell[known], weight[known])
    onward = data.following >= 0
    start, end = cell[onward], context.positions(data.following[onward])
    move = summed(start, end, weight[onward] / out_of[start], cells.size, n)
    first = data.step == 0
    target = behavior = np.bincount(state[first], weights=weight[first], minlength=n) / float(
        weight[first].sum()
    )
    table = np.empty((data.horizon, n))
    for t in range(data.horizon):
        reached = behavior > 0
        with np.errstate(over="ignore"):
            ratio = target / np.where(reached, behavior, 1.0)
        table[t] = np.where(reached, _in_range(ratio), np.nan)
        pi = data.policy.at_states(t)
        target = (target[:, None] * pi).reshape(-1) @ move
        behavior = np.repeat(behavior, k) * logging @ move
    return _StateTable(data.log, table)


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
        chain[data.rows[at]] = _in_range(table[t, state[at]] * ratio[at])
    return _StateTable(log, table)


def _in_range(chain: Floats) -> Floats:
    """Propensities that are too small at every step compound, even without products inside an episode."""
    if float(np.nanmax(chain, initial=0.0)) > LARGEST:
        raise NotIdentifiedError(
            "the ratio of marginals grows beyond all bounds over the horizon: π_e / π_b is not 1 on "
            "average. Check the propensities, or use a shorter horizon."
        )
    return chain


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
        chain[rows] = _in_range(fit.predict(rows) * ratio[at])
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
