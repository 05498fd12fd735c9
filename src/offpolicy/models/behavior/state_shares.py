"""Behavior models of trajectories: shares per discrete state, and any model with time as a feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError, UsageError, check_choice
from offpolicy.models.behavior.behavior import share_of_unseen
from offpolicy.models.behavior.resolve import fit_inner, inner_wants_encoded

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior

PSEUDO_STEPS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)


@checks_arguments
@dataclass(frozen=True)
class StateShares:
    """Action shares in each discrete state, backing off to what the other states show.

    A state with n steps gives π̂_b(a|s) = (n_a + c p_a) / (n + c): shares as they are where a state was seen often, p
    where it was not. p is the share of each action over all states; equal shares; or, for policies that mostly take
    one action in each state, the share over all states of a state's most frequent action, the rest divided equally. p
    and c are chosen by the likelihood of each step under the counts without it, unless c is given (then p is the
    first). A fixed c that is too large is harmful in long episodes, whose weights multiply the error; one that is too
    small leaves rare actions to chance.

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
        overall = counts.sum(axis=0) / counts.sum()
        chosen = _best(counts, overall) if self.smoothing == "auto" else BackOff("overall", float(self.smoothing))
        return _BackedOff(counts, overall, chosen, share_of_unseen(data))


@dataclass(frozen=True)
class BackOff:
    """What a state's shares back off to, and how many pseudo-steps of it are added."""

    parent: Literal["overall", "equal", "most frequent"]
    steps: float


def _best(counts: Floats, overall: Floats) -> BackOff:
    """The back-off under which each step is most likely, given all others (closed form over cells)."""
    k = counts.shape[1]
    state, action = np.nonzero(counts)
    n, total = counts[state, action], counts.sum(axis=1)[state]
    others, rest = np.maximum(n - 1, 0.0), np.maximum(total - 1, 0.0)
    parents = {"overall": overall[action], "equal": np.full(len(n), 1 / k)}
    if k > 1:
        ordered = np.sort(counts, axis=1)
        is_first = counts.argmax(axis=1)[state] == action
        # Without the step itself the state may have another most frequent action, or none.
        stays = is_first & (others >= ordered[state, -2]) & (others > 0)
        share = float(np.clip(n @ stays / max(float(n @ (rest > 0)), 1.0), 1 / k, 1 - 1e-3))
        rare = np.where(rest > 0, (1 - share) / (k - 1), 1 / k)
        parents["most frequent"] = np.where(stays, share, rare)

    def likelihood(back_off: BackOff) -> float:
        p, c = parents[back_off.parent], back_off.steps
        return float(n @ np.log((others + c * p) / (rest + c)))

    choices = [BackOff(parent, c) for parent in parents for c in PSEUDO_STEPS]  # type: ignore[arg-type]
    return max(choices, key=likelihood)


@dataclass(frozen=True, eq=False)
class _BackedOff:
    """Shares by state with pseudo-steps of a parent's."""

    counts: Floats
    overall: Floats
    back_off: BackOff
    floor: float

    @property
    def note(self) -> str:
        """How π_b was estimated, for the notes of an estimate."""
        what = {
            "overall": "the overall shares",
            "equal": "equal shares",
            "most frequent": "the share of a state's most frequent action",
        }[self.back_off.parent]
        return f"π_b: shares by state, with {self.back_off.steps:g} pseudo-steps of {what} added to each state"

    @cached_property
    def _table(self) -> Floats:
        """Shares of each state, then those of a state without training steps."""
        n_states, k = self.counts.shape
        total, c = self.counts.sum(axis=1, keepdims=True), self.back_off.steps
        parent = np.tile(self.overall, (n_states, 1))
        if self.back_off.parent == "equal":
            parent = np.full((n_states, k), 1 / k)
        elif self.back_off.parent == "most frequent":
            first = self.counts.argmax(axis=1)
            share = float(self.counts[np.arange(n_states), first].sum() / self.counts.sum())
            share = min(max(share, 1 / k), 1 - 1e-3)
            parent = np.full((n_states, k), (1 - share) / max(k - 1, 1))
            parent[np.arange(n_states), first] = share
        divisor = total + c
        shares = (self.counts + c * parent) / np.where(divisor > 0, divisor, 1.0)
        seen = np.where(total > 0, shares, self.overall)
        return np.vstack([seen, self.overall])

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) shares of the states of some rows."""
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.counts))])

    def of_actions(self, action: Ints, batch: Ints | None) -> Floats:
        """(m,) shares of the actions taken."""
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.counts)), action])


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
