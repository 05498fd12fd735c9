"""Scores ψ: pure functions from decisions to one number per unit, whose mean is the estimate.

Each docstring gives its formula. ρ_t, q_t, v_t are those of `Decisions`; sums run over t inside a unit and
γ^t is left out of the formulas where it only multiplies. A ratio estimator returns its linearized score:
the number whose mean is the estimate and whose variance is the estimate's (the delta method).

Step-wise self-normalization of trajectory weights, linearized.

For a per-decision quantity x, mean_ρt(x) = Σ_i m_i ρ_it x_it / Σ_i m_i ρ_it, where a unit that has ended
keeps its last ρ and counts with x = 0. Its linearized score is level + (M ρ_it / D_t)(x_it − level), with
D_t = Σ_i m_i ρ_it and M = Σ_i m_i. Weights enter as logarithms and only through ρ / D, so no horizon
overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import NotIdentifiedError
from offpolicy.scores.decisions import within_floats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats
    from offpolicy.scores.decisions import Decisions


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores with something to say about how they came about.

    ``products`` is the share of them that rests on products of ratios, where a score blends, and ``looks_back`` the
    share that rests on ratios of marginals some steps back; ``model_share`` is how much of a reward model's predictions
    they take from the rewards. ``model`` is ρq − v of each unit, of mean 0, for scores whose coefficients are chosen
    anew for the difference of two policies.
    """

    psi: Floats
    note: str = ""
    products: float | None = None
    model_share: float = 1.0
    looks_back: float = 0.0
    model: Floats | None = None


def direct(d: Decisions) -> Floats:
    """ψ = v_0: the value model alone (DM); Σ v_k of slots that stand for themselves."""
    if d.layout.link is not None:
        _need_single_slots(d)
        return d.total(d.gamma * d.v)
    return np.asarray(d.v[d.layout.offsets[:-1]]) if not d.layout.is_single else d.v


def importance_weighted(d: Decisions) -> Floats:
    """ψ = Σ γ^t ρ_t R_t: per-decision inverse probability weighting (Eq. IPW)."""
    return d.total(d.gamma * d.rho * d.reward)


def trajectory_weighted(d: Decisions) -> Floats:
    """ψ = ρ_T Σ γ^t R_t: one weight for the whole trajectory (TIS), the product over a slate (SIPS)."""
    within_floats(d.log_product, d)
    return np.exp(d.log_product) * d.returns


def trajectory_normalized(d: Decisions) -> Floats:
    """ψ linearizes Σ_i ρ_iT G_i / Σ_i ρ_iT, G = Σ γ^t R_t: weighted importance sampling (WIS)."""
    log_last = d.log_product
    highest = float(log_last.max())
    if np.isneginf(highest):
        return np.full(d.n, np.nan)
    rho = np.exp(log_last - highest)
    returns = d.returns
    level = d.mean(rho * returns) / d.mean(rho)
    return np.asarray(level + rho * (returns - level) / d.mean(rho))


def doubly_robust(d: Decisions) -> Floats:
    """ψ = Σ γ^t {ρ_t (R_t − q_t) + ρ_{t−1} v_t} (Eq. DR)."""
    if d.layout.is_single:
        return d.ratio * (d.reward - d.q) + d.v
    return d.total(d.gamma * (d.rho * (d.reward - d.q) + d.rho_before * d.v))


def self_normalized(d: Decisions) -> Floats:
    """ψ linearizes Σ_t γ^t Σ_i ρ_it R_it / Σ_i ρ_it: weights normalized step by step (SNIPW, WIS)."""
    return normalized_sum(d, d.reward, np.zeros(d.layout.n_steps))


def self_normalized_dr(d: Decisions) -> Floats:
    """ψ linearizes Σ_t γ^t {Σ_i ρ_it (R_it − q_it) / Σ_i ρ_it + Σ_i ρ_{i,t−1} v_it / Σ_i ρ_{i,t−1}}.

    At T = 0 this is the self-normalized doubly robust estimator (SNDR); for trajectories it is the
    weighted doubly robust estimator of Thomas and Brunskill 2016 (WDR).
    """
    return normalized_sum(d, d.reward - d.q, d.v)


