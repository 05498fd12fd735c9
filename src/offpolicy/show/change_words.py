"""A policy against the log in words: how much more or less, and between what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpolicy.inference.figures import DASH, measured, percent

if TYPE_CHECKING:
    from offpolicy.inference.change import Change

MINUS = "−"


@dataclass(frozen=True)
class ChangeWords:
    """A change in words: relative where the log's value is clearly not 0.

    Attributes
    ----------
    size : str
        "20% more", "0.3 less".
    reach : str
        Between what: "between 8% and 33% more", "anywhere from 3% less to 40% more".
    short, ends : str
        The same as figures, for tables: "+20%" and "+8% to +33%".
    sign : int
        1 for the better, −1 for the worse, 0 where it may be either.
    """

    size: str
    reach: str
    short: str
    ends: str
    sign: int

    @classmethod
    def undefined(cls) -> ChangeWords:
        """Nothing is known."""
        return cls("", "", DASH, "not identified", 0)

    @classmethod
    def of(cls, against: Change, *, minimize: bool = False) -> ChangeWords:
        """A lift or a difference in words; ``sign`` says whether it is for the better."""
        value, error = against.estimate.value, against.estimate.std_error

        def text(x: float) -> str:
            if not math.isfinite(x):
                return "any amount"
            if not against.is_lift:
                return measured(abs(x), error)
            return percent(abs(x), 0 if error >= 0.0095 else 1 if error >= 0.00095 else 2)

        def signed(x: float) -> str:
            if not math.isfinite(x):
                return f"{MINUS}∞" if x < 0 else "∞"
            size = text(x)
            mark = MINUS if x < 0 else "+"
            return f"{mark}{size}" if size.strip("0.%,") else size

        size, short = f"{text(value)} {_word(value)}", signed(value)
        if not against.interval.sufficient:
            return cls(size, "", short, "refused", 0)
        low, high = against.interval
        sign = against.better(minimize=minimize)
        ends = f"{signed(low)} to {signed(high)}"
        if low > 0 or high < 0:
            near, far = sorted((abs(low), abs(high)))
            return cls(
                size, f"between {text(near)} and {text(far)} {_word(value)}", short, ends, sign
            )
        reach = f"anywhere from {text(low)} {_word(low)} to {text(high)} {_word(high)}"
        return cls(size, reach, short, ends, sign)


def _word(x: float) -> str:
    return "less" if x < 0 else "more"
