"""Ratio of state-action marginals w_t(s, a) = p_e,t(s, a) / p_b,t(s, a), for DRL.

Kallus and Uehara 2020. w_t(s, a) = w_t(s) π_e(a|s) / π_b(a|s), and the state ratio follows the chain
(Xie et al. 2019)

    w_0(s) = 1,   w_{t+1}(s') = E_b[ w_t(S_t) π_e(A_t|S_t) / π_b(A_t|S_t) | S_{t+1} = s' ].

`MarginalRatio` estimates it inside a training fold: from visit counts, as the ratio of two state distributions
carried forward by one pooled P̂ (discrete states, a stationary environment; Yin and Wang 2020), which needs no π_b; by
cell means of the chain at each t; or by regressing the chain on the next state (continuous states), log-linearly in the
state and its products: so a ratio of normal densities looks, and no ratio is negative.

What is estimated obeys what is known of the truth. w_t(s) is a mean of products of ratios, so none exceeds the largest
product that an episode of the training fold has had by that step; the episode's own product, which has w_t(s) for its
mean, counts as one more visit, and alone where the training fold never was; and the mean of w_t over the episodes of
the log, those that have ended counted with the probability that the target's have, is 1: ratios are divided by the
mean that they have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import MOST_LOG, or_ones
from offpolicy.errors import UsageError, check_choice
from offpolicy.models.fitting.learners import fitted, is_learner
from offpolicy.models.fitting.predictions import take_rows
from offpolicy.models.values.basis import LogLinear, Quadratic
from offpolicy.models.values.tabular import summed
from offpolicy.models.values.values import ENDED, by_step

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.values.values import ValueData

FEW_ROWS = 20


@checks_arguments
@dataclass(frozen=True, eq=False)
class MarginalRatio:
    """How to estimate the ratio of state marginals.

    Parameters
    ----------
    time : {"pooled", "step"}
        Discrete states: one P̂ for all t, or the chain's cell means at each t.
    learner : regressor, optional
        Continuous states: what the chain is regressed with at each t; default: a log-linear regression on
        the state and its products.

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
            return _regressed(data, pi_e, pi_b, self.learner, seed)
        if self.time == "pooled":
            return _carried(data, pi_e, pi_b)
        return _chained(data, pi_e, pi_b)


@dataclass(frozen=True, eq=False)
class _StateTable:
    """w_t(s) as a (T+1, states) table; NaN where the training fold has no ratio."""

    log: Log
    table: Floats
    alive: Floats
    visits: Floats

    def predict(self, rows: Ints, product: Floats) -> Floats:
        """(m,) w_t(s), to which the product of the ratios that led to each step is added as one more visit."""
        t = np.minimum(self.log.layout.step[rows], len(self.table) - 1)
        state = self.log.context.positions(rows)
        ratio, n = self.table[t, state], self.visits[state]
        known = ~np.isnan(ratio)
        n = np.where(known, n, 0.0)
        # E[ρ_{t−1} | S_t = s] is w_t(s): without bias, but held at the largest mean that was seen.
        most = np.nanmax(self.table, axis=1, initial=1.0)[t]
        own = np.minimum(product, most)
        return np.asarray((n * np.where(known, ratio, 0.0) + own) / (n + 1.0))


def _carried(data: ValueData, pi_e: Floats, pi_b: Floats) -> _StateTable:
    """d_e,t / d_b,t, both carried forward from the same S_0 by one P̂ pooled over t.

    From s, d_b moves as the logged steps moved, and d_e by Σ_a π_e(a|s) P̂(·|s, a): the shares that actions had in s
    do not enter, and what leaves a state is never more than what was there. An action without a training step moves
    as all steps out of its state did, as in the value model `Tabular`.
    """
    context = data.log.context
    n, k = context.n_table, len(data.log.actions)
    state = context.positions(data.rows)
    weight = or_ones(data.weight, len(data.rows))
    first = data.step == 0
    begin = _totals(state[first], weight[first], n) / float(weight[first].sum())
    out_of = _Departures.of(data, state, weight, k)
    behavior = out_of.moves(weight)
    most = largest_products(data, pi_e, pi_b)
    stationary = data.policy.is_stationary
    target = out_of.moves(out_of.mass(pi_e)) if stationary else behavior
    d_e = d_b = begin
    table, alive = np.empty((data.layout_horizon, n)), np.empty(data.layout_horizon)
    for t in range(data.layout_horizon):
        reached = d_b > 0
        table[t] = np.where(reached, np.minimum(d_e / np.where(reached, d_b, 1.0), most[t]), np.nan)
        alive[t] = d_e.sum()
        if not stationary:
            target = out_of.moves(out_of.mass(data.policy.at_states(t)[state, data.action]))
        d_e, d_b = d_e @ target, d_b @ behavior
    return _StateTable(data.log, table, alive, _totals(state, weight, n))


