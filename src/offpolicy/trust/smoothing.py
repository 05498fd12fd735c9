"""Smoothing: whether the window around a policy's number is too wide, and whether rewards break where it sits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.columns.names import APART
from offpolicy.inference.bend import Bend, agreed, bend, width_of
from offpolicy.scores import formulas as scores
from offpolicy.scores.catalog import BEHAVIOR, BOTH, Estimator, headline
from offpolicy.trust.finding import Finding, judged, not_applicable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.evaluation.problem import Problem
    from offpolicy.inference.estimate import Estimate
    from offpolicy.policies.target import Target
    from offpolicy.trust.view import View

NAME = "smoothing_bias"
BREAK = "break_at_policy"
SURE = 3.3


def break_finding(view: View) -> Finding:
    """Whether the mean reward has a corner or a jump at the policy's number, where a window never is narrow enough."""
    needs = BEHAVIOR if view.value_split is None else BOTH
    probe = Estimator("check", scores.doubly_robust, view.split, needs)
    found = bent(view.problem, view.target, probe)
    if found is None:
        return not_applicable(BREAK, "too few rows lie on both sides of the policy's number to tell.")
    what = {
        "corner": f"the slope of the mean reward changes by {found.size:+.3g} at the policy's number: the bias shrinks "
        "with the window only as fast as the window, for which intervals allow",
        "jump": f"the mean reward jumps by {found.size:+.3g} at the policy's number: a window around it averages both "
        f"sides, and intervals do not allow for a bias of {abs(found.size) / 2:.3g}",
        "none": "no sign of a corner or a jump of the mean reward at the policy's number",
    }[found.kind]
    sure = "" if found.kind == "none" else f" (z = {found.z:.2g})"
    details = {"kind": found.kind, "size": found.size}
    made = judged(BREAK, abs(found.z), f"{what}{sure}.", details)
    # One side of a jump is outside of the interval, however many rows there are.
    return replace(made, level="alarm") if found.kind == "jump" else made


def bent(problem: Problem, target: Target, estimator: Estimator) -> Bend | None:
    """Whether the mean reward breaks at the number that a policy names; None where that cannot be told."""
    name = (APART, target.values_of)
    if name not in problem.columns:
        return None
    modeled = "value" in estimator.needs and estimator.emphasis is None
    key = ("bend", target.values_of, estimator.split, modeled)
    if key not in problem.cache:
        d = problem.decisions(target, estimator)
        rows = problem.folds.scored(estimator.split, 0)
        apart = problem.columns[name] if rows is None else problem.columns[name][rows]
        units = problem.units if rows is None else problem.units.part(rows)
        cluster = units.cluster if units.has_clusters else None
        width = width_of(np.asarray(problem.log.action, dtype=np.float64))
        plain = d.reward - float(np.average(d.reward, weights=d.mass))
        # A break is in the rewards themselves; what the model knows of contexts takes noise away.
        rests = (plain, d.reward - d.v) if modeled else (plain,)
        problem.cache[key] = agreed([bend(apart, rest, d.mass, cluster, width) for rest in rests])
    made: Bend | None = problem.cache[key]
    return made


def finding(estimates: Mapping[str, Estimate], estimators: Sequence[Estimator]) -> Finding | None:
    """The bias of the smoothing in standard errors of the estimate that speaks; None where nothing is smoothed."""
    smooth = [
        e
        for e in estimators
        if e.name in estimates and estimates[e.name].smoothed is not None and estimates[e.name].is_defined
    ]
    if not smooth:
        return None
    chosen = headline(smooth)
    estimate = estimates[chosen.name]
    bias, error = estimate.smoothing
    if not estimate.score_error > 0 or not error > 0:
        return not_applicable(NAME, "the scores do not vary with the bandwidth.")
    z, size = bias / error, abs(bias) / estimate.score_error
    sure = abs(z) > SURE
    sentence = (
        f"halving the bandwidth moves {chosen.name} by {abs(z):.2g} standard errors of the difference: a bias of "
        f"{bias:+.3g}, {size:.2g} standard errors of the estimate, for which its intervals allow."
        if sure
        else f"halving the bandwidth moves {chosen.name} by no more than noise (z = {z:.2g})."
    )
    return judged(NAME, size if sure else 0.0, sentence, {"z": z, "bias": bias, "error": error})
