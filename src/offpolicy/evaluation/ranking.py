"""How well an evaluation ranks policies whose values are known: off-policy selection, judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy.evaluation.result import Evaluation


@dataclass(frozen=True)
class Ranking:
    """Estimated against true values of several policies.

    Attributes
    ----------
    estimator : str
    order : tuple of str
        Policies from the best estimate to the worst.
    rank_correlation : float
        Spearman's, between estimates and true values; NaN where either does not vary.
    regret : tuple of float
        ``regret[k − 1]``: the best true value less the best among the k policies of highest estimate.
    error : float
        Root mean squared error of the estimates.
    """

    estimator: str
    order: tuple[str, ...]
    rank_correlation: float
    regret: tuple[float, ...]
    error: float

    def regret_at(self, k: int) -> float:
        """Regret when the k policies of highest estimate are tried and the best of them is kept."""
        if isinstance(k, bool) or not 1 <= k <= len(self.regret):
            raise UsageError(f"k must be an int from 1 to {len(self.regret)}. Got {k!r} instead.")
        return self.regret[k - 1]


@checks_arguments
def against(ev: Evaluation, truth: Mapping[str, float], estimator: str | None = None) -> Ranking:
    """Judge the ranking of an evaluation by true values, for benchmarks of off-policy selection.

    Parameters
    ----------
    truth : {policy: value}
        True values (or those of an A/B test) of all policies.
    estimator : str, optional
        Whose estimates to rank by; default: the recommended one among those computed.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(3, size=900)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=900), np.full(900, 1 / 3))
    >>> ev = op.evaluate(log, {str(k): op.policies.Fixed(k) for k in range(3)}, estimators=["SNIPW"])
    >>> found = ev.against({"0": 0.0, "1": 1.0, "2": 2.0})
    >>> found.order, found.regret_at(1)
    (('2', '1', '0'), 0.0)
    """
    from scipy.stats import spearmanr

    from offpolicy.trust.verdict import speaker

    for name in ev.policies:
        if name not in truth:
            raise UsageError(f"truth has no value for policy {name!r}.{did_you_mean(name, truth)}")
    if len(ev.policies) < 2:
        raise UsageError("a ranking needs two policies or more.")
    chosen = speaker(ev, estimator).name
    made = np.array([ev[name, chosen].value for name in ev.policies])
    true = np.array([float(truth[name]) for name in ev.policies])
    sign = -1.0 if getattr(ev, "minimize", False) else 1.0
    order = np.argsort(-sign * np.where(np.isnan(made), -sign * np.inf, made), kind="stable")
    best = np.maximum.accumulate(sign * true[order])
    regret = float((sign * true).max()) - best
    varies = np.ptp(true) > 0 and np.ptp(made[np.isfinite(made)]) > 0
    correlation = float(spearmanr(made, true).statistic) if varies else float("nan")
    return Ranking(
        chosen,
        tuple(ev.policies[i] for i in order),
        correlation,
        tuple(float(r) for r in regret),
        float(np.sqrt(np.nanmean((made - true) ** 2))),
    )
