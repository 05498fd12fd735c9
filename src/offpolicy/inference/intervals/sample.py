"""What an interval is made from (`Sample`) and what comes out (`Interval`).

G independent units, unit g standing for c_g identical ones:

    θ  = Σ c·num / Σ c·den,        se = √(Σ c (num − θ den)²) / Σ c·den

With den = 1 this is the mean and σ̂/√N of Proposition 1 (division by N); with sums over clusters
it is the weighted mean and its cluster-robust standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from offpolicy.errors import DataError, NotIdentifiedError, UsageError, first_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

Floats: TypeAlias = NDArray[np.float64]


ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Interval:
    """A confidence interval and how it came about.

    Attributes
    ----------
    low, high : float
        The ends; infinite where the data set no bound.
    level : float
        Nominal coverage, such as 0.95.
    method : str
        Name of the method.
    note : str
        What a reader should know: assumptions, edge cases; empty when there is nothing to add.
    sufficient : bool
        Whether the method can be expected to cover as stated; where it is False the interval is the least bad
        one, and not an answer.
    """

    low: float
    high: float
    level: float
    method: str
    note: str = ""
    sufficient: bool = True

    def __iter__(self) -> Iterator[float]:
        """Unpack as ``low, high = interval``."""
        yield self.low
        yield self.high

    def __getitem__(self, index: int) -> float:
        """Return the low end at 0 and the high end at 1."""
        return (self.low, self.high)[index]

    def __len__(self) -> int:
        return 2

    @property
    def reason(self) -> str:
        """Why the interval is refused, in a few words; empty where it is an answer."""
        return "" if self.sufficient else self.note.removeprefix("insufficient evidence: ")

    @property
    def shown(self) -> tuple[float, float]:
        """The ends as tables show them: NaN where the interval is refused."""
        return (self.low, self.high) if self.sufficient else (math.nan, math.nan)

    @property
    def unbounded(self) -> str:
        """On which side the data set no bound: "below", "above", "on both sides", or empty.

        >>> Interval(-math.inf, 1.0, 0.95, "fieller").unbounded
        'below'
        """
        below, above = self.low == -math.inf, self.high == math.inf
        return "on both sides" if below and above else "below" if below else "above" if above else ""

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    def covers(self, value: float) -> bool:
        """Whether ``value`` lies between the ends, ends included."""
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Sample:
    """Independent units in the form every interval takes.

    Parameters
    ----------
    numerator, denominator : array of shape (G,)
        Sums inside a unit: Σ ω ψ and Σ ω. For a plain mean the score ψ and 1.
    count : array of shape (G,), optional
        How many identical independent units each row stands for; frequencies, never expanded. Rows
        that stand for none are left out.

    Examples
    --------
    >>> s = Sample.of_mean([0.0, 1.0], count=[3, 1])
    >>> s.estimate, s.total
    (0.25, 4.0)
    >>> round(s.std_error, 6) == round((0.25 * 0.75 / 4) ** 0.5, 6)
    True
    """

    numerator: Floats
    denominator: Floats
    count: Floats | None = None

    def __post_init__(self) -> None:
        numerator = column("numerator", self.numerator)
        denominator = column("denominator", self.denominator, len(numerator))
        object.__setattr__(self, "numerator", numerator)
        object.__setattr__(self, "denominator", denominator)
        if self.count is not None:
            count = frequencies(self.count, len(numerator))
            # Rows that stand for no unit must not set a largest or smallest score.
            seen = slice(None) if count.min() > 0 else count > 0
            object.__setattr__(self, "numerator", numerator[seen])
            object.__setattr__(self, "denominator", denominator[seen])
            object.__setattr__(self, "count", count[seen])
        if not float(self.counts @ self.denominator) > 0:
            raise NotIdentifiedError(
                "the denominators (weights) of the units sum to 0, so the ratio is undefined. "
                "The policies do not overlap on these data."
            )

    @classmethod
    def of_mean(cls, psi: ArrayLike, count: ArrayLike | None = None) -> Sample:
        """Sample whose estimate is the mean of ``psi``."""
        x = np.asarray(psi, dtype=np.float64)
        c = None if count is None else np.asarray(count, dtype=np.float64)
        return cls(x, np.ones_like(x), c)

    @cached_property
    def counts(self) -> Floats:
        """Frequencies of the rows; ones where none were given."""
        return np.ones_like(self.numerator) if self.count is None else self.count

    @cached_property
    def total(self) -> float:
        """Number of independent units N = Σ c."""
        return float(len(self.numerator)) if self.count is None else float(self.count.sum())

    @cached_property
    def estimate(self) -> float:
        """θ = Σ c·num / Σ c·den."""
        c = self.counts
        return float(c @ self.numerator) / float(c @ self.denominator)

    @property
    def residual(self) -> Floats:
        """Values num − θ·den, one per row; their weighted sum is 0.

        Scores that are all equal have residuals of 0, however their mean was rounded.
        """
        e = self.estimate * self.denominator
        np.subtract(self.numerator, e, out=e)
        low, high = float(self.numerator.min()), float(self.numerator.max())
        largest = max(high, -low)
        # The mean of many equal numbers is rounded more than the numbers are, so a mean's scores are compared
        # with each other; they are noise where they differ in the last few digits of a float only.
        spread = (high - low) / 2 if self.is_mean else float(np.abs(e).max())
        noise = (ROUNDING if self.is_mean else 1e-12) * largest
        return np.zeros_like(e) if spread <= noise else e

    @cached_property
    def std_error(self) -> float:
        """Standard error of the estimate."""
        c, e = self.counts, self.residual
        return math.sqrt(float(c @ np.square(e, out=e))) / float(c @ self.denominator)

    @cached_property
    def is_mean(self) -> bool:
        """Whether every unit has the same denominator, so that the estimate is a plain mean."""
        d = self.denominator
        return bool(d[0] == d[-1] and d.min() == d.max())


def column(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """Return ``values`` as a finite float vector, or say what is wrong with it."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise DataError(f"{name} must be a non-empty vector; its shape is {x.shape}.")
    if length is not None and len(x) != length:
        raise DataError(f"{name} has {len(x):,} values, but {length:,} are expected.")
    bad = ~np.isfinite(x)
    if bad.any():
        raise DataError(f"{name}: {first_rows(bad, x)} are not finite numbers.")
    return x


def frequencies(count: ArrayLike | None, length: int) -> Floats:
    """Return frequencies as floats (ones for None), non-negative and not all 0."""
    if count is None:
        return np.ones(length)
    c = column("count", count, length)
    if c.min() < 0:
        raise DataError(f"count: {first_rows(c < 0, c)} are negative; counts are frequencies.")
    if c.max() == 0:
        raise DataError("count: every frequency is 0, so there are no units.")
    return c


def check_level(level: Any) -> float:
    """Return ``level`` if it is a confidence level in (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, float | int | np.floating) or not 0 < level < 1:
        raise UsageError(f"The 'level' parameter must be a float in the range (0, 1). Got {level!r} instead.")
    return float(level)
