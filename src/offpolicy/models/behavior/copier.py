"""Copies of a policy, out of fold: what can be told of its actions from contexts that it was not read in.

A copy looks at contexts only: it comes close to a policy that is a rule of the context, and cannot know what a policy
learned from the rewards of single rows. Trees and a logit are tried; the copy is the one that agrees more often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from offpolicy.models.behavior.auto_behavior import LogisticBehavior
from offpolicy.models.behavior.behavior import BehaviorData, ClassifierBehavior
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.learners import fitted
from offpolicy.models.fitting.store import seed_of
from offpolicy.models.rewards.auto import AutoReward
from offpolicy.models.rewards.reward import RewardData

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.fitting.encode import Encoded

COPY = 5  # kind of fit, for its seed
PENALTY = 0.1  # of a logit: a rule is a steep one
WIDE = 100_000_000  # (contexts and their actions) × actions × columns up to which a logit is fitted
MOST_CLASSES = 12  # actions up to which boosting, with one tree for each in every round, is fast
SPREAD = 3  # actions per context from which on all its probabilities are regressed at once, if there are many
TINY = 1e-9


def copied(table: Encoded, shares: Floats, mass: Floats, fold: Ints, seed: int = 0) -> Floats:
    """(m, K) probabilities of actions in m contexts, each predicted by a model of the contexts of other folds.

    Parameters
    ----------
    table : Encoded
        The contexts.
    shares : (m, K) array
        What the policy does in them.
    mass : (m,) array
        How much each context counts.
    fold : (m,) int array

    Examples
    --------
    >>> from offpolicy.models.fitting.encode import encode_table
    >>> x = np.linspace(-1, 1, 400)
    >>> rule = np.column_stack([x < 0, x >= 0]).astype(float)
    >>> copy = copied(encode_table(x[:, None]), rule, np.ones(400), np.arange(400) % 2)
    >>> bool(np.abs(copy - rule).mean() < 0.05)
    True
    """
    wide = np.count_nonzero(shares > TINY) * shares.shape[1] * LinearDesign.learn(table).width > WIDE
    made = [_out_of_fold(way, table, shares, mass, fold, seed) for way in ((_TREES,) if wide else (_TREES, _LOGIT))]
    return max(made, key=lambda copy: float(mass @ np.minimum(copy, shares).sum(axis=1)))


def _out_of_fold(way: _Way, table: Encoded, shares: Floats, mass: Floats, fold: Ints, seed: int) -> Floats:
    out = np.empty_like(shares)
    for each in np.unique(fold):
        here, there = np.flatnonzero(fold == each), np.flatnonzero(fold != each)
        row, action = np.nonzero(shares[there] > TINY)
        if way is _TREES and len(row) > SPREAD * len(there) and shares.shape[1] > MOST_CLASSES:
            out[here] = _at_once(table.matrix, shares, mass, there, here, seed_of(seed, COPY, (int(each),)))
            continue
        rows = there[row]
        weight = mass[rows] * shares[rows, action]
        weight /= weight.mean()
        data = BehaviorData(
            way.read(table.rows(rows)), action, None if np.ptp(weight) < TINY else weight, shares.shape[1], None
        )
        model = way.model(len(np.unique(action)), len(there))
        fit = model.fit_behavior(data, seed_of(seed, COPY, (int(each),)))
        out[here] = fit.predict(way.read(table.rows(here)), None)
    return out


def _at_once(X: Floats, shares: Floats, mass: Floats, there: Ints, here: Ints, seed: int) -> Floats:
    """All probabilities of a context regressed together: trees of means split as trees of classes do, without a row
    for every action.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    trees = ExtraTreesRegressor(30, max_features="sqrt", n_jobs=1)
    return np.asarray(fitted(trees, X[there], shares[there], mass[there], seed).predict(X[here]))


def expected(
    table: Encoded, context: Ints, action: Ints, reward: Floats, weight: Floats, fold: Ints, labels: tuple[Any, ...]
) -> Floats:
    """(r,) rewards of decisions in some contexts, as a model of the contexts of other folds expects them."""
    out = np.empty(len(reward))
    for each in np.unique(fold):
        here, there = np.flatnonzero(fold[context] == each), np.flatnonzero(fold[context] != each)
        data = RewardData(table.rows(context[there]), action[there], reward[there], weight[there], labels, "action")
        fit = AutoReward().fit_reward(data, seed_of(0, COPY, (int(each), 1)))
        out[here] = fit.predict(table.rows(context[here]), action[here])
    return out


class _Way(NamedTuple):
    """A kind of copy: its model, by the number of actions and contexts, and how it reads a table of contexts."""

    model: Callable[[int, int], Any]
    read: Callable[[Encoded], Any]


def _trees(classes: int, contexts: int) -> Any:
    if classes > MOST_CLASSES:
        from sklearn.ensemble import ExtraTreesClassifier

        return ClassifierBehavior(ExtraTreesClassifier(30, min_samples_leaf=3, n_jobs=1))
    from offpolicy.models.rewards.boosted import lightgbm

    learner = lightgbm().LGBMClassifier(
        n_estimators=30, learning_rate=0.2, num_leaves=15, min_child_samples=min(20, 1 + contexts // 50),
        min_data_in_bin=1, verbose=-1, n_jobs=1, deterministic=True, force_row_wise=True,
    )  # fmt: skip
    return ClassifierBehavior(learner)


_TREES = _Way(_trees, lambda table: table.matrix)  # codes of categories as numbers
_LOGIT = _Way(lambda *_: LogisticBehavior(PENALTY), lambda table: table)
