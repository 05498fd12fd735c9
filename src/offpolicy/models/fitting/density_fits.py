"""Densities of logged actions that are numbers, fitted out of fold where they were not logged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.errors import ModelError, first_rows
from offpolicy.models.behavior.density import DensityData, as_density_model
from offpolicy.models.fitting.predicted import Behavior
from offpolicy.models.fitting.store import BEHAVIOR, FitStore, seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.behavior.density import DensityModel, FittedDensity
    from offpolicy.models.fitting.tables import Tables
    from offpolicy.splits.folds import Folds, Part, Split

ROWS = 250_000


@dataclass(frozen=True, eq=False)
class DensityFits:
    """π_b of one log (or of a block of it) in every split, as densities."""

    log: Log
    folds: Folds
    spec: Any
    seed: int
    store: FitStore
    tables: Tables

    @property
    def is_known(self) -> bool:
        """Whether the logged densities are used as they are."""
        return self.spec is None and self.log.propensity is not None

    @property
    def is_given(self) -> bool:
        """Whether nothing is fitted."""
        return self.is_known or isinstance(self.spec, np.ndarray)

    def of_split(self, split: Split, repeat: int) -> Behavior:
        """Densities of the logged actions in one split."""
        log = self.log
        if self.is_known:
            return Behavior(log.propensity)
        if isinstance(self.spec, np.ndarray):
            return Behavior(given_density(self.spec, log))
        out = np.full(len(log.action), np.nan)
        for part in self.folds.parts(split, repeat):
            if len(part.score):  # a block of a larger log may hold none of a fold
                out[part.score] = self._predicted(part, part.score)
        return Behavior(out)

    def of_training(self, part: Part, rows: Ints) -> Floats:
        """Densities at training rows, from the model that was fitted to them."""
        if self.is_given:
            return np.asarray(self.of_split("full", 0).probability[rows])
        return self._predicted(part, rows)

    def fit(self, part: Part) -> FittedDensity:
        """The model fitted on the training units of a part."""
        fit: FittedDensity = self.store.get((BEHAVIOR, *part.key), partial(self._fit, part))
        return fit

    @property
    def model(self) -> DensityModel:
        """What is fitted."""
        return as_density_model(self.spec)

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Nothing: numbers have no table of probabilities."""
        yield from ()

    def _fit(self, part: Part) -> FittedDensity:
        log, model, rows = self.log, self.model, np.asarray(part.training)
        data = DensityData(
            self.tables.rows(model, log.context.positions(rows)),
            log.action[rows],
            self.tables.mass(rows),
            log.action_range,
        )
        with few_threads(len(rows)):
            return model.fit_density(data, seed_of(self.seed, BEHAVIOR, part.key))

    def _predicted(self, part: Part, rows: Ints) -> Floats:
        fit, model, log = self.fit(part), self.model, self.log
        out = np.empty(len(rows))
        with few_threads(len(rows)):
            for start in range(0, len(rows), ROWS):
                at = rows[start : start + ROWS]
                table = self.tables.rows(model, log.context.positions(at))
                out[start : start + ROWS] = fit.density(table, log.action[at])
        bad = ~(np.isfinite(out) & (out > 0))
        if bad.any():
            raise ModelError(
                f"the fitted density of the logged action is 0 or not finite in {first_rows(bad, out, rows)}: their "
                "weight would be infinite. Use another behavior_model=, or log the densities."
            )
        return out


def given_density(array: Floats, log: Log) -> Floats:
    """Densities of the logged actions that were computed elsewhere, (n,)."""
    n = len(log.action)
    values = np.asarray(array, dtype=np.float64)
    if values.shape != (n,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ModelError(
            f"a behavior array of actions that are numbers has one positive density per row, shape ({n},). Got "
            f"{values.shape}."
        )
    return values
