"""What a learner is, and common ones: linear bandits, and ε-greedy, softmax and bagging around any model."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import special

from offpolicy.errors import PolicyError, UsageError, did_you_mean
from offpolicy.logs.frame import is_frame
from offpolicy.models.fitting.learners import fitted_mean
from offpolicy.models.fitting.plain import PlainTable
from offpolicy.policies.context import n_rows, take
from offpolicy.policies.distribution import eligibility, one_hot, uniform
from offpolicy.policies.protocol import bound
from offpolicy.policies.thompson import gaussian_thompson_probabilities

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats, Ints

Labels: TypeAlias = tuple[Hashable, ...]


@runtime_checkable
class Learner(Protocol):
    """An algorithm that acts and learns.

    Further methods are optional: ``bind(actions)`` returns the learner told the labels of the actions, in the order of
    the columns of ``probabilities``. Where actions are not open to all, ``respects_eligible`` has to be true and
    ``probabilities`` takes ``eligible``, an (n, K) mask.

    Examples
    --------
    >>> isinstance(LinUCB(), Learner)
    True
    """

    def probabilities(self, context: Any, /) -> Floats:
        """Return the (n, K) probabilities with which it would act now."""
        ...

    def update(self, context: Any, action: Any, reward: Any, propensity: Any, /) -> None:
        """Learn from n decisions: their contexts, action labels, rewards and the probabilities they were taken with."""
        ...


def fresh(learner: Any, actions: Labels) -> Any:
    """An independent copy of a learner that knows the actions; the original is left as it is."""
    for method in ("probabilities", "update"):
        if not callable(getattr(learner, method, None)):
            raise UsageError(
                f"a learner has the methods probabilities(context) and update(context, action, reward, propensity). "
                f"{type(learner).__name__} has no {method}(). For a scikit-learn model use "
                "op.learners.EpsilonGreedy(model); for other libraries see op.learners."
            )
    own = copy.deepcopy(learner)
    return own.bind(actions) if hasattr(own, "bind") else own


# -- what linear learners read -------------------------------------------------------------------------------


@dataclass
class Design:
    """Contexts as numbers with an intercept, scaled by the first rows seen."""

    table: PlainTable | None = None
    center: Floats | None = None
    scale: Floats | None = None

    def learn(self, context: Any) -> None:
        """Take levels, means and spreads from the first rows that are seen."""
        if is_frame(context):
            self.table = PlainTable.learn(_pandas(context), None, keeps_categories=False)
        numbers = self._numbers(context)
        known = np.ma.masked_invalid(numbers)
        self.center = np.asarray(known.mean(axis=0).filled(0.0), dtype=np.float64)
        spread = np.asarray(known.std(axis=0).filled(0.0), dtype=np.float64)
        self.scale = np.where(spread > 0, spread, 1.0)

    def of(self, context: Any) -> Floats:
        """(n, 1 + p) matrix; a missing number sits at the mean."""
        assert self.center is not None
        assert self.scale is not None
        scaled = (self._numbers(context) - self.center) / self.scale
        return np.column_stack([np.ones(len(scaled)), np.nan_to_num(scaled, nan=0.0)])

    def _numbers(self, context: Any) -> Floats:
        if self.table is not None:
            return np.asarray(self.table.transform(_pandas(context)), dtype=np.float64)
        array = np.asarray(context)
        if array.dtype.kind not in "biuf":
            raise PolicyError(
                f"a linear learner reads numbers. The context is an array of {array.dtype}; build the log from a "
                "frame, whose text columns are encoded."
            )
        return array.reshape(len(array), -1).astype(np.float64)


def _pandas(context: Any) -> Any:
    if hasattr(context, "to_pandas"):
        return context.to_pandas()
    return context


def codes_of(action: Any, actions: Labels) -> Ints:
    """Codes of action labels; one that is unknown raises."""
    place = {label: code for code, label in enumerate(actions)}
    values = action.tolist() if isinstance(action, np.ndarray) else list(action)
    unknown = [label for label in values if label not in place]
    if unknown:
        raise UsageError(
            f"update(): {unknown[0]!r} is none of the actions."
            f"{did_you_mean(str(unknown[0]), [str(a) for a in actions])}"
        )
    return np.array([place[label] for label in values], dtype=np.int64)


def greedy(preference: Floats, eligible: Bools | None) -> Floats:
    """Probability 1 for the largest preference; ties go to the first action."""
    open_to = eligibility(eligible, *preference.shape)
    shown = preference if open_to is None else np.where(open_to, preference, -np.inf)
    return one_hot(shown.argmax(axis=1), preference.shape[1])


def explored(exploit: Floats, epsilon: float, eligible: Bools | None) -> Floats:
    """A policy that is left for a uniform draw with probability ε."""
    n, k = exploit.shape
    return (1 - epsilon) * exploit + uniform(n, k, eligibility(eligible, n, k), epsilon)


def check_share(value: float, name: str, learner: str) -> None:
    """Refuse what is not in [0, 1]."""
    if not (isinstance(value, int | float) and 0 <= value <= 1):
        raise UsageError(
            f"The {name!r} parameter of {learner} must be a number in [0, 1]. Got {value!r} instead."
        )


def check_positive(value: float, name: str, learner: str) -> None:
    """Refuse what is not a positive number."""
    if not (isinstance(value, int | float) and value > 0 and np.isfinite(value)):
        raise UsageError(
            f"The {name!r} parameter of {learner} must be a positive number. Got {value!r} instead."
        )


# -- linear learners -----------------------------------------------------------------------------------------


@dataclass
class _Linear:
    """Ridge regression of the reward for each action, kept as its sums."""

    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    design: Design = field(default_factory=Design, kw_only=True, repr=False)
    gram: Any = field(default=None, kw_only=True, repr=False)  # (K, p, p): ridge + Σ x xᵀ
    moment: Any = field(default=None, kw_only=True, repr=False)  # (K, p): Σ x r
    respects_eligible: ClassVar[bool] = True
    ridge: float = field(default=1.0, kw_only=True)

    def bind(self, actions: Labels) -> Any:
        """Return the learner for these actions, in this order."""
        self.actions = tuple(actions)
        return self

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Add decisions to the sums of their actions."""
        actions = bound(self.actions, self)
        codes, rewards = codes_of(action, actions), np.asarray(reward, dtype=np.float64)
        if self.gram is None:
            self.design.learn(context)
        x = self.design.of(context)
        if self.gram is None:
            p = x.shape[1]
            self.gram = np.tile(self.ridge * np.eye(p), (len(actions), 1, 1))
            self.moment = np.zeros((len(actions), p))
        for code in np.unique(codes):
            rows = codes == code
            self._learn(int(code), x[rows], rewards[rows])

    def _learn(self, code: int, x: Floats, reward: Floats) -> None:
        self.gram[code] += x.T @ x
        self.moment[code] += x.T @ reward

    def _posterior(self, context: Any) -> tuple[Floats, Floats]:
        """(n, K) mean and standard deviation of the linear predictor, up to the noise."""
        x = self.design.of(context)
        inverse = np.linalg.inv(self.gram)
        mean = x @ np.einsum("kij,kj->ki", inverse, self.moment).T
        spread = np.sqrt(np.einsum("ni,kij,nj->nk", x, inverse, x))
        return mean, spread

    def _unlearned(self, context: Any, eligible: Bools | None) -> Floats:
        n, k = n_rows(context), len(bound(self.actions, self))
        return np.asarray(uniform(n, k, eligibility(eligible, n, k)))


