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

    from offpolicy._arrays import Floats, Ints
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.scores.catalog import Estimator
    from offpolicy.scores.decisions import Decisions

#: Standard errors by which the mean weight must fall short of 1 to count as mass that the log does not cover.
SHORT = 4.0
#: Chances nearer to 0 or 1 than this are taken for it, where the spread of a reward of two values is read off them.
NEAREST = 0.01


@dataclass(frozen=True, eq=False)
class Terms:
    """What squared residuals add to the variance: Σ share · π_e/π_b · square.

    Attributes
    ----------
    row : (m,) array
        Row of the log that a term belongs to.
    share : (m,) array
        Mass of the row times the chance that the policy takes the action; of a taken action, times its weight.
    pi_e, pi_b, square : (m,) arrays
        Of the action.
    """

    row: Ints
    share: Floats
    pi_e: Floats
    pi_b: Floats
    square: Floats


@dataclass(frozen=True, eq=False)
class View:
    """What the variance of a policy's score depends on, row by row of a bandit log.

    Attributes
    ----------
    seen : Terms
        Of the actions that were taken, with their own residuals.
    meant : Terms
        With the residuals that the model expects, where it says, and of both actions of a row that has two.
    calibration : float
        Standard error of the mean of the expected ones, as a share of it.
    mass, count, open_actions : (n,) arrays
        Mass of each row in means (sum 1), rows that it stands for, and actions that were open.
    spread_of_values, spread_of_rewards : float
    uncovered : float
        Share of the policy's decisions that the log holds nothing about.
    """

    seen: Terms
    meant: Terms
    calibration: float
    mass: Floats
    count: Floats
    open_actions: Floats
    spread_of_values: float
    spread_of_rewards: float
    uncovered: float

    def variance(self, exploration: float, *, smooth: bool = False) -> float:
        """σ² of the score of one row; ``smooth`` takes squared residuals for what the model expects of them."""
        if exploration == 0 and self.uncovered > 0:
            return math.inf
        covered = float(self._parts(self.meant if smooth else self.seen, exploration).sum())
        missing = 0.0
        if self.uncovered > 0:
            missing = self.uncovered * float(self.mass @ self.open_actions) / exploration
        return self.spread_of_values + covered + missing * self.spread_of_rewards

    def uncertainty(self, exploration: float) -> float:
        """Standard error of the root of the variance, as a share of it; NaN where part of it is no measurement."""
        total = self.variance(exploration, smooth=True)
        if not 0 < total < math.inf or self.uncovered > 0:
            return math.nan
        parts = np.bincount(self.meant.row, self._parts(self.meant, exploration), minlength=len(self.mass))
        covered = float(parts.sum())
        error = math.sqrt(float(((parts - self.mass * covered) ** 2 / self.count).sum()))
        return 0.5 * math.hypot(error, self.calibration * covered) / total

    def luck(self, exploration: float) -> float:
        """√n times the standard deviation of the root of the variance that a log of n rows shows, as a share of it."""
        total = self.variance(exploration, smooth=True)
        if not 0 < total < math.inf or self.uncovered > 0:
            return math.nan
        ratio = self._ratio(self.seen, exploration)
        fourth = float((self.seen.share * ratio**3 * self.seen.square**2).sum())
        second = float((self.seen.share * ratio * self.seen.square).sum())
        return 0.5 * math.sqrt(max(fourth - second**2, 0.0)) / total

    def _parts(self, terms: Terms, exploration: float) -> Floats:
        return np.asarray(terms.share * self._ratio(terms, exploration) * terms.square)

    def _ratio(self, terms: Terms, exploration: float) -> Floats:
        """π_e/π_b', had a share of the decisions been drawn uniformly."""
        even = exploration / self.open_actions[terms.row]
        return np.asarray(terms.pi_e / ((1 - exploration) * terms.pi_b + even))


