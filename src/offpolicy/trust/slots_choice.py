"""``interaction="auto"``: what rewards depend on, looked up in slates that no estimate uses, and confirmed in the rest.

A quarter of the slates chooses, by the test of `offpolicy.trust.slots`: where rewards depend on items below them, all
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
from offpolicy.splits.hashing import drawn
from offpolicy.trust.slots import dependence

if TYPE_CHECKING:
    from offpolicy._arrays import Bools
    from offpolicy.logs.slates import Slates

SHARE = 0.25
BELIEVED = 0.2
WIDENS = 0.1  # level at which the slates that are left object
FEWEST = 40


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
    if min(int(apart.sum()), int((~apart).sum())) < FEWEST:
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


NARROW_FIRST = ("independent", "cascade", "full")


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
