"""Would the number be another one tomorrow, with another estimator, or without its largest rewards?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy._arrays import levels
from offpolicy.inference.intervals.evidence import lumpiness
from offpolicy.inference.intervals.rules import SMOOTH
from offpolicy.inference.intervals.tails import tail_index
from offpolicy.scores.catalog import headline
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import (
    exceedances,
    mean_z,
    normal_from_student,
    skew_of,
    surely_above,
    symmetric,
    two_sided,
)
from offpolicy.trust.significance import ROUNDING, SMALLEST_BATCH, same_but_rounding
from offpolicy.trust.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.thresholds import Level
    from offpolicy.trust.view import View


PARTS = 10
USUAL = 0.5  # share of the units from which on a reward is the usual one
MATTERS = 1.0  # standard errors of the estimate that a disagreement must exceed to count against it


def heterogeneity(mean: Floats, error: Floats) -> tuple[float, float]:
    """Cochran's Q of several estimates of one number, and its p-value.

    >>> q, p = heterogeneity(np.array([1.0, 1.0]), np.array([0.1, 0.1]))
    >>> q, p
    (0.0, 1.0)
    """
    precision = 1.0 / error**2
    center = float(precision @ mean / precision.sum())
    q = float(precision @ (mean - center) ** 2)
    return q, float(special.chdtrc(len(mean) - 1, q))


def drift(view: View) -> Finding:
    """Whether the estimate differs between batches by more than noise."""
    name = "batch_drift"
    batch = view.units.batch
    if not view.units.has_batches:
        return not_applicable(name, "the log has no batches.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap to compare batches on.")
    mean, error, used = _by_batch(view, batch)
    if int(used.sum()) < 2:
        return not_applicable(name, "fewer than two batches have enough rows to compare.")
    q, p = heterogeneity(mean[used], error[used])
    p = max(p, _largest_contrast(view, batch))
    labels = view.log.batch_labels
    batches = [
        {"batch": labels[b], "value": float(mean[b]), "std_error": float(error[b])} for b in np.flatnonzero(used)
    ]
    verb = "does not differ" if THRESHOLDS[name].level(p) == "ok" else "differs"
    return judged(
        name,
        p,
        f"the estimate {verb} between {int(used.sum())} batches beyond noise (p = {p:.2g}).",
        {"batches": batches, "Q": q},
    )


def _largest_contrast(view: View, batch: Ints) -> float:
    """Adjusted p-value of the part of the time whose mean score is furthest from that of the rest.

    Single batches may be too small for their spread to be known: batches are taken together in order, in up to
    ten parts.
    """
    number = int(batch.max()) + 1
    parts = min(number, PARTS)
    part = (batch * parts) // number
    mass = np.bincount(part, weights=view.mass, minlength=parts)
    sums = np.bincount(part, weights=view.mass * view.score, minlength=parts)
    total, whole = float(mass.sum()), float(sums.sum())
    p = 1.0
    for own in range(parts):
        inside, outside = float(mass[own]), total - float(mass[own])
        if min(inside, outside) <= 0:
            continue
        here, there = float(sums[own]) / inside, (whole - float(sums[own])) / outside
        member = part == own
        contrast = np.where(member, total / inside, -total / outside)
        # The same mean on both sides is what is tested; residuals are around each side's own.
        sample = view.units.sample(contrast * (view.score - np.where(member, here, there)))
        if sample.std_error > 0:
            skew = skew_of(sample.residual, sample.count)
            z = symmetric((here - there) / sample.std_error, skew)
            p = min(p, two_sided(normal_from_student(z, sample.total)))
    return min(1.0, parts * p)


def _by_batch(view: View, batch: Ints) -> tuple[Floats, Floats, Bools]:
    m, psi, units = view.mass, view.score, view.units
    total = np.bincount(batch, weights=m)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(batch, weights=m * psi) / total
    centered = m * (psi - mean[batch])
    if not units.has_clusters:
        square = np.bincount(batch, weights=centered**2 / view.count)
    else:
        group = np.unique(units.cluster * (int(batch.max()) + 1) + batch, return_inverse=True)[1]
        sums = np.bincount(group, weights=centered)
        home = np.zeros(len(sums), dtype=np.int64)
        home[group] = batch
        square = np.bincount(home, weights=sums**2, minlength=len(total))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(square) / total
    # Scores that are all equal have an error of 0 but for rounding.
    varies = error > ROUNDING * (np.abs(psi).max() + np.abs(mean))
    used = (np.bincount(batch, weights=view.count) >= SMALLEST_BATCH) & varies
    return mean, error, np.asarray(used)


def disagreement(
    estimates: Mapping[str, Estimate], estimators: Sequence[Estimator], speaking: Estimator | None = None
) -> Finding:
    """Smallest p-value of a paired test between an estimator and the others that should agree with it.

    Those that trade bias for variance on purpose, and those whose model has seen the rows it scores, are listed
    apart: that they differ says nothing about the log. A difference of less than a standard error of the estimate
    is not held against it.

    Parameters
    ----------
    estimates : {estimator: Estimate}
        Of one policy.
    estimators : sequence of Estimator
    speaking : Estimator, optional
        Whose number is judged; default: the headline among those that should agree.
    """
    name = "estimator_disagreement"
    usable = [
        e
        for e in estimators
        if e.name in estimates and estimates[e.name].is_defined and estimates[e.name].std_error > 0
    ]
    agreeing = [e for e in usable if not e.biased and not _in_sample(e)]
    first = speaking if speaking is not None else headline(agreeing) if agreeing else None
    others = [e for e in agreeing if first is not None and e.name != first.name]
    if first is None or not others or first.name not in {e.name for e in usable}:
        return not_applicable(name, "fewer than two weighted estimators to compare.")
    one = estimates[first.name]
    z = {e.name: _paired_z(one, estimates[e.name]) for e in usable if e.name != first.name}
    worst = max(others, key=lambda e: abs(z[e.name])).name
    p = min(1.0, len(others) * two_sided(z[worst]))
    apart = abs(one.value - estimates[worst].value) / one.std_error
    direct = [f"{e.name} z = {z[e.name]:.2g}" for e in usable if e.is_direct and e.name in z]
    sentence = (
        f"{first.name} and {worst} differ by {abs(z[worst]):.2g} standard errors of their difference, "
        f"{apart:.2g} of the estimate's own"
    )
    sentence += f" (direct method: {', '.join(direct)})." if direct else "."
    at_most: Level = "alarm" if apart > MATTERS else "note"
    details = {"reference": first.name, "z": z, "apart": apart}
    return judged(name, p, sentence, details, at_most=at_most)


def _in_sample(estimator: Estimator) -> bool:
    """Whether its value model was fitted to the rows that it scores."""
    return estimator.split == "full" and "value" in estimator.needs


def _paired_z(one: Estimate, other: Estimate) -> float:
    """z-score of a difference; estimators may coincide, and rounding is not a disagreement."""
    gap = one - other
    # What smoothing explains is no disagreement either: each may smooth in its own way.
    room = max(gap.allowance, 1e-9 * (abs(one.value) + abs(other.value)))
    if abs(gap.value) <= room:
        return 0.0
    return mean_z(gap.sample(), math.copysign(gap.allowance, gap.value))


def reward_tail(view: View) -> Finding:
    """Whether unbounded rewards have a variance that can be estimated: the Pareto index of their tail.

    What weights add to the tail of the scores is judged by ``pareto_k``. The tail is that around the reward model or
    around the mean, whichever is lighter: a model of wild columns has a tail of its own. Where one reward is the usual
    one (no purchase), the tail is that of the other units: between nothing and the smallest purchase there is a gap,
    which a Pareto distribution would take for a heavy tail. From an index of 0.25 on rewards have no fourth moment, and
    their variance is not known from a sample that shows skewness: no interval can be expected to cover. Of a sample
    so large that none is left in the mean this is said, and nothing else.
    """
    name = "reward_tail"
    reward = view.reward
    if bool(((reward == 0) | (reward == 1)).all()):
        return not_applicable(name, "rewards are 0 or 1, which have no tail.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap, and so there are no scores.")
    d = view.decisions
    centers: list[Floats | float] = [view.units.mean(view.reward)]
    if d.layout.is_single and view.value_split is not None:
        centers.append(d.q)
    tails = [_tail_around(view, center) for center in centers]
    k, size = min(tails, key=lambda t: t[0] if not math.isnan(t[0]) else math.inf)
    if math.isnan(k) or k == -math.inf:
        return not_applicable(name, "too few different rewards to judge their tail.")
    sure = surely_above(k, exceedances(size))
    sentence = f"the tail of the rewards has a Pareto index of {k:.2f}"
    if THRESHOLDS[name].level(sure) != "ok":
        sentence += " (their variance needs k < 0.5, and k < 0.25 to be known)"
    lumps = lumpiness(view.units.sample(view.score))
    at_most: Level = "alarm" if lumps > SMOOTH else "caution"
    details = {"surely_above": sure, "skewness": lumps}
    return replace(judged(name, sure, f"{sentence}.", details, at_most=at_most), value=k)


def _tail_around(view: View, center: Floats | float) -> tuple[float, float]:
    """Tail index of the distances of rewards from a center, and how many units it is of."""
    distance, count = _distances(view, center)
    k = tail_index(distance, count) if len(distance) else math.nan
    return k, float(count.sum())


def _distances(view: View, center: Floats | float) -> tuple[Floats, Floats]:
    """Distance of each reward from a center, and how many units it is of; without those of the usual reward."""
    distance = same_but_rounding(np.abs(view.reward - center))
    _, place = levels(view.reward)
    times = np.bincount(place, weights=view.count)
    if times.max() > USUAL * times.sum():
        other = place != int(times.argmax())
        return distance[other], view.count[other]
    return distance, view.count
