"""Lower bounds of a policy's value as published, from weights w and rewards in [0, 1].

With n rows, log(1/δ) = ℓ and the published settings:

* logarithmic smoothing (Sakhi et al. 2024), λ = √n:  λ (exp((mean λ log(1 + w r/λ) − λ ℓ/n)/λ) − 1)
* implicit exploration (Gabbianelli et al. 2024), λ = 2 √n:  mean r π_e/(π_b + 1/λ) − λ ℓ/(2n)
* empirical Bernstein for weights clipped at M = √n:  m − √(2 V log(2/δ)/n) − 7 M log(2/δ)/(3(n − 1))

None is below 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats


def logarithmic_smoothing(pi_e: Floats, pi_b: Floats, reward: Floats, delta: float) -> float:
    """Of the value."""
    n = len(reward)
    scale = math.sqrt(n)
    mean = float(np.log1p(pi_e / pi_b * reward / scale).mean())
    return max(0.0, scale * math.expm1(mean - math.log(1 / delta) / n))


def implicit_exploration(pi_e: Floats, pi_b: Floats, reward: Floats, delta: float) -> float:
    """Of the value."""
    n = len(reward)
    scale = 2 * math.sqrt(n)
    mean = float((pi_e / (pi_b + 1 / scale) * reward).mean())
    return max(0.0, mean - scale * math.log(1 / delta) / (2 * n))


def empirical_bernstein(pi_e: Floats, pi_b: Floats, reward: Floats, delta: float) -> float:
    """Of the value."""
    n = len(reward)
    largest = math.sqrt(n)
    x = np.minimum(pi_e / pi_b, largest) * reward
    log = math.log(2 / delta)
    half = math.sqrt(2 * log * float(x.var()) / n) + 7 * largest * log / (3 * (n - 1))
    return max(0.0, float(x.mean()) - half)


BOUNDS = {
    "logarithmic smoothing": logarithmic_smoothing,
    "implicit exploration": implicit_exploration,
    "empirical Bernstein": empirical_bernstein,
}
