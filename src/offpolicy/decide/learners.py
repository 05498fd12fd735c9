"""The learners: from scores of every row and action to a policy; what they give; the reward model of long logs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._doors import door
from offpolicy._visible import printable
from offpolicy.decide.policies import BoostedPolicy, TreePolicy
from offpolicy.decide.tree import Search
from offpolicy.errors import PolicyError, doing
from offpolicy.evaluation.shown import Tracked
from offpolicy.inference.figures import plain, signed
from offpolicy.logs.kinds import space_of
from offpolicy.models.rewards.boosted import BoostedReward, small_regression
from offpolicy.policies.distribution import as_rows
from offpolicy.policies.forms import adapted
from offpolicy.policies.protocol import Surface, bind, member_probabilities, n_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy._document import Section
    from offpolicy.decide.features import Feature
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
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
    leaves, models = 2 ** min(task.depth + 1, 5), []
    for code, g in enumerate(scores.T):
        rows = slice(None) if given.eligible is None else given.eligible[at, code]
        models.append(small_regression(matrix[rows], g[rows], text, leaves, task.smallest, task.seed))
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
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return OwnPolicy(made, given.labels, str(name))


@dataclass(frozen=True, eq=False)
class OwnPolicy:
    """What a learner from outside gave."""

    policy: Any
    labels: tuple[Hashable, ...]
    learner: str
    learned_from: str = ""

    def bind(self, actions: tuple[Hashable, ...]) -> Any:
        """Return the policy for these actions, in this order."""
        return bind(adapted("learned", self.policy, Surface(space_of(tuple(actions)))), tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(n, K) probabilities in the order of the log that it was learned from."""
        part = self.bind(self.labels)
        shape = n_rows(context), len(self.labels)
        if hasattr(part, "probabilities"):
            return member_probabilities(part, context, eligible, shape)
        return as_rows(part(context), self.labels, shape, "the learned policy")

    def __str__(self) -> str:
        return f"Policy learned by {self.learner}"


LEARNED, NAIVE = "learned", "learned, on its training rows"
SCORE = "DML"


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy learned from a log, with its honest value.

    Attributes
    ----------
    policy : TreePolicy, BoostedPolicy or OwnPolicy
        Learned from all rows. `Learned` itself can be given to `evaluate` as well, with a log of other rows.
    evaluation : Evaluation
        Of the policies learned without each fold, on the rows of that fold; report, verdict and gate work.
    naive : Estimate
        Value of the policy on the rows it was learned from: too high.
    """

    policy: TreePolicy | BoostedPolicy | OwnPolicy
    evaluation: Evaluation
    naive: Estimate

    @property
    def learned_from(self) -> str:
        """Digest of the rows it was learned from, by which `evaluate` refuses to judge it."""
        return self.policy.learned_from

    @property
    def value(self) -> Estimate:
        """The honest value."""
        return self.evaluation[LEARNED, SCORE]

    def interval(self, level: float = 0.95) -> Interval:
        """Of the true value of the policy returned.

        The honest value is that of policies that were learned without a fold, and the one returned takes other
        actions than they in some rows. Which action is better there the log could not tell, or they would have
        agreed; so the two values may lie apart by the standard error of the difference of their scores, and the
        interval of the honest value is widened by it. What is learned follows the chance of the same rows that it is
        valued on, so that both errors may go together: they are added, not their squares.
        """
        return self._allowing(self.value, level)

    @property
    def gain(self) -> Estimate:
        """The honest value less that of the logging policy."""
        return self.value - self.evaluation.logged

    def gain_interval(self, level: float = 0.95) -> Interval:
        """Of what the policy returned truly gains over the logging policy; wider than `gain`'s as `interval` is."""
        return self._allowing(self.gain, level)

    def _allowing(self, e: Estimate, level: float) -> Interval:
        own = e.interval(level)
        if not own.sufficient:
            return own
        apart = (self.naive - self.value).std_error
        spread = float(special.ndtri(0.5 + level / 2)) * (apart if math.isfinite(apart) else 0.0)
        return replace(own, low=own.low - spread, high=own.high + spread)

    @property
    def optimism(self) -> float:
        """By how much the value on its own rows flatters the policy; of a cost, by how much it is too low."""
        more = self.naive.value - self.value.value
        return -more if self.evaluation.minimize else more

    def bind(self, actions: Any) -> Any:
        """Return the policy for these actions, in this order."""
        return self.policy.bind(actions)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(n, K) probabilities of the policy learned from all rows."""
        return self.policy.probabilities(context, eligible=eligible)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the report of the evaluation with the tree drawn in it; see `Evaluation.report`."""
        return self.evaluation.report(path, decision=self, **options)

    def log_mlflow(self, **options: Any) -> str:
        """Log the policy and its evaluation to MLflow; see `Evaluation.log_mlflow`."""
        return self.evaluation.log_mlflow(decision=self, **options)

    def sections(self) -> list[Section]:
        """The learned policy in a report."""
        return [door("learned")(self)]

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

    @printable
    def __str__(self) -> str:
        i, g, v = self.interval(), self.gain_interval(), self.value.value
        value = (
            f"honest value {plain(v, 4)} (95% interval: {plain(i.low, 4)} to {plain(i.high, 4)}); on its training "
            f"rows {plain(self.naive.value, 4)}, which is {plain(self.optimism, 2)} too optimistic"
        )
        ends = f"95% {signed(g.low, v)} to {signed(g.high, v)}"
        word, hint = ("change from", "; lower is better") if self.evaluation.minimize else ("gain over", "")
        gain = f"{word} the current policy {signed(self.gain.value, v)} ({ends}){hint}"
        return "\n".join([str(self.policy), value, gain])

    @printable
    def __repr__(self) -> str:
        return str(self)
