"""Variance-optimal control variates, and the choice of an estimator from the data.

IPW, SNIPW and DR differ in what they subtract from ρR: two variables of mean zero,

    ψ(α, β) = Σ γ^t {ρ_t R_t − α_t (ρ_t − ρ_{t−1}) − β_t (ρ_t q_t − ρ_{t−1} v_t)}.

(0, 0) is IPW, (0, 1) is DR, (V, 0) is SNIPW to first order. Regressing ρR on the two gives the α and β of
smallest variance (MinVar): asymptotically no worse than any of them. The coefficients of a unit are fitted on
all other units, which costs no more than one regression: β_{−i} = β − G x_i e_i / (1 − h_i), h_i = x_i'G x_i.

With few large weights two free coefficients are one too many. The recommended ``auto`` starts from
self-normalized weights and chooses how much of the value model to use, and what is left to gain from the
mean weight:

    ψ = (1 − β) ψ_SNIPW + β ψ_SNDR − δ Σ γ^t (ρ_t − ρ_{t−1}),    β ∈ [0, 1] and δ of smallest variance.

A useless value model leaves SNIPW, a good one SNDR (for episodes: WDR); δ is shrunk by its own noise. The
coefficients converge to the best ones, so that choosing them costs nothing to first order, and the estimate
is asymptotically no worse than SNIPW, SNDR or MinVar with β ∈ [0, 1]. Its scores are those of a jackknife: a
unit with leverage h pulls the estimate towards itself, so its deviation counts 1 / (1 − h) times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.logs.log import DETAIL
from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.scores.formulas import Scored

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions

UNITS_PER_COEFFICIENT = 50
MOST_LEVERAGE = 1 - 1e-9
ROUNDING = 1e-12
# Where one unit carries more than half, no jackknife helps: the verdict refuses from 30% on.
MOST_SHARE = 0.5


def optimal_control(d: Decisions) -> Scored:
    """ψ(α, β) with coefficients fitted on all other units, one pair per step where the units allow it."""
    plain = scores.importance_weighted(d)
    controls, per_step = _controls(d)
    fitted, left_out = regress_others(plain, controls, d.mass, _single_mass(d))
    psi = plain - np.einsum("ij,ij->i", controls, left_out)
    if per_step:
        return Scored(psi, "coefficients fitted step by step, each unit's on all other units")
    alpha, beta = fitted
    note = f"α = {alpha:.3g}, β = {beta:.3g}, each unit's fitted on all other units"
    return Scored(psi, note, model_share=float(beta))


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


def regress_others(y: Floats, controls: Floats, mass: Floats, single: Floats) -> tuple[Floats, Floats]:
    """Weighted least squares with an intercept: the slopes, and the slopes without each unit.

    Parameters
    ----------
    y : (N,) array
    controls : (N, C) array
    mass, single : (N,) arrays
        Mass of the units a row stands for, and of one of them.

    Returns
    -------
    (C,) array, (N, C) array
        Directions without variation get slope 0.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> slope, others = regress_others(np.array([0.0, 1.0, 2.0, 6.0]), x, np.ones(4), np.ones(4))
    >>> slope.round(3).tolist(), others[3].round(3).tolist()
    ([1.9], [1.0])
    """
    X = np.column_stack([np.ones(len(y)), controls])
    # Columns of one scale, so that the cut of the pseudo-inverse means the same for each.
    scale = np.sqrt(mass @ (X * X) / mass.sum())
    X = X / np.where(scale > 0, scale, 1.0)
    inverse = np.linalg.pinv((mass[:, None] * X).T @ X, rcond=1e-12, hermitian=True)
    slopes = inverse @ (X.T @ (mass * y))
    residual = y - X @ slopes
    reach = X @ inverse
    leverage = np.minimum(single * np.einsum("ij,ij->i", reach, X), MOST_LEVERAGE)
    left_out = slopes - reach * (single * residual / (1 - leverage))[:, None]
    back = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return (slopes * back)[1:], (left_out * back)[:, 1:]


def _single_mass(d: Decisions) -> Floats:
    """(N,) mass of one of the units that a row stands for."""
    return d.mass / d.count


def best_combination(d: Decisions) -> Scored:
    """ψ_β − δ·c with the β and δ of smallest variance, δ shrunk by its own noise, jackknifed."""
    plain, robust = scores.self_normalized(d), scores.self_normalized_dr(d)
    if not (np.isfinite(plain).all() and np.isfinite(robust).all()):
        return Scored(np.full(d.n, np.nan))
    weight = _weight_control(d)
    level, gain, surplus = d.mean(plain), d.mean(plain) - d.mean(robust), d.mean(weight)
    size = float(max(np.abs(plain).max(), np.abs(robust).max()))
    base = _beyond_rounding(plain - level, size)
    model = _beyond_rounding(base - _beyond_rounding(robust - d.mean(robust), size), size)
    control = _beyond_rounding(weight - surplus, 1 + float(np.abs(weight).max()))
    mix = combine(base, model, control, d.mass, _single_mass(d))
    center = level - mix.beta * gain - mix.delta * surplus
    leverage = np.minimum(mix.leverage + weight_share(d), MOST_SHARE)
    stretched = mix.residual / (1 - leverage)
    note = (
        f"{DETAIL}β = {mix.beta:.3g} between SNIPW (0) and SNDR (1) by the smallest variance, coefficient of the "
        f"mean weight δ = {mix.delta:.3g}"
    )
    psi = center + stretched - d.mean(stretched)
    model_part = d.ratio * d.q - d.v if d.layout.is_single else None
    return Scored(psi, note, model_share=mix.beta, model=model_part)


def _beyond_rounding(centered: Floats, size: float) -> Floats:
    """Centered numbers, or zeros where they are what rounding leaves of numbers of a size."""
    return np.zeros_like(centered) if np.abs(centered).max() <= ROUNDING * size else centered


def _weight_control(d: Decisions) -> Floats:
    """(N,) c = Σ γ^t (ρ_t − ρ_{t−1}), of mean 0; zeros where weights leave the range of a float."""
    if float(d.log_rho.max(initial=-np.inf)) > LARGEST_LOG_WEIGHT:
        return np.zeros(d.n)
    return d.sum(d.gamma * (d.rho - d.rho_before))


def best_difference(
    weight: Floats, model: Floats, reward: Floats, mass: Floats, single: Floats
) -> tuple[Floats, str] | None:
    """Scores of a difference of two policies, with the coefficients of smallest variance for the pair.

    With u = w − w' and m = (w q − v) − (w' q' − v'), both of mean 0: ψ = u R − α u − β m, β ∈ [0, 1]. The difference of
    two best combinations is not the best difference. Deviations count 1/√(1 − h) times, h being a unit's leverage
    (HC2).

    Parameters
    ----------
    weight, model, reward : (N,) arrays
        u, m and R.
    mass, single : (N,) arrays
        Mass of the units a row stands for, and of one of them.

    Returns
    -------
    (N,) array and str, or None
        The scores and a note; None where no unit carries u.
    """
    if not weight.any():
        return None
    product = weight * reward
    slopes, away = _least_squares(product, [weight, model], mass, single)
    beta = _within(float(slopes[2]))
    if beta != slopes[2]:
        slopes, away = _least_squares(product - beta * model, [weight], mass, single)
    note = (
        f"coefficients with the smallest variance for the difference: {slopes[1]:.3g} for the weights, {beta:.3g} for "
        "the model; the result need not be the difference of the two values"
    )
    return slopes[0] + away - float(away @ mass) / float(mass.sum()), note


def _least_squares(y: Floats, controls: list[Floats], mass: Floats, single: Floats) -> tuple[Floats, Floats]:
    """Intercept and slopes of a regression, and its residuals times 1/√(1 − leverage)."""
    X = np.column_stack([np.ones(len(y)), *controls])
    scale = np.sqrt(mass @ (X * X) / mass.sum())
    scale = np.where(scale > 0, scale, 1.0)
    X = X / scale
    inverse = np.linalg.pinv((mass[:, None] * X).T @ X, rcond=1e-12, hermitian=True)
    slopes = inverse @ (X.T @ (mass * y))
    leverage = np.minimum(single * np.einsum("ij,jk,ik->i", X, inverse, X), MOST_SHARE)
    return slopes / scale, (y - X @ slopes) / np.sqrt(1 - leverage)


@dataclass(frozen=True, eq=False)
class Mix:
    """Coefficients of a combination, what it leaves of each score, and each unit's leverage on them."""

    beta: float
    delta: float
    residual: Floats
    leverage: Floats


