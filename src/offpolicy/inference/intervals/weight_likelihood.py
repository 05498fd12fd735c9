"""Empirical likelihood of an importance-weighted value with known ranges of weight and reward.

The region holds every value E_P[w r] of a distribution P on [0, w_max] × [r_min, r_max] that
respects E_P[w] = 1 and whose likelihood is at least exp(−crit/2) of the best such P
(Karampatziakis, Langford & Mineiro 2020, "Empirical likelihood for contextual bandits"; the
likelihood member of the Cressie–Read family). P may put mass where nothing was seen, so a sample
without large weights does not fool it. By duality the upper end is a convex problem in two
non-negative numbers, with y = w (r_max − r):

    d = a (1 − w/w_max) + b w/w_max + y
    upper = r_max + min_{a,b ≥ 0} a (1 − 1/w_max) + b/w_max − exp(mean log d − M − crit/2N)

where M = max_β mean log(1 + β(w − 1)) is the cost of E_P[w] = 1 alone. The lower end mirrors r.

The convex program in two non-negative numbers behind the weight-range likelihood.

    minimize f(a, b) = A a + B b − exp(mean log d − cost),    d = a p + b q + y,    a, b ≥ 0

f is convex (a geometric mean is concave) and coercive. Newton's method with exact stops at the axes
solves it in a few passes over the data. When the result fails the optimality conditions, which
happens with a handful of units, nested bisection on the two monotone partial derivatives does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.inference.intervals.likelihood import critical, increasing_root
from offpolicy.inference.intervals.sample import Floats, Interval, check_level, column, frequencies

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from offpolicy.inference.intervals.sample import Floats


def cressie_read(
    weights: ArrayLike,
    rewards: ArrayLike,
    count: ArrayLike | None = None,
    level: float = 0.95,
    *,
    weight_high: float,
    reward_low: float,
    reward_high: float,
) -> Interval:
    """Dual-likelihood interval for E[w r] that knows E[w] = 1 and the ranges of w and r.

    Parameters
    ----------
    weights, rewards : array of shape (G,)
        Importance weight (product over steps for a trajectory) and reward of each unit.
    count : array of shape (G,), optional
        How many identical independent units each row stands for.
    level : float
        Nominal coverage.
    weight_high : float
        Largest weight that can occur (not only that did occur), at least 1.
    reward_low, reward_high : float
        Range of the rewards.

    Examples
    --------
    Twenty rows matched an arm shown 2% of the time and nobody clicked:

    >>> ranges = {"weight_high": 50, "reward_low": 0, "reward_high": 1}
    >>> i = cressie_read([0.0, 50.0], [0.0, 0.0], [980, 20], **ranges)
    >>> i.low, round(i.high, 3)
    (0.0, 0.092)
    """
    check_level(level)
    w, r, c = weighted_rewards(weights, rewards, count, reward_low, reward_high)
    check_weight_high(w, weight_high)
    total = float(c.sum())
    if total <= 1:
        raise UsageError("A likelihood interval needs at least 2 independent units.")
    share = c / total
    cost = _normalization_cost(w, share, weight_high) + critical(level, total) / (2 * total)
    span = reward_high - reward_low
    lost = _shortfall(w, (reward_high - r) / span, share, weight_high, cost)
    won = _shortfall(w, (r - reward_low) / span, share, weight_high, cost)
    # The program's optimum is the bound up to rounding; a value cannot leave the reward range.
    high = min(max(reward_high - span * lost, reward_low), reward_high)
    low = min(max(reward_low + span * won, reward_low), reward_high)
    note = f"uses mean weight 1, weights in [0, {weight_high:g}]"
    return Interval(low, high, level, "cressie-read", note)


def weighted_rewards(
    weights: ArrayLike, rewards: ArrayLike, count: ArrayLike | None, low: float, high: float
) -> tuple[Floats, Floats, Floats]:
    """Checked weights, rewards and frequencies without the rows whose count is 0."""
    w = column("weights", weights)
    r = column("rewards", rewards, len(w))
    c = frequencies(count, len(w))
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"The reward range must be finite, low < high. Got [{low}, {high}].")
    if (w < 0).any():
        raise DataError(f"weights: {first_rows(w < 0, w)} are negative.")
    bad = (r < low) | (r > high)
    if bad.any():
        raise DataError(f"rewards: {first_rows(bad, r)} are outside the range [{low}, {high}].")
    keep = c > 0
    return (w, r, c) if keep.all() else (w[keep], r[keep], c[keep])


def check_weight_high(w: Floats, weight_high: float) -> None:
    """Refuse a bound that a weight exceeds, or that contradicts a mean weight of 1."""
    if not (math.isfinite(weight_high) and weight_high >= 1):
        raise UsageError(f"The 'weight_high' parameter must be a finite float of at least 1. Got {weight_high}.")
    bad = w > weight_high * (1 + 1e-12)
    if bad.any():
        raise DataError(f"weights: {first_rows(bad, w)} are above weight_high = {weight_high}.")


def _normalization_cost(w: Floats, share: Floats, top: float) -> float:
    """M = max over β of mean log(1 + β(w − 1)), β keeping every weight in [0, top] possible."""
    if top == 1:
        if (w < 1).any():
            raise DataError(
                f"weights: {first_rows(w < 1, w)} are below 1, although weight_high = 1 and a mean "
                "weight of 1 leave no room for them."
            )
        return 0.0

    def minus_slope(beta: float) -> tuple[float, float]:
        ratio = (w - 1) / (1 + beta * (w - 1))
        return -float(share @ ratio), float(share @ (ratio * ratio))

    # Just inside the ends: an observed weight 0 (or top) makes the slope infinite there.
    low, high = -1 / (top - 1), 1.0
    beta = increasing_root(minus_slope, low * (1 - 1e-12), high - 1e-12, 0.0)
    return float(share @ np.log1p(beta * (w - 1)))


def _shortfall(w: Floats, gap: Floats, share: Floats, top: float, cost: float) -> float:
    """Smallest E_P[w·gap] in the region, gap = distance from one end of the reward range."""
    y = w * gap
    if y.max() <= 0:
        return 0.0
    return -minimum(Program(1 - w / top, w / top, y, share, (1 - 1 / top, 1 / top), cost))


@dataclass(frozen=True, eq=False)
class Program:
    """Data of the program: columns p, q, y, their shares, (A, B) and the cost.

    Attributes
    ----------
    p, q, y : array of shape (G,)
        Non-negative columns of d.
    share : array of shape (G,)
        Frequencies divided by their sum.
    linear : pair of float
        Coefficients A and B.
    cost : float
        Positive number in the exponent.
    """

    p: Floats
    q: Floats
    y: Floats
    share: Floats
    linear: tuple[float, float]
    cost: float

    def line(self, x: Floats) -> float:
        """A a + B b."""
        return float(self.linear[0] * x[0] + self.linear[1] * x[1])

    def geometric(self, x: Floats) -> tuple[float, Floats]:
        """Value of the geometric term, and d."""
        d = x[0] * self.p + x[1] * self.q + self.y
        if not d.min() > 0:
            return 0.0, d
        # Logarithms around the mean are small where units are many and alike, and so is the rounding of their sum.
        middle = float(self.share @ d)
        return middle * math.exp(float(self.share @ np.log(d / middle)) - self.cost), d

    def slope(self, x: Floats) -> Floats:
        """Gradient of f; minus infinity where d touches 0."""
        mean, d = self.geometric(x)
        if mean == 0:
            return np.full(2, -math.inf)
        inverse = self.share / d
        return np.array(self.linear) - mean * np.array([inverse @ self.p, inverse @ self.q])


def minimum(program: Program) -> float:
    """Value of the program.

    >>> half = np.array([0.5, 0.5])
    >>> round(minimum(Program(half, half, np.array([1.0, 2.0]), half, (0.5, 0.5), 0.1)), 4)
    -1.2796
    """
    x = _newton(program)
    if x is None or not _optimal(program, x):
        x = _bisect(program)
    return program.line(x) - program.geometric(x)[0]


def _optimal(program: Program, x: Floats) -> bool:
    slope = program.slope(x)
    small = 1e-6 * max(program.line(x), 1e-300)
    inside = np.abs(slope * x) <= small
    return bool(np.where(x > 0, inside, slope >= -1e-9).all())


def _start(program: Program) -> Floats | None:
    """A point at which the geometric term is not negligible, if there is one."""
    y, share = program.y, program.share
    mean = float(share @ y)
    size = mean + math.sqrt(float(share @ (y - mean) ** 2) / (2 * program.cost))
    x = np.full(2, size)
    for _ in range(200):
        reached, line = program.geometric(x)[0], program.line(x)
        if reached >= 0.1 * line:
            return x
        if reached <= 0:
            return None
        # At the minimum A a + B b is at most the geometric term.
        x = x * (reached / line)
    return None


def _newton(program: Program) -> Floats | None:
    x = _start(program)
    if x is None:
        return None
    p, q, linear = program.p, program.q, np.array(program.linear)
    mean, d = program.geometric(x)
    for _ in range(100):
        inverse = program.share / d
        first = np.array([inverse @ p, inverse @ q])
        inverse /= d
        scaled = inverse * p
        cross = float(scaled @ q)
        second = np.array([[float(scaled @ p), cross], [cross, float((inverse * q) @ q)]])
        gradient = linear - mean * first
        free = (x > 0) | (gradient < 0)
        slope = np.where(free, gradient, 0.0)
        if float(np.abs(slope) @ np.maximum(x, 1e-12 * x.max())) <= 1e-13 * program.line(x):
            return x
        step = _direction(x, slope, mean * (second - np.outer(first, first)))
        moved = _descend(program, x, step, slope) if np.isfinite(step).all() else None
        if moved is None:
            return x
        gain = program.line(x) - mean
        x, mean, d = moved, *program.geometric(moved)
        if abs(program.line(x) - mean - gain) <= 1e-15 * program.line(x):
            return x
    return x


def _direction(x: Floats, slope: Floats, hessian: Floats) -> Floats:
    """Newton direction on the coordinates with a slope."""
    step = np.zeros(2)
    index = np.flatnonzero(slope)
    block = hessian[np.ix_(index, index)]
    block = block + np.eye(len(index)) * 1e-14 * max(float(np.trace(block)), 1e-300)
    # Columns that are multiples of each other (no reward at all, say) leave the matrix without an inverse.
    step[index] = -np.linalg.lstsq(block, slope[index], rcond=1e-15)[0]
    if ((step < 0) & (x == 0)).any():
        # Coupled steps may push a freed coordinate back out: move each by its own curvature.
        step = -slope / np.maximum(np.diag(hessian), 1e-300)
    return step


def _descend(program: Program, x: Floats, step: Floats, slope: Floats) -> Floats | None:
    """Backtrack along ``step``, first stopping where a coordinate reaches 0."""
    value = program.line(x) - program.geometric(x)[0]
    shrinking = step < 0
    reach = np.where(shrinking, x / np.where(shrinking, -step, 1.0), np.inf)
    t = min(1.0, float(reach.min()))
    for _ in range(60):
        new = np.where(reach <= t, 0.0, x + t * step)
        mean = program.geometric(new)[0]
        # A geometric mean of 0 means that an observed d is 0 there: step back inside.
        if mean > 0 and program.line(new) - mean <= value + 1e-4 * float(slope @ (new - x)):
            return new
        t *= 0.5
    return None


def _bisect(program: Program) -> Floats:
    """Nested bisection in log coordinates; slow and sure."""
    center = math.log(float(program.y.max()))
    ends = center - 100.0, center + 100.0

    def inner(a: float) -> Floats:
        def along(t: float) -> tuple[float, float]:
            return float(program.slope(np.array([a, math.exp(t)]))[1]), 0.0

        b = math.exp(increasing_root(along, *ends, center))
        return np.array([a, 0.0 if math.log(b) < ends[0] + 1 else b])

    def outer(t: float) -> tuple[float, float]:
        return float(program.slope(inner(math.exp(t)))[0]), 0.0

    a = math.exp(increasing_root(outer, *ends, center))
    return inner(0.0 if math.log(a) < ends[0] + 1 else a)
