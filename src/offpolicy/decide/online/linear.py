"""Linear learners: a regression of the reward for each action, kept as its sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.decide.online.own import Bound, as_pandas, check_positive, check_share, codes_of, explored, greedy
from offpolicy.errors import PolicyError, UsageError
from offpolicy.logs.frame import is_frame
from offpolicy.models.fitting.encode import PlainTable
from offpolicy.policies.distribution import eligibility
from offpolicy.policies.protocol import bound
from offpolicy.policies.thompson import gaussian_thompson_probabilities

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats


@dataclass
class Design:
    """Contexts as numbers with an intercept, scaled by the first rows seen."""

    table: PlainTable | None = None
    center: Floats | None = None
    scale: Floats | None = None

    def learn(self, context: Any) -> None:
        """Take levels, means and spreads from the first rows that are seen."""
        if is_frame(context):
            self.table = PlainTable.learn(as_pandas(context), None, keeps_categories=False)
        numbers = self._numbers(context)
        known = np.ma.masked_invalid(numbers)
        self.center = np.asarray(known.mean(axis=0).filled(0.0), dtype=np.float64)
        spread = np.asarray(known.std(axis=0).filled(0.0), dtype=np.float64)
        self.scale = np.where(spread > 0, spread, 1.0)

    def of(self, context: Any) -> Floats:
        """(n, 1 + p) matrix; a missing number sits at the mean."""
        assert self.center is not None
        assert self.scale is not None
        scaled = (self._numbers(context) - self.center) / self.scale
        return np.column_stack([np.ones(len(scaled)), np.nan_to_num(scaled, nan=0.0)])

    def _numbers(self, context: Any) -> Floats:
        if self.table is not None:
            return np.asarray(self.table.transform(as_pandas(context)), dtype=np.float64)
        array = np.asarray(context)
        if array.dtype.kind not in "biuf":
            raise PolicyError(
                f"a linear learner needs numbers, but the context is an array of {array.dtype}. Build the log from a "
                "frame to have its text columns encoded."
            )
        return array.reshape(len(array), -1).astype(np.float64)


@dataclass
class _Linear(Bound):
    """Ridge regression of the reward for each action, kept as its sums."""

    design: Design = field(default_factory=Design, kw_only=True, repr=False)
    gram: Any = field(default=None, kw_only=True, repr=False)  # (K, p, p): ridge + Σ x xᵀ
    moment: Any = field(default=None, kw_only=True, repr=False)  # (K, p): Σ x r
    ridge: float = field(default=1.0, kw_only=True)

    def has_learned(self) -> bool:
        """Whether anything was seen."""
        return self.gram is not None

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Add decisions to the sums of their actions."""
        actions = bound(self.actions, self)
        codes, rewards = codes_of(action, actions), np.asarray(reward, dtype=np.float64)
        if self.gram is None:
            self.design.learn(context)
        x = self.design.of(context)
        if self.gram is None:
            p = x.shape[1]
            self.gram = np.tile(self.ridge * np.eye(p), (len(actions), 1, 1))
            self.moment = np.zeros((len(actions), p))
        for code in np.unique(codes):
            rows = codes == code
            self._learn(int(code), x[rows], rewards[rows])

    def _learn(self, code: int, x: Floats, reward: Floats) -> None:
        self.gram[code] += x.T @ x
        self.moment[code] += x.T @ reward

    def _posterior(self, context: Any) -> tuple[Floats, Floats]:
        """(n, K) mean and standard deviation of the linear predictor, up to the noise."""
        x = self.design.of(context)
        inverse = np.linalg.inv(self.gram)
        mean = x @ np.einsum("kij,kj->ki", inverse, self.moment).T
        spread = np.sqrt(np.einsum("ni,kij,nj->nk", x, inverse, x))
        return mean, spread

    def _drawn(self, context: Any, eligible: Bools | None, scale: float) -> Floats:
        """P(a has the largest draw from its posterior)."""
        mean, spread = self._posterior(context)
        open_to = eligibility(eligible, *mean.shape)
        return np.asarray(gaussian_thompson_probabilities(mean, np.maximum(scale * spread, 1e-9), eligible=open_to))


