"""`learn_policy`: find a better policy in a log, and say what it is worth without flattering it.

The value of a policy on the rows it was learned from is too high. So the policy is learned once more without
each fold, and each row is scored with the policy (and the models) that did not see its fold. The mean of these
scores is the honest value of learning in this way from this log; a policy learned from all rows, which is the
one returned, has seen somewhat more.

Where not every action is open to every row, the action of a leaf is taken where it is eligible, and elsewhere the first
eligible one in the order of the actions' mean logged rewards; both are learned, and valued out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.decide.features import coded, learn_features
from offpolicy.decide.learners import (
    LEARNED,
    LEARNERS,
    LONG,
    NAIVE,
    SCORE,
    Learned,
    Material,
    OwnLearner,
    OwnPolicy,
    Task,
    default_reward_model,
)
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.evaluation.evaluate import evaluate, rows_in
from offpolicy.evaluation.question import Asked
from offpolicy.logs.layout import in_frame_order
from offpolicy.policies.by_preference import Greedy
from offpolicy.policies.distribution import one_hot
from offpolicy.policies.protocol import n_rows
from offpolicy.policies.simple import Fixed
from offpolicy.policies.target import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.engines.scan import LogScan
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.bandit import BanditLog

#: Standard errors that the lower bound of a leaf lies below its mean: a one-sided 90% bound.
CAUTION = 1.2815515655446004
SMALLEST_LEAF = 20
Learner = Literal["tree", "boosted"]
Objective = Literal["value", "lower bound"]


@checks_arguments
def learn_policy(
    log: BanditLog | LogScan,
    learner: Learner | Callable[[Any, Floats, tuple[Any, ...]], Any] = "tree",
    *,
    objective: Objective = "value",
    max_depth: int = 2,
    min_rows: int | None = None,
    reward_model: Any = None,
    behavior_model: Any = None,
    folds: int | None = None,
    seed: int = 0,
    metric: str | None = None,
    minimize: bool | str | Sequence[str] = False,
) -> Learned:
    """Learn a policy from a log and value it on rows it has not seen.

    Parameters
    ----------
    log : BanditLog or LogScan
        In memory, or a scan that may be read whole (``way`` "auto" or "rows"). Where it says which actions were
        eligible, only such are chosen.
    learner : {"tree", "boosted"} or function
        A tree of at most ``max_depth`` questions with an action at each leaf, or boosted regressions of each
        action's scores. A learner of your own is a function of the context's rows, their (n, K) doubly robust scores
        and the labels of the K actions, which returns a policy in any form.
    objective : {"value", "lower bound"}
        What an action is chosen by: the mean of its scores in a leaf (its boosted regression), or a one-sided 90%
        lower bound of it, which keeps to actions that the log knows well.
    max_depth : int
        Questions in a row. Trees of depth 2 are the best there are over the bins of the columns, and on small logs
        (some ten columns of few values) those of depth 3 as well.
    min_rows : int, optional
        Rows that a leaf must have; default: 1% of the log, at least 20.
    reward_model, behavior_model
        As in `evaluate`; the default reward model of a log of more than 100,000 rows is LightGBM with 50 trees of
        15 leaves, fitted on a sample of 100,000 of a fold's rows without a search for better settings.
    folds : int, optional
        For models and for the honest value; inside each, two more. Default: 5, and 3 for more than 100,000 rows. The
        policy that is returned has seen all rows, those that are valued all but a fold.
    seed : int
    metric : str, optional
        Which of several rewards to learn for; default: the first.
    minimize : bool or names of metrics
        Whether less of it is better, as of costs; as in `evaluate`. The policy is then the one that costs least, and
        the lower bound of a leaf an upper one.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> a = rng.integers(2, size=2000)
    >>> r = np.where(x[:, 0] > 0, a, 1 - a) + 0.5 * rng.normal(size=2000)
    >>> log = op.BanditLog.from_arrays(x, a, r, np.full(2000, 0.5))
    >>> learned = op.learn_policy(log, max_depth=1)
    >>> [row["action"] for row in learned.policy.table()]
    [0, 1]
    >>> learned.value.interval().covers(1.0)
    True
    """
    _check_question(learner, objective, max_depth, min_rows)
    log = _in_memory(log, learner)
    if metric is not None:
        log = log.with_reward(metric)
    models = {
        "reward_model": default_reward_model(log) if reward_model is None else reward_model,
        "behavior_model": behavior_model,
    }
    smallest = max(SMALLEST_LEAF, log.n // 100) if min_rows is None else min_rows
    task = Task(smallest, CAUTION if objective == "lower bound" else 0.0, max_depth, seed)
    fit: Any = LEARNERS[learner] if isinstance(learner, str) else OwnLearner(learner)

    features = tuple(learn_features(_rows(log), log.context.names))
    codes = coded(_rows(log), features)
    folds = (5 if log.rows <= LONG else 3) if folds is None else folds
    asked = Asked.of(log.metrics, minimize, None, "reward_model")
    sign = -1.0 if asked.names[0] in asked.minimized else 1.0

    def learned(scored: ActionScores, part: BanditLog, codes: list[Ints]) -> Any:
        scores = sign * scored.scores
        return fit(Material(features, codes, scores, log.actions, part.eligible, scored.order, _rows(part)), task)

    whole = action_scores(log, sign, folds=folds, seed=seed, minimize=minimize, **models)
    policy = learned(whole, log, codes)
    label = whole.evaluation.problem.folds.labels[0]
    chosen = np.empty((log.n, len(log.actions)))
    for fold in np.unique(label):
        inside, outside = np.flatnonzero(label == fold), np.flatnonzero(label != fold)
        part = log.take(outside)
        # Another seed: with the same one, rows outside a fold would be split as they were. Two folds do:
        # these models only help to learn, the honest value is scored with those of the whole log.
        seen = action_scores(part, sign, folds=2, seed=seed + 1, **models)
        chosen[inside] = _taken(learned(seen, part, [c[outside] for c in codes]), log, inside, codes)
    given = {LEARNED: chosen, NAIVE: _taken(policy, log, np.arange(log.n), codes)}
    both = whole.evaluation.add({name: in_frame_order(table, log) for name, table in given.items()})
    policy = replace(policy, learned_from=str(whole.evaluation.problem.sums("log").lesson))
    return Learned(policy, _only(both, LEARNED), both[NAIVE, SCORE])


@dataclass(frozen=True, eq=False)
class ActionScores:
    """Doubly robust scores of every row and action.

    Attributes
    ----------
    scores : (n, K) array
        Γ(a), times the row's weight in the mean; of an action that is not eligible, Γ of what is taken instead.
    order : tuple of int
        Actions in the order in which they are taken where another one is not eligible; none where all are.
    evaluation : Evaluation
        Of always taking each action.
    """

    scores: Floats
    order: tuple[int, ...]
    evaluation: Evaluation


def action_scores(log: BanditLog, sign: float = 1.0, **settings: Any) -> ActionScores:
    """Score every action in every row, by models that did not see the row; settings are those of `evaluate`.

    >>> import numpy as np, offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0], np.full(4, 0.5))
    >>> action_scores(log, reward_model=np.tile([0.0, 0.5], (4, 1))).scores[1].tolist()
    [0.0, 1.5]
    """
    order = _order(log, sign)
    ev = evaluate(log, _each(log, order), estimators=[SCORE], **settings)
    scores = np.column_stack([ev[name, SCORE].psi[0] for name in ev.policies])
    return ActionScores(scores * ev.problem.units.mass[:, None], order, ev)


def _taken(policy: Any, log: BanditLog, at: Ints, codes: list[Ints]) -> Floats:
    """(m, K) what a learned policy does in some rows."""
    if isinstance(policy, OwnPolicy):
        part = log.take(at)
        target = resolve("learned", policy.policy, part)
        rows = np.arange(len(at))
        return target.probabilities(part.context.positions(rows) if target.shares_context else rows)
    able = picked(log.eligible, at)
    return one_hot(policy.decide([c[at] for c in codes], len(at), able), len(log.actions))


def _rows(log: BanditLog) -> Any:
    return log.context.native(log.context.positions(np.arange(log.rows)))


def _only(ev: Evaluation, policy: str) -> Evaluation:
    return replace(
        ev,
        question=ev.question.but(policies={policy: ev.question.policies[policy]}),
        targets={policy: ev.targets[policy]},
        estimates={key: e for key, e in ev.estimates.items() if key[0] == policy},
    )


def _order(log: BanditLog, sign: float) -> tuple[int, ...]:
    """Actions by the mean of their logged rewards, the best first; none where all are open everywhere."""
    if log.eligible is None:
        return ()
    k = len(log.actions)
    taken = np.bincount(log.action, minlength=k)
    earned = np.bincount(log.action, weights=log.reward, minlength=k)
    mean = np.where(taken > 0, sign * earned / np.maximum(taken, 1), -np.inf)
    return tuple(int(a) for a in np.argsort(-mean, kind="stable"))


def _each(log: BanditLog, order: tuple[int, ...]) -> dict[str, Any]:
    """A policy for each action: always that one, or the next in the order where it is not eligible."""
    if not order:
        return {f"{i}": Fixed(action) for i, action in enumerate(log.actions)}
    rank = np.empty(len(order))
    rank[list(order)] = np.arange(len(order), 0, -1)

    def preferring(code: int) -> Greedy:
        wanted = rank.copy()
        wanted[code] = len(order) + 1
        return Greedy(lambda context: np.tile(wanted, (n_rows(context), 1)))

    return {f"{i}": preferring(i) for i in range(len(order))}


def _in_memory(log: BanditLog | LogScan, learner: Any) -> BanditLog:
    """The log's rows, where a policy can be learned from them."""
    if getattr(log, "kind", None) == "bandit" and getattr(log, "way", None) in {"auto", "rows"}:
        log = cast("LogScan", log).read()
    log = cast("BanditLog", log)
    if getattr(log, "kind", None) != "bandit" or not log.in_memory:
        raise UsageError("learn_policy needs a bandit log in memory: BanditLog.from_frame, or scan(…, way='rows').")
    if not log.space.finite:
        raise UsageError(
            "learn_policy chooses among labels, but the actions of this log are numbers. Group them into ranges (such "
            "as price bands) and use the group as the action, or see ev.value_curve()."
        )
    if float(log.count.max()) > 1:
        raise UsageError("learn_policy needs one row per decision; this log is compressed. Use way='rows'.")
    _check_context(log, learner)
    return log


