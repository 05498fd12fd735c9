"""`learn_policy`: find a better policy in a log, and say what it is worth without flattering it.

The value of a policy on the rows it was learned from is too high. So the policy is learned once more without
each fold, and each row is scored with the policy (and the models) that did not see its fold. The mean of these
scores is the honest value of learning in this way from this log; a policy learned from all rows, which is the
one returned, has seen somewhat more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy.decide.features import coded, learn_features
from offpolicy.decide.policies import BoostedPolicy, TreePolicy
from offpolicy.decide.showing import learned_section
from offpolicy.decide.tree import Search
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.models.rewards.boosted import BoostedReward, lightgbm
from offpolicy.policies.distribution import one_hot
from offpolicy.policies.simple import Fixed
from offpolicy.report.decision import Tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from offpolicy._arrays import Floats, Ints
    from offpolicy.decide.features import Feature
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.models.rewards.reward import FittedReward, RewardData
    from offpolicy.report.sections import Section

LEARNED, NAIVE = "learned", "learned, on its own rows"
SCORE = "DML"
#: Standard errors that the lower bound of a leaf lies below its mean: a one-sided 90% bound.
CAUTION = 1.2815515655446004
SMALLEST_LEAF = 20
#: Rows beyond which the default reward model is fitted on so many and does not choose and tune; what it is then.
LONG = 100_000
FOR_LONG_LOGS: dict[str, Any] = {"rounds": 50, "grid": ({"num_leaves": 15},), "validation": 0}
Learner = Literal["tree", "boosted"]
Objective = Literal["value", "lower bound"]


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy learned from a log, with its honest value.

    Attributes
    ----------
    policy : TreePolicy or BoostedPolicy
        Learned from all rows. `Learned` itself can be given to `evaluate` as well.
    evaluation : Evaluation
        Of the policies learned without each fold, on the rows of that fold; report, verdict and gate work.
    naive : Estimate
        Value of the policy on the rows it was learned from: too high.
    """

    policy: TreePolicy | BoostedPolicy
    evaluation: Evaluation
    naive: Estimate

    @property
    def value(self) -> Estimate:
        """The honest value."""
        return self.evaluation[LEARNED, SCORE]

    @property
    def gain(self) -> Estimate:
        """The honest value less that of the logging policy."""
        return self.value - self.evaluation.logged

    @property
    def optimism(self) -> float:
        """By how much the value on its own rows flatters the policy."""
        return self.naive.value - self.value.value

    def bind(self, actions: Any) -> Any:
        """Return the policy for these actions, in this order."""
        return self.policy.bind(actions)

    def probabilities(self, context: Any) -> Floats:
        """(n, K) probabilities of the policy learned from all rows."""
        return self.policy.probabilities(context)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the report of the evaluation with the tree drawn in it; see `Evaluation.report`."""
        return self.evaluation.report(path, decision=self, **options)

    def log_mlflow(self, **options: Any) -> str:
        """Log the policy and its evaluation to MLflow; see `Evaluation.log_mlflow`."""
        return self.evaluation.log_mlflow(decision=self, **options)

    def sections(self) -> list[Section]:
        """The learned policy in a report."""
        return [learned_section(self)]

    def tracked(self) -> Tracked:
        """What a tracker is told of the policy."""
        numbers = {
            "learned/naive": self.naive.value,
            "learned/optimism": self.optimism,
            "learned/gain": self.gain.value,
        }
        files = {"policy.txt": str(self)}
        if isinstance(self.policy, TreePolicy):
            files |= {"policy.json": self.policy.to_json(), "policy.sql": self.policy.to_sql()}
        return Tracked(numbers, {"offpolicy.policy": type(self.policy).__name__}, files)

    def __str__(self) -> str:
        i, g = self.value.interval(), self.gain.interval()
        value = (
            f"honest value {self.value.value:.4g} (95% {i.low:.4g} to {i.high:.4g}); on the rows it was learned "
            f"from {self.naive.value:.4g}, which flatters it by {self.optimism:.2g}"
        )
        gain = f"gain over the logging policy {self.gain.value:+.4g} (95% {g.low:+.4g} to {g.high:+.4g})"
        return "\n".join([str(self.policy), value, gain])

    def __repr__(self) -> str:
        return str(self)


def learn_policy(
    log: BanditLog,
    learner: Learner = "tree",
    *,
    objective: Objective = "value",
    max_depth: int = 2,
    min_rows: int | None = None,
    reward_model: Any = None,
    behavior_model: Any = None,
    folds: int | None = None,
    seed: int = 0,
) -> Learned:
    """Learn a policy from a log and value it on rows it has not seen.

    Parameters
    ----------
    log : BanditLog
        In memory; every action is open to every row.
    learner : {"tree", "boosted"}
        A tree of at most ``max_depth`` questions with an action at each leaf, or boosted regressions of each
        action's scores.
    objective : {"value", "lower bound"}
        What a leaf's action is chosen by: the mean of its scores, or a one-sided 90% lower bound of it, which
        keeps to actions that the log knows well.
    max_depth : int
        Questions in a row; trees of depth 2 are searched exhaustively.
    min_rows : int, optional
        Rows that a leaf must have; default: 1% of the log, at least 20.
    reward_model, behavior_model
        As in `evaluate`; the default reward model of a log of more than 100,000 rows is LightGBM with 50 trees of
        15 leaves, fitted on a sample of 100,000 of a fold's rows without a search for better settings.
    folds : int, optional
        For models and for the honest value; inside each, two more. Default: 5, and 3 for more than 100,000 rows. The
        policy that is returned has seen all rows, those that are valued all but a fold.
    seed : int

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
    _check(log, learner, objective, max_depth, min_rows)
    models = {
        "reward_model": _reward_model(log) if reward_model is None else reward_model,
        "behavior_model": behavior_model,
    }
    smallest = max(SMALLEST_LEAF, log.n // 100) if min_rows is None else min_rows
    caution = CAUTION if objective == "lower bound" else 0.0
    task = Task(smallest, caution, max_depth, seed)
    fit = LEARNERS[learner]

    rows = _rows(log)
    features = tuple(learn_features(rows, log.context.names))
    codes = coded(rows, features)
    folds = (5 if log.rows <= LONG else 3) if folds is None else folds
    whole = evaluate(log, _each(log), estimators=[SCORE], folds=folds, seed=seed, **models)
    policy = fit(features, codes, _scores(whole), log.actions, task)
    label = whole.problem.source.folds.labels[0]
    chosen = np.empty(log.n, dtype=np.int64)
    for k in np.unique(label):
        inside, outside = np.flatnonzero(label == k), np.flatnonzero(label != k)
        part = log.take(outside)
        # Another seed: with the same one, rows outside a fold would be split as they were. Two folds do:
        # these models only help to learn, the honest value is scored with those of the whole log.
        seen = evaluate(part, _each(log), estimators=[SCORE], folds=2, seed=seed + 1, **models)
        learned = fit(features, [c[outside] for c in codes], _scores(seen), log.actions, task)
        chosen[inside] = learned.decide([c[inside] for c in codes], len(inside))
    full = policy.decide(codes, log.n)
    k = len(log.actions)
    both = whole.add({LEARNED: one_hot(chosen, k), NAIVE: one_hot(full, k)})
    naive = both[NAIVE, SCORE]
    return Learned(policy, _only(both, LEARNED), naive)


def _reward_model(log: BanditLog) -> Any:
    """The default of `evaluate`, and for a long log a fit of fixed size: scores need no more to rank actions."""
    return None if log.rows <= LONG else OnSample(BoostedReward(**FOR_LONG_LOGS), LONG)


@dataclass(frozen=True)
class OnSample:
    """A reward model fitted on a sample of so many training rows."""

    model: BoostedReward
    rows: int

    wants_encoded = True
    merges_rows = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Draw the sample and fit."""
        if data.size > self.rows:
            data = data.split(self.rows / data.size, seed)[0]
        return self.model.fit_reward(data, seed)


def _rows(log: BanditLog) -> Any:
    return log.context.native(log.context.positions(np.arange(log.rows)))


def _only(ev: Evaluation, policy: str) -> Evaluation:
    return replace(
        ev,
        targets={policy: ev.targets[policy]},
        estimates={key: e for key, e in ev.estimates.items() if key[0] == policy},
    )


def _each(log: BanditLog) -> dict[str, Fixed]:
    return {f"{i}": Fixed(action) for i, action in enumerate(log.actions)}


def _scores(ev: Evaluation) -> Floats:
    """(n, K) doubly robust scores Γ(a) of every row and action, times the row's weight in the mean."""
    scores = np.column_stack([ev[name, SCORE].psi[0] for name in ev.policies])
    mass = ev.problem.units.mass
    return scores if mass is None else scores * mass[:, None]


def _check(log: Any, learner: str, objective: str, max_depth: int, min_rows: int | None) -> None:
    if getattr(log, "kind", None) != "bandit" or not log.in_memory:
        raise UsageError(
            "learn_policy needs a bandit log in memory: BanditLog.from_frame, or scan(…, way='rows')."
        )
    if log.eligible is not None:
        raise UsageError(
            "learn_policy needs every action open to every row; this log has eligible=."
        )
    if log.count is not None and float(log.count.max()) > 1:
        raise UsageError(
            "learn_policy needs one row per decision; this log is compressed. Use way='rows'."
        )
    for value, known, name in (
        (learner, LEARNERS, "learner"),
        (objective, ("value", "lower bound"), "objective"),
    ):
        if value not in known:
            raise UsageError(f"{name}= must be one of {list(known)}.{did_you_mean(value, known)}")
    if learner == "boosted" and objective == "lower bound":
        raise UsageError("objective='lower bound' is for trees, whose leaves have bounds.")
    _check_sizes(max_depth, min_rows)
    _check_context(log, learner)


def _check_sizes(max_depth: int, min_rows: int | None) -> None:
    if not isinstance(max_depth, int | np.integer) or max_depth < 0:
        raise UsageError(f"max_depth= must be an int of at least 0. Got {max_depth!r} instead.")
    if min_rows is not None and (not isinstance(min_rows, int | np.integer) or min_rows < 1):
        raise UsageError(f"min_rows= must be an int of at least 1. Got {min_rows!r} instead.")


def _check_context(log: Any, learner: str) -> None:
    if log.context.names is None and np.ndim(log.context.table) > 2:
        raise UsageError(
            "learn_policy asks about single columns; this context is an array of shape "
            f"{np.shape(log.context.table)}. Give a table of features."
        )
    if learner == "boosted" and not learn_features(_rows(log), log.context.names):
        raise UsageError(
            "learner='boosted' needs a context column with more than one value. Use learner='tree'."
        )


@dataclass(frozen=True)
class Task:
    """What a learner is asked for: rows of a leaf, standard errors subtracted, questions in a row, seed."""

    smallest: int
    caution: float
    depth: int
    seed: int


def _tree(
    features: tuple[Feature, ...],
    codes: list[Ints],
    scores: Floats,
    labels: tuple[Hashable, ...],
    task: Task,
) -> TreePolicy:
    search = Search(features, codes, scores, task.smallest, task.caution)
    return TreePolicy(search.grow(task.depth), features, labels)


def _boosted(
    features: tuple[Feature, ...],
    codes: list[Ints],
    scores: Floats,
    labels: tuple[Hashable, ...],
    task: Task,
) -> BoostedPolicy:
    matrix = np.column_stack(codes)
    text = [j for j, f in enumerate(features) if f.is_text]
    models = []
    for g in scores.T:
        model = lightgbm().LGBMRegressor(
            n_estimators=100,
            learning_rate=0.05,
            num_leaves=2 ** min(task.depth + 1, 5),
            min_child_samples=task.smallest,
            random_state=task.seed,
            n_jobs=1,
            deterministic=True,
            verbose=-1,
        )
        models.append(model.fit(matrix, g, categorical_feature=text or "auto"))
    return BoostedPolicy(tuple(models), features, labels)


LEARNERS: dict[str, Callable[..., TreePolicy | BoostedPolicy]] = {
    "tree": _tree,
    "boosted": _boosted,
}