@checks_arguments
@dataclass
class LinUCB(_Linear):
    """Take the action with the largest upper confidence bound of a linear reward (Li et al. 2010, disjoint).

    Parameters
    ----------
    alpha : float
        Width of the bound in standard deviations.
    epsilon : float
        Share of decisions drawn uniformly. 0 is the published algorithm.
    ridge : float
        Penalty of the regressions, on standardized columns.

    Examples
    --------
    >>> learner = LinUCB(alpha=0.5).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 1.0, 1.0], [0.5] * 4)
    >>> learner.probabilities(np.zeros((1, 1))).tolist()
    [[0.0, 1.0]]
    """

    alpha: float = 1.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_share(self, "epsilon")
        check_positive(self, "ridge")

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """Probability 1 − ε for the largest bound."""
        mean, spread = self._posterior(context)
        return explored(greedy(mean + self.alpha * spread, eligible), self.epsilon, eligible)


@checks_arguments
@dataclass
class LinearThompson(_Linear):
    """Draw each action's mean reward from its Gaussian posterior and take the largest (Agrawal and Goyal 2013).

    Parameters
    ----------
    scale : float
        Standard deviation of the noise: how wide posteriors are.
    ridge : float
        Penalty of the regressions, on standardized columns.

    Examples
    --------
    >>> learner = LinearThompson(scale=0.1).bind(("a", "b"))
    >>> learner.update(np.zeros((4, 1)), ["a", "a", "b", "b"], [0.0, 0.0, 1.0, 1.0], [0.5] * 4)
    >>> bool(learner.probabilities(np.zeros((1, 1)))[0, 1] > 0.99)
    True
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        check_positive(self, "scale", "ridge")

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """P(a has the largest draw), by quadrature."""
        return self._drawn(context, eligible, self.scale)


NEWTON_STEPS = 25


@checks_arguments
@dataclass
class LogisticThompson(_Linear):
    """Thompson sampling for rewards of 0 and 1: a logistic model per action with a Laplace posterior.

    The posterior of one update is the prior of the next (Chapelle and Li 2011, with the whole covariance).

    Parameters
    ----------
    ridge : float
        Precision of the prior, on standardized columns.

    Examples
    --------
    >>> learner = LogisticThompson().bind(("a", "b"))
    >>> learner.update(np.zeros((80, 1)), ["a", "b"] * 40, [0.0, 1.0] * 40, [0.5] * 80)
    >>> bool(learner.probabilities(np.zeros((1, 1)))[0, 1] > 0.99)
    True
    """

    def __post_init__(self) -> None:
        check_positive(self, "ridge")

    def _learn(self, code: int, x: Floats, reward: Floats) -> None:
        if ((reward < 0) | (reward > 1)).any():
            raise UsageError("LogisticThompson needs rewards between 0 and 1.")
        prior, center = self.gram[code], np.linalg.solve(self.gram[code], self.moment[code])
        at = center.copy()
        for _ in range(NEWTON_STEPS):
            p = special.expit(x @ at)
            slope = x.T @ (reward - p) - prior @ (at - center)
            curve = prior + (x * (p * (1 - p))[:, None]).T @ x
            step = np.linalg.solve(curve, slope)
            at += step
            if np.abs(step).max() < 1e-8:
                break
        p = special.expit(x @ at)
        self.gram[code] = prior + (x * (p * (1 - p))[:, None]).T @ x
        self.moment[code] = self.gram[code] @ at

    def chosen(self, context: Any, eligible: Bools | None) -> Floats:
        """P(a has the largest drawn logit), by quadrature."""
        return self._drawn(context, eligible, 1.0)
