"""How far estimated click rates are from the online ones: section 5.2 and appendix C.

For cells (campaign, batch) with estimate V̂, online click rate V̄ and N contextual impressions

    relative-RMSE = ( Σ N ((V̂ − V̄)/V̄)² / Σ N )^½ .

Its standard error (appendix C): draw V̂* ~ N(V̂, se²) and V̄* ~ N(V̂, V̄(1 − V̄)/N), **both around the
estimate V̂**, independently in every cell; compute the relative-RMSE of the draws; repeat 100,000
times and take the standard deviation.

Two things the paper leaves open are settled, and said aloud in every result:

* A cell whose online rate is zero has no relative error. It is left out of the sum and of the
  weights, and counted (`Spread.cells_left_out`).
* V̄* is normal and stands in the denominator, so 1/V̄* has no mean: the standard deviation does
  not exist, and the simulated one depends on the draws that come closest to zero. With 3 to 8
  online clicks a cell it is astronomical. Three numbers are therefore given: `Spread.std_error`
  is the paper's, literally; `Spread.robust` is half the distance between the 15.87% and 84.13%
  points of the same draws; `Spread.fixed` divides the same draws of V̂* − V̄* by the observed V̄,
  has all moments, and is the one that tests use. Where online rates are precise, all three agree.
  `Spread.near_zero` is the largest probability, over cells, that V̄* ≤ 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from offpolicy.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from offpolicy_studies.arrays import Floats

DRAWS = 100_000
_CHUNK = 1_000


@dataclass(frozen=True)
class Online:
    """The contextual arm's own click rates.

    Attributes
    ----------
    rate : (cells,) array
        Clicks per impression, V̄.
    n : (cells,) array
        Impressions, N.
    """

    rate: Floats
    n: Floats

    def __post_init__(self) -> None:
        if self.rate.shape != self.n.shape:
            raise DataError(f"rate has shape {self.rate.shape}, n has shape {self.n.shape}.")
        if not self.defined.any():
            raise DataError(
                "No cell has an online click, so no relative error exists. Give the contextual arm more impressions."
            )

    @property
    def defined(self) -> NDArray[np.bool_]:
        """Cells whose relative error exists."""
        return self.rate > 0

    @property
    def std_error(self) -> Floats:
        """√(V̄(1 − V̄)/N)."""
        return np.asarray(np.sqrt(self.rate * (1 - self.rate) / self.n))


@dataclass(frozen=True)
class Spread:
    """A statistic of the cells, with its simulated uncertainty; see the module's text."""

    value: float
    std_error: float
    robust: float
    fixed: float
    near_zero: float
    cells_left_out: int

    @property
    def z(self) -> float:
        """Value in units of ``fixed``; for differences, the test statistic."""
        return self.value / self.fixed if self.fixed > 0 else float("nan")

    @property
    def p_value(self) -> float:
        """Two-sided, normal."""
        return float(2 * norm.sf(abs(self.z)))


def relative_rmse(estimate: Floats, online: Online) -> float:
    """Return the N-weighted relative root mean squared error over cells with online clicks.

    Examples
    --------
    >>> truth = Online(np.array([0.2, 0.1, 0.0]), np.array([1.0, 3.0, 9.0]))
    >>> round(relative_rmse(np.array([0.1, 0.2, 0.1]), truth), 6)
    0.901388
    """
    keep = online.defined
    rate = online.rate[keep]
    return float(_rms(estimate[keep] - rate, rate, _weights(online)))


def rmse_spread(
    estimate: Floats,
    std_error: Floats,
    online: Online,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    online_around: str = "estimate",
) -> Spread:
    """Return the relative-RMSE with its standard error by appendix C's simulation.

    Parameters
    ----------
    estimate, std_error : (cells,) arrays
        V̂ and σ̂_ope/√N_ope.
    online : Online
        Online click rates.
    draws, seed : int
        Number of simulated tables, and their seed.
    online_around : {"estimate", "online"}
        Center of V̄*. The paper's is the estimate, which sets the simulated bias to zero;
        "online" keeps the observed difference between the two.

    Examples
    --------
    One cell, and an online rate known almost exactly: the error is |N(0, se²)|/V̂.

    >>> online = Online(np.array([0.5]), np.array([1e12]))
    >>> s = rmse_spread(np.array([0.5]), np.array([0.05]), online)
    >>> bool(abs(s.std_error - 0.1 * np.sqrt(1 - 2 / np.pi)) < 0.001)
    True
    """
    if online_around not in {"estimate", "online"}:
        raise UsageError(f"'online_around' must be 'estimate' or 'online'. Got {online_around!r} instead.")
    keep, w = online.defined, _weights(online)
    columns = (estimate, std_error, online.std_error, online.rate)
    v, se, se_online, rate = (_single(x[keep]) for x in columns)
    center = v if online_around == "estimate" else rate
    simulated = [_simulated(v + se * z[0], center + se_online * z[1], rate, w) for z in _chunks(draws, len(v), seed)]
    value = relative_rmse(estimate, online)
    return _spread(value, simulated, center / se_online, online)


