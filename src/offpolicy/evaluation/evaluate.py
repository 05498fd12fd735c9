"""`evaluate`: ask a question about a log; `policy_scorer`: the answer as a score for scikit-learn's GridSearchCV."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError
from offpolicy.evaluation.question import Question
from offpolicy.evaluation.result import Evaluation
from offpolicy.splits.hashing import DEFAULT_SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log, Scan
    from offpolicy.splits.folds import KFold


@checks_arguments
def evaluate(
    log: Log | Scan,
    policies: Any,
    *,
    estimators: Any = None,
    reward_model: Any = None,
    value_model: Any = None,
    behavior_model: Any = None,
    ratio: Any = "exact",
    folds: int | KFold | Array | None = None,
    repeats: int = 1,
    discount: float = 1.0,
    seed: int = DEFAULT_SEED,
    n_jobs: int | None = None,
    minimize: bool | str | Sequence[str] = False,
    randomized: bool = False,
    gamma: float | None = None,
    learned_elsewhere: bool | str | Sequence[str] = False,
) -> Evaluation:
    """Estimate what policies would have earned, from a log of another policy.

    Parameters
    ----------
    log : BanditLog, Trajectories, Slates, or what `offpolicy.scan` gives
        What was logged.
    policies : policy or {name: policy}
        An object with ``probabilities(context)``, a callable giving probabilities or one label per row, a
        fitted classifier, an agent with ``predict``, a torch module giving logits, a mapping from action to
        probability, an (n, K) array, or words: a column of the frame, "uniform", "always:x". An unfitted
        scikit-learn estimator is a model of the reward that is refitted out of fold (`policies.CrossFitted`).
    estimators : list of names or `Estimator` objects, optional
        Default: the recommended "auto" beside DML, SNDR, SNIPW, IPW and DM.
    reward_model : learner, "auto", or (n, K) array, optional
        Bandit logs: μ(s, a). Any scikit-learn regressor or classifier; ``{metric: learner or array}`` where metrics
        need different ones.
    value_model : value model, regressor, (steps, K) array or {policy: array}, optional
        Trajectories: {q_t}. `Tabular`, `FittedQ`, `ModelBased`, `TorchValue`; default: `Tabular()` for
        discrete states, else `FittedQ()`. ``{metric: …}`` for a log with several.
    behavior_model : classifier, "shares", "auto", (n, K) array, policy, or None
        None uses the logged propensities exactly; without them the default model is fitted. A policy is the logging
        policy itself, asked block by block.
    ratio : "exact", `CoarseRatio`, `KernelRatio`, `MarginalRatio`, arrays or "auto"
        Whose probabilities the importance weights are ratios of: those of the logged action, or of the cell of
        actions with the same features (for logs with ``action_features=``). "auto" takes cells of all features where
        they make estimates more precise and a paired test against the exact ratio does not object. Trajectories:
        ratios of state-action marginals for DRL, as a `MarginalRatio`, a (steps,) array or {policy: array}. Arrays of
        policies and models have one row per row of the log: for logs read from a frame, a row of that frame, in its
        order.
    folds : int, KFold, or labels, optional
        Number of folds for cross-fitting, or one label per unit (episodes of a frame: in sorted order). The
        fold of a unit is a hash of its id, or of its number, and the seed. Default: two; five for 100
        episodes or more whose states are ids with fewer than 100 steps each on average.
    repeats : int
        How often to redraw the folds. Scores are averaged over repetitions unit by unit; the estimate and its
        standard error are those of the averaged scores.
    discount : float
        γ, for trajectories. The value of fewer steps than the log says is that of ``log.up_to(steps)``.
    seed : int
        Every random choice follows from it, on any number of workers.
    n_jobs : int, optional
        Threads that fit models while scores are made; −1 takes one for each core. None fits and scores in
        turn. The numbers are the same.
    minimize : bool or names of metrics
        Whether a lower value is better, as for costs, or the metrics of which less is better. The numbers are the
        same; what is called better, best and worth a test is not.
    randomized : bool
        Declares that actions were drawn at random given the context columns, where no propensities were logged.
        Without it, or ``gamma``, no verdict on fitted propensities is better than "caution".
    gamma : float, optional
        The factor Γ ≥ 1 by which hidden causes may change the odds of an action, where no propensities were logged:
        the verdict then has to hold for all of them.
    learned_elsewhere : bool or names of policies
        Declares that policies (True: all) were not learned from these rows. A policy that does better here than a
        copy of it that has not seen the rows is refused without it.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> a = rng.integers(2, size=500)
    >>> r = (x > 0) * a + rng.normal(size=500)
    >>> log = op.BanditLog.from_arrays(x, a, r, np.full(500, 0.5))
    >>> ev = op.evaluate(log, lambda x: (x > 0).astype(int), estimators=["DML", "IPW"])
    >>> abs(ev["policy", "DML"].value - 0.5) < 4 * ev["policy", "DML"].std_error
    True
    """
    question = Question(
        log,
        policies,
        estimators,
        reward_model,
        value_model,
        behavior_model,
        ratio,
        folds,
        repeats,
        discount,
        seed,
        n_jobs,
        minimize,
        randomized,
        gamma,
        learned_elsewhere,
    )
    return Evaluation.of(question)


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
            "with a unique index, and pass rows of that frame to the search: search.fit(frame[columns], y)."
        )
    rows = mine.get_indexer(theirs)
    if (rows < 0).any():
        raise UsageError(
            f"{who}: the label {theirs[int((rows < 0).argmax())]!r} is not in the index of the "
            "log's frame. Pass rows of that frame to the search."
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
