"""Weights and propensities: the mean weight of all, of actions and batches; propensities that are right, rounded, or 1.

E[π_e(A|S) / π_b(A|S)] = 1 whatever the rewards, so the mean weight tests the propensities and the overlap
at once; the same holds inside a batch, and for one action E[1{A = a} w − π_e(a|S)] = 0. Actions of which π_b says p
were taken in a share p of the rows, whatever p; with the probability of the logged action alone, E[1/p] is at most the
number of possible actions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.trust.check import CHECKS as ALL
from offpolicy.trust.check import FITTED, OVERLAP, PROPENSITIES, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.mismatch import BINS, MATERIAL, SMALLEST_CELL, effects_of
from offpolicy.trust.moments import ROUNDING, SMALLEST_BATCH, deficit_z, furthest, mean_z, z_score
from offpolicy.trust.view import batches, decision_mass, labels, once, propensities, several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.trust.check import Level
    from offpolicy.trust.mismatch import DistributionSums
    from offpolicy.trust.view import Draws, LogSide, View


LIKELY_NONE = 3.0  # rows of an action expected where that none comes is still likely
LARGEST_TABLE = 50_000_000


@once
def _mean(view: View) -> list[Finding]:
    sample, limits = view.weight_sample, ALL["mean_weight_z"].limits
    error, mean = sample.std_error, sample.estimate * view.scale
    z = mean_z(sample, 1.0) if view.scale == 1 else math.nan
    # A large log makes any deviation significant, a heavy tail makes any deviation possible: the mean
    # is judged only where it is both away from 1 and significantly so.
    significant = not math.isnan(z) and abs(z) > limits.caution
    level: Level = ALL["mean_weight"].limits.level(abs(mean - 1)) if significant else "ok"
    remedy = "" if level == "ok" else _remedy(view)
    if remedy and mean < 1:
        # Weights that are too small on average may also be large ones that were not met yet.
        remedy = f"{OVERLAP} {remedy}"
    sentence = f"the mean weight is {mean:.4g} (± {error:.2g}); it should be 1."
    return [
        Finding("mean_weight", mean, level, sentence, remedy),
        Finding(
            "mean_weight_z",
            z,
            "ok" if level == "ok" else limits.level(abs(z)),
            f"the mean weight is {abs(z):.3g} standard errors {'above' if z > 0 else 'below'} 1.",
            remedy,
        ),
    ]


def _by_action(view: View) -> Finding:
    """The largest z of Σ ω (1{A = a} w − π_e(a|S)) over actions, adjusted for their number."""
    d, log, reach = view.decisions, view.log, view.reach
    action, m, square = log.action[view.rows], view.row_mass, view.square[view.decisions.layout.unit]
    k = len(log.actions)
    square_sum = np.bincount(action, weights=square * d.ratio**2, minlength=k)
    cross = np.bincount(action, weights=square * d.ratio * d.pi_e, minlength=k)
    spread = square_sum - 2 * cross + reach.square
    # Where few of an action's weights have been seen their spread has not either: with the right total
    # it would be the total times the mean weight of a target's unit.
    weight_sum = np.bincount(action, weights=m * d.ratio, minlength=k)
    heavy = np.divide(square_sum, weight_sum, out=np.zeros(k), where=weight_sum > 0)
    # An action without a weighted row is a rare one: its weights are taken for the heaviest seen.
    heavy = np.where(weight_sum > 0, heavy, heavy.max())
    spread = np.maximum(spread, reach.share * m.sum() * heavy)
    # An action that the target takes seldom, and then for sure, has light weights until a heavy one comes:
    # E[π_e²/π_b] says what is to come.
    inverse = _mean_inverse(action, m, d.pi_b, k)
    spread = np.maximum(spread, reach.square * np.maximum(inverse - 1, 0.0))
    gain = weight_sum - reach.share * m.sum()
    taken = reach.share > 0
    if not taken.any() or not d.ratio.any():
        return not_applicable("mean_weight_by_action", "no action of the policy was logged.")
    floor = 1e-12 * float(m.sum())
    mean_square = np.divide(square, m, out=np.zeros_like(square), where=m > 0)  # some weights are 0
    third = np.bincount(action, weights=mean_square * square * d.ratio**3, minlength=k).astype(np.float64)
    pairs = zip(gain, np.sqrt(np.maximum(spread, 0.0)), taken & (np.abs(gain) > floor), strict=True)
    z = deficit_z(np.array([z_score(g, s, 0.0) if off else 0.0 for g, s, off in pairs]), third, spread)
    relative = np.divide(gain, reach.share * m.sum(), out=np.zeros(k), where=taken)
    # Units of a cluster move together, which the sums above do not know.
    worst = furthest(z / _design(view), taken, np.abs(relative) > ALL["mean_weight"].limits.caution)
    at, value = worst.place, worst.value
    return judged(
        "mean_weight_by_action",
        value,
        f"the weights of every action have about the expected mean (largest z {value:.2g})."
        if fine("mean_weight_by_action", value)
        else f"the weights of action {log.actions[at]!r} are off by {100 * relative[at]:+.1f}% (z = {z[at]:.2g}).",
        {"z": {log.actions[a]: float(z[a]) for a in np.flatnonzero(taken)}},
        remedy=_remedy(view),
    )


def _mean_inverse(cell: Ints, mass: Floats, pi_b: Floats, size: int) -> Floats:
    """E[1/π_b] of each action (or batch and action) over all its contexts, from the rows that took it."""
    inverse = 1.0 / pi_b
    first = np.bincount(cell, weights=mass * inverse, minlength=size)
    second = np.bincount(cell, weights=mass * inverse * inverse, minlength=size)
    return np.divide(second, first, out=np.zeros(size), where=first > 0)


def _design(view: View) -> float:
    """√ of the design effect of the clusters on the mean weight."""
    clustered = view.weight_sample.std_error
    spread = view.square @ (view.weight - view.units.mean(view.weight)) ** 2
    alone = math.sqrt(float(spread)) / float(view.mass.sum())
    return max(1.0, clustered / alone) if alone > 0 else 1.0


def _by_batch(view: View) -> Finding:
    batch = view.units.batch
    z = _batch_z(view, batch) / _design(view)
    usable = np.isfinite(z) & (np.bincount(batch, weights=view.units.count) >= SMALLEST_BATCH)
    if not usable.any():
        return not_applicable("mean_weight_by_batch", "no batch has 20 rows and some overlap.")
    worst, names = furthest(z, usable), view.log.batch_labels
    return judged(
        "mean_weight_by_batch",
        worst.value,
        f"batch {names[worst.place]!r} has the mean weight furthest from 1 (z = {worst.z:.3g}, the largest of "
        f"{worst.tests} batches).",
        {"z": {names[b]: float(z[b]) for b in np.flatnonzero(usable)}},
        remedy=_remedy(view),
    )


def _remedy(view: View) -> str:
    """What to do where weights are off: look at the column of propensities, or at the model in its place."""
    return PROPENSITIES if view.behavior_is_known else FITTED


def _batch_z(view: View, batch: Ints) -> Floats:
    """(B,) z-score of the mean weight of each batch against 1; NaN for empty ones.

    A batch that has met few of the large weights has not met their spread either. If propensities are right,
    E[w²] = Σ_a E[π_e(a|S)²/π_b(a|S)], with 1/π_b from the rows of the batch that took a. Where none did, 1/π_b may
    be as large as in any batch, or as makes it likely that none does.
    """
    w, m, square = view.weight, view.mass, view.square
    total, squares = np.bincount(batch, weights=m), np.bincount(batch, weights=square)
    first = np.bincount(batch, weights=m * w)
    cross, second = (np.bincount(batch, weights=square * x) for x in (w, w * w))
    heavy = _expected_squares(view, batch, len(total))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = first / total
        spread = np.maximum(second - 2 * mean * cross + squares * mean**2, squares * (heavy - 1))
        varies = spread > ROUNDING * squares
        z = (first - total) / np.sqrt(np.where(varies, spread, 1.0))
    off = np.where(np.abs(mean - 1) <= 1e-12, 0.0, np.copysign(np.inf, mean - 1))
    return np.asarray(np.where(total > 0, np.where(varies, z, off), np.nan))


def _expected_squares(view: View, batch: Ints, batches: int) -> Floats:
    """(B,) E[w²] of each batch if propensities are right; 1 for episodes, whose weights are products."""
    d, k = view.decisions, len(view.log.actions)
    if several(view.log) or k == 0 or batches * k > LARGEST_TABLE:
        return np.ones(batches)
    action = view.log.action[view.rows]
    inverse = _mean_inverse(batch * k + action, view.mass, d.pi_b, batches * k).reshape(batches, k)
    rows = np.bincount(batch, weights=view.units.count, minlength=batches)[:, None]
    unseen = np.maximum(inverse.max(axis=0)[None, :], rows / LIKELY_NONE)
    inverse = np.where(inverse > 0, inverse, unseen)
    return np.asarray(inverse @ (view.reach.square / view.square.sum()))


WRONG = Topic(
    "The logged probabilities do not match how often each action was actually shown.",
    "The logged probabilities match how often each action was actually shown.",
)
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
        "actions were taken as often as their propensities say, for propensities of every size."
        if fine(name, value)
        else f"actions with propensities from {BINS[worst]:g} to {BINS[worst + 1]:g} were taken "
        f"{100 * abs(off[worst]):.3g}% {'more' if off[worst] > 0 else 'less'} often than they should (z = "
        f"{z[worst]:.3g})."
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
    sentence = f"the mean of 1/propensity is {level + mean:.4g}, and the number of actions is {level:.4g}"
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
            name, 1.0, f"every row has the action {log.actions[int(log.action[0])]!r}, so the value of any "
            "other action cannot be estimated.",
        )  # fmt: skip
    if log.propensity is None:
        return not_applicable(name, "propensities were not logged. Judged by the behavior model.")
    certain = log.propensity >= 1 - 1e-9
    if log.eligible is not None:
        certain &= log.eligible.sum(axis=1) > 1
    share = float(mass @ certain / mass.sum())
    sentence = (
        "the logging policy could choose in every row."
        if share == 0
        else f"{100 * share:.3g}% of rows have propensity 1, so other actions cannot be evaluated there."
    )
    return judged(name, share, sentence)


def certain(view: View) -> Finding:
    """Share of the log in which the fitted π_b leaves no choice."""
    share = float(view.row_mass @ (view.decisions.pi_b > SURE_SHARE) / view.row_mass.sum())
    return judged(
        "deterministic_logging",
        share,
        f"the behavior model is more than {100 * SURE_SHARE:g}% sure of the action in {100 * share:.3g}% of rows.",
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
        "mean_weight",
        Threshold(
            0.02, 0.1, "above", PROPENSITIES, decides=True, about_products=True, false_alarms=0.001, about_reach=True
        ),
        policy=lambda view: _mean(view)[0], topic=WRONG, value="distance of the mean weight from 1, beyond its noise",
        part_of="propensities",
    ),
    Check(
        "mean_weight_z", Threshold(3.3, 5.0, "above", PROPENSITIES, about_products=True, false_alarms=0.001),
        policy=lambda view: _mean(view)[1], topic=WRONG, value="the same in standard errors", part_of="propensities",
    ),
    Check(
        "mean_weight_by_action", Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
        policy=_by_action, applies=labels, topic=WRONG, value="largest z of the mean weight of an action",
        part_of="propensities",
    ),
    Check(
        "mean_weight_by_batch", Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
        policy=_by_batch, applies=batches, topic=WRONG, value="largest z of the mean weight of a batch",
        part_of="propensities",
    ),
    Check(
        "propensity_calibration", Threshold(4.0, 6.0, "above", PROPENSITIES, decides=True, false_alarms=0.0001),
        log=lambda s: calibration(s.log, s.draws, s.sums.distribution), applies=logged_labels,
        topic=WRONG, value="z of logged propensities compared with the actions taken", part_of="propensities",
    ),
    Check(
        "rounded_propensities", Threshold(0.05, 0.25, "above", "Log propensities with full precision."),
        log=lambda s: rounded(s.log), applies=logged_labels,
        topic=Topic("The logged probabilities look rounded."),
        value="relative error of a weight that rounding may cause", part_of="propensities",
    ),
    Check(
        "deterministic_logging",
        Threshold(
            0.05, 0.999, "above",
            "Explore in rows where the logging policy always takes the same action, "
            "or evaluate a policy that agrees with it there.",
            advice=True,
        ),
        log=lambda s: deterministic(s.log), policy=certain, applies=labels, where=lambda s: not s.behavior_is_known,
        topic=Topic("Part of the log always took the same action."), value="share of rows with propensity 1",
        part_of="exploration",
    ),
    Check(
        "unlogged_actions",
        Threshold(
            0.0, math.inf, "above", "Remove them from the list of actions, or collect data on them.", advice=True
        ),
        log=lambda s: unlogged(s.log), applies=labels,
        topic=Topic("Some actions on the list were never logged."), value="number of listed actions never logged",
        part_of="exploration",
    ),
)  # fmt: skip
