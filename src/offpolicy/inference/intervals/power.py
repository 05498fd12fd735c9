"""Size of the A/B test that would settle a difference, from the usual normal approximation.

With variances σ₀², σ₁², difference δ and a share s of units in the treatment arm,

    N = (z_{1−α/2} + z_{power})² (σ₀²/(1 − s) + σ₁²/s) / δ²        (two-sided test at level 1 − α)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.sample import check_level


@dataclass(frozen=True)
class TrialSize:
    """Units an A/B test needs.

    Attributes
    ----------
    control, treatment : int
        Units per arm.
    difference : float
        Difference of means the test is to detect.
    level, power : float
        1 − two-sided error rate, and chance of detecting the difference.
    """

    control: int
    treatment: int
    difference: float
    level: float
    power: float

    @property
    def total(self) -> int:
        """Units in both arms."""
        return self.control + self.treatment


def trial_for_means(
    difference: float,
    variance_control: float,
    variance_treatment: float | None = None,
    *,
    level: float = 0.95,
    power: float = 0.8,
    treatment_share: float = 0.5,
) -> TrialSize:
    """Size of the test of a difference of two means with known variances.

    >>> trial_for_means(0.5, 1.0).control
    63
    """
    if difference == 0 or not math.isfinite(difference):
        raise UsageError(f"No finite test settles a difference of {difference}; give another one.")
    z = _quantiles(level, power)
    spread = _spread(variance_control, variance_treatment, treatment_share)
    total = max(z * z * spread / difference**2, 2.0)
    return TrialSize(
        max(1, math.ceil(total * (1 - treatment_share))),
        max(1, math.ceil(total * treatment_share)),
        difference,
        level,
        power,
    )


def _quantiles(level: float, power: float) -> float:
    check_level(level)
    if not 0 < power < 1:
        raise UsageError(f"The 'power' parameter must be in the range (0, 1). Got {power!r}.")
    return float(special.ndtri(0.5 + level / 2) + special.ndtri(power))


def _spread(control: float, treatment: float | None, share: float) -> float:
    """Variance of the difference of means times the total number of units."""
    if not 0 < share < 1:
        raise UsageError(f"The 'treatment_share' parameter must be in (0, 1). Got {share!r}.")
    treated = control if treatment is None else treatment
    if not (0 <= control < math.inf and 0 <= treated < math.inf):
        raise UsageError(f"Variances must be finite and not negative. Got {control}, {treated}.")
    return control / (1 - share) + treated / share
