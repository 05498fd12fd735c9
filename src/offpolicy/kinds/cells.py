"""`CoarseRatio`: weights are ratios of cells of actions that share features; and ``ratio="auto"``.

``ratio="auto"`` takes ratios of cells where they make an estimate clearly more precise and nothing speaks against them:
not where the paired test of both (`offpolicy.trust.ratios`) rejects them for any policy, and not for the sake of a few
percent of a standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.kinds.exact import EXACT
from offpolicy.logs.actions import is_missing
from offpolicy.logs.kinds import Ratio
from offpolicy.models.behavior.logging_policy import LoggingPolicy
from offpolicy.policies.coarse import Cells
from offpolicy.scores import catalog

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.log import Log, Scan
    from offpolicy.policies.target import Target
    from offpolicy.trust.check import Trials

LEVEL = 0.05  # of the test under "auto": to reject a sound coarse ratio costs precision only
GAIN = 0.9  # ratio of standard errors above which cells are not worth their assumption


@checks_arguments
@dataclass(frozen=True)
class CoarseRatio(Ratio):
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

    def cells(self, log: Log | Scan) -> Cells:
        """The cells of a log's actions; nothing but the table of features is looked at."""
        if not log.decides_once:
            raise UsageError("CoarseRatio is for bandit logs; episodes take ratio='exact'.")
        features: ActionFeatures | None = getattr(log, "action_features", None)
        if features is None:
            raise UsageError(
                "CoarseRatio needs features of the actions: build the log with action_features= (columns of the log "
                "that are constant within an action, or a table by action)."
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
                raise UsageError(f"CoarseRatio: bins= names {strange[0]!r}, which is not among the features.")
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
                f"CoarseRatio: {name!r} is missing for some actions, but clusters need a distance. Fill it in, or use "
                "bins= instead of clusters=."
            )
        spread = float(values.std())
        parts.append(((values - values.mean()) / (spread or 1.0))[:, None])
    points = np.hstack(parts)
    different = len(np.unique(points, axis=0))
    if clusters > different:
        raise UsageError(
            f"CoarseRatio: clusters={clusters}, but the actions have only {different} different rows of features. Ask "
            "for fewer clusters, or leave clusters= out to make each of these rows a cell."
        )
    found = KMeans(clusters, n_init=4, random_state=0).fit_predict(points)
    made = Cells.of(found.tolist(), names)
    return replace(made, labels=tuple(f"cluster {c}" for c in range(made.n)))


class Auto(Ratio):
    """Cells of all features where they help and nothing speaks against them, else the logged actions themselves."""

    @property
    def asked(self) -> str:
        """By name."""
        return "auto"

    @property
    def key(self) -> CoarseRatio:
        """Columns are those of the cells that are tried."""
        return CoarseRatio()

    def cells(self, log: Log | Scan) -> Cells:
        """The cells that are tried."""
        return CoarseRatio().cells(log)

    def decided(self, targets: Mapping[str, Target], trials: Trials) -> tuple[Ratio, str]:
        """Compare both ratios on every policy, by the doubly robust score where a reward model is fitted at all."""
        given = isinstance(trials.behavior, np.ndarray | LoggingPolicy)
        if not given and not (trials.behavior is None and trials.log.has_propensity):
            raise UsageError(
                "ratio='auto' compares ratios of cells with ratios of actions, which need the propensity of the logged "
                "action. Name the cells (op.CoarseRatio([…])) or pass ratio='exact'."
            )
        modeled = any("value" in e.needs for e in trials.estimators)
        key = trials.key("ratio", modeled, *trials.names(targets))
        if key not in trials.kept:
            trials.kept[key] = _choice(targets, trials, catalog.named("DML" if modeled else "IPW"))
        coarse, why = trials.kept[key]
        return CoarseRatio() if coarse else EXACT, why


AUTO = Auto()


def _choice(targets: Mapping[str, Target], trials: Trials, probe: catalog.Estimator) -> tuple[bool, str]:
    """Whether ratios are to be of cells, and why."""
    from offpolicy.trust.ratios import compared

    gains = []
    for name, view in trials.views(targets, probe).items():
        both = compared(view)
        if both is None or not both.possible:
            gains.append(0.0)
            continue
        if both.p < LEVEL / len(targets):
            return False, f"ratios of cells change the value of {name!r} by {both.gap:+.3g} (p = {both.p:.2g})"
        gains.append(both.coarse / both.exact if both.exact > 0 else 1.0)
    if min(gains) > GAIN:
        return False, f"ratios of cells would leave {100 * min(gains):.3g}% of the error"
    if max(gains) == 0:
        return True, "the exact weights carry too little to compare with"
    return True, f"the test does not object, and {100 * max(gains):.3g}% of the error are left"
