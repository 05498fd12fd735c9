"""What a policy is, and how one is told the order of the log's actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from offpolicy.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from offpolicy._arrays import Bools, Floats


@runtime_checkable
class Policy(Protocol):
    """Anything that gives a distribution over the log's actions for each row of a context.

    The adapters of this package have more than the one method:

    - ``bind(actions)`` returns a policy that knows the labels and their order;
    - ``probabilities(context, *, eligible=None)`` takes an (n, K) array of the actions each row may
      choose from, and ``respects_eligible`` says whether it is used;
    - ``choices(context, *, eligible=None)``, on deterministic policies, gives (n,) action codes, so
      that no (n, K) array is needed;
    - ``time_dependent`` policies take ``probabilities(states, t)``, with ``t`` of shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> class Coin:
    ...     def probabilities(self, context):
    ...         return np.full((len(context), 2), 0.5)
    >>> isinstance(Coin(), Policy)
    True
    """

    def probabilities(self, context: Any, /) -> Floats:
        """Return the (n, K) probabilities of the log's actions, in the log's order."""
        ...


def bind(policy: Any, actions: tuple[Hashable, ...]) -> Any:
    """Tell ``policy`` the log's actions if it wants to know them.

    >>> from offpolicy.policies import Fixed
    >>> bind(Fixed("b"), ("a", "b")).code
    1
    """
    return policy.bind(tuple(actions)) if hasattr(policy, "bind") else policy


def respects_eligible(policy: Any) -> bool:
    """Whether ``policy`` gives ineligible actions probability 0 when told which they are."""
    return bool(getattr(policy, "respects_eligible", False))


def member_probabilities(policy: Any, context: Any, eligible: Bools | None, shape: tuple[int, int]) -> Floats:
    """Probabilities of a policy inside another one, with their shape checked."""
    if respects_eligible(policy):
        values = policy.probabilities(context, eligible=eligible)
    else:
        values = policy.probabilities(context)
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise PolicyError(
            f"{type(policy).__name__}.probabilities must return an array of shape (n, K) = "
            f"{shape}. Got {values.shape} instead."
        )
    return values


def no_time(policy: Any, inside: str) -> None:
    """Refuse a time-dependent policy where only the context is passed on."""
    if getattr(policy, "time_dependent", False):
        raise PolicyError(
            f"{inside} does not take time-dependent policies. Write the combination as one "
            "function of (states, t) and wrap that in TimeDependent."
        )


def bound(actions: tuple[Hashable, ...] | None, policy: object) -> tuple[Hashable, ...]:
    """Return the actions of a bound policy; explain what binding is when there are none."""
    if actions is None:
        raise PolicyError(
            f"{type(policy).__name__} does not know the log's actions yet. evaluate() binds "
            "policies by itself; elsewhere call policy.bind(log.actions) first."
        )
    return actions
