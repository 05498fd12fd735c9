"""`AutoQ`: the default value model of continuous states, chosen by its held-out Bellman error.

Fitted Q evaluation with one regression per action, pooled over steps (a stationary environment), whose structure is
fixed: linear, quadratic, averages over trees or over neighbors. The candidates are fitted to two thirds of the training
episodes; on the others a model's Bellman residual R + γ v_{t+1}(S') − q_t(S, A) has, if q is right, mean 0 whatever
(S, A) and t. How much of it a tree and a quadratic regression can predict out of sample is its Bellman error (the
squared residual itself would reward flat values, whose v(S') varies less). The candidate with the smallest is fitted to
all training episodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import ModelError, UsageError, did_you_mean
from offpolicy.logs.log import DETAIL
from offpolicy.models.auto import resolved
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.values.basis import LinearSmoother, NeighborSmoother, TreeSmoother, products, solver, state_matrix
from offpolicy.models.values.fitted_q import FittedQ
from offpolicy.models.values.tabular import Tabular
from offpolicy.models.values.values import ENDED, by_step, returns

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.values.basis import Smoother
    from offpolicy.models.values.values import FittedValues, ValueData, ValueModel


CANDIDATES = ("linear", "quadratic", "neighbors", "trees")
MOST_ROWS = {"linear": 200_000, "quadratic": 200_000, "trees": 20_000, "neighbors": 8_000}
MOST_COLUMNS = 200  # wider states are left to FittedQ
FEW_ROWS = 200
MOST_STEPS = 500
SETTLED = 1e-5
JUDGED_ROWS = 20_000
FEW_JUDGED = 20
TIE = 0.01


@checks_arguments
@dataclass(frozen=True)
class AutoQ:
    """Fitted Q evaluation whose regression is chosen by held-out Bellman error.

    Parameters
    ----------
    candidates : tuple of {"linear", "quadratic", "neighbors", "trees"}
        What to choose from, the simplest first.

    Examples
    --------
    >>> AutoQ(candidates=("quadratic",))
    AutoQ(candidates=('quadratic',))
    """

    candidates: tuple[str, ...] = CANDIDATES
    one_step: str = field(default="auto", init=False, repr=False)

    def __post_init__(self) -> None:
        for name in self.candidates:
            if name not in CANDIDATES:
                raise UsageError(f"no candidate is called {name!r}.{did_you_mean(name, CANDIDATES)}")
        if not self.candidates:
            raise UsageError("candidates= is empty. Name at least one.")

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Choose, then fit to all training steps."""
        wide = int(np.prod(np.shape(data.numbers)[1:])) > MOST_COLUMNS
        usable = int((data.following >= ENDED).sum())
        if data.policy.is_timed or wide or usable < FEW_ROWS:
            return FittedQ().fit_values(data, seed)
        states = state_matrix(data)
        chosen = self.candidates[0]
        if len(self.candidates) > 1:
            chosen = choose(data, states, self.candidates, seed)
        return recursion(chosen, data, states, seed)


