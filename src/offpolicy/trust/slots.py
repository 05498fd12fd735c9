"""Slates: do rewards depend on the items of slots that the assumed interaction leaves out?

Which item slot j shows is drawn with known probabilities. If the reward of slot k does not depend on it,

    E (R_k − r̄_k) (1{A_j = a} / p_j − 1{a could be shown}) = 0     for every item a,

whatever the policy of interest. For every slot j and each of its frequent items the rewards that leave j out are added
up, and the largest of these z-scores, adjusted for how many there are, is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.units import Units
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import mean_z
from offpolicy.trust.significance import adjusted_z

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Bools, Floats, Ints

NAME = "left_out_slots"
MOST_ITEMS = 20
FEWEST = 20.0  # slates that show an item in a slot


def finding(log: Any) -> Finding:
    """The item of a slot that rewards elsewhere depend on most."""
    if log.layout.is_single:
        return not_applicable(NAME, "slates have one slot.")
    if log.propensity is None:
        return not_applicable(NAME, "propensities of the items were not logged.")
    if log.reward_of == "slate":
        return not_applicable(NAME, "slates have one reward, which no slot is left out of.")
    scores = list(z_scores(log, log.interaction.mask))
    if not scores:
        return not_applicable(NAME, "no slot that rewards leave out shows an item often enough.")
    slot, item, largest = max(scores, key=lambda each: abs(each[2]))
    z = adjusted_z(largest, len(scores))
    where = f"position {log.positions[slot]}"
    sentence = (
        f"rewards that should not depend on {where} do: they are {'higher' if largest > 0 else 'lower'} where it shows "
        f"{log.actions[item]!r} (z = {largest:.2g} of {len(scores)} looked at)."
        if z > 3
        else f"no sign that rewards depend on items of slots that were left out (largest z {z:.2g})."
    )
    return judged(
        NAME, z, sentence, {"position": log.positions[slot], "item": str(log.actions[item])}
    )


def z_scores(log: Any, mask: Bools) -> Iterator[tuple[int, int, float]]:
    """(slot j, item, z) of the rewards that leave slot j out by a mask, for its frequent items."""
    layout, units = log.layout, Units(log.n, weight=log.weight, cluster=log.cluster)
    reward, step = centered(log), layout.step
    for j, having, rows in layout.by_step():
        leaves = ~mask[: layout.horizon, j]
        if not leaves.any():
            continue
        others = layout.sum(np.where(leaves[step], reward, 0.0))
        for a in frequent(log.action[rows], len(log.actions)):
            ratio = np.zeros(log.n)
            able = 1.0 if log.eligible is None else log.eligible[rows, a]
            ratio[having] = (log.action[rows] == a) / log.propensity[rows] - able
            yield j, int(a), mean_z(units.sample(others * ratio), 0.0)


def centered(log: Any) -> Floats:
    """(S,) rewards of the slots less their mean at each slot, as logged."""
    step, mass = log.layout.step, np.ones(log.rows)
    if log.weight is not None:
        mass = log.weight[log.layout.unit]
    total, size = (
        np.bincount(step, weights=w, minlength=log.layout.horizon)
        for w in (mass * log.slot_reward, mass)
    )
    return np.asarray(log.slot_reward - (total / size)[step])


def frequent(codes: Ints, k: int) -> Ints:
    """The items that a slot shows most often, and often enough."""
    count = np.bincount(codes, minlength=k)
    top = np.argsort(-count, kind="stable")[:MOST_ITEMS]
    return np.asarray(top[count[top] >= FEWEST])
