"""MAGIC: a blend of j-step returns between the model and the weighted doubly robust estimator.

Thomas and Brunskill 2016. With w_t = ρ_t / Σ ρ_t, the j-step return is

    g_j = Σ_{t≤j} γ^t w_t (R_t − q_t) + Σ_{t≤j+1} γ^t w_{t−1} v_t,   j = −1 (DM), 0, …, T (WDR),

and the estimate Σ_j x_j g_j, where x minimizes x'(Ω + b b')x over the simplex: Ω is the covariance of the g_j
and b_j the distance of g_j from an interval around g_T.

Two choices differ from the original: Ω and the 50% interval come from the linearized scores rather than
from a bootstrap. **Variance**: the score is Σ_j x_j ψ_j with x taken as given; the uncertainty of x is not
counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.scores.formulas import Scored
from offpolicy.scores.normalized import step_scores

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions

QUARTILE = 0.6744897501960817
MOST_RETURNS = 30


def magic(d: Decisions) -> Scored:
    """Blend of at most 30 j-step returns (all of them up to that horizon)."""
    table, steps = j_step_scores(d)
    if not np.isfinite(table).all():
        return Scored(np.full(d.n, np.nan), "no logged episode follows the target to the end")
    means = np.array([d.mean(row) for row in table])
    centered = (table - means[:, None]) * np.sqrt(d.mass / d.mass.sum())
    covariance = centered @ centered.T / d.size
    reach = QUARTILE * np.sqrt(covariance[-1, -1])
    away = np.maximum(np.abs(means - means[-1]) - reach, 0.0)
    blend = simplex_minimum(covariance + np.outer(away, away))
    shown = ", ".join(f"{_name(steps[j], d)} {blend[j]:.0%}" for j in np.argsort(-blend)[:3] if blend[j] > 0.005)
    note = f"blend: {shown}; the variance takes its weights and the model as given"
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
