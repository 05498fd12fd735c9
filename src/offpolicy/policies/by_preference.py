"""Policies that follow preferences: greedy, ε-greedy, softmax (examples 1 to 3 of the paper's appendix A).

    greedy    π(a|s) = 1{a = argmax μ̂(s, ·)}
    ε-greedy  π(a|s) = (1 − ε)·1{a = argmax μ̂(s, ·)} + ε/|A|
    softmax   π(a|s) = exp(Q(s, a)/τ) / Σ_a' exp(Q(s, a')/τ)

Ties go to the action that comes first in the log's order.

A *preference* is one number per row and action:

- a function of the context that returns an (n, K) array in the order of the log's actions;
- a mapping from action label to a fitted scikit-learn model, one per action. A classifier counts
  with its expected class, Σ class · probability, so its classes must be numbers;
- an object with ``predict(context, codes)`` that returns one number per row for the action
  ``codes[row]``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError, first_rows
from offpolicy.logs.actions import by_label
from offpolicy.policies.distribution import eligibility, one_hot, require_actions, uniform
from offpolicy.policies.on_rows import ScoreColumns, labels_of
from offpolicy.policies.protocol import (
    bind,
    bound,
    member_probabilities,
    n_rows,
    no_time,
    respects_eligible,
    with_label,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from offpolicy._arrays import Bools, Floats, Ints


Preference: TypeAlias = Any  # what the first lines list


@checks_arguments
@dataclass(frozen=True, eq=False)
class Greedy:
    """Choose the eligible action with the highest preference; ties go to the first in log order.

    Parameters
    ----------
    preference
        A function of the context that returns (n, K) preferences, a mapping from action to fitted
        model, or an object with ``predict(context, codes)``. The last two are asked one action at
        a time, so ``choices`` needs no (n, K) array. With ``action=``, a fitted model of the reward.
    columns
        Score columns of the log in place of a preference: a mapping from action to name, or one name per
        action. Names made of one prefix and the labels are matched by label, others by the order of the log's actions.
    action
        Name of the column under which the fitted model ``preference`` reads the action; of an array
        of features the action is the last column.

    Examples
    --------
    >>> policy = Greedy(lambda x: np.column_stack([x, 1 - x])).bind(("a", "b"))
    >>> policy.choices(np.array([0.2, 0.5, 0.9])).tolist()
    [1, 0, 0]
    """

    preference: Preference = None
    columns: Sequence[str] | Mapping[Any, str] | None = field(default=None, kw_only=True)
    action: str | None = field(default=None, kw_only=True)
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.columns is not None:
            if self.preference is not None or isinstance(self.columns, str):
                raise UsageError(
                    "Greedy takes a preference, or columns= as a list of names (a mapping from action to name)."
                )
        elif self.action is None:
            _check_preference(self.preference, "Greedy")
        elif not hasattr(self.preference, "predict"):
            raise UsageError(
                f"Greedy(model, action={self.action!r}) takes a fitted model of the reward. "
                f"Got {type(self.preference).__name__} instead."
            )

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log that it needs besides the context."""
        names = self.columns.values() if isinstance(self.columns, Mapping) else self.columns
        return tuple(names or ())

    def bind(self, actions: tuple[Hashable, ...]) -> Greedy | ScoreColumns:
        """Return the policy for these actions, in this order."""
        if isinstance(self.columns, Mapping):
            require_actions(self.columns, actions, "Greedy", every=True)
            return ScoreColumns(tuple(self.columns[action] for action in actions))
        if self.columns is not None:
            return ScoreColumns(by_label(self.reads, actions))
        if self.action is not None:
            pairs = _OfPairs(self.preference, self.action, tuple(actions))
            return Greedy(pairs, actions=tuple(actions))
        _bind_preference(self.preference, actions, "Greedy")
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        actions = bound(self.actions, self)
        n = n_rows(context)
        mask = eligibility(eligible, n, len(actions))
        best, codes = np.full(n, -np.inf), np.full(n, -1, dtype=np.int64)
        for code, values in enumerate(_preference_columns(self.preference, context, actions, "Greedy")):
            higher = values > best if mask is None else (values > best) & mask[:, code]
            best[higher], codes[higher] = values[higher], code
        if (codes < 0).any():
            raise PolicyError(f"Greedy: every preference is −∞ in {first_rows(codes < 0)}.")
        return codes

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return probability 1 for the chosen action of each row; (n, K)."""
        return one_hot(self.choices(context, eligible=eligible), len(bound(self.actions, self)))


@checks_arguments
@dataclass(frozen=True, eq=False)
class EpsilonGreedy:
    """Follow the greedy action, or another policy, and explore uniformly with probability ε.

    The explored action is drawn from all eligible ones, the greedy one included, so that one has
    probability 1 − ε + ε/|A|.

    Parameters
    ----------
    preference
        A preference, as in `Greedy`, or a policy.
    epsilon
        Probability of exploring, in [0, 1].

    Examples
    --------
    >>> policy = EpsilonGreedy(lambda x: np.column_stack([x, 1 - x]), 0.2).bind(("a", "b"))
    >>> policy.probabilities(np.array([0.3])).round(12).tolist()
    [[0.1, 0.9]]
    """

    preference: Preference
    epsilon: float
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise UsageError(
                f"The 'epsilon' parameter of EpsilonGreedy must be a number in [0, 1]. Got {self.epsilon!r} instead."
            )
        if hasattr(self.preference, "probabilities"):
            no_time(self.preference, "EpsilonGreedy")
        else:
            _check_preference(self.preference, "EpsilonGreedy")

    @property
    def respects_eligible(self) -> bool:
        """Whether ineligible actions get 0: they do unless the policy inside ignores them."""
        return not hasattr(self.preference, "probabilities") or respects_eligible(self.preference)

    def bind(self, actions: tuple[Hashable, ...]) -> EpsilonGreedy:
        """Return the policy for these actions, in this order."""
        actions = tuple(actions)
        inner = self.preference if hasattr(self.preference, "probabilities") else Greedy(self.preference)
        return replace(self, preference=bind(inner, actions), actions=actions)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return (1 − ε)·π(a|x) + ε/|A|; (n, K)."""
        n, K = n_rows(context), len(bound(self.actions, self))
        mask = eligibility(eligible, n, K)
        explore = uniform(n, K, mask, self.epsilon)
        exploit = member_probabilities(self.preference, context, mask, (n, K))
        return (1 - self.epsilon) * exploit + explore


