"""What a report shows about the weights, the models and the positions behind the estimates of one policy.

Every function takes the `View` that the diagnostics look at and returns plain rows: sums over blocks, histograms and
bins, never rows of the log.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy import special

from offpolicy._arrays import quantiles
from offpolicy.evaluation.problem import behavior_calibration
from offpolicy.show.tables import against_log, summary
from offpolicy.trust.horizon import horizon_curve
from offpolicy.trust.moments import same_but_rounding
from offpolicy.trust.stability import clipping_curve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats
    from offpolicy._document import Row
    from offpolicy.evaluation.problem import Problem
    from offpolicy.trust.view import View

HISTOGRAM = 24
MOST_ACTIONS = 30
PARTS = 20  # of the range of actions that are numbers
LOG10 = math.log(10.0)
BINS = 12


def log_weights(view: View) -> Floats:
    """(N,) log₁₀ of each unit's importance weight, −∞ where it is 0."""
    return view.decisions.log_weight / LOG10


def weights(view: View) -> list[Row]:
    """Histogram of the positive weights on a logarithmic axis.

    ``share`` is the share of units, ``carried`` the share of the total weight that the bin carries.
    """
    logs, mass = log_weights(view), view.mass
    positive = np.isfinite(logs)
    if not positive.any():
        return []
    x, m = logs[positive], mass[positive]
    low, high = float(x.min()), float(x.max())
    if high - low < 1e-9:
        low, high = low - 0.25, high + 0.25
    edges = np.linspace(low, high, HISTOGRAM + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, HISTOGRAM - 1)
    size = np.bincount(place, weights=m, minlength=HISTOGRAM)
    carried = np.bincount(place, weights=m * 10.0 ** (x - high), minlength=HISTOGRAM)
    return [
        {
            "low": float(10 ** edges[b]),
            "high": float(10 ** edges[b + 1]),
            "share": float(size[b] / mass.sum()),
            "carried": float(carried[b] / carried.sum()),
        }
        for b in range(HISTOGRAM)
    ]


def zero_share(view: View) -> float:
    """Share of units whose weight is 0: the target would not have done what was logged."""
    return float(view.mass[~np.isfinite(log_weights(view))].sum() / view.mass.sum())


def overlap(view: View, most: int = MOST_ACTIONS) -> list[Row]:
    """How often the log and the target take each action, those with most at stake first.

    ``ratio`` is what the target's share would be if computed from the weights alone, over its true share:
    1 where the log covers the action. The actions beyond ``most`` are summed in a last row.
    """
    log, d = view.log, view.decisions
    if view.target.shown is not None:
        return []
    if not log.space.finite:
        return _overlap_of_numbers(view)
    k = len(log.actions)
    mass, action = view.row_mass, log.action[view.rows]
    total = float(mass.sum())
    target = view.reach.share
    logged = np.bincount(action, weights=mass, minlength=k) / total
    weighted = np.bincount(action, weights=mass * d.ratio, minlength=k) / total
    order = np.argsort(-np.maximum(target, logged), kind="stable")
    rows = [_action_row(str(log.actions[a]), logged[a], target[a], weighted[a]) for a in order[:most]]
    rest = order[most:]
    if len(rest):
        sums = (float(x[rest].sum()) for x in (logged, target, weighted))
        rows.append(_action_row(f"{len(rest):,} other actions", *sums))
    return rows


def _overlap_of_numbers(view: View) -> list[Row]:
    """The same where actions are numbers, in equal parts of their range; the target's share is that of its weights."""
    log, mass = view.log, view.row_mass
    low, high = log.space.span
    edges = np.linspace(low, high, PARTS + 1)
    place = np.clip(np.searchsorted(edges, log.action[view.rows], side="right") - 1, 0, PARTS - 1)
    logged = np.bincount(place, weights=mass, minlength=PARTS) / mass.sum()
    target = np.bincount(place, weights=mass * view.decisions.ratio, minlength=PARTS) / mass.sum()
    names = [f"{edges[b]:.4g} to {edges[b + 1]:.4g}" for b in range(PARTS)]
    return [{**_action_row(name, a, b, 0.0), "ratio": None} for name, a, b in zip(names, logged, target, strict=True)]


def _action_row(name: str, logged: float, target: float, weighted: float) -> Row:
    return {
        "action": name,
        "logged": float(logged),
        "target": float(target),
        "ratio": float(weighted / target) if target > 0 else None,
    }


def clipping(view: View, level: float = 0.95) -> list[Row]:
    """The estimate with weights cut off at ever higher caps; the last row cuts nothing."""
    return [{"threshold": p.cap, "clipped": p.clipped, **summary(p.estimate, level)} for p in clipping_curve(view)]


