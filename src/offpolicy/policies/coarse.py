"""Coarse ratios: weights of cells of actions that share features, in place of weights of single actions.

With c(a) the cell of an action, w(x, c) = Σ_{a in c} π_e(a|x) / Σ_{a in c} π_b(a|x) is the mean of the exact ratio
π_e(A|x) / π_b(A|x) given the context and the cell, so that its variance is never larger. IPW with it is MIPS (Saito
and Joachims 2022) with a deterministic embedding; the doubly robust score with it and a reward model of actions is
OffCEM (Saito, Ren and Joachims 2023). Both are right where, beyond what the reward model says of each action, actions
of one cell earn the same. The mean of w(x, c) q(x, A) is Σ π_e q for every q that is the same in a cell, and for no
other: reward models are told cells and features, so that their noise cancels as it does with exact ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.actions import is_missing
from offpolicy.logs.kinds import space_of
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target


class Exact:
    """Ratios of the logged actions themselves: every action is a cell of its own, and nothing has to be summed."""

    is_coarse: ClassVar[bool] = False
    models_actions: ClassVar[bool] = True

    def target(self, target: Target) -> Target:
        """The policy as it is."""
        return target

    def log(self, log: Any) -> Any:
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

    def log(self, log: Any) -> Any:
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
        return replace(
            log,
            space=space_of(self.labels),
            action=action,
            propensity=propensity,
            distribution=whole,
            eligible=able,
            action_features=None,
        )


@checks_arguments
@dataclass(frozen=True)
class CoarseRatio:
    """Importance weights of cells of actions with the same features, for ``ratio=`` of `evaluate`.

    Parameters
    ----------
    features : sequence of str, optional
        Action features (``action_features=`` of the log) that make the cells; default: all.
    bins : int or {feature: int}
        A number with more than so many different values is cut at its quantiles over the actions.
    clusters : int, optional
        So many clusters of actions by k-means of the standardized features (texts as 0/1 columns), in place of all
        combinations of their values.
    model : {"cells", "actions"}
        What reward models are told of the action besides its features: its cell, or the action itself (OffCEM). Weights
        of cells do not correct what a model gets wrong between actions of one cell: with "actions" that noise is in
        the estimate and not in its standard error, which its notes say.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> genre = np.arange(100) % 4
    >>> a = rng.integers(100, size=2000)
    >>> r = genre[a] + rng.normal(size=2000)
    >>> log = op.BanditLog.from_arrays(
    ...     None, a, r, np.full((2000, 100), 0.01), actions=range(100), action_features=genre
    ... )
    >>> ev = op.evaluate(log, op.policies.Fixed(3), estimators=["IPW"], ratio=op.CoarseRatio())
    >>> exact = op.evaluate(log, op.policies.Fixed(3), estimators=["IPW"])
    >>> ev["policy", "IPW"].std_error < exact["policy", "IPW"].std_error / 3
    True
    """

    features: Sequence[str] | None = None
    bins: int | Mapping[str, int] = 8
    clusters: int | None = None
    model: Literal["cells", "actions"] = "cells"

    def __post_init__(self) -> None:
        if self.model not in {"cells", "actions"}:
            raise UsageError(f"CoarseRatio: model= must be 'cells' or 'actions'. Got {self.model!r} instead.")
        if isinstance(self.features, str):
            object.__setattr__(self, "features", (self.features,))
        elif self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        if self.features is not None and not self.features:
            raise UsageError("CoarseRatio: the list of features is empty. Name at least one.")
        each = self.bins.values() if isinstance(self.bins, Mapping) else (self.bins,)
        for number, what in (*((b, "bins") for b in each), (self.clusters, "clusters")):
            if number is not None and (
                isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1
            ):
                raise UsageError(f"CoarseRatio: {what}= must be an int of at least 1. Got {number!r} instead.")

    def for_log(self, log: Log) -> Cells:
        """The cells of a log's actions; nothing but the table of features is looked at."""
        if not log.decides_once:
            raise UsageError("CoarseRatio is for bandit logs; episodes take ratio='exact'.")
        features: ActionFeatures | None = getattr(log, "action_features", None)
        if features is None:
            raise UsageError(
                "CoarseRatio needs features of the actions: build the log with action_features= (columns of the log "
                "that are constant per action, or a table by action)."
            )
        names = features.names if self.features is None else tuple(self.features)
        for name in names:
            if name not in features.names:
                raise UsageError(
                    f"CoarseRatio: the log has no action feature {name!r}."
                    f"{did_you_mean(name, features.names)} Declared: {', '.join(features.names)}."
                )
        if isinstance(self.bins, Mapping):
            strange = [name for name in self.bins if name not in names]
            if strange:
                raise UsageError(f"CoarseRatio: bins= names {strange[0]!r}, which makes no cells.")
        own = self.model == "actions"
        if self.clusters is not None:
            return replace(_clustered(features, names, self.clusters), models_actions=own)
        parts = [_levels(features, name, self._bins(name), named=len(names) > 1) for name in names]
        made = Cells.of([", ".join(part) for part in zip(*parts, strict=True)], names)
        return replace(made, models_actions=own)

    def _bins(self, name: str) -> int:
        return self.bins.get(name, 8) if isinstance(self.bins, Mapping) else self.bins


def _levels(features: ActionFeatures, name: str, bins: int, *, named: bool) -> list[str]:
    """The level of each action: its value, or the range of values it is in."""
    values = features.column(name)
    missing = is_missing(values)
    texts = [str(v) for v in values]
    if not features.is_text(name):
        known = values[~missing].astype(np.float64)
        texts = [f"{float(v):g}" if not gone else "" for v, gone in zip(values, missing, strict=True)]
        if len(np.unique(known)) > bins:
            # Cut points are values of actions, so that equal values are never apart.
            cuts = np.unique(np.quantile(known, np.arange(1, bins) / bins, method="lower"))
            at = np.searchsorted(cuts, np.where(missing, 0.0, values).astype(np.float64), "left")
            texts = [_range(cuts, int(i)) for i in at]
    return [
        f"{name} = {'missing' if gone else text}" if named or gone or not text else text
        for text, gone in zip(texts, missing, strict=True)
    ]


def _range(cuts: Floats, place: int) -> str:
    low = "" if place == 0 else f"{cuts[place - 1]:g} < "
    return f"{low}…" if place == len(cuts) else f"{low}… ≤ {cuts[place]:g}"


def _clustered(features: ActionFeatures, names: tuple[str, ...], clusters: int) -> Cells:
    from sklearn.cluster import KMeans

    parts = []
    for name in names:
        values = features.column(name)
        if features.is_text(name):
            levels, at = np.unique([str(v) for v in values], return_inverse=True)
            parts.append(np.eye(len(levels))[at])
            continue
        if np.isnan(values).any():
            raise UsageError(
                f"CoarseRatio: {name!r} is missing for some actions, and distances need numbers. Fill it in, or use "
                "bins= in place of clusters=."
            )
        spread = float(values.std())
        parts.append(((values - values.mean()) / (spread or 1.0))[:, None])
    points = np.hstack(parts)
    different = len(np.unique(points, axis=0))
    if clusters > different:
        raise UsageError(
            f"CoarseRatio: clusters={clusters}, and the actions have {different} different rows of features. Ask for "
            "fewer clusters, or leave clusters= out: each of these is a cell then."
        )
    found = KMeans(clusters, n_init=4, random_state=0).fit_predict(points)
    made = Cells.of(found.tolist(), names)
    return replace(made, labels=tuple(f"cluster {c}" for c in range(made.n)))