def _check_question(learner: Any, objective: str, max_depth: int, min_rows: int | None) -> None:
    if not isinstance(learner, str) and not callable(learner):
        raise UsageError(
            f"learner= must be one of {list(LEARNERS)} or a function (context, scores, actions) that returns a policy. "
            f"Got {type(learner).__name__} instead."
        )
    words = [(learner, LEARNERS, "learner")] if isinstance(learner, str) else []
    for value, known, name in (*words, (objective, ("value", "lower bound"), "objective")):
        if value not in known:
            raise UsageError(f"{name}= must be one of {list(known)}.{did_you_mean(value, known)}")
    if not isinstance(max_depth, int | np.integer) or max_depth < 0:
        raise UsageError(f"max_depth= must be an int of at least 0. Got {max_depth!r} instead.")
    if min_rows is not None and (not isinstance(min_rows, int | np.integer) or min_rows < 1):
        raise UsageError(f"min_rows= must be an int of at least 1. Got {min_rows!r} instead.")


def _check_context(log: BanditLog, learner: Any) -> None:
    if log.context.names is None and np.ndim(log.context.table) > 2:
        raise UsageError(
            f"learn_policy needs a table of features; this context is an array of shape {np.shape(log.context.table)}."
        )
    if learner == "boosted" and not learn_features(_rows(log), log.context.names):
        raise UsageError("learner='boosted' needs a context column with more than one value. Use learner='tree'.")


