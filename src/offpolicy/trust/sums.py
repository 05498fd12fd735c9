"""What the checks of a log need besides its columns, as sums that add up over its blocks.

A streamed log offers whole columns (action, reward, propensity, batch, cluster, weight), but neither contexts
nor n × K arrays: what rests on these is summed here, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.trust.draws import draws_of
from offpolicy.trust.hashes import Digest, HashCounts, row_hashes, table_hashes, unit_hashes
from offpolicy.trust.propensities import DistributionSums, distribution_sums

if TYPE_CHECKING:
    from offpolicy.trust.draws import Draws


IDENTIFYING = 1 / 3  # share of distinct contexts from which an equal row is suspicious


@dataclass(frozen=True, eq=False)
class LogSums:
    """Sums over the rows of a log, or of a block of it; two blocks add up with ``+``.

    Attributes
    ----------
    units : HashCounts
        How often each unit (a row, or a whole episode) comes.
    contexts : HashCounts
        How often each context comes.
    digest : Digest
        Of all units.
    distribution : DistributionSums or None
        Of the whole logged distribution, where there is one.
    """

    units: HashCounts
    contexts: HashCounts
    digest: Digest
    distribution: DistributionSums | None

    def __add__(self, other: LogSums) -> LogSums:
        """The sums over both blocks."""
        both = None
        if self.distribution is not None and other.distribution is not None:
            both = self.distribution + other.distribution
        return LogSums(
            self.units + other.units,
            self.contexts + other.contexts,
            self.digest + other.digest,
            both,
        )


def log_sums(block: Any, draws: Draws | None = None) -> LogSums:
    """Sums over a log, or a block of it.

    Parameters
    ----------
    block : BanditLog or Trajectories
        A block of a larger log has the cluster codes of the whole.
    draws : Draws, optional
        The draws of the block's decisions. Where clusters may reach over several blocks they come from the
        columns of the whole log (`draws_of`); default: from the block itself.
    """
    draws = draws_of(block) if draws is None else draws
    units = unit_hashes(block, row_hashes(block))
    count = np.ones(len(units)) if block.count is None else block.count
    contexts = _context_counts(block)
    # A compressed log is whole. Where its contexts repeat by nature, nobody asks for repeated units.
    unasked = block.count is not None and contexts.distinct < IDENTIFYING * float(count.sum())
    return LogSums(
        HashCounts.of(units[:0], count[:0]) if unasked else HashCounts.of(units, count),
        contexts,
        Digest.of(units, count),
        distribution_sums(block, draws.mass, draws.square),
    )


def _context_counts(block: Any) -> HashCounts:
    """How often each context comes, from the table of distinct ones where there is one."""
    hashes, index = table_hashes(block), block.context.index
    if index is None:
        return HashCounts.of(hashes, np.ones(len(hashes)) if block.count is None else block.count)
    times = np.bincount(index, weights=block.count, minlength=len(hashes)).astype(np.float64)
    return HashCounts.of(hashes[times > 0], times[times > 0])
