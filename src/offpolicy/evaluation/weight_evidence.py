"""Weights and rewards of single units, for the intervals that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.evaluation.block import behavior_name
from offpolicy.inference.score_table import EvidenceColumns
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT, Decisions, mean_step_weight

if TYPE_CHECKING:
    from offpolicy.evaluation.pipeline import Pipeline
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator


def evidence_columns(
    p: Pipeline, target: Target, estimator: Estimator, repeat: int, scored: Any
) -> EvidenceColumns | None:
    """Weights and rewards, for the intervals that use them.

    Intervals made from weights and rewards are about equally weighted independent units; of others, what the
    whole log shows about rewards is known all the same.
    """
    if not estimator.uses_products:
        return None
    split = estimator.split
    repeat = 0 if split == "full" else repeat
    source = behavior_name(p.folds, p.columns, split, repeat, 0)
    if not p.log.layout.is_single:
        return _episode_evidence(p, target, source, scored)
    name = weight_name(p, target, source)
    if name not in p.table.columns:
        p.table.put(name, np.asarray(p.columns["pi_e", target.name] / p.columns[source]))
    p.logged()
    bound = p.source.largest_weight(target) if p.weights_known else None
    sizes = None if bound is None else p.source.reach(target, half=False).size_shares
    # With one draw of the folds the score is weight × reward, and no mean of such.
    product = estimator.is_product and p.draws(split) == 1
    modeled = "value" in estimator.needs
    q = p.value_names(target, estimator, repeat)[0] if modeled else None
    share = p.model_share(target, estimator, repeat)
    return EvidenceColumns(
        name,
        p.earning,
        bound,
        product,
        scored=scored,
        residual=p.residual(q, share),
        is_plain=p.units.are_plain,
        sizes=sizes,
    )


def weight_name(p: Pipeline, target: Target, source: Any) -> Any:
    """The column of importance weights: of one π_e and one π_b, whatever the reward is."""
    keys = p.source.keys
    return ("weight", keys(("pi_e", target.name)), keys(source), p.discount)


def _episode_evidence(p: Pipeline, target: Target, source: Any, scored: Any) -> EvidenceColumns | None:
    """The weight of each step, averaged over the steps of an episode, and what it earned per such weight.

    Their product is Σ γ^t ρ_t R_t: a reward early in an episode is not charged with the weights that came later.
    """
    name = weight_name(p, target, source)
    earned = ("earned", p.earning, name)
    if earned not in p.table.columns:
        pi_e, pi_b = p.columns["pi_e", target.name], p.columns[source]
        blank = np.zeros_like(pi_e)
        d = Decisions(p.log.layout, p.log.reward, pi_e, np.where(np.isnan(pi_b), 1.0, pi_b), blank, blank, p.discount)
        if float(d.log_rho.max(initial=-np.inf)) > LARGEST_LOG_WEIGHT:
            return None
        if d.layout.link is not None and d.layout.link.additive:
            return None  # weights that may be negative are no evidence of how much was seen
        weight = mean_step_weight(d)
        total = d.total(d.gamma * d.rho * d.reward)
        if name not in p.table.columns:
            p.table.put(name, weight)
        p.table.put(earned, np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), 0.0))
    p.logged()
    return EvidenceColumns(
        name, earned, scored=scored, residual=p.residual(None), is_plain=p.units.are_plain, has_levels=True
    )
