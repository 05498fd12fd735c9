"""Policies made of others: mixtures, and policies that change with time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError
from offpolicy.policies.context import n_rows
from offpolicy.policies.distribution import as_rows, check_rows, eligibility
from offpolicy.policies.protocol import bind, bound, member_probabilities, no_time, respects_eligible

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from offpolicy._arrays import Bools, Floats, Ints


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
