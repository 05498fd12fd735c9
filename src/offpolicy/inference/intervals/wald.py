"""Intervals from standard errors: of a mean, of a lift, and the size of the A/B test that would settle it.

Wald intervals θ̂ ± q·se: normal quantiles (Proposition 1) and Student quantiles.

Relative lift e/d − 1 of two means with a joint covariance: delta, Fieller and log intervals.

Delta method: var(e/d) ≈ (V_e − 2ρC + ρ²V_d)/d² with ρ = e/d. Fieller (1954) inverts the test of e
− ρd = 0, i.e. keeps every ρ with (e − ρd)² ≤ z²(V_e − 2ρC + ρ²V_d); the set is unbounded when d
is not significantly different from 0, which is the truth and not a failure. The log interval is
exp(log ρ ± z·se(log ρ)) and needs two positive means.

Size of the A/B test that would settle a difference, from the usual normal approximation.

With variances σ₀², σ₁², difference δ and a share s of units in the treatment arm,

    N = (z_{1−α/2} + z_{power})² (σ₀²/(1 − s) + σ₁²/s) / δ²        (two-sided test at level 1 − α)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.inference.intervals.sample import Interval, Sample, check_level

NO_VARIATION = (
    "every unit has the same score, so the estimated standard error is 0; a width of 0 means no evidence, not precision"
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
    note = f"unbounded because the baseline cannot be distinguished from 0 at level {level:g}"
    if a < 0 < root:
        ends = sorted(pair.lift + (b + side * math.sqrt(root)) / a for side in (-1, 1))
        note += f"; the confidence set is everything outside ({ends[0]:.6g}, {ends[1]:.6g})"
    else:
        note += "; no lift can be excluded"
    return Interval(-math.inf, math.inf, level, "fieller", note)


def _quantile(level: float) -> float:
    return float(special.ndtri(0.5 + check_level(level) / 2))


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
        raise UsageError(f"No finite test can detect a difference of {difference}. Give another one.")
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
