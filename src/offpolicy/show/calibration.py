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

from offpolicy._arrays import quantiles
from offpolicy.evaluation.problem import behavior_calibration
from offpolicy.show.tables import summary
from offpolicy.trust.significance import same_but_rounding

if TYPE_CHECKING:
    from offpolicy.show.tables import Row
    from offpolicy.trust.view import View

BINS = 12
SMALL = 0.05
MOST_ACTIONS = 30


def reward(view: View, level: float = 0.95) -> list[Row]:
    """Predicted against observed reward in twelve bins of the prediction; empty without a model.

    For episodes the prediction q_t is held against R_t + γ v_{t+1}, whose mean it should be.
    """
    if view.value_split is None:
        return []
    d = view.decisions
    q, count = same_but_rounding(d.q), view.per_decision(view.count)
    edges = np.unique(quantiles(q, np.linspace(0, 1, BINS + 1), view.row_mass))
    codes = np.clip(np.searchsorted(edges, q, side="right") - 1, 0, max(0, len(edges) - 2))
    rows: list[Row] = []
    for b in range(int(codes.max()) + 1):
        members = codes == b
        if count[members].sum() < 2:
            continue
        predicted = float(np.average(d.q[members], weights=view.row_mass[members]))
        row = summary(view.over_decisions(d.outcome, members), level)
        rows.append({"predicted": predicted, "observed": row["value"], **row})
    return rows


def by_action(view: View, level: float = 0.95) -> tuple[list[Row], int]:
    """The mean of 1{A = a} / π_b for the actions that the target plays; 1 for true propensities.

    The most played come first, at most 30, and beside them stands how many the target plays at all. Actions are
    chosen by the target and never by how often they were logged: those logged most often have means above 1 by
    that choice alone. The intervals hold together with probability ``level`` (Bonferroni).
    """
    log, d = view.log, view.decisions
    if log.is_continuous or view.target.shown is not None:
        return [], 0
    action = log.action[view.rows]
    share = view.reach.share
    played = [a for a in np.argsort(-share, kind="stable").tolist() if share[a] > 0]
    shown = played[:MOST_ACTIONS]
    each = 1 - (1 - level) / max(1, len(shown))
    rows: list[Row] = []
    for a in shown:
        possible = np.ones(len(action), dtype=bool) if log.eligible is None else log.eligible[view.rows, a]
        if not possible.any():
            continue
        e = view.over_decisions((action == a) / d.pi_b, possible)
        rows.append({"action": str(log.actions[a]), **summary(e, each)})
    return rows, len(played)


def behavior(view: View, level: float = 0.95) -> list[Row]:
    """Predicted probability against observed frequency over pairs (context, action), in bins.

    Empty where only the probability of the logged action is known.
    """
    sums = behavior_calibration(view.problem, view.split)
    if sums is None:
        return []
    rows: list[Row] = []
    for b in np.flatnonzero(sums.mass > 0).tolist():
        mass, rate = float(sums.mass[b]), float(sums.taken[b] / sums.mass[b])
        low, high = score_interval(rate, mass**2 / float(sums.square[b]), level)
        rows.append(
            {
                "predicted": float(sums.predicted[b] / mass),
                "observed": rate,
                "low": low,
                "high": high,
                "n": round(float(sums.number[b])),
            }
        )
    return rows


def score_interval(rate: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's interval of a frequency among ``n`` draws, which stays open where none or all of them hit.

    >>> [round(end, 3) for end in score_interval(0.0, 20, 0.95)]
    [0.0, 0.161]
    >>> [round(end, 3) for end in score_interval(0.5, 100, 0.95)]
    [0.404, 0.596]
    """
    z = -float(special.ndtri((1 - level) / 2))
    center = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(max(rate * (1 - rate), 0.0) / n + (z / (2 * n)) ** 2)
    return max(0.0, center - reach), min(1.0, center + reach)
