r"""The probability that each arm's posterior draw is the largest, by one-dimensional quadrature.

    P(i = argmax) = ∫ f_i(x) ∏_{j≠i} F_j(x) dx        (appendix A of the paper, Thompson sampling)

Beta posteriors are integrated on the logit scale, where every beta density is smooth and
log-concave whatever its parameters, so Beta(½, ½) and Beta(50 000, 5·10⁷) need no special cases.

The line is walked from left to right in Gauss–Legendre panels no wider than the narrowest density
still in play. Inside a panel each F_j grows by integrating its own f_j at the same nodes, so a
distribution function is evaluated once per arm, at the left end. Nothing is normalized: Σ_i P(i)
and every F_j(∞) must come out as 1, and a row for which they do not is refined, then refused.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, first_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from offpolicy._arrays import Bools, Floats

PANEL = 1.5  # width of a panel, in standard deviations
ORDER = 16  # nodes of a panel
LOG_TAIL = float(np.log(1e-18))  # mass left out at either end
TOLERANCE = 1e-9  # of Σ_i P(i) and of F_j(∞); a row beyond it is refused
TARGET = 1e-10  # a row beyond it is integrated again on panels half as wide
HALVINGS = 3
MAX_PANELS = 20_000
BLOCK = 1 << 18  # floats in one array of the walk


@dataclass(frozen=True, eq=False)
class _Gaussian:
    """Normal variables; parameters have shape (n, K, 1), x has (n, 1, m)."""

    mean: Floats
    std: Floats

    def mode(self) -> Floats:
        return self.mean

    def log_density(self, x: Floats) -> Floats:
        u = (x - self.mean) / self.std
        return np.asarray(-0.5 * u * u - np.log(self.std) - 0.5 * np.log(2 * np.pi))

    def slope(self, x: Floats) -> Floats:
        return (self.mean - x) / self.std**2

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(special.ndtr((x - self.mean) / self.std))

    def width(self, x: Floats) -> Floats:
        return PANEL * self.std


@dataclass(frozen=True, eq=False)
class _LogitBeta:
    """Logits z of beta variables: density exp(alpha·z − (alpha + beta)·log(1 + eᶻ)) / B, without poles."""

    alpha: Floats
    beta: Floats
    log_scale: Floats  # log density at the mode

    @classmethod
    def of(cls, alpha: Floats, beta: Floats) -> _LogitBeta:
        a, b = alpha[..., None], beta[..., None]
        # Differences of log Γ would lose 1e-7 at 1e8 counts; Stirling's remainders do not cancel.
        at_mode = 0.5 * (np.log(a) + np.log(b) - np.log(a + b) - np.log(2 * np.pi))
        return cls(a, b, at_mode + _stirling(a + b) - _stirling(a) - _stirling(b))

    def mode(self) -> Floats:
        return np.asarray(np.log(self.alpha) - np.log(self.beta))

    def log_density(self, x: Floats) -> Floats:
        # Measured from the mode, and mirrored so that a ≤ b: the terms that cancel stay small.
        a, b = np.minimum(self.alpha, self.beta), np.maximum(self.alpha, self.beta)
        n = a + b
        d = np.where(self.alpha <= self.beta, 1.0, -1.0) * (x - self.mode())
        near = a * d - n * np.log1p(a / n * np.expm1(np.minimum(d, 500.0)))
        return np.asarray(np.where(d < 500.0, near, -b * d - n * np.log(a / n)) + self.log_scale)

    def slope(self, x: Floats) -> Floats:
        return np.asarray(self.alpha * special.expit(-x) - self.beta * special.expit(x))

    def cdf(self, x: Floats) -> Floats:
        a, b, _ = np.broadcast_arrays(self.alpha, self.beta, x)
        low, high = special.expit(x), special.expit(-x)
        value = np.where(x <= 0, special.betainc(a, b, low), special.betaincc(b, a, np.minimum(high, 0.5)))
        # Left of the smallest double the density is exactly exponential: F = f / alpha.
        return np.asarray(np.where(x < -600.0, np.exp(self.log_density(x) - np.log(a)), value))

    def width(self, x: Floats) -> Floats:
        core = PANEL * np.minimum(1.0, np.sqrt(1 / self.alpha + 1 / self.beta))
        # Beyond ±edge, log(1 + eᶻ) is linear to rounding and the density a plain exponential.
        edge = 41.0 + np.log(self.alpha + self.beta)
        left = np.maximum(core, np.minimum(1 / self.alpha, -edge - x))
        right = np.maximum(core, 1 / self.beta)
        return np.asarray(np.where(x < -edge, left, np.where(x > edge, right, core)))


def _stirling(x: Floats) -> Floats:
    """Remainder of Stirling: log Γ(x) − [(x − ½)·log x − x + ½·log 2π]."""
    y = 1 / np.maximum(x, 16.0) ** 2
    series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) * np.sqrt(y)
    small = np.minimum(x, 16.0)
    direct = special.gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(x < 16.0, direct, series))


_Arms: TypeAlias = _Gaussian | _LogitBeta


@checks_arguments
def gaussian_thompson_probabilities(
    mean: ArrayLike, std: ArrayLike, *, eligible: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return P(i = argmax) for independent draws from N(meanᵢ, stdᵢ²).

    Parameters
    ----------
    mean, std
        Parameters of shape (K,) or (n, K); they broadcast against each other. ``std`` is positive.
    eligible
        Which arms take part, of shape (K,) or (n, K); None for all. The others get 0.

    Returns
    -------
    NDArray
        Probabilities of the common shape of the parameters, accurate to about 1e-12.

    Examples
    --------
    >>> gaussian_thompson_probabilities([0.0, 1.0], [1.0, 1.0]).round(6)
    array([0.23975, 0.76025])
    """

    def arms(mean: Floats, std: Floats) -> _Gaussian:
        # A common shift changes no comparison. With the arm that rules the left end at 0, narrow
        # arms keep their digits far from the origin.
        top = (mean - 9 * std).argmax(axis=1)[:, None]
        return _Gaussian((mean - np.take_along_axis(mean, top, 1))[..., None], std[..., None])

    return _winning(arms, {"mean": mean, "std": std}, eligible)


