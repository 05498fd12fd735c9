"""Empirical likelihood (Owen 1988) for a mean or ratio, optionally with a known range.

The interval holds every θ that some distribution on the observed units (and, when the range of ψ
is known, on its unobserved ends) gives with −2 log likelihood ratio at most F₁,N₋₁'s quantile.
Its upper end is the largest E_P[num − θ den] = 0, solved through the dual: with e = num − θ den,

    p ∝ c / (1 − λ e),    mean log(1 − λ e) + log mean 1/(1 − λ e) = crit / 2N,    0 < λ ≤ 1/e_max

and λ stops at 1/e_high when an unobserved end e_high takes the remaining mass. Ratios repeat this
at the θ just found (Dinkelbach's iteration), which converges quadratically.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import special

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.intervals.sample import Floats, Interval, Sample, check_level
from offpolicy.inference.intervals.wald import NO_VARIATION

if TYPE_CHECKING:
    from collections.abc import Callable


Unit: TypeAlias = tuple[float, float]  # numerator and denominator of an unseen unit


def empirical_likelihood(
    sample: Sample, level: float = 0.95, *, low: float | None = None, high: float | None = None
) -> Interval:
    """Empirical-likelihood interval; bound-aware when the range of ψ is given.

    Parameters
    ----------
    sample : Sample
        Denominators must not be negative.
    level : float
        Nominal coverage.
    low, high : float, optional
        Known range of ψ = num/den. An unobserved unit at either end may then carry mass, so that
        the interval stays honest when the sample has not yet met an extreme value. For units of
        unequal size the unobserved unit has the largest size seen.

    Examples
    --------
    >>> s = Sample.of_mean([0.0, 1.0], count=[95, 5])
    >>> i = empirical_likelihood(s)
    >>> round(i.low, 4), round(i.high, 4)
    (0.018, 0.1052)
    >>> none = Sample.of_mean([0.0], count=[100])
    >>> empirical_likelihood(none).high, round(empirical_likelihood(none, high=1.0).high, 4)
    (0.0, 0.0195)
    """
    sample = _usable(sample)
    _check_range(sample, low, high)
    size = float(sample.denominator.max())
    lower, upper = _region(
        sample,
        critical(check_level(level), sample.total) / 2,
        None if low is None else (low * size, size),
        None if high is None else (high * size, size),
    )
    flat = lower == upper
    note = NO_VARIATION if flat else ""
    return Interval(lower, upper, level, "empirical-likelihood", note, sufficient=not flat)


def cautious_likelihood(
    sample: Sample, level: float = 0.95, *, reach: float = 4.0, unseen: tuple[float, float] | None = None
) -> Interval:
    """Empirical likelihood for scores of unknown range: larger ones than seen may exist.

    On either side an unseen unit of mean size may carry mass, its residual ``reach`` times the
    largest seen on that side, or as far out as ``unseen``, the extreme residuals that other units of the
    log have shown. A heuristic, not a theorem: it restores coverage for skewed scores from few units,
    where the plain interval trusts that the tail has been seen.

    >>> s = Sample.of_mean([0.0, 0.1, 0.1, 0.2, 0.2, 0.4, 0.5, 0.9, 1.5, 2.0])
    >>> cautious_likelihood(s).high > 1.2 * empirical_likelihood(s).high
    True
    """
    sample = _usable(sample)
    if not reach >= 1:
        raise UsageError(f"The 'reach' parameter must be at least 1. Got {reach!r} instead.")
    size = float(sample.counts @ sample.denominator) / sample.total
    center, e = sample.estimate * size, sample.residual
    low = high = None
    if e.any():
        ends = (0.0, 0.0) if unseen is None else unseen
        low = center + min(reach * float(e.min()), ends[0]), size
        high = center + max(reach * float(e.max()), ends[1]), size
    lower, upper = _region(sample, critical(check_level(level), sample.total) / 2, low, high)
    flat = lower == upper
    note = NO_VARIATION if flat else f"allows for scores {reach:g} times as extreme as any in the log"
    return Interval(lower, upper, level, "cautious-likelihood", note, sufficient=not flat)


def bounded_likelihood(
    sample: Sample, level: float = 0.95, *, unseen: tuple[float, float], skewness: float = 0.0
) -> Interval:
    """Empirical likelihood in which a unit with the lowest or highest possible residual may carry mass.

    For rewards of known range, a difference of two policies among them. With κ the ``skewness`` of the estimate after
    one more such unit, the limit of the log likelihood ratio moves from half of the quantile of F, right for many
    units, to −log(α/2), right where nothing was met: x + κ^{3/2} (−log(α/2) − x). With m equal outcomes κ is
    1/√(m + 1), and the ends are within a few percent of Clopper and Pearson's for every m.

    >>> def upper(m):
    ...     s = Sample.of_mean([0.0, 1.0], count=[10_000 - m, m])
    ...     return bounded_likelihood(s, unseen=(0.0, 1.0), skewness=(m + 1) ** -0.5).high
    >>> [round(10_000 * upper(m), 1) for m in (0, 1, 3, 10)]  # Poisson: 3.7, 5.6, 8.8, 18.4
    [3.7, 5.7, 8.8, 18.2]
    """
    sample = _usable(sample)
    size = float(sample.counts @ sample.denominator) / sample.total
    center, e = sample.estimate * size, sample.residual
    low = center + min(float(e.min()), unseen[0]), size
    high = center + max(float(e.max()), unseen[1]), size
    limit = critical(check_level(level), sample.total) / 2
    limit += min(skewness, 1.0) ** 1.5 * max(-math.log((1 - level) / 2) - limit, 0.0)
    lower, upper = _region(sample, limit, low, high)
    flat = lower == upper
    note = NO_VARIATION if flat else "allows for units with the most extreme possible score"
    return Interval(lower, upper, level, "bounded-likelihood", note, sufficient=not flat)


def critical(level: float, total: float) -> float:
    """Quantile of F(1, N − 1), Owen's small-sample calibration; χ²₁ as N grows."""
    return float(special.stdtrit(total - 1, 0.5 + level / 2)) ** 2


