"""The distribution of a policy's returns: quantiles and CVaR, with a band, from weighted episodes.

With self-normalized weights w_i of whole episodes, F̂(x) = Σ w_i 1{G_i ≤ x} is the target's distribution of returns
(Chandak et al. 2021). Its error at x is that of a ratio of means, so the band is F̂ ± c·s(x), with c from the multiplier
bootstrap of the largest |F̂* − F̂| / s over x: it holds for all x at once. Units are episodes, or the clusters that hold
them. In the tails too few of them have been seen for s(x) to be known: there it is what it would be where thirty have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import NotIdentifiedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.evaluation.result import Evaluation

DRAWS = 500
FEWEST = 20.0
GRID = 5000
SEEN = 30.0  # units from which on the spread of a share of them is known


@dataclass(frozen=True, eq=False)
class Returns:
    """A weighted distribution of returns.

    Attributes
    ----------
    value : (m,) array
        Returns that occur, in order.
    below : (m,) array
        F̂ at each.
    low, high : (m,) arrays
        A band that holds F at all of them with probability ``level``.
    effective : float
        Effective number of episodes, or of the clusters that hold them.
    """

    value: Floats
    below: Floats
    low: Floats
    high: Floats
    level: float
    effective: float

    def quantile(self, q: float) -> float:
        """The smallest return that a share q of the target's episodes does not exceed."""
        return _first_above(self.value, self.below, q)

    def quantile_interval(self, q: float) -> tuple[float, float]:
        """An interval of that quantile, from the band."""
        return _first_above(self.value, self.high, q), _first_above(self.value, self.low, q)

    def cvar(self, share: float = 0.05) -> float:
        """Mean return of the worst ``share`` of the episodes."""
        return _lower_mean(self.value, self.below, share)

    def cvar_interval(self, share: float = 0.05) -> tuple[float, float]:
        """An interval of it, from the band, within the returns that were seen."""
        return _lower_mean(self.value, self.high, share), _lower_mean(self.value, self.low, share)


