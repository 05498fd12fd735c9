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

from offpolicy.trust.hashes import mixed
from offpolicy.trust.moments import normal_from_student

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.trust.hashes import Hashes

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
