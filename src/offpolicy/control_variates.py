"""Variance-optimal control variates, and the choice of an estimator from the data.

IPW, SNIPW and DR differ in what they subtract from ρR: two variables of mean zero,

    ψ(α, β) = Σ γ^t {ρ_t R_t − α_t (ρ_t − ρ_{t−1}) − β_t (ρ_t q_t − ρ_{t−1} v_t)}.

(0, 0) is IPW, (0, 1) is DR, (V, 0) is SNIPW to first order. Regressing ρR on the two gives the α and β of
smallest variance, so that the result is asymptotically no worse than any of them. The coefficients of a
fold are fitted on the other folds, so that each unit's score is independent of its own coefficients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy import scores
from offpolicy.scores import Scored

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.arrays import Floats
    from offpolicy.decisions import Decisions

UNITS_PER_COEFFICIENT = 50


def optimal_control(d: Decisions) -> Scored:
    """ψ(α, β) with coefficients fitted out of fold, one pair a step where the units allow it."""
    plain = scores.importance_weighted(d)
    controls, per_step = _controls(d)
    psi = np.empty(d.n)
    shown: list[Floats] = []
    for train, score in _parts(d):
        beta = _coefficients(plain[train], controls[train], d.mass[train])
        psi[score] = plain[score] - controls[score] @ beta
        shown.append(beta)
    if per_step or d.n == 0:
        return Scored(psi, "coefficients fitted step by step, out of fold")
    alpha, beta = np.mean(shown, axis=0)
    return Scored(psi, f"α = {alpha:.3g}, β = {beta:.3g} on average over folds, fitted out of fold")


def _controls(d: Decisions) -> tuple[Floats, bool]:
    """(N, C) variables of mean zero: a pair for each step, or one pair summed over steps."""
    weight = d.gamma * (d.rho - d.rho_before)
    model = d.gamma * (d.rho * d.q - d.rho_before * d.v)
    steps = d.layout.horizon
    if steps == 1 or d.n < UNITS_PER_COEFFICIENT * 2 * steps:
        return np.column_stack([d.sum(weight), d.sum(model)]), False
    table = np.zeros((d.n, 2 * steps))
    table[d.layout.unit, d.layout.step] = weight
    table[d.layout.unit, steps + d.layout.step] = model
    return table, True


def _parts(d: Decisions) -> list[tuple[Floats, Floats]]:
    """Masks (fit on, score) of each fold; without folds the whole sample is both."""
    if d.fold is None:
        everyone = np.ones(d.n, dtype=bool)
        return [(everyone, everyone)]
    return [(d.fold != k, d.fold == k) for k in np.unique(d.fold)]


def _coefficients(y: Floats, controls: Floats, mass: Floats) -> Floats:
    """Weighted least squares with an intercept; directions without variation get 0."""
    total = mass.sum()
    centered = controls - mass @ controls / total
    response = y - mass @ y / total
    root = np.sqrt(mass)[:, None]
    solution: Floats = np.linalg.lstsq(root * centered, root[:, 0] * response, rcond=1e-10)[0]
    return solution


CANDIDATES: dict[str, Callable[[Decisions], Floats | Scored]] = {
    "OCV": optimal_control,
    "SNDR": scores.self_normalized_dr,
    "DML": scores.doubly_robust,
    "SNIPW": scores.self_normalized,
}


def smallest_variance(d: Decisions) -> Scored:
    """The candidate with the smallest standard error, on cross-fitted nuisances.

    All candidates estimate the same value without asymptotic bias when π_b is right, so that choosing by
    the estimated variance costs no bias to first order and the winner's interval stays valid.
    """
    best: tuple[float, str, Floats] | None = None
    for name, score in CANDIDATES.items():
        result = score(d)
        psi = result.psi if isinstance(result, Scored) else result
        if not np.isfinite(psi).all():
            continue
        variance = d.mean((psi - d.mean(psi)) ** 2)
        if best is None or variance < best[0]:
            best = (variance, name, psi)
    if best is None:
        return Scored(np.full(d.n, np.nan), "no candidate is defined on these data")
    return Scored(
        best[2], f"{best[1]} chosen, by the smallest standard error among {', '.join(CANDIDATES)}"
    )
