"""Coarse ratios: weights of cells of actions that share features, in place of weights of single actions.

With c(a) the cell of an action, w(x, c) = Σ_{a in c} π_e(a|x) / Σ_{a in c} π_b(a|x) is the mean of the exact ratio
π_e(A|x) / π_b(A|x) given the context and the cell, so that its variance is never larger. IPW with it is MIPS (Saito
and Joachims 2022) with a deterministic embedding; the doubly robust score with it and a reward model of actions is
OffCEM (Saito, Ren and Joachims 2023). Both are right where, beyond what the reward model says of each action, actions
of one cell earn the same. The mean of w(x, c) q(x, A) is Σ π_e q for every q that is the same in a cell, and for no
other: reward models are told cells and features, so that their noise cancels as it does with exact ratios.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.logs.kinds import space_of
from offpolicy.logs.log import changed
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import L
    from offpolicy.policies.target import Target


class Exact:
    """Ratios of the logged actions themselves: every action is a cell of its own, and nothing has to be summed."""

    is_coarse: ClassVar[bool] = False
    models_actions: ClassVar[bool] = True

    def target(self, target: Target) -> Target:
        """The policy as it is."""
        return target

    def log(self, log: L) -> L:
        """The log as it is."""
        return log

    def sums(self, matrix: Array) -> Floats:
        """The probabilities as they are."""
        return matrix

    def of_logged(self, target: Target, context: Context, action: Ints) -> tuple[Floats, Floats]:
        """(n,) probabilities of the logged actions, twice."""
        own = target.of_actions(context, action)
        return own, own

    def told(self, action: Ints) -> Ints:
        """What reward models are told of an action."""
        return action

    def told_labels(self, labels: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the codes that reward models are told stand for."""
        return labels


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell each action is in.

    Attributes
    ----------
    code : (K,) int array
        Cell of each action; cells are numbered in the order in which their first action comes.
    labels : tuple of str
        What the actions of each cell share.
    features : tuple of str
        What cells are made from.

    Examples
    --------
    >>> cells = Cells.of(["rock", "folk", "rock"], ("genre",))
    >>> cells.code.tolist(), cells.labels, cells.single.tolist()
    ([0, 1, 0], ('rock', 'folk'), [False, True])
    >>> cells.sums(np.array([[0.2, 0.3, 0.5]])).tolist()
    [[0.7, 0.3]]
    """

    code: Ints
    labels: tuple[str, ...]
    features: tuple[str, ...]
    models_actions: bool = False  # whether reward models tell the actions of a cell apart

    is_coarse: ClassVar[bool] = True

    def told(self, action: Ints) -> Ints:
        """What reward models are told of an action: its cell, or the action itself."""
        return action if self.models_actions else self.code[action]

    def told_labels(self, labels: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the codes that reward models are told stand for."""
        return labels if self.models_actions else self.labels

    @classmethod
    def of(cls, keys: Sequence[Any], features: tuple[str, ...]) -> Cells:
        """Actions with the same key are in the same cell."""
        place: dict[Any, int] = {}
        code = np.array([place.setdefault(key, len(place)) for key in keys], dtype=np.int64)
        return cls(code, tuple(str(key) for key in place), features)

    @property
    def n(self) -> int:
        """Cells."""
        return len(self.labels)

    @property
    def size(self) -> Ints:
        """(C,) actions of each cell."""
        return np.bincount(self.code, minlength=self.n)

    @property
    def single(self) -> Array:
        """(C,) whether a cell has one action only."""
        return np.asarray(self.size == 1)

    def sums(self, matrix: Array) -> Floats:
        """(m, C) sums over the actions of each cell of an (m, K) matrix."""
        order = np.argsort(self.code, kind="stable")
        starts = np.searchsorted(self.code[order], np.arange(self.n))
        # A block of rows at most comes here: a copy in the order of the cells is cheap beside the policy's answer.
        sorted_ = matrix if (np.diff(order) == 1).all() else matrix[:, order]
        return np.asarray(np.add.reduceat(sorted_, starts, axis=1), dtype=np.float64)

    def leaning(self, matrix: Floats, action: Ints) -> Floats:
        """(m,) how much more often than others of its cell each action is taken: log π(a | cell), less its mean there.

        The mean is that under π itself: given the context and the cell, what this is multiplied with has mean 0 unless
        it depends on the action.

        >>> cells = Cells.of(["rock", "folk", "rock"], ("genre",))
        >>> cells.leaning(np.array([[0.25, 0.5, 0.25], [0.4, 0.5, 0.1]]), np.array([0, 2])).round(3).tolist()
        [0.0, -1.109]
        """
        rows, cell = np.arange(len(action)), self.code[action]
        logs = np.log(matrix, out=np.zeros(matrix.shape), where=matrix > 0)
        mass = self.sums(matrix)[rows, cell]
        mean = self.sums(matrix * logs)[rows, cell] / mass
        return np.asarray(logs[rows, action] - mean)

    def target(self, target: Target) -> Target:
        """A policy as its choice among cells."""
        if target.codes is not None:
            return replace(target, n_actions=self.n, codes=self.code[target.codes], _ask=None, elsewhere=None)
        return replace(
            target,
            n_actions=self.n,
            _ask=lambda at: self.sums(target.probabilities(at)),
            elsewhere=None,
            asked_width=target.width,
        )

    def of_logged(self, target: Target, context: Context, action: Ints) -> tuple[Floats, Floats]:
        """(n,) probabilities of the logged actions, and of their cells; a policy is asked once for both."""
        n, cell = len(action), self.code[action]
        if target.codes is not None:
            rows = np.arange(n)
            chosen = target.codes[context.positions(rows) if target.shares_context else rows]
            same = chosen == action, self.code[chosen] == cell
            return same[0].astype(np.float64), same[1].astype(np.float64)
        own, coarse = np.empty(n), np.empty(n)
        for rows, matrix, at in target.by_block(context, n):
            own[rows] = matrix[at, action[rows]]
            coarse[rows] = self.sums(matrix)[at, cell[rows]]
        return own, coarse

    def log(self, log: L) -> L:
        """The log as a log of cells, of which a coarse ratio is the exact one.

        The propensity of the logged cell is known where the whole distribution was logged, or where every cell is a
        single action; else it is None.
        """
        action = self.code[log.action]
        propensity, whole = None, None
        if log.distribution is not None:
            whole = np.empty((len(action), self.n))
            for rows in blocks(len(action), len(self.code)):
                whole[rows] = self.sums(log.distribution[rows])
            propensity = whole[np.arange(len(action)), action]
        elif log.propensity is not None and self.single.all():
            propensity = log.propensity
        able = None
        if log.eligible is not None:
            able = np.empty((len(action), self.n), dtype=bool)
            for rows in blocks(len(action), len(self.code)):
                able[rows] = self.sums(log.eligible[rows]) > 0
        return changed(
            log,
            space=space_of(self.labels),
            action=action,
            propensity=propensity,
            distribution=whole,
            eligible=able,
            action_features=None,
        )