@checks_arguments
@dataclass(frozen=True, eq=False)
class Softmax:
    """Choose actions with probability proportional to exp(preference / temperature).

    The preference is a Q function for Q-learning, or an actor's logits; −∞ rules an action out.

    Parameters
    ----------
    preference
        A preference, as in `Greedy`.
    temperature
        Positive; near 0 the policy is greedy, large it is uniform.

    Examples
    --------
    >>> policy = Softmax(lambda x: np.column_stack([x, 0 * x])).bind(("a", "b"))
    >>> policy.probabilities(np.array([np.log(3.0)])).round(12).tolist()
    [[0.75, 0.25]]
    """

    preference: Preference
    temperature: float = 1.0
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise UsageError(
                f"The 'temperature' parameter of Softmax must be a positive number. Got {self.temperature!r} instead."
            )
        _check_preference(self.preference, "Softmax")

    def bind(self, actions: tuple[Hashable, ...]) -> Softmax:
        """Return the policy for these actions, in this order."""
        _bind_preference(self.preference, actions, "Softmax")
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return exp(preference / τ) divided by its sum over the eligible actions; (n, K)."""
        actions = bound(self.actions, self)
        columns = _preference_columns(self.preference, context, actions, "Softmax")
        preferences = np.column_stack(list(columns))
        mask = eligibility(eligible, *preferences.shape)
        if mask is not None:
            preferences = np.where(mask, preferences, -np.inf)
        highest = preferences.max(axis=1, keepdims=True)
        if np.isneginf(highest).any():
            raise PolicyError(f"Softmax: every preference is −∞ in {first_rows(np.isneginf(highest[:, 0]))}.")
        with np.errstate(over="ignore"):  # a tiny temperature sends the others to −∞, as it should
            weights = np.exp((preferences - highest) / self.temperature)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@checks_arguments
@dataclass(frozen=True, eq=False)
class PlackettLuce(Softmax):
    """Fill a slate from the top, each slot with probability proportional to exp(score / τ) of the items left.

    Items are drawn without replacement, from the candidates of the slot less the items above. As τ goes to 0 the
    slate is the items sorted by score. For `offpolicy.Slates` with interaction "cascade" or "full".

    Parameters
    ----------
    preference
        Score of each item: a preference, as in `Greedy`. It sees the context, the position and the items above.
    temperature
        Positive; near 0 the policy sorts, large it shuffles.

    Examples
    --------
    >>> policy = PlackettLuce(lambda x: np.tile(np.log([3.0, 2.0, 1.0]), (len(x), 1))).bind(("a", "b", "c"))
    >>> second_slot = np.array([[False, True, True]])  # "a" is above
    >>> policy.probabilities(np.zeros(1), eligible=second_slot).round(3).tolist()
    [[0.0, 0.667, 0.333]]
    """

    without_replacement: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class _OfPairs:
    """A fitted model of (context, action) → reward, asked one action at a time."""

    model: Any
    action: str
    actions: tuple[Hashable, ...]

    def predict(self, context: Any, codes: Ints) -> Any:
        table = with_label(context, self.action, labels_of(self.actions, codes), self.actions, self.model)
        return _prediction(self.model, table, type(self.model).__name__)


def _check_preference(preference: Preference, policy: str) -> None:
    """Refuse what is not a preference before any row is seen."""
    if isinstance(preference, Mapping) or _takes_codes(preference):
        return
    if hasattr(preference, "predict") or not callable(preference):
        raise UsageError(
            f"The 'preference' parameter of {policy} must be a function of the context that returns an "
            "(n, K) array, a mapping from action to fitted model, or an object with "
            f"predict(context, codes). Got {type(preference).__name__} instead. A fitted model of context and action "
            "comes with the name of its action column: Greedy(model, action=…)."
        )


def _takes_codes(preference: Preference) -> bool:
    """Whether ``preference.predict`` has a second parameter called ``codes``.

    The name is looked at because other second parameters exist (``return_std`` of a Gaussian
    process, say), and passing action codes for them would not fail.
    """
    predict = getattr(preference, "predict", None)
    if predict is None:
        return False
    try:
        parameters = list(inspect.signature(predict).parameters)
    except (TypeError, ValueError):
        return False
    return parameters[1:2] == ["codes"]


def _bind_preference(preference: Preference, actions: tuple[Hashable, ...], policy: str) -> None:
    """Check that a mapping has a model for each of the log's actions and for no other."""
    if isinstance(preference, Mapping):
        require_actions(preference, actions, policy, every=True)


