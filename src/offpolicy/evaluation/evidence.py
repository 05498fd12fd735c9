"""What an estimate has to say about itself, and the weights and rewards that its intervals are made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.estimate import INTERIOR
from offpolicy.inference.intervals.tails import Moments
from offpolicy.inference.reach import constant_propensities
from offpolicy.inference.reach import largest_weight as largest_of
from offpolicy.inference.score_table import EvidenceColumns
from offpolicy.models.fitting.store import BEHAVIOR, MRDR, REWARD
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT, Decisions, mean_step_weight

if TYPE_CHECKING:
    from offpolicy.evaluation.estimates import Estimates
    from offpolicy.evaluation.problem import Problem
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.score_table import ScoreTable
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Split

NO_OVERLAP = (
    "no overlap: the policy never takes a logged action, so all its importance weights are 0 "
    "and the log has no data on it"
)
NO_SURVIVOR = (
    "at some step no logged episode still follows the policy, so every importance weight is 0 there and the "
    "log has no data on later steps. Use a shorter horizon (log.first(steps)), DRL or DM"
)
WITHIN_CELLS = (
    "the standard error ignores the reward model's error between actions of the same cell, which "
    "ratios of cells do not correct"
)
NO_SPREAD = "the scores do not vary, and a standard error of 0 would ignore the error of the value model"
MUCH = 0.2  # share of a standard error from which the draw of the folds is spoken of


def model_notes(p: Problem, target: Target, estimator: Estimator, repeat: int) -> list[str]:
    """What the models have to say about themselves."""
    notes: list[str] = []
    split, every = estimator.split, [part for _, part in p.parts] or [p]
    repeat = 0 if split == "full" else repeat
    if "behavior" in estimator.needs:
        notes += _floor_note(p, split, repeat)
        notes += [note for part in every for note in part.fits.notes(BEHAVIOR)]
        notes.append(p.said.get(("behavior", *p.names.behavior(split, repeat)[1:]), ""))
    if "value" in estimator.needs:
        kind, name = REWARD if estimator.emphasis is None else MRDR, p.names.values(target, estimator, repeat)
        notes += [note for part in every for note in part.fits.notes(kind)]
        notes.append("; ".join(filter(None, dict.fromkeys(part.said.get(name, "") for part in every))))
        if p.cells is not None and p.cells.models_actions:
            notes.append(WITHIN_CELLS)
    return [note for note in dict.fromkeys(notes) if note]


def _floor_note(p: Problem, split: Split, repeat: int) -> list[str]:
    notes, raised = [], p.behavior(split, repeat).raised
    if p.log.eligible is not None and not p.behavior_given:
        notes.append("π_b was fitted over all actions and rescaled to the eligible ones of each row")
    if raised is None:
        return notes
    rows = p.log.layout.rows_of(np.flatnonzero(p.folds.half[repeat])) if split == "half" else slice(None)
    # Units (steps of episodes) whose fitted π_b was raised to the floor.
    floored = int(p.units.count[p.log.layout.unit][rows] @ raised[rows])
    if floored:
        notes.append(
            f"the fitted π_b gave {floored:,} logged actions probability 0, which was replaced by the share of an "
            "unseen action, 1 / (n + K)"
        )
    return notes


def spread_note(e: Estimate) -> list[str]:
    """What the draw of the folds does to an estimate, where it matters."""
    if len(e.rows) == 1 or not e.is_defined or not e.fold_spread > MUCH * e.std_error:
        return []
    share = e.fold_spread / e.std_error if e.std_error > 0 else math.inf
    moves = f"the estimate varies by {e.fold_spread:.2g} ({share:.2g} of its standard error)"
    return [f"{moves} between random splits; this is the mean of {len(e.rows)} splits"]


def smoothing_note(e: Estimate, target: Target, cut: float) -> str:
    """What the window around a policy's number does to an estimate."""
    assert e.smoothed is not None
    (bias, error), more = e.smoothing, e.smoothed.extrapolation
    window = f"logged actions in a window of {target.smoothing.window} around the policy's number stand in for it"
    law = "its square" if more == INTERIOR else "it"
    edge = f"; the window reaches the end of the logged range in {100 * cut:.3g}% of rows" if cut else ""
    return (
        f"{window}{edge}. Halving the window moves the estimate by {bias / more:+.2g}; a bias that grows with "
        f"{law} would be {bias:+.2g} ± {error:.2g}; intervals allow for {e.allowance:.2g}"
    )


