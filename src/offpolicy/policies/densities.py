"""Policies over numbers: one number per row, or a distribution with a density.

A distribution is any object with ``density(context, action) -> (n,)``. A reward model is averaged over it at its own
``nodes(context) -> (n, J), (n, J)`` (actions, and weights that sum to 1) or ``quantile(context, level) -> (n,)`` where
it has them, else at quantiles found from the density.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError, first_rows
from offpolicy.policies.context import column, n_rows
from offpolicy.policies.kernel import legendre

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

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
        raise PolicyError(f"{who} gave shape {values.shape} for {n} rows. Give one number per row.")
    bad = ~np.isfinite(values)
    if bad.any():
        raise PolicyError(f"{who} gave {first_rows(bad, values)} that are not finite.")
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
            raise PolicyError(f"Normal (sd) gave {first_rows(sd <= 0, sd)} that are not positive.")
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
