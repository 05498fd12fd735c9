"""What the checks of one policy look at: its weights and, where they were fitted, q and v out of fold.

A check never fits a model: it looks at the predictions that the estimates already needed, out of fold
where there are any. Only π_b is fitted when nothing asked for it, because overlap must be known even
where the direct method alone was asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.estimate import Estimate
from offpolicy.inference.reach import masses
from offpolicy.logs.columns import NOT_GIVEN
from offpolicy.scores import formulas as scores
from offpolicy.scores.catalog import BEHAVIOR, BOTH, Estimator
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.evaluation.problem import Problem
    from offpolicy.inference.reach import Reach
    from offpolicy.inference.score_table import Units
    from offpolicy.policies.target import Target
    from offpolicy.scores.decisions import Decisions
    from offpolicy.splits.folds import Split


@dataclass(frozen=True, eq=False)
class View:
    """One policy on one log.

    Attributes
    ----------
    split : {"crossfit", "half", "full"}
        Where π_b comes from.
    value_split : same, or None
        Where q and v come from; None when no estimate needed them.
    """

    problem: Problem
    target: Target
    split: Split
    value_split: Split | None

    @classmethod
    def of(cls, problem: Problem, target: Target) -> View:
        """Choose the splits whose predictions exist already."""
        behavior_splits, value_splits = problem.made("pi_b"), problem.made("v")
        both = [s for s in value_splits if problem.weights_known or s in behavior_splits]
        if both:
            return cls(problem, target, both[0], both[0])
        return cls(problem, target, behavior_splits[0] if behavior_splits else "crossfit", None)

    @property
    def log(self) -> Any:
        """The log whose actions the weights are of: cells of actions, where ratios are coarse."""
        return self.problem.ratio_log

    @property
    def behavior_is_known(self) -> bool:
        """Whether π_b is the logged propensities."""
        return self.problem.weights_known

    @property
    def regresses_ratios(self) -> bool:
        """Whether ratios of marginals are a regression on a continuous state: neither counted nor given."""
        return self.problem.regresses_ratios

    @property
    def out_of_fold(self) -> bool:
        """Whether nobody was predicted by a model that had seen them."""
        return self.split != "full"

    @cached_property
    def decisions(self) -> Decisions:
        """Weights, and q and v when there are any."""
        needs = BEHAVIOR if self.value_split is None else BOTH
        probe = Estimator("check", scores.doubly_robust, self.split, needs)
        return self.problem.decisions(self.target, probe)

    @cached_property
    def rows(self) -> Ints:
        """Rows of the log that the decisions are."""
        layout, units = self.log.layout, self.problem.folds.scored(self.split, 0)
        return np.arange(layout.n_steps) if units is None else layout.rows_of(units)

    @cached_property
    def units(self) -> Units:
        """The units scored."""
        whole, at = self.problem.units, self.problem.folds.scored(self.split, 0)
        return whole if at is None else whole.part(at)

    @cached_property
    def _scaled(self) -> tuple[Floats, float]:
        d = self.decisions
        if d.layout.is_single:
            return d.ratio, 0.0
        logs = d.log_weight
        top = float(logs.max(initial=-np.inf))
        scale = top if top > LARGEST_LOG_WEIGHT else 0.0
        return np.exp(logs - scale), scale

    @property
    def weight(self) -> Floats:
        """(N,) importance weight of each unit, the product over an episode, up to `scale`."""
        return self._scaled[0]

    @property
    def scale(self) -> float:
        """What weights were divided by: 1 unless they leave the range of a float."""
        return math.exp(self._scaled[1]) if self._scaled[1] < LARGEST_LOG_WEIGHT else math.inf

    @cached_property
    def reward(self) -> Floats:
        """(N,) discounted return of each unit."""
        d = self.decisions
        return d.returns

    @cached_property
    def _masses(self) -> tuple[Floats, Floats]:
        return masses(self.units)

    @property
    def mass(self) -> Floats:
        """(N,) mass of each unit in means."""
        return self._masses[0]

    @property
    def square(self) -> Floats:
        """(N,) sum of the squared masses of the units that each stands for."""
        return self._masses[1]

    @property
    def count(self) -> Floats:
        """(N,) how many units each stands for."""
        return self.units.count

    def context(self, name: str) -> Array:
        """(S,) a column of the context at each decision."""
        context = self.problem.log.context
        values = context.column(name)
        return np.asarray(values if context.index is None else values[context.index])[self.rows]

    def per_decision(self, values: Floats) -> Floats:
        """(S,) a quantity of units at each of their decisions."""
        layout = self.decisions.layout
        return values if layout.is_single else values[layout.unit]

    @cached_property
    def row_mass(self) -> Floats:
        """(S,) mass of each decision."""
        return self.per_decision(self.mass)

    @property
    def reach(self) -> Reach:
        """Where the target puts its mass, over the units scored."""
        return self.problem.reach(self.target, self.split)

    @cached_property
    def score(self) -> Floats:
        """(N,) doubly robust score where q exists, else the importance-weighted one."""
        d = self.decisions
        if self.value_split is None:
            return scores.importance_weighted(d)
        return scores.doubly_robust(d)

    def estimate(self, psi: Floats) -> Estimate:
        """Mean and standard error of a score on these units."""
        return Estimate.from_scores(psi, units=replace(self.units))

    def over_decisions(self, values: Floats, members: Bools | None = None) -> Estimate:
        """Mean of a quantity over decisions, or some of them; the steps of an episode are one cluster."""
        layout, u = self.decisions.layout, self.units
        unit = layout.unit if members is None else layout.unit[members]
        units = replace(u.part(unit), batch=NOT_GIVEN)
        if not u.has_clusters and not layout.is_single:
            units = replace(units, cluster=unit)
        return Estimate.from_scores(values if members is None else values[members], units=units)