def horizon(view: View) -> list[Row]:
    """What is left of the weights step by step, counted from 1, as shares: the curse of the horizon as a curve."""
    if view.decisions.layout.horizon < 2:
        return []
    curve = horizon_curve(view.decisions, view.units)
    columns = np.stack([curve.share, curve.surviving, curve.running], axis=1).tolist()
    names = ("effective", "surviving", "running")
    return [{"step": t, **dict(zip(names, row, strict=True))} for t, row in enumerate(columns, 1)]


# -- calibration: whether what the models predict happens as often, or earns as much, as they say ----------------------


def reward_bins(view: View, level: float = 0.95) -> list[Row]:
    """Predicted against observed reward in twelve bins of the prediction; empty without a model.

    For episodes the prediction q_t is held against R_t + γ v_{t+1}, whose mean it should be.
    """
    if view.value_split is None:
        return []
    d = view.decisions
    q, count = same_but_rounding(d.q), view.units.count[view.decisions.layout.unit]
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


def inverse_propensities(view: View, level: float = 0.95) -> tuple[list[Row], int]:
    """The mean of 1{A = a} / π_b for the actions that the target plays; 1 for true propensities.

    The most played come first, at most 30, and beside them stands how many the target plays at all. Actions are
    chosen by the target and never by how often they were logged: those logged most often have means above 1 by
    that choice alone. The intervals hold together with probability ``level`` (Bonferroni).
    """
    log, d = view.log, view.decisions
    if log.space.why_not or view.target.shown is not None:
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


def behavior_bins(view: View, level: float = 0.95) -> list[Row]:
    """Predicted probability against observed frequency over pairs (context, action), in bins.

    Empty where only the probability of the logged action is known.
    """
    sums = behavior_calibration(cast("Problem", view.problem), view.split)
    if sums is None:
        return []
    rows: list[Row] = []
    for b in np.flatnonzero(sums.mass > 0).tolist():
        mass, rate = float(sums.mass[b]), float(sums.taken[b] / sums.mass[b])
        low, high = score_interval(rate, mass**2 / float(sums.square[b]), level)
        predicted, n = float(sums.predicted[b] / mass), round(float(sums.number[b]))
        rows.append({"predicted": predicted, "observed": rate, "low": low, "high": high, "n": n})
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


# -- slates ---------------------------------------------------------------------------------------------------------


def by_position(view: View, level: float = 0.95) -> list[Row]:
    """Value, logged reward and difference of each position; intervals hold together with probability ``level``.

    Values are by the weights of the slot divided by their sum (SNIPW), so that of cascades and independent slots they
    add up to that estimate. A slate without the slot counts with 0. Empty where slates have one reward.
    """
    log = view.log
    if not log.unit_kind.shows_items or log.reward_of == "slate":
        return []
    lengths = np.diff(view.decisions.layout.offsets)
    together = 1 - (1 - level) / view.decisions.layout.horizon
    rows = []
    for position, reward, psi in position_scores(view):
        estimate, logged = view.estimate(psi), view.estimate(reward)
        there = float(view.mass @ (lengths > position)) / float(view.mass.sum())
        own = {"group": str(log.positions[position]), **summary(estimate, together), "logged": logged.value}
        rows.append({**own, "share": there, **against_log(view.estimate(psi - reward), together)})
    return rows


def position_scores(view: View) -> Iterator[tuple[int, Floats, Floats]]:
    """(slot, (N,) rewards as logged, (N,) linearized scores of their self-normalized mean)."""
    d, log = view.decisions, view.log
    layout, shown = d.layout, log.slot_reward[view.rows]
    lengths = np.diff(layout.offsets)
    due = log.interaction.due
    for k, units, rows in layout.by_step():
        reward, logs = np.zeros(d.n), np.zeros(d.n)
        reward[units] = shown[rows]
        if layout.link is not None:
            logs[units] = d.log_rho[rows]
        else:  # the slot at which the reward of slot k is paid; a slate that has ended keeps its last weight
            paid = k if due is None else int(due[k])
            logs = d.log_rho[layout.offsets[:-1] + np.minimum(paid, lengths - 1)]
        yield k, reward, _normalized(d.mass, logs, reward)


def _normalized(mass: Floats, logs: Floats, x: Floats) -> Floats:
    highest = float(logs.max())
    if np.isneginf(highest):
        return np.full(len(x), np.nan)
    weight = np.exp(logs - highest)
    share = weight / float(mass @ weight)
    level = float((mass * share) @ x)
    return np.asarray(level + float(mass.sum()) * share * (x - level))
