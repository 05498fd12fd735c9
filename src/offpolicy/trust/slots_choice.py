"""``interaction="auto"``: what rewards depend on, looked up in slates that no estimate uses.

A quarter of the slates chooses, by the test of `offpolicy.trust.slots`: where rewards depend on items below them, all
slots count ("full"); else where they depend on items above, "cascade"; else "independent". The test is lenient (one in
five is believed that is none), since a slot too many costs precision and a slot too few costs the truth.
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
    name = choice(log.take(apart))
    note = f"interaction '{name}' was chosen on {int(apart.sum()):,} slates, which no estimate uses"
    kept = log.take(~apart).assuming(name)
    return replace(kept, notes=(*kept.notes, note))


def choice(log: Slates) -> str:
    """The narrowest interaction that a log does not speak against."""
    slots = log.layout.horizon
    above = np.tril(np.ones((slots, slots), dtype=bool))
    if depends(log, above):
        return "full"
    return "cascade" if depends(log, above.T) else "independent"


def depends(log: Slates, mask: Bools) -> bool:
    """Whether rewards seem to depend on slots that a mask leaves out."""
    found = dependence(log, mask)
    return found is not None and found.p < BELIEVED
