"""The curse of the horizon as a curve: what is left of the importance weights after each step.

At step t, with weights ρ_t (an episode that has ended keeps its last one),

    effective size  (Σ c w ρ_t)² / Σ c (w ρ_t)²,     mean weight  Σ c w ρ_t / Σ c w  (1 in expectation),

where c episodes of analysis weight w are alike, and sums run inside clusters first. At the last step this is
the effective sample size of the whole evaluation. Weights enter as logarithms, so the curve exists where the
weights themselves would overflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.intervals.tails import effective_size
from offpolicy.inference.score_table import Units
from offpolicy.logs.kinds import decision_word, unit_word
from offpolicy.scores.blend import ENOUGH_EPISODES, ENOUGH_SHARE
from offpolicy.trust.check import OVERLAP, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.models import REWARD_MODEL
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.view import View

SLATE_REMEDY = (
    "Evaluate a policy closer to the current one, or assume that rewards depend on fewer slots if that is true "
    "(interaction=)."
)


@dataclass(frozen=True, eq=False)
class HorizonCurve:
    """Weights by step, (T+1,) each.

    Attributes
    ----------
    effective : array
        Effective number of episodes (clusters, where given) at t.
    surviving : array
        Share of episodes whose weight is still positive.
    largest : array
        Share of all weight that one episode carries.
    mean : array
        Mean weight; far from 1 at some t means wrong propensities, or too few episodes to see the tail.
    active : array
        Episodes that have a step t.
    running : array
        Share of the episodes that have a step t, by their mass.
    n : float
        Episodes (clusters, where given).
    """

    effective: Floats
    surviving: Floats
    largest: Floats
    mean: Floats
    active: Floats
    running: Floats
    n: float

    @property
    def share(self) -> Floats:
        """Effective size as a share of all episodes."""
        return self.effective / self.n

    @property
    def supported(self) -> int:
        """Steps up to which the weights keep 100 effective episodes, or a tenth of all."""
        enough = (self.effective >= ENOUGH_EPISODES) | (self.share >= ENOUGH_SHARE)
        return int(np.argmin(enough)) if not enough.all() else len(enough)


def horizon_curve(d: Decisions, units: Units | None = None) -> HorizonCurve:
    """What the weights look like at each step.

    Parameters
    ----------
    d : Decisions
    units : Units, optional
        Counts, weights and clusters of the episodes; default: those that ``d`` carries.

    Examples
    --------
    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> one, half = np.ones(4), np.full(4, 0.5)
    >>> d = Decisions(Layout.ragged([2, 2]), one, np.array([1.0, 1, 1, 0]), half, one, one)
    >>> horizon_curve(d).effective.tolist()
    [2.0, 1.0]
    """
    if units is None:
        units = Units(d.n, d.count, d.mass / d.count)
    count, mass = units.count, units.mass
    steps: list[tuple[float, ...]] = []
    for _, active, _, log_now in d.log_rho_by_step():
        running = float(mass[active].sum() / mass.sum())
        steps.append((*_moments(log_now, units, mass, count), count[active].sum(), running))
    size = units.sample(np.zeros(d.n)).total
    effective, surviving, largest, mean, active_units, running_share = np.array(steps).T
    return HorizonCurve(effective, surviving, largest, mean, active_units, running_share, size)


def _moments(log_rho: Floats, units: Units, mass: Floats, count: Floats) -> tuple[float, float, float, float]:
    """Effective size, share above 0, share of the largest, and mean of the weights at one step."""
    highest = float(log_rho.max())
    if np.isneginf(highest):
        return 0.0, 0.0, 0.0, 0.0
    rho = np.exp(log_rho - highest)
    sample = units.sample(rho)
    total, size = float(mass @ rho), float(mass.sum())
    surviving = float(mass @ np.isfinite(log_rho)) / size
    with np.errstate(over="ignore"):
        mean = float(np.exp(highest) * total / size)
    largest = float((mass / count * rho).max()) / total
    return effective_size(sample.numerator, sample.count), surviving, largest, mean


def support(curve: HorizonCurve, log: Log) -> tuple[str, str]:
    """How far the weights carry, and what to do where they do not carry to the end."""
    units, step, items = unit_word(log, plural=True), decision_word(log), log.unit_kind.shows_items
    steps = len(curve.effective)
    last = float(curve.effective[-1])
    if curve.supported == steps:
        size = f"{last:,.0f} effective {units}"
        return f"there are enough {units} up to the last of {steps} {step}s ({size}), so DML is supported.", ""
    enough = min(ENOUGH_EPISODES, ENOUGH_SHARE * curve.n)
    sentence = (
        f"after {step} {curve.supported} of {steps}, the log is worth fewer than {enough:.0f} {units} "
        f"({last:,.1f} at the end), too few to estimate the whole {'slate' if items else 'horizon'} with products "
        "of ratios."
    )
    if items:
        return sentence, SLATE_REMEDY
    remedy = (
        "Use DRL, whose ratios do not multiply over steps"
        if log.is_discrete
        else "Use DRL with a ratio model, or fall back on DM if you trust its value model"
    )
    shorter = f"evaluate a shorter one with log.first({max(curve.supported, 1)})"
    return sentence, f"{remedy}, or {shorter}."


def unseen_share(log: Log, target: Target, labels: Ints) -> float:
    """Mean probability the target gives to (state, action) pairs that other folds never logged.

    Over the steps of a log with discrete states; ``labels`` are the folds of its episodes. Where it is
    positive a value model guesses, and the spread of the scores need not show it.
    """
    context, k = log.context, len(log.actions)
    present, place = np.unique(labels, return_inverse=True)
    shape = (len(present), context.n_table, k)
    state, fold = context.positions(np.arange(log.rows)), place[log.layout.unit]
    count = np.zeros(shape)
    np.add.at(count, (fold, state, log.action), 1.0)
    unseen = count.sum(axis=0) - count == 0
    if not unseen.any():
        return 0.0
    rows = np.flatnonzero(unseen[fold, state].any(axis=1))
    if len(rows) == 0:
        return 0.0
    at = context.positions(rows) if target.shares_context else rows
    lost = (target.probabilities(at) * unseen[fold[rows], state[rows]]).sum()
    return float(lost / log.rows)


def step_skill(d: Decisions) -> Floats:
    """(T+1,) share of the variance of R_t + γ v_{t+1} that q_t explains; NaN where that is constant."""
    out = np.full(d.layout.horizon, np.nan)
    for t, mass, y, q in _weighted_steps(d):
        spread = np.average((y - np.average(y, weights=mass)) ** 2, weights=mass)
        if spread > 0:
            out[t] = 1 - np.average((y - q) ** 2, weights=mass) / spread
    return out


def _weighted_steps(d: Decisions) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """Step, masses, R_t + γ v_{t+1} and q_t, without the steps that only episodes of weight 0 reach."""
    for t, units, rows in d.layout.by_step():
        mass = d.mass[units]
        if mass.any():
            yield t, mass, d.outcome[rows], d.q[rows]


def _support(view: View) -> Finding:
    """Share of the steps up to which products of ratios carry an estimate."""
    curve = horizon_curve(view.decisions, view.units)
    steps = len(curve.effective)
    sentence, remedy = support(curve, view.log)
    details = {
        name: getattr(curve, name).tolist()
        for name in ("effective", "surviving", "largest", "mean", "active", "running")
    }
    share = curve.supported / steps
    return judged("horizon", share, sentence, {"steps": steps, **details}, remedy=remedy)


def _beyond(view: View) -> Finding:
    """Share of the target's episodes that reach the last step of which the log can tell, and what may follow."""
    log, d = view.log, view.decisions
    last, share = last_reached(d)
    limit = None if log.unbounded else log.horizon
    if limit is not None and last >= limit:
        return judged("beyond_log", 0.0, f"episodes that follow the policy reach all {limit} steps.")
    sentence = (
        f"no logged episode follows the policy beyond step {last}; {100 * share:.3g}% of the policy's episodes get "
        "that far"
    )
    weight = steps_left(last, limit, d.discount)
    lowest, highest = float(log.reward.min()), float(log.reward.max())
    details = {"steps": last, "low": share * weight * lowest, "high": share * weight * highest}
    if math.isfinite(weight):
        sentence += (
            f". With rewards in [{lowest:.4g}, {highest:.4g}], later steps add between {details['low']:.3g} and "
            f"{details['high']:.3g}."
        )
    else:
        sentence += ", and the value of later steps has no bound (γ = 1, no horizon)."
    return judged("beyond_log", share, sentence, details)


