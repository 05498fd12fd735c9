"""Selecting policies: rankings held against known values, and the value as a score for scikit-learn's GridSearchCV."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.evaluation.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Ints
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.bandit import BanditLog


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


@dataclass(frozen=True, eq=False)
class PolicyScorer:
    """A scorer of fitted policies; made by `policy_scorer`."""

    log: BanditLog
    estimator: str = "SNIPW"
    level: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """What the policy ``model`` earns on the rows X of the log; higher is better.

        ``y`` and ``sample_weight`` are what the policy was fitted with, and have no part in what it earns.
        """
        part = self.log.take(rows_in(self.log, X, "policy_scorer"))
        ev = evaluate(part, {"model": model}, estimators=[self.estimator], **self.settings)
        e = ev["model", self.estimator]
        return float(e.value if self.level is None else e.interval(self.level).low)


def rows_in(log: BanditLog, X: Any, who: str) -> Ints:
    """Positions in the log of the rows that a search hands out, by the labels of their index."""
    mine, theirs = getattr(log.source, "index", None), getattr(X, "index", None)
    if mine is None or theirs is None or not mine.is_unique:
        raise UsageError(
            f"{who} finds rows by the index of a pandas frame. Build the log from a frame "
            "with a unique index, and give the search rows of that frame: search.fit(frame[columns], y)."
        )
    rows = mine.get_indexer(theirs)
    if (rows < 0).any():
        raise UsageError(
            f"{who}: the label {theirs[int((rows < 0).argmax())]!r} is not in the index of the "
            "log's frame. Give the search rows of that frame."
        )
    return np.asarray(rows, dtype=np.int64)


def policy_scorer(
    log: BanditLog, *, estimator: str = "SNIPW", level: float | None = None, **settings: Any
) -> PolicyScorer:
    """A ``scoring=`` for GridSearchCV and its like: what a fitted policy earns on the rows held out.

    The search fits a classifier of actions (or anything else that `evaluate` takes as a policy) on some rows of
    the log's frame; the scorer values it on the others, so that no policy is judged by rows it was fitted on.

    Parameters
    ----------
    log : BanditLog
        Built from a pandas frame with a unique index.
    estimator : str
        By whom the policy is valued. "SNIPW" needs no reward model; "DML" fits one for every candidate and
        split.
    level : float, optional
        Score by the lower end of the interval at this level instead of the value: prefer what is surely good.
    **settings
        Passed on to `evaluate`: ``behavior_model=``, ``reward_model=``, ``seed=``, ….

    Examples
    --------
    >>> import pandas as pd, offpolicy as op
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> df = pd.DataFrame({"x": rng.normal(size=600), "a": rng.integers(2, size=600), "p": 0.5})
    >>> df["r"] = 1.0 * (df["a"] == (df["x"] > 0))
    >>> log = op.BanditLog.from_frame(df, context=["x"], action="a", reward="r", propensity="p")
    >>> search = GridSearchCV(
    ...     DecisionTreeClassifier(), {"max_depth": [1, 3]}, scoring=policy_scorer(log), cv=3
    ... )
    >>> best = search.fit(df[["x"]], df["a"], sample_weight=df["r"] / df["p"])  # actions that paid
    >>> print(f"{best.best_score_:.1f}")  # a coin earns 0.5
    1.0
    """
    return PolicyScorer(log, estimator, level, settings)