def view_of(ev: Evaluation, policy: str, *, whole: bool) -> View:
    """What the log shows of a policy; ``whole`` where it answers for it, so that nothing is uncovered."""
    target = ev.targets[policy]
    d = ev.problem.decisions(target, scored(ev.estimators))
    mass, count = d.mass / d.mass.sum(), d.count
    log = ev.problem.log
    k = float(len(log.actions))
    opened = np.full(d.n, k) if log.eligible is None else log.eligible.sum(axis=1).astype(float)
    weight = float(mass @ d.ratio)
    error = math.sqrt(float((mass**2 / count) @ (d.ratio - weight) ** 2))
    short = 1 - weight
    known = 0.0 if whole else ev.problem.reach(target).forbidden_share
    if known is None:
        known = short if short > SHORT * error or weight == 0 or _never_random(d.pi_b) else 0.0
    mean_v, mean_r = float(mass @ d.v), float(mass @ d.reward)
    seen = Terms(np.arange(d.n), mass * d.ratio, d.pi_e, d.pi_b, (d.reward - d.q) ** 2)
    meant, calibration = _expected(d, seen, mass, count, opened)
    return View(
        seen,
        meant,
        calibration,
        mass,
        count,
        opened,
        float(mass @ (d.v - mean_v) ** 2),
        float(mass @ (d.reward - mean_r) ** 2),
        max(0.0, float(known)),
    )


def _expected(d: Decisions, seen: Terms, mass: Floats, count: Floats, opened: Floats) -> tuple[Terms, float]:
    """Terms with squared residuals that the model expects: of few rows with large weights the seen ones say little.

    A reward of two values that has chance p of the higher one has variance p (1 − p) times their distance squared. This
    is scaled so that its mean over the rows whose action the policy might take is that of the squared residuals. Other
    rewards stay as seen. Which of two actions was taken is chance as well, with known odds: such rows have a term for
    both.
    """
    ends = two_values(d.reward)
    if ends is None or ends[0] == ends[1]:
        return seen, 0.0
    might = np.where(d.pi_e > 0, mass, 0.0)
    spread = _spread(d.q, ends)
    meant = float(might @ spread)
    if meant <= 0:
        return seen, 0.0
    scale = float(might @ seen.square) / meant
    off = might * (seen.square - scale * spread)
    error = math.sqrt(float((off**2 / count).sum())) / (scale * meant) if scale > 0 else 0.0
    single = seen.share * (opened != 2)
    both = np.flatnonzero((opened == 2) & (d.pi_b < 1))
    other_e = 1 - d.pi_e[both]
    # v = π_e q + (1 − π_e) q', where q' is the model's answer for the action that was not taken.
    other_q = (d.v - d.pi_e * d.q)[both] / np.where(other_e > 0, other_e, 1.0)
    rows = np.concatenate([np.arange(d.n), both])
    share = np.concatenate([np.where(opened == 2, mass * d.pi_e, single), mass[both] * other_e])
    pi_e = np.concatenate([d.pi_e, other_e])
    pi_b = np.concatenate([d.pi_b, 1 - d.pi_b[both]])
    squares = scale * np.concatenate([spread, _spread(other_q, ends)])
    return Terms(rows, share, pi_e, pi_b, squares), error


def _spread(q: Floats, ends: tuple[float, float]) -> Floats:
    """The variance p (1 − p) of a chance p of the higher value."""
    chance = np.clip((q - ends[0]) / (ends[1] - ends[0]), NEAREST, 1 - NEAREST)
    return np.asarray(chance * (1 - chance))


def _never_random(pi_b: Floats) -> bool:
    return bool((pi_b >= 1).all())


def scored(estimators: Sequence[Estimator]) -> Estimator:
    """The estimator whose q and v stand for those of the headline: cross-fitted with a model; DML where it is there."""
    able = [e for e in estimators if {"value", "behavior"} <= set(e.needs) and e.split == "crossfit"]
    if not able:
        raise UsageError("advise needs a cross-fitted doubly robust estimator, such as DML.")
    plain = [e for e in able if e.emphasis is None]
    return next((e for e in plain if e.linear_in_reward), (plain or able)[0])


def randomness(ev: Evaluation) -> float:
    """E[1 − π_b(A|S)]: how often a second draw differs."""
    d = ev.problem.decisions(next(iter(ev.targets.values())), scored(ev.estimators))
    return float(d.mass @ (1 - d.pi_b) / d.mass.sum())
