"""What the reward of a slot depends on: the words of ``interaction=`` as a mask, and the weights that follow.

S_k are the slots that the reward of slot k depends on, row k of the mask. Where every S_k is "all slots up to some
m_k ≥ k", the weight of a reward is the product of the ratios up to slot m_k: an episode whose reward of slot k is paid
at slot m_k. Any other mask needs weights of its own (`Link`), and policies whose slots are drawn independently of each
other given the context, or by looking at nothing but the slots that a mask closed under "depends on" names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.link import Link

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Ints

WORDS = {
    "independent": "a slot's reward depends on its own item alone",
    "cascade": "a slot's reward depends on its own item and those above",
    "full": "rewards depend on all items of the slate",
    "additive": "the slate's reward is a sum of what each item adds at its slot",
}


@dataclass(frozen=True, eq=False)
class Interaction:
    """A mask over slots, and what follows from it.

    Attributes
    ----------
    name : str
        The word it was asked for by, or "mask".
    mask : (H, H) bool array
        Row k: the slots that the reward of slot k depends on.
    """

    name: str
    mask: Bools

    @property
    def says(self) -> str:
        """The assumption, in words."""
        return WORDS.get(self.name, "a slot's reward depends on the items of the slots that a mask names")

    @property
    def due(self) -> Ints | None:
        """(H,) slot m_k at which the reward of slot k is paid, where every row is "all slots up to m_k"."""
        last = self.mask.shape[1] - 1 - np.argmax(self.mask[:, ::-1], axis=1)
        prefixes = np.arange(self.mask.shape[1]) <= last[:, None]
        return last if bool((self.mask == prefixes).all()) else None

    @property
    def shown(self) -> Bools:
        """(H, H) row k: the other slots whose items are part of what is known at slot k.

        Where rewards are paid at a later slot, as in an episode, slot k knows those above it: an item below is drawn
        after its own, and given that the probability of its own is another one.

        >>> Interaction.of("full", 3).shown.astype(int).tolist()
        [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
        """
        others = self.mask & ~np.eye(len(self.mask), dtype=bool)
        return others if self.due is None else np.tril(others)

    @property
    def link(self) -> Link | None:
        """Weights of the slots, where they are not products up to a slot."""
        if self.name == "additive":
            return Link(self.mask, additive=True)
        return Link(self.mask) if self.due is None else None

    @property
    def shows_above(self) -> bool:
        """Whether policies may look at the items above that the mask names.

        They may where the slots that each S_k draws on are in S_k themselves, so that the product of conditional ratios
        over S_k is the ratio of its joint probabilities.
        """
        if self.due is not None:
            return True
        upper = bool(np.triu(self.mask, 1).any())
        reached = (self.mask.astype(np.int64) @ self.mask.astype(np.int64)) > 0
        return not upper and bool((reached == self.mask).all()) and not Link(self.mask).is_single

    @classmethod
    def of(cls, given: Any, slots: int) -> Interaction:
        """What a user asked for, for slates of up to so many slots.

        >>> Interaction.of("cascade", 3).due.tolist(), Interaction.of("full", 3).due.tolist()
        ([0, 1, 2], [2, 2, 2])
        """
        if isinstance(given, str):
            if given not in WORDS:
                raise UsageError(
                    f"interaction= must be {', '.join(map(repr, WORDS))}, 'auto' or a (slots, slots) mask. "
                    f"Got {given!r} instead.{did_you_mean(given, [*WORDS, 'auto'])}"
                )
            return cls(given, _mask_of(given, slots))
        mask = np.asarray(given)
        if mask.ndim != 2 or mask.shape[0] != mask.shape[1] or mask.shape[0] < slots:
            raise UsageError(
                f"interaction= as a mask must have shape (slots, slots), at least ({slots}, {slots}): row k, column j "
                f"says whether the reward of slot k depends on the item of slot j. Got {mask.shape}."
            )
        if not np.isin(mask, (0, 1)).all():
            raise UsageError("interaction= as a mask must hold True and False.")
        mask = mask.astype(bool)[:slots, :slots]
        alone = ~np.diag(mask)
        if alone.any():
            raise UsageError(
                f"interaction=: by the mask the reward of slot {int(alone.argmax())} does not depend on its own item. "
                "Set the diagonal to True."
            )
        return cls("mask", mask)


def _mask_of(word: str, slots: int) -> Bools:
    if word == "full":
        return np.ones((slots, slots), dtype=bool)
    if word == "cascade":
        return np.tril(np.ones((slots, slots), dtype=bool))
    return np.eye(slots, dtype=bool)
