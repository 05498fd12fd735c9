"""Overlap: how much of the target policy's mass lies where the logging policy never goes.

With the whole logged distribution the unsupported mass E[Σ_a π_e(a|S) 1{π_b(a|S) = 0}] is exact. With the
probability of the logged action alone it is bounded below in two ways: by the target's mass on actions
that were never logged, and by 1 − E[w], because E[w] = 1 − unsupported mass. The second is an estimate and
counts only beyond three of its standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.policies.target import blocks
from offpolicy.trust.finding import Finding, judged

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.policies.target import Target
    from offpolicy.trust.view import View

NOISE = 3.0


@dataclass(frozen=True, eq=False)
class Reach:
    """Where a target puts its mass.

    Attributes
    ----------
    share : (K,) array
        E[π_e(a|S)].
    square : (K,) array
        Σ ω² π_e(a|S)², for the variance of sums by action.
    forbidden : float or None
        Mass on actions with π_b = 0, where the whole distribution was logged.
    largest : float or None
        Largest weight that can occur in a logged context, likewise.
    """

    share: Floats
    square: Floats
    forbidden: float | None = None
    largest: float | None = None


def reach(log: Any, target: Target, rows: Ints, mass: Floats, square: Floats) -> Reach:
    """Sums over rows of a target's probabilities, block by block."""
    if getattr(log, "distribution", None) is not None:
        return _against(log, target, rows, mass, square)
    k = target.n_actions
    at = log.context.positions(rows) if target.shares_context else rows
    if target.codes is not None:
        chosen = target.codes[at]
        return Reach(
            np.bincount(chosen, weights=mass, minlength=k) / mass.sum(),
            np.bincount(chosen, weights=square, minlength=k).astype(np.float64),
        )
    places, group = np.unique(at, return_inverse=True)
    mass_at = np.bincount(group, weights=mass)
    square_at = np.bincount(group, weights=square)
    share, squares = np.zeros(k), np.zeros(k)
    for block in blocks(len(places), k):
        pi = target.probabilities(places[block])
        share += mass_at[block] @ pi
        squares += square_at[block] @ (pi * pi)
    return Reach(share / mass.sum(), squares)


def _against(log: Any, target: Target, rows: Ints, mass: Floats, square: Floats) -> Reach:
    k = target.n_actions
    share, squares = np.zeros(k), np.zeros(k)
    forbidden, largest = 0.0, 0.0
    for block in blocks(len(rows), k):
        at = log.context.positions(rows[block]) if target.shares_context else rows[block]
        pi, pi_b = target.probabilities(at), log.distribution[rows[block]]
        m = mass[block]
        share += m @ pi
        squares += square[block] @ (pi * pi)
        closed = pi_b <= 0
        forbidden += float(m @ np.where(closed, pi, 0.0).sum(axis=1))
        ratio = np.divide(pi, pi_b, out=np.zeros_like(pi), where=~closed)
        largest = max(largest, float(ratio.max()))
    total = float(mass.sum())
    return Reach(share / total, squares, forbidden / total, largest)


def of_view(view: View) -> Reach:
    """The reach of a view's target on its rows."""
    m = view.row_mass
    square = m * m
    if view.units.count is not None:
        square = square / view.units.count
    return reach(view.log, view.target, view.rows, m, square)


def finding(view: View, found: Reach) -> Finding:
    """The unsupported mass, in words."""
    log, d = view.log, view.decisions
    logged = np.bincount(log.action, minlength=len(log.actions)) > 0
    never = float(found.share[~logged].sum())
    # Step by step for episodes: the one-step ratio has mean 1 under the logged states.
    ratio = view.estimate(d.ratio) if d.layout.is_single else None
    mean = float(view.row_mass @ d.ratio / view.row_mass.sum())
    noise = ratio.std_error if ratio is not None else _row_error(view)
    short = max(0.0, 1.0 - mean)
    sure = short if short > NOISE * noise else 0.0
    details: dict[str, Any] = {"never_logged": never, "shortfall": short, "shortfall_error": noise}
    if not d.pi_e.any():
        return judged(
            "unsupported_mass",
            1.0,
            "the target never takes an action that was logged: no overlap, its value is not identified.",
            details,
        )
    if found.forbidden is not None:
        share = found.forbidden
        details["forbidden"] = share
        sentence = (
            "the logging policy can take every action that the target takes."
            if share == 0
            else f"{100 * share:.3g}% of the target's actions have logged probability 0."
        )
        return judged("unsupported_mass", share, sentence, details)
    value = max(never, sure)
    if value == 0:
        sentence = "no sign that the target takes actions which the logging policy never takes."
    elif never >= sure:
        sentence = f"{100 * never:.3g}% of the target's actions were never logged."
    else:
        sentence = (
            f"about {100 * sure:.3g}% of the target's mass is not covered by the log (mean weight "
            f"{mean:.3g} instead of 1)."
        )
    return judged("unsupported_mass", value, sentence, details)


def _row_error(view: View) -> float:
    d = view.decisions
    centered = view.row_mass * (d.ratio - float(view.row_mass @ d.ratio / view.row_mass.sum()))
    return float(np.sqrt(np.sum(d.sum(centered) ** 2)) / view.row_mass.sum())