def combine(base: Floats, model: Floats, weight: Floats, mass: Floats, single: Floats) -> Mix:
    """Coefficients β ∈ [0, 1] and δ for which base − β·model − δ·weight has the smallest variance.

    δ counts as far as it exceeds its noise: with t its heteroskedasticity-robust t-value, the pair moves the
    share max(0, 1 − 1/t²) of the way from the best pair with δ = 0 to the best of all.

    Parameters
    ----------
    base, model, weight : (N,) arrays
        Centered scores.
    mass, single : (N,) arrays
        Mass of the units a row stands for, and of one of them.

    Examples
    --------
    >>> model, weight = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> mix = combine(0.5 * model + 3 * weight, model, weight, np.ones(4), np.ones(4))
    >>> round(mix.beta, 6), round(mix.delta, 6)
    (0.5, 3.0)
    """
    alone = _within(_slope(base, model, mass))
    pair = np.column_stack([model, weight])
    # In one scale, so that the cut of the pseudo-inverse does not hang on the unit of the rewards.
    scale = np.sqrt(mass @ (pair * pair))
    scale = np.where(scale > 0, scale, 1.0)
    pair = pair / scale
    inverse = np.linalg.pinv((mass[:, None] * pair).T @ pair, rcond=1e-12, hermitian=True)
    beta, delta = inverse @ (pair.T @ (mass * base)) / scale
    if beta != _within(beta):
        beta = _within(beta)
        delta = _slope(base - beta * model, weight, mass)
    leverage = np.minimum(single * np.einsum("ij,jk,ik->i", pair, inverse, pair), MOST_LEVERAGE)
    residual = base - beta * model - delta * weight
    share = _signal(delta, weight - _slope(weight, model, mass) * model, residual, leverage, mass, single)
    # A slope of no signal is 0, not −0: which of the two it were would hang on rounding, and on the path of the rows.
    beta, delta = (1 - share) * alone + share * beta, share * delta if share > 0 else 0.0
    square = mass @ (model * model)
    first = single * model**2 / square if square > 0 else np.zeros_like(model)
    left = base - beta * model - delta * weight
    return Mix(float(beta), float(delta), left, (1 - share) * first + share * leverage)


