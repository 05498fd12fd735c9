"""Reward models μ(s, a): any scikit-learn learner, with the action as a feature or one model per action.

A reward model has ``fit_reward(data, seed)`` and gives something with ``predict(X, codes)``; it never sees
a row of the fold it is used on, because `crossfit` hands it the training rows only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import ModelError
from offpolicy.models.fitting.learners import (
    FittedMean,
    are_numbers,
    fitted_mean,
    is_classifier,
    learner_input,
    with_action,
)
from offpolicy.models.fitting.tables import TrainingRows, held_out

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class RewardData:
    """Training rows of a reward model: learner table, action codes, rewards, weights."""

    X: Any
    action: Ints
    reward: Floats
    weight: Floats | None
    actions: tuple[Any, ...]
    action_name: str
    count: Floats | None = None  # how many units each row stands for

    @property
    def size(self) -> float:
        """Units they stand for."""
        return float(len(self.reward) if self.count is None else self.count.sum())

    def split(self, share: float, seed: int, limit: int | None = None) -> tuple[RewardData, RewardData]:
        """A validation part of about ``share`` of the units, and the rest."""
        parts = held_out(len(self.reward), self.weight, self.count, share=share, seed=seed, limit=limit)
        held, rest = (self.take(part) for part in parts)
        return held, rest

    def take(self, part: TrainingRows) -> RewardData:
        """The rows of a part."""
        rows = part.rows
        return replace(
            self,
            X=self.X.rows(rows),
            action=self.action[rows],
            reward=self.reward[rows],
            weight=part.weight,
            count=part.count,
        )

    def mean(self) -> float:
        """Weighted mean reward."""
        return float(np.average(self.reward, weights=self.weight))


class FittedReward(Protocol):
    """μ̂ of one training set."""

    def predict(self, X: Any, codes: Ints) -> Floats:
        """(m,) predicted mean reward of taking ``codes[i]`` in row i of the learner table ``X``."""
        ...


class RewardModel(Protocol):
    """Anything that can be fitted to (context, action, reward)."""

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit on the training rows."""
        ...


@dataclass(frozen=True)
class ConstantReward:
    """The same value everywhere."""

    value: float

    def predict(self, X: Any, codes: Ints) -> Floats:
        """(m,) the constant."""
        return np.full(len(codes), self.value)


@checks_arguments
@dataclass(frozen=True, eq=False)
class ActionFeature:
    """One model of (context, action): the action is a feature.

    Parameters
    ----------
    learner : scikit-learn regressor or classifier
        A classifier's classes are the reward values, and its prediction is their mean.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> data = RewardData(np.zeros((4, 1)), np.array([0, 0, 1, 1]), np.array([1., 1, 2, 2]), None,
    ...                   ("a", "b"), "ad")
    >>> ActionFeature(LinearRegression()).fit_reward(data, 0).predict(np.zeros((2, 1)), np.array([0, 1])
    ... ).round(6).tolist()
    [1.0, 2.0]
    """

    learner: Any

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit one learner on all training rows."""
        X = with_action(data.X, data.action, data.actions, data.action_name, self.learner)
        model = _fit_or_constant(self.learner, X, data.reward, data.weight, seed)
        if isinstance(model, ConstantReward):
            return model
        return _WithAction(model, data.actions, data.action_name)


@dataclass(frozen=True, eq=False)
class _WithAction:
    model: FittedMean
    actions: tuple[Any, ...]
    name: str

    @property
    def note(self) -> str:
        return note_of(self.model.model)

    def predict(self, X: Any, codes: Ints) -> Floats:
        return self.model.mean(with_action(X, codes, self.actions, self.name, self.model.model))


@checks_arguments
@dataclass(frozen=True, eq=False)
class PerAction:
    """One model per action, fitted on the rows where it was taken; actions not seen get the mean.

    Parameters
    ----------
    learner : scikit-learn regressor or classifier
        Cloned for each action.
    """

    learner: Any

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit a learner for every action that has training rows."""
        if are_numbers(data.action):
            raise ModelError(
                "PerAction fits one model per label, but these actions are numbers. Use the learner without it."
            )
        models: dict[int, Any] = {}
        for code in range(len(data.actions)):
            rows = np.flatnonzero(data.action == code)
            if len(rows) == 0:
                models[code] = ConstantReward(data.mean())
                continue
            X = data.X.iloc[rows] if hasattr(data.X, "iloc") else data.X[rows]
            X = learner_input(X, self.learner)
            weight = picked(data.weight, rows)
            models[code] = _fit_or_constant(self.learner, X, data.reward[rows], weight, seed)
        return _PerAction(models)


@dataclass(frozen=True, eq=False)
class _PerAction:
    models: dict[int, ConstantReward | FittedMean]

    @property
    def note(self) -> str:
        notes = (note_of(getattr(fit, "model", None)) for fit in self.models.values())
        return next((note for note in notes if note), "")

    def predict(self, X: Any, codes: Ints) -> Floats:
        out = np.empty(len(codes))
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            table = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
            model = self.models[int(code)]
            if isinstance(model, ConstantReward):
                out[rows] = model.value
            else:
                out[rows] = model.mean(learner_input(table, model.model))
        return out


def note_of(model: Any) -> str:
    """What a fitted model has to say about itself, for readers of the estimate."""
    return str(getattr(model, "note", ""))


def _fit_or_constant(learner: Any, X: Any, y: Floats, weight: Floats | None, seed: int) -> ConstantReward | FittedMean:
    """Fit; a classifier that sees a single reward value has nothing to learn and is that constant."""
    if is_classifier(learner):
        values = np.unique(y)
        if len(values) == 1:
            return ConstantReward(float(values[0]))
        if len(values) > 100 and len(values) > len(y) / 2:
            raise ModelError(
                f"{type(learner).__name__} is a classifier, but the reward has {len(values):,} different values. "
                "Use a regressor."
            )
    return fitted_mean(learner, X, y, weight, seed)
