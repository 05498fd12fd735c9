"""What the reward of a slot depends on: the words of ``interaction=`` as a mask, and the weights that follow.

S_k are the slots that the reward of slot k depends on, row k of the mask. Where every S_k is "all slots up to some
m_k ≥ k", the weight of a reward is the product of the ratios up to slot m_k: an episode whose reward of slot k is paid
at slot m_k. Any other mask needs weights of its own (`Link`), and policies whose slots are drawn independently of each
other given the context, or by looking at nothing but the slots that a mask closed under "depends on" names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.errors import DataError, UsageError, did_you_mean, first_rows
from offpolicy.logs.link import Link

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.layout import Layout

WORDS = {
    "independent": "a slot's reward depends on its own item alone",
    "cascade": "a slot's reward depends on its own item and those above",
    "full": "rewards depend on all items of the slate",
    "additive": "the slate's reward is the sum of the contributions of its items",
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
        return WORDS.get(self.name, "a slot's reward depends on the items of the slots in its mask")

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
                f"interaction=: in the mask, the reward of slot {int(alone.argmax())} does not depend on its own item. "
                "Set the diagonal to True."
            )
        return cls("mask", mask)


def _mask_of(word: str, slots: int) -> Bools:
    if word == "full":
        return np.ones((slots, slots), dtype=bool)
    if word == "cascade":
        return np.tril(np.ones((slots, slots), dtype=bool))
    return np.eye(slots, dtype=bool)


CELLS = 4_000_000  # of (rows, items) made at once


@dataclass(frozen=True, eq=False)
class Candidates:
    """(S, K) whether an item could be shown: not where the slate shows it above; computed for the rows asked about."""

    action: Ints
    layout: Layout
    n_actions: int

    __array_ufunc__: ClassVar[None] = None  # products with arrays are made here

    def __len__(self) -> int:
        return len(self.action)

    def sum(self, axis: int) -> Ints:
        """(S,) how many items could be shown: all but those above, which are distinct."""
        assert axis == 1
        return np.asarray(self.n_actions - self.layout.step)

    def __rmatmul__(self, mass: Floats) -> Floats:
        """(K,) sums of a mass over the rows in which each item could be shown."""
        total = np.zeros(self.n_actions)
        size = max(1, CELLS // self.n_actions)
        for start in range(0, len(self), size):
            rows = np.arange(start, min(start + size, len(self)))
            total += mass[rows] @ self[rows]
        return total

    def __getitem__(self, at: Any) -> Any:
        rows, item = at if isinstance(at, tuple) else (at, None)
        rows = np.asarray(rows)
        step = self.layout.step[rows]
        able = np.ones((len(rows), self.n_actions) if item is None else len(rows), dtype=bool)
        for back in range(1, int(step.max(initial=0)) + 1):
            here = np.flatnonzero(step >= back)
            above = self.action[rows[here] - back]
            if item is None:
                able[here, above] = False
            else:
                able[here] &= above != item
        return able


def without_above(allowed: Bools | None, wide: Ints, layout: Layout, n_actions: int) -> Bools:
    """(S, K) candidates of each slot: those given, less the items above."""
    unit, step = layout.unit, layout.step
    able = np.ones((len(unit), n_actions), dtype=bool) if allowed is None else allowed.copy()
    for j in range(wide.shape[1] - 1):
        below = np.flatnonzero(step > j)
        able[below, wide[unit[below], j]] = False
    return able


def check_paid(chosen: Interaction, reward_of: str) -> None:
    """What is paid (``reward_of`` a slot, or the slate) goes with the interaction."""
    if reward_of == "slate" and chosen.name not in {"additive", "full"}:
        raise UsageError(
            f"interaction={chosen.name!r} needs the reward of each slot, which reward_of='slate' does not have. Use "
            "'additive' or 'full'."
        )
    if reward_of != "slate" and chosen.name == "additive":
        raise UsageError(
            "interaction='additive' is for one reward of the whole slate: reward_of='slate'. Rewards of slots are "
            "added up by 'independent', 'cascade' and 'full'."
        )


def shown_items(action: Ints, unit: Ints, step: Ints, slots: int) -> Ints:
    """(N, H) code of the item of each slot of each slate; −1 where there is none."""
    wide: Ints = np.full((int(unit[-1]) + 1, slots), -1, dtype=np.int64)
    wide[unit, step] = action
    return wide


def repeats_items(wide: Ints) -> bool:
    """Whether some slate shows an item twice."""
    ordered = np.sort(wide, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any())


def one_reward(values: Array, unit: Ints, first: Ints, column: str) -> None:
    """A reward of whole slates is the same in all rows of each."""
    differs = values != values[first][unit]
    if differs.any():
        raise DataError(
            f"column {column!r}: the reward changes within a slate in {first_rows(differs, values)} (rows in "
            "order of slate and position). Give every row of a slate the same reward, or give rewards of slots and "
            "another interaction=."
        )
