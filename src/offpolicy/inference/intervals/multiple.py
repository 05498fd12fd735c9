"""Several policies at once: simultaneous intervals, adjusted p-values, and who is best.

Row g of the joint influence matrix Φ (G, P) holds the influence of unit g on each of P estimates,
so that θ̂ − θ ≈ Σ c Φ_g / N with covariance Σ = Σ c Φ_g Φ_gᵀ / N². The Gaussian multiplier
bootstrap of the largest |t| statistic (Chernozhukov, Chetverikov & Kato 2013) draws Σ √c_g ξ_g
Φ_g / N, which given the data is exactly N(0, Σ): it is drawn from Σ directly, and its cost does
not depend on the number of units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.intervals.sample import Floats, Interval, check_level, column
from offpolicy.policies.target import LOGGING_POLICY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


def simultaneous(
    estimates: ArrayLike, cov: ArrayLike, level: float = 0.95, *, draws: int = 20_000, seed: int = 0
) -> list[Interval]:
    """Intervals that cover all estimands together with probability ``level`` (max-t).

    >>> one = simultaneous([0.0], [[1.0]])[0].high
    >>> two = simultaneous([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])[0].high
    >>> abs(one - 1.96) < 0.03, abs(two - 2.236) < 0.04
    (True, True)
    """
    check_level(level)
    theta, sigma = _joint(estimates, cov)
    errors = np.sqrt(np.diag(sigma))
    maxima = np.abs(_standard_draws(sigma, draws, seed)).max(axis=1)
    factor = float(np.quantile(maxima, level))
    note = f"simultaneous over {len(theta)} estimates; critical value {factor:.3f}"
    return [
        Interval(float(t - factor * e), float(t + factor * e), level, "max-t", note)
        for t, e in zip(theta, errors, strict=True)
    ]


def adjusted_p_values(estimates: ArrayLike, cov: ArrayLike, *, draws: int = 20_000, seed: int = 0) -> Floats:
    """Two-sided step-down max-t p-values of values of 0 (Romano & Wolf 2005): family-wise error controlled.

    Parameters
    ----------
    estimates, cov : arrays of shape (P,) and (P, P)
        Estimates and their joint covariance.
    draws, seed : int
        Number of multiplier draws and their seed.

    Examples
    --------
    >>> p = adjusted_p_values([4.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> bool(p[0] < 0.001), bool(0.28 < p[1] < 0.36)
    (True, True)
    """
    theta, sigma = _joint(estimates, cov)
    errors = np.sqrt(np.diag(sigma))
    if not (errors > 0).all():
        raise DataError("an estimate has variance 0, so it has no test statistic.")
    t, z = np.abs(theta / errors), np.abs(_standard_draws(sigma, draws, seed))
    order = np.argsort(-t)
    adjusted = np.empty(len(t))
    largest = 0.0
    for position, j in enumerate(order):
        # Hypotheses already rejected leave the family; p-values never decrease down the list.
        maxima = z[:, order[position:]].max(axis=1)
        largest = max(largest, (1 + float((maxima >= t[j]).sum())) / (1 + draws))
        adjusted[j] = largest
    return adjusted


CURRENT = "the current policy"


@dataclass(frozen=True)
class BestPolicy:
    """Which policies can still be the best one.

    Attributes
    ----------
    names : tuple of str
        Policies that no other policy beats significantly; holds the best one with probability
        ``level``.
    leader : str
        Policy with the largest estimate.
    level : float
        1 − the rate at which the best policy is left out of ``names``.
    margin : float
        Simultaneous lower limit of the leader's advantage over the best of the others; negative, and not more
        exact than that, where another is within a standard error of it.
    unjudged : tuple of str
        Policies on which there is not enough evidence to say anything; they are not among ``names``.
    """

    names: tuple[str, ...]
    leader: str
    level: float
    margin: float
    unjudged: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether a single policy is left, and the log could judge all of them."""
        return len(self.names) == 1 and not self.unjudged

    @property
    def statement(self) -> str:
        """The finding as a sentence, with its error rate."""
        error = f"{100 * (1 - self.level):.3g}% error rate"
        if not self.names:
            return "There is not enough evidence about any of the policies."
        names = [_called(name) for name in self.names]
        unknown = ""
        if self.unjudged:
            unknown = f" There is not enough evidence about {', '.join(self.unjudged)}."
        if len(names) == 1:
            among = " of the policies with enough evidence" if unknown else " policy"
            who = names[0] if self.names[0] == self.leader else self.leader
            start = "The current policy" if who == CURRENT else who
            return f"{start} is the best{among} ({error}).{unknown}"
        if len(names) == 2:
            return f"Either {names[0]} or {names[1]} is best; the log cannot tell them apart ({error}).{unknown}"
        some = f"{', '.join(names[:-1])} or {names[-1]}"
        return f"The best policy is {some}; the log cannot tell them apart ({error}).{unknown}"


def _called(name: str) -> str:
    return CURRENT if name == LOGGING_POLICY else name


def best_policy(
    names: Sequence[str],
    estimates: ArrayLike,
    cov: ArrayLike,
    level: float = 0.95,
    *,
    draws: int = 20_000,
    seed: int = 0,
) -> BestPolicy:
    """Find the policies that may be the best, by max-t over all ordered pairs.

    All P(P − 1) one-sided differences share one critical value, so that the claim "k is worse than
    j" is wrong for any pair with probability at most 1 − level, however the leader was picked.

    >>> b = best_policy(["a", "b", "c"], [0.0, 5.0, 4.5], np.eye(3) * 0.25)
    >>> b.names, b.settled
    (('b', 'c'), False)
    """
    check_level(level)
    theta, sigma = _joint(estimates, cov)
    number = len(theta)
    if len(names) != number:
        raise UsageError(f"{len(names)} names for {number} estimates.")
    leader = int(np.argmax(theta))
    if number == 1:
        return BestPolicy(tuple(names), names[0], level, math.inf)
    factor = float(np.quantile(largest_gap(sigma, draws=draws, seed=seed), level))
    low = theta[:, None] - theta - factor * gap_errors(sigma)
    beaten = np.asarray((low > 0).any(axis=0))
    margin = float(np.delete(low[leader], leader).min())
    unbeaten = tuple(str(names[k]) for k in range(number) if not beaten[k])
    return BestPolicy(unbeaten, str(names[leader]), level, margin)


def gap_errors(sigma: Floats) -> Floats:
    """(P, P) standard errors of the differences of all pairs."""
    d = np.diag(sigma)
    return np.sqrt(np.maximum(d[:, None] + d - 2 * sigma, 0.0))


def largest_gap(sigma: Floats, *, degrees: float | None = None, draws: int = 20_000, seed: int = 0) -> Floats:
    """Draws of the largest t statistic of the differences of all ordered pairs.

    Drawn among the P estimates, so that no matrix of all pairs is needed.
    """
    errors = gap_errors(sigma)
    live = errors > 1e-12 * errors.max()
    scale = np.where(live, errors, np.inf)
    z = _draws(sigma, draws, seed)
    largest = np.zeros(draws)
    for k in range(len(sigma)):
        np.maximum(largest, ((z[:, [k]] - z) / scale[k]).max(axis=1), out=largest)
    return largest / _shrink(degrees, draws, seed)


def largest_t(sigma: Floats, *, degrees: float | None = None, draws: int = 20_000, seed: int = 0) -> Floats:
    """Draws of the largest |t| of several estimates; Student's with ``degrees`` of freedom.

    >>> bool(2.1 < np.quantile(largest_t(np.eye(2)), 0.95) < 2.4)
    True
    """
    largest = np.abs(_standard_draws(sigma, draws, seed)).max(axis=1)
    return np.asarray(largest / _shrink(degrees, draws, seed))


def _shrink(degrees: float | None, draws: int, seed: int) -> Floats:
    """√(χ²/ν): what the estimated variances of few units add to every t statistic at once."""
    if degrees is None:
        return np.ones(draws)
    rng = np.random.default_rng([seed, 1])
    return np.asarray(np.sqrt(rng.chisquare(degrees, draws) / degrees))


def _joint(estimates: ArrayLike, cov: ArrayLike) -> tuple[Floats, Floats]:
    theta = column("estimates", estimates)
    sigma = np.asarray(cov, dtype=np.float64)
    if sigma.shape != (len(theta), len(theta)) or not np.isfinite(sigma).all():
        raise DataError(f"the covariance of {len(theta)} estimates has shape {sigma.shape}.")
    return theta, sigma


def _standard_draws(sigma: Floats, draws: int, seed: int) -> Floats:
    """Draws of the t statistics; a coordinate without variance is always 0."""
    errors = np.sqrt(np.maximum(np.diag(sigma), 0.0))
    live: NDArray[np.bool_] = errors > 1e-12 * errors.max()
    scale = np.where(live, errors, 1.0)
    return _draws(np.where(np.outer(live, live), sigma / np.outer(scale, scale), 0.0), draws, seed)


def _draws(sigma: Floats, draws: int, seed: int) -> Floats:
    """(draws, P) normal draws with covariance ``sigma``."""
    if draws < 1:
        raise UsageError(f"The 'draws' parameter must be at least 1. Got {draws}.")
    values, vectors = np.linalg.eigh(sigma)
    # Identical policies make the matrix singular, so its square root comes from eigenvectors.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal((draws, len(sigma))) @ root.T, dtype=np.float64)