def choose(data: ValueData, states: Floats, candidates: tuple[str, ...], seed: int) -> str:
    """The candidate of smallest Bellman error on a third of the training episodes."""
    unit = data.log.layout.unit[data.rows]
    units = np.unique(unit)
    rng = np.random.default_rng(seed)
    held_units = rng.permutation(units)[: max(len(units) // 3, 1)]
    held = np.isin(unit, held_units)
    if held.all() or len(held_units) < 2:
        return candidates[0]
    training, validation = data.part(~held), data.part(held)
    errors, sizes = {}, {}
    judge = Judge.of(validation, states, seed)
    for name in candidates:
        model = recursion(name, training, states, seed)
        errors[name], sizes[name] = judge.bellman_error(model)
    best = min(errors, key=lambda name: errors[name])
    # Errors that differ by less than their noise do not: the first candidate, which is the simplest, is taken.
    return next(n for n in candidates if errors[n] <= errors[best] + TIE * sizes[best])


@dataclass(frozen=True, eq=False)
class Judge:
    """Regressions of a residual on (S, A, t) in held-out episodes, each half predicted from the other.

    What they regress on is the same for every candidate, so the designs of the ridge regression are prepared once.
    """

    data: ValueData
    rows: Ints
    X: Floats
    halves: tuple[Bools, Bools]
    seed: int

    @classmethod
    def of(cls, data: ValueData, states: Floats, seed: int) -> Judge:
        """On the complete steps of some episodes, or on as many of them as are judged."""
        rows = np.flatnonzero(data.complete)
        if len(rows) > JUDGED_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, JUDGED_ROWS, replace=False))
        time = data.step[rows] / max(data.layout_horizon - 1, 1)
        action = np.eye(len(data.log.actions))[data.action[rows]]
        X = np.column_stack([states[data.log.context.positions(data.rows[rows])], action, time])
        half = data.log.layout.unit[data.rows[rows]] % 2 == 0
        return cls(data, rows, X, (half, ~half), seed)

    @property
    def too_few(self) -> bool:
        """Whether a half is too small for a regression."""
        return bool(min(half.sum() for half in self.halves) < FEW_JUDGED)

    @cached_property
    def _ridges(self) -> list[tuple[Any, Floats]]:
        """The solver of each half's regression, and the columns of the other half."""
        design = products(self.X)
        first, second = (design[half] for half in self.halves)
        return [(solver(first), second), (solver(second), first)]

    def bellman_error(self, model: FittedValues) -> tuple[float, float]:
        """Mean square of the Bellman residual that regressions predict out of sample, and its whole mean square."""
        data = self.data
        q, v = model.predict(data.rows)
        if not (np.isfinite(q).all() and np.isfinite(v).all()):
            return np.inf, np.inf
        following = np.where(data.following >= 0, v[data.position[np.maximum(data.following, 0)]], 0.0)
        y = (data.reward + data.discount * following - q)[self.rows]
        if self.too_few:
            return float(np.mean(y) ** 2), float(np.mean(y**2))
        return max(self._gain(y, self._ridge(y)), self._gain(y, self._tree(y))), float(np.mean(y**2))

    def _ridge(self, y: Floats) -> list[Floats]:
        return [X @ solve(y[half]) for half, (solve, X) in zip(self.halves, self._ridges, strict=True)]

    def _tree(self, y: Floats) -> list[Floats]:
        from sklearn.tree import DecisionTreeRegressor

        tree = DecisionTreeRegressor(max_leaf_nodes=32, min_samples_leaf=20, random_state=self.seed % 2**31)
        return [tree.fit(self.X[fit], y[fit]).predict(self.X[~fit]) for fit in self.halves]

    def _gain(self, y: Floats, predictions: list[Floats]) -> float:
        """Mean square of y that a regression fitted to one half predicts in the other: E[2 y f − f²]."""
        others = zip(reversed(self.halves), predictions, strict=True)
        return float(sum(np.sum(2 * y[half] * f - f * f) for half, f in others)) / len(y)


def recursion(name: str, data: ValueData, states: Floats, seed: int) -> PooledQ:
    """q_t, …, q_0 by one structure: R + γ v_{t+1}(S') regressed at every step."""
    # The last step before the horizon says nothing of what would follow it: steps are pooled without it.
    use = np.flatnonzero(data.following >= ENDED)
    if len(use) > MOST_ROWS[name]:
        use = np.sort(np.random.default_rng(seed).choice(use, MOST_ROWS[name], replace=False))
    rows, log = data.rows[use], data.log
    k = len(log.actions)
    here = states[log.context.positions(rows)]
    weight = picked(data.weight, use)
    groups = [np.flatnonzero(data.action[use] == a) for a in range(k)]
    stand_in = returns(data)[use]
    smoothers = [_smoother(name, here[g], stand_in[g], picked(weight, g), seed) if len(g) else None for g in groups]
    following = data.following[use]
    onward = np.flatnonzero(following >= 0)
    next_rows = following[onward]
    after = states[log.context.positions(next_rows)]
    pi = np.asfortranarray(data.policy.at_rows(next_rows))
    reward = data.reward[use]
    maps = [None if s is None else s.matrix(after) for s in smoothers]
    levels = [float(reward[g].mean()) if len(g) else float(reward.mean()) for g in groups]
    bounds = _Bounds.of(data)
    kept: list[list[Floats]] = []
    v = np.zeros(len(onward))
    steps = MOST_STEPS if data.unbounded else data.horizon
    for step in range(steps):
        y = reward.copy()
        if step > 0 or data.unbounded:
            y[onward] += data.discount * v
        fitted = [
            np.array([levels[a]]) if s is None else s.fit(y[g])
            for a, (s, g) in enumerate(zip(smoothers, groups, strict=True))
        ]
        before = v
        v = np.zeros(len(onward))
        for a, matrix in enumerate(maps):
            q = levels[a] if matrix is None else matrix @ fitted[a]
            v += pi[:, a] * bounds.held(q, step)
        if not data.unbounded:
            kept.append(fitted)
        elif np.abs(v - before).max(initial=0.0) <= SETTLED * max(1.0, np.abs(v).max(initial=0.0)):
            break
    if data.unbounded:
        kept = [fitted]
    return PooledQ(name, data, states, smoothers, levels, kept, bounds)


