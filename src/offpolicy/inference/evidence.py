"""What an interval may know besides the scores: weights, rewards, and how large a weight can get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.intervals.facts import Facts
from offpolicy.policies.target import blocks
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Units
    from offpolicy.policies.target import Target
    from offpolicy.scores.decisions import Decisions

CELLS = 50_000_000


def facts_of(d: Decisions, units: Units, weight_high: float | None = None) -> Facts | None:
    """Weights and rewards of the units; None where units are clusters or carry analysis weights.

    Intervals made from weights and rewards are about equally weighted independent units.
    """
    if units.cluster is not None or units.weight is not None:
        return None
    if d.layout.is_single:
        return Facts(d.ratio, d.reward, weight_high).completed()
    if float(d.log_rho.max(initial=-np.inf)) > LARGEST_LOG_WEIGHT:
        return None
    return Facts(np.asarray(d.layout.last(d.rho)), d.sum(d.gamma * d.reward)).completed()


def largest_weight(log: Any, target: Target) -> float | None:
    """Largest weight π_e/π_b that can occur in a logged context; None where it cannot be known.

    It can with the whole logged distribution, and for a deterministic target where the propensity of each
    action is a constant.
    """
    if not log.layout.is_single or log.propensity is None:
        return None
    if log.distribution is not None:
        return _by_distribution(log, target)
    if target.codes is None:
        return None
    k = len(log.actions)
    top, bottom = np.zeros(k), np.full(k, np.inf)
    np.maximum.at(top, log.action, log.propensity)
    np.minimum.at(bottom, log.action, log.propensity)
    taken = np.unique(target.codes)
    if not (top[taken] > 0).all() or not (top[taken] - bottom[taken] <= 1e-9).all():
        return None
    return max(1.0, float((1.0 / bottom[taken]).max()))


def _by_distribution(log: Any, target: Target) -> float | None:
    n, k = log.distribution.shape
    if n * k > CELLS:
        return None
    largest = 0.0
    for block in blocks(n, k):
        at = log.context.positions(block) if target.shares_context else block
        pi, pi_b = target.probabilities(at), log.distribution[block]
        if ((pi > 0) & (pi_b <= 0)).any():
            return None
        ratio = np.divide(pi, pi_b, out=np.zeros_like(pi), where=pi > 0)
        largest = max(largest, float(ratio.max()))
    return max(1.0, largest)
