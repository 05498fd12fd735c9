"""Cross-fitting: fits every nuisance on each split's training units and predicts its scored units.

This is the only place where models are fitted. Fits are kept by the training units they saw, so the
half-sample and cross-fitted estimators share them and another policy needs predictions only. Predictions
are made for the pairs (context, action) that a score needs: the logged action, and actions with π_e > 0.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError, first_rows
from offpolicy.models.behavior.behavior import (
    BehaviorData,
    BehaviorModel,
    FittedBehavior,
    as_behavior_model,
    floor_at,
)
from offpolicy.models.behavior.sees_targets import with_targets
from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.fitting.predictions import predict_values, take_rows
from offpolicy.models.rewards.reward import FittedReward, RewardData, as_reward_model
from offpolicy.policies.target import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Part, Split

SUM_TOLERANCE = 1e-4  # single precision
REWARD, BEHAVIOR, MRDR = 1, 2, 3


@dataclass(frozen=True, eq=False)
class Values:
    """q at the logged action and v = Σ π_e q, (S,) each; NaN where a split does not score."""

    q: Floats
    v: Floats
    note: str = ""


@dataclass(frozen=True, eq=False)
class Behavior:
    """π_b of the logged action, (S,), and which entries were raised to the floor (None: none)."""

    probability: Floats
    raised: Bools | None = None

    def floored(self, rows: Ints | None = None) -> int:
        """How many of some rows (default: of all) were raised."""
        if self.raised is None:
            return 0
        return int(np.count_nonzero(self.raised if rows is None else self.raised[rows]))


def seed_of(seed: int, kind: int, key: tuple[Any, ...]) -> int:
    """A seed for one fit that depends on nothing but what is fitted."""
    numbers = [len(key), *(k for k in key if isinstance(k, int))]
    return int(np.random.SeedSequence([seed, kind, *numbers]).generate_state(1)[0])


@dataclass(eq=False)
class CrossFit:
    """Fitted nuisances of one evaluation, made when first asked for and kept.

    Parameters
    ----------
    log : BanditLog
    folds : Folds
    reward_model, behavior_model : as in `evaluate`
        Arrays (n, K) are predictions made elsewhere and serve every split.
    targets : tuple of Target
        Policies that a behavior model may be told of.
    """

    log: Any
    folds: Folds
    reward_model: Any = None
    behavior_model: Any = None
    seed: int = 0
    n_jobs: int | None = None
    targets: tuple[Target, ...] = ()
    on_fit: Callable[[str], None] | None = None
    fits: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _features: dict[bool, Any] = field(default_factory=dict)
    _started: dict[tuple[Any, ...], Future[Any]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None

    def with_behavior(self, behavior_model: Any) -> CrossFit:
        """The same reward fits with another behavior model."""
        kept = {key: fit for key, fit in self.fits.items() if key[0] == REWARD}
        return replace(self, behavior_model=behavior_model, fits=kept, _started={}, _pool=None)

    # -- behavior ------------------------------------------------------------------------------------

    def behavior(self, split: Split, repeat: int) -> Behavior:
        """π_b of the logged actions in one split."""
        spec, log = self.behavior_model, self.log
        rows = np.arange(len(log.action))
        if spec is None and log.propensity is not None:
            return Behavior(log.propensity)
        if isinstance(spec, np.ndarray):
            return Behavior(_given_behavior(spec, log))
        model = self._behavior_model()
        out = np.full(len(rows), np.nan)
        raised = np.zeros(len(rows), dtype=bool)
        for part in self.folds.parts(split, repeat):
            fit: FittedBehavior = self._fit(
                (BEHAVIOR, *part.key), partial(self._fit_behavior, model, part)
            )
            scored = log.layout.rows_of(part.score)
            groups = self._behavior_groups(model, scored)
            p = self._logged_probability(model, fit, scored, groups)
            floor = floor_at(fit, groups)
            low = p < floor
            raised[scored] = low
            out[scored] = np.where(low, floor, p)
        return Behavior(out, raised)

    def _behavior_model(self) -> BehaviorModel:
        return as_behavior_model("auto" if self.behavior_model is None else self.behavior_model)

    def _behavior_table(self, model: Any, rows: Ints) -> Any:
        """What a behavior model sees of some rows of the log."""
        table = self._rows(model, self.log.context.positions(rows))
        if not getattr(model, "sees_targets", False):
            return table
        return with_targets(table, self.targets, self.log.context, rows)

    def _behavior_groups(self, model: Any, rows: Ints) -> Ints | None:
        """Groups inside which shares are taken."""
        return None if self.log.batch is None else part_of(self.log.batch, rows)

    def _fit_behavior(self, model: Any, part: Part) -> FittedBehavior:
        log = self.log
        rows = log.layout.rows_of(part.train)
        data = BehaviorData(
            self._behavior_table(model, rows),
            part_of(log.action, rows),
            self._mass(rows),
            len(log.actions),
            self._behavior_groups(model, rows),
        )
        fit: FittedBehavior = model.fit_behavior(data, seed_of(self.seed, BEHAVIOR, part.key))
        return fit

    def _logged_probability(
        self, model: Any, fit: FittedBehavior, rows: Ints, groups: Ints | None
    ) -> Floats:
        log = self.log
        counted = getattr(fit, "of_actions", None)
        if counted is not None and log.eligible is None:
            return np.asarray(counted(part_of(log.action, rows), groups))
        out = np.empty(len(rows))
        for block in blocks(len(rows), len(log.actions)):
            at = rows[block]
            matrix = fit.predict(
                self._behavior_table(model, at), None if groups is None else groups[block]
            )
            out[block] = matrix[np.arange(len(at)), log.action[at]]
            if log.eligible is not None:
                # What could not be taken was not: its fitted probability belongs to the rest.
                able = np.where(log.eligible[at], matrix, 0.0).sum(axis=1)
                out[block] = np.where(able > 0, out[block] / np.where(able > 0, able, 1.0), 0.0)
        if not np.isfinite(out).all():
            raise ModelError(f"{type(model).__name__} predicted probabilities that are not finite.")
        return out

    # -- rewards -------------------------------------------------------------------------------------

    def values(
        self,
        split: Split,
        repeat: int,
        targets: list[Target],
        emphasis: Floats | None = None,
        tag: str = "",
    ) -> dict[str, Values]:
        """Q and v of every target in one split.

        ``emphasis`` multiplies the training weights (MRDR); ``tag`` keeps such fits apart.
        """
        log, spec = self.log, self.reward_model
        n = len(log.action)
        if isinstance(spec, np.ndarray):
            note = "" if emphasis is None else "predictions are given, so MRDR is DR here"
            return {t.name: replace(given_values(spec, log, t), note=note) for t in targets}
        model = as_reward_model(spec)
        q = np.full(n, np.nan)
        v = {t.name: np.full(n, np.nan) for t in targets}
        parts = self.folds.parts(split, repeat)
        keys, makers = self._reward_fits(model, parts, emphasis, tag)
        for part, fit in zip(parts, self._fit_all(keys, makers), strict=True):
            rows = log.layout.rows_of(part.score)
            if len(rows) == 0:  # a chunk of a larger log may hold none of a fold
                continue
            features = self._table(model)
            q[rows], values = predict_values(
                fit, features, log.context, rows, part_of(log.action, rows), targets
            )
            for name, value in values.items():
                v[name][rows] = value
        return {name: Values(q, value) for name, value in v.items()}

    def _reward_fits(
        self, model: Any, parts: list[Part], emphasis: Floats | None = None, tag: str = ""
    ) -> tuple[list[tuple[Any, ...]], list[Callable[[], Any]]]:
        """Keys of the reward fits of some parts, and functions that make them."""
        kind = MRDR if tag else REWARD
        fit_part = partial(self._fit_reward, model, emphasis=emphasis, kind=kind)
        keys = [(kind, tag, *part.key) for part in parts]
        return keys, [partial(fit_part, part.key, part.train) for part in parts]

    def _fit_reward(
        self,
        model: Any,
        key: tuple[Any, ...],
        train: Ints,
        emphasis: Floats | None,
        kind: int,
    ) -> FittedReward:
        log = self.log
        rows = log.layout.rows_of(train)
        weight = self._mass(rows)
        if emphasis is not None:
            weight = emphasis[rows] if weight is None else weight * emphasis[rows]
            rows, weight = rows[weight > 0], weight[weight > 0]
            if len(rows) == 0:
                raise ModelError(
                    "MRDR: no training row has a positive weight, since the target shares no action."
                )
        if log.context.index is not None and weight is not None:
            rows, weight = merged_rows(log, rows, weight)
        fit: FittedReward = model.fit_reward(
            RewardData(
                self._rows(model, log.context.positions(rows)),
                part_of(log.action, rows),
                part_of(log.reward, rows),
                weight,
                log.actions,
                log.names.action,
            ),
            seed_of(self.seed, kind, key),
        )
        return fit

    # -- shared --------------------------------------------------------------------------------------

    def prepare(self, estimators: Sequence[Estimator]) -> None:
        """Start the reward fits of these estimators on ``n_jobs`` threads; scores are made meanwhile."""
        if self.n_jobs is None or isinstance(self.reward_model, np.ndarray):
            return
        model = as_reward_model(self.reward_model)
        for estimator in estimators:
            if "value" not in estimator.needs or estimator.emphasis is not None:
                continue
            repeats = 1 if estimator.split == "full" else self.folds.repeats
            for repeat in range(repeats):
                keys, makers = self._reward_fits(model, self.folds.parts(estimator.split, repeat))
                self._start(keys, makers)

    def close(self) -> None:
        """Give up fits that have not begun."""
        for started in self._started.values():
            started.cancel()
        self._started.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def _fit(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self.fits:
            started = self._started.pop(key, None)
            self.fits[key] = make() if started is None else started.result()
            if self.on_fit is not None:
                self.on_fit(str(key))
        return self.fits[key]

    def _fit_all(
        self, keys: list[tuple[Any, ...]], makers: list[Callable[[], Any]]
    ) -> Iterator[Any]:
        """Fits, each as soon as it is there, on threads when asked; the seeds make the order irrelevant."""
        if self.n_jobs is not None:
            self._start(keys, makers)
        for key, make in zip(keys, makers, strict=True):
            yield self._fit(key, make)

    def _start(self, keys: list[tuple[Any, ...]], makers: list[Callable[[], Any]]) -> None:
        """Begin what is neither fitted nor begun."""
        from joblib import effective_n_jobs

        for key, make in zip(keys, makers, strict=True):
            if key in self.fits or key in self._started:
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(effective_n_jobs(self.n_jobs))
            self._started[key] = self._pool.submit(make)

    def _mass(self, rows: Ints) -> Floats | None:
        log = self.log
        given = [p for p in (log.weight, log.count) if p is not None]
        parts = [
            part_of(p, rows) if log.layout.is_single else p[log.layout.unit[rows]] for p in given
        ]
        if not parts:
            return None
        return np.asarray(parts[0] if len(parts) == 1 else parts[0] * parts[1], dtype=np.float64)

    def _table(self, model: Any) -> Any:
        return self.table_of(encoded=bool(getattr(model, "wants_encoded", False)))

    def table_of(self, *, encoded: bool) -> Any:
        """The learner table of the distinct contexts, as it came or encoded as numbers."""
        if encoded not in self._features:
            table = self.log.context.learner_table
            self._features[encoded] = encode_table(table) if encoded else table
        return self._features[encoded]

    def _rows(self, model: Any, positions: Ints) -> Any:
        if getattr(model, "ignores_context", False):
            return np.empty((len(positions), 0))
        table = self._table(model)
        # A copy of the whole table would be the largest array of a full-sample fit.
        whole = len(positions) == len(table) and bool((np.diff(positions) == 1).all())
        return table if whole else take_rows(table, positions)


def part_of(values: Array, rows: Ints) -> Array:
    """Values of some rows, each named once and in order: without a copy where these are all rows."""
    return values if len(rows) == len(values) else values[rows]


def merged_rows(log: Any, rows: Ints, weight: Floats) -> tuple[Ints, Floats]:
    """First rows of runs with equal context, action and reward, and the runs' summed weights.

    Cells that differ only in batch or propensity are the same training row; a compressed log is sorted, so
    that they lie side by side.
    """
    new = np.zeros(len(rows), dtype=bool)
    new[:1] = True
    for values in (log.context.index, log.action, log.reward):
        column = part_of(values, rows)
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    return rows[starts], np.add.reduceat(weight, starts)


def given_values(array: Floats, log: Any, target: Target) -> Values:
    """Predictions made elsewhere: (n, K)."""
    n, k = len(log.action), len(log.actions)
    if array.shape != (n, k):
        raise ModelError(
            f"a value array must have shape (n, K) = ({n}, {k}), one column for each of log.actions. "
            f"Got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ModelError("the value array holds entries that are missing or infinite.")
    rows = np.arange(n)
    v = np.empty(n)
    for block in blocks(n, k):
        at = log.context.positions(block) if target.shares_context else block
        if target.codes is not None:
            v[block] = array[block, target.codes[at]]
        else:
            v[block] = (target.probabilities(at) * array[block]).sum(axis=1)
    return Values(array[rows, log.action].astype(np.float64), v)


def _given_behavior(array: Floats, log: Any) -> Floats:
    n, k = len(log.action), len(log.actions)
    if array.shape != (n, k):
        raise ModelError(
            f"a behavior array must have shape (n, K) = ({n}, {k}), one column for each of log.actions. "
            f"Got {array.shape}."
        )
    p: Floats = array[np.arange(n), log.action].astype(np.float64)
    if not (np.isfinite(p).all() and (p > 0).all() and (p <= 1).all()):
        raise ModelError(
            "the behavior array gives logged actions a probability that is not in (0, 1]."
        )
    total = array.sum(axis=1, dtype=np.float64)
    off = np.asarray(~(np.abs(total - 1) <= SUM_TOLERANCE) | (array < 0).any(axis=1))
    if off.any():
        raise ModelError(
            f"the behavior array must hold a distribution over log.actions in every row: the sums of "
            f"{first_rows(off, total)} are not 1, or an entry is negative."
        )
    return p
