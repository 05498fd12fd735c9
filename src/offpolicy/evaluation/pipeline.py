"""`Problem`: a log with its folds and nuisances, from which each estimate is one cell of the grid.

Quantities that several estimators share (π_e of the logged actions, π_b, q and v of each split) are made
once and kept, so another estimator or policy costs its score and its predictions, never a fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.errors import NotIdentifiedError
from offpolicy.inference.estimate import Estimate, Units, embedded
from offpolicy.inference.evidence import facts_of, largest_weight
from offpolicy.inference.intervals.facts import Facts
from offpolicy.scores import catalog as grid
from offpolicy.scores.decisions import Decisions, variance_emphasis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.fitting.crossfit import Behavior, Values
    from offpolicy.models.fitting.trajectory_fit import Ratios
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Split

NO_OVERLAP = (
    "no overlap: the target never takes an action that was logged, so its importance weights are all 0 "
    "and the data say nothing about it"
)

NO_SURVIVOR = (
    "at some step no logged episode follows the target, so that every importance weight is 0 there and the "
    "data say nothing about what comes later. Use a shorter horizon (log.first(steps)), DRL or DM"
)

OUT_OF_FOLD_FIRST: tuple[Split, ...] = ("crossfit", "half", "full")
TURNS: tuple[Split, ...] = ("full", "crossfit", "half")


def _turn(estimator: Estimator) -> tuple[bool, int]:
    """When an estimator comes, so that little waits for a fit on another thread.

    The half-sample split comes after the cross-fitted one, whose predictions it takes over with two folds.
    """
    return "value" in estimator.needs, TURNS.index(estimator.split)


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
        order = sorted(estimators, key=_turn)
        self.nuisances.prepare(order)
        try:
            made = {
                (name, estimator.name): self.estimate(target, estimator, everyone)
                for estimator in order
                for name, target in targets.items()
            }
        finally:
            self.nuisances.close()
        return {(name, e.name): made[name, e.name] for e in estimators for name in targets}

    def logged(self) -> Estimate:
        """The logging policy's own value: the mean of Σ γ^t R_t."""
        layout = self.log.layout
        psi = self.log.reward
        if not layout.is_single:
            psi = layout.sum(np.power(self.discount, layout.step) * self.log.reward)
        facts = None
        if self.units.cluster is None and self.units.weight is None:
            facts = Facts(np.ones(len(psi)), psi, 1.0).completed()
        return Estimate(psi[None, :], self.units, "logged", facts=facts)

    def estimate(
        self, target: Target, estimator: Estimator, together: Sequence[Target] | None = None
    ) -> Estimate:
        """One cell of the grid for one policy; ``together`` are policies to predict for in one pass."""
        # Nothing random enters a full-sample estimate but the folds it does not use.
        repeats = 1 if estimator.split == "full" else self.folds.repeats
        rows: list[Floats] = []
        notes: list[str] = list(getattr(self.log, "notes", ()))
        scored = facts = None
        for repeat in range(repeats):
            units = self.scored_units(estimator.split, repeat)
            try:
                d = self.decisions(target, estimator, repeat, together)
                psi, note = self._psi(estimator, d)
            except NotIdentifiedError as error:
                # One estimator that a horizon defeats must not take the others with it.
                return self._undefined(target, estimator, [*notes, str(error)])
            products = "behavior" in estimator.needs and "marginal" not in estimator.needs
            if facts is None and products and (units is None or repeats == 1):
                facts = facts_of(d, self.units, self._weight_bound(target))
            notes += [note] if note else []
            if "behavior" in estimator.needs:
                notes += self._floor_note(estimator.split, repeat)
            notes += self._model_notes(target, estimator, repeat)
            if units is not None:
                psi, scored = embedded(psi, self.units, units)
            rows.append(psi)
        return Estimate(
            np.stack(rows),
            self.units,
            f"{target.name} ({estimator.name})",
            tuple(dict.fromkeys(notes)),
            scored if repeats == 1 else None,
            facts,
        )

    def _weight_bound(self, target: Target) -> float | None:
        """Largest weight that can occur, where logged propensities tell."""
        if getattr(self.nuisances, "behavior_model", None) is not None:
            return None
        bound: float | None = self._keep(
            ("largest", target.name), lambda: largest_weight(self.log, target)
        )
        return bound

    def _undefined(self, target: Target, estimator: Estimator, notes: list[str]) -> Estimate:
        """An estimate that the data do not identify, and why."""
        psi = np.full((1, self.units.n_rows), math.nan)
        label = f"{target.name} ({estimator.name})"
        return Estimate(psi, self.units, label, tuple(dict.fromkeys(notes)))

    def _psi(self, estimator: Estimator, d: Decisions) -> tuple[Floats, str]:
        if "behavior" in estimator.needs and not np.any(d.pi_e > 0):
            return np.full(d.n, math.nan), NO_OVERLAP
        result = grid.apply(estimator, d)
        if not d.layout.is_single and np.isnan(result.psi).all() and not result.note:
            return result.psi, NO_SURVIVOR
        return result.psi, result.note

    def _floor_note(self, split: Split, repeat: int) -> list[str]:
        notes = []
        given = isinstance(getattr(self.nuisances, "behavior_model", None), np.ndarray)
        logged = self.log.propensity is not None and self._weights_known
        if self.log.eligible is not None and not given and not logged:
            notes.append(
                "π_b was fitted over all actions and divided among the eligible ones of each row"
            )
        units = self.scored_units(split, repeat)
        rows = None if units is None else self.log.layout.rows_of(units)
        raised = self.behavior(split, repeat).floored(rows)
        if raised:
            notes.append(
                f"the fitted π_b gave {raised:,} logged actions less than the share of an unseen action, "
                "1 / (n + K), and was raised to it"
            )
        return notes

    @property
    def _weights_known(self) -> bool:
        return getattr(self.nuisances, "behavior_model", None) is None

    def _model_notes(self, target: Target, estimator: Estimator, repeat: int) -> list[str]:
        """What the value model and the ratio of marginals have to say about themselves."""
        notes = []
        if "value" in estimator.needs:
            notes.append(self._values(target, estimator, repeat, [target]).note)
        if "marginal" in estimator.needs:
            unseen = self.marginal(target, estimator.split, repeat).unseen
            if unseen:
                notes.append(
                    f"{unseen:,} steps are in states that the training folds never reached at that step: "
                    "their ratio of marginals is taken as 0, which leaves the value model alone there"
                )
        return [note for note in notes if note]

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
        marginal = None
        if "marginal" in estimator.needs:
            marginal = self.marginal(target, split, repeat).ratio

        def decision(x: Floats) -> Floats:
            return x if rows is None else x[rows]

        def unit(x: Floats | None) -> Floats | None:
            return x if x is None or units is None else x[units]

        made = Decisions(
            log.layout if units is None else log.layout.subset(units),
            decision(log.reward),
            decision(pi_e),
            decision(pi_b),
            decision(q),
            decision(v),
            self.discount,
            unit(self.units.mass),
            None if marginal is None else decision(marginal),
            unit(self.units.count),
            self.folds.labels[repeat] if split == "crossfit" else None,
        )
        if units is None and "behavior" in estimator.needs:
            # Estimators of one split share their weights: kept where a cached property keeps its value, so
            # that `dataclasses.replace` leaves them behind.
            key = ("ratio", target.name, split, 0 if split == "full" else repeat)
            vars(made)["ratio"] = self._keep(key, lambda: made.ratio)
        return made

    def pi_e(self, target: Target) -> Floats:
        """(S,) π_e of the logged actions."""
        result: Floats = self._keep(
            ("pi_e", target.name), lambda: target.of_actions(self.log.context, self.log.action)
        )
        return result

    def behavior(self, split: Split, repeat: int) -> Behavior:
        """π_b of the logged actions in one split."""
        repeat = 0 if split == "full" else repeat
        if split == "half" and ("pi_b", "crossfit", repeat) in self._kept:
            split = "crossfit" if self.folds.half_is_a_fold(repeat) else split
        result: Behavior = self._keep(
            ("pi_b", split, repeat), lambda: self.nuisances.behavior(split, repeat)
        )
        return result

    def marginal(self, target: Target, split: Split, repeat: int) -> Ratios:
        """Ratios of state-action marginals at the logged steps, in one split."""
        repeat = 0 if split == "full" else repeat
        result: Ratios = self._keep(
            ("marginal", target.name, split, repeat),
            lambda: self.nuisances.marginal(split, repeat, target, self.pi_e(target)),
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
            single: dict[str, Values] = self._keep(
                ("mrdr", target.name, split, repeat),
                lambda: self._emphasized(target, split, repeat, pi_b),
            )
            return single[target.name]
        # With two folds a half-sample split is a cross-fit's first fold: the same fit on the same units.
        out_of_fold = self._kept.get(("values", "crossfit", repeat), {})
        if split == "half" and target.name in out_of_fold and self.folds.half_is_a_fold(repeat):
            split = "crossfit"
        kept = self._kept.setdefault(("values", split, repeat), {})
        if target.name not in kept:
            asked = [t for t in together if t.name not in kept]
            kept.update(self.nuisances.values(split, repeat, asked))
        result: Values = kept[target.name]
        return result

    def made(self, kind: Literal["values", "pi_b"]) -> list[Split]:
        """Splits in which q and v, or π_b, have been predicted already, out-of-fold ones first."""
        held = {key[1] for key in self._kept if key[0] == kind}
        return [split for split in OUT_OF_FOLD_FIRST if split in held]

    def _emphasized(
        self, target: Target, split: Split, repeat: int, pi_b: Floats
    ) -> dict[str, Values]:
        """Q fitted to minimize the variance of the doubly robust score."""
        log, pi_e = self.log, self.pi_e(target)
        if log.layout.is_single:
            emphasis = (pi_e / pi_b) ** 2 * (1 - pi_b)
            kept: dict[str, Values] = self.nuisances.values(
                split, repeat, [target], emphasis, target.name
            )
            return kept
        blank = np.zeros_like(pi_e)
        d = Decisions(log.layout, log.reward, pi_e, pi_b, blank, blank, self.discount)
        fitted: dict[str, Values] = self.nuisances.values(
            split, repeat, [target], variance_emphasis(d), target.name
        )
        return fitted

    def with_behavior(self, behavior_model: Any) -> Problem:
        """The same problem with another π_b: value models and their predictions are kept."""
        nuisances = self.nuisances.with_behavior(behavior_model)
        kept = {key: value for key, value in self._kept.items() if key[0] in {"pi_e", "values"}}
        return replace(self, nuisances=nuisances, _kept=kept)

    def _keep(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