@dataclass
class LinUCB(_Linear):
    """Take the action with the largest upper confidence bound of a linear reward (Li et al. 2010, disjoint).

    Parameters
    ----------
    alpha : float
        Width of the bound in standard deviations.
    epsilon : float
        Share of decisions drawn uniformly. 0 is the published algorithm.
    ridge : float
        Penalty of the regressions, on standardized columns.

    Examples
    --------
    >>> learner = LinUCB(alpha=0.5).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 1.0, 1.0], [0.5] * 4)
    >>> learner.probabilities(np.zeros((1, 1))).tolist()
    [[0.0, 1.0]]
    """

    alpha: float = 1.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.epsilon, "epsilon", "LinUCB")
        check_positive(self.ridge, "ridge", "LinUCB")

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Probability 1 − ε for the largest bound; uniform before the first update."""
        if self.gram is None:
            return self._unlearned(context, eligible)
        mean, spread = self._posterior(context)
        return explored(greedy(mean + self.alpha * spread, eligible), self.epsilon, eligible)


@dataclass
class LinearThompson(_Linear):
    """Draw each action's mean reward from its Gaussian posterior and take the largest (Agrawal and Goyal 2013).

    Parameters
    ----------
    scale : float
        Standard deviation of the noise: how wide posteriors are.
    ridge : float
        Penalty of the regressions, on standardized columns.

    Examples
    --------
    >>> learner = LinearThompson(scale=0.1).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 1.0, 1.0], [0.5] * 4)
    >>> bool(learner.probabilities(np.zeros((1, 1)))[0, 1] > 0.99)
    True
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale", "LinearThompson")
        check_positive(self.ridge, "ridge", "LinearThompson")

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """P(a has the largest draw), by quadrature; uniform before the first update."""
        if self.gram is None:
            return self._unlearned(context, eligible)
        mean, spread = self._posterior(context)
        n, k = mean.shape
        return np.asarray(
            gaussian_thompson_probabilities(
                mean, np.maximum(self.scale * spread, 1e-9), eligible=eligibility(eligible, n, k)
            )
        )


