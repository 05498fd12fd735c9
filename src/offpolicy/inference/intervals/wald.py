"""Wald intervals θ̂ ± q·se: normal quantiles (Proposition 1) and Student quantiles."""

from __future__ import annotations

import math

from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import Interval, Sample, check_level

NO_VARIATION = (
    "every unit has the same score, so the estimated standard error is 0: "
    "a width of 0 is an absence of evidence, not precision"
)


def normal(sample: Sample, level: float = 0.95) -> Interval:
    """Interval from the normal approximation, θ̂ ± z·σ̂/√N.

    >>> i = normal(Sample.of_mean([0.0, 1.0, 2.0, 3.0]))
    >>> round(i.low, 3), round(i.high, 3)
    (0.404, 2.596)
    """
    z = float(special.ndtri(0.5 + check_level(level) / 2))
    return around(sample.estimate, z * sample.std_error, level, "normal")


def student(sample: Sample, level: float = 0.95) -> Interval:
    """Interval from Student's t with N − 1 degrees of freedom.

    The standard error is multiplied by √(N/(N−1)), which makes the interval exact for normal
    scores (Proposition 1 divides by N; the two agree as N grows). N counts independent units.

    >>> i = student(Sample.of_mean([0.0, 1.0, 2.0, 3.0]))
    >>> round(i.low, 3), round(i.high, 3)
    (-0.554, 3.554)
    """
    check_level(level)
    total = sample.total
    if total <= 1:
        raise UsageError("A Student interval needs at least 2 independent units.")
    quantile = float(special.stdtrit(total - 1, 0.5 + level / 2))
    half = quantile * sample.std_error * math.sqrt(total / (total - 1))
    return around(sample.estimate, half, level, "t")


def around(center: float, half: float, level: float, method: str) -> Interval:
    """Symmetric interval, with a warning when it has no width."""
    note = NO_VARIATION if half == 0 else ""
    return Interval(center - half, center + half, level, method, note, sufficient=half > 0)
