"""One-sided lower bounds of a mean of non-negative units, each valid at any sample size.

All three take z ≥ 0 with E[z] = m and give a number that lies above m with probability at most ``rate``.

* *Logarithmic smoothing*: E ∏ (1 + λ zᵢ)/(1 + λ m) = 1 for any λ ≥ 0, so by Markov's inequality a mean that
  makes this product, averaged over a fixed set of λ, larger than 1/rate is ruled out. (With one λ and
  log(1 + λ m) ≤ λ m this is the bound of Sakhi, Aouali, Alquier and Chopin 2024.)
* *Implicit exploration*: with p + γ in place of p in the weights, the estimate exceeds m by more than
  log(1/rate) / (2 γ n) with probability at most ``rate`` (Neu 2015).
* *Empirical Bernstein* (Maurer and Pontil 2009), for units in [0, ``high``].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

#: Shares of the largest bet, λ m / (1 + λ m), that the smoothed bound averages over.
BETS = np.append(np.geomspace(1e-4, 0.6, 11), 0.9)
HALVINGS = 60


def smoothed(z: Floats, rate: float, count: Floats | None = None) -> float:
    """Lower bound by logarithmic smoothing, averaged over how strongly to smooth.

    >>> round(smoothed(np.array([0.0, 1.0]), 0.05, np.array([500.0, 500.0])), 2)
    0.45
    """
    count = np.ones(len(z)) if count is None else count
    different, place = np.unique(z, return_inverse=True)
    mass = np.asarray(np.bincount(place, weights=count), dtype=np.float64)
    mean = float(mass @ different) / float(mass.sum())
    if mean <= 0:
        return 0.0
    wanted = math.log(1 / rate)
    low, high = 0.0, mean
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _evidence_against(middle, different, mass) >= wanted:
            low = middle
        else:
            high = middle
    return low


def _evidence_against(mean: float, z: Floats, mass: Floats) -> float:
    """Logarithm of the averaged product if the mean were ``mean``: 1 + c (z/m − 1) is (1 + λz)/(1 + λm)."""
    if mean <= 0:
        return math.inf
    products = np.array([mass @ np.log1p(c * (z / mean - 1)) for c in BETS])
    top = float(products.max())
    return top + math.log(float(np.exp(products - top).mean()))


def explored(
    reward: Floats, pi_e: Floats, pi_b: Floats, rate: float, count: Floats | None = None
) -> float:
    """Lower bound of a value with rewards ≥ 0 by implicit exploration, γ = √(log(1/rate)/(2n)).

    >>> x = np.ones(1000)
    >>> 0.9 < explored(x, x, x, 0.05) < 1
    True
    """
    count = np.ones(len(reward)) if count is None else count
    n = float(count.sum())
    gamma = math.sqrt(math.log(1 / rate) / (2 * n))
    estimate = float(count @ (reward * pi_e / (pi_b + gamma))) / n
    return max(0.0, estimate - math.log(1 / rate) / (2 * gamma * n))


def bernstein(z: Floats, rate: float, high: float, count: Floats | None = None) -> float:
    """Lower bound for units in [0, high].

    >>> bernstein(np.array([0.0, 1.0]), 0.05, 1.0, np.array([500.0, 500.0])) < 0.5
    True
    """
    count = np.ones(len(z)) if count is None else count
    n = float(count.sum())
    mean = float(count @ z) / n
    variance = float(count @ (z - mean) ** 2) / (n - 1)
    term = math.log(2 / rate)
    return max(0.0, mean - math.sqrt(2 * variance * term / n) - 7 * high * term / (3 * (n - 1)))
