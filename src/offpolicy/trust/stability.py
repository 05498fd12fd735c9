"""Would the number be another one tomorrow, with another estimator, or without its largest rewards?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.inference.intervals.tails import tail_index
from offpolicy.scores.catalog import headline
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.significance import ROUNDING, SMALLEST_BATCH, same_but_rounding, z_score
from offpolicy.trust.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.view import View


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
    batches = [
        {"batch": labels[b], "value": float(mean[b]), "std_error": float(error[b])}
        for b in np.flatnonzero(used)
    ]
    verb = "does not differ" if p >= 0.01 else "differs"
    return judged(
        name,
        p,
        f"the estimate {verb} between {int(used.sum())} batches beyond noise (p = {p:.2g}).",
        {"batches": batches, "Q": q},
    )


def _by_batch(view: View, batch: Ints) -> tuple[Floats, Floats, Bools]:
    m, psi, units = view.mass, view.score, view.units
    total = np.bincount(batch, weights=m)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(batch, weights=m * psi) / total
    centered = m * (psi - mean[batch])
    if units.cluster is None:
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


def disagreement(estimates: Mapping[str, Estimate], estimators: Sequence[Estimator]) -> Finding:
    """Largest paired z-score between estimators that should agree.

    Those that trade bias for variance on purpose are listed apart: that they differ says nothing about the
    log.
    """
    name = "estimator_disagreement"
    usable = [
        e
        for e in estimators
        if e.name in estimates and estimates[e.name].is_defined and estimates[e.name].std_error > 0
    ]
    unbiased = [e for e in usable if not e.biased]
    if len(unbiased) < 2:
        return not_applicable(name, "fewer than two weighted estimators to compare.")
    first = headline(unbiased).name
    z = {e.name: _paired_z(estimates[first], estimates[e.name]) for e in usable if e.name != first}
    worst = max((e.name for e in unbiased if e.name != first), key=lambda n: abs(z[n]))
    value = abs(z[worst])
    direct = [f"{e.name} z = {z[e.name]:.2g}" for e in usable if e.is_direct]
    sentence = f"{first} and {worst} differ by {value:.2g} standard errors of their difference"
    sentence += f" (direct method: {', '.join(direct)})." if direct else "."
    return judged(name, value, sentence, {"reference": first, "z": z})


def _paired_z(one: Estimate, other: Estimate) -> float:
    """z-score of a difference; estimators may coincide, and rounding is not a disagreement."""
    gap = one - other
    tiny = 1e-9 * (abs(one.value) + abs(other.value))
    return 0.0 if abs(gap.value) <= tiny else z_score(gap.value, gap.std_error, 0.0)


def reward_tail(view: View) -> Finding:
    """Whether scores of unbounded rewards have a variance at all: the Pareto index of their tail."""
    name = "reward_tail"
    reward = view.reward
    if bool(((reward == 0) | (reward == 1)).all()):
        return not_applicable(name, "rewards are 0 or 1, which have no tail.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap, and so there are no scores.")
    sample = view.units.sample(view.score)
    distance = same_but_rounding(np.abs(sample.residual))
    k = tail_index(distance, sample.count)
    if math.isnan(k) or k == -math.inf:
        return not_applicable(name, "too few different scores to judge their tail.")
    sentence = f"the tail of the scores has a Pareto index of {k:.2f}"
    sentence += " (their variance needs k < 0.5)." if THRESHOLDS[name].level(k) != "ok" else "."
    return judged(name, k, sentence)
