"""Policies of a score: greedy, ε-greedy, softmax (examples 1 to 3 of the paper's appendix A).

    greedy    π(a|s) = 1{a = argmax μ̂(s, ·)}
    ε-greedy  π(a|s) = (1 − ε)·1{a = argmax μ̂(s, ·)} + ε/|A|
    softmax   π(a|s) = exp(Q(s, a)/τ) / Σ_a' exp(Q(s, a')/τ)

Ties go to the action that comes first in the log's order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.errors import PolicyError, UsageError, first_rows
from offpolicy.policies.action_scores import (
    Score,
    bind_score,
    check_score,
    score_columns,
    score_matrix,
)
from offpolicy.policies.context import n_rows
from offpolicy.policies.distribution import eligibility, one_hot, uniform
from offpolicy.policies.protocol import (
    bind,
    bound,
    member_probabilities,
    no_time,
    respects_eligible,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from offpolicy._arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Greedy:
    """Choose the eligible action with the highest score; ties go to the first in log order.

    Parameters
    ----------
    score
        A function of the context that returns (n, K) scores, a mapping from action to fitted
        model, or an object with ``predict(context, codes)``. The last two are asked one action at
        a time, so ``choices`` needs no (n, K) array.

    Examples
    --------
    >>> policy = Greedy(lambda x: np.column_stack([x, 1 - x])).bind(("a", "b"))
    >>> policy.choices(np.array([0.2, 0.5, 0.9])).tolist()
    [1, 0, 0]
    """

    score: Score
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True
    time_dependent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_score(self.score, "Greedy")

    def bind(self, actions: tuple[Hashable, ...]) -> Greedy:
        """Return the policy for these actions, in this order."""
        bind_score(self.score, actions, "Greedy")
        return replace(self, actions=tuple(actions))

    def choices(self, context: Any, *, eligible: Bools | None = None) -> Ints:
        """Return the (n,) codes of the chosen actions."""
        actions = bound(self.actions, self)
        n = n_rows(context)
        mask = eligibility(eligible, n, len(actions))
        best, codes = np.full(n, -np.inf), np.full(n, -1, dtype=np.int64)
        for code, values in enumerate(score_columns(self.score, context, actions, "Greedy")):
            higher = values > best if mask is None else (values > best) & mask[:, code]
            best[higher], codes[higher] = values[higher], code
        if (codes < 0).any():
            raise PolicyError(f"Greedy: every score is −∞ in {first_rows(codes < 0)}.")
        return codes

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return probability 1 for the chosen action of each row; (n, K)."""
        return one_hot(self.choices(context, eligible=eligible), len(bound(self.actions, self)))


@dataclass(frozen=True, eq=False)
class EpsilonGreedy:
    """Follow the greedy action, or another policy, and explore uniformly with probability ε.

    The explored action is drawn from all eligible ones, the greedy one included, so that one has
    probability 1 − ε + ε/|A|.

    Parameters
    ----------
    score
        A score, as in `Greedy`, or a policy.
    epsilon
        Probability of exploring, in [0, 1].

    Examples
    --------
    >>> policy = EpsilonGreedy(lambda x: np.column_stack([x, 1 - x]), 0.2).bind(("a", "b"))
    >>> policy.probabilities(np.array([0.3])).round(12).tolist()
    [[0.1, 0.9]]
    """

    score: Score
    epsilon: float
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    time_dependent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise UsageError(
                "The 'epsilon' parameter of EpsilonGreedy must be a number in [0, 1]. "
                f"Got {self.epsilon!r} instead."
            )
        if hasattr(self.score, "probabilities"):
            no_time(self.score, "EpsilonGreedy")
        else:
            check_score(self.score, "EpsilonGreedy")

    @property
    def respects_eligible(self) -> bool:
        """Whether ineligible actions get 0: they do unless the policy inside ignores them."""
        return not hasattr(self.score, "probabilities") or respects_eligible(self.score)

    def bind(self, actions: tuple[Hashable, ...]) -> EpsilonGreedy:
        """Return the policy for these actions, in this order."""
        actions = tuple(actions)
        inner = self.score if hasattr(self.score, "probabilities") else Greedy(self.score)
        return replace(self, score=bind(inner, actions), actions=actions)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return (1 − ε)·π(a|x) + ε/|A|; (n, K)."""
        n, K = n_rows(context), len(bound(self.actions, self))
        mask = eligibility(eligible, n, K)
        explore = uniform(n, K, mask, self.epsilon)
        exploit = member_probabilities(self.score, context, mask, (n, K))
        return (1 - self.epsilon) * exploit + explore


@dataclass(frozen=True, eq=False)
class Softmax:
    """Choose actions with probability proportional to exp(score / temperature).

    The score is a Q function for Q-learning, or an actor's logits; −∞ rules an action out.

    Parameters
    ----------
    score
        A score, as in `Greedy`.
    temperature
        Positive; near 0 the policy is greedy, large it is uniform.

    Examples
    --------
    >>> policy = Softmax(lambda x: np.column_stack([x, 0 * x])).bind(("a", "b"))
    >>> policy.probabilities(np.array([np.log(3.0)])).round(12).tolist()
    [[0.75, 0.25]]
    """

    score: Score
    temperature: float = 1.0
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = True
    time_dependent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise UsageError(
                "The 'temperature' parameter of Softmax must be a positive number. "
                f"Got {self.temperature!r} instead."
            )
        check_score(self.score, "Softmax")

    def bind(self, actions: tuple[Hashable, ...]) -> Softmax:
        """Return the policy for these actions, in this order."""
        bind_score(self.score, actions, "Softmax")
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return exp(score / τ) divided by its sum over the eligible actions; (n, K)."""
        actions = bound(self.actions, self)
        scores = score_matrix(self.score, context, actions, "Softmax")
        mask = eligibility(eligible, *scores.shape)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        highest = scores.max(axis=1, keepdims=True)
        if np.isneginf(highest).any():
            raise PolicyError(
                f"Softmax: every score is −∞ in {first_rows(np.isneginf(highest[:, 0]))}."
            )
        with np.errstate(over="ignore"):  # a tiny temperature sends the others to −∞, as it should
            weights = np.exp((scores - highest) / self.temperature)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))
