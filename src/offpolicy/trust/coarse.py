"""The coarse ratio against the exact one: does the weight of an action's cell lose what matters?

With the same reward model the two doubly robust scores of a unit differ by (w(A|x) − w(c(A)|x)) (R − q(x, A)), whose
mean is the bias of the coarse ratio: 0 where, beyond what the model says of each action, actions of one cell earn the
same. The test of that mean is paired, and so needs no more than the exact weights of the logged actions, and enough
of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.columns.names import OWN
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import mean_z, two_sided
from offpolicy.trust.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.trust.thresholds import Level
    from offpolicy.trust.view import View

NAME = "coarse_ratio"
LEANING = "cell_leaning"
FEWEST = 100.0  # units' worth of information in the exact weights from which on the test keeps its level
MATTERS = 0.5  # standard errors of the estimate that a bias must exceed to count against it
POWER = 1.96 + 0.84  # standard errors of a bias that a test at 5% finds with 80% power

TINY = 1e-12
UNSEEN = "the logging policy is not known for all actions of a cell, or there are more than 1,000."
UNKNOWN = "the probability of the logged action is not known, so that there is no exact ratio to compare with."
FEW = "the exact weights leave as much information as {:.3g} units: too little to test the coarse ratio with."


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
    def visible(self) -> float:
        """The bias that the test would find with 80% power."""
        return POWER * self.error


def compared(view: View) -> Comparison | None:
    """Both ratios of one policy on one log; None where the exact one is not known."""
    columns = view.problem.columns
    own = columns.get((OWN, "pi_b"))
    if own is None or not view.decisions.layout.is_single:
        return None
    # Ratios of the logged actions themselves.
    d, exact = view.decisions, (columns[OWN, "pi_e", view.target.name] / own)[view.rows]
    left: Floats
    if view.value_split is None:
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


def findings(view: View) -> list[Finding]:
    """The checks, where ratios are coarse: of the policy's own weights, or of the log where these carry no test."""
    if view.problem.cells is None:
        return []
    both = compared(view)
    if both is None:
        return [not_applicable(NAME, UNKNOWN), _leaning(view)]
    if not both.possible or math.isnan(both.p):
        return [not_applicable(NAME, FEW.format(both.size)), _leaning(view)]
    return [_paired(both), not_applicable(LEANING, "the policy's own weights carry the test.")]


def _leaning(view: View) -> Finding:
    """Do actions of one cell that the logging policy prefers earn more, or less, than their like?

    With l(a) the logarithm of π_b(a | x, cell) less its mean in the cell, E l(A) (R − q) = 0 where actions of one cell
    earn the same beyond the model, whatever the model gets wrong of cells. Policies are seldom made without regard to
    what the logging policy preferred: what cells lose shows here first.
    """
    leaning = view.problem.columns.get(("own", "leaning"))
    if leaning is None or not view.decisions.layout.is_single:
        return not_applicable(LEANING, UNSEEN)
    d, own = view.decisions, leaning[view.rows]
    left = d.reward - (view.units.mean(d.reward) if view.value_split is None else d.q)
    spread = float(np.average(own**2, weights=view.mass))
    if not spread > TINY:
        return not_applicable(LEANING, "the logging policy takes all actions of a cell alike.")
    sample = view.units.sample(own * left)
    p = two_sided(mean_z(sample, 0.0))
    slope = sample.estimate / spread
    more = "more" if slope > 0 else "less"
    sentence = (
        f"actions that the logging policy prefers earn {more} than others of their cell ({slope:+.3g} per unit of "
        f"log-probability, p = {p:.2g}): cells lose what a policy may choose by, and this policy's own weights are too "
        "few to say how much."
        if THRESHOLDS[LEANING].level(p) != "ok"
        else f"actions that the logging policy prefers earn no more than others of their cell (p = {p:.2g})."
    )
    return judged(LEANING, p, sentence, {"slope": slope})


def _paired(both: Comparison) -> Finding:
    large = abs(both.gap) > MATTERS * both.coarse
    differs = THRESHOLDS[NAME].level(both.p) != "ok"
    verb = "differs from" if differs else "agrees with"
    sentence = (
        f"the estimate with ratios of cells {verb} that with ratios of actions: {both.gap:+.3g} ± {both.error:.2g} "
        f"(p = {both.p:.2g}). A bias of {both.visible:.2g} would show with 80% power."
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
    return judged(NAME, both.p, sentence, details, at_most=at_most)
