"""Sensitivity to unobserved confounding: how wrong π_b would have to be to overturn the comparison.

Marginal sensitivity model (Tan 2006; Zhao, Small and Bhattacharya 2019): the true odds of the logged
action differ from the modeled odds by a factor of at most Γ, so that the inverse probability lies in

    1 + (1/π_b − 1)/Γ  ≤  1/π  ≤  1 + (1/π_b − 1)·Γ.

The self-normalized estimate Σ w r / Σ w over all weights w = π_e/π in that box is a linear-fractional
program, whose solution gives the upper end to rewards above a cut and the lower end to those below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import levels
from offpolicy.trust.finding import Finding, judged, not_applicable

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.trust.view import View

GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
LARGEST = 20.0


def sensitivity_bounds(
    reward: Floats, pi_e: Floats, pi_b: Floats, mass: Floats, gamma: float
) -> tuple[float, float]:
    """Smallest and largest self-normalized value when odds may be off by a factor ``gamma``.

    Examples
    --------
    >>> r, half = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    >>> sensitivity_bounds(r, np.ones(2), half, np.ones(2), 1.0)
    (0.5, 0.5)
    >>> low, high = sensitivity_bounds(r, np.ones(2), half, np.ones(2), 2.0)
    >>> round(low, 3), round(high, 3)
    (0.333, 0.667)
    """
    return RewardLevels.of(reward, pi_e, pi_b, mass).bounds(gamma)


@dataclass(frozen=True, eq=False)
class RewardLevels:
    """Sums of m π_e and of m π_e (1/π_b − 1) at each different reward, in order: all that a bound needs.

    The weights that make the value largest are large from some reward on, so that rows of one reward go
    together.
    """

    reward: Floats
    base: Floats
    odds: Floats

    @classmethod
    def of(cls, reward: Floats, pi_e: Floats, pi_b: Floats, mass: Floats) -> RewardLevels:
        """Sums over rows."""
        positive = (pi_e > 0) & (mass > 0)
        distinct, place = levels(reward[positive])
        base = mass[positive] * pi_e[positive]
        odds = base * (1.0 / pi_b[positive] - 1.0)
        sums = (np.bincount(place, weights=x, minlength=len(distinct)) for x in (base, odds))
        return cls(distinct, *(x.astype(np.float64) for x in sums))

    def bounds(self, gamma: float) -> tuple[float, float]:
        """Smallest and largest value when odds may be off by a factor ``gamma``."""
        small, large = self.base + self.odds / gamma, self.base + self.odds * gamma
        return float(self._values(large, small).min()), float(self._values(small, large).max())

    def _values(self, up: Floats, down: Floats) -> Floats:
        """Value with ``up`` on the first k rewards and ``down`` on the rest, for every k."""

        def mixed(first: Floats, rest: Floats) -> Floats:
            gained, lost = (np.append(0.0, np.cumsum(x)) for x in (first, rest))
            return np.asarray(gained + rest.sum() - lost)

        return np.asarray(mixed(up * self.reward, down * self.reward) / mixed(up, down))


def breaking_point(rewards: RewardLevels, null: float) -> float:
    """Smallest Γ whose bounds contain ``null``; infinite beyond 20."""

    def holds(gamma: float) -> bool:
        low, high = rewards.bounds(gamma)
        return low <= null <= high

    if holds(1.0):
        return 1.0
    if not holds(LARGEST):
        return math.inf
    low, high = 1.0, LARGEST
    while high - low > 1e-3:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def finding(view: View) -> Finding:
    """Γ at which the difference to the logging policy could vanish."""
    name = "confounding"
    d = view.decisions
    if not d.layout.is_single:
        return not_applicable(name, "the bound is for single decisions, not for episodes.")
    if not view.weight.any():
        return not_applicable(name, "there is no overlap.")
    logged = view.units.mean(d.reward)
    rewards = RewardLevels.of(d.reward, d.pi_e, d.pi_b, view.mass)
    gamma = breaking_point(rewards, logged)
    curve = [
        {"gamma": g, "low": low, "high": high} for g in GAMMAS for low, high in (rewards.bounds(g),)
    ]
    details = {"curve": curve, "null": logged}
    much = f"{gamma:.3g}" if math.isfinite(gamma) else f"more than {LARGEST:g}"
    if view.behavior_is_known:
        sentence = (
            "propensities were logged, so nothing unobserved can have decided the action; were their odds "
            f"off by a factor {much}, the difference to the logged value could be 0."
        )
        return judged(name, gamma, sentence, details, at_most="ok")
    sentence = (
        f"an unobserved cause that changes the odds of the logged action by a factor {much} could explain "
        "the whole difference to the logged value."
    )
    return judged(name, gamma, sentence, details)
