"""Slates: does a reward depend on slots that the assumed interaction leaves out?

If the reward of slot k depends on the slots S_k alone, weights of more slots add noise to its estimate, no more:

    E Σ_k (ρ'_k − ρ_k) (R_k − q_k) = 0,     ρ'_k the product over the slots of a wider interaction,

whatever q_k is, as long as it looks at S_k only. A mean that is not 0 is the bias of the assumed interaction for this
policy, up to noise. A cascade is held against all slots, fewer slots against a cascade and against all, and the sum of
the pseudo-inverse against the product over the slate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.intervals.tails import effective_size
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import mean_z
from offpolicy.trust.significance import adjusted_z
from offpolicy.trust.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.view import View

NAME = "interaction_bias"
FEWEST = 100.0  # effective slates below which products over slots are no witness


def finding(view: View) -> Finding:
    """The distance between the assumed interaction and wider ones, in standard errors."""
    d, assumed = view.decisions, view.log.interaction
    if bool(assumed.mask.all()):
        return not_applicable(NAME, "rewards may depend on all slots: there is nothing wider.")
    distances = {}
    for name, logs in wider(d).items():
        size = _size(view, logs)
        if size >= FEWEST:
            apart = view.units.sample(difference(view, logs))
            distances[name] = (mean_z(apart, 0.0), apart.estimate)
    if not distances:
        return not_applicable(NAME, "too few slates follow the target over all slots to tell.")
    name = max(distances, key=lambda n: abs(distances[n][0]))
    z, gap = adjusted_z(distances[name][0], len(distances)), distances[name][1]
    sentence = f"weights of {WIDER[name]} move the estimate by {gap:+.3g}, {z:.2g} standard errors of that: " + (
        "more than chance." if THRESHOLDS[NAME].level(z) != "ok" else "no more than chance."
    )
    details = {n: {"z": z, "difference": gap} for n, (z, gap) in distances.items()}
    return judged(NAME, z, sentence, details)


WIDER = {"cascade": "all slots up to a reward", "full": "all slots of a slate"}


def wider(d: Decisions) -> dict[str, Floats]:
    """(S,) log weights of each slot under wider interactions."""
    chain = replace(d, layout=replace(d.layout, link=None)).log_rho
    whole = np.asarray(d.log_product[d.layout.unit])
    link = d.layout.link
    if link is None or link.additive:
        return {"full": whole}
    # What a cascade leaves out of a mask that looks down would be the mask's, not the cascade's.
    down = bool(np.triu(link.table, 1).any())
    return {"full": whole} if down else {"cascade": chain, "full": whole}


def difference(view: View, logs: Floats) -> Floats:
    """(N,) Σ_k (ρ'_k − ρ_k) (R_k − q_k); without a model, of rewards less their mean at a slot."""
    d = view.decisions
    if d.layout.link is not None and d.layout.link.additive:
        own = 1.0 + d.sum(d.ratio - 1.0)
        centered = d.returns - view.units.mean(d.returns)
        return np.asarray((np.exp(d.log_product) - own) * centered)
    residual = d.reward - _slot_means(d) if view.value_split is None else d.outcome - d.q
    return d.sum((np.exp(logs) - d.rho) * residual)


def _slot_means(d: Decisions) -> Floats:
    mass = d.mass[d.layout.unit]
    total, size = (np.bincount(d.layout.step, weights=w, minlength=d.layout.horizon) for w in (mass * d.reward, mass))
    return np.asarray((total / size)[d.layout.step])


def _size(view: View, logs: Floats) -> float:
    """Effective number of slates, by their weights at the last slot."""
    last = np.asarray(view.decisions.layout.last(logs))
    highest = float(last.max(initial=-np.inf))
    if not -np.inf < highest <= LARGEST_LOG_WEIGHT:
        return 0.0
    sample = view.units.sample(np.exp(last))
    return float(effective_size(sample.numerator, sample.count))
