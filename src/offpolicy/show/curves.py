"""What a report shows about the weights and the models behind the estimates of one policy.

Every function takes the `View` that the diagnostics look at and returns plain rows: sums over blocks,
histograms and bins, never rows of the log.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.show.tables import summary
from offpolicy.trust.horizon import horizon_curve
from offpolicy.trust.stability import clipping_curve

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.show.tables import Row
    from offpolicy.trust.view import View

HISTOGRAM = 24
MOST_ACTIONS = 30
PARTS = 20  # of the range of actions that are numbers
LOG10 = math.log(10.0)


def log_weights(view: View) -> Floats:
    """(N,) log₁₀ of each unit's importance weight, −∞ where it is 0."""
    d = view.decisions
    return d.log_weight / LOG10


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
    if log.is_continuous:
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
    low, high = log.action_range
    edges = np.linspace(low, high, PARTS + 1)
    place = np.clip(np.searchsorted(edges, log.action[view.rows], side="right") - 1, 0, PARTS - 1)
    logged = np.bincount(place, weights=mass, minlength=PARTS) / mass.sum()
    target = np.bincount(place, weights=mass * view.decisions.ratio, minlength=PARTS) / mass.sum()
    return [
        {
            "action": f"{edges[b]:.4g} to {edges[b + 1]:.4g}",
            "logged": float(logged[b]),
            "target": float(target[b]),
            "ratio": None,
        }
        for b in range(PARTS)
    ]


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
    if view.decisions.layout.is_single:
        return []
    curve = horizon_curve(view.decisions, view.units)
    columns = np.stack([curve.share, curve.surviving, curve.running], axis=1).tolist()
    names = ("effective", "surviving", "running")
    return [{"step": t, **dict(zip(names, row, strict=True))} for t, row in enumerate(columns, 1)]
