"""Behavior models of trajectories: shares per discrete state, and any model with time as a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.errors import ModelError, UsageError, check_choice
from offpolicy.models.behavior.behavior import share_of_unseen
from offpolicy.models.behavior.resolve import fit_inner, inner_wants_encoded

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior

PSEUDO_STEPS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)


@dataclass(frozen=True)
class StateShares:
    """Action shares in each discrete state, backing off to the shares over all states.

    A state with n steps gives π̂_b(a|s) = (n_a + c p_a) / (n + c), p_a being the share of a over all states: shares
    as they are where a state was seen often, the overall ones where it was not. c is chosen by the likelihood of each
    step under the counts without it, unless given. A fixed c that is too large is harmful in long episodes, whose
    weights multiply the error; one that is too small leaves rare actions to chance.

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

    def __post_init__(self) -> None:
        if self.smoothing != "auto" and not float(self.smoothing) >= 0:
            raise UsageError(
                f"smoothing= must be 'auto' or at least 0. Got {self.smoothing!r} instead."
            )
        check_choice("time", self.time, "pooled", "step")

    def groups(self, log: Any, rows: Ints) -> Ints | None:
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
        chosen = _best(counts, overall) if self.smoothing == "auto" else float(self.smoothing)
        return _BackedOff(counts, overall, chosen, share_of_unseen(data))


def _best(counts: Floats, overall: Floats) -> float:
    """The pseudo-steps under which each step is most likely, given all others (closed form over cells)."""
    state, action = np.nonzero(counts)
    n, total, parent = counts[state, action], counts.sum(axis=1)[state], overall[action]
    others, rest = np.maximum(n - 1, 0.0), np.maximum(total - 1, 0.0)

    def likelihood(c: float) -> float:
        return float(n @ np.log((others + c * parent) / (rest + c)))

    return max(PSEUDO_STEPS, key=likelihood)


@dataclass(frozen=True, eq=False)
class _BackedOff:
    """Shares by state with pseudo-steps of the overall shares."""

    counts: Floats
    overall: Floats
    smoothing: float
    floor: float

    @property
    def note(self) -> str:
        """How π_b was estimated, for the notes of an estimate."""
        return f"π_b: shares by state, with {self.smoothing:g} pseudo-steps of the overall shares added to each state"

    @property
    def _table(self) -> Floats:
        """Shares of each state, then those of a state without training steps."""
        total = self.counts.sum(axis=1, keepdims=True)
        divisor = total + self.smoothing
        shares = (self.counts + self.smoothing * self.overall) / np.where(divisor > 0, divisor, 1.0)
        return np.vstack([np.where(divisor > 0, shares, self.overall), self.overall])

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) shares of the states of some rows."""
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.counts))])

    def of_actions(self, action: Ints, batch: Ints | None) -> Floats:
        """(m,) shares of the actions taken."""
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.counts)), action])


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