def _smoother(name: str, states: Floats, stand_in: Floats, weight: Floats | None, seed: int) -> Smoother:
    if name == "trees":
        return TreeSmoother.of(states, stand_in, weight, seed)
    if name == "neighbors":
        return NeighborSmoother.of(states)
    return LinearSmoother.of(states, weight, quadratic=name == "quadratic")


@dataclass(frozen=True)
class _Bounds:
    """What a value can be: as many rewards as steps are left, each inside the logged range, or 0 after the end."""

    low: float
    high: float
    discount: float
    unbounded: bool

    @classmethod
    def of(cls, data: ValueData) -> _Bounds:
        reward = data.reward
        low, high = min(float(reward.min()), 0.0), max(float(reward.max()), 0.0)
        return cls(low, high, data.discount, data.unbounded)

    def held(self, q: Any, step: int) -> Any:
        """Hold q, with ``step`` + 1 steps to go, inside its range."""
        if self.unbounded and self.discount == 1:
            return q
        steps = np.inf if self.unbounded else step + 1
        left = steps
        if self.discount < 1:
            left = (1 - self.discount**steps) / (1 - self.discount)
        return np.clip(q, self.low * left, self.high * left)


@dataclass(frozen=True, eq=False)
class PooledQ:
    """Coefficients by the number of steps to go."""

    name: str
    data: ValueData
    states: Floats
    smoothers: list[Any]
    levels: list[float]
    kept: list[list[Floats]]
    bounds: _Bounds

    @cached_property
    def note(self) -> str:
        """What was chosen."""
        return f"{DETAIL}q: {self.name}"

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        """(m,) q at the logged actions and (m,) v."""
        log, policy = self.data.log, self.data.policy
        here = self.states[log.context.positions(rows)]
        action, pi = log.action[rows], policy.at_rows(rows)
        q, v = np.zeros(len(rows)), np.zeros(len(rows))
        where = by_step(log, rows)
        for a, s in enumerate(self.smoothers):
            need = np.flatnonzero((action == a) | (pi[:, a] > 0))
            value = np.full(len(rows), self.levels[a])
            if s is not None and len(need):
                features = s.features(here[need])
                place = np.full(len(rows), -1, dtype=np.int64)
                place[need] = np.arange(len(need))
                for t, at in where.items():
                    asked = at[place[at] >= 0]
                    left = 0 if self.data.unbounded else max(self.data.horizon - 1 - t, 0)
                    found = s.predict(features[place[asked]], self.kept[left][a])
                    value[asked] = self.bounds.held(found, left)
            q = np.where(action == a, value, q)
            v += pi[:, a] * np.where(pi[:, a] > 0, value, 0.0)
        return q, v


def _boosted_q() -> FittedQ:
    from lightgbm import LGBMRegressor

    return FittedQ(LGBMRegressor(n_estimators=100, verbosity=-1))


#: Value models in words, the same in Python and on the command line.
VALUE_WORDS: dict[str, Callable[[], Any]] = {"auto": AutoQ, "tabular": Tabular, "fitted-q": _boosted_q}


def as_value_model(spec: Any, log: Log) -> ValueModel:
    """Resolve ``value_model=``: None, "auto", a learner, or an object with ``fit_values``."""
    if spec is None:
        own: ValueModel = log.unit_kind.value_model(log)
        return own
    model: ValueModel | None = resolved("value_model=", spec, "fit_values", VALUE_WORDS)
    if model is not None:
        return model
    if is_learner(spec) or hasattr(spec, "fit_reward"):
        return FittedQ(spec)
    raise ModelError(
        "value_model= must be offpolicy.Tabular(), AutoQ(), FittedQ(regressor), ModelBased(…), TorchValue(…), a "
        "scikit-learn regressor, a (steps, K) array, or an object with fit_values(data, seed). "
        f"Got {spec!r} instead."
    )
