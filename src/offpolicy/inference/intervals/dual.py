"""The convex program in two non-negative numbers behind the weight-range likelihood.

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

from offpolicy.inference.intervals.roots import increasing_root

if TYPE_CHECKING:
    from offpolicy.inference.intervals.sample import Floats


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
