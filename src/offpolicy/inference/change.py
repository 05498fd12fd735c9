"""An estimate against a base, the same in text, tables, report and gate.

The change is a lift, e / base − 1, where the base is clearly positive. Where the base may be 0 or is negative
the sign of a ratio says nothing (costs of −2.0 against −1.5 would be a lift of +33%): there the difference
speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        """1 or −1 where the interval is wholly above or below 0, else 0."""
        return 1 if self.interval.low > 0 else -1 if self.interval.high < 0 else 0


def has_lift(base: Estimate, level: float = 0.95) -> bool:
    """Whether a ratio to ``base`` means something: its whole interval lies above 0.

    >>> from offpolicy.inference.estimate import Estimate
    >>> has_lift(Estimate.from_scores([2.0, 1.0] * 50)), has_lift(Estimate.from_scores([-2.0, 1.0] * 50))
    (True, False)
    """
    return base.is_defined and base.interval(level).low > 0


def lift(e: Estimate, base: Estimate, level: float = 0.95) -> Change | None:
    """The relative change of an estimate against a base; None where it means nothing."""
    if not e.is_defined or not has_lift(base, level):
        return None
    change = e.lift(base)
    return Change(change, change.interval(level), is_lift=True)


def change(e: Estimate, base: Estimate, level: float = 0.95) -> Change:
    """The lift where there is one, else the difference."""
    relative = lift(e, base, level)
    if relative is not None:
        return relative
    difference = e - base
    return Change(difference, difference.interval(level), is_lift=False)
