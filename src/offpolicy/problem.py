"""`Problem`: a log with its folds and nuisances, from which each estimate is one cell of the grid.

Quantities that several estimators share (π_e of the logged actions, π_b, q and v of each split) are made
once and kept, so another estimator or policy costs its score and its predictions, never a fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy import estimators as grid
from offpolicy.decisions import Decisions
from offpolicy.inference import Estimate, Units, embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy.arrays import Floats, Ints
    from offpolicy.estimators import Estimator
    from offpolicy.folds import Folds, Split
    from offpolicy.nuisance.crossfit import Behavior, Values
    from offpolicy.targets import Target

NO_OVERLAP = (
    "no overlap: the target never takes an action that was logged, so its importance weights are all 0 "
    "and the data say nothing about it"
)


@dataclass(eq=False)
class Problem:
    """What every estimate of one evaluation shares."""

    log: Any
    folds: Folds
    units: Units
    discount: float
    nuisances: Any
    _kept: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)

    def run(
        self, targets: dict[str, Target], estimators: Sequence[Estimator]
    ) -> dict[tuple[str, str], Estimate]:
        """Every policy by every estimator."""
        everyone = list(targets.values())
        return {
            (name, estimator.name): self.estimate(target, estimator, everyone)
            for estimator in estimators
            for name, target in targets.items()
        }

    def logged(self) -> Estimate:
        """The logging policy's own value: the mean of Σ γ^t R_t."""
        layout = self.log.layout
        psi = self.log.reward
        if not layout.is_single:
            psi = layout.sum(np.power(self.discount, layout.step) * self.log.reward)
        return Estimate(psi[None, :], self.units, "logged")

    def estimate(
        self, target: Target, estimator: Estimator, together: Sequence[Target] | None = None
    ) -> Estimate:
        """One cell of the grid for one policy; ``together`` are policies to predict for in one pass."""
        # Nothing random enters a full-sample estimate but the folds it does not use.
        repeats = 1 if estimator.split == "full" else self.folds.repeats
        rows: list[Floats] = []
        notes: list[str] = []
        scored = None
        for repeat in range(repeats):
            units = self.scored_units(estimator.split, repeat)
            d = self.decisions(target, estimator, repeat, together)
            psi, note = self._psi(estimator, d)
            notes += [note] if note else []
            if "behavior" in estimator.needs:
                notes += self._floor_note(estimator.split, repeat)
            if units is not None:
                psi, scored = embedded(psi, self.units, units)
            rows.append(psi)
        return Estimate(
            np.stack(rows),
            self.units,
            f"{target.name} ({estimator.name})",
            tuple(dict.fromkeys(notes)),
            scored if repeats == 1 else None,
        )

    def _psi(self, estimator: Estimator, d: Decisions) -> tuple[Floats, str]:
        if "behavior" in estimator.needs and not np.any(d.pi_e > 0):
            return np.full(d.n, math.nan), NO_OVERLAP
        result = grid.apply(estimator, d)
        return result.psi, result.note

    def _floor_note(self, split: Split, repeat: int) -> list[str]:
        raised = self.behavior(split, repeat).floored
        if not raised:
            return []
        note = (
            f"the fitted π_b gave {raised:,} logged actions less than the share of an unseen action, "
            "1 / (n + K), and was raised to it"
        )
        return [note]

    def scored_units(self, split: Split, repeat: int) -> Ints | None:
        """Units a split scores; None means all."""
        return self.folds.parts("half", repeat)[0].score if split == "half" else None

    def decisions(
        self,
        target: Target,
        estimator: Estimator,
        repeat: int = 0,
        together: Sequence[Target] | None = None,
    ) -> Decisions:
        """What the score of one estimator looks at, on the units its split scores."""
        log, split = self.log, estimator.split
        units = self.scored_units(split, repeat)
        rows = None if units is None else log.layout.rows_of(units)
        pi_e = self.pi_e(target)
        pi_b = np.ones_like(pi_e)
        if "behavior" in estimator.needs:
            pi_b = self.behavior(split, repeat).probability
        q = v = np.zeros_like(pi_e)
        if "value" in estimator.needs:
            values = self._values(target, estimator, repeat, together or [target])
            q, v = values.q, values.v

        def decision(x: Floats) -> Floats:
            return x if rows is None else x[rows]

        def unit(x: Floats | None) -> Floats | None:
            return x if x is None or units is None else x[units]

        return Decisions(
            log.layout if units is None else log.layout.subset(units),
            decision(log.reward),
            decision(pi_e),
            decision(pi_b),
            decision(q),
            decision(v),
            self.discount,
            unit(self.units.mass),
            None,
            unit(self.units.count),
        )

    def pi_e(self, target: Target) -> Floats:
        """(S,) π_e of the logged actions."""
        result: Floats = self._keep(
            ("pi_e", target.name), lambda: target.of_actions(self.log.context, self.log.action)
        )
        return result

    def behavior(self, split: Split, repeat: int) -> Behavior:
        """π_b of the logged actions in one split."""
        repeat = 0 if split == "full" else repeat
        result: Behavior = self._keep(
            ("pi_b", split, repeat), lambda: self.nuisances.behavior(split, repeat)
        )
        return result

    def _values(
        self, target: Target, estimator: Estimator, repeat: int, together: Sequence[Target]
    ) -> Values:
        split = estimator.split
        repeat = 0 if split == "full" else repeat
        if estimator.emphasis is not None:
            # Training rows of a half-sample split have no out-of-fold π_b of their own there.
            source: Split = "crossfit" if split == "half" else split
            pi_b = self.behavior(source, repeat).probability
            emphasis = (self.pi_e(target) / pi_b) ** 2 * (1 - pi_b)
            single: dict[str, Values] = self._keep(
                ("mrdr", target.name, split, repeat),
                lambda: self.nuisances.values(split, repeat, [target], emphasis, target.name),
            )
            return single[target.name]
        kept = self._kept.setdefault(("values", split, repeat), {})
        if target.name not in kept:
            asked = [t for t in together if t.name not in kept]
            kept.update(self.nuisances.values(split, repeat, asked))
        result: Values = kept[target.name]
        return result

    def _keep(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