def switched(d: Decisions, threshold: float) -> Floats:
    """ψ = Σ γ^t ρ̃_t (R_t − q_t) + ρ̃_{t−1} v_t, ρ̃ dropped once a weight exceeds τ (SWITCH-DR)."""
    # Products of the same ratios in another order differ by rounding; a threshold is often one of them.
    return with_weights(d, np.where(d.rho <= threshold * (1 + 1e-9), 1.0, 0.0))


def shrunk(d: Decisions, strength: float) -> Floats:
    """As the doubly robust score with weights λρ / (ρ² + λ) (DRos, Su et al. 2020)."""
    if np.isinf(strength):
        return doubly_robust(d)
    rho = d.rho
    return with_weights(d, strength / (rho * rho + strength))


def with_weights(d: Decisions, factor: Floats) -> Floats:
    """Doubly robust score whose weight ρ_t is multiplied by a factor in [0, 1] from there on.

    ψ = Σ γ^t {f_t ρ_t (R_t − q_t) + f_{t−1} ρ_{t−1} v_t}; f = 1 is Eq. DR and f = 0 is the direct score.
    """
    if d.layout.is_single:
        return d.ratio * factor * (d.reward - d.q) + d.v
    if d.layout.link is not None:  # no later term builds on a slot's weight
        return d.total(d.gamma * (factor * d.rho * (d.reward - d.q) + d.rho_before * d.v))
    kept = _running_minimum(d, factor)
    before = np.ones_like(kept)
    later = np.flatnonzero(d.layout.step > 0)
    before[later] = kept[later - 1]
    return d.sum(d.gamma * (kept * d.rho * (d.reward - d.q) + before * d.rho_before * d.v))


def _need_single_slots(d: Decisions) -> None:
    """v_k averages over slot k alone: the other slots of a mask stay as they were logged."""
    link = d.layout.link
    if link is not None and not link.is_single:
        raise NotIdentifiedError(
            "a value model alone needs the mean of q over all slots of the mask, and v is the mean over one. Use DML, "
            "IPW or SNIPW."
        )


def _running_minimum(d: Decisions, factor: Floats) -> Floats:
    """A weight once distrusted stays distrusted: the later terms build on it."""
    lowest = np.ones(d.n)
    out = np.empty_like(factor)
    for _, units, rows in d.layout.by_step():
        lowest[units] = np.minimum(lowest[units], factor[rows])
        out[rows] = lowest[units]
    return out


def marginalized(d: Decisions) -> Floats:
    """ψ = v_0 + Σ γ^t w_t (R_t + γ v_{t+1} − q_t), w_t = p_e(S_t, A_t) / p_b(S_t, A_t) (DRL).

    Kallus and Uehara 2020: the ratio of state-action marginals takes the place of ρ_t, which lowers the
    variance to the efficiency bound of a Markov decision process.
    """
    assert d.marginal is not None
    return direct(d) + d.sum(d.gamma * d.marginal * (d.outcome - d.q))


