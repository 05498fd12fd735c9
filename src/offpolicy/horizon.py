"""The curse of the horizon as a curve: what is left of the importance weights after each step.

At step t, with weights ρ_t (an episode that has ended keeps its last one) and masses m,

    effective size  (Σ m ρ_t)² / Σ m ρ_t²,     mean weight  Σ m ρ_t / Σ m  (1 in expectation).

Weights enter as logarithms, so the curve exists where the weights themselves would overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy.arrays import Floats
    from offpolicy.decisions import Decisions

ENOUGH_UNITS = 100.0
ENOUGH_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class HorizonCurve:
    """Weights by step, (T+1,) each.

    Attributes
    ----------
    effective : array
        Effective number of episodes at t.
    surviving : array
        Share of episodes whose weight is still positive.
    largest : array
        Share of all weight held by one episode.
    mean : array
        Mean weight; far from 1 at some t means wrong propensities, or too few episodes to see the tail.
    active : array
        Episodes that have a step t.
    n : float
        Episodes.
    """

    effective: Floats
    surviving: Floats
    largest: Floats
    mean: Floats
    active: Floats
    n: float

    @property
    def share(self) -> Floats:
        """Effective size as a share of all episodes: the surviving weight."""
        return self.effective / self.n

    @property
    def supported(self) -> int:
        """Steps up to which the weights keep 100 effective episodes, or a tenth of all."""
        enough = (self.effective >= ENOUGH_UNITS) | (self.share >= ENOUGH_SHARE)
        return int(np.argmin(enough)) if not enough.all() else len(enough)


def horizon_curve(d: Decisions) -> HorizonCurve:
    """What the weights look like at each step.

    >>> from offpolicy.data.layout import Layout
    >>> from offpolicy.decisions import Decisions
    >>> one, half = np.ones(4), np.full(4, 0.5)
    >>> d = Decisions(Layout.ragged([2, 2]), one, np.array([1.0, 1, 1, 0]), half, one, one)
    >>> horizon_curve(d).effective.tolist()
    [2.0, 1.0]
    """
    mass, size = d.mass, d.size
    log_now = np.zeros(d.n)
    rows_of: list[tuple[float, ...]] = []
    for _, units, rows in d.layout.by_step():
        log_now[units] = d.log_rho[rows]
        rows_of.append((*_moments(log_now, mass, size), float(len(units))))
    effective, surviving, largest, mean, active = np.array(rows_of).T
    return HorizonCurve(effective, surviving, largest, mean, active, size)


def _moments(log_rho: Floats, mass: Floats, size: float) -> tuple[float, float, float, float]:
    highest = float(log_rho.max())
    if np.isneginf(highest):
        return 0.0, 0.0, 0.0, 0.0
    rho = np.exp(log_rho - highest)
    total = float(mass @ rho)
    scale = size / float(mass.sum())
    effective = scale * total**2 / float(mass @ rho**2)
    alive = float(mass @ (rho > 0)) / float(mass.sum())
    with np.errstate(over="ignore"):
        mean = float(np.exp(highest) * total / mass.sum())
    return effective, alive, float((mass * rho).max()) / total, mean


def suggestion(curve: HorizonCurve, *, discrete: bool) -> str:
    """One sentence on which estimators these data can support."""
    steps = len(curve.effective)
    last = float(curve.effective[-1])
    if curve.supported == steps:
        return f"weights hold to the last of {steps} steps ({last:,.0f} effective episodes): DML is supported."
    reached = (
        f"after step {curve.supported} of {steps} the weights are worth fewer than "
        f"{ENOUGH_UNITS:.0f} episodes ({last:,.1f} at the end)"
    )
    remedy = (
        "use DRL, whose ratios do not multiply over steps"
        if discrete
        else "use DRL with a ratio model, or trust the value model (DM) as far as you trust it"
    )
    return (
        f"{reached}: products of ratios cannot support the whole horizon. {remedy[0].upper()}{remedy[1:]}, "
        f"or evaluate a shorter one with log.first({max(curve.supported, 1)})."
    )