SETTINGS = ("log", "learner", "objective", "max_depth", "min_rows", "reward_model", "seed")


class PolicyLearner:
    """A policy learned from the rows that a search gives it; its settings are those of `learn_policy`.

    Parameters
    ----------
    log : BanditLog
        Built from a pandas frame with a unique index: a search's rows are found by their labels.
    learner, objective, max_depth, min_rows, reward_model, seed
        As in `learn_policy`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, offpolicy as op
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.model_selection import GridSearchCV
    >>> from offpolicy.evaluation.evaluate import policy_scorer
    >>> rng = np.random.default_rng(0)
    >>> df = pd.DataFrame({"x": rng.normal(size=600), "a": rng.integers(2, size=600), "p": 0.5})
    >>> df["r"] = 1.0 * (df["a"] == (df["x"] > 0))
    >>> log = op.BanditLog.from_frame(df, context=["x"], action="a", reward="r", propensity="p")
    >>> model = PolicyLearner(log, reward_model=DummyRegressor())
    >>> search = GridSearchCV(model, {"max_depth": [0, 1]}, scoring=policy_scorer(log), cv=2)
    >>> search.fit(df[["x"]]).best_params_
    {'max_depth': 1}
    """

    def __init__(
        self,
        log: BanditLog,
        learner: Any = "tree",
        objective: str = "value",
        max_depth: int = 2,
        min_rows: int | None = None,
        reward_model: Any = None,
        seed: int = 0,
    ) -> None:
        self.log = log
        self.learner = learner
        self.objective = objective
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.reward_model = reward_model
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002  (scikit-learn's)
        """The settings by name."""
        return {name: getattr(self, name) for name in SETTINGS}

    def set_params(self, **settings: Any) -> PolicyLearner:
        """Change settings."""
        for name, value in settings.items():
            if name not in SETTINGS:
                raise UsageError(f"PolicyLearner has no setting {name!r}.{did_you_mean(name, SETTINGS)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: no target is needed."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_clone__(self) -> PolicyLearner:
        """A copy with the same settings and the same log, which is data and is not copied."""
        return type(self)(**self.get_params())

    def fit(self, X: Any, y: Any = None) -> PolicyLearner:
        """Learn from the rows of the log that X names by its index."""
        self.learned_: Learned = learn_policy(
            self.log.take(rows_in(self.log, X, "PolicyLearner")),
            self.learner,
            objective=self.objective,  # type: ignore[arg-type]
            max_depth=self.max_depth,
            min_rows=self.min_rows,
            reward_model=self.reward_model,
            seed=self.seed,
        )
        return self

    def fit_policy(self, log: BanditLog) -> Any:
        """The policy learned from a log, with these settings: what `offpolicy.policies.CrossFitted` asks for."""
        settings = {name: getattr(self, name) for name in SETTINGS if name != "log"}
        return learn_policy(log, **settings).policy

    @property
    def learned_from(self) -> str:
        """Digest of the rows it was fitted on; empty before."""
        return self._fitted().learned_from if hasattr(self, "learned_") else ""

    def bind(self, actions: Any) -> Any:
        """Return the learned policy for these actions, in this order."""
        return self._fitted().bind(actions)

    def probabilities(self, context: Any) -> Floats:
        """(n, K) probabilities of the learned policy."""
        return self._fitted().probabilities(context)

    def predict(self, X: Any) -> Array:
        """(n,) labels of the actions it takes."""
        learned = self._fitted()
        labels: Array = np.array(learned.policy.labels, dtype=object)
        return np.asarray(labels[learned.probabilities(X).argmax(axis=1)])

    def _fitted(self) -> Learned:
        if not hasattr(self, "learned_"):
            raise UsageError("PolicyLearner is not fitted: call fit(X) with rows of the log's frame.")
        return self.learned_
