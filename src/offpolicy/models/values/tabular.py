"""`Tabular`: μ̂ and P̂ by cell means over discrete states, q by the paper's recursion.

    q_T = μ,   q_t(s, a) = μ(s, a) + γ Σ_{s'} P(s'|s, a) Σ_{a'} π_e(a'|s') q_{t+1}(s', a')   (Eqs. Q_T, Q_t)

Cells (s, a) without a training step take the mean of their state over the logged actions, and states without
one the mean over everything (at that t, when time-indexed). Smoothing adds pseudo-steps of that parent mean
to every cell. Termination is an absorbing end of value 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import ModelError, UsageError, check_choice
from offpolicy.models.values.values import ENDED, by_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.values.values import FittedValues, ValueData

DENSE_CELLS = 5_000_000
MOST_STEPS = 1_000
SETTLED = 1e-10


@checks_arguments
@dataclass(frozen=True)
class Tabular:
    """Cell means over discrete states and actions.

    Parameters
    ----------
    time : {"pooled", "step"}
        Whether steps share μ and P (a stationary environment), or each t has its own.
    smoothing : float
        Pseudo-steps of the state's mean in every cell; 0 takes cell means as they are.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> states = np.array([[0, 1], [0, 0], [1, 1], [1, 0]])
    >>> log = op.Trajectories.from_arrays(states, [[0, 1], [1, 1], [0, 0], [1, 0]],
    ...                                   [[1., 0], [0, 1], [0, 0], [1, 1]], propensities=np.full((4, 2), .5))
    >>> ev = op.evaluate(log, np.full((8, 2), 0.5), value_model=op.Tabular(), estimators=["DM"])
    >>> round(ev["DM"].value, 3)
    1.0
    """

    time: Literal["pooled", "step"] = "pooled"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_choice("time", self.time, "pooled", "step")
        if self.smoothing < 0:
            raise UsageError(f"smoothing= must be at least 0. Got {self.smoothing!r} instead.")

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Count and average."""
        log = data.log
        if not log.is_discrete:
            raise ModelError(
                "Tabular() needs discrete states: integer ids, or a log built with discrete=True. For "
                "other states use FittedQ(regressor)."
            )
        cells = Cells(log.context.n_table, len(log.actions), self.smoothing)
        if self.time == "pooled":
            return _Pooled(data, cells, _dynamics(data, cells))
        return _stepwise(data, cells)


@dataclass(frozen=True, eq=False)
class Cells:
    """Means over cells (s, a), with the stated convention for the empty ones."""

    n_states: int
    n_actions: int
    smoothing: float = 0.0

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.n_states * self.n_actions

    def of(self, state: Ints, action: Ints) -> Ints:
        """Cell of each (state, action)."""
        return state * self.n_actions + action

    def count(self, cell: Ints, weight: Floats | None) -> Floats:
        """(cells,) mass of each."""
        return np.bincount(cell, weights=weight, minlength=self.size).astype(np.float64)

    def mean(self, count: Floats, total: Floats) -> Floats:
        """(cells,) or (cells, …) means; empty cells get their state's mean, empty states the overall one."""
        shape = (self.n_states, self.n_actions)
        extra = (1,) * (total.ndim - 1)
        by_state = total.reshape(*shape, *total.shape[1:]).sum(axis=1)
        in_state = count.reshape(shape).sum(axis=1).reshape(self.n_states, *extra)
        mass = count.sum()
        overall = total.sum(axis=0) / mass if mass > 0 else np.zeros(total.shape[1:])
        parent = np.where(in_state > 0, by_state / np.where(in_state > 0, in_state, 1.0), overall)
        parent = np.repeat(parent, self.n_actions, axis=0)
        n = count.reshape(self.size, *extra)
        divisor = n + self.smoothing
        safe = np.where(divisor > 0, divisor, 1.0)
        return np.where(divisor > 0, (total + self.smoothing * parent) / safe, parent)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """μ̂, (cells,), and P̂ as a (cells, states) matrix whose rows sum to at most 1; and who was seen."""

    mean: Floats
    transition: Any
    seen: Bools


def _dynamics(data: ValueData, cells: Cells) -> Dynamics:
    state = data.log.context.positions(data.rows)
    cell = cells.of(state, data.action)
    count = cells.count(cell, data.weight)
    reward = data.reward if data.weight is None else data.reward * data.weight
    total = np.bincount(cell, weights=reward, minlength=cells.size).astype(np.float64)
    mean = cells.mean(count, total)
    transition = transition_matrix(data, cells, cell)
    return Dynamics(mean, transition, count > 0)


def transition_matrix(data: ValueData, cells: Cells, cell: Ints) -> Any:
    """P̂(s'|cell) from the steps whose successor is known; sparse when there are many cells."""
    known = data.following >= ENDED
    if not known.any():
        return np.zeros((cells.size, cells.n_states))
    onward = data.following >= 0
    weight = picked(data.weight, known)
    count = cells.count(cell[known], weight)
    start, end = cell[onward], data.log.context.positions(data.following[onward])
    mass = np.ones(len(start)) if data.weight is None else data.weight[onward]
    total = summed(start, end, mass, cells.size, cells.n_states)
    dense = isinstance(total, np.ndarray)
    return cells.mean(count, total) if dense else _sparse_transitions(cells, count, total)


def summed(start: Ints, end: Ints, mass: Floats, rows: int, columns: int) -> Any:
    """(rows, columns) sums of mass by (start, end), sparse when there are many."""
    if rows * columns <= DENSE_CELLS:
        flat = np.bincount(start * columns + end, weights=mass, minlength=rows * columns)
        return flat.reshape(rows, columns).astype(np.float64)
    from scipy import sparse

    return sparse.coo_array((mass, (start, end)), shape=(rows, columns)).tocsr()


