"""`ModelBased`: an estimated reward and transition model, from which q follows by recursion or simulation.

Recursion (kernel-based, Ormoneit and Sen 2002): the transition from (s, a) is a draw from the successors of
the k training steps with action a whose states are nearest to s, so that

    q_t(s, a) = (1/k) Σ_{j near s, A_j = a} {R_j + γ v_{t+1}(S'_j)},

and v is needed at training states only. Simulation: roll the fitted model forward under π_e from every scored
step, with residuals of the training steps as noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import ModelError, check_choice, check_count
from offpolicy.models.fitting.learners import fitted
from offpolicy.models.values.tabular import Tabular
from offpolicy.models.values.values import ENDED, UNKNOWN, by_step, next_values

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.values.values import FittedValues, ValueData


@checks_arguments
@dataclass(frozen=True, eq=False)
class ModelBased:
    """Reward and transition model, then q.

    Parameters
    ----------
    method : {"recursion", "simulation"}
        Discrete states: the recursion is `Tabular`'s. Continuous ones: see the module.
    neighbors : int
        Recursion: training steps that stand for a transition.
    reward, transition : regressors, optional
        Simulation: of R and of S' − S on (S, A); default: ridge regression with action interactions.
        ``transition`` must predict several outputs.
    dynamics : object with ``fit_dynamics(data, seed)``, optional
        Simulation: a model of your own in place of ``reward`` and ``transition``.
    draws : int
        Simulation: roll-outs for each step and action.

    Examples
    --------
    >>> ModelBased(neighbors=5).method
    'recursion'
    """

    method: Literal["recursion", "simulation"] = "recursion"
    neighbors: int = 10
    reward: Any = None
    transition: Any = None
    dynamics: Any = None
    draws: int = 10

    def __post_init__(self) -> None:
        check_choice("method", self.method, "recursion", "simulation")
        check_count("neighbors=", self.neighbors)
        check_count("draws=", self.draws)

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Fit the model on the training steps."""
        if self.method == "simulation":
            model = self.dynamics or LearnedDynamics(self.reward, self.transition)
            return Simulated(data, model.fit_dynamics(data, seed), self.draws, seed)
        if data.log.is_discrete:
            return Tabular().fit_values(data, seed)
        if data.policy.is_timed:
            raise ModelError(
                "the recursion pools steps, which does not work for a time-dependent policy. Use "
                "method='simulation' or FittedQ(…, time='step')."
            )
        return _Neighbors.fit(data, self.neighbors)


@dataclass(frozen=True, eq=False)
class _Neighbors:
    """Nearest training steps of each action, and v_t at the training steps."""

    data: ValueData
    center: Floats
    scale: Floats
    members: list[Ints]
    index: list[Any]
    v: Floats

    @classmethod
    def fit(cls, data: ValueData, k: int) -> _Neighbors:
        from sklearn.neighbors import NearestNeighbors

        states = data.numbers.reshape(len(data.numbers), -1)[data.log.context.positions(data.rows)]
        center, spread = states.mean(axis=0), states.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        known = data.following >= -1 if data.horizon > 1 else np.ones(len(data.rows), bool)
        members, index = [], []
        for a in range(len(data.log.actions)):
            rows = np.flatnonzero((data.action == a) & known)
            members.append(rows)
            if len(rows):
                search = NearestNeighbors(n_neighbors=min(k, len(rows)))
                index.append(search.fit((states[rows] - center) / scale))
            else:
                index.append(None)
        v = np.zeros((data.horizon + 1, len(data.rows)))
        fit = cls(data, center, scale, members, index, v)
        fit._recurse()
        return fit

    def _recurse(self) -> None:
        data = self.data
        near, pi = self._near(data.rows), data.policy.at_rows(data.rows)
        for t in range(data.horizon - 1, -1, -1):
            self.v[t] = (pi * self._q(t, near)).sum(axis=1)

    @cached_property
    def _after(self) -> Ints:
        """(m,) position of the next training step; −1 where there is none."""
        data = self.data
        return np.where(data.following >= 0, data.position[np.maximum(data.following, 0)], -1)

    def _near(self, rows: Ints) -> list[Ints | None]:
        """For each action, (m, k) positions of the nearest training steps."""
        numbers = self.data.numbers.reshape(len(self.data.numbers), -1)
        X = (numbers[self.data.log.context.positions(rows)] - self.center) / self.scale
        return [
            None if search is None else members[search.kneighbors(X, return_distance=False)]
            for members, search in zip(self.members, self.index, strict=True)
        ]

    def _q(self, t: int, near: list[Ints | None]) -> Floats:
        """(m, K) q_t; an action without training steps gets the mean of all of them."""
        data = self.data
        y = data.reward
        if t < data.horizon - 1:
            y = y + data.discount * next_values(self._after, self.v[t + 1])
        columns = [None if at is None else y[at].mean(axis=1) for at in near]
        width = next(len(c) for c in columns if c is not None)
        return np.column_stack([np.full(width, y.mean()) if c is None else c for c in columns])

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        q, v = np.empty(len(rows)), np.empty(len(rows))
        for t, at in by_step(self.data.log, rows).items():
            table = self._q(t, self._near(rows[at]))
            q[at], v[at] = self.data.policy.read_off(table, rows[at])
        return q, v


PAIRS_AT_ONCE = 200_000


