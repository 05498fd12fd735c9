"""Slates: does a reward depend on slots that the assumed interaction leaves out?

If the reward of slot k depends on the slots S_k alone, weights of more slots add noise to its estimate, no more:

    E Σ_k (ρ'_k − ρ_k) (R_k − q_k) = 0,     ρ'_k the product over the slots of a wider interaction,

whatever q_k is, as long as it looks at S_k only. A mean that is not 0 is the bias of the assumed interaction for this
policy, up to noise. A cascade is held against all slots, fewer slots against a cascade and against all, and the sum of
the pseudo-inverse against the product over the slate.

``interaction="auto"``: what rewards depend on, looked up in slates that no estimate uses, and confirmed in the rest.

A quarter of the slates chooses, by the test of `trust.slots`: where rewards depend on items below them, all
slots count ("full"); else where they depend on items above, "cascade"; else "independent". The test is lenient (one in
five is believed that is none), since a slot too many costs precision and a slot too few costs the truth. For the same
reason the slates that are left may widen what was chosen, and never narrow it: a quarter of a small log sees little.

Items that are drawn without replacement have probabilities given those above, and so have policies that rank them. A
cascade is then the narrowest that is chosen: "independent" needs the probability of an item at its position, whatever
else is shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.splits.hashing import drawn
from offpolicy.trust.check import WIDER, Check, Threshold
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import adjusted_z, mean_z
from offpolicy.trust.slots import SLOTS, dependence
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.slates import Slates
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.view import View

NAME = "interaction_bias"
FEWEST = 100.0  # effective slates below which products over slots are no witness
WIDE = {"cascade": "all slots up to a reward", "full": "all slots of a slate"}
NARROW_FIRST = ("independent", "cascade", "full")
SHARE = 0.25
BELIEVED = 0.2
WIDENS = 0.1  # level at which the slates that are left object
FEWEST_SLATES = 40


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
    sentence = f"weights of {WIDE[name]} move the estimate by {gap:+.3g}, {z:.2g} standard errors of that: " + (
        "more than chance." if not fine(NAME, z) else "no more than chance."
    )
    details = {n: {"z": z, "difference": gap} for n, (z, gap) in distances.items()}
    return judged(NAME, z, sentence, details)


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
    residual = d.reward - _slot_means(d) if not view.has_model else d.outcome - d.q
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


def settled(log: Slates, folds: Any, seed: int) -> Slates:
    """The slates that are left to evaluate, under the interaction that the others show."""
    if isinstance(folds, np.ndarray | list | tuple):
        raise UsageError(
            "interaction='auto' leaves out the slates by which it chooses: give folds= as a number, or name the "
            "interaction."
        )
    if log.propensity is None:
        raise UsageError(
            "interaction='auto' needs logged propensities to tell what rewards depend on. Name the interaction."
        )
    apart = np.asarray(drawn(log.units, SHARE, seed))
    if min(int(apart.sum()), int((~apart).sum())) < FEWEST_SLATES:
        raise UsageError(
            f"interaction='auto' chooses on a quarter of the slates, of which there are {log.n:,} in all: too few. "
            "Name the interaction."
        )
    rest = log.take(~apart)
    first = choice(log.take(apart), BELIEVED)
    name = max(first, choice(rest, WIDENS), key=NARROW_FIRST.index)
    note = f"interaction '{first}' was chosen on {int(apart.sum()):,} slates, which no estimate uses"
    if name != first:
        note += f", and widened to '{name}', on which rewards of the others depend"
    kept = rest.assuming(name)
    return replace(kept, notes=(*kept.notes, note))


def choice(log: Slates, level: float) -> str:
    """The narrowest interaction that a log does not speak against, by tests of a level; of distinct items a cascade."""
    slots = log.layout.horizon
    above = np.tril(np.ones((slots, slots), dtype=bool))
    if depends(log, above, level):
        return "full"
    if log.distinct:
        return "cascade"
    return "cascade" if depends(log, above.T, level) else "independent"


def depends(log: Slates, mask: Bools, level: float) -> bool:
    """Whether rewards seem to depend on slots that a mask leaves out."""
    found = dependence(log, mask)
    return found is not None and found.p < level


CHECKS = (
    Check(
        NAME, Threshold(3.3, 5.0, "above", WIDER, decides=True, false_alarms=0.01),
        policy=finding, where=lambda view: view.log.unit_kind.shows_items and several(view.log),
        topic=SLOTS, value="standard errors between weights of the assumed interaction and of a wider one",
    ),
)  # fmt: skip
