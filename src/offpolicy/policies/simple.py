"""Policies without a model: uniform, fixed shares, one fixed action, one action per row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError
from offpolicy.policies.distribution import (
    SUM_TOLERANCE,
    action_codes,
    as_rows,
    check_rows,
    eligibility,
    one_hot,
    require_actions,
    uniform,
)
from offpolicy.policies.protocol import bind, bound, column, member_probabilities, n_rows, no_time, respects_eligible

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from offpolicy._arrays import Bools, Floats, Ints


@checks_arguments
@dataclass(frozen=True)
class Uniform:
    """Choose every eligible action with the same probability: a random A/B test.

    Examples
    --------
    >>> Uniform().bind(("a", "b")).probabilities(np.zeros(2)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: tuple[Hashable, ...]) -> Uniform:
        """Return the policy for these actions, in this order."""
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return 1 / (number of eligible actions) for each of them; (n, K), read-only."""
        n, K = n_rows(context), len(bound(self.actions, self))
        return uniform(n, K, eligibility(eligible, n, K))


@checks_arguments
@dataclass(frozen=True)
class Ranking:
    """Show the same list in every slate: the first item at the first position, and so on.

    Where a slate already shows an item of the list further up, the first one of the list that is left takes its place.

    Parameters
    ----------
    items
        Labels from the top; as many as slates have positions, or more.

    Examples
    --------
    >>> policy = Ranking(("c", "a")).bind(("a", "b", "c"))
    >>> policy.choices(np.zeros((2, 1)), np.array([0, 1])).tolist()
    [2, 0]
    """

    items: tuple[Hashable, ...]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True
    time_dependent: ClassVar[bool] = True

    def bind(self, actions: tuple[Hashable, ...]) -> Ranking:
        """Return the policy for these actions, in this order."""
        require_actions(self.items, actions, "Ranking")
        if len(set(self.items)) < len(self.items):
            raise PolicyError(f"a ranking must list each item once. Got {list(self.items)}.")
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, t: Ints, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the items at positions t."""
        actions, position = bound(self.actions, self), np.asarray(t)
        codes = np.array([actions.index(item) for item in self.items], dtype=np.int64)
        if len(position) and int(position.max()) >= len(codes):
            raise PolicyError(
                f"a ranking of {len(codes)} items cannot fill slates of {int(position.max()) + 1} positions. List an "
                "item for every position."
            )
        chosen = codes[position]
        if eligible is None:
            return chosen
        # The item of the position, then the list from the top, then whatever is left.
        rank = np.zeros(len(actions))
        rank[codes] = np.arange(len(codes), 0, -1)
        wanted = np.tile(rank, (len(chosen), 1))
        wanted[np.arange(len(chosen)), chosen] = len(codes) + 1
        return np.asarray(np.where(eligible, wanted, -1.0).argmax(axis=1))


@checks_arguments
@dataclass(frozen=True)
class Fixed:
    """Choose the same action always.

    It ignores ``eligible``: where the action is not eligible the policy cannot be followed, which
    is for the evaluation to say, not for the policy to repair.

    Parameters
    ----------
    action
        Label of the action.

    Examples
    --------
    >>> Fixed("b").bind(("a", "b")).probabilities(np.zeros(2)).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    action: Hashable
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def bind(self, actions: tuple[Hashable, ...]) -> Fixed:
        """Return the policy for these actions, in this order."""
        require_actions([self.action], actions, "Fixed")
        return replace(self, actions=tuple(actions))

    @property
    def code(self) -> int:
        """Position of the action among the log's actions."""
        return bound(self.actions, self).index(self.action)

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        return np.full(n_rows(context), self.code, dtype=np.int64)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return probability 1 for the action; (n, K), read-only."""
        row = one_hot(np.array([self.code]), len(bound(self.actions, self)))
        return np.broadcast_to(row, (n_rows(context), row.shape[1]))


@checks_arguments
@dataclass(frozen=True)
class Constant:
    """Choose each action with a probability that is the same in every context: an A/B split.

    It ignores ``eligible``, as `Fixed` does.

    Parameters
    ----------
    shares
        Probability of each action, by label; they sum to 1. Actions that are not named have 0.

    Examples
    --------
    >>> Constant({"x": 0.2, "y": 0.8}).bind(("y", "z", "x")).probabilities(np.zeros(1)).tolist()
    [[0.8, 0.0, 0.2]]
    """

    shares: Mapping[Any, float]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        values = np.array([float(p) for p in self.shares.values()])
        if not bool(np.isfinite(values).all()) or bool((values < 0).any()):
            raise PolicyError(f"probabilities of actions must be numbers from 0 to 1. Got {dict(self.shares)}.")
        if abs(values.sum() - 1) > SUM_TOLERANCE:
            raise PolicyError(
                f"probabilities of actions must sum to 1. Got {dict(self.shares)}, which sum to "
                f"{values.sum():.6g}. offpolicy never normalizes probabilities for you."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> Constant:
        """Return the policy for these actions, in this order."""
        require_actions(self.shares, actions, "a mapping from action to probability")
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the shares for every row; (n, K), read-only."""
        actions = bound(self.actions, self)
        row = np.array([float(self.shares.get(a, 0.0)) for a in actions])
        return np.broadcast_to(row, (n_rows(context), len(actions)))


