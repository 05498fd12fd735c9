"""Rows that come twice: do rows that agree in their context agree in the action more often than chance has it?

Two independent rows with one context take the same action with probability Σ_a π_b(a|S)², which is the mean of
their logged propensities. So, over all pairs of rows with equal contexts,

    T = Σ (1{A_i = A_j} − (p_i + p_j)/2)

has mean 0, however coarse the columns are, and copies of rows add 1 − p each. Where the propensities of two rows
differ (a policy that learns) the mean of T is below 0. The same holds with one column left out, which finds copies
with a jittered column. Without propensities, pairs are compared in action and reward, and expected to agree half
way between chance and always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import levels
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.hashes import mixed
from offpolicy.trust.moments import adjusted_z, normal_from_student
from offpolicy.trust.view import counts_and_weights, several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.logs.log import Log
    from offpolicy.trust.hashes import Hashes
    from offpolicy.trust.sums import LogSums

COPIES = 4.0
ALIKE = "rows of a cluster may be equal; the standard error allows for it."
STEPS = " step by step"
COMMON = 0.01  # share from which on a reward is one that many rows have
IDENTIFYING = 1 / 3  # share of distinct contexts from which an equal episode is suspicious
KEPT = 1 << 16  # rows that are compared, about
SPREAD = np.uint64(0x9E3779B97F4A7C15)


def thinning(n: float) -> int:
    """Leading bits that must be 0 so that about 2¹⁶ of ``n`` rows are kept; all of up to 2¹⁷.

    >>> thinning(1000), thinning(2**20)
    (0, 4)
    """
    return math.ceil(math.log2(n / KEPT)) if n > 2 * KEPT else 0


@dataclass(frozen=True, eq=False)
class Twins:
    """Rows counted by what they agree in; those of two blocks add up with ``+``.

    Attributes
    ----------
    outer : (m,) array
        Hash of what two rows must agree in to be compared (the context).
    inner : (m,) array
        Hash of what they are compared in (the action).
    count, chance : (m,) arrays
        Rows, and the sum of their propensities.
    bits : int
        Leading bits of ``outer`` that must be 0.
    """

    outer: Hashes
    inner: Hashes
    count: Floats
    chance: Floats
    bits: int = 0

    @classmethod
    def of(cls, outer: Hashes, inner: Hashes, count: Floats, chance: Floats, bits: int = 0) -> Twins:
        """Count rows; ``outer`` need not be mixed well."""
        key = outer * SPREAD
        if bits:
            kept = np.flatnonzero(key < (np.uint64(1) << np.uint64(64 - bits)))
            key, inner, count, chance = key[kept], inner[kept], count[kept], chance[kept]
        return cls._counted(mixed(key), mixed(key ^ inner), count, chance, bits)

    @classmethod
    def _counted(cls, outer: Hashes, inner: Hashes, count: Floats, chance: Floats, bits: int) -> Twins:
        order = np.lexsort((inner, outer))
        outer, inner = outer[order], inner[order]
        new = np.ones(len(outer), dtype=bool)
        new[1:] = (outer[1:] != outer[:-1]) | (inner[1:] != inner[:-1])
        place = np.cumsum(new) - 1
        size = int(new.sum())
        return cls(
            outer[new],
            inner[new],
            np.bincount(place, count[order], size).astype(np.float64),
            np.bincount(place, chance[order], size).astype(np.float64),
            bits,
        )

    def __add__(self, other: Twins) -> Twins:
        """Counts over both blocks, which were thinned alike."""
        return Twins._counted(
            np.concatenate([self.outer, other.outer]),
            np.concatenate([self.inner, other.inner]),
            np.concatenate([self.count, other.count]),
            np.concatenate([self.chance, other.chance]),
            self.bits,
        )

    def pairs(self) -> tuple[float, float]:
        """Pairs of rows that agree in ``outer``, and those of them that agree in ``inner`` as well."""
        if len(self.outer) == 0:
            return 0.0, 0.0
        group = np.cumsum(np.r_[True, self.outer[1:] != self.outer[:-1]]) - 1
        rows = np.bincount(group, self.count)
        return (float((rows * (rows - 1) / 2).sum()), float((self.count * (self.count - 1) / 2).sum()))

    def excess(self, agreement: float | None = None) -> tuple[float, float]:
        """The z-score of T, and the share of rows that are copies of another one.

        Parameters
        ----------
        agreement : float, optional
            Chance that two rows agree, where propensities do not say.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> outer = np.repeat(rng.integers(2**63, size=300).astype(np.uint64), 2)
        >>> inner = np.repeat(rng.integers(2, size=300).astype(np.uint64), 2)
        >>> z, share = Twins.of(outer, inner, np.ones(600), np.full(600, 0.5)).excess()
        >>> z > 10, round(share, 2)
        (True, 0.5)
        """
        if len(self.outer) == 0:
            return 0.0, 0.0
        new = np.ones(len(self.outer), dtype=bool)
        new[1:] = self.outer[1:] != self.outer[:-1]
        group = np.cumsum(new) - 1
        rows = np.bincount(group, self.count)
        chance = np.bincount(group, self.chance) if agreement is None else agreement * rows
        agreed = np.bincount(group, self.count * (self.count - 1) / 2)
        several = rows > 1
        expected = ((rows - 1) / 2 * chance)[several]
        pairs = (rows * (rows - 1) / 2)[several]
        t = agreed[several] - expected
        room = float((pairs - expected).sum())
        if room <= 0:
            return 0.0, 0.0
        # Few pairs that all agree do not show how much pairs vary: by chance each would.
        null = float((expected * (1 - expected / pairs)).sum())
        spread = math.sqrt(max(float(t @ t), null))
        total = float(t.sum())
        z = total / spread if spread > 0 else 0.0
        copies = total / room * float(pairs.sum())
        return normal_from_student(z, max(2.0, len(t))), max(0.0, copies / float(rows.sum()))


def duplicates(log: Log, sums: LogSums) -> Finding:
    """Copies of rows: more agreement than chance has it (`Twins`); of episodes and numbers, plain repetitions."""
    if several(log):
        return _repeated(log, sums, "states repeat, so equal episodes are normal.", "episodes", STEPS)
    if not log.space.finite:
        return _repeated(log, sums, "contexts and actions repeat, so equal rows are normal.", "rows", "")
    if log.has_clusters:
        return not_applicable("duplicates", ALIKE)
    return _copies("duplicates", _excess(log, sums.twins[:1]))


def near_duplicates(log: Log, sums: LogSums) -> Finding:
    """Copies of rows with one column changed."""
    name = "near_duplicates"
    if not log.space.finite:
        return not_applicable(name, "this check is for actions that are labels.")
    return not_applicable(name, ALIKE) if log.has_clusters else _copies(name, _excess(log, sums.twins[1:]))


def _excess(log: Log, twins: tuple[tuple[str | None, Twins], ...]) -> list[tuple[str | None, float, float]]:
    """Column left out, z-score and share of copies."""
    agreement = None if log.propensity is not None else _agreement(log)
    return [(name, *each.excess(agreement)) for name, each in twins]


def _copies(name: str, found: list[tuple[str | None, float, float]]) -> Finding:
    """The finding about the column whose leaving out shows most copies."""
    if not found:
        return not_applicable(name, "there are no context columns to leave out one by one.")
    column, z, share = max(found, key=lambda each: each[1])
    sure = adjusted_z(z, len(found)) > COPIES if z > 0 else False
    but = "" if column is None else f" except in column {column!r}"
    sentence = (
        f"{100 * share:.3g}% of rows are copies of another row{but}: otherwise equal rows have the same action far "
        f"more often than their propensities allow (z = {z:.3g})."
        if sure
        else "equal rows have the same action no more often than expected by chance."
    )
    return judged(name, share if sure else 0.0, sentence, {"z": z, "column": column})


def _agreement(log: Log) -> float:
    """Chance that two rows of one context agree in action and reward: half way from chance to always."""
    count = log.count
    chance = 1.0
    for place in (log.action, levels(log.reward)[1]):
        share = np.bincount(place, weights=count) / count.sum()
        often = share[share >= COMMON]
        chance *= float(often @ (1 + often)) / 2
    return chance


def _repeated(log: Log, sums: LogSums, usual: str, what: str, how: str) -> Finding:
    """Share of rows or episodes that repeat an earlier one, where contexts or numbers tell them apart."""
    apart = max(sums.contexts.distinct, len(np.unique(log.action)) if not (several(log) or log.space.finite) else 0)
    if apart < IDENTIFYING * float(counts_and_weights(log)[0].sum()):
        return not_applicable("duplicates", usual)
    share = sums.units.repeated_share
    return judged("duplicates", share, f"{100 * share:.3g}% of {what} repeat an earlier one{how}.")


CHECKS = (
    Check(
        "duplicates",
        Threshold(
            0.001, 0.01, "above", "Remove repeated rows, or name the unit that repeats with cluster=.",
            false_alarms=0.0001,
        ),
        log=lambda s: duplicates(s.log, s.sums), topic=Topic("Some rows appear more than once."),
        value="share of rows that copy another row, beyond the coincidences that propensities explain",
    ),
    Check(
        "near_duplicates",
        Threshold(
            0.001, 0.01, "above",
            "Find out why rows agree in all columns but one, then remove the copies or name their unit with "
            "cluster=.",
            false_alarms=0.0001,
        ),
        log=lambda s: near_duplicates(s.log, s.sums), singly="this check is for single decisions.",
        topic=Topic("Some rows are near copies of others."),
        value="share of rows that copy another row except in one context column", part_of="duplicates",
    ),
)  # fmt: skip
