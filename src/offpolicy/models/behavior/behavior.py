"""Behavior models π_b(a | s), for logs without propensities.

A behavior model has ``fit_behavior(data, seed)`` and gives something with ``predict(X, batch)``, the (m, K)
distribution of rows it was not fitted on. Probabilities are used as they were fitted, however small. Only where a
logged action has probability 0 (a training fold never saw it) does it get the add-one share 1 / (n + K), n being the
rows of its batch where shares are taken by batch: no weight is infinite, and the estimate's notes say how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError
from offpolicy.models.fitting.learners import class_probabilities, fitted, learner_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class BehaviorData:
    """Training rows of a behavior model."""

    X: Any
    action: Ints
    weight: Floats | None
    n_actions: int
    batch: Ints | None
    count: Floats | None = None  # how many units each row stands for
    unit: Ints | None = None  # episode of each row, where there are several to an episode

    @property
    def size(self) -> float:
        """Units they stand for."""
        return float(len(self.action) if self.count is None else self.count.sum())


class FittedBehavior(Protocol):
    """π̂_b of one training set."""

    @property
    def floor(self) -> float | Floats:
        """Probability given to actions the training rows lack; by batch, with a last entry for new ones."""
        ...

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) probabilities of every action in rows of the learner table."""
        ...


class BehaviorModel(Protocol):
    """Anything that can be fitted to (context, action)."""

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        ...


def share_of_unseen(data: BehaviorData) -> float:
    """The probability given to an action without a training row: 1 / (n + K)."""
    mass = len(data.action) if data.weight is None else float(data.weight.sum())
    return 1.0 / (mass + data.n_actions)


def floor_at(fit: FittedBehavior, batch: Ints | None) -> Floats:
    """The add-one share that holds in rows of these batches: () or (m,)."""
    floor = np.asarray(fit.floor, dtype=np.float64)
    if floor.ndim == 0:
        return floor
    assert batch is not None
    return floor[np.minimum(batch, len(floor) - 1)]


@checks_arguments
@dataclass(frozen=True)
class Shares:
    """Empirical action shares, in each batch when the log has batches (the paper's section 5.2).

    A batch without training rows gets the shares over all batches.

    Parameters
    ----------
    smoothing : float
        Pseudo-rows added to every action; 0 takes the shares as they are.
    per_batch : bool
        Whether to take them batch by batch.

    Examples
    --------
    >>> data = BehaviorData(None, np.array([0, 0, 1]), None, 2, None)
    >>> Shares().fit_behavior(data, 0).predict(np.empty((1, 0)), None).round(3).tolist()
    [[0.667, 0.333]]
    """

    smoothing: float = 0.0
    per_batch: bool = True

    ignores_context = True
    counts_blocks = True

    def __post_init__(self) -> None:
        if self.smoothing < 0:
            raise UsageError(f"smoothing= must be at least 0. Got {self.smoothing!r} instead.")

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Count."""
        batch = data.batch if self.per_batch and data.batch is not None else None
        group = np.zeros(len(data.action), dtype=np.int64) if batch is None else batch
        cells = group * data.n_actions + data.action
        n_groups = int(group.max()) + 1
        counts = np.bincount(cells, weights=data.weight, minlength=n_groups * data.n_actions)
        table = counts.reshape(n_groups, data.n_actions) + self.smoothing
        total = table.sum(axis=1, keepdims=True)
        overall = table.sum(axis=0) / table.sum()
        shares = np.where(total > 0, table / np.where(total > 0, total, 1.0), overall)
        floor: float | Floats = share_of_unseen(data)
        if batch is not None:
            # An action new to a batch is judged by the size of the batch, not of the log.
            seen = np.where(total[:, 0] > 0, total[:, 0] - self.smoothing * data.n_actions, np.inf)
            own = 1.0 / (seen + data.n_actions)
            floor = np.append(np.where(np.isinf(seen), floor, own), floor)
        return _FittedShares(shares, batch is not None, floor, overall)


@dataclass(frozen=True, eq=False)
class _FittedShares:
    shares: Floats
    per_batch: bool
    floor: float | Floats
    overall: Floats

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        if not self.per_batch:
            return np.broadcast_to(self.shares[0], (len(X), self.shares.shape[1]))
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.shares))])

    def of_actions(self, action: Ints, batch: Ints | None) -> Floats:
        """(m,) shares of the actions taken, without the m × K shares of all."""
        if not self.per_batch:
            return np.asarray(self.shares[0][action])
        assert batch is not None
        return np.asarray(self._table[np.minimum(batch, len(self.shares)), action])

    @property
    def _table(self) -> Floats:
        """Shares of each batch, then those of a batch without training rows."""
        return np.vstack([self.shares, self.overall])


@dataclass(frozen=True, eq=False)
class ClassifierBehavior:
    """Any scikit-learn classifier of the logged action.

    Parameters
    ----------
    learner : classifier
        Must have ``predict_proba``.
    """

    learner: Any

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit; classes the fold lacks get the floor."""
        seen = np.unique(data.action)
        if len(seen) == 1:
            table = np.zeros((1, data.n_actions))
            table[0, seen[0]] = 1.0
            return _FittedShares(table, False, share_of_unseen(data), table[0])
        X = learner_input(data.X, self.learner)
        model = fitted(self.learner, X, data.action, data.weight, seed)
        read = partial(learner_input, learner=model)
        return FittedClassifier(model, data.n_actions, share_of_unseen(data), read)


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A fitted classifier of the logged action, and what it reads of a table."""

    model: Any
    n_actions: int
    floor: float
    read: Callable[[Any], Any]

    @property
    def note(self) -> str:
        """What the classifier has to say about itself."""
        return str(getattr(self.model, "note", ""))

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        """(m, K) probabilities; classes the fold lacks get 0, to be raised to the floor."""
        out = np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), self.n_actions))
        out[:, self.model.classes_] = class_probabilities(self.model, self.read(X))
        return out
