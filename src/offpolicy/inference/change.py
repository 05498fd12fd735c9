"""An estimate against a base, the same in text, tables, report and gate.

The change is a lift, (value − base)/|base|: positive where the value is larger, whatever the sign of the base
(costs of −1.5 against −2.0 are +25%). Where the base's interval holds 0, or is refused, a ratio to it says nothing:
the lift is undefined, and the difference is shown. It is shown for negative bases too, whose percentages mislead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpolicy.inference.confidence import no_base

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval


@dataclass(frozen=True, eq=False)
class Change:
    """A lift or a difference with its interval.

    Attributes
    ----------
    estimate : Estimate
    interval : Interval
    is_lift : bool
        Whether the change is relative to the base.
    """

    estimate: Estimate
    interval: Interval
    is_lift: bool

    @property
    def sign(self) -> int:
        """1 or −1 where the interval is wholly above or below 0, else 0; 0 where it is refused."""
        if not self.interval.sufficient:
            return 0
        return 1 if self.interval.low > 0 else -1 if self.interval.high < 0 else 0

    def better(self, *, minimize: bool = False) -> int:
        """1 where the change is for the better, −1 where it is for the worse, 0 where it may be none."""
        return -self.sign if minimize else self.sign


def has_lift(base: Estimate, level: float = 0.95) -> bool:
    """Whether a ratio to ``base`` means something: its interval does not hold 0.

    >>> from offpolicy.inference.estimate import Estimate
    >>> bases = [2.0, 1.0] * 50, [-2.0, -1.0] * 50, [-2.0, 2.0] * 50
    >>> [has_lift(Estimate.from_scores(b)) for b in bases]
    [True, True, False]
    """
    return base.is_defined and no_base(base, level) is None


def lift(e: Estimate, base: Estimate, level: float = 0.95) -> Change | None:
    """The relative change of an estimate against a base; None where it means nothing."""
    if not e.is_defined or not has_lift(base, level):
        return None
    change = e.lift(base)
    return Change(change, change.interval(level), is_lift=True)


def change(e: Estimate, base: Estimate, level: float = 0.95) -> Change:
    """The lift where there is one over a positive base, else the difference."""
    relative = lift(e, base, level)
    if relative is not None and base.value > 0:
        return relative
    difference = e - base
    return Change(difference, difference.interval(level), is_lift=False)
