"""`Link`: which decisions of a unit a reward answers to, where that is not "all up to its own".

An episode multiplies the ratios of all steps up to a reward. The slots of a slate may be linked otherwise: with S_k the
slots that the reward of slot k depends on, k among them,

    ρ_k = ∏_{j ∈ S_k} w_j,     ρ_{k−} = ∏_{j ∈ S_k ∖ k} w_j,     w_j = π_e / π_b of slot j,

and q_k is the mean of the slot's own reward given the actions in S_k: no later reward belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.layout import Layout


@dataclass(frozen=True, eq=False)
class Link:
    """Slots that each reward depends on.

    Parameters
    ----------
    table : (H, H) bool array
        ``table[k, j]``: whether the reward of slot k depends on the action of slot j; true on the diagonal.
    additive : bool
        Every slot's reward is that of the whole slate, a sum of what each slot adds (the pseudo-inverse estimator).

    Examples
    --------
    >>> from offpolicy.logs.layout import Layout
    >>> pairs = Link(np.array([[True, False], [True, True]]))
    >>> pairs.log_rho(np.log([2.0, 3.0, 5.0]), Layout.ragged([2, 1])).round(3).tolist()
    [0.693, 1.792, 1.609]
    """

    table: Bools
    additive: bool = False

    @cached_property
    def is_single(self) -> bool:
        """Whether each reward depends on its own slot alone."""
        return bool((self.table == np.eye(len(self.table), dtype=bool)).all())

    def log_rho(self, logs: Floats, layout: Layout) -> Floats:
        """(S,) log ρ_k from the (S,) logarithms of the slots' own ratios."""
        return logs if self.is_single else _sums(logs, layout, self.table)

    def log_before(self, logs: Floats, layout: Layout) -> Floats:
        """(S,) log ρ_{k−}, without the slot itself."""
        if self.is_single:
            return np.zeros_like(logs)
        return _sums(logs, layout, self.table & ~np.eye(len(self.table), dtype=bool))


def _sums(logs: Floats, layout: Layout, table: Bools) -> Floats:
    """(S,) sums of logs over the slots that a table names; −∞ where one of them is."""
    slots = layout.horizon
    lost = np.isneginf(logs)
    wide, gone = np.zeros((layout.n_units, slots)), np.zeros((layout.n_units, slots))
    wide[layout.unit, layout.step] = np.where(lost, 0.0, logs)
    gone[layout.unit, layout.step] = lost
    chosen = table[:slots, :slots].T.astype(np.float64)
    total = (wide @ chosen)[layout.unit, layout.step]
    return np.where((gone @ chosen)[layout.unit, layout.step] > 0, -np.inf, total)