def is_constant(e: Estimate) -> bool:
    """Whether scores differ by rounding at most."""
    return e.is_defined and e.std_error <= 1e-12 * (1 + abs(e.value))


def residual(p: Problem, table: ScoreTable, q: Any, share: float = 1.0) -> Moments:
    """Moments of what a model of single decisions leaves of the rewards of all units; of rewards without one.

    ``share`` of its predictions is taken from the rewards.
    """
    key = ("residual", q, share)
    if key not in p.cache:
        reward = table.columns[p.earning]
        p.cache[key] = Moments.of(reward if q is None else reward - share * p.column(q), p.units.mass)
    made: Moments = p.cache[key]
    return made


def largest_weight(p: Problem, target: Target) -> float | None:
    """Largest weight that can occur, where logged propensities tell."""
    name, log = ("largest", target.name), p.ratio_log
    if name not in p.said:
        single = log.layout.is_single and log.propensity is not None and log.space.finite
        # The reach asks the target about every context: not where the answer is None whatever it says.
        told = single and (p.logs_distribution or not np.isnan(constant_propensities(log)).all())
        p.said[name] = largest_of(log, p.reach(target)) if told else None
    bound: float | None = p.said[name]
    return bound


def evidence_columns(
    made: Estimates, target: Target, estimator: Estimator, repeat: int, scored: Any
) -> EvidenceColumns | None:
    """Weights and rewards, for the intervals that use them.

    Intervals made from weights and rewards are about equally weighted independent units; of others, what the
    whole log shows about rewards is known all the same.
    """
    if not estimator.uses_products:
        return None
    p, table = made.problem, made.table
    pi_b = p.names.behavior(estimator.split, repeat)
    # The column of importance weights: of one π_e and one π_b, whatever the reward is.
    name = ("weight", p.keys(("pi_e", target.name)), p.keys(pi_b), p.discount)
    if not p.log.layout.is_single:
        return _episode_evidence(p, table, target, pi_b, name, scored)
    if name not in table.columns:
        table.put(name, np.asarray(p.columns["pi_e", target.name] / p.columns[pi_b]))
    bound = largest_weight(p, target) if p.weights_known else None
    sizes = None if bound is None else p.reach(target).size_shares
    # With one draw of the folds the score is weight × reward, and no mean of such.
    product = estimator.is_product and (estimator.split == "full" or p.repeats == 1)
    q = p.names.q(p.names.values(target, estimator, repeat)) if "value" in estimator.needs else None
    left = residual(p, table, q, made.model_share(target, estimator, repeat))
    return EvidenceColumns(
        name, p.earning, bound, product, scored=scored, residual=left, is_plain=p.units.are_plain, sizes=sizes
    )


def _episode_evidence(
    p: Problem, table: ScoreTable, target: Target, source: Any, name: Any, scored: Any
) -> EvidenceColumns | None:
    """The weight of each step, averaged over the steps of an episode, and what it earned per such weight.

    Their product is Σ γ^t ρ_t R_t: a reward early in an episode is not charged with the weights that came later.
    """
    earned = ("earned", p.earning, name)
    if earned not in table.columns:
        pi_e, pi_b = p.columns["pi_e", target.name], p.columns[source]
        blank = np.zeros_like(pi_e)
        d = Decisions(p.log.layout, p.log.reward, pi_e, np.where(np.isnan(pi_b), 1.0, pi_b), blank, blank, p.discount)
        if float(d.log_rho.max(initial=-np.inf)) > LARGEST_LOG_WEIGHT:
            return None
        if d.layout.link is not None and d.layout.link.additive:
            return None  # weights that may be negative are no evidence of how much was seen
        weight = mean_step_weight(d)
        total = d.total(d.gamma * d.rho * d.reward)
        if name not in table.columns:
            table.put(name, weight)
        table.put(earned, np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), 0.0))
    left = residual(p, table, None)
    return EvidenceColumns(name, earned, scored=scored, residual=left, is_plain=p.units.are_plain, has_levels=True)
