"""Ratios that are not of the logged action itself: of cells of actions, and of windows around a number.

Does the weight of an action's cell lose what matters?
With the same reward model the two doubly robust scores of a unit differ by (w(A|x) − w(c(A)|x)) (R − q(x, A)), whose
mean is the bias of the coarse ratio: 0 where, beyond what the model says of each action, actions of one cell earn the
same. The test of that mean is paired, and so needs no more than the exact weights of the logged actions, and enough
of them.

Is the window around a policy's number too wide, and do rewards break where it sits?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.columns.keys import APART, OWN
from offpolicy.inference.bend import Bend, agreed, bend, width_of
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.scores.catalog import headline
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import mean_z, two_sided
from offpolicy.trust.view import once, probe, several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.check import Level, Problem
    from offpolicy.trust.view import View

COARSE = "coarse_ratio"
LEANING = "cell_leaning"
SMOOTHING = "smoothing_bias"
BREAK = "break_at_policy"
SURE = 3.3
FEWEST = 100.0  # units' worth of information in the exact weights from which on the test keeps its level
MATTERS = 0.5  # standard errors of the estimate that a bias must exceed to count against it
POWER = 1.96 + 0.84  # standard errors of a bias that a test at 5% finds with 80% power

TINY = 1e-12
UNSEEN = "the logging policy is not known for all actions of a cell, or there are more than 1,000."
UNKNOWN = "the probability of the logged action is not known, so there is no exact ratio to compare with."
FEW = "with the exact weights the log is worth {:.3g} units, too few to test the coarse ratio."


@dataclass(frozen=True)
class Comparison:
    """Coarse minus exact.

    Attributes
    ----------
    gap, error : float
        The difference of the two estimates, and its standard error.
    p : float
        Of the paired test that it is 0.
    coarse, exact : float
        Standard errors of the two estimates.
    size : float
        Units' worth of information in the exact weights.
    """

    gap: float
    error: float
    p: float
    coarse: float
    exact: float
    size: float

    @property
    def possible(self) -> bool:
        """Whether the exact weights carry a test."""
        return self.size >= FEWEST

    @property
    def decides(self) -> bool:
        """Whether the test could be made."""
        return self.possible and not math.isnan(self.p)

    @property
    def visible(self) -> float:
        """The bias that the test would find with 80% power."""
        return POWER * self.error


@once
def compared(view: View) -> Comparison | None:
    """Both ratios of one policy on one log; None where the exact one is not known."""
    columns = view.problem.columns
    own = columns.get((OWN, "pi_b"))
    if own is None or several(view.log):
        return None
    # Ratios of the logged actions themselves.
    d, exact = view.decisions, (columns[OWN, "pi_e", view.target.name] / own)[view.rows]
    left: Floats
    if not view.has_model:
        left = d.reward - view.units.mean(d.reward)
        scores = [w * left for w in (d.ratio, exact)]
    else:
        left = d.reward - d.q
        scores = [d.v + w * left for w in (d.ratio, exact)]
    sample = view.units.sample(scores[0] - scores[1])
    weights = view.units.sample(exact)
    return Comparison(
        sample.estimate,
        sample.std_error,
        two_sided(mean_z(sample, 0.0)),
        view.units.sample(scores[0]).std_error,
        view.units.sample(scores[1]).std_error,
        effective_size(weights.numerator, weights.count),
    )


def paired(view: View) -> Finding:
    """The paired test of the policy's own weights."""
    both = compared(view)
    if both is None:
        return not_applicable(COARSE, UNKNOWN)
    return _paired(both) if both.decides else not_applicable(COARSE, FEW.format(both.size))


def leaning(view: View) -> Finding:
    """The test of the log, where the policy's own weights carry none."""
    both = compared(view)
    if both is not None and both.decides:
        return not_applicable(LEANING, "the policy's own weights are enough for the test.")
    return _leaning(view)


def _leaning(view: View) -> Finding:
    """Do actions of one cell that the logging policy prefers earn more, or less, than their like?

    With l(a) the logarithm of π_b(a | x, cell) less its mean in the cell, E l(A) (R − q) = 0 where actions of one cell
    earn the same beyond the model, whatever the model gets wrong of cells. Policies are seldom made without regard to
    what the logging policy preferred: what cells lose shows here first.
    """
    leaning = view.problem.columns.get(("own", "leaning"))
    if leaning is None or several(view.log):
        return not_applicable(LEANING, UNSEEN)
    d, own = view.decisions, leaning[view.rows]
    left = d.reward - (view.units.mean(d.reward) if not view.has_model else d.q)
    spread = float(np.average(own**2, weights=view.mass))
    if not spread > TINY:
        return not_applicable(LEANING, "the logging policy takes all actions of a cell equally often.")
    sample = view.units.sample(own * left)
    p = two_sided(mean_z(sample, 0.0))
    slope = sample.estimate / spread
    more = "more" if slope > 0 else "less"
    sentence = (
        f"actions that the logging policy prefers earn {more} than others of their cell ({slope:+.3g} per unit of "
        f"log-probability, p = {p:.2g}). Cells hide such differences, and this policy's own weights are too "
        "few to say how much it matters."
        if not fine(LEANING, p)
        else f"actions that the logging policy prefers earn no more than others of their cell (p = {p:.2g})."
    )
    return judged(LEANING, p, sentence, {"slope": slope})


