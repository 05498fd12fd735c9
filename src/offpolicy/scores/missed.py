"""What n episodes may have missed, where a value model leaves next to nothing over.

Where rewards follow from state and action, a value model is right wherever it has been, and a doubly robust score
differs from it on the few episodes that met something new. Their spread, 10⁻⁴ of the value, says nothing of what has
not been met: n episodes miss an event of probability 3/n once in twenty logs (the rule of three), and an event of the
size that the ratio-weighted returns Σ γ^t w_t R_t have adds 3/n of their variance to that of the score. So the
variance of a score is not taken to be less than that. Where it would be, the scores keep their mean, the estimate, and
every episode adds to its deviation one of the size that the ratios without the model have. Its sign does not follow the
returns: it alternates in the order of the deviations, + − − +. With their own signs, the allowance would go with the
logged returns, and a difference to these would take a covariance for real that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Floor:
    """The least spread that scores of some decisions may have.

    Attributes
    ----------
    plain : (N,) array
        Scores of the ratios alone, less their mean, scaled to the least spread.
    square : float
        Σ m e² of them.
    """

    plain: Floats
    square: float

    @classmethod
    def of(cls, d: Decisions) -> Floor | None:
        """3/n of the variance of the ratios alone; None where there are no ratios, or none that are finite."""
        if d.marginal is None:
            return None
        alone = ratios_alone(d)
        if not np.isfinite(alone).all():
            return None
        share = min(RULE_OF_THREE / d.size, 1.0)
        plain = share**0.5 * (alone - _mean(d, alone))
        return cls(plain, float(d.mass @ plain**2))

    def is_above(self, d: Decisions, psi: Floats) -> bool:
        """Whether scores vary less than this."""
        return spread(d, psi) < self.square


def spread(d: Decisions, psi: Floats) -> float:
    """Σ m (ψ − mean)²; NaN where a score is."""
    return float(d.mass @ (psi - _mean(d, psi)) ** 2)


def _mean(d: Decisions, psi: Floats) -> float:
    return float(psi @ d.mass) / float(d.mass.sum())


def floored(d: Decisions, psi: Floats, floor: Floor | None = None) -> tuple[Floats, str]:
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
    floor = Floor.of(d) if floor is None else floor
    if floor is None or not np.isfinite(psi).all() or not floor.is_above(d, psi):
        return psi, ""
    note = (
        "the value model leaves next to nothing over; the standard error allows for events of probability "
        f"{min(RULE_OF_THREE / d.size, 1.0):.2g}, which {d.size:,.0f} episodes may have missed"
    )
    mean = _mean(d, psi)
    signed = alternating(floor.plain)
    own, more = psi - mean, signed - _mean(d, signed)
    # own + x · more has the spread of the floor.
    a, b = float(d.mass @ more**2), float(d.mass @ (own * more))
    x = (np.sqrt(b * b + a * (floor.square - spread(d, psi))) - b) / a if a > 0 else 0.0
    return mean + own + x * more, note


def alternating(deviation: Floats) -> Floats:
    """Deviations of the same sizes with signs + − − + in their order, which go with nothing.

    >>> alternating(np.array([3.0, -1.0, 2.0, -4.0])).tolist()
    [3.0, -1.0, -2.0, 4.0]
    """
    signs = np.empty(len(deviation))
    signs[np.argsort(deviation, kind="stable")] = np.resize([1.0, -1.0, -1.0, 1.0], len(deviation))
    return signs * np.abs(deviation)


def marginalized(d: Decisions) -> Scored:
    """DRL, whose spread allows for what may have been missed."""
    return Scored(*floored(d, scores.marginalized(d)))
