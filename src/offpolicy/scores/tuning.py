"""Scores with something chosen from the data: constants of SWITCH and DRos, MAGIC's blend, a floor under DRL's spread.

**SWITCH and DRos.** Among a grid of constants c, take the one with the smallest estimated mean squared error

    MSE(c) = (mean ψ_c − mean ψ_DR)² + var(ψ_c) / n,

the doubly robust score being unbiased when π_b is right. Plain DR is in the grid.

**MAGIC.** A blend of j-step returns between the model and the weighted doubly robust estimator.

Thomas and Brunskill 2016. With w_t = ρ_t / Σ ρ_t, the j-step return is

    g_j = Σ_{t≤j} γ^t w_t (R_t − q_t) + Σ_{t≤j+1} γ^t w_{t−1} v_t,   j = −1 (DM), 0, …, T (WDR),

and the estimate Σ_j x_j g_j, where x minimizes x'(Ω + b b')x over the simplex: Ω is the covariance of the g_j
and b_j the distance of g_j from an interval around g_T.

Two choices differ from the original: Ω and the 50% interval come from the linearized scores rather than
from a bootstrap. **Variance**: the score is Σ_j x_j ψ_j with x taken as given; the uncertainty of x is not
counted.

**The floor.** What n episodes may have missed, where a value model leaves next to nothing over.

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

from offpolicy._arrays import quantiles
from offpolicy.scores import formulas as scores
from offpolicy.scores.formulas import Scored, step_scores

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


QUARTILE = 0.6744897501960817
MOST_RETURNS = 30


def magic(d: Decisions) -> Scored:
    """Blend of at most 30 j-step returns (all of them up to that horizon)."""
    table, steps = j_step_scores(d)
    if not np.isfinite(table).all():
        return Scored(np.full(d.n, np.nan), "no logged episode follows the policy to the end")
    means = np.array([d.mean(row) for row in table])
    centered = (table - means[:, None]) * np.sqrt(d.mass / d.mass.sum())
    covariance = centered @ centered.T / d.size
    reach = QUARTILE * np.sqrt(covariance[-1, -1])
    away = np.maximum(np.abs(means - means[-1]) - reach, 0.0)
    blend = simplex_minimum(covariance + np.outer(away, away))
    shown = ", ".join(f"{_name(steps[j], d)} {blend[j]:.0%}" for j in np.argsort(-blend)[:3] if blend[j] > 0.005)
    note = f"blend: {shown}; the variance treats its weights and the model as fixed"
    return Scored(blend @ table, note)


def _name(j: int, d: Decisions) -> str:
    if j == -1:
        return "model (DM)"
    return "WDR" if j == d.layout.horizon - 1 else f"{j + 1} step{'s' if j else ''}"


def j_step_scores(d: Decisions) -> tuple[Floats, list[int]]:
    """(J, N) linearized scores of the j-step returns, and their j."""
    last = d.layout.horizon - 1
    chosen = sorted({-1, *np.unique(np.linspace(0, last, MOST_RETURNS - 1).round()).astype(int)})
    rows: list[Floats] = []
    total = np.zeros(d.n)
    for t, (before, weighted) in enumerate(step_scores(d, d.reward - d.q, d.v)):
        total = total + before
        if t - 1 in chosen:
            rows.append(total)
        total = total + weighted
    rows.append(total)
    return np.stack(rows), [int(j) for j in chosen]


def simplex_minimum(matrix: Floats) -> Floats:
    """The x ≥ 0, Σ x = 1 that minimizes x'Ax, A positive semi-definite.

    The minimiser of ½ y'Ay − Σ y over y ≥ 0 points the same way, and that is a non-negative least squares
    problem in a square root of A.

    >>> simplex_minimum(np.diag([1.0, 1.0])).tolist()
    [0.5, 0.5]
    >>> simplex_minimum(np.array([[1.0, 2.0], [2.0, 5.0]])).tolist()
    [1.0, 0.0]
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    scale = float(np.trace(matrix)) / len(matrix)
    if scale == 0:
        return np.asarray(np.eye(len(matrix))[-1])
    scaled = matrix / scale + 1e-10 * np.eye(len(matrix))
    root = cholesky(scaled, lower=True)
    target = solve_triangular(root, np.ones(len(matrix)), lower=True)
    y, _ = nnls(root.T, target, maxiter=100 * len(matrix))
    return np.asarray(y / y.sum())


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
        "the value model explains almost all of the reward; the standard error allows for events of probability "
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


def floored_marginalized(d: Decisions) -> Scored:
    """DRL, whose spread allows for what may have been missed."""
    return Scored(*floored(d, scores.marginalized(d)))
