"""The learners: from scores of every row and action to a policy; and the reward model of long logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.decide.policies import BoostedPolicy, TreePolicy
from offpolicy.decide.tree import Search
from offpolicy.errors import PolicyError, doing
from offpolicy.models.rewards.boosted import BoostedReward, lightgbm
from offpolicy.policies.context import n_rows
from offpolicy.policies.distribution import as_rows
from offpolicy.policies.forms import adapted
from offpolicy.policies.protocol import bind, member_probabilities
from offpolicy.policies.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.decide.features import Feature
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.models.rewards.reward import FittedReward, RewardData

#: Rows beyond which the default reward model is fitted on so many and does not choose and tune; what it is then.
LONG = 100_000
FOR_LONG_LOGS: dict[str, Any] = {"rounds": 50, "grid": ({"num_leaves": 15},), "validation": 0}


def default_reward_model(log: BanditLog) -> Any:
    """The default of `evaluate`, and for a long log a fit of fixed size: scores need no more to rank actions."""
    return None if log.rows <= LONG else OnSample(BoostedReward(**FOR_LONG_LOGS), LONG)


#: Random halves whose regressions say how sure one on all rows is.
HALVES = 8


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


@dataclass(frozen=True, eq=False)
class Material:
    """What a policy is learned from.

    Attributes
    ----------
    features : tuple of Feature
    codes : list of (n,) arrays
        Bins of each feature.
    scores : (n, K) array
        Γ of the action, times the row's mass; of an action that is not eligible, Γ of what is taken instead.
    labels : tuple
        Of the actions.
    eligible : (n, K) array of bool, optional
    otherwise : tuple of int
        Actions in the order in which they are taken where another one is not eligible.
    context : frame or array
        The rows as they came.
    """

    features: tuple[Feature, ...]
    codes: list[Ints]
    scores: Floats
    labels: tuple[Hashable, ...]
    eligible: Bools | None = None
    otherwise: tuple[int, ...] = ()
    context: Any = None


@dataclass(frozen=True)
class Task:
    """What a learner is asked for: rows of a leaf, standard errors subtracted, questions in a row, seed."""

    smallest: int
    caution: float
    depth: int
    seed: int


def _tree(given: Material, task: Task) -> TreePolicy:
    search = Search(given.features, given.codes, given.scores, task.smallest, task.caution)
    return TreePolicy(search.grow(task.depth), given.features, given.labels, given.otherwise)


def _boosted(given: Material, task: Task) -> BoostedPolicy:
    """Regressions on all rows and, where caution is asked for, on random halves of them.

    Half of the rows, drawn without replacement, differ from all of them as all differ from the truth: the spread of the
    halves' predictions around those of the whole is a standard error.
    """
    n = len(given.scores)
    models = _regressions(given, task, np.arange(n))
    rng = np.random.default_rng(task.seed)
    halves = tuple(
        _regressions(given, task, np.sort(rng.permutation(n)[: (n + 1) // 2]))
        for _ in range(HALVES if task.caution > 0 else 0)
    )
    return BoostedPolicy(models, given.features, given.labels, halves, task.caution)


def _regressions(given: Material, task: Task, at: Ints) -> tuple[Any, ...]:
    """Boosted regressions of the scores of each action, on some of the rows."""
    matrix, scores = np.column_stack(given.codes)[at], given.scores[at]
    text = [j for j, f in enumerate(given.features) if f.is_text]
    models = []
    for code, g in enumerate(scores.T):
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
        rows = slice(None) if given.eligible is None else given.eligible[at, code]
        models.append(model.fit(matrix[rows], g[rows], categorical_feature=text or "auto"))
    return tuple(models)


LEARNERS: dict[str, Callable[[Material, Task], TreePolicy | BoostedPolicy]] = {"tree": _tree, "boosted": _boosted}


@dataclass(frozen=True, eq=False)
class OwnLearner:
    """A learner from outside: a function of the context, the scores and the actions that gives a policy."""

    function: Callable[[Any, Floats, tuple[Hashable, ...]], Any]

    def __call__(self, given: Material, task: Task) -> OwnPolicy:
        """The policy, in whichever form."""
        with doing("learning a policy", PolicyError):
            made = self.function(given.context, given.scores, given.labels)
        return OwnPolicy(made, given.labels, called(self.function))


@dataclass(frozen=True, eq=False)
class OwnPolicy:
    """What a learner from outside gave."""

    policy: Any
    labels: tuple[Hashable, ...]
    learner: str

    def bind(self, actions: tuple[Hashable, ...]) -> Any:
        """Return the policy for these actions, in this order."""
        return bind(adapted("learned", self.policy, Surface(tuple(actions))), tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(n, K) probabilities in the order of the log that it was learned from."""
        part = self.bind(self.labels)
        shape = n_rows(context), len(self.labels)
        if hasattr(part, "probabilities"):
            return member_probabilities(part, context, eligible, shape)
        return as_rows(part(context), self.labels, shape, "the learned policy")

    def __str__(self) -> str:
        return f"Policy learned by {self.learner}"


def called(function: Any) -> str:
    """The name of a learner."""
    return str(getattr(function, "__name__", type(function).__name__))
