"""Logged propensities: right on average, rounded, or 1; and actions that were never logged.

Actions of which π_b says p were taken in a share p of the rows, whatever p. With the probability of the logged action
alone, E[1/p] is at most the number of possible actions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.trust.check import PROPENSITIES, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.mismatch import BINS, MATERIAL, SMALLEST_CELL, effects_of
from offpolicy.trust.moments import furthest
from offpolicy.trust.view import decision_mass, labels, propensities
from offpolicy.trust.weights import WRONG

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.logs.log import Log
    from offpolicy.trust.mismatch import DistributionSums
    from offpolicy.trust.view import Draws, LogSide, View

SURE_SHARE = 0.99


def calibration(log: Log, draws: Draws, sums: DistributionSums | None) -> Finding:
    """Whether propensities are right on average, level by level or (logged action only) over all."""
    name = "propensity_calibration"
    if sums is None:
        return _inverse_calibration(log, draws)
    expected, variance, seen = sums.levels
    variance = variance * effects_of(log, draws).max()
    size, each = len(expected), draws.mean_weight
    usable = (expected >= 4 * SMALLEST_CELL * each) & (variance > 1e-9 * each * expected)
    if not usable.any():
        return not_applicable(name, "too few rows to compare propensities with frequencies.")
    z = np.divide(seen - expected, np.sqrt(variance), out=np.zeros(size), where=usable)
    off = np.divide(seen, expected, out=np.ones(size), where=expected > 0) - 1
    found = furthest(z, usable, np.abs(off) > MATERIAL)
    worst, value = found.place, found.value
    table = [
        {"from": BINS[b], "to": BINS[b + 1], "expected": expected[b], "observed": seen[b], "z": z[b]}
        for b in np.flatnonzero(usable)
    ]
    sentence = (
        "actions are taken as often as propensities of each size say."
        if fine(name, value)
        else f"actions with propensities from {BINS[worst]:g} to {BINS[worst + 1]:g} were taken "
        f"{100 * off[worst]:+.3g}% as often as they should (z = {z[worst]:.3g})."
    )
    return judged(name, value, sentence, {"table": table})


def _inverse_calibration(log: Log, draws: Draws) -> Finding:
    mass, square = draws.mass, draws.square
    possible = (
        np.full(len(mass), float(len(log.actions)))
        if log.eligible is None
        else log.eligible.sum(axis=1).astype(np.float64)
    )
    gap = 1.0 / log.propensity - possible
    total = float(mass.sum())
    mean = float(mass @ gap) / total
    error = math.sqrt(float(square @ (gap - mean) ** 2) * effects_of(log, draws).max()) / total
    level = float(mass @ possible) / total
    excess = mean / level
    z = mean / error if error > 1e-9 * level else (math.inf if excess > 1e-6 else 0.0)
    # Fewer actions may be possible than are listed, so only an excess contradicts the propensities.
    value = z if excess > MATERIAL else 0.0
    sentence = f"the mean of 1 / propensity is {level + mean:.4g}, the number of actions {level:.4g}"
    return judged(
        "propensity_calibration",
        max(0.0, value),
        f"{sentence} (z = {z:.2g})." if value > 0 else f"{sentence}: no contradiction.",
        {"mean_inverse": level + mean, "actions": level},
    )


def decimals(values: Floats, most: int = 4) -> int | None:
    """Number of decimals that all values have been rounded to; None when more than ``most``.

    >>> decimals(np.array([0.25, 0.5])), decimals(np.array([1 / 3]))
    (2, None)
    """
    for digits in range(1, most + 1):
        scaled = values * 10.0**digits
        if (np.abs(scaled - np.round(scaled)) < 1e-6).all():
            return digits
    return None


def rounded(log: Log) -> Finding:
    """Whether propensities look rounded, and by how much that can move a weight."""
    name = "rounded_propensities"
    distinct = np.unique(log.propensity)
    digits = decimals(distinct)
    # A design with a handful of round probabilities (0.5, 0.25) is no sign of rounding.
    if digits is None or len(distinct) < 8:
        return judged(name, 0.0, "the propensities do not look rounded.")
    error = 0.5 * 10.0**-digits / float(distinct[0])
    return judged(
        name,
        error,
        f"all propensities have at most {digits} decimals, so a weight may be off by up to "
        f"{100 * error:.3g}% (smallest propensity {distinct[0]:g}).",
        {"decimals": digits, "distinct": len(distinct)},
    )


def deterministic(log: Log) -> Finding:
    """Share of the log in which the logging policy left no choice."""
    mass = decision_mass(log)
    name = "deterministic_logging"
    if len(np.unique(log.action)) == 1 and len(log.actions) > 1:
        return judged(
            name, 1.0, f"every row has the action {log.actions[int(log.action[0])]!r}: the value of any "
            "other action is not identified.",
        )  # fmt: skip
    if log.propensity is None:
        return not_applicable(name, "propensities were not logged. Judged by the behavior model.")
    certain = log.propensity >= 1 - 1e-9
    if log.eligible is not None:
        certain &= log.eligible.sum(axis=1) > 1
    share = float(mass @ certain / mass.sum())
    sentence = (
        "the logging policy left a choice everywhere."
        if share == 0
        else f"{100 * share:.3g}% of the rows have propensity 1: other actions are not identified there."
    )
    return judged(name, share, sentence)


def certain(view: View) -> Finding:
    """Share of the log in which the fitted π_b leaves no choice."""
    share = float(view.row_mass @ (view.decisions.pi_b > SURE_SHARE) / view.row_mass.sum())
    return judged(
        "deterministic_logging",
        share,
        f"the behavior model is over {100 * SURE_SHARE:g}% sure of the action in {100 * share:.3g}% of the rows.",
    )


def unlogged(log: Log) -> Finding:
    """Actions of the list that never occur."""
    absent = np.flatnonzero(np.bincount(log.action, minlength=len(log.actions)) == 0)
    some = ", ".join(repr(log.actions[a]) for a in absent[:3])
    sentence = (
        f"all {len(log.actions)} actions were logged."
        if len(absent) == 0
        else f"{len(absent)} of {len(log.actions)} actions were never logged ({some}"
        f"{', …' if len(absent) > 3 else ''})."
    )
    labels = [log.actions[a] for a in absent]
    return judged("unlogged_actions", float(len(absent)), sentence, {"actions": labels})


def logged_labels(side: LogSide) -> str:
    """Why a check of logged probabilities of labels cannot be made."""
    return labels(side) or propensities(side)


CHECKS = (
    Check(
        "propensity_calibration", Threshold(4.0, 6.0, "above", PROPENSITIES, decides=True, false_alarms=0.0001),
        log=lambda s: calibration(s.log, s.draws, s.sums.distribution), applies=logged_labels,
        topic=WRONG, value="z of logged propensities against the actions taken",
    ),
    Check(
        "rounded_propensities", Threshold(0.05, 0.25, "above", "Log propensities with full precision."),
        log=lambda s: rounded(s.log), applies=logged_labels,
        topic=Topic("The logged probabilities look rounded."),
        value="relative error that rounding may have put into a weight",
    ),
    Check(
        "deterministic_logging",
        Threshold(
            0.05, 0.999, "above",
            "Where the logging policy leaves no choice, other actions are not identified: explore there, "
            "or evaluate a policy that agrees with it there.",
            advice=True,
        ),
        log=lambda s: deterministic(s.log), policy=certain, applies=labels, where=lambda s: not s.behavior_is_known,
        topic=Topic("Part of the log always took the same action."), value="share of rows with propensity 1",
    ),
    Check(
        "unlogged_actions",
        Threshold(
            0.0, math.inf, "above", "Remove them from the list of actions, or collect data with them.", advice=True
        ),
        log=lambda s: unlogged(s.log), applies=labels,
        topic=Topic("Some actions on the list were never logged."), value="number of listed actions never logged",
    ),
)  # fmt: skip