def _signal(delta: float, alone: Floats, residual: Floats, leverage: Floats, mass: Floats, single: Floats) -> float:
    """max(0, 1 − 1/t²) of a slope on ``alone``, the part of its control that the other does not explain."""
    square = float(mass @ (alone * alone))
    noise = float((mass * single) @ (alone * residual / (1 - leverage)) ** 2)
    if square == 0 or delta == 0:
        return 0.0
    return max(0.0, 1.0 - noise / (delta * square) ** 2)


def _slope(y: Floats, x: Floats, mass: Floats) -> float:
    square = float(mass @ (x * x))
    return float(mass @ (x * y)) / square if square > 0 else 0.0


def _within(beta: float) -> float:
    return float(min(max(beta, 0.0), 1.0))


def weight_share(d: Decisions) -> Floats:
    """(N,) largest share of the weights of a step that one unit carries, over the steps."""
    with np.errstate(divide="ignore"):
        log_mass, log_single = np.log(d.mass), np.log(_single_mass(d))
    share = np.zeros(d.n)
    for *_, log_now in d.log_rho_by_step():
        highest = float((log_now + log_mass).max())
        if np.isneginf(highest):
            continue
        total = highest + np.log(np.exp(log_now + log_mass - highest).sum())
        share = np.maximum(share, np.exp(log_now + log_single - total))
    return share
