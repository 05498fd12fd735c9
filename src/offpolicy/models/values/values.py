"""Value models {q_t}: what is asked of one, and the training data it gets.

A value model has ``fit_values(data, seed)`` and gives something with ``predict(rows)``: q_t(S_t, A_t) and
v_t(S_t) = Σ_a π_e(a|S_t) q_t(S_t, a) at steps it was not fitted on. q depends on π_e, so there is one fit for
every policy and training set. After the end of an episode rewards and values are 0; the step after the
horizon is never looked at (q_T = μ).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy._arrays import picked
from offpolicy.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target

ENDED, UNKNOWN = -1, -2


@dataclass(frozen=True, eq=False)
class StatePolicy:
    """π_e asked by row of the log, or by discrete state and step."""

    target: Target
    log: Log
    _kept: dict[Any, Floats] = field(default_factory=dict, repr=False)

    @property
    def is_timed(self) -> bool:
        """Whether π depends on t as well as on the state."""
        return self.target.elsewhere is not None and not self.target.shares_context

    @property
    def is_stationary(self) -> bool:
        """Whether π depends on the discrete state alone."""
        return bool(self.target.shares_context)

    def at_rows(self, rows: Ints) -> Floats:
        """(m, K) probabilities at rows of the log."""
        context = self.log.context
        return self.target.probabilities(context.positions(rows) if self.target.shares_context else rows)

    def read_off(self, table: Floats, rows: Ints, pi: Floats | None = None) -> tuple[Floats, Floats]:
        """(m,) q at the logged actions and (m,) v, from (m, K) values of every action at rows of the log."""
        pi = self.at_rows(rows) if pi is None else pi
        return table[np.arange(len(rows)), self.log.action[rows]], (pi * table).sum(axis=1)

    def needed(self, rows: Ints) -> tuple[Ints, Ints, Floats]:
        """Pairs (position among the rows, action) that q and v rest on, those logged or π_e > 0; and π_e."""
        pi = self.at_rows(rows)
        need = pi > 0
        need[np.arange(len(rows)), self.log.action[rows]] = True
        row, code = np.nonzero(need)
        return row, code, pi

    def at_states(self, t: int) -> Floats:
        """(n_states, K) probabilities of every discrete state at step t.

        A policy known on the log's rows only (an array) is read off the rows of state and step, then of
        the state at any step.
        """
        target, n = self.target, self.log.context.n_table
        if target.shares_context:
            if "states" not in self._kept:
                self._kept["states"] = target.probabilities(np.arange(n))
            return self._kept["states"]
        if target.elsewhere is not None:
            states = self.log.context.native(np.arange(n))
            return target.elsewhere(states, np.full(n, t, dtype=np.int64))
        if "anywhere" not in self._kept:
            self._kept["anywhere"] = self._mean_of(np.arange(len(self.log.action)), None)
        rows = np.flatnonzero(self.log.layout.step == t)
        return self._mean_of(rows, self._kept["anywhere"])

    def _mean_of(self, rows: Ints, otherwise: Floats | None) -> Floats:
        n, k = self.log.context.n_table, self.target.n_actions
        state = self.log.context.positions(rows)
        pi = self.at_rows(rows)
        count = np.bincount(state, minlength=n)[:, None]
        total = np.column_stack([np.bincount(state, weights=pi[:, a], minlength=n) for a in range(k)])
        mean = np.full((n, k), 1.0 / k) if otherwise is None else otherwise
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), mean))


def _let_go() -> Floats:
    raise AssertionError("ratios are there while a model is fitted.")


@dataclass(frozen=True, eq=False)
class ValueData:
    """Training steps of a value model: whole episodes, in order.

    Attributes
    ----------
    log : Trajectories
        The whole log, whose rows ``rows`` point at. Rewards of other rows must not be looked at.
    rows : (m,) int array
        Training steps.
    weight : (m,) array or None
        Mass of each step in regressions.
    table : callable
        Learner table, encoded or not: ``table(encoded=…)``.
    ratios : callable
        (m,) π_e / π_b of the training steps, with π_b as known in this fold; for models that balance.
    """

    log: Log
    rows: Ints
    policy: StatePolicy
    discount: float
    weight: Floats | None
    table: Callable[..., Any]
    ratios: Callable[[], Floats]

    @property
    def horizon(self) -> int:
        """The paper's T + 1."""
        return int(self.log.horizon)

    @property
    def layout_horizon(self) -> int:
        """Steps of the longest logged episode."""
        return int(self.log.layout.horizon)

    @property
    def unbounded(self) -> bool:
        """Whether the value goes on after the longest logged episode, until an episode ends."""
        return bool(self.log.unbounded)

    @cached_property
    def complete(self) -> Bools:
        """(m,) steps whose outcome R + γ v(next) is known: not those after which an episode was truncated."""
        last = (self.step == self.horizon - 1) & (not self.unbounded)
        return np.asarray((self.following >= ENDED) | last)

    def let_go(self) -> None:
        """Forget where ratios come from, once a model is fitted: that knows all fits, this one among them."""
        object.__setattr__(self, "ratios", _let_go)

    def part(self, members: Bools) -> ValueData:
        """The data of some training steps: whole episodes."""
        weight = picked(self.weight, members)
        return replace(self, rows=self.rows[members], weight=weight, ratios=lambda: self.ratios()[members])

    @cached_property
    def step(self) -> Ints:
        """(m,) t of each training step."""
        return np.asarray(self.log.layout.step[self.rows])

    @cached_property
    def following(self) -> Ints:
        """(m,) row of the next step; ENDED after termination; UNKNOWN after the horizon or a truncation.

        Of linked slots each earns its own reward: nothing follows.
        """
        layout = self.log.layout
        if layout.link is not None:
            return np.full(len(self.rows), ENDED, dtype=np.int64)
        out = self.rows + 1
        unit = layout.unit[self.rows]
        last = self.rows == layout.offsets[1:][unit] - 1
        out[last] = np.where(self.log.ended[unit[last]], ENDED, UNKNOWN)
        return np.asarray(out)

    @cached_property
    def position(self) -> Ints:
        """Position among the training steps of each row of the log; −1 for other rows."""
        out = np.full(len(self.log.action), -1, dtype=np.int64)
        out[self.rows] = np.arange(len(self.rows))
        return out

    @cached_property
    def numbers(self) -> Floats:
        """(n_table, …) states as numbers: arrays as they are, ids one-hot, frames encoded."""
        context = self.log.context
        if context.is_frame:
            return np.asarray(self.table(encoded=True).matrix, dtype=np.float64)
        table = np.asarray(context.table)
        if table.ndim == 1:
            return np.asarray(self.table(encoded=False), dtype=np.float64)
        return np.asarray(table)

    @property
    def reward(self) -> Floats:
        """(m,) R_t."""
        return np.asarray(self.log.reward[self.rows])

    @property
    def action(self) -> Ints:
        """(m,) codes of A_t."""
        return np.asarray(self.log.action[self.rows])

    def backward(self) -> Iterator[tuple[int, Ints]]:
        """Yield (t, positions among the training steps with that t), from the last t to 0."""
        short = self.horizon < 2**16
        order = np.argsort(self.step.astype(np.uint16) if short else self.step, kind="stable")
        bounds = np.searchsorted(self.step[order], np.arange(self.horizon + 1))
        for t in range(self.horizon - 1, -1, -1):
            yield t, order[bounds[t] : bounds[t + 1]]


