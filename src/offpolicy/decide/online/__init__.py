"""Learners: algorithms whose policy changes with what they have seen, for `offpolicy.replay`.

A learner has two methods. ``probabilities(context)`` gives the (n, K) probabilities with which it would act now;
``update(context, action, reward, propensity)`` shows it what was done and earned. An optional ``bind(actions)`` tells
it the labels of the K actions first. Anything with these methods can be replayed; those below are common ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.decide.online.adapters import MABWiser, River, VowpalWabbit
from offpolicy.decide.online.linear import LinearThompson, LinUCB, LogisticThompson
from offpolicy.decide.online.own import Learner
from offpolicy.decide.online.refitted import Bagged, EpsilonGreedy, Softmax
from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Bagged",
    "EpsilonGreedy",
    "Learner",
    "LinUCB",
    "LinearThompson",
    "LogisticThompson",
    "MABWiser",
    "River",
    "Softmax",
    "VowpalWabbit",
]

#: Words of the command line.
WORDS: dict[str, Callable[[], Any]] = {
    "linucb": LinUCB,
    "linear-thompson": LinearThompson,
    "logistic-thompson": LogisticThompson,
    "epsilon-greedy": EpsilonGreedy,
    "softmax": Softmax,
    "bagged": Bagged,
}


def named(word: str) -> Any:
    """The learner called by a word, with its default settings.

    >>> type(named("linucb")).__name__
    'LinUCB'
    """
    if word not in WORDS:
        raise UsageError(f"no learner is called {word!r}.{did_you_mean(word, WORDS)} Known: {', '.join(WORDS)}.")
    return WORDS[word]()
