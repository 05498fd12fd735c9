"""Sensitivity to unobserved confounding: how wrong π_b would have to be to overturn the comparison.

Marginal sensitivity model (Tan 2006): the true odds of the logged action differ from the modeled odds by a factor of
at most Γ. With e = π_b(A|S) and Q the Γ/(1 + Γ) quantile of the reward given context and action, the largest value
is (Dorn and Guo 2022; Dorn, Guo and Kallus 2024)

    E[ π_e R + π_e (1/e − 1) H ],     H = Q + Γ^{sign(R − Q)} (R − Q),

and the smallest has 1/Γ in place of Γ and the 1/(1 + Γ) quantile. Any other Q gives wider bounds, never wrong ones.
For rewards of two values Q is one of them, H is ΓR or 1 − (1 − R)/Γ in units of their distance, whichever is less, and
the bounds are sharp. Each bound is the mean of a score, and so has an interval. With h(s, a) = E[H | s, a] the score

    π_e(A) R + Σ_{a ≠ A} π_e(a) h(S, a) + π_e(A) (1/e − 1) (H − h(S, A))

has the same mean, and errors of a fitted π_b cancel to first order where h is right; here h is the straight line in the
reward model's q that fits H best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arrays import quantiles
from offpolicy.inference.intervals.evidence import two_values
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged
from offpolicy.trust.view import labels

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.inference.estimate import Estimate
    from offpolicy.trust.view import View

GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
LARGEST = 20.0
LEVEL = 0.95


def worst_reward(reward: Floats, cut: Floats, gamma: float) -> Floats:
    """H: what rewards unseen under another action may be worth at most; at least with 1/``gamma``.

    >>> worst_reward(np.array([0.0, 1.0]), np.array([0.0, 0.0]), 2.0).tolist()
    [0.0, 2.0]
    >>> worst_reward(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 2.0).tolist()
    [0.5, 1.0]
    """
    off = reward - cut
    return np.asarray(cut + np.where(off > 0, gamma, 1.0 / gamma) * off)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What the bounds of one policy are made from: one entry per unit."""

    view: View
    levels: tuple[float, float] | None

    @classmethod
    def of(cls, view: View) -> Sensitivity:
        """The bounds of a policy on single decisions."""
        ends = two_values(view.decisions.reward)
        return cls(view, ends if ends is not None and ends[0] < ends[1] else None)

    def bound(self, gamma: float) -> Estimate:
        """Largest value when odds may be off by ``gamma``; with 1/``gamma`` the smallest."""
        return self.view.estimate(self.scores(gamma))

    def scores(self, gamma: float) -> Floats:
        """(N,) the scores whose mean is the bound."""
        view, d = self.view, self.view.decisions
        other = worst_reward(d.reward, self._cut(gamma), gamma)
        psi = d.pi_e * (d.reward + (1.0 / d.pi_b - 1.0) * other)
        if not view.has_model:
            mean, weight = view.units.mean(view.weight), view.weight
            level = view.units.mean(psi) / mean
            return np.asarray(level + (psi - level * weight) / mean)
        # The means of v − w q and 1 − w are 0, and take away what the reward model knows of H.
        slope, level = line(d.q, other, view.mass * d.pi_e * (1.0 / d.pi_b - 1.0))
        return np.asarray(psi + slope * (d.v - d.ratio * d.q) + level * (1.0 - d.ratio))

    def ends(self, gamma: float, level: float = LEVEL) -> tuple[float, float]:
        """Interval that holds the value with probability ``level``, if odds are off by at most ``gamma``.

        An end for which the evidence is too thin is infinite.
        """
        return _end(self.bound(1.0 / gamma), level, "low"), _end(self.bound(gamma), level, "high")

    def difference(self, gamma: float, level: float = LEVEL) -> tuple[float, float]:
        """The same for the difference to the logged value."""
        low, high = self.gap(1.0 / gamma), self.gap(gamma)
        return _end(low, level, "low"), _end(high, level, "high")

    def gap(self, gamma: float) -> Estimate:
        """`bound` less the logged value."""
        return self.view.estimate(self.scores(gamma) - self.view.decisions.reward)

    def _cut(self, gamma: float) -> Floats:
        """Q at each unit: the quantile of its reward at the level Γ/(1 + Γ)."""
        d, level = self.view.decisions, gamma / (1.0 + gamma)
        if self.levels is not None:
            least, most = self.levels
            q = d.q if self.view.has_model else self.view.units.mean(d.reward)
            high = np.broadcast_to((q - least) / (most - least) > 1.0 - level, d.reward.shape)
            return np.where(high, most, least)
        center = d.q if self.view.has_model else np.zeros(len(d.reward))
        shift = quantiles(d.reward - center, (level,), self.view.mass)[0]
        return np.asarray(center + shift)