@checks_arguments
def returns(ev: Evaluation, policy: str | None = None, *, level: float = 0.95, seed: int = 0) -> Returns:
    """The distribution of a policy's returns, from the weights of whole episodes.

    Parameters
    ----------
    policy : str, optional
        Which; may be left out when there is one.
    level : float
        Of the band.
    seed : int
        Of the multipliers.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=2000)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=2000), np.full(2000, 0.5))
    >>> found = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]).returns()
    >>> abs(found.quantile(0.5) - 1.0) < 0.2
    True
    """
    from offpolicy.scores.catalog import named
    from offpolicy.trust.verdict import policy_name

    if not 0 < level < 1:
        raise UsageError(f"level= must be in the range (0, 1). Got {level!r} instead.")
    name = policy_name(ev, policy)
    d, units = ev.problem.decisions(ev.targets[name], named("SNIPW")), ev.problem.units
    logs = d.log_product
    highest = float(logs.max(initial=-np.inf))
    weight = d.mass * np.exp(logs - highest) if np.isfinite(highest) else np.zeros(d.n)
    cluster = units.cluster if units.has_clusters else None
    weighted = Weighted(np.asarray(d.returns), weight, units.count, cluster)
    effective = weighted.effective
    if effective < FEWEST:
        raise NotIdentifiedError(
            f"after weighting whole episodes, the log is worth {effective:.1f} episodes, too few for a distribution. "
            "Use a shorter horizon or a policy closer to the current one."
        )
    return distribution(weighted, level, seed)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Returns of rows with their weights; a row may stand for ``count`` units that are alike, or share a cluster."""

    total: Floats
    weight: Floats
    count: Floats | None = None
    cluster: Ints | None = None

    @cached_property
    def unit(self) -> Ints:
        """(N,) the independent unit of each row."""
        if self.cluster is None:
            return np.arange(len(self.total))
        return np.asarray(np.unique(self.cluster, return_inverse=True)[1])

    @cached_property
    def repeats(self) -> Floats:
        """(G,) how many independent units each of `unit` stands for."""
        if self.count is None or self.cluster is not None:
            return np.ones(int(self.unit.max(initial=-1)) + 1)
        return np.maximum(self.count, 1.0)

    @property
    def effective(self) -> float:
        """Effective number of independent units."""
        sums = np.bincount(self.unit, self.weight)
        square = float((sums**2 / self.repeats).sum())
        return float(sums.sum()) ** 2 / square if square > 0 else 0.0


def distribution(rows: Weighted, level: float, seed: int) -> Returns:
    """Weighted empirical distribution with a simultaneous band."""
    order = np.argsort(rows.total, kind="stable")
    x, w = rows.total[order], rows.weight[order] / rows.weight.sum()
    unit, repeats = rows.unit[order], rows.repeats
    value, start = np.unique(x, return_index=True)
    ends = np.append(start[1:], len(x)) - 1
    below = np.cumsum(w)[ends]
    share = np.bincount(unit, w)
    # Influence of unit g on F̂(x): A_g(x) − F̂(x) B_g, its weight up to x and in all.
    upto = _squares_upto(w, unit, repeats)[ends]
    cross = np.cumsum(w * share[unit] / repeats[unit])[ends]
    whole = float((share**2 / repeats).sum())
    thin = min(0.5, SEEN * whole)
    floor = thin * (1 - thin) * whole
    spread = np.sqrt(np.maximum(upto - 2 * below * cross + below**2 * whole, floor))
    # The largest over very many values is that over a fine grid of them.
    grid = np.unique(np.linspace(0, len(ends) - 1, GRID).astype(np.int64))
    largest = [
        float((np.abs(sums - below[grid] * sums[-1]) / spread[grid]).max())
        for sums in _noise(w, unit, repeats, upto, ends, grid, seed)
    ]
    reach = float(np.quantile(largest, level)) * spread
    return Returns(
        value,
        np.minimum(below, 1.0),
        np.clip(below - reach, 0.0, 1.0),
        np.clip(below + reach, 0.0, 1.0),
        level,
        1 / whole,
    )


def _noise(w: Floats, unit: Ints, repeats: Floats, upto: Floats, ends: Ints, grid: Ints, seed: int) -> Iterator[Floats]:
    """Draws of Σ ξ_g A_g(x) at the values of a grid, with normal ξ; the last of them is the last value.

    Units of one row each add noise at one value only, so that it is drawn by value: however many units have it, and
    in whatever rows they come, it is the same noise.
    """
    rng = np.random.default_rng(seed)
    alone = len(repeats) == len(w)
    steps = np.sqrt(np.diff(upto[grid], prepend=0.0)) if alone else np.zeros(0)
    for _ in range(DRAWS):
        if alone:
            yield np.cumsum(steps * rng.standard_normal(len(grid)))
        else:
            yield np.cumsum(rng.standard_normal(len(repeats))[unit] * w)[ends][grid]


def _squares_upto(w: Floats, unit: Ints, repeats: Floats) -> Floats:
    """Σ_g A_g² at each row, where A_g sums the weights of unit g up to that row."""
    by_unit = np.argsort(unit, kind="stable")
    running = np.cumsum(w[by_unit]) - w[by_unit]
    first = np.searchsorted(unit[by_unit], unit[by_unit])
    before = np.empty(len(w))
    before[by_unit] = running - running[first]
    return np.asarray(np.cumsum((2 * before * w + w**2) / repeats[unit]))


def _first_above(value: Floats, below: Floats, q: float) -> float:
    if not 0 < q < 1:
        raise UsageError(f"a quantile must be in the range (0, 1). Got {q!r} instead.")
    at = int(np.searchsorted(np.maximum.accumulate(below), q - 1e-12))
    return float(value[min(at, len(value) - 1)])


def _lower_mean(value: Floats, below: Floats, share: float) -> float:
    if not 0 < share <= 1:
        raise UsageError(f"share= must be in the range (0, 1]. Got {share!r} instead.")
    reached = np.minimum(np.maximum.accumulate(below), share)
    mass = np.diff(reached, prepend=0.0)
    # What the distribution leaves open lies at its end.
    mass[-1] += share - reached[-1]
    return float(mass @ value / share)
