"""Importance weights: their mean, how many units they leave, how heavy their tail is.

E[π_e(A|S) / π_b(A|S)] = 1 whatever the rewards, so the mean weight tests the propensities and the overlap
at once; the same holds inside a batch, and for one action E[1{A = a} w − π_e(a|S)] = 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.intervals.evidence import two_values
from offpolicy.inference.intervals.tails import effective_size, tail_index, tail_is_visible
from offpolicy.trust.finding import Finding, about_arms, judged, not_applicable
from offpolicy.trust.moments import exceedances, mean_z, surely_above, symmetric
from offpolicy.trust.significance import ROUNDING, SMALLEST_BATCH, adjusted_z, first_largest, same_but_rounding, z_score
from offpolicy.trust.thresholds import FITTED, OVERLAP, PROPENSITIES, THRESHOLDS

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.trust.thresholds import Level
    from offpolicy.trust.view import View

TOP = 0.01
LIKELY_NONE = 3.0  # rows of an action expected where that none comes is still likely
LARGEST_TABLE = 50_000_000


def top_share(weight: Floats, mass: Floats, share: float = TOP) -> float:
    """Share of the total weight that the heaviest ``share`` of the units with positive weight carry.

    >>> top_share(np.array([1.0] * 99 + [99.0]), np.ones(100))
    0.5
    """
    positive = weight > 0
    if not positive.any():
        return math.nan
    w, m = weight[positive], mass[positive]
    total, room = float(m @ w), share * float(m.sum())
    heavy = w >= np.partition(w, int(0.9 * (len(w) - 1)))[int(0.9 * (len(w) - 1))]
    if float(m[heavy].sum()) >= room:  # no need to sort the others
        w, m = w[heavy], m[heavy]
    order = np.argsort(-w, kind="stable")
    w, m = w[order], m[order]
    before = np.cumsum(m) - m
    taken = np.clip(room - before, 0.0, m)
    return float(taken @ w / total)


def findings(view: View) -> list[Finding]:
    """All checks of the weights of one policy."""
    w, units = view.weight, view.units
    sample = units.sample(w)
    size = effective_size(sample.numerator, sample.count)
    what = "clusters" if units.has_clusters else "units"
    largest, possible = float(w.max()) * view.scale, view.reach.largest
    carried, top = unit_share(view, w), top_share(w, view.mass)
    one, how = _rewards_on_one(view)
    return [
        *_mean(view),
        judged(
            "effective_sample_size",
            size,
            f"the weights leave as much information as {_amount(size)} of {sample.total:,.0f} {what}.",
            {"share": size / sample.total, "units": sample.total},
        ),
        judged(
            "largest_weight",
            largest,
            f"the largest importance weight is {largest:,.4g}.",
            {} if possible is None else {"largest_possible": possible},
        ),
        judged("largest_weight_share", carried, f"one unit carries {_percent(carried)} of the total weight."),
        judged("top_share", top, f"the heaviest 1% of the units with a positive weight carry {_percent(top)} of it."),
        judged("top_unit_share", one, f"{how} {_percent(one)} of the weighted rewards."),
        _tail(view),
        _by_action(view),
        _by_batch(view),
    ]


def unit_share(view: View, values: Floats) -> float:
    """Largest share of a total that a single unit carries, NaN where the total is 0.

    A row that stands for several units carries as much as one of them.
    """
    total = float(view.mass @ values)
    return float((view.mass / view.count * values).max()) / total if total > 0 else math.nan


def _rewards_on_one(view: View) -> tuple[float, str]:
    """Share of the weighted rewards that one unit carries, and in words of which rewards that is.

    Of rewards of two values it is the share Σ(w r)²/(Σ w r)² that one unit would have if the rewards of the whole log
    had fallen to its weights at random. The rewards that the policy's own units happen to show are no ground for trust
    there: a policy that was lucky has more of them, and where they were counted its logs would be trusted more often
    than others.
    """
    if two_values(view.reward) is None:
        return unit_share(view, np.abs(view.weight * view.reward)), "one unit carries"
    each = view.mass / view.count * np.abs(view.reward)
    size = effective_size(view.weight, view.count) * effective_size(each, view.count)
    share = min(float(view.count.sum()) / size, 1.0) if size > 0 else math.nan
    return share, "with rewards as in the whole log, one unit would carry"


def _mean(view: View) -> list[Finding]:
    w = view.weight
    sample = view.units.sample(w)
    error, mean = sample.std_error, sample.estimate * view.scale
    z = mean_z(sample, 1.0) if view.scale == 1 else math.nan
    off = abs(mean - 1)
    # A large log makes any deviation significant, a heavy tail makes any deviation possible: the mean
    # is judged only where it is both away from 1 and significantly so.
    significant = not math.isnan(z) and abs(z) > THRESHOLDS["mean_weight_z"].caution
    level = THRESHOLDS["mean_weight"].level(off) if significant else "ok"
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
            "ok" if level == "ok" else THRESHOLDS["mean_weight_z"].level(abs(z)),
            f"the mean weight is {abs(z):.3g} standard errors {'above' if z > 0 else 'below'} 1.",
            remedy,
        ),
    ]


def _tail(view: View) -> Finding:
    sample = view.units.sample(view.weight)
    k = tail_index(same_but_rounding(sample.numerator), sample.count)
    if math.isnan(k):
        return not_applicable("pareto_k", "too few different weights to judge their tail.")
    if k == -math.inf:
        return judged("pareto_k", k, "the weights take few levels: they have no tail.")
    possible = view.reach.largest
    bounded = possible is not None and math.isfinite(possible)
    visible = tail_is_visible(sample.numerator, sample.count)
    sentence = f"the tail of the weights has a Pareto index of {k:.2f}"
    if bounded:
        sentence += f", and no weight can exceed {possible:,.4g}."
    elif visible:
        sentence += " (their mean needs k < 0.7)."
    else:
        sentence += ", but no unit carries as much weight as such a tail would give it."
    # A known bound rules out the unseen weights that a heavy tail warns of; so does, in part, a largest
    # weight too small for such a tail. A fitted index has an error of its own.
    sure = surely_above(k, exceedances(sample.total))
    at_most: Level = "alarm" if visible and not bounded else "note"
    bound = judged("pareto_k", sure, sentence, at_most=at_most)
    return replace(bound, value=k, details={"surely_above": sure})


@about_arms("mean_weight_by_action")
def _by_action(view: View) -> Finding:
    """The largest z of Σ ω (1{A = a} w − π_e(a|S)) over actions, adjusted for their number."""
    d, log, reach = view.decisions, view.log, view.reach
    action, m, square = log.action[view.rows], view.row_mass, view.per_decision(view.square)
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
    z = np.zeros(k)
    mean_square = np.divide(square, m, out=np.zeros_like(square), where=m > 0)  # some weights are 0
    third = np.bincount(action, weights=mean_square * square * d.ratio**3, minlength=k)
    z[taken] = [
        _against(z_score(g, math.sqrt(max(s, 0.0)), 0.0), t, s) if abs(g) > floor else 0.0
        for g, s, t in zip(gain[taken], spread[taken], third[taken], strict=True)
    ]
    relative = np.zeros(k)
    relative[taken] = gain[taken] / (reach.share[taken] * m.sum())
    material = np.abs(relative) > THRESHOLDS["mean_weight"].caution
    worst = first_largest(np.where(material, np.abs(z), 0.0))
    value = float(abs(z[worst])) if material[worst] else 0.0
    # Units of a cluster move together, which the sums above do not know.
    value = adjusted_z(value / _design(view), int(taken.sum()))
    label = log.actions[worst]
    return judged(
        "mean_weight_by_action",
        value,
        f"the weights of no action are off by much (largest z {value:.2g})."
        if THRESHOLDS["mean_weight_by_action"].level(value) == "ok"
        else f"weights of action {label!r} are off by {100 * relative[worst]:+.1f}% (z = {z[worst]:.2g}).",
        {"z": {log.actions[a]: float(z[a]) for a in np.flatnonzero(taken)}},
        remedy=_remedy(view),
    )


def _against(z: float, third: float, second: float) -> float:
    """A z-score of weights that are mostly small: where it is negative, the large ones may not have come yet."""
    if z >= 0 or second <= 0:
        return z
    return min(0.0, symmetric(z, third / second**1.5))


def _mean_inverse(cell: Ints, mass: Floats, pi_b: Floats, size: int) -> Floats:
    """E[1/π_b] of each action (or batch and action) over all its contexts, from the rows that took it."""
    inverse = 1.0 / pi_b
    first = np.bincount(cell, weights=mass * inverse, minlength=size)
    second = np.bincount(cell, weights=mass * inverse * inverse, minlength=size)
    return np.divide(second, first, out=np.zeros(size), where=first > 0)


def _design(view: View) -> float:
    """√ of the design effect of the clusters on the mean weight."""
    clustered = view.units.sample(view.weight).std_error
    spread = view.square @ (view.weight - view.units.mean(view.weight)) ** 2
    alone = math.sqrt(float(spread)) / float(view.mass.sum())
    return max(1.0, clustered / alone) if alone > 0 else 1.0


def _by_batch(view: View) -> Finding:
    batch = view.units.batch
    if not view.units.has_batches:
        return not_applicable("mean_weight_by_batch", "the log has no batches.")
    z = _batch_z(view, batch) / _design(view)
    usable = np.isfinite(z) & (np.bincount(batch, weights=view.count) >= SMALLEST_BATCH)
    if not usable.any():
        return not_applicable("mean_weight_by_batch", "no batch has 20 rows and some overlap.")
    worst = first_largest(np.where(usable, np.abs(z), -1.0))
    labels = view.log.batch_labels
    value = adjusted_z(float(z[worst]), int(usable.sum()))
    return judged(
        "mean_weight_by_batch",
        value,
        f"batch {labels[worst]!r} has the mean weight furthest from 1 (z = {z[worst]:.3g} of "
        f"{int(usable.sum())} batches).",
        {"z": {labels[b]: float(z[b]) for b in np.flatnonzero(usable)}},
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
    if not d.layout.is_single or k == 0 or batches * k > LARGEST_TABLE:
        return np.ones(batches)
    action = view.log.action[view.rows]
    inverse = _mean_inverse(batch * k + action, view.mass, d.pi_b, batches * k).reshape(batches, k)
    rows = np.bincount(batch, weights=view.count, minlength=batches)[:, None]
    unseen = np.maximum(inverse.max(axis=0)[None, :], rows / LIKELY_NONE)
    inverse = np.where(inverse > 0, inverse, unseen)
    return np.asarray(inverse @ (view.reach.square / view.square.sum()))


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.3g}%"