def last_reached(d: Decisions) -> tuple[int, float]:
    """Steps at which some logged episode still follows the target, and the share of its episodes that get there.

    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> one, half = np.ones(3), np.full(3, 0.5)
    >>> last_reached(Decisions(Layout.ragged([2, 1]), one, one, half, one, one))
    (2, 0.5)
    """
    log_now, last, share = np.zeros(d.n), 0, 1.0
    for t, active, rows in d.layout.by_step():
        highest = float(log_now.max())
        if np.isneginf(highest):
            break
        weight = d.mass * np.exp(log_now - highest)
        reached = float(weight[active].sum() / weight.sum())
        log_now[active] = d.log_rho[rows]
        if reached == 0 or np.isneginf(d.log_rho[rows].max()):
            break
        last, share = t + 1, reached
    return last, share


def steps_left(first: int, limit: int | None, discount: float) -> float:
    """Σ γ^t over the steps t from ``first`` up to a limit; ∞ where it diverges."""
    if limit is None:
        return discount**first / (1 - discount) if discount < 1 else math.inf
    return float(np.sum(discount ** np.arange(first, limit, dtype=np.float64)))


def _unseen(view: View) -> Finding:
    share = unseen_share(view.log, view.target, view.problem.folds.labels[0])
    sentence = (
        f"{share:.2%} of the policy's probability is on state-action pairs that are not in the training "
        "folds; the value model guesses there, and intervals may be too narrow."
        if share
        else "every state-action pair of the policy is in the training folds."
    )
    return judged("unseen_pairs", share, sentence)


