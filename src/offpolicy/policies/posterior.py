"""Thompson sampling: each action drawn with the probability that its posterior draw is the largest.

Example 4 of the paper's appendix A (Gaussian), and the beta–Bernoulli version of its section 5.2.
The integrals are in `offpolicy.policies.thompson`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import PolicyError, UsageError
from offpolicy.policies.distribution import eligibility, require_actions
from offpolicy.policies.protocol import bound, n_rows
from offpolicy.policies.thompson import beta_thompson_probabilities, gaussian_thompson_probabilities, parameter

if TYPE_CHECKING:
    from collections.abc import Hashable

    from offpolicy._arrays import Bools, Floats

Parameter: TypeAlias = Callable[[Any], Any] | Mapping[Any, float] | Any
_CHUNK = 1 << 20  # floats drawn at a time


@checks_arguments
@dataclass(frozen=True, eq=False)
class GaussianThompson:
    """Draw a reward from N(mean, std²) for each action, independently; choose the highest.

    Parameters
    ----------
    mean, std
        Each one of: K numbers in the order of the log's actions; a mapping from action to
        number; a function of the context that returns an (n, K) array. ``std`` is positive.

    Examples
    --------
    >>> policy = GaussianThompson({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}).bind(("a", "b"))
    >>> policy.probabilities(np.zeros(1)).round(6).tolist()
    [[0.23975, 0.76025]]
    """

    mean: Parameter
    std: Parameter
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def bind(self, actions: tuple[Hashable, ...]) -> GaussianThompson:
        """Return the policy for these actions, in this order."""
        mean = _ordered(self.mean, actions, "GaussianThompson, mean")
        std = _ordered(self.std, actions, "GaussianThompson, std")
        return replace(self, mean=mean, std=std, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return P(a = argmax of the draws) by quadrature; (n, K), read-only if it is constant."""
        K = len(bound(self.actions, self))
        values = {"mean": self.mean, "std": self.std}
        return _by_distinct_row(gaussian_thompson_probabilities, values, context, K, eligible)


@checks_arguments
@dataclass(frozen=True, eq=False)
class BetaThompson:
    """Draw a success rate from Beta(alpha, beta) for each action; choose the highest.

    Parameters
    ----------
    alpha, beta
        Each one of: K numbers in the order of the log's actions; a mapping from action to
        number; a function of the context that returns an (n, K) array. All positive.
    method
        ``"quadrature"``: exact to about 1e-11. ``"monte-carlo"``: shares of ``draws`` draws, with
        standard error √(p(1 − p)/draws); an action that never wins gets probability 0.
    draws, seed
        Of the Monte Carlo method. Rows with the same parameters get the same draws, so a row's
        probabilities do not depend on which other rows are asked for.

    Examples
    --------
    >>> policy = BetaThompson([1, 2], [1, 1]).bind(("a", "b"))
    >>> policy.probabilities(np.zeros(1)).round(6).tolist()
    [[0.333333, 0.666667]]
    """

    alpha: Parameter
    beta: Parameter
    method: Literal["quadrature", "monte-carlo"] = "quadrature"
    draws: int = 100_000
    seed: int = 0
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.method not in {"quadrature", "monte-carlo"}:
            raise UsageError(
                "The 'method' parameter of BetaThompson must be 'quadrature' or 'monte-carlo'. "
                f"Got {self.method!r} instead."
            )
        if self.draws < 1:
            raise UsageError(
                "The 'draws' parameter of BetaThompson must be an int in the range [1, inf). "
                f"Got {self.draws!r} instead."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> BetaThompson:
        """Return the policy for these actions, in this order."""
        alpha = _ordered(self.alpha, actions, "BetaThompson, alpha")
        beta = _ordered(self.beta, actions, "BetaThompson, beta")
        return replace(self, alpha=alpha, beta=beta, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return P(a = argmax of the draws); (n, K), read-only if it is constant."""
        K = len(bound(self.actions, self))
        exact = self.method == "quadrature"
        function = beta_thompson_probabilities if exact else self._monte_carlo
        values = {"alpha": self.alpha, "beta": self.beta}
        return _by_distinct_row(function, values, context, K, eligible)

    def _monte_carlo(self, alpha: Floats, beta: Floats, *, eligible: Bools | None = None) -> Floats:
        n, K = alpha.shape
        mask = np.ones((n, K), dtype=np.bool_) if eligible is None else eligible
        wins = np.zeros((n, K))
        for row in range(n):
            generator = np.random.default_rng(self.seed)
            for start in range(0, self.draws, size := max(1, _CHUNK // K)):
                count = min(size, self.draws - start)
                draw = generator.beta(alpha[row], beta[row], (count, K))
                best = np.where(mask[row], draw, -1.0).argmax(axis=1)
                wins[row] += np.bincount(best, minlength=K)
        return wins / self.draws


def _ordered(value: Parameter, actions: tuple[Hashable, ...], name: str) -> Parameter:
    """Constants in the order of the actions; functions as they are."""
    if callable(value):
        return value
    if isinstance(value, Mapping):
        require_actions(value, actions, name, every=True)
        value = [value[action] for action in actions]
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.shape != (len(actions),):
        raise PolicyError(
            f"{name} must have one number per action of the log, shape ({len(actions)},). "
            f"Got shape {numbers.shape} instead."
        )
    return numbers


def _by_distinct_row(
    function: Callable[..., Floats], parameters: Mapping[str, Parameter], context: Any, K: int, eligible: Bools | None
) -> Floats:
    """Call ``function`` once for each distinct row of parameters and eligible actions."""
    n = n_rows(context)
    mask = eligibility(eligible, n, K)
    values = [_evaluated(value, context, (n, K), name) for name, value in parameters.items()]
    varying = [v for v in (*values, mask) if v is not None and len(v) == n]
    if all(len(v) == 1 for v in values) and mask is None:
        return np.broadcast_to(function(*values), (n, K))
    table = np.concatenate([v.astype(np.float64) for v in varying], axis=1)
    _, where, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    rows = [np.broadcast_to(v, (n, K))[where] for v in values]
    distinct = function(*rows, eligible=picked(mask, where))
    return distinct[inverse.reshape(-1)]


def _evaluated(value: Parameter, context: Any, shape: tuple[int, int], name: str) -> Floats:
    """(1, K) constants, or the (n, K) result of a function of the context, checked."""
    if callable(value):
        numbers = np.asarray(value(context), dtype=np.float64)
        if numbers.shape != shape:
            raise PolicyError(
                f"{name!r} of a Thompson sampling policy must return an array of shape "
                f"(n, K) = {shape}. Got {numbers.shape} instead."
            )
    else:
        numbers = np.asarray(value, dtype=np.float64)[None]
    return parameter(name, numbers)