@dataclass(frozen=True, eq=False)
class _Departures:
    """The training steps by the state that they leave, of those whose successor is known."""

    data: ValueData
    state: Ints
    weight: Floats
    each: Floats
    in_cell: Floats

    @classmethod
    def of(cls, data: ValueData, state: Ints, weight: Floats, k: int) -> _Departures:
        """Count by state, and by state and action."""
        n = data.log.context.n_table
        known = data.following >= ENDED
        cell = state * k + data.action
        count = _totals(cell[known], weight[known], n * k)
        return cls(data, state, weight, _totals(state[known], weight[known], n), count[cell])

    def mass(self, pi_e: Floats) -> Floats:
        """(m,) mass of each step when actions are taken by π_e: in every state it has the mean that weights have."""
        known = self.data.following >= ENDED
        share = np.where(known, pi_e * self.weight / np.where(known, self.in_cell, 1.0), 0.0)
        seen = _totals(self.state, share, len(self.each))
        lost = np.maximum(1.0 - seen, 0.0)[self.state]
        return np.asarray(share * self.each[self.state] + lost * self.weight)

    def moves(self, mass: Floats) -> Any:
        """(n, n) share of what leaves each state that arrives in another."""
        context = self.data.log.context
        onward = self.data.following >= 0
        start, end = self.state[onward], context.positions(self.data.following[onward])
        return summed(start, end, mass[onward] / self.each[start], context.n_table, context.n_table)


def _totals(state: Ints, mass: Floats, n: int) -> Floats:
    return np.bincount(state, weights=mass, minlength=n).astype(np.float64)


def largest_products(data: ValueData, pi_e: Floats, pi_b: Floats) -> Floats:
    """(T+1,) largest ρ that a training episode had before step t, and at least 1."""
    layout = data.log.layout
    with np.errstate(divide="ignore"):
        logs = np.log(pi_e) - np.log(pi_b)
    out = np.zeros(data.layout_horizon)
    total = np.zeros(layout.n_units)
    unit = layout.unit[data.rows]
    for t, at in reversed(list(data.backward())):
        if t >= len(out):
            continue
        if len(at):
            out[t] = float(total[unit[at]].max())
            total[unit[at]] += logs[at]
    return np.asarray(np.exp(np.clip(np.maximum.accumulate(out), 0.0, MOST_LOG)))


def _chained(data: ValueData, pi_e: Floats, pi_b: Floats) -> _StateTable:
    """Cell means of w_t(S_t) π_e / π_b over the steps that arrive in each state."""
    log, ratio = data.log, pi_e / pi_b
    n = log.context.n_table
    state = log.context.positions(data.rows)
    table = np.full((data.layout_horizon, n), np.nan)
    weight = or_ones(data.weight, len(data.rows))
    most = largest_products(data, pi_e, pi_b)
    chain = np.zeros(len(log.action))
    alive = _Alive.of(data, weight)
    for t, at in reversed(list(data.backward())):
        if t >= len(table):
            continue
        if t == 0:
            table[0, state[at]] = 1.0
        else:
            mass = np.bincount(state[at], weights=weight[at], minlength=n)
            total = np.bincount(state[at], weights=weight[at] * chain[data.rows[at] - 1], minlength=n)
            mean = np.minimum(total / np.where(mass > 0, mass, 1.0), most[t])
            table[t] = np.where(mass > 0, mean, np.nan)
        chain[data.rows[at]] = table[t, state[at]] * ratio[at]
        alive.note(t, at, chain)
    return _StateTable(log, table, alive.share, _totals(state, weight, n))