class FittedValues(Protocol):
    """{q̂_t} of one training set and one policy."""

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        """(m,) q at the logged actions and (m,) v, at rows of the log."""
        ...


class ValueModel(Protocol):
    """Anything that can be fitted to transitions."""

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Fit on the training steps."""
        ...


def next_values(following: Ints, v: Floats) -> Floats:
    """(m,) v at the next step, 0 where there is none; ``v`` is indexed by row of the log."""
    return np.where(following >= 0, v[np.maximum(following, 0)], 0.0)


def by_step(log: Log, rows: Ints) -> dict[int, Ints]:
    """Positions among ``rows`` of each step t that occurs."""
    if len(rows) == 0:
        return {}
    step = log.layout.step[rows]
    # Short integers are sorted by radix, in linear time.
    order = np.argsort(step.astype(np.uint16) if log.horizon < 2**16 else step, kind="stable")
    present, first = np.unique(step[order], return_index=True)
    return {int(t): part for t, part in zip(present, np.split(order, first[1:]), strict=True)}


def check_finite(values: Array, model: Any) -> None:
    """A model that diverged must not pass for an estimate."""
    if not np.isfinite(values).all():
        raise ModelError(
            f"{type(model).__name__} predicted values that are not finite. At a long horizon an "
            "extrapolating regressor can diverge; use one that averages (trees, neighbors) or a smaller "
            "discount."
        )


def returns(data: ValueData) -> Floats:
    """(m,) logged discounted rewards from each training step on, which tell states apart."""
    total = np.zeros(len(data.log.action))
    out, reward = np.zeros(len(data.rows)), data.reward
    for _, at in data.backward():
        later = data.following[at]
        out[at] = reward[at] + data.discount * np.where(later >= 0, total[np.maximum(later, 0)], 0.0)
        total[data.rows[at]] = out[at]
    return out
