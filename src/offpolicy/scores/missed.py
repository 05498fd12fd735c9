"""What n episodes may have missed, where a value model leaves next to nothing over.

Where rewards follow from state and action, a value model is right wherever it has been, and a doubly robust score
differs from it on the few episodes that met something new. Their spread, 10⁻⁴ of the value, says nothing of what has
not been met: n episodes miss an event of probability 3/n once in twenty logs (the rule of three), and an event of the
size that the ratio-weighted returns Σ γ^t w_t R_t have adds 3/n of their variance to that of the score. So the
variance of a score is not taken to be less than that. Where it would be, the scores keep their mean, the estimate,
and take their spread from the ratios without the model, scaled to the floor: every episode adds to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.scores import formulas as scores
from offpolicy.scores.formulas import Scored

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions

RULE_OF_THREE = 3.0


def ratios_alone(d: Decisions) -> Floats:
    """ψ = Σ γ^t w_t R_t: the ratios of marginals without a value model."""
    assert d.marginal is not None
    return d.sum(d.gamma * d.marginal * d.reward)


def floored(d: Decisions, psi: Floats) -> tuple[Floats, str]:
    """The scores with a variance of at least 3/n of that of the ratios alone, and what was done.

    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> half, one = np.full(300, 0.5), np.ones(300)
    >>> reward = np.arange(300.0)
    >>> d = Decisions(Layout.ragged([1] * 300), reward, half, half, one, one, marginal=one)
    >>> psi, note = floored(d, np.full(300, 7.0))
    >>> round(float(psi.mean()), 12), round(float(psi.std() / reward.std()), 12), bool(note)
    (7.0, 0.1, True)
    """
    if d.marginal is None or not np.isfinite(psi).all():
        return psi, ""
    plain = ratios_alone(d)
    size = float(d.mass.sum())
    level, center = float(psi @ d.mass) / size, float(plain @ d.mass) / size
    share = RULE_OF_THREE / d.size
    variance, whole = (float(d.mass @ (x - m) ** 2) for x, m in ((psi, level), (plain, center)))
    if not np.isfinite(whole) or variance >= share * whole:
        return psi, ""
    note = (
        "the value model leaves next to nothing over; the standard error allows for events of probability "
        f"{min(share, 1.0):.2g}, which {d.size:,.0f} episodes may have missed"
    )
    return level + min(share, 1.0) ** 0.5 * (plain - center), note


def marginalized(d: Decisions) -> Scored:
    """DRL, whose spread allows for what may have been missed."""
    return Scored(*floored(d, scores.marginalized(d)))
