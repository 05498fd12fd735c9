"""What a learner is, and what those of the library share: labels, choices, exploration."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.frame import is_frame
from offpolicy.policies.distribution import eligibility, one_hot, uniform
from offpolicy.policies.protocol import bound, n_rows

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Floats, Ints

Labels: TypeAlias = tuple[Hashable, ...]


@runtime_checkable
class Learner(Protocol):
    """An algorithm that acts and learns.

    Further methods are optional: ``bind(actions)`` returns the learner told the labels of the actions, in the order of
    the columns of ``probabilities``. Where actions are not open to all, ``respects_eligible`` has to be true and
    ``probabilities`` takes ``eligible``, an (n, K) mask. ``frozen()`` returns the policy of this moment, which later
    updates leave alone; without it the learner is copied.

    Examples
    --------
    >>> import offpolicy as op
    >>> isinstance(op.learners.LinUCB(), Learner)
    True
    """

    def probabilities(self, context: Any, /) -> Floats:
        """Return the (n, K) probabilities with which it would act now."""
        ...

    def update(self, context: Any, action: Any, reward: Any, propensity: Any, /) -> None:
        """Learn from n decisions: their contexts, action labels, rewards and the probabilities they were taken with."""
        ...


@dataclass
class Bound:
    """A learner of the library: it is told the labels of the actions, keeps to eligible ones, and starts uniform."""

    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: Labels) -> Any:
        """Return the learner for these actions, in this order."""
        self.actions = tuple(actions)
        return self

    def has_learned(self) -> bool:
        """Whether anything was seen."""
        raise NotImplementedError

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """(n, K) probabilities after the first update."""
        raise NotImplementedError

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(n, K) probabilities with which it would act now; uniform before the first update."""
        if self.has_learned():
            return self.chosen(context, eligible)
        n, k = n_rows(context), len(bound(self.actions, self))
        return np.asarray(uniform(n, k, eligibility(eligible, n, k)))


def fresh(learner: Any, actions: Labels) -> Any:
    """An independent copy of a learner that knows the actions; the original is left as it is."""
    for method in ("probabilities", "update"):
        if not callable(getattr(learner, method, None)):
            raise UsageError(
                f"a learner needs the methods probabilities(context) and update(context, action, reward, propensity). "
                f"{type(learner).__name__} has no {method}(). For a scikit-learn model use "
                "op.learners.EpsilonGreedy(model); for other libraries see op.learners."
            )
    own = copy.deepcopy(learner)
    return own.bind(actions) if hasattr(own, "bind") else own


def frozen(learner: Any) -> Any:
    """A learner as it stands now, to be asked later: what its ``frozen()`` gives, else a copy."""
    if hasattr(learner, "frozen"):
        return learner.frozen()
    try:
        return copy.deepcopy(learner)
    except Exception as error:
        raise UsageError(
            f"{type(learner).__name__} cannot be copied ({error}), so its policy of each block cannot be kept. "
            "Give it a method frozen(), or read the log into memory: op.scan(…, way='rows')."
        ) from error


def as_pandas(context: Any) -> Any:
    """A frame of any kind as pandas."""
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
            f"update(): {unknown[0]!r} is not one of the actions."
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


def check_share(learner: Any, name: str) -> None:
    """Refuse a parameter that is not in [0, 1]."""
    value = getattr(learner, name)
    _check(learner, name, isinstance(value, int | float) and 0 <= value <= 1, "a number in [0, 1]")


def check_positive(learner: Any, *names: str) -> None:
    """Refuse parameters that are not positive numbers."""
    for name in names:
        value = getattr(learner, name)
        _check(learner, name, isinstance(value, int | float) and 0 < value < np.inf, "a positive number")


def _check(learner: Any, name: str, holds: object, words: str) -> None:
    if not holds:
        who, value = type(learner).__name__, getattr(learner, name)
        raise UsageError(f"The {name!r} parameter of {who} must be {words}. Got {value!r} instead.")


def table_of(context: Any) -> Any:
    """Contexts as models read them: pandas with names, or a two-dimensional array."""
    if is_frame(context):
        return as_pandas(context)
    array = np.asarray(context)
    return array.reshape(len(array), -1)


def as_array(values: Any) -> Array:
    """Labels as they are given to a learner."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
