"""A public checker for policies that users write themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.policies.context import n_rows, take
from offpolicy.policies.distribution import as_rows, check_rows
from offpolicy.policies.forms import adapted
from offpolicy.policies.probe import AGREEMENT, probe
from offpolicy.policies.protocol import bind
from offpolicy.policies.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from offpolicy._arrays import Array, Floats, Ints


def check_policy(
    policy: Any, context: Any, actions: Iterable[Hashable], *, t: Array | None = None
) -> None:
    """Check that ``policy`` gives distributions, and the same ones however rows are passed.

    The rows must be of shape (n, K), finite, not negative and sum to 1; a second call must agree
    with the first; rows in another order, and rows passed in two parts, must give the same
    distribution row by row. A policy that normalizes over the rows it is given, keeps state
    between calls, or draws random numbers fails here rather than in the middle of an evaluation.

    Parameters
    ----------
    policy
        An object with ``probabilities(context)``, a function of the context that returns (n, K)
        probabilities or one action label per row, or a model that `evaluate` takes as a policy.
    context
        Rows to try it on: an array or a frame; a few hundred rows will do.
    actions
        The log's actions, in order.
    t
        Steps of the rows, for a time-dependent policy; all 0 when not given.

    Raises
    ------
    PolicyError
        With the first bad row and a remedy.

    Examples
    --------
    >>> x = np.linspace(0, 1, 5)
    >>> check_policy(lambda x: np.column_stack([x, 1 - x]), x, ["a", "b"])
    >>> check_policy(lambda x: np.column_stack([x / x.sum(), 1 - x / x.sum()]), x, ["a", "b"])
    Traceback (most recent call last):
    offpolicy.errors.PolicyError: the policy gives other probabilities when rows are passed in two
    parts: 4 of 5 values (first: row 1, row 2, row 3, …). A row's distribution may depend only on
    that row; look for sums, ranks or scaling over all rows.
    """
    labels = tuple(actions)
    policy = bind(adapted("policy", policy, Surface(actions=labels)), labels)
    if not hasattr(policy, "probabilities") and not callable(policy):
        raise UsageError(
            "The 'policy' parameter of check_policy must have probabilities(context) or be a "
            f"function of the context. Got {type(policy).__name__} instead."
        )
    n = n_rows(context)
    if n == 0:
        raise UsageError("check_policy needs at least one row of context.")
    steps = np.zeros(n, dtype=np.int64) if t is None else np.asarray(t)

    def ask(rows: Ints) -> Floats:
        return _ask(policy, take(context, rows), steps[rows], labels)

    probe(ask, np.arange(n), "the policy", tolerance=AGREEMENT)


def _ask(policy: Any, context: Any, t: Array, labels: tuple[Hashable, ...]) -> Floats:
    shape = n_rows(context), len(labels)
    if getattr(policy, "time_dependent", False):
        values = policy.probabilities(context, t)
    elif hasattr(policy, "probabilities"):
        values = policy.probabilities(context)
    else:
        return as_rows(policy(context), labels, shape, "the policy").copy()
    # A copy: a policy that hands out and then overwrites its own buffer must not pass.
    return check_rows(values, shape, "the policy").copy()