def _paired(both: Comparison) -> Finding:
    large = abs(both.gap) > MATTERS * both.coarse
    differs = not fine(COARSE, both.p)
    verb = "differs from" if differs else "agrees with"
    sentence = (
        f"the estimate with ratios of cells {verb} that with ratios of actions: {both.gap:+.3g} ± {both.error:.2g} "
        f"(p = {both.p:.2g}). The test would detect a bias of {both.visible:.2g} with 80% power."
    )
    at_most: Level = "alarm" if large else "note"
    details = {
        "difference": both.gap,
        "std_error": both.error,
        "visible_bias": both.visible,
        "std_error_coarse": both.coarse,
        "std_error_exact": both.exact,
        "effective_sample_size": both.size,
    }
    return judged(COARSE, both.p, sentence, details, at_most=at_most)


def smoothed(view: View) -> list[Estimator]:
    """Estimators whose estimates are smoothed over a window."""
    made = {name: e for name, e in view.estimates.items() if e.smoothed is not None and e.is_defined}
    return [e for e in view.estimators if e.name in made]


def is_smoothed(view: View) -> bool:
    """Whether some estimate is."""
    return bool(smoothed(view))


def smoothing(view: View) -> Finding:
    """The bias of the smoothing in standard errors of the estimate that speaks."""
    chosen = headline(smoothed(view))
    estimate = view.estimates[chosen.name]
    bias, error = estimate.smoothing
    if not estimate.score_error > 0 or not error > 0:
        return not_applicable(SMOOTHING, "the scores do not vary with the bandwidth.")
    z, size = bias / error, abs(bias) / estimate.score_error
    sure = abs(z) > SURE
    sentence = (
        f"halving the bandwidth moves {chosen.name} by {abs(z):.2g} standard errors of the difference. That is a bias "
        f"of {bias:+.3g}, {size:.2g} standard errors of the estimate, which its intervals allow for."
        if sure
        else f"halving the bandwidth moves {chosen.name} by no more than noise (z = {z:.2g})."
    )
    return judged(SMOOTHING, size if sure else 0.0, sentence, {"z": z, "bias": bias, "error": error})


def at_a_break(view: View) -> Finding:
    """Whether the mean reward has a corner or a jump at the policy's number, where a window never is narrow enough."""
    found = bent(view.problem, view.target, probe(view))
    if found is None:
        return not_applicable(BREAK, "too few rows are on both sides of the policy's number to tell.")
    what = {
        "corner": f"the slope of the mean reward changes by {found.size:+.3g} at the policy's number, so the bias "
        "is proportional to the window, which intervals allow for",
        "jump": f"the mean reward jumps by {found.size:+.3g} at the policy's number. A window around it averages both "
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


CHECKS = (
    Check(
        COARSE,
        Threshold(
            0.01, 0.001, "below",
            "Actions of one cell earn different rewards, or π_b of cells is wrong. Use more features or finer cells, a "
            "reward model that distinguishes these actions, or ratio='exact'.",
            decides=True, false_alarms=0.01,
        ),
        policy=paired, where=lambda view: view.problem.cells is not None,
        topic=Topic("Actions that share a cell earn different rewards."),
        value="p-value: paired test between estimates with ratios of cells and of actions", part_of="cells",
    ),
    Check(
        LEANING,
        Threshold(
            0.003, 0.001, "below",
            "Use more features or finer cells, a reward model that distinguishes these actions, or evaluate a softened "
            "version of the policy, which has more weights to test with.",
            decides=True, false_alarms=0.003,
        ),
        policy=leaning, where=lambda view: view.problem.cells is not None,
        topic=Topic("Actions that share a cell earn different rewards, and the policy favors some of them."),
        value="p-value: actions that the logging policy prefers earn as much as others of their cell",
        part_of="cells",
    ),
    Check(
        SMOOTHING,  # where it is more than noise
        Threshold(
            1.0, 4.0, "above",
            "The window around the policy's number is too wide. Give a smaller bandwidth=, or use 'auto'.",
            false_alarms=0.001,
        ),
        policy=smoothing, where=is_smoothed,
        topic=Topic("The window around the policy's number is wide enough to bias the estimate."),
        value="bias from the window around a policy's number, in standard errors, if it is more than noise",
        part_of="window",
    ),
    Check(
        BREAK,
        Threshold(
            4.0, math.inf, "above",
            "Move the policy's number away from the break, evaluate each side of it separately, or log more actions "
            "near it and give a small bandwidth=.",
            decides=True, false_alarms=0.01,
        ),
        policy=at_a_break, where=is_smoothed, topic=Topic("Rewards bend or jump exactly at the policy's number."),
        value="size of a corner or jump of the mean reward at a policy's number, in standard errors", part_of="window",
    ),
)  # fmt: skip
