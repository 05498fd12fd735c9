"""Would the number be another one tomorrow, with another estimator, or without its largest weights?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.inference.intervals.tails import tail_index
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.thresholds import THRESHOLDS
from offpolicy.trust.weights import z_score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Floats, Ints
    from offpolicy.inference.estimate import Estimate
    from offpolicy.trust.view import View

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
REFERENCE = 0.99
SMALLEST_BATCH = 20
BIASED = {"DM", "SWITCH", "DRos", "MAGIC"}


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
    if batch is None:
        return not_applicable(name, "the log has no batches.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap to compare batches on.")
    mean, error, used = _by_batch(view, batch)
    if int(used.sum()) < 2:
        return not_applicable(name, "fewer than two batches have enough rows to compare.")
    q, p = heterogeneity(mean[used], error[used])
    labels = view.log.batch_labels
    rows = [
        {"batch": labels[b], "value": float(mean[b]), "std_error": float(error[b])}
        for b in np.flatnonzero(used)
    ]
    verb = "does not differ" if p >= 0.01 else "differs"
    return judged(
        name,
        p,
        f"the estimate {verb} between {int(used.sum())} batches beyond noise (p = {p:.2g}).",
        {"batches": rows, "Q": q},
    )


def _by_batch(view: View, batch: Ints) -> tuple[Floats, Floats, Floats]:
    m, psi, units = view.mass, view.score, view.units
    total = np.bincount(batch, weights=m)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(batch, weights=m * psi) / total
    centered = m * (psi - mean[batch])
    if units.cluster is None:
        count = np.ones(len(m)) if units.count is None else units.count
        square = np.bincount(batch, weights=centered**2 / count)
    else:
        group = np.unique(units.cluster * (int(batch.max()) + 1) + batch, return_inverse=True)[1]
        sums = np.bincount(group, weights=centered)
        home = np.zeros(len(sums), dtype=np.int64)
        home[group] = batch
        square = np.bincount(home, weights=sums**2, minlength=len(total))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(square) / total
    used = (np.bincount(batch) >= SMALLEST_BATCH) & (error > 0)
    return mean, error, np.asarray(used)


def disagreement(estimates: Mapping[str, Estimate]) -> Finding:
    """Largest paired z-score between estimators that should agree.

    The direct method and those that trade bias for variance on purpose (SWITCH, DRos, MAGIC) are shown
    apart: that they differ says nothing about the log.
    """
    name = "estimator_disagreement"
    usable = {n: e for n, e in estimates.items() if e.is_defined and e.std_error > 0}
    weighted = {n: e for n, e in usable.items() if n.split("-")[0] not in BIASED}
    if len(weighted) < 2:
        return not_applicable(name, "fewer than two weighted estimators to compare.")
    first = "DML" if "DML" in weighted else next(iter(weighted))
    z: dict[str, float] = {}
    for other, e in usable.items():
        if other == first:
            continue
        gap = weighted[first] - e
        # Estimators may coincide: rounding is not a disagreement.
        tiny = 1e-9 * (abs(e.value) + abs(weighted[first].value))
        z[other] = 0.0 if abs(gap.value) <= tiny else z_score(gap.value, gap.std_error, 0.0)
    worst = max((n for n in z if n in weighted), key=lambda n: abs(z[n]))
    value = abs(z[worst])
    direct = [f"{n} z = {z[n]:.2g}" for n in z if n in usable and n.split("-")[0] == "DM"]
    sentence = f"{first} and {worst} differ by {value:.2g} standard errors of their difference"
    sentence += f" (direct method: {', '.join(direct)})." if direct else "."
    return judged(name, value, sentence, {"reference": first, "z": z})


def reward_tail(view: View) -> Finding:
    """Whether scores of unbounded rewards have a variance at all: the Pareto index of their tail."""
    name = "reward_tail"
    reward = view.reward
    if bool(((reward == 0) | (reward == 1)).all()):
        return not_applicable(name, "rewards are 0 or 1, which have no tail.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap, and so there are no scores.")
    sample = view.units.sample(view.score)
    distance = np.abs(sample.residual)
    k = tail_index(distance, sample.count)
    if math.isnan(k) or k == -math.inf:
        return not_applicable(name, "too few different scores to judge their tail.")
    sentence = f"the tail of the scores has a Pareto index of {k:.2f}"
    sentence += " (their variance needs k < 0.5)." if THRESHOLDS[name].level(k) != "ok" else "."
    return judged(name, k, sentence)


def clipped(view: View, cap: float) -> Floats:
    """Scores with weights cut at ``cap``: doubly robust with q, self-normalized without."""
    d = view.decisions
    w = np.minimum(view.weight, cap)
    if view.value_split is not None and d.layout.is_single:
        return w * (d.reward - d.q) + d.v
    mean = view.units.mean(w)
    level = view.units.mean(w * view.reward) / mean
    return level + w * (view.reward - level) / mean


def quantile(values: Floats, mass: Floats, shares: tuple[float, ...]) -> Floats:
    """Smallest values below which at least these shares of the mass lie.

    >>> quantile(np.array([3.0, 1.0]), np.array([1.0, 9.0]), (0.5, 0.95)).tolist()
    [1.0, 3.0]
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order]) / mass.sum()
    place = np.searchsorted(reached, np.asarray(shares) - 1e-12)
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def clipping(view: View) -> Finding:
    """How far the estimate moves when the largest weights are cut (a curve in the details)."""
    name = "clipping_sensitivity"
    matched = view.weight > 0
    if view.scale != 1 or not matched.any():
        return not_applicable(name, "there are no weights to clip.")
    positive, mass = view.weight[matched], view.mass[matched]
    if not view.units.mean(view.weight) > 0:  # products over a long horizon may underflow
        return not_applicable(name, "the weights are too small for floating-point numbers.")
    whole = view.estimate(clipped(view, math.inf))
    caps = np.unique(quantile(positive, mass, QUANTILES))
    curve = []
    for cap in caps:
        e = view.estimate(clipped(view, float(cap)))
        changed = float(view.mass @ (view.weight > cap) / view.mass.sum())
        curve.append(
            {"cap": float(cap), "value": e.value, "std_error": e.std_error, "clipped": changed}
        )
    cap = float(quantile(positive, mass, (REFERENCE,))[0])
    moved = view.estimate(clipped(view, cap)).value - whole.value
    value = abs(moved) / whole.std_error if whole.std_error > 0 else 0.0
    return judged(
        name,
        value,
        f"cutting the largest 1% of the positive weights moves the estimate by {value:.2g} of its standard "
        "errors.",
        {"curve": curve, "unclipped": whole.value},
    )
