"""The variance of a policy's doubly robust score, had more of a log's decisions been drawn uniformly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.evidence import two_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.scores.catalog import Estimator
    from offpolicy.scores.decisions import Decisions

#: Standard errors by which the mean weight must fall short of 1 to count as mass that the log does not cover.
SHORT = 4.0
#: Chances nearer to 0 or 1 than this are taken for it, where the spread of a reward of two values is read off them.
NEAREST = 0.01


@dataclass(frozen=True, eq=False)
class View:
    """What the variance of a policy's score depends on, row by row of a bandit log."""

    ratio: Floats
    pi_e: Floats
    pi_b: Floats
    square: Floats
    expected: Floats
    mass: Floats
    each: Floats
    open_actions: Floats
    spread_of_values: float
    spread_of_rewards: float
    uncovered: float

    def variance(self, exploration: float, *, smooth: bool = False) -> float:
        """σ² of the score of one row; ``smooth`` takes squared residuals for what the model expects of them."""
        if exploration == 0 and self.uncovered > 0:
            return math.inf
        covered = float(self.mass @ self._parts(exploration, smooth=smooth))
        missing = 0.0
        if self.uncovered > 0:
            missing = self.uncovered * float(self.mass @ self.open_actions) / exploration
        return self.spread_of_values + covered + missing * self.spread_of_rewards

    def uncertainty(self, exploration: float) -> float:
        """Standard error of the root of the variance, as a share of it; NaN where part of it is no measurement."""
        total = self.variance(exploration, smooth=True)
        if not 0 < total < math.inf or self.uncovered > 0:
            return math.nan
        parts = self._parts(exploration, smooth=True)
        apart = parts - float(self.mass @ parts)
        return 0.5 * math.sqrt(float((self.mass * self.each) @ apart**2)) / total

    def _parts(self, exploration: float, *, smooth: bool) -> Floats:
        mixed = (1 - exploration) * self.pi_b + exploration / self.open_actions
        return self.ratio * self.pi_e / mixed * (self.expected if smooth else self.square)


def view_of(ev: Evaluation, policy: str, *, whole: bool) -> View:
    """What the log shows of a policy; ``whole`` where it answers for it, so that nothing is uncovered."""
    target = ev.targets[policy]
    d = ev.problem.decisions(target, _scored(ev.estimators))
    mass = np.ones(d.n) if d.weight is None else d.weight
    mass = mass / mass.sum()
    each = mass if d.count is None else mass / d.count
    log = ev.problem.log
    k = float(len(log.actions))
    opened = np.full(d.n, k) if log.eligible is None else log.eligible.sum(axis=1).astype(float)
    weight = float(mass @ d.ratio)
    error = math.sqrt(float((mass * each) @ (d.ratio - weight) ** 2))
    short = 1 - weight
    known = 0.0 if whole else ev.problem.reach(target).forbidden_share
    if known is None:
        known = short if short > SHORT * error or weight == 0 or _never_random(d.pi_b) else 0.0
    square = (d.reward - d.q) ** 2
    mean_v, mean_r = float(mass @ d.v), float(mass @ d.reward)
    return View(
        d.ratio,
        d.pi_e,
        d.pi_b,
        square,
        _expected(d, square, mass),
        mass,
        each,
        opened,
        float(mass @ (d.v - mean_v) ** 2),
        float(mass @ (d.reward - mean_r) ** 2),
        max(0.0, float(known)),
    )


def _expected(d: Decisions, square: Floats, mass: Floats) -> Floats:
    """Squared residuals that the model expects: of few rows with large weights the seen ones say little.

    A reward of two values that has chance p of the higher one has variance p (1 − p) times their distance squared. This
    is scaled so that its mean over the policy's decisions is that of the squared residuals. Other rewards stay as seen.
    """
    ends = two_values(d.reward)
    if ends is None or ends[0] == ends[1]:
        return square
    chance = np.clip((d.q - ends[0]) / (ends[1] - ends[0]), NEAREST, 1 - NEAREST)
    spread = chance * (1 - chance)
    weight = mass * d.ratio
    meant = float(weight @ spread)
    return np.asarray(spread * (float(weight @ square) / meant)) if meant > 0 else square


def _never_random(pi_b: Floats) -> bool:
    return bool((pi_b >= 1).all())


def _scored(estimators: Sequence[Estimator]) -> Estimator:
    """The estimator whose predictions of q and v stand for those of the headline: cross-fitted, with a model."""
    able = [
        e for e in estimators if {"value", "behavior"} <= set(e.needs) and e.split == "crossfit"
    ]
    if not able:
        raise UsageError("advise needs a cross-fitted doubly robust estimator, such as DML.")
    return next((e for e in able if e.emphasis is None), able[0])


def randomness(ev: Evaluation) -> float:
    """E[1 − π_b(A|S)]: how often a second draw differs."""
    d = ev.problem.decisions(next(iter(ev.targets.values())), _scored(ev.estimators))
    mass = np.ones(d.n) if d.weight is None else d.weight
    return float(mass @ (1 - d.pi_b) / mass.sum())
