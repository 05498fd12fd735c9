"""The distribution of a policy's returns: quantiles and CVaR, with a band, from weighted episodes.

With self-normalized weights w_i of whole episodes, F̂(x) = Σ w_i 1{G_i ≤ x} is the target's distribution of returns
(Chandak et al. 2021). Its error at x is that of a ratio of means, so the band is F̂ ± c·s(x), with c from the multiplier
bootstrap of the largest |F̂* − F̂| / s over x: it holds for all x at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.errors import NotIdentifiedError, UsageError

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation

DRAWS = 500
FEWEST = 20.0


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
        Effective number of episodes.
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


def returns(
    ev: Evaluation, policy: str | None = None, *, level: float = 0.95, seed: int = 0
) -> Returns:
    """The distribution of a policy's returns, from the weights of whole episodes.

    Parameters
    ----------
    ev : Evaluation
        Of trajectories (or of single decisions, whose reward is the return).
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
    >>> found = returns(op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]))
    >>> abs(found.quantile(0.5) - 1.0) < 0.2
    True
    """
    from offpolicy.scores.catalog import named
    from offpolicy.trust.verdict import policy_name

    if not 0 < level < 1:
        raise UsageError(f"level= must be in the range (0, 1). Got {level!r} instead.")
    name = policy_name(ev, policy)
    d = ev.problem.decisions(ev.targets[name], named("SNIPW"))
    logs = d.log_product
    highest = float(logs.max(initial=-np.inf))
    weight = d.mass * np.exp(logs - highest) if np.isfinite(highest) else np.zeros(d.n)
    effective = float(weight.sum() ** 2 / max((weight**2).sum(), 1e-300))
    if effective < FEWEST:
        raise NotIdentifiedError(
            f"the weights of whole episodes are worth {effective:.1f} episodes: too few for a distribution. Use a "
            "shorter horizon or a policy closer to the logging one."
        )
    return distribution(np.asarray(d.returns), weight, level, seed)


def distribution(total: Floats, weight: Floats, level: float, seed: int) -> Returns:
    """Weighted empirical distribution with a simultaneous band."""
    order = np.argsort(total, kind="stable")
    x, w = total[order], weight[order] / weight.sum()
    value, start = np.unique(x, return_index=True)
    ends = np.append(start[1:], len(x)) - 1
    below = np.cumsum(w)[ends]
    # Influence of unit i on F̂(x): w_i (1{G_i ≤ x} − F̂(x)).
    square = np.cumsum(w**2)
    spread = np.sqrt(np.maximum(square[ends] * (1 - 2 * below) + below**2 * square[-1], 1e-300))
    rng = np.random.default_rng(seed)
    inside = (below > 0.01) & (below < 0.99)
    largest = np.empty(DRAWS)
    for b in range(DRAWS):
        noise = w * rng.standard_normal(len(w))
        sums = np.cumsum(noise)
        moved = sums[ends] - below * sums[-1]
        used = np.abs(moved[inside]) / spread[inside] if inside.any() else np.zeros(1)
        largest[b] = used.max(initial=0.0)
    reach = float(np.quantile(largest, level)) * spread
    effective = float(1 / (w**2).sum())
    return Returns(
        value,
        np.minimum(below, 1.0),
        np.clip(below - reach, 0.0, 1.0),
        np.clip(below + reach, 0.0, 1.0),
        level,
        effective,
    )


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
