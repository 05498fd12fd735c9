"""π_b of logged actions, fitted out of fold where it was not logged: probabilities, or densities of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import picked
from offpolicy._threads import few_threads
from offpolicy.errors import ModelError, first_rows
from offpolicy.models.behavior.behavior import BehaviorData, BehaviorModel, FittedBehavior, floor_at
from offpolicy.models.behavior.density import DensityData
from offpolicy.models.behavior.logging_policy import LoggingPolicy, is_given, is_known
from offpolicy.models.behavior.resolve import with_targets
from offpolicy.models.fitting.store import BEHAVIOR, Behavior, FitStore, note_of, seed_of
from offpolicy.models.fitting.tables import abilities, merged
from offpolicy.models.values.fitted_q import with_time
from offpolicy.policies.coarse import Cells, Exact
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.behavior.density import DensityModel, FittedDensity
    from offpolicy.models.fitting.tables import Tables
    from offpolicy.policies.target import Target
    from offpolicy.splits.folds import Folds, Part, Split

SUM_TOLERANCE = 1e-4  # single precision
ROWS = 250_000
LEANING = 1_000  # actions up to which the logging policy is looked at inside cells


@dataclass(frozen=True, eq=False)
class BehaviorFits:
    """π_b of one log (or of a block of it) in every split.

    ``log`` and ``targets`` are those of what ratios are of, actions or cells; ``fine`` is the log of actions.
    """

    log: Log
    folds: Folds
    spec: Any
    seed: int
    store: FitStore
    tables: Tables
    targets: tuple[Target, ...]
    fine: Log
    cells: Cells | Exact

    @property
    def is_known(self) -> bool:
        """Whether the logged propensities are used as they are, or those of cells follow from what was logged."""
        return is_known(
            self.spec, of_ratios=self.log.propensity is not None, of_actions=self.fine.propensity is not None
        )

    @property
    def is_given(self) -> bool:
        """Whether nothing is fitted."""
        return is_given(self.spec, known=self.is_known)

    @cached_property
    def _given(self) -> tuple[Any, Any]:
        """(S,) π_b of the logged actions, and of what ratios are of; None where it has to be fitted."""
        if isinstance(self.spec, LoggingPolicy):
            return self.spec.of_logged(self.fine, self.cells)
        if isinstance(self.spec, np.ndarray):
            own = given_behavior(self.spec, self.fine)
            return own, self._of_cells(self.spec) if self.cells.is_coarse else own
        return (self.fine.propensity, self.log.propensity) if self.spec is None else (None, None)

    @property
    def of_actions(self) -> Floats | None:
        """(S,) π_b of the logged actions themselves, where nothing has to be fitted for it; else None."""
        own: Floats | None = self._given[0]
        return own

    @cached_property
    def leaning(self) -> Floats | None:
        """(S,) how much the logging policy leans to each logged action inside its cell.

        None where it is not known of all actions, or where these are so many that asking again takes long.
        """
        log, cells = self.fine, self.cells
        given = log.distribution if self.spec is None else self.spec
        known = isinstance(given, np.ndarray | LoggingPolicy)
        if isinstance(cells, Exact) or not known or len(log.actions) > LEANING:
            return None
        out = np.empty(len(log.action))
        for rows in blocks(len(out), len(log.actions)):
            out[rows] = cells.leaning(self._matrix(given, rows), log.action[rows])
        return out

    def of_split(self, split: Split, repeat: int) -> Behavior:
        """π_b of the logged actions in one split."""
        log = self.log
        if self.is_given:
            # What was logged is data; a policy says the same, and more where ratios are of cells.
            given = self._given[1]
            return Behavior(log.propensity if self.is_known and not self.cells.is_coarse else given)
        out = np.full(len(log.action), np.nan)
        raised = np.zeros(len(log.action), dtype=bool)
        said: dict[str, None] = {}
        for part in self.folds.parts(split, repeat):
            scored = log.layout.rows_of(part.score)
            if len(scored) == 0:  # a block of a larger log may hold none of a fold
                continue
            basis = self._basis(part)
            out[scored], raised[scored] = self._predicted(basis, scored)
            said[note_of(self.fit(basis))] = None
        return Behavior(out, raised if log.space.finite else None, "; ".join(filter(None, said)))

    def _of_cells(self, matrix: Floats) -> Floats:
        """π_b of the logged cells out of an (n, K) array."""
        action = self.log.action
        out = np.empty(len(action))
        for rows in blocks(len(action), matrix.shape[1]):
            out[rows] = self.cells.sums(matrix[rows])[np.arange(len(rows)), action[rows]]
        return out

    def of_training(self, part: Part, rows: Ints) -> Floats:
        """π_b at training decisions, from the model that was fitted to them."""
        if self.is_given:
            return np.asarray(self.of_split("full", 0).probability[rows])
        return self._predicted(part, rows)[0]

    def _basis(self, part: Part) -> Part:
        """What π_b of a part's scored decisions is fitted to: its training units, or all for a model that counts."""
        return self.folds.parts("full", 0)[0] if abilities(self.model).counts_everyone else part

    def fit(self, part: Part) -> Any:
        """The model fitted on the training units of a part."""
        return self.store.get((BEHAVIOR, *part.key), partial(self._fit, self.model, part))

    @property
    def model(self) -> BehaviorModel | DensityModel:
        """What is fitted; for episodes shares per discrete state, or an agent that explores."""
        log, spec = self.log, self.spec
        own = log.unit_kind.behavior_model(log, spec)
        model: BehaviorModel | DensityModel = log.space.behavior_model(spec if own is None else own)
        return model

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Decisions that a split scores with π_b of all their actions, block by block, where that is known."""
        log = self.log
        given = log.distribution if self.spec is None else self.spec
        if not log.space.finite:
            return  # numbers have no table of probabilities
        if isinstance(given, np.ndarray | LoggingPolicy):
            scored = [log.layout.rows_of(part.score) for part in self.folds.parts(split, 0)]
            rows = np.sort(np.concatenate(scored))
            for block in blocks(len(rows), len(self.fine.actions)):
                matrix = self._matrix(given, rows[block])
                yield rows[block], matrix if self.spec is None else self.cells.sums(matrix)
        elif not self.is_known:
            for part in self.folds.parts(split, 0):
                yield from self._matrices(part, log.layout.rows_of(part.score))

    def _matrix(self, given: Any, rows: Ints) -> Floats:
        if isinstance(given, np.ndarray):
            return np.asarray(given[rows])
        target = given.target(self.fine)
        context = self.fine.context
        asked: Floats = target.probabilities(context.positions(rows) if target.shares_context else rows)
        return asked

    def _matrices(self, part: Part, rows: Ints) -> Iterator[tuple[Ints, Floats]]:
        log, model = self.log, self.model
        fit = self.store.peek((BEHAVIOR, *self._basis(part).key))
        if fit is None:
            return
        for block in blocks(len(rows), len(log.actions)):
            at = rows[block]
            yield (at, self._eligible(fit.predict(self._table(model, at), groups_of(model, log, at)), at))

    def _eligible(self, matrix: Floats, rows: Ints) -> Floats:
        """What could not be taken was not: its fitted probability belongs to the rest."""
        if self.log.eligible is None:
            return matrix
        able = np.where(self.log.eligible[rows], matrix, 0.0)
        total = able.sum(axis=1, keepdims=True)
        return np.asarray(able / np.where(total > 0, total, 1.0))

    def _predicted(self, part: Part, rows: Ints) -> tuple[Floats, Any]:
        fit = self.fit(part)
        if not self.log.space.finite:
            return self._density(fit, rows), False  # a density is never 0
        groups = groups_of(self.model, self.log, rows)
        with few_threads(len(rows)):
            p = self._probability(fit, rows, groups)
        logged = self.fine.propensity
        if isinstance(self.cells, Cells) and self.spec is None and logged is not None:
            # A cell is at least as likely as the action of it that was logged, and as likely where it is alone.
            alone = self.cells.single[self.log.action[rows]]
            p = np.where(alone, logged[rows], np.maximum(p, logged[rows]))
        # A small probability is used as it was fitted. Where the model says that a logged action could not be
        # taken, its weight would be infinite: it gets the share of an action not seen yet, and is counted.
        impossible = p <= 0
        return np.where(impossible, floor_at(fit, groups), p), impossible

    def _fit(self, model: Any, part: Part) -> Any:
        log, seed = self.log, seed_of(self.seed, BEHAVIOR, part.key)
        rows = log.layout.rows_of(part.training)
        weight, count = self.tables.mass(rows), self.tables.count(rows)
        if not log.space.finite:
            density = DensityData(self._table(model, rows), log.action[rows], weight, log.action_range)
            with few_threads(len(rows)):
                return model.fit_density(density, seed)
        groups = groups_of(model, log, rows)
        if self.tables.merges(model) and not abilities(model).sees_targets:
            columns = (self.tables.codes, log.action, *((log.batch,) if log.has_batches else ()))
            rows = rows[np.lexsort([column[rows] for column in reversed(columns)])]
            each = merged(columns, rows, *self.tables.both(rows))
            rows, weight, count = each.rows, each.weight, each.count
            groups = groups_of(model, log, rows)
        data = BehaviorData(
            self._table(model, rows),
            log.action[rows],
            weight,
            len(log.actions),
            groups,
            count,
            None if log.layout.is_single else log.layout.unit[rows],
        )
        with few_threads(len(rows)):
            return model.fit_behavior(data, seed)

    def _table(self, model: Any, rows: Ints) -> Any:
        """What a behavior model sees of some decisions."""
        context, able = self.log.context, abilities(model)
        if able.wants_native:
            return context.native(context.positions(rows))
        table = self.tables.rows(model, context.positions(rows))
        if able.sees_targets:
            table = with_targets(table, self.targets, context, rows)
        if able.sees_step:
            table = with_time(table, self.log.layout.step[rows])
        return table

    def _probability(self, fit: FittedBehavior, rows: Ints, groups: Ints | None) -> Floats:
        log, model = self.log, self.model
        counted = getattr(fit, "of_actions", None)
        if counted is not None and log.eligible is None:
            return np.asarray(counted(log.action[rows], groups))
        out = np.empty(len(rows))
        for block in blocks(len(rows), len(log.actions)):
            at = rows[block]
            matrix = fit.predict(self._table(model, at), picked(groups, block))
            out[block] = self._eligible(matrix, at)[np.arange(len(at)), log.action[at]]
        if not np.isfinite(out).all():
            raise ModelError(f"{type(model).__name__} predicted probabilities that are not finite.")
        return out

    def _density(self, fit: FittedDensity, rows: Ints) -> Floats:
        model, out = self.model, np.empty(len(rows))
        with few_threads(len(rows)):
            for start in range(0, len(rows), ROWS):
                at = rows[start : start + ROWS]
                out[start : start + ROWS] = fit.density(self._table(model, at), self.log.action[at])
        bad = ~(np.isfinite(out) & (out > 0))
        if bad.any():
            raise ModelError(
                f"the fitted density of the logged action is 0 or not finite in {first_rows(bad, out, rows)}, so their "
                "weight would be infinite. Use another behavior_model=, or log the densities."
            )
        return out


def groups_of(model: Any, log: Log, rows: Ints) -> Ints | None:
    """Groups inside which a model counts: those it declares, else the batches of the log."""
    declared = abilities(model).groups
    if declared is not None:
        groups: Ints | None = declared(log, rows)
        return groups
    return np.asarray(log.batch[rows]) if log.has_batches else None


def given_behavior(array: Floats, log: Log) -> Floats:
    """π_b of the logged actions out of an array made elsewhere: (n, K), or (n,) densities of numbers."""
    if not log.space.finite:
        return _given_density(array, log)
    n, k = len(log.action), len(log.actions)
    if array.shape != (n, k):
        raise ModelError(
            f"a behavior array must have shape (n, K) = ({n}, {k}), one column for each of log.actions. "
            f"Got {array.shape}."
        )
    p: Floats = array[np.arange(n), log.action].astype(np.float64)
    if not (np.isfinite(p).all() and (p > 0).all() and (p <= 1).all()):
        raise ModelError("the behavior array gives logged actions a probability that is not in (0, 1].")
    total = array.sum(axis=1, dtype=np.float64)
    off = np.asarray(~(np.abs(total - 1) <= SUM_TOLERANCE) | (array < 0).any(axis=1))
    if off.any():
        raise ModelError(
            f"the behavior array must be a distribution over log.actions in every row, but "
            f"{first_rows(off, total)} do not sum to 1 or have a negative entry."
        )
    return p


def _given_density(array: Floats, log: Log) -> Floats:
    """Densities of the logged actions that were computed elsewhere, (n,)."""
    n = len(log.action)
    values = np.asarray(array, dtype=np.float64)
    if values.shape != (n,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ModelError(
            f"a behavior array of actions that are numbers has one positive density per row, shape ({n},). Got "
            f"{values.shape}."
        )
    return values