def line(x: Floats, y: Floats, mass: Floats) -> tuple[float, float]:
    """Slope and level of the straight line that fits y best; level alone where x is the same everywhere.

    >>> line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), np.ones(3))
    (2.0, 1.0)
    """
    total = float(mass.sum())
    if not total > 0:
        return 1.0, 0.0
    middle, height = float(mass @ x) / total, float(mass @ y) / total
    spread = float(mass @ (x - middle) ** 2)
    same = spread <= 1e-20 * total * (1.0 + middle * middle)
    slope = 0.0 if same else float(mass @ ((x - middle) * (y - height))) / spread
    return slope, height - slope * middle


def _end(bound: Estimate, level: float, side: Literal["low", "high"]) -> float:
    """One end of a bound's interval by the rules of any estimate; infinite where they refuse."""
    interval = bound.interval(level)
    if not interval.sufficient:
        return -math.inf if side == "low" else math.inf
    return interval.low if side == "low" else interval.high


def breaking_point(bounds: Sensitivity) -> float:
    """Smallest Γ at which the difference to the logged value may be 0; infinite beyond 20."""
    as_it_is = bounds.gap(1.0).interval(LEVEL)
    if not as_it_is.sufficient or as_it_is.covers(0.0):
        return 1.0
    # The bounds move apart as Γ grows: only the one on the side of 0 can come to reach it.
    above = as_it_is.low > 0

    def holds(gamma: float) -> bool:
        if above:
            return _end(bounds.gap(1.0 / gamma), LEVEL, "low") <= 0
        return _end(bounds.gap(gamma), LEVEL, "high") >= 0

    if not holds(LARGEST):
        return math.inf
    low, high = 1.0, LARGEST
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def finding(view: View) -> Finding:
    """Γ at which the difference to the logging policy could vanish."""
    name = "confounding"
    bounds = Sensitivity.of(view)
    details: dict[str, Any] = {"curve": [_point(bounds, g) for g in GAMMAS]}
    gamma = breaking_point(bounds)
    if gamma == 1:
        why = "the difference from the logged value may be 0 anyway, so a hidden cause has nothing to explain."
        return Finding(name, math.nan, "ok", why, "", details)
    much = f"{gamma:.3g}" if math.isfinite(gamma) else f"more than {LARGEST:g}"
    sentence = (
        f"an unobserved cause that changes the odds of the logged action by a factor {much} could explain "
        "the whole difference from the logged value."
    )
    return judged(name, gamma, sentence, details)


def _point(bounds: Sensitivity, gamma: float) -> dict[str, float]:
    high = bounds.bound(gamma)
    low = bounds.bound(1.0 / gamma) if gamma > 1 else high
    return {
        "gamma": gamma,
        "low": low.value,
        "high": high.value,
        "interval_low": _end(low, LEVEL, "low"),
        "interval_high": _end(high, LEVEL, "high"),
    }


def why_not(view: View) -> str:
    """Why a hidden cause is not looked for; empty where it is."""
    if view.behavior_is_known:
        return "propensities were logged, so no unobserved cause can have decided the action."
    return "" if view.weight.any() else "there is no overlap."


CHECKS = (
    Check(
        "confounding",
        Threshold(
            1.5, -math.inf, "below",
            "Log true propensities, or add whatever else decided the action to the context.",
            advice=True,
        ),
        policy=finding, applies=lambda view: labels(view) or why_not(view),
        singly="the bound is for single decisions, not for episodes.",
        topic=Topic("An unrecorded cause of the actions could overturn the answer."),
        value="factor Γ by which π_b may be wrong before the difference from the logged value could vanish",
    ),
)  # fmt: skip
