"""Behavior models of episodes: shares per discrete state, time as a feature, and agents that explore.

An agent that explores is a multinomial logit, but for a share of actions taken at random:

    π_b(a|s) = ε/K + (1 − ε) softmax(B's)_a.

Policies that collect episodes rarely rule an action out: they take one at random now and then, or keep every
probability above a floor. A logit alone has no floor; what it gets wrong in its tails, a weight of many steps
multiplies. ε and B maximize the likelihood together; ε = 0 is the logit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError, UsageError, check_choice
from offpolicy.models.behavior.auto_behavior import LogisticBehavior
from offpolicy.models.behavior.behavior import share_of_unseen
from offpolicy.models.behavior.resolve import fit_inner, inner_wants_encoded
from offpolicy.models.behavior.state_kinds import Kinds
from offpolicy.models.fitting.encode import LinearDesign

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior


PSEUDO_STEPS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0, 1_000.0)
MANY_STEPS, AT_MOST = 30, 5.0  # a state seen often is not smoothed by more, whatever is chosen for the others


@checks_arguments
@dataclass(frozen=True)
class StateShares:
    """Action shares in each discrete state, backing off to what the other states show.

    A state with n steps gives π̂_b(a|s) = (n_a + c p_a) / (n + c): shares as they are where a state was seen often, p
    where it was not. p is the share of each action over all states; equal shares; or what states of the same kind show,
    those that have the same most frequent action (`Kinds`). p and c are chosen by the likelihood of each step under the
    counts without it, unless c is given (then p is the first). A fixed c that is too large is harmful in long episodes,
    whose weights multiply the error; one that is too small leaves rare actions to chance. States with more than 30
    steps get at most 5 pseudo-steps.

    Counts are of all episodes, those to be scored among them. Nothing is learned from rewards here, and shares of the
    same steps that they divide are the better weights (Hirano, Imbens and Ridder 2003): where an action was taken more
    often than π_b has it, each of its steps counts for less. Shares of other folds would add their own chance, which
    no standard error shows, and would call a logged action all but impossible that they happen not to hold.

    Parameters
    ----------
    smoothing : float or "auto"
        c, in pseudo-steps added to every state; 0 takes shares as they are.
    time : {"pooled", "step"}
        Whether steps share one policy, or each t has its own.

    Examples
    --------
    >>> StateShares(smoothing=0.5)
    StateShares(smoothing=0.5, time='pooled')
    """

    smoothing: float | Literal["auto"] = "auto"
    time: Literal["pooled", "step"] = "pooled"
    counts_everyone = True

    def __post_init__(self) -> None:
        if self.smoothing != "auto" and not float(self.smoothing) >= 0:
            raise UsageError(f"smoothing= must be 'auto' or at least 0. Got {self.smoothing!r} instead.")
        check_choice("time", self.time, "pooled", "step")

    def groups(self, log: Log, rows: Ints) -> Ints | None:
        """States, at each step where each has its own policy: inside them shares are taken."""
        if log.context.index is None:
            return None
        state = log.context.positions(rows)
        if self.time == "pooled":
            return np.asarray(state)
        return np.asarray(log.layout.step[rows] * log.context.n_table + state)

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Count."""
        if data.batch is None:
            raise ModelError("StateShares() needs trajectories with discrete states.")
        k = data.n_actions
        n_states = int(data.batch.max()) + 1
        cell = data.batch * k + data.action
        tally = np.bincount(cell, weights=data.weight, minlength=n_states * k)
        counts: Floats = tally.astype(np.float64).reshape(n_states, k)
        fixed = None if self.smoothing == "auto" else float(self.smoothing)
        return _BackedOff.of(counts, fixed, share_of_unseen(data))


