"""Would the number be another one tomorrow, with another estimator, or with its largest weights cut off?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy._arrays import quantiles
from offpolicy.scores import formulas as scores
from offpolicy.scores.blend import products_supported
from offpolicy.scores.catalog import AUTO_EPISODES, headline
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.trust import remainder
from offpolicy.trust.check import OVERLAP, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import ROUNDING, SMALLEST_BATCH, mean_z, normal_from_student, skew_of, symmetric, two_sided
from offpolicy.trust.view import batches, once, several

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

PARTS = 10
MOSTLY = 0.8
MATTERS = 1.0  # standard errors of the estimate that a disagreement must exceed to count against it
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
REFERENCE = 0.99
BIAS = "its standard error ignores the bias from capping weights"


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
    verb = "does not differ" if fine(name, p) else "differs"
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
        square = np.bincount(batch, weights=centered**2 / view.units.count)
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
    used = (np.bincount(batch, weights=view.units.count) >= SMALLEST_BATCH) & varies
    return mean, error, np.asarray(used)


def comparable(view: View, estimators: Sequence[Estimator], products: float = 0.0) -> list[Estimator]:
    """Estimators whose distance from one another means something.

    Products of ratios count where they are supported. Against an estimate that rests on them, or on ratios some steps
    back (by the share ``products``), ratios of marginals are no witness: they need a Markov state and a model. Where
    products are supported and ratios were counted, that is said of logged propensities alone.
    """
    if not several(view.log):
        # A fitted π_b is never exact: only scores that a reward model mends have to agree, where that is checked.
        robust = remainder.fitted(view) and not remainder.why_not(view)
        return [e for e in estimators if e.is_robust or e.is_direct or not robust]
    resting = products > MOSTLY
    if not products_supported(view.decisions):
        # An estimate that rests on products all the same does so because they contradict ratios of marginals.
        return [e for e in estimators if not e.uses_products and (e is AUTO_EPISODES or not resting)]
    if resting and (view.behavior_is_known or not view.log.is_discrete):
        return [e for e in estimators if "marginal" not in e.needs or e is AUTO_EPISODES]
    return list(estimators)


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
    # Those in sample have a value model that was fitted to the rows that they score.
    agreeing = [e for e in usable if not e.biased and not (e.split == "full" and "value" in e.needs)]
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
        f"{apart:.2g} standard errors of the estimate"
    )
    sentence += f" (direct method: {', '.join(direct)})." if direct else "."
    at_most: Level = "alarm" if apart > MATTERS else "note"
    details = {"reference": first.name, "z": z, "apart": apart}
    return judged(name, p, sentence, details, at_most=at_most)


def _paired_z(one: Estimate, other: Estimate) -> float:
    """z-score of a difference; estimators may coincide, and rounding is not a disagreement."""
    gap = one - other
    # What smoothing explains is no disagreement either: each may smooth in its own way.
    room = max(gap.allowance, 1e-9 * (abs(one.value) + abs(other.value)))
    if abs(gap.value) <= room:
        return 0.0
    return mean_z(gap.sample(), math.copysign(gap.allowance, gap.value))


@dataclass(frozen=True, eq=False)
class ClippedEstimate:
    """The estimate with weights cut at a cap, and the share of decisions whose weight was cut.

    The reference is the cap whose effect is judged.
    """

    cap: float
    estimate: Estimate
    clipped: float
    is_reference: bool = False


def clipped(view: View, cap: float, *, is_reference: bool = False, whole: Estimate | None = None) -> ClippedEstimate:
    """The estimate with weights cut at ``cap``: doubly robust with q, self-normalized without.

    Its own standard error leaves out the bias of the cut: its interval is that of ``whole``, which cuts nothing,
    widened to hold it.
    """
    d = view.decisions
    # Products of the same ratios in another order differ by rounding; a cap is often one of them.
    over = d.rho > cap * (1 + 1e-9)
    share = float(view.row_mass @ over / view.row_mass.sum())
    if view.has_model:
        psi = scores.with_weights(d, np.divide(cap, d.rho, out=np.ones_like(d.rho), where=over))
    else:
        w = np.minimum(view.weight, cap)
        mean = view.units.mean(w)
        level = view.units.mean(w * d.returns) / mean
        psi = level + w * (d.returns - level) / mean
    estimate = view.estimate(psi)
    if share > 0 and math.isfinite(cap):
        estimate = replace(estimate, bias=BIAS, reference=whole)
    return ClippedEstimate(cap, estimate, share, is_reference)


@once
def uncut(view: View) -> Estimate:
    """The estimate with its weights as they are."""
    return clipped(view, math.inf).estimate


def why_not(view: View) -> str:
    """Why there are no weights to cut; empty where there are."""
    highest = float(view.decisions.log_rho.max(initial=-np.inf))
    if not view.weight.any() or highest > LARGEST_LOG_WEIGHT:
        return "there are no weights to clip."
    if not view.units.mean(view.weight) > 0:  # products over a long horizon may underflow
        return "the weights are too small for floating-point arithmetic."
    return ""


def clipping_curve(view: View) -> Iterator[ClippedEstimate]:
    """The estimate with weights cut at quantiles of the positive ones, from the median to the largest.

    One after the other, since each holds the scores of all units; equal caps come once.
    """
    if why_not(view):
        return
    matched = view.weight > 0
    caps = quantiles(view.weight[matched], QUANTILES, view.mass[matched]).tolist()
    for cap in dict.fromkeys(caps):
        is_reference = cap == caps[QUANTILES.index(REFERENCE)]
        yield clipped(view, cap, is_reference=is_reference, whole=uncut(view))


def clipping(view: View) -> Finding:
    """How far the estimate moves when the largest weights are cut (a curve in the details)."""
    whole = uncut(view)
    curve, moved = [], 0.0
    for c in clipping_curve(view):
        value, error = c.estimate.value, c.estimate.std_error
        moved = abs(value - whole.value) if c.is_reference else moved
        curve.append({"cap": c.cap, "value": value, "std_error": error, "clipped": c.clipped})
    value = moved / whole.std_error if whole.std_error > 0 else 0.0
    return judged(
        "clipping_sensitivity",
        value,
        f"capping the largest 1% of the positive weights moves the estimate by {value:.2g} standard errors.",
        {"curve": curve, "unclipped": whole.value},
    )


CHECKS = (
    Check(
        "batch_drift",
        Threshold(
            0.001, -math.inf, "below",
            "Report the value by period, or evaluate on recent batches only.",
            advice=True, false_alarms=0.001,
        ),
        policy=drift, applies=batches, topic=Topic("The value changes over time."),
        value="p-value: the estimate over time",
    ),
    Check(
        "estimator_disagreement",
        Threshold(
            0.001, 0.0001, "below",
            "Check the propensities first, then the reward model's out-of-fold "
            "skill.",
            decides=True, false_alarms=0.001,
        ),
        policy=lambda view: disagreement(view.estimates, comparable(view, view.estimators)),
        topic=Topic("Estimators that should agree do not.", "The estimators agree."),
        value="p-value: paired test between the headline estimator and others that should agree",
    ),
    Check(
        "clipping_sensitivity", Threshold(1.0, math.inf, "above", OVERLAP, about_products=True, advice=True),
        policy=clipping, applies=why_not,
        topic=Topic("The estimate changes when the largest weights are capped."),
        value="standard errors by which capping the top 1% of weights moves the estimate",
    ),
)  # fmt: skip
