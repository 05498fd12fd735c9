"""The mean of the importance weights: of all, of each action and of each batch.

E[π_e(A|S) / π_b(A|S)] = 1 whatever the rewards, so the mean weight tests the propensities and the overlap
at once; the same holds inside a batch, and for one action E[1{A = a} w − π_e(a|S)] = 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.trust.check import CHECKS as ALL
from offpolicy.trust.check import FITTED, OVERLAP, PROPENSITIES, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import ROUNDING, SMALLEST_BATCH, deficit_z, furthest, mean_z, z_score
from offpolicy.trust.view import batches, labels, once, several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

LIKELY_NONE = 3.0  # rows of an action expected where that none comes is still likely
LARGEST_TABLE = 50_000_000


def mean(view: View) -> Finding:
    """The mean weight, which should be 1."""
    return _mean(view)[0]


def mean_in_errors(view: View) -> Finding:
    """The same in standard errors."""
    return _mean(view)[1]


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
        return not_applicable("mean_weight_by_action", "no action of the target was logged.")
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
        f"the weights of no action are off by much (largest z {value:.2g})."
        if fine("mean_weight_by_action", value)
        else f"weights of action {log.actions[at]!r} are off by {100 * relative[at]:+.1f}% (z = {z[at]:.2g}).",
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
        f"batch {names[worst.place]!r} has the mean weight furthest from 1 (z = {worst.z:.3g} of {worst.tests} "
        "batches).",
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
CHECKS = (
    Check(
        "mean_weight",
        Threshold(
            0.02, 0.1, "above", PROPENSITIES, decides=True, about_products=True, false_alarms=0.001, about_reach=True
        ),
        policy=mean, topic=WRONG, value="distance of the mean weight from 1, beyond its noise",
    ),
    Check(
        "mean_weight_z", Threshold(3.3, 5.0, "above", PROPENSITIES, about_products=True, false_alarms=0.001),
        policy=mean_in_errors, topic=WRONG, value="the same in standard errors",
    ),
    Check(
        "mean_weight_by_action", Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
        policy=_by_action, applies=labels, topic=WRONG, value="largest z of the mean weight of an action",
    ),
    Check(
        "mean_weight_by_batch", Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
        policy=_by_batch, applies=batches, topic=WRONG, value="largest z of the mean weight of a batch",
    ),
)  # fmt: skip
