"""Learners around any scikit-learn model, fitted anew on everything seen so far."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.decide.online.own import (
    Bound,
    as_pandas,
    check_positive,
    check_share,
    codes_of,
    explored,
    greedy,
    table_of,
)
from offpolicy.errors import UsageError
from offpolicy.logs.frame import is_frame
from offpolicy.models.fitting.learners import fitted_mean
from offpolicy.policies.distribution import eligibility
from offpolicy.policies.protocol import bound, n_rows, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Bools, Floats, Ints


@dataclass
class _Refitted(Bound):
    """A model of the reward for each action, fitted anew on everything seen so far."""

    seed: int = field(default=0, kw_only=True)
    past: list[tuple[Any, Ints, Floats]] = field(default_factory=list, kw_only=True, repr=False)
    fits: list[Any] = field(default_factory=list, kw_only=True, repr=False)

    def has_learned(self) -> bool:
        """Whether anything was seen."""
        return bool(self.past)

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Remember the decisions; models are fitted when they are next asked."""
        codes = codes_of(action, bound(self.actions, self))
        self.past.append((context, codes, np.asarray(reward, dtype=np.float64)))
        self.fits = []

    def frozen(self) -> Any:
        """The fitted models, without the rows that later fits need."""
        now = copy.copy(self)
        if self.past:
            some = self._data()
            now.probabilities(take(table_of(some[0]), np.arange(1)))
            now.past = [(take(table_of(some[0]), np.arange(1)), some[1][:1], some[2][:1])]
        return now

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
                    mean if constant else fitted_mean(model, take(table, rows), rewards[rows], None, self.seed)
                )
        asked, n = table_of(context), n_rows(context)
        columns = [np.full(n, fit) if isinstance(fit, float) else fit.mean(asked) for fit in self.fits]
        return np.column_stack(columns)


def _stacked(contexts: Sequence[Any]) -> Any:
    if not is_frame(contexts[0]):
        return np.concatenate([np.asarray(c) for c in contexts])
    import pandas as pd

    return pd.concat([as_pandas(c) for c in contexts], ignore_index=True)


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()


@checks_arguments
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
        check_share(self, "epsilon")

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """(1 − ε)·1{a is predicted best} + ε/|A|."""
        predicted = self._predicted(_ridge() if self.model is None else self.model, context)
        return explored(greedy(predicted, eligible), self.epsilon, eligible)


@checks_arguments
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
        check_positive(self, "temperature")

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """exp(prediction / τ) over its sum."""
        predicted = self._predicted(_ridge() if self.model is None else self.model, context)
        open_to = eligibility(eligible, *predicted.shape)
        if open_to is not None:
            predicted = np.where(open_to, predicted, -np.inf)
        return np.asarray(special.softmax(predicted / self.temperature, axis=1))


@checks_arguments
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
        check_share(self, "epsilon")
        if not isinstance(self.bags, int) or self.bags < 1:
            raise UsageError(f"The 'bags' parameter of Bagged must be an int of at least 1. Got {self.bags!r} instead.")

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """Share of the votes, but for ε."""
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
        n_estimators=40, num_leaves=8, min_child_samples=10, n_jobs=1, deterministic=True, verbose=-1
    )