class FittedDynamics(Protocol):
    """A model of one step."""

    def step(self, states: Floats, codes: Ints, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Mean reward (m,), a draw of the next state (m, p), and the probability that it was the last."""
        ...


@dataclass(frozen=True, eq=False)
class LearnedDynamics:
    """Regressions of R and S' − S on the state, the action and their products; residuals as noise.

    Parameters
    ----------
    reward, transition : regressors, optional
        Default: ridge regression.
    """

    reward: Any = None
    transition: Any = None

    def fit_dynamics(self, data: ValueData, seed: int) -> FittedDynamics:
        """Fit on the training steps."""
        from sklearn.linear_model import LogisticRegression, Ridge

        states, k = state_matrix(data), len(data.log.actions)
        here = states[data.log.context.positions(data.rows)]
        X = crossed(here, data.action, k)
        reward = fitted(self.reward or Ridge(1e-3), X, data.reward, data.weight, seed)
        onward = data.following >= 0
        weight = picked(data.weight, onward)
        change = residuals = None
        if onward.any():
            target = states[data.log.context.positions(data.following[onward])] - here[onward]
            change = fitted(self.transition or Ridge(1e-3), X[onward], target, weight, seed)
            predicted = np.asarray(change.predict(X[onward])).reshape(target.shape)
            residuals = target - predicted
        known = data.following != UNKNOWN
        over = data.following[known] == ENDED
        ends: Any = float(over.mean()) if known.any() else 0.0
        if over.any() and not over.all():
            ends = fitted(LogisticRegression(max_iter=500), X[known], over, None, seed)
        return _Learned(reward, change, residuals, ends, k)


@dataclass(frozen=True, eq=False)
class _Learned:
    reward: Any
    change: Any
    residuals: Floats | None
    ends: Any
    k: int

    def step(self, states: Floats, codes: Ints, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        X = crossed(states, codes, self.k)
        reward = np.asarray(self.reward.predict(X), dtype=np.float64).reshape(len(codes))
        over = np.full(len(codes), self.ends) if isinstance(self.ends, float) else self.ends.predict_proba(X)[:, 1]
        if self.change is None or self.residuals is None:
            return reward, states, np.ones(len(codes))
        noise = self.residuals[rng.integers(len(self.residuals), size=len(codes))]
        moved = np.asarray(self.change.predict(X)).reshape(states.shape)
        return reward, states + moved + noise, over


def crossed(states: Floats, codes: Ints, k: int) -> Floats:
    """(m, p) states, one-hot actions and the products of both."""
    one_hot = np.eye(k)[codes]
    products = (one_hot[:, :, None] * states[:, None, :]).reshape(len(states), -1)
    return np.hstack([states, one_hot, products])


def state_matrix(data: ValueData) -> Floats:
    """(n_table, p) states of a log whose policies can be asked about states outside it."""
    if data.policy.target.elsewhere is None:
        raise ModelError(
            "simulation visits states that are not in the log, for which an array has no "
            "probabilities. Give the policy as a function of the state."
        )
    context = data.log.context
    if context.is_frame or data.log.is_discrete:
        raise ModelError(
            "simulation needs numeric states in an array: ModelBased(method='simulation') does not take "
            "frames or discrete states. Use Tabular(), FittedQ(…) or method='recursion'."
        )
    return np.asarray(data.numbers, dtype=np.float64).reshape(context.n_table, -1)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Values by simulation."""

    data: ValueData
    dynamics: FittedDynamics
    draws: int
    seed: int

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        """(m,) q at the logged actions and (m,) v, at rows of the log."""
        log, policy = self.data.log, self.data.policy
        states = state_matrix(self.data)
        q, v = np.empty(len(rows)), np.empty(len(rows))
        block = max(1, PAIRS_AT_ONCE // (self.draws * len(log.actions)))
        for start in range(0, len(rows), block):
            at = np.arange(start, min(len(rows), start + block))
            row, code, pi = policy.needed(rows[at])
            here = states[log.context.positions(rows[at][row])]
            rng = np.random.default_rng([self.seed, start])
            table = np.zeros(pi.shape)
            table[row, code] = self._returns(here, code, log.layout.step[rows[at][row]], rng)
            q[at], v[at] = policy.read_off(table, rows[at], pi)
        return q, v

    def _returns(self, states: Floats, codes: Ints, step: Ints, rng: np.random.Generator) -> Floats:
        """(m,) mean simulated return from (state, action) at each step; survival is kept as a weight."""
        m = len(codes)
        states, codes = np.repeat(states, self.draws, axis=0), np.repeat(codes, self.draws)
        step = np.repeat(step, self.draws)
        total, weight = np.zeros(len(codes)), np.ones(len(codes))
        active = np.arange(len(codes))
        elsewhere = self.data.policy.target.elsewhere
        assert elsewhere is not None
        native = self.data.log.context.table
        while len(active):
            reward, following, over = self.dynamics.step(states[active], codes[active], rng)
            total[active] += weight[active] * reward
            weight[active] *= self.data.discount * (1 - over)
            states[active] = following
            step[active] += 1
            active = active[(step[active] < self.data.horizon) & (weight[active] > 1e-12)]
            if len(active):
                shown = states[active].reshape(len(active), *native.shape[1:]).astype(native.dtype)
                pi = elsewhere(shown, step[active])
                draw = rng.random(len(active))[:, None]
                codes[active] = np.minimum((pi.cumsum(axis=1) < draw).sum(axis=1), pi.shape[1] - 1)
        return np.asarray(total.reshape(m, self.draws).mean(axis=1))
