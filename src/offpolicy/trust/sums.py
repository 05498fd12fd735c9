"""What the checks of a log need besides its columns, as sums that add up over its blocks.

A streamed log offers whole columns (action, reward, propensity, batch, cluster, weight), but neither contexts
nor n × K arrays: what rests on these is summed here, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.trust.balance import BalanceSums, balance_sums
from offpolicy.trust.duplicates import Twins, thinning
from offpolicy.trust.hashes import (
    Digest,
    HashCounts,
    beside_context,
    column_hashes,
    joined,
    labels_of,
    lesson_hashes,
    mixed,
    row_hashes,
    table_columns,
    text_hash,
    unit_hashes,
)
from offpolicy.trust.leaks import LeakSums, joined_levels, leak_sums, text_levels
from offpolicy.trust.mismatch import DistributionSums, distribution_sums
from offpolicy.trust.view import counts_and_weights, draws_of, several

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats
    from offpolicy.trust.hashes import Hashes
    from offpolicy.trust.leaks import Levels
    from offpolicy.trust.view import Draws


COLUMNS = 20  # context columns that are left out one by one in the search for copies


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
    lesson : Digest
        Of what a learner could see of the decisions: contexts, actions and rewards.
    distribution : DistributionSums or None
        Of the whole logged distribution, where there is one.
    balance : BalanceSums or None
        Of context columns by action, where propensities were logged.
    leaks : LeakSums
        Of context columns and rewards.
    twins : tuple of (name, Twins)
        Rows by all that is known of them but the action and the reward (no name), and the same without one context
        column (its name).
    levels : {column: HashCounts}
        Different values of text columns of the context.
    """

    units: HashCounts
    contexts: HashCounts
    digest: Digest
    lesson: Digest
    distribution: DistributionSums | None
    balance: BalanceSums | None
    leaks: LeakSums
    twins: tuple[tuple[str | None, Twins], ...]
    levels: Levels

    def __add__(self, other: LogSums) -> LogSums:
        """The sums over both blocks."""
        both = None
        if self.distribution is not None and other.distribution is not None:
            both = self.distribution + other.distribution
        return LogSums(
            self.units + other.units,
            self.contexts + other.contexts,
            self.digest + other.digest,
            self.lesson + other.lesson,
            both,
            self.balance + other.balance if self.balance and other.balance else None,
            self.leaks + other.leaks,
            tuple((name, a + b) for (name, a), (_, b) in zip(self.twins, other.twins, strict=True)),
            joined_levels(self.levels, other.levels),
        )


def log_sums(block: Any, draws: Draws | None = None, *, rows: float | None = None) -> LogSums:
    """Sums over a log, or a block of it.

    Parameters
    ----------
    block : BanditLog or Trajectories
        A block of a larger log has the cluster codes of the whole.
    draws : Draws, optional
        The draws of the block's decisions. Where clusters may reach over several blocks they come from the
        columns of the whole log (`draws_of`); default: from the block itself.
    rows : float, optional
        Decisions of the whole log, by which samples of it are thinned; default: those of the block.
    """
    draws = draws_of(block) if draws is None else draws
    columns = table_columns(block)
    table = joined([hashes for _, _, hashes in columns], block.context.n_table)
    index = block.context.index
    rows_of = table if index is None else table[index]
    units = unit_hashes(block, row_hashes(block, rows_of))
    count = block.count
    decisions, _ = counts_and_weights(block)
    bits = thinning(float(decisions.sum()) if rows is None else rows)
    return LogSums(
        HashCounts.of(units, count, bits),
        _context_counts(table, index, decisions, bits),
        Digest.of(units, count),
        Digest.of(lesson_hashes(block, rows_of), decisions),
        distribution_sums(block, draws.mass, draws.square),
        balance_sums(block, columns, rows),
        leak_sums(block, columns, bits),
        tuple(_twins(block, columns, decisions, bits)),
        text_levels(columns, bits),
    )


def _context_counts(table: Hashes, index: Any, count: Floats, bits: int) -> HashCounts:
    """How often each context comes, from the table of distinct ones where there is one."""
    if index is None:
        return HashCounts.of(table, count, bits)
    times = np.bincount(index, weights=count, minlength=len(table)).astype(np.float64)
    return HashCounts.of(table[times > 0], times[times > 0], bits)


def _twins(
    block: Any, columns: list[tuple[str, Any, Hashes]], count: Floats, bits: int
) -> Iterator[tuple[str | None, Twins]]:
    """Rows that are alike but for the action, with all context columns and without each."""
    if several(block) or block.has_clusters or not block.space.finite:
        return
    index = block.context.index
    parts = [mixed(h ^ np.uint64(text_hash(name))) for name, _, h in columns]
    whole = np.zeros(block.context.n_table, dtype=np.uint64)
    for part in parts:
        whole = whole + part
    beside = np.zeros(len(block.action), dtype=np.uint64)
    for values in beside_context(block):
        beside = mixed(beside ^ values)
    inner = labels_of(block)
    chance = np.zeros(len(block.action))
    if block.propensity is None:
        inner = mixed(inner ^ column_hashes(block.reward))
    else:
        chance = count * block.propensity
    without = zip(columns, parts, strict=True) if 2 <= len(columns) <= COLUMNS else ()
    for name, rest in [(None, whole), *((c[0], whole - part) for c, part in without)]:
        at = rest if index is None else rest[index]
        yield name, Twins.of(at + beside, inner, count, chance, bits)
