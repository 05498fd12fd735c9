"""Step-wise self-normalization of trajectory weights, linearized.

For a per-decision quantity x, mean_ρt(x) = Σ_i m_i ρ_it x_it / Σ_i m_i ρ_it, where a unit that has ended
keeps its last ρ and counts with x = 0. Its linearized score is level + (M ρ_it / D_t)(x_it − level), with
D_t = Σ_i m_i ρ_it and M = Σ_i m_i. Weights enter as logarithms and only through ρ / D, so no horizon
overflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats
    from offpolicy.scores.decisions import Decisions


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
