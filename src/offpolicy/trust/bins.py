"""Actions that are numbers as a few intervals of them, for checks that were written for labels.

If actions were drawn with their densities p, then for an interval B of length |B|

    E[ 1{A ∈ B} / (p |B|) h(S) ] = E h(S)     for every function h of the context,

as for a label whose propensity is p |B|: the same sums, the same tests. The intervals share the middle half of the
range of the log, since at its ends densities are small and their inverses have no variance to speak of.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.logs.kinds import space_of

if TYPE_CHECKING:
    from offpolicy.logs.bandit import BanditLog

BINS = 4


def binned(log: BanditLog) -> BanditLog:
    """The log, or a block of it, with intervals of numbers for actions; rows elsewhere count for none."""
    assert log.action_range is not None
    assert log.propensity is not None
    low, high = log.action_range
    first, width = low + (high - low) / 4, (high - low) / (2 * BINS)
    place = np.floor((log.action - first) / width)
    inside = (place >= 0) & (place < BINS)
    edges = [first + width * j for j in range(BINS + 1)]
    return replace(
        log,
        action=np.where(inside, place, 0).astype(np.int64),
        space=space_of(tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges))),
        # An infinite propensity has the inverse 0: the row is of no interval.
        propensity=np.where(inside, log.propensity * width, np.inf),
        action_features=None,
    )