def rmse_difference(
    estimates: tuple[Floats, Floats],
    std_errors: tuple[Floats, Floats],
    difference_std_error: Floats,
    online: Online,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Spread:
    """Return the difference of two estimators' relative-RMSEs, tested by the same draws.

    Both estimators see the same log and the same online arm, so in each simulated table V̄* is
    shared and (V̂₁*, V̂₂*) are jointly normal with the covariance that their paired standard error
    implies, cov = (se₁² + se₂² − se_diff²)/2. A shared V̄* cannot be centered at two estimates at
    once; it is drawn around the observed V̄, and each V̂* around its own estimate, so that the
    observed difference meets the online noise as it did in the data.

    Parameters
    ----------
    estimates, std_errors : pairs of (cells,) arrays
        The two estimators.
    difference_std_error : (cells,) array
        Standard error of V̂₁ − V̂₂ from paired scores.
    online : Online
        Online click rates.

    Examples
    --------
    >>> v, se = np.array([0.01, 0.02]), np.array([0.001, 0.002])
    >>> online = Online(np.array([0.012, 0.02]), np.array([1e5, 1e5]))
    >>> rmse_difference((v, v), (se, se), 0 * se, online, draws=100).value
    0.0
    """
    keep, w = online.defined, _weights(online)
    s1, s2 = (s[keep] for s in std_errors)
    covariance = (s1**2 + s2**2 - difference_std_error[keep] ** 2) / 2
    slope = _single(np.divide(covariance, s1, out=np.zeros_like(s1), where=s1 > 0))
    rest = _single(np.sqrt(np.maximum(s2**2 - slope**2, 0.0)))
    v1, v2 = (_single(v[keep]) for v in estimates)
    sd, se_online, rate = (_single(x) for x in (s1, online.std_error[keep], online.rate[keep]))
    simulated = []
    for z in _chunks(draws, len(v1), seed):
        shared = rate + se_online * z[1]
        first = _simulated(v1 + sd * z[0], shared, rate, w)
        second = _simulated(v2 + slope * z[0] + rest * z[2], shared, rate, w)
        simulated.append(first - second)
    value = relative_rmse(estimates[0], online) - relative_rmse(estimates[1], online)
    return _spread(value, simulated, rate / se_online, online)


@dataclass(frozen=True)
class TruthError:
    """Errors relative to the world's true value, N-weighted over every cell.

    Attributes
    ----------
    rmse, bias, sd : float
        Root mean square, mean and standard deviation of (V̂ − V)/V.
    claimed : float
        Root mean square of se/V: what the standard errors say ``rmse`` should be.
    coverage : float
        Unweighted share of cells whose 95% normal interval contains V.
    """

    rmse: float
    bias: float
    sd: float
    claimed: float
    coverage: float


def truth_error(estimate: Floats, std_error: Floats, truth: Floats, n: Floats) -> TruthError:
    """Compare estimates with the true values, free of the online arm's own noise.

    Examples
    --------
    >>> one = np.ones(2)
    >>> truth_error(np.array([0.9, 1.1]), 0.1 * one, one, one).coverage
    1.0
    """
    w = n / n.sum()
    error = (estimate - truth) / truth
    bias = float(w @ error)
    rmse = float(np.sqrt(w @ error**2))
    inside = np.abs(estimate - truth) <= norm.ppf(0.975) * std_error
    return TruthError(
        rmse=rmse,
        bias=bias,
        sd=float(np.sqrt(max(rmse**2 - bias**2, 0.0))),
        claimed=float(np.sqrt(w @ (std_error / truth) ** 2)),
        coverage=float(inside.mean()),
    )


def _weights(online: Online) -> Floats:
    n = online.n[online.defined]
    return np.asarray(n / n.sum())


def _rms(error: NDArray[Any], unit: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """Weighted root mean square of error/unit over the last axis."""
    return np.asarray(np.sqrt(((error / unit) ** 2) @ weight))


def _simulated(
    estimate: NDArray[np.float32], online: NDArray[np.float32], rate: NDArray[np.float32], weight: Floats
) -> NDArray[np.float32]:
    """Relative-RMSEs of simulated tables, (2, draws): divided by the drawn and the observed V̄."""
    error, w = estimate - online, _single(weight)
    # Single precision can hit zero exactly; next to zero is as far out as the draw deserves.
    online = np.where(online == 0, np.float32(1e-12), online)
    return np.stack([_rms(error, online, w), _rms(error, rate, w)])


def _single(x: Floats) -> NDArray[np.float32]:
    """Seven digits are plenty for a simulated standard deviation, and twice as fast."""
    return np.asarray(x, dtype=np.float32)


@lru_cache(maxsize=1)
def _normals(draws: int, cells: int, seed: int) -> NDArray[np.float32]:
    """Standard normals (draws, 3, cells): every estimator is simulated with the same ones."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((draws, 3, cells), dtype=np.float32)


def _chunks(draws: int, cells: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield (3, chunk, cells) pieces that fit in a processor's cache."""
    z = _normals(draws, cells, seed)
    for start in range(0, draws, _CHUNK):
        yield z[start : start + _CHUNK].swapaxes(0, 1)


def forget_draws() -> None:
    """Free the normals kept for the next estimator (130 MB at 100,000 draws of 112 cells)."""
    _normals.cache_clear()


def _spread(value: float, simulated: list[NDArray[np.float32]], distance: NDArray[Any], online: Online) -> Spread:
    drawn, fixed = np.concatenate(simulated, axis=1, dtype=np.float64)
    low, high = np.quantile(drawn, norm.cdf([-1.0, 1.0]))
    return Spread(
        value=value,
        std_error=float(drawn.std()),
        robust=float(high - low) / 2,
        fixed=float(fixed.std()),
        near_zero=float(norm.cdf(-distance).max()),
        cells_left_out=int((~online.defined).sum()),
    )