def _skill(view: View) -> Finding:
    """Share of the squared error of each step's mean of R + γ v' that q removes, summed over all steps."""
    d = view.decisions
    explained = skill(d)
    details = {"by_step": step_skill(d).tolist()}
    if math.isnan(explained):
        return not_applicable("value_model_skill", "one-step targets do not vary.")
    sentence = (
        f"q explains {explained:.0%} of the variance of R + γ v' inside the steps, out of fold."
        if explained > 0
        else "q explains none of the variance of R + γ v' inside the steps; a constant per step does better."
    )
    return judged("value_model_skill", explained, sentence, details)


def skill(d: Decisions) -> float:
    """1 − Σ (R_t + γ v_{t+1} − q_t)² / Σ (R_t + γ v_{t+1} − its mean at t)², over all steps; at least −1.

    One number for all steps: a step whose targets hardly vary counts for as little as it varies.
    """
    error = spread = 0.0
    for _, mass, y, q in _weighted_steps(d):
        spread += float(mass @ (y - np.average(y, weights=mass)) ** 2)
        error += float(mass @ (y - q) ** 2)
    if not spread > 0:
        return math.nan
    return max(1 - error / spread, -1.0)


CHECKS = (
    Check(
        "horizon", Threshold(1.0, -math.inf, "below", OVERLAP), policy=_support, where=lambda view: several(view.log),
        topic=Topic("Late steps of the episodes have little information about this policy."),
        value="share of an episode's steps that products of ratios support",
    ),
    Check(
        "beyond_log",
        Threshold(
            0.01, 0.1, "above", "Log longer episodes, or ask for a shorter horizon with horizon=.",
            about_products=True,
        ),
        policy=_beyond, where=lambda view: several(view.log) and view.log.unit_kind.leads_on,
        topic=Topic("The question looks further ahead than the logged episodes do."),
        value="share of the policy's episodes that reach the last step with data", part_of="horizon",
    ),
    Check(
        "unseen_pairs",
        Threshold(
            0.02, math.inf, "above", "Use more episodes or more folds, pool rare states, and compare IPW with DML.",
            decides=True,
        ),
        policy=_unseen, where=lambda view: several(view.log) and view.log.is_discrete,
        topic=Topic("The policy reaches states that are rare in the log."),
        value="share of the policy's probability on state-action pairs that are in no training fold",
    ),
    Check(
        "value_model_skill",
        Threshold(0.0, -math.inf, "below", "Try another value model; this one is worse than a constant.", advice=True),
        policy=_skill, where=lambda view: several(view.log) and view.has_model, topic=REWARD_MODEL,
        value="share of the variance of R + γ v' inside the steps that q explains, at least −1", part_of="reward_model",
    ),
)  # fmt: skip
