"""The two algorithms of the A/B test; both are updated after every batch from their own
impressions.

* Multi-armed: beta Thompson sampling. Design a has posterior Beta(α₀ + clicks_a, β₀ + others_a),
  with past counts multiplied by ``mab_memory`` at each update. Its choice probabilities do not
  depend on the context.
* Contextual: Thompson sampling on a Bayesian logistic model with normal priors (a regularized
  logistic regression), posterior approximated by independent normals around its mode (Laplace).
  At each update it publishes ``cb_draws`` draws of the weights; each impression is served the
  best design under one draw picked at random. So π(a|x) = #{draws in which a is best at x} /
  cb_draws, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from offpolicy_studies.ads.config import AdConfig


@dataclass(frozen=True)
class BetaPosterior:
    """Discounted clicks and non-clicks of each design under a beta prior.

    Examples
    --------
    >>> start = BetaPosterior(np.zeros(2), np.zeros(2), prior=(1.0, 1.0), memory=0.5)
    >>> start.updated(np.array([4, 2]), np.array([1, 0])).updated(np.zeros(2), np.zeros(2)).beta
    array([2.5, 2. ])
    """

    clicks: NDArray[np.float64]
    others: NDArray[np.float64]
    prior: tuple[float, float]
    memory: float

    @property
    def alpha(self) -> NDArray[np.float64]:
        """First parameters of the beta distributions."""
        return self.prior[0] + self.clicks

    @property
    def beta(self) -> NDArray[np.float64]:
        """Second parameters of the beta distributions."""
        return self.prior[1] + self.others

    def updated(self, impressions: NDArray[np.int64], clicks: NDArray[np.int64]) -> BetaPosterior:
        """Return the posterior after a batch."""
        return BetaPosterior(
            self.memory * self.clicks + clicks,
            self.memory * self.others + (impressions - clicks),
            self.prior,
            self.memory,
        )


@dataclass(frozen=True)
class LogisticPosterior:
    """Independent normal posterior of a logistic click model with design-specific weights.

    The log-odds are ``base + x·main + design_a + x·weight_a``; only the last two change which
    design is best. One flat vector holds base, main, design and weight, in that order.

    Attributes
    ----------
    mean, precision : (1 + levels + K + levels·K,) arrays
        Posterior mode and inverse variances.
    levels, designs : int
        Indicator columns of a context, and K.
    """

    mean: NDArray[np.float64]
    precision: NDArray[np.float64]
    levels: int
    designs: int

    def updated(
        self, active: NDArray[np.int64], design: NDArray[np.int64], click: NDArray[np.int64]
    ) -> LogisticPosterior:
        """Return the Laplace approximation after a batch, the present posterior being the prior.

        Parameters
        ----------
        active : (n, columns) int array
            Which indicator columns are 1 in each impression's context.
        design, click : (n,) int arrays
            What was shown, and whether it was clicked.
        """
        index = self._features(active, design)
        size = len(self.mean)

        def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            score = w[index].sum(axis=1)
            shift = w - self.mean
            value = np.logaddexp(0.0, score).sum() - score @ click
            slope = (expit(score) - click)[:, None] + np.zeros(index.shape)
            gradient = np.bincount(index.ravel(), slope.ravel(), minlength=size)
            penalty = self.precision * shift
            return value + 0.5 * float(shift @ penalty), gradient + penalty

        # Scaling by the prior's standard deviation makes the problem well conditioned.
        sd = 1.0 / np.sqrt(self.precision)

        def scaled(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            value, gradient = loss(self.mean + sd * z)
            return value, sd * gradient

        solution = minimize(scaled, np.zeros(size), jac=True, method="L-BFGS-B")
        mean = self.mean + sd * solution.x
        p = expit(mean[index].sum(axis=1))
        curvature = (p * (1 - p))[:, None] + np.zeros(index.shape)
        precision = self.precision + np.bincount(index.ravel(), curvature.ravel(), minlength=size)
        return LogisticPosterior(mean, precision, self.levels, self.designs)

    def draw(self, draws: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return draws of (design, weight) as matrices of shape (draws, 1 + levels, K)."""
        first = 1 + self.levels
        mean, sd = self.mean[first:], 1.0 / np.sqrt(self.precision[first:])
        flat = mean + sd * rng.standard_normal((draws, len(mean)))
        return flat.reshape(draws, 1 + self.levels, self.designs).astype(np.float32)

    def _features(self, active: NDArray[np.int64], design: NDArray[np.int64]) -> NDArray[np.int64]:
        first = 1 + self.levels
        weights = first + self.designs + active * self.designs + design[:, None]
        base = np.zeros((len(design), 1), dtype=np.int64)
        return np.hstack([base, 1 + active, first + design[:, None], weights])


def logistic_prior(config: AdConfig, levels: int, designs: int) -> LogisticPosterior:
    """Return the contextual bandit's state before its first impression."""
    rate = float(np.mean(config.click_rates))
    mean = np.zeros(1 + levels + designs + levels * designs)
    mean[0] = np.log(rate / (1 - rate))
    sd = np.concatenate(
        [
            [1.0],
            np.full(levels, config.cb_column_sd),
            np.full(designs, config.cb_design_sd),
            np.full(levels * designs, config.cb_weight_sd),
        ]
    )
    return LogisticPosterior(mean, sd**-2.0, levels, designs)


def choice_counts(draws: NDArray[np.float32], onehot: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Count, for each context and design, the draws under which the design is best.

    Parameters
    ----------
    draws : (D, 1 + levels, K) array
        Weight matrices; D ≤ 255.
    onehot : (n, levels) array
        Contexts.

    Returns
    -------
    (n, K) uint8 array
        Rows sum to D; divided by D they are the choice probabilities.

    Examples
    --------
    >>> choice_counts(np.array([[[0, 1], [0, 0]], [[0, 1], [2, 0]]]), np.array([[0], [1]]))
    array([[0, 2],
           [1, 1]], dtype=uint8)
    """
    counts = np.zeros((len(onehot), draws.shape[2]), dtype=np.uint8)
    rows = np.arange(len(onehot))
    for matrix in draws:
        best = np.argmax(onehot @ matrix[1:] + matrix[0], axis=1)
        counts[rows, best] += 1
    return counts


def monte_carlo_probabilities(
    alpha: NDArray[np.float64], beta: NDArray[np.float64], draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return beta Thompson sampling's choice probabilities by simulation, as the paper does.

    The standard error of each is √(p(1 − p)/draws); `offpolicy.policies` has them by quadrature.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = monte_carlo_probabilities(np.array([1.0, 2.0]), np.ones(2), 100_000, rng)
    >>> bool(abs(p[1] - 2 / 3) < 0.01)
    True
    """
    wins = np.zeros(len(alpha), dtype=np.int64)
    for start in range(0, draws, 10_000):
        size = (min(10_000, draws - start), len(alpha))
        wins += np.bincount(rng.beta(alpha, beta, size).argmax(axis=1), minlength=len(alpha))
    return wins / draws