def _usable(sample: Sample) -> Sample:
    bad = sample.denominator < 0
    if bad.any():
        raise DataError(f"denominator: {first_rows(bad, sample.denominator)} are negative.")
    if sample.total <= 1:
        raise UsageError("Empirical likelihood needs at least 2 independent units.")
    return sample


def _region(sample: Sample, limit: float, low: Unit | None, high: Unit | None) -> tuple[float, float]:
    """Ends of the likelihood region: log likelihood ratio up to a limit, given unseen units that may carry mass."""
    if low is None and high is None and not sample.residual.any():
        return sample.estimate, sample.estimate
    slack = limit / sample.total
    mirrored = Sample(-sample.numerator, sample.denominator, sample.count)
    lower = _upper(mirrored, slack, None if low is None else (-low[0], low[1]))
    return -lower, _upper(sample, slack, high)


def _check_range(sample: Sample, low: float | None, high: float | None) -> None:
    num, den = sample.numerator, sample.denominator
    tolerance = 1e-9 * (1 + float(np.abs(num).max()))
    if high is not None and (bad := num > high * den + tolerance).any():
        raise DataError(f"scores: {first_rows(bad, num)} are above the stated bound {high}.")
    if low is not None and (bad := num < low * den - tolerance).any():
        raise DataError(f"scores: {first_rows(bad, num)} are below the stated bound {low}.")


def _upper(sample: Sample, slack: float, unseen: Unit | None) -> float:
    """Largest θ in the likelihood region."""
    num, den = sample.numerator, sample.denominator
    theta = sample.estimate
    extra = unseen or (0.0, 0.0)
    for _ in range(50):
        ceiling = None if unseen is None else unseen[0] - theta * unseen[1]
        tilt, spare = _tilt(num - theta * den, sample.counts, slack, ceiling)
        new = (float(tilt @ num) + spare * extra[0]) / (float(tilt @ den) + spare * extra[1])
        # A mean is solved at once: the unseen unit has the size of the others.
        if sample.is_mean or abs(new - theta) <= 1e-13 * max(abs(new), abs(theta)):
            return new
        theta = new
    return theta


def _tilt(g: Floats, c: Floats, slack: float, ceiling: float | None) -> tuple[Floats, float]:
    """Weights of the distribution with the largest mean of ``g``, and the unobserved mass."""
    share = c / c.sum()
    center = float(share @ g)
    e = g - center
    peak = float(e.max())
    limit = None if ceiling is None else max(ceiling - center, peak)
    if peak <= 1e-14 * float(np.abs(g).max()):
        peak = 0.0
    if peak == 0.0:
        if limit is None or limit <= 0:
            return share, 0.0
        return share * math.exp(-slack), -math.expm1(-slack)
    # In u = 1 − λ·peak the largest unit is exact even when it takes nearly all the mass.
    gap = (peak - e) / peak

    def profile(s: float) -> tuple[float, float]:
        u = math.exp(-s)
        z = u + (1 - u) * gap
        inverse = share / z
        total = float(inverse.sum())
        value = float(share @ np.log(z)) + math.log(total) - slack
        pull = e / z
        slope = -float(share @ pull) + float((inverse / total) @ pull)
        return value, slope * u / peak

    spread = float(share @ (e * e))
    guess = min(peak * math.sqrt(2 * slack / spread), 0.9)
    upper = 1.0
    # Two or three units at a high level leave the rest a mass below e^-512, which is 0 here.
    while upper < 512 and profile(upper)[0] < 0:
        upper *= 2
    s = increasing_root(profile, 0.0, upper, min(-math.log1p(-guess), upper))
    if limit is not None and -math.expm1(-s) / peak > 1 / limit:
        z = 1 - e / limit
        tilt = share / z * math.exp(float(share @ np.log(z)) - slack)
        return tilt, max(0.0, 1 - float(tilt.sum()))
    u = math.exp(-s)
    tilt = share / (u + (1 - u) * gap)
    return tilt / tilt.sum(), 0.0


def increasing_root(
    function: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    start: float,
    *,
    tolerance: float = 1e-13,
    steps: int = 200,
) -> float:
    """Solve f(x) = 0 on [low, high] for an increasing f given as (value, derivative).

    The ends are not evaluated: when f has no sign change the search ends at the nearer end.
    """
    x = min(max(start, low), high)
    for _ in range(steps):
        value, slope = function(x)
        if value == 0:
            return x
        if value < 0:
            low = x
        else:
            high = x
        step = x - value / slope if slope > 0 else low
        # A step outside the bracket means that the local slope misleads: halve instead.
        nxt = step if low < step < high else 0.5 * (low + high)
        if abs(nxt - x) <= tolerance * max(abs(nxt), 1e-300) or high - low <= 0:
            return nxt
        x = nxt
    return x
