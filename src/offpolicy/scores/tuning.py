"""Constants of SWITCH and DRos, chosen from the data by one stated rule.

Among a grid of constants c, take the one with the smallest estimated mean squared error

    MSE(c) = (mean ψ_c − mean ψ_DR)² + var(ψ_c) / n,

the doubly robust score being unbiased when π_b is right. Plain DR is in the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import quantiles
from offpolicy.scores import formulas as scores
from offpolicy.scores.formulas import Scored

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions

QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


def tuned_switch(d: Decisions) -> Scored:
    """SWITCH-DR with τ among quantiles of the positive weights, and ∞."""
    return _best(d, "τ", switch_grid(d), scores.switched)


def tuned_shrinkage(d: Decisions) -> Scored:
    """DRos with λ among multiples of the mean squared weight, and ∞."""
    return _best(d, "λ", shrinkage_grid(d), scores.shrunk)


def switch_grid(d: Decisions) -> list[float]:
    """Quantiles of the positive weights, and ∞ (plain DR)."""
    positive = d.rho[d.rho > 0]
    if len(positive) == 0:
        return [np.inf]
    return [*np.unique(quantiles(positive, QUANTILES, _counts(d))).tolist(), np.inf]


def shrinkage_grid(d: Decisions) -> list[float]:
    """0.01 to 1,000 times the mean squared positive weight, and ∞ (plain DR)."""
    positive = d.rho[d.rho > 0]
    if len(positive) == 0:
        return [np.inf]
    mean = float(np.average(positive**2, weights=_counts(d)))
    return [*(mean * 10.0 ** np.arange(-2, 4)).tolist(), np.inf]


def _counts(d: Decisions) -> Floats | None:
    """How many rows each positive weight stands for, in a compressed log."""
    return d.count[d.layout.unit][d.rho > 0] if d.is_counted else None


def _best(d: Decisions, symbol: str, grid: list[float], score: Callable[[Decisions, float], Floats]) -> Scored:
    plain = scores.doubly_robust(d)
    center = d.mean(plain)
    best: tuple[float, float, Floats] = (np.inf, np.inf, plain)
    for constant in grid:
        psi = plain if np.isinf(constant) else score(d, constant)
        mean = d.mean(psi)
        error = (mean - center) ** 2 + d.mean((psi - mean) ** 2) / d.size
        if error < best[0]:
            best = (error, constant, psi)
    chosen = "∞ (plain DR)" if np.isinf(best[1]) else f"{best[1]:.4g}"
    return Scored(best[2], f"{symbol} = {chosen}, by the smallest estimated mean squared error")
