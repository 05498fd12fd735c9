"""Relative lift e/d − 1 of two means with a joint covariance: delta, Fieller and log intervals.

Delta method: var(e/d) ≈ (V_e − 2ρC + ρ²V_d)/d² with ρ = e/d. Fieller (1954) inverts the test of e
− ρd = 0, i.e. keeps every ρ with (e − ρd)² ≤ z²(V_e − 2ρC + ρ²V_d); the set is unbounded when d
is not significantly different from 0, which is the truth and not a failure. The log interval is
exp(log ρ ± z·se(log ρ)) and needs two positive means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from offpolicy.errors import DataError, NotIdentifiedError
from offpolicy.inference.intervals.sample import Interval, check_level


@dataclass(frozen=True)
class Pair:
    """Two estimates and their joint covariance.

    Parameters
    ----------
    numerator, denominator : float
        The estimates e and d of the lift e/d − 1.
    var_numerator, var_denominator, covariance : float
        Their sampling variances and covariance.

    Examples
    --------
    >>> pair = Pair(0.12, 0.10, 0.0001, 0.0001, 0.00005)
    >>> round(pair.lift, 3), round(pair.std_error, 3)
    (0.2, 0.111)
    """

    numerator: float
    denominator: float
    var_numerator: float
    var_denominator: float
    covariance: float = 0.0

    def __post_init__(self) -> None:
        bound = math.sqrt(max(self.var_numerator, 0) * max(self.var_denominator, 0))
        if min(self.var_numerator, self.var_denominator) < 0 or abs(self.covariance) > bound * (1 + 1e-9):
            raise DataError("variances and covariance do not form a covariance matrix.")

    @property
    def lift(self) -> float:
        """Relative lift e/d − 1."""
        if self.denominator == 0:
            raise NotIdentifiedError("the lift is relative to a value of 0 and is undefined.")
        return self.numerator / self.denominator - 1

    @property
    def std_error(self) -> float:
        """Standard error of the lift by the delta method."""
        return self.error_at(self.lift + 1) / abs(self.denominator)

    def error_at(self, ratio: float) -> float:
        """Standard error of e − ratio · d."""
        spread = ratio**2 * self.var_denominator - 2 * ratio * self.covariance
        return math.sqrt(max(self.var_numerator + spread, 0.0))


def delta(pair: Pair, level: float = 0.95) -> Interval:
    """Delta-method interval of the lift.

    >>> i = delta(Pair(0.12, 0.10, 0.0001, 0.0001))
    >>> round(i.low, 3), round(i.high, 3)
    (-0.106, 0.506)
    """
    half = _quantile(level) * pair.std_error
    return Interval(pair.lift - half, pair.lift + half, level, "delta")


def log_scale(pair: Pair, level: float = 0.95) -> Interval:
    """Interval of the lift that is symmetric on the log scale; never reaches −100%.

    >>> i = log_scale(Pair(0.12, 0.10, 0.0001, 0.0001))
    >>> round(i.low, 3), round(i.high, 3)
    (-0.07, 0.549)
    """
    if not (pair.numerator > 0 and pair.denominator > 0):
        raise NotIdentifiedError(
            f"a log-scale interval needs two positive means; they are {pair.numerator:g} and "
            f"{pair.denominator:g}. Use Fieller's interval."
        )
    ratio = pair.lift + 1
    spread = math.exp(_quantile(level) * pair.std_error / ratio)
    return Interval(ratio / spread - 1, ratio * spread - 1, level, "log-scale")


def fieller(pair: Pair, level: float = 0.95, quantile: float | None = None) -> Interval:
    """Fieller's interval of the lift; infinite ends where the baseline may be 0.

    ``quantile`` is the critical value, where it is not the normal one of ``level``.

    >>> i = fieller(Pair(0.12, 0.10, 0.0001, 0.0001))
    >>> round(i.low, 3), round(i.high, 3)
    (-0.068, 0.564)
    >>> fieller(Pair(0.12, 0.10, 0.01, 0.01)).high
    inf
    """
    z2 = (_quantile(level) if quantile is None else quantile) ** 2
    # In t = ρ − e/d the quadratic is a t² − 2 b t − c = 0, which loses no digits over a precise baseline.
    a = pair.denominator**2 - z2 * pair.var_denominator
    b = z2 * ((pair.lift + 1) * pair.var_denominator - pair.covariance)
    c = z2 * pair.error_at(pair.lift + 1) ** 2
    root = b * b + a * c
    if a > 0:
        half = math.sqrt(root)
        return Interval(pair.lift + (b - half) / a, pair.lift + (b + half) / a, level, "fieller")
    note = f"unbounded: the baseline is not distinguishable from 0 at level {level:g}"
    if a < 0 < root:
        ends = sorted(pair.lift + (b + side * math.sqrt(root)) / a for side in (-1, 1))
        note += f"; the confidence set is everything outside ({ends[0]:.6g}, {ends[1]:.6g})"
    else:
        note += "; no lift can be excluded"
    return Interval(-math.inf, math.inf, level, "fieller", note)


def _quantile(level: float) -> float:
    return float(special.ndtri(0.5 + check_level(level) / 2))