@checks_arguments
@dataclass(frozen=True)
class Deterministic:
    """Choose the action named by a column of the context, or by a function of it.

    It ignores ``eligible``, as `Fixed` does.

    Parameters
    ----------
    source
        Name of a column that holds action labels, or a function that takes the context and
        returns one label per row.

    Examples
    --------
    >>> policy = Deterministic(lambda x: np.where(x > 0, "high", "low")).bind(("low", "high"))
    >>> policy.choices(np.array([-1.0, 2.0])).tolist()
    [0, 1]
    """

    source: str | Callable[[Any], Any]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) and not callable(self.source):
            raise UsageError(
                "The 'source' parameter of Deterministic must be a column name or a function of "
                f"the context. Got {self.source!r} instead."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> Deterministic:
        """Return the policy for these actions, in this order."""
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        actions = bound(self.actions, self)
        if isinstance(self.source, str):
            name = f"Deterministic({self.source!r})"
            labels = column(context, self.source, name)
        else:
            name = "Deterministic"
            labels = self.source(context)
        return action_codes(labels, actions, name, n_rows(context))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return probability 1 for the chosen action of each row; (n, K)."""
        return one_hot(self.choices(context, eligible=eligible), len(bound(self.actions, self)))


@checks_arguments
@dataclass(frozen=True, eq=False)
class Mixture:
    """Follow one of several policies, drawn anew for every decision with the given weights.

    π(a|x) = Σ_m weight_m · π_m(a|x)

    For trajectories, drawing one policy per episode is something else: its value is the weighted
    mean of the policies' values.

    Parameters
    ----------
    policies
        Objects with ``probabilities(context)``, or functions of the context that give (n, K) probabilities
        or one action label per row.
    weights
        One probability per policy; they sum to 1.

    Examples
    --------
    >>> from offpolicy.policies import Fixed, Uniform
    >>> policy = Mixture([Fixed("a"), Uniform()], [0.5, 0.5]).bind(("a", "b"))
    >>> policy.probabilities(np.zeros(1)).tolist()
    [[0.75, 0.25]]
    """

    policies: Sequence[Any]
    weights: Sequence[float]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if len(self.policies) == 0 or weights.shape != (len(self.policies),):
            raise UsageError(
                f"Mixture needs one weight per policy. Got {len(self.policies)} policies and "
                f"weights of shape {weights.shape}."
            )
        if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-9:
            raise UsageError(
                "The 'weights' parameter of Mixture must be probabilities that sum to 1. "
                f"Got {weights.tolist()} instead."
            )
        for policy in self.policies:
            if not hasattr(policy, "probabilities") and not callable(policy):
                raise UsageError(
                    "The 'policies' parameter of Mixture must be objects with probabilities(context) or "
                    f"functions of the context. Got {type(policy).__name__} instead."
                )
            no_time(policy, "Mixture")

    @property
    def respects_eligible(self) -> bool:
        """Whether ineligible actions get 0: they do if every member respects them."""
        return all(respects_eligible(policy) for policy in self.policies)

    def bind(self, actions: tuple[Hashable, ...]) -> Mixture:
        """Return the policy for these actions, in this order."""
        members = [bind(policy, actions) for policy in self.policies]
        return replace(self, policies=members, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the weighted mean of the members' probabilities; (n, K)."""
        labels = bound(self.actions, self)
        shape = n_rows(context), len(labels)
        mask = eligibility(eligible, *shape)
        out = np.zeros(shape)
        for weight, policy in zip(self.weights, self.policies, strict=True):
            if hasattr(policy, "probabilities"):
                out += weight * member_probabilities(policy, context, mask, shape)
            else:
                out += weight * as_rows(policy(context), labels, shape, "Mixture")
        return out


@checks_arguments
@dataclass(frozen=True, eq=False)
class TimeDependent:
    """A policy π_t(a|s) that changes with the step of the episode.

    Parameters
    ----------
    function
        Takes states (n, …) and steps ``t`` (n,), counted from 0, and returns (n, K)
        probabilities in the order of the log's actions.

    Examples
    --------
    >>> policy = TimeDependent(lambda s, t: np.column_stack([t == 0, t > 0])).bind(("a", "b"))
    >>> policy.probabilities(np.zeros(2), np.array([0, 1])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    function: Callable[[Any, Ints], Any]
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False
    time_dependent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(
                "The 'function' parameter of TimeDependent must be a function of (states, t). "
                f"Got {self.function!r} instead."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> TimeDependent:
        """Return the policy for these actions, in this order."""
        return replace(self, actions=tuple(actions))

    def probabilities(self, states: Any, t: Any, *, eligible: Bools | None = None) -> Floats:
        """Return π_t(a|s) for each row's own state and step, checked; (n, K)."""
        shape = n_rows(states), len(bound(self.actions, self))
        steps = np.asarray(t)
        if steps.shape != shape[:1] or steps.dtype.kind not in "iu":
            raise PolicyError(
                f"'t' must be an integer array of shape {shape[:1]}. Got {steps.dtype} of shape {steps.shape} instead."
            )
        return check_rows(self.function(states, steps), shape, "TimeDependent")
