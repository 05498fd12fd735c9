"""Policies over numbers: one number per row, or a distribution with a density.

A distribution is any object with ``density(context, action) -> (n,)``. A reward model is averaged over it at its own
``nodes(context) -> (n, J), (n, J)`` (actions, and weights that sum to 1) or ``quantile(context, level) -> (n,)`` where
it has them, else at quantiles found from the density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError, did_you_mean, first_rows
from offpolicy.policies.protocol import column, n_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Bools, Floats


LEVELS = 16  # quantiles at which a distribution of any kind asks a reward model
FAR, NORMAL_NODES = (4.5, 12)  # standard deviations, and points over them, that leave errors of about 0.0001
GRID = 129  # points at which its density is summed to find them


def numbers_of(source: Any, context: Any, who: str) -> Floats:
    """(n,) numbers from a constant, a column of the context, or a function of it."""
    n = n_rows(context)
    if isinstance(source, str):
        source = column(context, source, who)
    elif callable(source):
        source = source(context)
    values = np.asarray(source, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise PolicyError(f"{who} returned shape {values.shape} for {n} rows. Return one number per row.")
    bad = ~np.isfinite(values)
    if bad.any():
        raise PolicyError(f"{who} returned {first_rows(bad, values)} that are not finite.")
    return values


def _check_source(value: Any, name: str, where: str) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number or isinstance(value, str) or callable(value)):
        raise UsageError(
            f"The {name!r} parameter of {where} must be a number, the name of a context column or a function of the "
            f"context. Got {value!r} instead."
        )


@checks_arguments
@dataclass(frozen=True)
class Normal:
    """Draw the action from a normal distribution, cut off at the ends of the range.

    Parameters
    ----------
    mean, sd
        A number, the name of a context column, or a function of the context.
    low, high : float, optional
        Where the distribution is cut off; default: the range of the log's actions.

    Examples
    --------
    >>> Normal(0.0, 1.0).density(np.zeros(2), np.array([0.0, 1.0])).round(4).tolist()
    [0.3989, 0.242]
    """

    mean: Any
    sd: Any
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_source(self.mean, "mean", "Normal")
        _check_source(self.sd, "sd", "Normal")

    def within(self, span: tuple[float, float]) -> Normal:
        """The policy cut off at the ends of a range, where it has no ends of its own."""
        low = span[0] if self.low is None else self.low
        return replace(self, low=low, high=span[1] if self.high is None else self.high)

    def _parts(self, context: Any) -> tuple[Floats, Floats, Floats, Floats]:
        mean = numbers_of(self.mean, context, "Normal (mean)")
        sd = numbers_of(self.sd, context, "Normal (sd)")
        if (sd <= 0).any():
            raise PolicyError(f"Normal (sd) returned {first_rows(sd <= 0, sd)} that are not positive.")
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return mean, sd, special.ndtr((low - mean) / sd), special.ndtr((high - mean) / sd)

    def density(self, context: Any, action: Floats) -> Floats:
        """(n,) density at ``action``."""
        mean, sd, below, above = self._parts(context)
        u = (action - mean) / sd
        inside = (action >= (-np.inf if self.low is None else self.low)) & (
            action <= (np.inf if self.high is None else self.high)
        )
        value = np.exp(-u * u / 2) / (np.sqrt(2 * np.pi) * sd * (above - below))
        return np.asarray(np.where(inside, value, 0.0))

    def nodes(self, context: Any) -> tuple[Floats, Floats]:
        """(n, J) actions and weights of Gauss and Legendre, where the distribution has its mass."""
        mean, sd, _, _ = self._parts(context)
        low, high = mean - FAR * sd, mean + FAR * sd
        low = low if self.low is None else np.clip(low, self.low, self.high)
        high = high if self.high is None else np.clip(high, self.low, self.high)
        beside = high <= low  # all of the distribution that is left lies far from its mean
        if self.low is not None and self.high is not None:
            low, high = np.where(beside, self.low, low), np.where(beside, self.high, high)
        at, weight = legendre(NORMAL_NODES)
        points = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * at
        u = (points - mean[:, None]) / sd[:, None]
        share = np.exp(-(u * u - (u * u).min(axis=1, keepdims=True)) / 2) * weight
        return points, share / share.sum(axis=1, keepdims=True)


@checks_arguments
@dataclass(frozen=True)
class UniformRange:
    """Draw the action from all numbers between two ends alike.

    Parameters
    ----------
    low, high
        A number, the name of a context column, or a function of the context; default: the ends of the log's range.

    Examples
    --------
    >>> UniformRange(1.0, 3.0).density(np.zeros(2), np.array([2.0, 4.0])).tolist()
    [0.5, 0.0]
    """

    low: Any = None
    high: Any = None

    def within(self, span: tuple[float, float]) -> UniformRange:
        """The policy between the ends of a range, where it has no ends of its own."""
        low = span[0] if self.low is None else self.low
        return UniformRange(low, span[1] if self.high is None else self.high)

    def _ends(self, context: Any) -> tuple[Floats, Floats]:
        low = numbers_of(self.low, context, "UniformRange (low)")
        high = numbers_of(self.high, context, "UniformRange (high)")
        if (high <= low).any():
            raise PolicyError(f"UniformRange: {first_rows(high <= low, high)} are not above low.")
        return low, high

    def density(self, context: Any, action: Floats) -> Floats:
        """(n,) density at ``action``."""
        low, high = self._ends(context)
        return np.where((action >= low) & (action <= high), 1.0 / (high - low), 0.0)

    def nodes(self, context: Any) -> tuple[Floats, Floats]:
        """(n, J) actions and weights of Gauss and Legendre."""
        low, high = self._ends(context)
        at, weight = legendre()
        points = low[:, None] + (high - low)[:, None] * (1 + at) / 2
        return points, np.broadcast_to(weight / 2, points.shape)


def nodes_of(policy: Any, context: Any, span: tuple[float, float]) -> tuple[Floats, Floats]:
    """(n, J) actions and weights by which a function is averaged over a distribution of any kind."""
    if hasattr(policy, "nodes"):
        points, weights = policy.nodes(context)
        return np.asarray(points, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    n = n_rows(context)
    if hasattr(policy, "quantile"):
        points = np.stack([np.asarray(policy.quantile(context, p)) for p in levels], axis=1)
    else:
        points = _quantiles(policy, context, n, span, levels)
    return points.astype(np.float64), np.full((n, LEVELS), 1.0 / LEVELS)


def _quantiles(policy: Any, context: Any, n: int, span: tuple[float, float], levels: Floats) -> Floats:
    """(n, L) quantiles of a density, by the trapezoidal rule on a grid."""
    grid = np.linspace(*span, GRID)
    density = np.stack([policy.density(context, np.full(n, a)) for a in grid], axis=1)
    steps = (density[:, 1:] + density[:, :-1]) / 2
    below = np.concatenate([np.zeros((n, 1)), np.cumsum(steps, axis=1)], axis=1)
    below /= below[:, -1:]
    return np.stack([np.interp(levels, row, grid) for row in below])


Span: TypeAlias = "tuple[Any, Any]"  # ends of the range: two numbers, or one of each per row
NODES = 8  # points at which a smoothed policy asks the reward model
FAR = 4.0  # bandwidths that a kernel without an end is followed


@dataclass(frozen=True, eq=False)
class Kernel:
    """A symmetric density with its distribution function and E|u|; ``reach`` is where it ends, in bandwidths."""

    density: Callable[[Floats], Floats]
    below: Callable[[Floats], Floats]
    mean_distance: float
    reach: float = 1.0


def _inside(values: Floats, u: Floats) -> Floats:
    return np.where(np.abs(u) <= 1, values, 0.0)


def _clipped(function: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    return lambda u: function(np.clip(u, -1.0, 1.0))


KERNELS: dict[str, Kernel] = {
    "epanechnikov": Kernel(lambda u: _inside(0.75 * (1 - u * u), u), _clipped(lambda u: (2 + 3 * u - u**3) / 4), 3 / 8),
    "triangular": Kernel(
        lambda u: _inside(1 - np.abs(u), u), _clipped(lambda u: (1 + 2 * u - u * np.abs(u)) / 2), 1 / 3
    ),
    "cosine": Kernel(
        lambda u: _inside(math.pi / 4 * np.cos(math.pi / 2 * u), u),
        _clipped(lambda u: (1 + np.sin(math.pi / 2 * u)) / 2),
        1 - 2 / math.pi,
    ),
    "uniform": Kernel(lambda u: _inside(np.full(np.shape(u), 0.5), u), _clipped(lambda u: (1 + u) / 2), 1 / 2),
    "gaussian": Kernel(
        lambda u: np.exp(-u * u / 2) / math.sqrt(2 * math.pi),
        lambda u: np.asarray(special.ndtr(u)),
        math.sqrt(2 / math.pi),
        math.inf,
    ),
}
EDGES = ("renormalize", "reflect", "none")


@dataclass(frozen=True)
class Window:
    """A kernel around a number; `offpolicy.KernelRatio` is the ratio that is made of it.

    Examples
    --------
    >>> Window(0.5).density(np.array([1.0, 1.25]), np.array([1.0, 1.0]), (0.0, 2.0)).tolist()
    [1.5, 1.125]
    """

    bandwidth: float | Literal["auto"] = "auto"
    kernel: str = "epanechnikov"
    edge: Literal["renormalize", "reflect", "none"] = "renormalize"
    smooth_model: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise UsageError(
                f"no kernel is called {self.kernel!r}.{did_you_mean(self.kernel, KERNELS)} "
                f"Kernels: {', '.join(KERNELS)}."
            )
        if self.edge not in EDGES:
            raise UsageError(f"edge= must be one of {', '.join(EDGES)}. Got {self.edge!r} instead.")
        width: Any = self.bandwidth
        if width == "auto":
            return
        number = isinstance(width, int | float | np.number) and not isinstance(width, bool)
        if not number or not 0 < float(width) < math.inf:
            raise UsageError(f"bandwidth= must be 'auto' or a positive number. Got {width!r}.")

    @property
    def width(self) -> float:
        """The bandwidth as a number."""
        if isinstance(self.bandwidth, str):
            raise UsageError("bandwidth='auto' is chosen by evaluate().")
        return float(self.bandwidth)

    @property
    def mean_distance(self) -> float:
        """How far from the policy's number the smoothed policy acts, on average.

        >>> Window(0.5).mean_distance
        0.1875
        """
        return self.width * KERNELS[self.kernel].mean_distance

    @property
    def words(self) -> str:
        """The window, for notes."""
        what = "standard deviation" if math.isinf(KERNELS[self.kernel].reach) else "half width"
        return f"{what} {self.width:.3g} ({self.kernel})"

    def density(self, action: Floats, center: Floats, span: Span) -> Floats:
        """(n,) density at ``action`` of the policy that takes ``center``, smoothed inside ``span``."""
        kernel, h = KERNELS[self.kernel], self.width
        value = kernel.density((action - center) / h)
        if self.edge == "reflect":
            for end in span:
                value = value + kernel.density((2 * end - action - center) / h)
        if self.edge == "renormalize":
            value = value / self.mass_inside(center, span)
        return np.asarray(value / h)

    def mass_inside(self, center: Floats, span: Span) -> Floats:
        """(n,) share of the kernel around ``center`` that lies inside ``span``.

        >>> Window(1.0).mass_inside(np.array([0.0, 2.0]), (0.0, 9.0)).tolist()
        [0.5, 1.0]
        """
        below, h = KERNELS[self.kernel].below, self.width
        return np.asarray(below((span[1] - center) / h) - below((span[0] - center) / h))

    def is_cut(self, center: Floats, span: Span) -> Bools:
        """(n,) whether the end of the range cuts off more than a thousandth of the kernel."""
        return np.asarray(self.mass_inside(center, span) < 0.999)

    def nodes(self, center: Floats, span: Span) -> tuple[Floats, Floats]:
        """(m, J) actions at which a reward model is asked, and their weights, which sum to 1 in every row."""
        center = center[:, None]
        if not self.smooth_model:
            return center, np.ones_like(center)
        reach = min(KERNELS[self.kernel].reach, FAR) * self.width
        at, weight = legendre()
        ends = np.reshape(span[0], (-1, 1)), np.reshape(span[1], (-1, 1))
        low, high = np.maximum(center - reach, ends[0]), np.minimum(center + reach, ends[1])
        points = (low + high) / 2 + (high - low) / 2 * at
        share = self.density(points, center, ends) * weight
        return points, share / share.sum(axis=1, keepdims=True)


@cache
def legendre(number: int = NODES) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre on [−1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return nodes, weights
