"""Roll a fitted model of the environment forward under π_e: q as a mean over simulated returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.errors import ModelError
from offpolicy.models.fitting.learners import fitted
from offpolicy.models.values.values import ENDED, UNKNOWN

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.values.values import ValueData

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
        weight = None if data.weight is None else data.weight[onward]
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
            "simulation asks the policy about states that are not in the log, which an array of "
            "probabilities cannot answer. Give the policy as a function of the state."
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