@checks_arguments
def beta_thompson_probabilities(
    alpha: ArrayLike, beta: ArrayLike, *, eligible: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return P(i = argmax) for independent draws from Beta(alphaᵢ, betaᵢ).

    Parameters
    ----------
    alpha, beta
        Positive parameters of shape (K,) or (n, K); they broadcast against each other.
    eligible
        Which arms take part, of shape (K,) or (n, K); None for all. The others get 0.

    Returns
    -------
    NDArray
        Probabilities of the common shape of the parameters, accurate to about 1e-11.

    Examples
    --------
    >>> beta_thompson_probabilities([1, 2], [1, 1]).round(6)
    array([0.333333, 0.666667])
    """
    return _winning(_LogitBeta.of, {"alpha": alpha, "beta": beta}, eligible)


def parameter(name: str, values: ArrayLike) -> Floats:
    """A parameter of posteriors as floats: finite, and positive but for means."""
    numbers = np.asarray(values, dtype=np.float64)
    good = np.isfinite(numbers) if name == "mean" else np.isfinite(numbers) & (numbers > 0)
    bad = np.atleast_1d(~good.all(axis=-1))
    if bad.any():
        wanted = "finite" if name == "mean" else "positive and finite"
        first = np.atleast_2d(numbers)[int(bad.argmax())].tolist()
        raise PolicyError(
            f"{name!r} must be {wanted} in every row of a Thompson sampling policy; it is not in "
            f"{first_rows(bad)}, which has {first}."
        )
    return numbers


@functools.cache
def _rule() -> tuple[Floats, Floats, Floats]:
    """Nodes and weights on [−1, 1], and the matrix that integrates from −1 to each node."""
    x, w = np.polynomial.legendre.leggauss(ORDER)
    p = np.polynomial.legendre.legvander(x, ORDER)
    k = np.arange(1, ORDER)
    inner = np.column_stack([x + 1, (p[:, 2:] - p[:, :-2]) / (2 * k + 1)])
    return x, w, inner @ (p[:, :ORDER] * (w[:, None] * (2 * np.arange(ORDER) + 1) / 2)).T


def _winning(
    arms: Callable[[Floats, Floats], _Arms], parameters: Mapping[str, ArrayLike], eligible: ArrayLike | None
) -> Floats:
    one, two = (np.asarray(values, dtype=np.float64) for values in parameters.values())
    mask = np.asarray(True if eligible is None else eligible, dtype=np.bool_)
    try:
        shape = np.broadcast_shapes(one.shape, two.shape, mask.shape)
    except ValueError:
        shapes = f"{one.shape}, {two.shape} and {mask.shape}"
        raise PolicyError(f"parameters and eligibility have different shapes: {shapes}.") from None
    if len(shape) not in {1, 2} or shape[-1] == 0:
        raise PolicyError(f"parameters must have shape (K,) or (n, K), K ≥ 1. Got {shape} instead.")
    for name, values in zip(parameters, (one, two), strict=True):
        parameter(name, values)
    one, two, mask = (np.atleast_2d(np.broadcast_to(v, shape)) for v in (one, two, mask))
    none = np.asarray(~mask.any(axis=1))
    if none.any():
        raise PolicyError(f"{first_rows(none)} have no eligible action.")
    n, K = mask.shape
    result = np.empty((n, K))
    size = max(1, BLOCK // (K * ORDER))
    for start in range(0, n, size):
        rows = slice(start, start + size)
        result[rows] = _refined(arms, one[rows], two[rows], mask[rows], start)
    return result.reshape(shape)


def _refined(arms: Callable[[Floats, Floats], _Arms], one: Floats, two: Floats, mask: Bools, offset: int) -> Floats:
    """Integrate, and again on narrower panels where a sum that must be 1 is not."""
    result, error = _walk(arms(one, two), mask, shrink=1.0)
    for halving in range(1, HALVINGS + 1):
        redo = np.flatnonzero(~(error <= TARGET))
        if not len(redo):
            break
        again, now = _walk(arms(one[redo], two[redo]), mask[redo], shrink=0.5**halving)
        better = ~(now >= error[redo])
        result[redo[better]], error[redo[better]] = again[better], now[better]
    bad = ~(error <= TOLERANCE)
    if bad.any():
        row = int(bad.argmax())
        raise PolicyError(
            f"row {offset + row}: the quadrature for Thompson sampling has an error of {error[row]:.1e}, "
            f"more than {TOLERANCE:.0e}. Use Monte Carlo draws for parameters this extreme."
        )
    return result


def _left_end(arms: _Arms, mask: Bools) -> Floats:
    """Where ∏ F_j falls below exp(LOG_TAIL), by bisection on the bound F ≤ f / (log f)′."""

    def log_bound(x: Floats) -> Floats:
        slope = arms.slope(x)
        tail = arms.log_density(x) - np.log(np.where(slope > 0, slope, 1.0))
        tail = np.where((slope > 0) & mask, np.minimum(tail, 0.0), 0.0)
        return np.asarray(tail.sum(axis=1, keepdims=True))

    high = np.where(mask, arms.mode(), -np.inf).max(axis=1, keepdims=True)
    narrow = np.where(mask, arms.width(high), np.inf).min(axis=1, keepdims=True)
    reach = narrow.copy()
    while (short := log_bound(high - reach) > LOG_TAIL).any():
        reach = np.where(short, 2 * reach, reach)
    low = high - reach
    for _ in range(80):
        wide = high - low > 0.25 * narrow
        if not wide.any():
            break
        middle = 0.5 * (low + high)
        inside = log_bound(middle) <= LOG_TAIL
        low = np.where(wide & inside, middle, low)
        high = np.where(wide & ~inside, middle, high)
    return np.asarray(low)


def _walk(arms: _Arms, eligible: Bools, *, shrink: float) -> tuple[Floats, Floats]:
    """Return P(i = argmax), shape (n, K), and the largest departure from 1 of each row's sums."""
    nodes, weights, inner = _rule()
    mask = eligible[..., None]
    x = _left_end(arms, mask)
    F = np.where(mask, arms.cdf(x), 1.0)
    total = np.zeros(eligible.shape)
    for _ in range(MAX_PANELS):
        slope = arms.slope(x)
        above = arms.log_density(x) - np.log(np.where(slope < 0, -slope, 1.0))  # log(1 − F) ≤ this
        active = mask & ((slope >= 0) | (above > LOG_TAIL))
        going = active.any(axis=1, keepdims=True)
        if not going.any():
            break
        step = np.where(active, arms.width(x), np.inf).min(axis=1, keepdims=True)
        half = np.where(going, 0.5 * shrink * step, 0.0)
        f = np.exp(arms.log_density(x + half * (1 + nodes))) * mask
        inside = F + half * (f @ inner.T)
        largest = inside.prod(axis=1, keepdims=True)  # distribution function of the maximum
        hazard = f / np.maximum(inside, np.finfo(np.float64).tiny)
        total += half[..., 0] * ((hazard * largest) @ weights)
        F = F + half * (f @ weights)[..., None]
        x = x + 2 * half
    else:
        return total, np.full(len(total), np.inf)
    return total, np.maximum(np.abs(F[..., 0] - 1).max(axis=1), np.abs(total.sum(axis=1) - 1))
