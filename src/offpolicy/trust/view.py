"""What checks look at: a policy on a log with its weights and, where they were fitted, q and v; or the log itself.

A check never fits a model: it looks at the predictions that the estimates already needed, out of fold
where there are any. Only π_b is fitted when nothing asked for it, because overlap must be known even
where the direct method alone was asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

from offpolicy.inference.estimate import Estimate
from offpolicy.inference.reach import masses
from offpolicy.logs.columns import NOT_GIVEN
from offpolicy.scores import formulas as scores
from offpolicy.scores.catalog import BEHAVIOR, BOTH, Estimator
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.inference.intervals.sample import Sample
    from offpolicy.inference.reach import Reach
    from offpolicy.inference.score_table import Units
    from offpolicy.logs.log import Log, OfDecisions
    from offpolicy.policies.target import Target
    from offpolicy.scores.decisions import Decisions
    from offpolicy.splits.folds import Split
    from offpolicy.trust.check import Problem
    from offpolicy.trust.sums import LogSums


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class View:
    """One policy on one log.

    Attributes
    ----------
    split : {"crossfit", "half", "full"}
        Where π_b comes from.
    value_split : same, or None
        Where q and v come from; None when no estimate needed them.
    estimates : {estimator: Estimate}
        Of this policy.
    estimators : sequence of Estimator
        What these were made by.
    declared : bool
        Whether the policy was declared not to be learned from this log.
    """

    problem: Problem
    target: Target
    split: Split
    value_split: Split | None
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    estimators: Sequence[Estimator] = ()
    declared: bool = False
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, problem: Problem, target: Target, **known: Any) -> View:
        """Choose the splits whose predictions exist already."""
        behavior_splits, value_splits = problem.made("pi_b"), problem.made("v")
        both = [s for s in value_splits if problem.weights_known or s in behavior_splits]
        if both:
            return cls(problem, target, both[0], both[0], **known)
        return cls(problem, target, behavior_splits[0] if behavior_splits else "crossfit", None, **known)

    @property
    def log(self) -> Any:
        """The log whose actions the weights are of: cells of actions, where ratios are coarse."""
        return self.problem.ratio_log

    @property
    def behavior_is_known(self) -> bool:
        """Whether π_b is the logged propensities."""
        return self.problem.weights_known

    @property
    def has_model(self) -> bool:
        """Whether there are q and v."""
        return self.value_split is not None

    @property
    def shown(self) -> bool:
        """Whether the policy is known for the shown items only."""
        return self.target.shown is not None

    @cached_property
    def decisions(self) -> Decisions:
        """Weights, and q and v when there are any."""
        return self.problem.decisions(self.target, probe(self))

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
    def weight_sample(self) -> Sample:
        """The weights of independent units."""
        return self.units.sample(self.weight)

    @cached_property
    def mass(self) -> Floats:
        """(N,) mass of each unit in means."""
        return masses(self.units)[0]

    @cached_property
    def square(self) -> Floats:
        """(N,) sum of the squared masses of the units that each stands for."""
        return masses(self.units)[1]

    def context(self, name: str) -> Array:
        """(S,) a column of the context at each decision."""
        context = self.problem.log.context
        values = context.column(name)
        return np.asarray(values if context.index is None else values[context.index])[self.rows]

    @cached_property
    def row_mass(self) -> Floats:
        """(S,) mass of each decision."""
        return self.mass[self.decisions.layout.unit]

    @property
    def reach(self) -> Reach:
        """Where the target puts its mass, over the units scored."""
        return self.problem.reach(self.target, self.split)

    @cached_property
    def score(self) -> Floats:
        """(N,) doubly robust score where q exists, else the importance-weighted one."""
        return (scores.doubly_robust if self.has_model else scores.importance_weighted)(self.decisions)

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


@dataclass(frozen=True, eq=False)
class LogSide:
    """What the checks of a log look at: its columns, and sums over its blocks. No policy, and no π_b of one."""

    log: Log
    sums: LogSums
    shown: bool = False
    behavior_is_known: bool = False

    @cached_property
    def draws(self) -> Draws:
        """Which decisions are separate draws."""
        return draws_of(self.log)


@dataclass(frozen=True, eq=False)
class Draws:
    """Which decisions are separate draws of an action: all of them, or one in each cluster that keeps its action.

    A user who keeps what she was assigned is one draw, however often she comes back: the rows of her earliest
    batch share it. Sums over rows by these shares depend on neither the order nor the grouping of the rows.

    Attributes
    ----------
    number : (S,) array
        Draws: the row's count, or its share of its cluster's one draw.
    weight : (S,) array
        Analysis weight.
    are_rows : bool
        Whether each row is a draw of its own, not a share of its cluster's.
    """

    number: Floats
    weight: Floats
    are_rows: bool = True

    @property
    def mass(self) -> Floats:
        """(S,) mass of the draws of each decision."""
        return self.number * self.weight

    @property
    def square(self) -> Floats:
        """(S,) sum of the squared masses of the draws of each decision."""
        return self.number * self.weight**2

    @property
    def mean_weight(self) -> float:
        """What a draw weighs on average, by which sums of masses are read as numbers of draws."""
        return float(self.mass.sum() / self.number.sum())


def draws_of(log: Log) -> Draws:
    """The draws of a log; its columns ``action``, ``cluster``, ``batch``, ``count`` and ``weight`` tell."""
    count, weight = counts_and_weights(log)
    if not log.has_clusters or several(log):
        return Draws(count, weight)
    _, group = np.unique(log.cluster, return_inverse=True)
    size = int(group.max()) + 1
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lowest, group, log.action)
    np.maximum.at(highest, group, log.action)
    if (lowest < highest).any() or size >= count.sum():
        return Draws(count, weight)
    taking_part = count
    if log.has_batches:
        earliest = np.full(size, int(log.batch.max()))
        np.minimum.at(earliest, group, log.batch)
        taking_part = np.where(log.batch == earliest[group], count, 0.0)
    return Draws(taking_part / np.bincount(group, weights=taking_part)[group], weight, are_rows=False)


def decision_mass(log: Log) -> Floats:
    """(S,) mass of each decision: how many it stands for times its analysis weight."""
    count, weight = counts_and_weights(log)
    return count * weight


def counts_and_weights(log: Log) -> tuple[Floats, Floats]:
    """(S,) how many decisions each row stands for, and the analysis weight of each."""
    unit = log.layout.unit
    return log.count[unit], log.weight[unit]


NO_MODEL = "no estimate needed a reward model."
UNKNOWN = "propensities were not logged."
SHOWN = "the policy has probabilities only for the shown items."


def once(make: Callable[[View], T]) -> Callable[[View], T]:
    """Make something of a view once, however many checks look at it."""

    @wraps(make)
    def made(view: View) -> T:
        if make not in view.memo:
            view.memo[make] = make(view)
        return cast("T", view.memo[make])

    return made


def probe(view: View) -> Estimator:
    """An estimator that looks at what a view has."""
    return Estimator("check", scores.doubly_robust, view.split, BOTH if view.has_model else BEHAVIOR)


def several(log: OfDecisions) -> bool:
    """Whether some unit of a log has more than one decision."""
    return not log.layout.is_single


class Subject(Protocol):
    """What a check looks at: a policy on a log, or a log."""

    @property
    def log(self) -> Any:
        """The log."""

    @property
    def shown(self) -> bool:
        """Whether a policy is known for the shown items only."""


def labels(subject: Subject) -> str:
    """Why a check that is about labels, and what the policy does with each, cannot be made."""
    if subject.shown:
        return SHOWN
    why: str = subject.log.space.why_not
    return why


def propensities(subject: Subject) -> str:
    """Why a check of logged propensities cannot be made."""
    return UNKNOWN if subject.log.propensity is None else ""


def batches(view: View) -> str:
    """Why a check by batch cannot be made."""
    return "" if view.units.has_batches else "the log has no batches."


def model(view: View) -> str:
    """Why a check of the reward model cannot be made."""
    return "" if view.has_model else NO_MODEL
