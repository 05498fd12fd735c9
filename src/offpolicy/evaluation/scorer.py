"""What a policy earns, as a score for scikit-learn's model selection: GridSearchCV over policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate

if TYPE_CHECKING:
    from offpolicy._arrays import Ints
    from offpolicy.logs.bandit import BanditLog


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
