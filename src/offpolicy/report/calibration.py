"""Calibration: whether what the models predict happens as often, or earns as much, as they say.

The reward model's q is held against rewards; a fitted or fully logged π_b against how often each action was
taken. Where only the logged action's probability is known, E[1{A = a} / π_b(a|S)] = 1 for every action a is
what can be checked.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.inference.estimate import Estimate, Units
from offpolicy.models.fitting.crossfit import BEHAVIOR
from offpolicy.policies.target import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.report.facts import Row
    from offpolicy.trust.view import View

BINS = 12
# Finer where probabilities are small, tenths above.
EDGES = np.array(
    [0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
)
SMALL = 0.05
MOST_ACTIONS = 30
MOST_ROWS = 200_000


def reward(view: View, level: float = 0.95) -> list[Row]:
    """Predicted against observed reward in twelve bins of the prediction; empty without a model.

    For episodes the prediction q_t is held against R_t + γ v_{t+1}, whose mean it should be.
    """
    if view.value_split is None:
        return []
    d = view.decisions
    outcome = d.reward
    if not d.layout.is_single:
        following = np.zeros(d.layout.n_steps)
        later = np.flatnonzero(d.layout.step > 0)
        following[later - 1] = d.v[later]
        outcome = d.reward + d.discount * following
    edges = np.unique(_quantiles(d.q, view.row_mass, np.linspace(0, 1, BINS + 1)))
    codes = np.clip(np.searchsorted(edges, d.q, side="right") - 1, 0, max(0, len(edges) - 2))
    rows: list[Row] = []
    for b in range(int(codes.max()) + 1):
        members = codes == b
        if members.sum() < 2:
            continue
        predicted = float(np.average(d.q[members], weights=view.row_mass[members]))
        observed = _over_rows(view, outcome, members)
        low, high = observed.interval(level)
        rows.append(
            {
                "predicted": predicted,
                "observed": observed.value,
                "low": low,
                "high": high,
                "n": observed.n,
            }
        )
    return rows


def _quantiles(values: Floats, mass: Floats, levels: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order])
    at = np.searchsorted(reached, levels * reached[-1])
    return np.asarray(values[order][np.minimum(at, len(values) - 1)])


def _over_rows(view: View, values: Floats, members: Bools) -> Estimate:
    """Mean over some decisions; the steps of an episode are one cluster."""
    d, u = view.decisions, view.units
    unit = d.layout.unit[members]

    def pick(x: Array | None) -> Array | None:
        return None if x is None else x[unit]

    cluster: Ints | None = pick(u.cluster)
    if cluster is None and not d.layout.is_single:
        cluster = unit
    units = Units(int(members.sum()), pick(u.count), pick(u.weight), cluster)
    return Estimate.from_scores(values[members], units=units)


def by_action(view: View, level: float = 0.95) -> list[Row]:
    """The mean of 1{A = a} / π_b for each of the most frequent actions; 1 for true propensities."""
    log, d = view.log, view.decisions
    action = log.action[view.rows]
    size = np.bincount(action, weights=view.row_mass, minlength=len(log.actions))
    rows: list[Row] = []
    for a in np.sort(np.argsort(-size, kind="stable")[:MOST_ACTIONS]).tolist():
        possible = (
            np.ones(len(action), dtype=bool) if log.eligible is None else log.eligible[view.rows, a]
        )
        if size[a] == 0:
            continue
        e = _over_rows(view, (action == a) / d.pi_b, possible)
        low, high = e.interval(level)
        rows.append({"action": str(log.actions[a]), "value": e.value, "low": low, "high": high})
    return rows


def behavior(view: View, level: float = 0.95) -> list[Row]:
    """Predicted probability against observed frequency over pairs (context, action), in bins.

    Empty where only the probability of the logged action is known. At most 200,000 decisions, evenly
    spaced over the log, are looked at.
    """
    bins = len(EDGES) - 1
    z = -float(special.ndtri((1 - level) / 2))
    n, predicted, hits, square, square_hits = np.zeros((5, bins))
    for rows, matrix in _distributions(view):
        mass, own = _masses(view, rows)
        place = np.clip(np.searchsorted(EDGES, matrix, side="right") - 1, 0, bins - 1)
        taken = place[np.arange(len(rows)), view.log.action[rows]]
        flat, k = place.ravel(), matrix.shape[1]
        n += np.bincount(flat, weights=np.repeat(mass, k), minlength=bins)
        predicted += np.bincount(flat, weights=(mass[:, None] * matrix).ravel(), minlength=bins)
        square += np.bincount(flat, weights=np.repeat(mass * own, k), minlength=bins)
        hits += np.bincount(taken, weights=mass, minlength=bins)
        square_hits += np.bincount(taken, weights=mass * own, minlength=bins)
    out: list[Row] = []
    for b in np.flatnonzero(n > 0).tolist():
        rate = hits[b] / n[b]
        spread = square_hits[b] * (1 - 2 * rate) + square[b] * rate**2
        reach = z * math.sqrt(max(spread, 0.0)) / n[b]
        out.append(
            {
                "predicted": float(predicted[b] / n[b]),
                "observed": float(rate),
                "low": float(rate - reach),
                "high": float(rate + reach),
                "n": round(float(n[b])),
            }
        )
    return out


def _masses(view: View, rows: Ints) -> tuple[Floats, Floats]:
    """Mass of decisions, and of one of the identical ones that each stands for."""
    units = view.problem.units
    unit = view.log.layout.unit[rows]
    weight = np.ones(len(rows)) if units.weight is None else units.weight[unit]
    return (weight if units.count is None else weight * units.count[unit]), weight


def _distributions(view: View) -> Iterator[tuple[Ints, Floats]]:
    """Rows of the log with π_b of all their actions, block by block."""
    log, nuisances = view.log, view.problem.nuisances
    spec = getattr(nuisances, "behavior_model", None)
    given = log.distribution if spec is None else spec if isinstance(spec, np.ndarray) else None
    if given is not None:
        rows = _thinned(view.rows)
        for block in blocks(len(rows), len(log.actions)):
            yield rows[block], given[rows[block]]
        return
    if view.known or not hasattr(nuisances, "fits"):
        return
    model = nuisances._behavior_model()  # noqa: SLF001
    for part in view.problem.folds.parts(view.split, 0):
        fit = nuisances.fits.get((BEHAVIOR, *part.key))
        if fit is None:
            return
        rows = _thinned(log.layout.rows_of(part.score))
        for block in blocks(len(rows), len(log.actions)):
            at = rows[block]
            table = nuisances._behavior_table(model, at)  # noqa: SLF001
            matrix = fit.predict(table, nuisances._behavior_groups(model, at))  # noqa: SLF001
            if log.eligible is not None:
                able = np.where(log.eligible[at], matrix, 0.0)
                total = able.sum(axis=1, keepdims=True)
                matrix = able / np.where(total > 0, total, 1.0)
            yield at, matrix


def _thinned(rows: Ints) -> Ints:
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.int64)]
