"""Posterior densities as the quadrature of Thompson sampling sees them: smooth and log-concave.

A beta variable enters as its logit z, with density exp(alpha·z − (alpha + beta)·log(1 + eᶻ)) / B,
which has neither poles nor bounded support, whatever alpha and beta are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

PANEL = 1.5  # width of a panel, in standard deviations


class Arms(Protocol):
    """Log-concave densities of n × K arms; parameters have shape (n, K, 1), x has (n, 1, m)."""

    def mode(self) -> Floats:
        """Where the density is highest."""
        ...

    def log_density(self, x: Floats) -> Floats:
        """Logarithm of the density."""
        ...

    def slope(self, x: Floats) -> Floats:
        """Derivative of the log density."""
        ...

    def cdf(self, x: Floats) -> Floats:
        """Distribution function."""
        ...

    def width(self, x: Floats) -> Floats:
        """Width of a panel that starts at x."""
        ...


@dataclass(frozen=True, eq=False)
class GaussianArms:
    """Normal variables."""

    mean: Floats
    std: Floats

    def mode(self) -> Floats:
        """Where the density is highest."""
        return self.mean

    def log_density(self, x: Floats) -> Floats:
        """Logarithm of the density."""
        u = (x - self.mean) / self.std
        return np.asarray(-0.5 * u * u - np.log(self.std) - 0.5 * np.log(2 * np.pi))

    def slope(self, x: Floats) -> Floats:
        """Derivative of the log density."""
        return (self.mean - x) / self.std**2

    def cdf(self, x: Floats) -> Floats:
        """Distribution function."""
        return np.asarray(special.ndtr((x - self.mean) / self.std))

    def width(self, x: Floats) -> Floats:
        """Width of a panel that starts at x."""
        return PANEL * self.std


@dataclass(frozen=True, eq=False)
class LogitBetaArms:
    """Logits of beta variables."""

    alpha: Floats
    beta: Floats
    log_scale: Floats  # log density at the mode

    @classmethod
    def of(cls, alpha: Floats, beta: Floats) -> LogitBetaArms:
        """Arms with parameters of shape (n, K)."""
        a, b = alpha[..., None], beta[..., None]
        # Differences of log Γ would lose 1e-7 at 1e8 counts; Stirling's remainders do not cancel.
        at_mode = 0.5 * (np.log(a) + np.log(b) - np.log(a + b) - np.log(2 * np.pi))
        return cls(a, b, at_mode + _stirling(a + b) - _stirling(a) - _stirling(b))

    def mode(self) -> Floats:
        """Where the density is highest."""
        return np.asarray(np.log(self.alpha) - np.log(self.beta))

    def log_density(self, x: Floats) -> Floats:
        """Logarithm of the density."""
        # Measured from the mode, and mirrored so that a ≤ b: the terms that cancel stay small.
        a, b = np.minimum(self.alpha, self.beta), np.maximum(self.alpha, self.beta)
        n = a + b
        d = np.where(self.alpha <= self.beta, 1.0, -1.0) * (x - self.mode())
        near = a * d - n * np.log1p(a / n * np.expm1(np.minimum(d, 500.0)))
        return np.asarray(np.where(d < 500.0, near, -b * d - n * np.log(a / n)) + self.log_scale)

    def slope(self, x: Floats) -> Floats:
        """Derivative of the log density."""
        return np.asarray(self.alpha * special.expit(-x) - self.beta * special.expit(x))

    def cdf(self, x: Floats) -> Floats:
        """Distribution function."""
        a, b, _ = np.broadcast_arrays(self.alpha, self.beta, x)
        low, high = special.expit(x), special.expit(-x)
        value = np.where(
            x <= 0, special.betainc(a, b, low), special.betaincc(b, a, np.minimum(high, 0.5))
        )
        # Left of the smallest double the density is exactly exponential: F = f / alpha.
        return np.asarray(np.where(x < -600.0, np.exp(self.log_density(x) - np.log(a)), value))

    def width(self, x: Floats) -> Floats:
        """Width of a panel that starts at x."""
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
    direct = (
        special.gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    )
    return np.asarray(np.where(x < 16.0, direct, series))