def normalized_sum(d: Decisions, weighted: Floats, before: Floats, log_weight: Floats | None = None) -> Floats:
    """(N,) linearized score of Σ_t γ^t {mean_ρt(weighted_t) + mean_ρ(t−1)(before_t)}.

    Episodes may be given the logarithms of other weights than ρ, one per decision. The work is proportional to the
    number of decisions: what a unit contributes after its end depends on its last weight and on sums over the later
    steps only. All NaN when at some step every weight is 0.
    """
    if d.layout.is_single:
        return _single(d, weighted, before)
    if d.layout.link is not None:
        linked = sum(first + second for first, second in step_scores(d, weighted, before))
        return np.asarray(linked + d.layout.surplus(d.reward))
    mass = d.mass
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)
    total = float(mass.sum())
    psi = np.zeros(d.n)
    log_now = np.zeros(d.n)
    log_ended, log_sum = -np.inf, float(np.log(total))
    sums, levels = [], []
    log_weight = d.log_rho if log_weight is None else log_weight
    lengths = np.asarray(d.layout.lengths)
    for t, units, rows in d.layout.by_step():
        gamma = d.discount**t
        for x, includes_action in ((before[rows], False), (weighted[rows], True)):
            if includes_action:
                log_now[units] = log_weight[rows]
                log_sum = float(np.logaddexp(log_ended, _log_sum(log_now[units] + log_mass[units])))
            if np.isneginf(log_sum):
                return np.full(d.n, np.nan)
            share = np.exp(log_now[units] - log_sum)
            level = float((mass[units] * share) @ x)
            psi[units] += gamma * (level + total * share * (x - level))
            sums.append(log_sum)
            levels.append(gamma * level)
        over = units[lengths[units] == t + 1]
        if len(over):
            log_ended = float(np.logaddexp(log_ended, _log_sum(log_now[over] + log_mass[over])))
    return psi + _after_the_end(np.array(sums), np.array(levels), log_now, 2 * lengths, total)


def _single(d: Decisions, weighted: Floats, before: Floats) -> Floats:
    mean_ratio = d.mean(d.ratio)
    if mean_ratio == 0:
        return np.full(d.n, np.nan)
    level = d.mean(d.ratio * weighted) / mean_ratio
    return level + d.ratio * (weighted - level) / mean_ratio + before


def _log_sum(logs: Floats) -> float:
    highest = float(logs.max(initial=-np.inf))
    if np.isneginf(highest):
        return -np.inf
    return highest + float(np.log(np.exp(logs - highest).sum()))


def _after_the_end(log_sums: Floats, levels: Floats, log_last: Floats, first: Array, total: float) -> Floats:
    """(N,) Σ_{k ≥ first_i} level_k (1 − M ρ_i / D_k), summed from the end.

    ρ_i ≤ D_k / m_i for every later k, so scaling by the smallest later D keeps each factor in range.
    """
    count = len(levels)
    plain, scaled = np.zeros(count + 1), np.zeros(count + 1)
    lowest = np.full(count + 1, np.inf)
    for k in range(count - 1, -1, -1):
        lowest[k] = min(lowest[k + 1], log_sums[k])
        carried = scaled[k + 1] * np.exp(lowest[k] - lowest[k + 1]) if k < count - 1 else 0.0
        scaled[k] = carried + levels[k] * np.exp(lowest[k] - log_sums[k])
        plain[k] = plain[k + 1] + levels[k]
    over = first < count
    at = first[over]
    out = np.zeros(len(log_last))
    out[over] = plain[at] - total * np.exp(log_last[over] - lowest[at]) * scaled[at]
    return out


def step_scores(d: Decisions, weighted: Floats, before: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for t = 0, 1, …, the (N,) linearized scores of γ^t mean_ρ(t−1)(before_t) and
    γ^t mean_ρt(weighted_t); a plain pass over all units at every step.
    """
    for t, units, rows, log_now in d.log_rho_by_step():
        log_before = log_now.copy()
        log_before[units] = d.log_before[rows]
        first = _dense(d, log_before, units, before[rows], t)
        yield first, _dense(d, log_now, units, weighted[rows], t)


def _dense(d: Decisions, log_now: Floats, units: Array, values: Floats, t: int) -> Floats:
    highest = float(log_now.max())
    if np.isneginf(highest):
        return np.full(d.n, np.nan)
    scaled = np.exp(log_now - highest)
    share = scaled / float(d.mass @ scaled)
    x = np.zeros(d.n)
    x[units] = values
    level = float((d.mass * share) @ x)
    return np.asarray(d.discount**t * (level + float(d.mass.sum()) * share * (x - level)))