NEWTON_STEPS = 25


@dataclass
class LogisticThompson(_Linear):
    """Thompson sampling for rewards of 0 and 1: a logistic model per action with a Laplace posterior.

    The posterior of one update is the prior of the next (Chapelle and Li 2011, with the whole covariance).

    Parameters
    ----------
    ridge : float
        Precision of the prior, on standardized columns.

    Examples
    --------
    >>> learner = LogisticThompson().bind(("a", "b"))
    >>> learner.update(np.zeros((80, 1)), ["a", "b"] * 40, [0.0, 1.0] * 40, [0.5] * 80)
    >>> bool(learner.probabilities(np.zeros((1, 1)))[0, 1] > 0.99)
    True
    """

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge", "LogisticThompson")

    def _learn(self, code: int, x: Floats, reward: Floats) -> None:
        if ((reward < 0) | (reward > 1)).any():
            raise UsageError("LogisticThompson learns from rewards between 0 and 1.")
        prior, center = self.gram[code], np.linalg.solve(self.gram[code], self.moment[code])
        at = center.copy()
        for _ in range(NEWTON_STEPS):
            p = special.expit(x @ at)
            slope = x.T @ (reward - p) - prior @ (at - center)
            curve = prior + (x * (p * (1 - p))[:, None]).T @ x
            step = np.linalg.solve(curve, slope)
            at += step
            if np.abs(step).max() < 1e-8:
                break
        p = special.expit(x @ at)
        self.gram[code] = prior + (x * (p * (1 - p))[:, None]).T @ x
        self.moment[code] = self.gram[code] @ at

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """P(a has the largest drawn logit), by quadrature; uniform before the first update."""
        if self.gram is None:
            return self._unlearned(context, eligible)
        mean, spread = self._posterior(context)
        n, k = mean.shape
        return np.asarray(
            gaussian_thompson_probabilities(
                mean, np.maximum(spread, 1e-9), eligible=eligibility(eligible, n, k)
            )
        )


# -- learners around any model -------------------------------------------------------------------------------


@dataclass
class _Refitted:
    """A model of the reward for each action, fitted anew on everything seen so far."""

    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    seed: int = field(default=0, kw_only=True)
    past: list[tuple[Any, Ints, Floats]] = field(default_factory=list, kw_only=True, repr=False)
    fits: list[Any] = field(default_factory=list, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: Labels) -> Any:
        """Return the learner for these actions, in this order."""
        self.actions = tuple(actions)
        return self

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Remember the decisions; models are fitted when they are next asked."""
        codes = codes_of(action, bound(self.actions, self))
        self.past.append((context, codes, np.asarray(reward, dtype=np.float64)))
        self.fits = []

    def _data(self) -> tuple[Any, Ints, Floats]:
        if len(self.past) > 1:
            contexts, codes, rewards = zip(*self.past, strict=True)
            self.past = [(_stacked(contexts), np.concatenate(codes), np.concatenate(rewards))]
        return self.past[0]

    def _predicted(self, model: Any, context: Any) -> Floats:
        """(n, K) predicted rewards; an action never seen is predicted to earn the mean."""
        k = len(bound(self.actions, self))
        seen, codes, rewards = self._data()
        if not self.fits:
            table = table_of(seen)
            for code in range(k):
                rows = np.flatnonzero(codes == code)
                constant = len(rows) < 2 or np.ptp(rewards[rows]) == 0
                mean = float(rewards[rows].mean()) if len(rows) else float(rewards.mean())
                self.fits.append(
                    mean
                    if constant
                    else fitted_mean(model, take(table, rows), rewards[rows], None, self.seed)
                )
        asked, n = table_of(context), n_rows(context)
        columns = [
            np.full(n, fit) if isinstance(fit, float) else fit.mean(asked) for fit in self.fits
        ]
        return np.column_stack(columns)

    def _unlearned(self, context: Any, eligible: Bools | None) -> Floats:
        n, k = n_rows(context), len(bound(self.actions, self))
        return np.asarray(uniform(n, k, eligibility(eligible, n, k)))


def table_of(context: Any) -> Any:
    """Contexts as models read them: pandas with names, or a two-dimensional array."""
    if is_frame(context):
        return _pandas(context)
    array = np.asarray(context)
    return array.reshape(len(array), -1)


def _stacked(contexts: Sequence[Any]) -> Any:
    if not is_frame(contexts[0]):
        return np.concatenate([np.asarray(c) for c in contexts])
    import pandas as pd

    return pd.concat([_pandas(c) for c in contexts], ignore_index=True)


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()


@dataclass
class EpsilonGreedy(_Refitted):
    """Take the action whose model predicts most, and explore uniformly with probability ε.

    Parameters
    ----------
    model : scikit-learn regressor or classifier
        One is fitted for each action, on everything seen so far. Default: ridge regression.
    epsilon : float
        Share of decisions drawn uniformly.

    Examples
    --------
    >>> learner = EpsilonGreedy(epsilon=0.2).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 1.0, 1.0], [0.5] * 4)
    >>> learner.probabilities(np.zeros((1, 1))).round(3).tolist()
    [[0.1, 0.9]]
    """

    model: Any = None
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_share(self.epsilon, "epsilon", "EpsilonGreedy")

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(1 − ε)·1{a is predicted best} + ε/|A|; uniform before the first update."""
        if not self.past:
            return self._unlearned(context, eligible)
        predicted = self._predicted(_ridge() if self.model is None else self.model, context)
        return explored(greedy(predicted, eligible), self.epsilon, eligible)