def _preference_columns(
    preference: Preference, context: Any, actions: tuple[Hashable, ...], policy: str
) -> Iterator[Floats]:
    """Yield the (n,) preferences of one action after the other."""
    n, K = n_rows(context), len(actions)
    if isinstance(preference, Mapping):
        for action in actions:
            name = f"{policy}, model of action {action!r}"
            yield _column(_prediction(preference[action], context, name), n, name)
    elif _takes_codes(preference):
        for code in range(K):
            name = f"{policy}, action {actions[code]!r}"
            yield _column(preference.predict(context, np.full(n, code)), n, name)
    else:
        matrix = np.asarray(preference(context), dtype=np.float64)
        if matrix.shape != (n, K):
            raise PolicyError(
                f"{policy}: preferences must have shape (n, K) = ({n}, {K}), one column per action of "
                f"the log in the log's order. Got {matrix.shape} instead."
            )
        for code in range(K):
            yield _column(matrix[:, code], n, f"{policy}, action {actions[code]!r}")


def _prediction(model: Any, context: Any, name: str) -> Any:
    if not hasattr(model, "predict_proba"):
        return model.predict(context)
    try:
        classes = np.asarray(model.classes_, dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError(
            f"{name}: the classes {list(model.classes_)[:4]} are not numbers, so they have no "
            "expected value. Fit the classifier on numeric rewards."
        ) from None
    return np.asarray(model.predict_proba(context)) @ classes


def _column(values: Any, n: int, name: str) -> Floats:
    out = np.asarray(values, dtype=np.float64)
    if out.shape == (n, 1):
        out = out[:, 0]
    if out.shape != (n,):
        raise PolicyError(f"{name}: expected one preference per row, ({n},). Got {out.shape} instead.")
    # −∞ is a common mask of logits and harmless; NaN and +∞ would decide the argmax.
    bad = np.isnan(out) | np.isposinf(out)
    if bad.any():
        raise PolicyError(f"{name}: preferences are NaN or infinite in {first_rows(bad, out)}.")
    return out
