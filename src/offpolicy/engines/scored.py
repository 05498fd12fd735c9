"""Scores of one chunk as sums: what is computed on every chunk, here or on another machine.

The scores are those of `offpolicy.scores`. A self-normalized score needs means over the whole log, which it
asks for by `Decisions.mean`: a pass answers with the means of the pass before and sums what the next one will
need, until nothing changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.chunks import Fitted, Schema
from offpolicy.evaluation.pipeline import Problem
from offpolicy.inference.estimate import Units
from offpolicy.inference.moments import Moments
from offpolicy.policies import target as targets
from offpolicy.scores import catalog as grid
from offpolicy.scores.decisions import Decisions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.scores.catalog import Estimator

Key = tuple[str, str]
Sums = dict[Key, list[tuple[float, float]]]


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that scoring a chunk needs; plain values, so that it can be sent to other machines."""

    schema: Schema
    policies: dict[str, Any]
    estimators: Sequence[Estimator]
    models: dict[tuple[Any, ...], Any]
    reward_model: Any
    behavior_model: Any

    @property
    def keys(self) -> list[Key]:
        """(policy, estimator) of the scores, in the order of z."""
        return [(name, e.name) for e in self.estimators for name in self.policies]


@dataclass(frozen=True, eq=False)
class Part:
    """Sums of one or more chunks.

    Attributes
    ----------
    moments : Moments
        Of z: one entry a score, then the logged rewards, the weights of all rows and of the scored half.
    means : dict
        Σ mass·x and Σ mass of every mean that a score asked for, in the order it asked.
    rows : (2,) array
        Rows, and rows of the scored half.
    weights : dict
        Of each policy: n, Σw, Σw², the largest weight, and rows with w > 0.
    """

    moments: Moments
    means: Sums
    rows: Floats
    weights: dict[str, Floats] = field(default_factory=dict)

    def __add__(self, other: Part) -> Part:
        means = dict(self.means)
        for key, sums in other.means.items():
            mine = means.get(key, [])
            longest = max(len(mine), len(sums))
            pad = [(0.0, 0.0)] * longest
            pairs = zip([*mine, *pad][:longest], [*sums, *pad][:longest], strict=True)
            means[key] = [(a + c, b + d) for (a, b), (c, d) in pairs]
        weights = {}
        for name, ours in self.weights.items():
            theirs = other.weights[name]
            weights[name] = np.where(np.arange(5) == 3, np.maximum(ours, theirs), ours + theirs)
        return Part(self.moments + other.moments, means, self.rows + other.rows, weights)


@dataclass(frozen=True, eq=False)
class _Streamed(Decisions):
    """Decisions of a chunk whose means are those of the whole log."""

    known: list[float] = field(default_factory=list)
    asked: list[tuple[float, float]] = field(default_factory=list)

    def mean(self, values: Floats) -> float:
        """The whole log's mean, once known; the chunk's own until then."""
        mass = float(self.mass.sum())
        total = float(values @ self.mass)
        at = len(self.asked)
        self.asked.append((total, mass))
        if at < len(self.known):
            return self.known[at]
        return total / mass if mass else math.nan


def score_chunk(
    task: Task,
    rows: Any,
    first: int,
    known: dict[Key, list[float]],
    kept: dict[tuple[Any, ...], Any] | None = None,
) -> tuple[Part, Problem]:
    """Sums of one chunk of Arrow rows; ``kept`` are its predictions, made in an earlier pass."""
    problem = chunk_problem(task, rows, first)
    problem._kept.update(kept or {})  # noqa: SLF001
    log = problem.log
    resolved = {name: targets.resolve(name, policy, log) for name, policy in task.policies.items()}
    everyone = list(resolved.values())
    weight = np.ones(log.rows) if log.weight is None else log.weight
    half = problem.folds.half[0]
    columns: list[Floats] = []
    means: Sums = {}
    weights: dict[str, Floats] = {}
    for estimator in task.estimators:
        for name, target in resolved.items():
            d = problem.decisions(target, estimator, 0, everyone)
            own = {f.name: getattr(d, f.name) for f in fields(d)}
            streamed = _Streamed(**own, known=known.get((name, estimator.name), []))
            psi = grid.apply(estimator, streamed).psi
            means[name, estimator.name] = streamed.asked
            column = np.zeros(log.rows)
            scored = problem.scored_units(estimator.split, 0)
            column[slice(None) if scored is None else scored] = psi
            columns.append(column * weight)
            if "behavior" in estimator.needs and name not in weights:
                weights[name] = _weights(d)
    columns += [log.reward * weight, weight, weight * half]
    z = np.column_stack(columns)
    if log.cluster is not None:
        z = _cluster_sums(z, log.cluster)
    part = Part(Moments.of(z), means, np.array([float(log.rows), float(half.sum())]), weights)
    return part, problem


def chunk_problem(task: Task, rows: Any, first: int) -> Problem:
    """The `Problem` of some Arrow rows, with the models fitted before."""
    log, folds = task.schema.chunk(rows, first)
    nuisances = Fitted(
        log,
        folds,
        task.reward_model,
        task.behavior_model,
        task.schema.plan.seed,
        fits=task.models,
        schema=task.schema,
    )
    units = Units(log.rows, None, log.weight, log.cluster, log.batch)
    return Problem(log, folds, units, 1.0, nuisances)


def _weights(d: Decisions) -> Floats:
    w = d.ratio
    return np.array(
        [len(w), w.sum(), float(w @ w), w.max(initial=0.0), np.count_nonzero(w)], dtype=np.float64
    )


def _cluster_sums(z: Floats, cluster: Any) -> Floats:
    size = int(cluster.max()) + 1
    return np.column_stack([np.bincount(cluster, weights=column, minlength=size) for column in z.T])
