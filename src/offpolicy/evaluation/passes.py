"""The pass: what models predict of one block of a log, and what adds up over blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import is_constant
from offpolicy.columns.store import Columns
from offpolicy.errors import ModelError
from offpolicy.evaluation.block import Block
from offpolicy.inference.reach import masses, reach
from offpolicy.inference.score_table import Units
from offpolicy.logs.given import plain_numbers
from offpolicy.logs.layout import in_log_order
from offpolicy.models.fitting.crossfit import CrossFit
from offpolicy.models.fitting.episodes import EpisodeFit
from offpolicy.policies.coarse import Cells
from offpolicy.policies.target import Target, resolve
from offpolicy.splits.folds import Folds
from offpolicy.trust.sums import log_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.store import FitStore
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Plan, Split

BASE = ("action", "propensity", "batch", "cluster", "weight")


@dataclass(frozen=True)
class Specs:
    """The models that a user asked for: of one metric, of π_b, of ratios."""

    model: Any = None
    behavior_model: Any = None
    ratio_model: Any = None
    seed: int = 0
    n_jobs: int | None = None
    discount: float = 1.0
    ratio: Any = None  # what `as_ratio` made of ratio=; None: of the logged action itself

    @property
    def cells(self) -> Cells | None:
        """Cells of actions that the ratios are of; None where they are of actions."""
        return self.ratio if isinstance(self.ratio, Cells) else None


@dataclass(frozen=True, eq=False)
class Predict:
    """What is done with one block; plain values, so that it can be sent to other machines."""

    plan: Plan
    specs: Specs
    fits: FitStore
    policies: dict[str, Any]
    estimators: Sequence[Estimator]
    behaviors: tuple[tuple[Split, int], ...] = ()
    base: bool = True
    rows: int = 0  # of the whole log, where sums for the checks are made in this pass

    def __call__(self, log: Log, folds: Folds | None = None) -> tuple[dict[Any, Array], dict[Any, Any], dict[Any, Any]]:
        """Columns of the block, what adds up over blocks, and what models have to say."""
        folds = self.plan.block(log.units, labels=log.fold) if folds is None else folds
        resolved = {name: resolve(name, policy, log) for name, policy in self.policies.items()}
        fits = nuisances_of(log, folds, self.specs, self.fits, tuple(resolved.values()))
        columns, cells, notes = Columns(limit=2**62), self.specs.cells, dict[Any, Any]()
        block = Block(0, log, folds, fits, self.specs.discount, columns, notes, cells)
        block.predict([t for target in resolved.values() for t in target.all], self.estimators)
        for split, repeat in self.behaviors:
            block.behavior(split, repeat)
        for target in resolved.values():
            block.pi_e(target)
        if self.base:
            self._put_base(log, folds, columns)
        mass, square = masses(Units(log.layout.n_units, log.count, log.weight))
        seen = [t if cells is None else cells.target(t) for t in resolved.values()]
        unit = log.layout.unit
        sums: dict[Any, Any] = {
            ("reach", which, t.name): reach(fits.behaviors.log, t, (mass * scored)[unit], (square * scored)[unit])
            for each in seen
            for t in each.all
            for which, scored in (("full", 1.0), ("half", folds.half[0]))
        }
        if self.rows:
            sums["log"] = log_sums(log, rows=float(self.rows))
        return {name: columns[name] for name in columns}, sums, notes

    def _put_base(self, log: Log, folds: Folds, columns: Columns) -> None:
        """What is known of every row, and its folds."""
        for name in BASE:
            values = getattr(log, name)
            if values is not None and not is_constant(values):
                columns.put(name, 0, values)
        for name, values in log.metrics.items():
            columns.put(("metric", name), 0, values)
        for r in range(folds.repeats):
            columns.put(("fold", r), 0, folds.labels[r].astype(np.int32))
            columns.put(("half", r), 0, folds.half[r])


def nuisances_of(log: Log, folds: Folds, specs: Specs, fits: FitStore, targets: tuple[Target, ...]) -> Any:
    """The models of a log in memory, or of a block, as its kind needs them."""
    behavior = in_log_order(as_array(specs.behavior_model), log)
    model = in_log_order(as_array(specs.model), log)
    if log.decides_once:
        return CrossFit(log, folds, model, behavior, specs.seed, fits, targets, specs.cells)
    ratios = in_log_order(as_array(specs.ratio_model), log)
    return EpisodeFit(log, folds, model, behavior, specs.seed, fits, specs.discount, ratios, targets)


def as_array(model: Any) -> Any:
    """Arrays and nested lists as numbers, checked; everything else is left as it is."""
    if isinstance(model, list | tuple | np.ndarray):
        return plain_numbers(model, "an array of predictions", ModelError)
    return model


def part_of(folds: Folds, units: Any) -> Folds:
    """Folds of some units of a log."""
    return Folds(folds.labels[:, units], folds.half[:, units], folds.k)