@dataclass(frozen=True, eq=False)
class SparseTransitions:
    """P̂ as a sparse matrix, and one row (that of all steps) for the cells whose state was never seen."""

    matrix: Any
    unseen: Floats
    overall: Floats

    def __matmul__(self, v: Floats) -> Floats:
        return np.asarray(self.matrix @ v + self.unseen * float(self.overall @ v))


def _sparse_transitions(cells: Cells, count: Floats, total: Any) -> SparseTransitions:
    """The same means by sparse algebra: P = D (N + smoothing · parent rows)."""
    from scipy import sparse

    state_of = np.arange(cells.size) // cells.n_actions
    group = sparse.csr_array(
        (np.ones(cells.size), (state_of, np.arange(cells.size))), shape=(cells.n_states, cells.size)
    )
    in_state = group @ count
    by_state = sparse.diags_array(1.0 / np.where(in_state > 0, in_state, 1.0)) @ (group @ total)
    parent = by_state.tocsr()[state_of]
    divisor = count + cells.smoothing
    safe = np.where(divisor > 0, divisor, 1.0)
    share = np.where(divisor > 0, cells.smoothing / safe, 1.0)
    matrix = sparse.diags_array(1.0 / safe) @ total + sparse.diags_array(share) @ parent
    overall = np.asarray(total.sum(axis=0)).reshape(-1) / count.sum()
    unseen = np.where(in_state[state_of] > 0, 0.0, 1.0)
    return SparseTransitions(matrix.tocsr(), unseen, overall)


def read_off(log: Log, tables: Iterator[tuple[int, Floats, Floats]], rows: Ints) -> tuple[Floats, Floats]:
    """(m,) q and v at rows of the log, from (t, q_t, v_t) given one t at a time."""
    state, action = log.context.positions(rows), log.action[rows]
    where = by_step(log, rows)
    q, v = np.empty(len(rows)), np.empty(len(rows))
    for t, table, value in tables:
        at = where.get(t)
        if at is not None:
            q[at] = table[state[at], action[at]]
            v[at] = value[state[at]]
    return q, v


@dataclass(frozen=True, eq=False)
class _Pooled:
    """Stationary μ̂ and P̂; the recursion is run when asked, so that one q_t is held at a time."""

    data: ValueData
    cells: Cells
    dynamics: Dynamics

    @property
    def seen(self) -> Bools:
        """(S, K) pairs with a training step."""
        return self.dynamics.seen.reshape(self.cells.n_states, self.cells.n_actions)

    def tables(self) -> Iterator[tuple[int, Floats, Floats]]:
        """(t, q_t, v_t) for t = T, …, 0."""
        shape = (self.cells.n_states, self.cells.n_actions)
        data, last = self.data, self.data.horizon - 1
        after: Floats | None = None
        if data.unbounded:
            pi = data.policy.at_states(last)
            after = (pi * self.unbounded(pi).reshape(shape)).sum(axis=1)
        settled = data.unbounded and data.policy.is_stationary
        for t in range(last, -1, -1):
            if t == last or not settled:
                onward = 0.0 if after is None else self.dynamics.transition @ after
                q = np.asarray(self.dynamics.mean + data.discount * onward).reshape(shape)
                after = (data.policy.at_states(t) * q).sum(axis=1)
            assert after is not None
            yield t, q, after

    def unbounded(self, pi: Floats) -> Floats:
        """(cells,) q of whole episodes: the fixed point of q = μ + γ P Σ_a π q.

        Reached by the steps themselves, so that it exists where the target never ends: at most `MOST_STEPS` or
        twenty times the longest logged episode are counted then.
        """
        shape = (self.cells.n_states, self.cells.n_actions)
        mean, discount = self.dynamics.mean, self.data.discount
        q = mean
        scale = float(np.abs(mean).max(initial=0.0))
        for _ in range(max(MOST_STEPS, 20 * self.data.horizon)):
            v = (pi * q.reshape(shape)).sum(axis=1)
            after = mean + discount * (self.dynamics.transition @ v)
            change = float(np.abs(after - q).max(initial=0.0))
            q = after
            if change <= SETTLED * scale:
                break
        return np.asarray(q)

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        return read_off(self.data.log, self.tables(), rows)


@dataclass(frozen=True, eq=False)
class _Stepped:
    """One (q_t, v_t) for each t."""

    log: Log
    kept: list[tuple[Floats, Floats]]
    seen: Bools

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        return read_off(self.log, ((t, q, v) for t, (q, v) in enumerate(self.kept)), rows)


def _stepwise(data: ValueData, cells: Cells) -> FittedValues:
    """One μ and P for each t: q_t is the cell mean of R_t + γ v_{t+1}(S_{t+1})."""
    context, reward = data.log.context, data.reward
    cell = cells.of(context.positions(data.rows), data.action)
    onward = data.following >= 0
    after = np.where(onward, context.positions(np.maximum(data.following, 0)), 0)
    v = np.zeros(cells.n_states)
    kept: list[tuple[Floats, Floats]] = []
    for t, at in data.backward():
        weight = picked(data.weight, at)
        y = reward[at] + data.discount * np.where(onward[at], v[after[at]], 0.0)
        mass = y if weight is None else y * weight
        total = np.bincount(cell[at], weights=mass, minlength=cells.size).astype(np.float64)
        q = cells.mean(cells.count(cell[at], weight), total).reshape(cells.n_states, -1)
        v = (data.policy.at_states(t) * q).sum(axis=1)
        kept.append((q, v))
    seen = cells.count(cell, None).reshape(cells.n_states, -1) > 0
    return _Stepped(data.log, kept[::-1], seen)