@dataclass
class Softmax(_Refitted):
    """Take actions with probability proportional to exp(predicted reward / temperature).

    Parameters
    ----------
    model : scikit-learn regressor or classifier
        One is fitted for each action, on everything seen so far. Default: ridge regression.
    temperature : float
        Small is greedy, large is uniform.

    Examples
    --------
    >>> learner = Softmax(temperature=1.0).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 0.0, 0.0], [0.5] * 4)
    >>> learner.probabilities(np.zeros((1, 1))).tolist()
    [[0.5, 0.5]]
    """

    model: Any = None
    temperature: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self.temperature, "temperature", "Softmax")

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """exp(prediction / τ) over its sum; uniform before the first update."""
        if not self.past:
            return self._unlearned(context, eligible)
        predicted = self._predicted(_ridge() if self.model is None else self.model, context)
        open_to = eligibility(eligible, *predicted.shape)
        if open_to is not None:
            predicted = np.where(open_to, predicted, -np.inf)
        return np.asarray(special.softmax(predicted / self.temperature, axis=1))


@dataclass
class Bagged(_Refitted):
    """Vote of several boosted models, each fitted on rows drawn with replacement (bootstrap Thompson sampling).

    Parameters
    ----------
    model : scikit-learn regressor, optional
        Default: a small LightGBM regressor.
    bags : int
        How many models vote.
    epsilon : float
        Share of decisions drawn uniformly, so that an action without a vote is still tried.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> learner = Bagged(Ridge(), bags=3, epsilon=0.0).bind(("a", "b"))
    >>> learner.update(np.zeros((40, 1)), ["a", "b"] * 20, [0.0, 1.0] * 20, [0.5] * 40)
    >>> learner.probabilities(np.zeros((1, 1))).tolist()
    [[0.0, 1.0]]
    """

    model: Any = None
    bags: int = 10
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        check_share(self.epsilon, "epsilon", "Bagged")
        if not isinstance(self.bags, int) or self.bags < 1:
            raise UsageError(
                f"The 'bags' parameter of Bagged must be an int of at least 1. Got {self.bags!r} instead."
            )

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Share of the votes, but for ε; uniform before the first update."""
        if not self.past:
            return self._unlearned(context, eligible)
        seen, codes, rewards = self._data()
        model = self.model if self.model is not None else _small_boosted()
        if not self.fits:
            rng = np.random.default_rng([self.seed, len(rewards)])
            for bag in range(self.bags):
                rows = rng.integers(len(rewards), size=len(rewards))
                one = EpsilonGreedy(model, 0.0, actions=self.actions, seed=self.seed + bag)
                one.past = [(take(table_of(seen), rows), codes[rows], rewards[rows])]
                self.fits.append(one)
        votes = sum(one.probabilities(context, eligible=eligible) for one in self.fits)
        return explored(np.asarray(votes) / self.bags, self.epsilon, eligible)


def _small_boosted() -> Any:
    from offpolicy.models.rewards.boosted import lightgbm

    return lightgbm().LGBMRegressor(
        n_estimators=40,
        num_leaves=8,
        min_child_samples=10,
        n_jobs=1,
        deterministic=True,
        verbose=-1,
    )


def as_array(values: Any) -> Array:
    """Labels as they are given to a learner."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