@dataclass(frozen=True, eq=False)
class _Alive:
    """P(the target's episode has a step t), from the chain of weights: ended episodes keep their last one."""

    data: ValueData
    weight: Floats
    share: Floats
    ended: list[float]

    @classmethod
    def of(cls, data: ValueData, weight: Floats) -> _Alive:
        return cls(data, weight, np.ones(data.layout_horizon), [0.0])

    def note(self, t: int, at: Ints, chain: Floats) -> None:
        """Take step t's weights, from which the share of step t + 1 follows."""
        if len(at) == 0 or t + 1 >= len(self.share):
            return
        now = self.weight[at] * chain[self.data.rows[at]]
        over = self.data.following[at] < 0
        self.ended[0] += float(now[over].sum())
        going = float(now[~over].sum())
        total = going + self.ended[0]
        self.share[t + 1] = going / total if total > 0 else 0.0


def _regressed(data: ValueData, pi_e: Floats, pi_b: Floats, learner: Any, seed: int) -> _Chain:
    """The chain regressed on the next state, one model for each t, inside the range that it has there.

    Without a learner: a log-linear regression on the state and its products, which begins where that of the step
    before has ended.
    """
    log, ratio = data.log, pi_e / pi_b
    design = None if learner is not None else Quadratic.of(data)
    features = data.table(encoded=False) if design is None else design.matrix
    weight = or_ones(data.weight, len(data.rows))
    alive = _Alive.of(data, weight)
    fit = _Chain(log, features, {0: _Level(1.0, 1.0)}, alive.share)
    chain = np.zeros(len(log.action))
    for t, at in reversed(list(data.backward())):
        rows = data.rows[at]
        if t > 0 and len(at):
            y = chain[rows - 1]
            X = take_rows(features, log.context.positions(rows))
            fit.models[t] = _fit_step(X, y, weight[at], learner, seed, fit.models.get(t - 1))
        chain[rows] = fit.predict(rows) * ratio[at]
        alive.note(t, at, chain)
    return fit


def _fit_step(X: Any, y: Floats, weight: Floats, learner: Any, seed: int, before: _Level | None) -> _Level:
    """One step's regression, held between 0 and the largest product seen; divided by its mean."""
    if not weight.any():  # only units of weight 0 come this far: whatever it is, it adds nothing
        weight = np.ones_like(weight)
    level = float(np.average(y, weights=weight))
    if len(y) < FEW_ROWS or np.ptp(y) == 0 or level <= 0:
        return _Level(level, level)
    model: Any
    if learner is not None:
        model = fitted(learner, X, y, weight, seed)
    else:
        start = before.model if before is not None else None
        model = LogLinear.fit(X, y, weight, start)
    made = _Level(level, float(y.max()), model)
    mean = float(np.average(made.predict(X), weights=weight))
    return replace(made, scale=level / mean if mean > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class _Level:
    """w_t(s): a constant, or a regression held inside [0, most]."""

    level: float
    most: float
    model: Any = None
    scale: float = 1.0

    def predict(self, X: Any) -> Floats:
        if self.model is None:
            return np.full(len(X), self.level)
        raw = np.clip(np.asarray(self.model.predict(X), dtype=np.float64), 0.0, self.most)
        return self.scale * raw


@dataclass(frozen=True, eq=False)
class _Chain:
    log: Log
    features: Any
    models: dict[int, _Level]
    alive: Floats

    def predict(self, rows: Ints, product: Floats | None = None) -> Floats:
        """(m,) w_t(s); steps that no training episode has get the product of the ratios that led to them."""
        out = np.zeros(len(rows)) if product is None else product.copy()
        for t, at in by_step(self.log, rows).items():
            model = self.models.get(t)
            if model is not None:
                out[at] = model.predict(take_rows(self.features, self.log.context.positions(rows[at])))
        return out