@dataclass(frozen=True, eq=False)
class _BackedOff:
    """Shares by state with pseudo-steps of a parent's: (S + 1, K), the last row that of a state without steps."""

    table: Floats
    parent: str
    steps: float
    floor: float

    @classmethod
    def of(cls, counts: Floats, steps: float | None, floor: float) -> _BackedOff:
        """Choose the parent and the pseudo-steps, unless these are given, and smooth."""
        parents = _parents(counts)
        parent, c = (parents[0], steps) if steps is not None else _best(counts, parents)
        total, overall = counts.sum(axis=1, keepdims=True), parents[0].shares
        added = np.where((total > MANY_STEPS) & (steps is None), min(c, AT_MOST), c)
        divisor = total + added
        shares = (counts + added * parent.shares) / np.where(divisor > 0, divisor, 1.0)
        return cls(np.vstack([np.where(total > 0, shares, overall), overall]), parent.name, c, floor)

    @property
    def note(self) -> str:
        """How π_b was estimated, for the notes of an estimate."""
        return f"π_b: shares by state, with {self.steps:g} pseudo-steps of {self.parent} added to each state"

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) shares of the states of some rows."""
        assert batch is not None
        return np.asarray(self.table[np.minimum(batch, len(self.table) - 1)])

    def of_actions(self, action: Ints, batch: Ints | None) -> Floats:
        """(m,) shares of the actions taken."""
        assert batch is not None
        return np.asarray(self.table[np.minimum(batch, len(self.table) - 1), action])


@dataclass(frozen=True, eq=False)
class _Parent:
    """(K,) or (S, K) shares to back off to, and (cells,) what they are for the cells without a step of theirs."""

    name: str
    shares: Floats
    without_one: Floats


def _parents(counts: Floats) -> list[_Parent]:
    """The shares over all states, equal ones, and those that states of the same kind show."""
    k, action = counts.shape[1], np.nonzero(counts)[1]
    overall, equal = counts.sum(axis=0) / counts.sum(), np.full(k, 1 / k)
    out = [_Parent("the overall shares", overall, overall[action]), _Parent("equal shares", equal, equal[action])]
    kinds = Kinds.of(counts)
    if kinds is not None:
        seen = "what states with the same most frequent action show"
        out.append(_Parent(seen, kinds.expected(counts), kinds.without_one(counts)))
    return out


def _best(counts: Floats, parents: list[_Parent]) -> tuple[_Parent, float]:
    """The parent and pseudo-steps under which each step is most likely, given all others (closed form over cells)."""
    state, action = np.nonzero(counts)
    n, total = counts[state, action], counts.sum(axis=1)[state]
    others, rest = np.maximum(n - 1, 0.0), np.maximum(total - 1, 0.0)

    def likelihood(choice: tuple[_Parent, float]) -> float:
        p, c = choice[0].without_one, choice[1]
        return float(n @ np.log((others + c * p) / (rest + c)))

    return max(((parent, c) for parent in parents for c in PSEUDO_STEPS), key=likelihood)


@checks_arguments
@dataclass(frozen=True, eq=False)
class TimedBehavior:
    """A behavior model that also sees the step: π_b,t(a | s).

    Parameters
    ----------
    model : classifier or behavior model
        Gets the state's columns and t.
    """

    model: Any
    sees_step = True

    wants_encoded = property(inner_wants_encoded)
    fit_behavior = fit_inner


MOST_COLUMNS = 200  # wider states are left to the logit
FIRST_SHARE = 0.05
MOST_ROUNDS = 200


@dataclass(frozen=True)
class ExploringLogit:
    """Multinomial logit of the state with a share of actions at random.

    Parameters
    ----------
    penalty : float
        Strength of the ridge penalty on the slopes.
    """

    penalty: float = 1.0
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        design = LinearDesign.learn(data.X, data.weight)
        if len(np.unique(data.action)) == 1 or design.width > MOST_COLUMNS:
            return LogisticBehavior(self.penalty).fit_behavior(data, seed)
        X = _with_ones(design, data.X)
        weight = np.ones(len(data.action)) if data.weight is None else data.weight
        slopes, share = most_likely(X, data.action, data.n_actions, weight, self.penalty)
        return FittedExploring(slopes, share, design, share_of_unseen(data))


def _with_ones(design: LinearDesign, table: Any) -> Floats:
    dense = np.asarray(design.transform(table).todense(), dtype=np.float64)
    return np.hstack([np.ones((len(dense), 1)), dense])


def softmax(values: Floats) -> Floats:
    """Rows of probabilities."""
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def most_likely(X: Floats, action: Ints, n_actions: int, weight: Floats, penalty: float) -> tuple[Floats, float]:
    """(p, K) slopes and the share at random of largest likelihood; the first column of X is 1, without a penalty."""
    from scipy.optimize import minimize

    rows, columns = X.shape
    taken = np.eye(n_actions)[action]
    own = np.arange(rows)

    def loss(at: Floats) -> tuple[float, Floats]:
        slopes, share = at[:-1].reshape(columns, n_actions), 1 / (1 + np.exp(-at[-1]))
        p = softmax(X @ slopes)
        logit = p[own, action]
        total = share / n_actions + (1 - share) * logit
        held = penalty * slopes
        held[0] = 0.0
        by_logit = weight * (1 - share) * logit / total
        down = held - X.T @ ((taken - p) * by_logit[:, None])
        sideways = share * (1 - share) * float(weight @ ((logit - 1 / n_actions) / total))
        value = 0.5 * float((held * slopes).sum()) - float(weight @ np.log(total))
        return value, np.append(down.ravel(), sideways)

    start = np.zeros(columns * n_actions + 1)
    start[-1] = np.log(FIRST_SHARE / (1 - FIRST_SHARE))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_ROUNDS, "ftol": 1e-12}).x
    return found[:-1].reshape(columns, n_actions), float(1 / (1 + np.exp(-found[-1])))


@dataclass(frozen=True, eq=False)
class FittedExploring:
    """Slopes, and the share of actions at random."""

    slopes: Floats
    share: float
    design: LinearDesign
    floor: float

    @property
    def note(self) -> str:
        """How π_b was estimated, for the notes of an estimate."""
        return "π_b: a logit of the state, with a share of random actions"

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) probabilities."""
        p = softmax(_with_ones(self.design, X) @ self.slopes)
        return np.asarray(self.share / p.shape[1] + (1 - self.share) * p)
