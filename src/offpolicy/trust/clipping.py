"""Sensitivity to large weights: the estimate with its weights cut off at ever lower values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import quantiles
from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.trust.finding import Finding, judged, not_applicable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy.inference.estimate import Estimate
    from offpolicy.trust.view import View

QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
REFERENCE = 0.99
BIAS = "its standard error leaves out the bias of cutting weights"


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
    made = _clipped(view, cap, is_reference=is_reference)
    if made.clipped == 0 or math.isinf(cap):
        return made
    estimate = replace(made.estimate, bias=BIAS, reference=whole)
    return replace(made, estimate=estimate)


def _clipped(view: View, cap: float, *, is_reference: bool) -> ClippedEstimate:
    d = view.decisions
    # Products of the same ratios in another order differ by rounding; a cap is often one of them.
    over = d.rho > cap * (1 + 1e-9)
    share = float(view.row_mass @ over / view.row_mass.sum())
    if view.value_split is not None:
        factor = np.divide(cap, d.rho, out=np.ones_like(d.rho), where=over)
        psi = scores.with_weights(d, factor)
        return ClippedEstimate(cap, view.estimate(psi), share, is_reference)
    w = np.minimum(view.weight, cap)
    mean = view.units.mean(w)
    level = view.units.mean(w * view.reward) / mean
    psi = level + w * (view.reward - level) / mean
    return ClippedEstimate(cap, view.estimate(psi), share, is_reference)


def why_not(view: View) -> str:
    """Why there are no weights to cut; empty where there are."""
    highest = float(view.decisions.log_rho.max(initial=-np.inf))
    if not view.weight.any() or highest > LARGEST_LOG_WEIGHT:
        return "there are no weights to clip."
    if not view.units.mean(view.weight) > 0:  # products over a long horizon may underflow
        return "the weights are too small for floating-point numbers."
    return ""


def clipping_curve(view: View) -> Iterator[ClippedEstimate]:
    """The estimate with weights cut at quantiles of the positive ones, from the median to the largest.

    One after the other, since each holds the scores of all units; equal caps come once.
    """
    if why_not(view):
        return
    whole = _clipped(view, math.inf, is_reference=False).estimate
    matched = view.weight > 0
    caps = quantiles(view.weight[matched], QUANTILES, view.mass[matched]).tolist()
    for cap in dict.fromkeys(caps):
        is_reference = cap == caps[QUANTILES.index(REFERENCE)]
        yield clipped(view, cap, is_reference=is_reference, whole=whole)


def finding(view: View) -> Finding:
    """How far the estimate moves when the largest weights are cut (a curve in the details)."""
    name = "clipping_sensitivity"
    why = why_not(view)
    if why:
        return not_applicable(name, why)
    whole = clipped(view, math.inf).estimate
    curve, moved = [], 0.0
    for c in clipping_curve(view):
        value, error = c.estimate.value, c.estimate.std_error
        moved = abs(value - whole.value) if c.is_reference else moved
        curve.append({"cap": c.cap, "value": value, "std_error": error, "clipped": c.clipped})
    value = moved / whole.std_error if whole.std_error > 0 else 0.0
    return judged(
        name,
        value,
        f"cutting the largest 1% of the positive weights moves the estimate by {value:.2g} of its standard errors.",
        {"curve": curve, "unclipped": whole.value},
    )
