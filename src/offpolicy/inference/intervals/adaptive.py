"""Adaptively collected logs: batches whose logging policy was learned from earlier batches.

Given the past, batch b is a fresh sample with mean score θ, but its variance depends on the past.
With batch means ψ̄_b, within-batch variances s_b² and sizes n_b, a weighted estimate θ̂ = Σ h_b
ψ̄_b / Σ h_b has

    se² = Σ h_b² s_b²/n_b / (Σ h_b)²                                  (a martingale's variance)

Fixed weights h_b = n_b/N give the pooled mean. Where batch variances keep depending on random
early draws, the pooled mean is not asymptotically normal; h_b = n_b/σ̃_b with σ̃_b known *before*
batch b makes every term's variance alike and restores the central limit theorem (Luedtke & van
der Laan 2016; Hadad, Hirshberg, Zhan, Wager & Athey 2021; Bibaut et al. 2021; Zhan et al. 2021). That is about the
value of all batches only if the value is the same in each of them: with a season, Σ h_b θ_b is another number than
Σ n_b θ_b / N. Two tests look for it: the paired difference of the weighted and the pooled mean, and the spread of
the batches' means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.intervals.sample import Floats, Interval, check_level, column, frequencies

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SAME, SPREAD = 0.05, 0.01  # p-values below which batches do not have one value


@dataclass(frozen=True, eq=False)
class Batches:
    """Per-batch sizes, means and variances, in time order.

    Attributes
    ----------
    size, mean, variance : array of shape (B,)
        Units, mean score, and variance within the batch (divisor n_b − 1).
    """

    size: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Combined:
    """A combination of batches.

    Attributes
    ----------
    estimate, std_error : float
        The weighted mean and its standard error.
    weights : array of shape (B,)
        Share of each batch, summing to 1.
    method : str
        How the weights were chosen.
    note : str
        What a reader should know.
    contradiction : str
        Why it is not an estimate of the pooled mean; empty where nothing speaks against that.
    """

    estimate: float
    std_error: float
    weights: Floats
    method: str
    note: str
    contradiction: str = ""

    def interval(self, level: float = 0.95) -> Interval:
        """Normal interval of the combination."""
        half = float(special.ndtri(0.5 + check_level(level) / 2)) * self.std_error
        low, high = self.estimate - half, self.estimate + half
        if self.contradiction:
            why = f"insufficient evidence: {self.contradiction}"
            return Interval(low, high, level, self.method, why, sufficient=False)
        return Interval(low, high, level, self.method, self.note)


def summarize(psi: ArrayLike, batch: ArrayLike, count: ArrayLike | None = None) -> Batches:
    """Summarize scores by batch.

    Parameters
    ----------
    psi : array of shape (n,)
        One score per independent unit.
    batch : array of int of shape (n,)
        Batch codes 0, 1, …, B − 1 in time order; units of a batch need not be adjacent.
    count : array of shape (n,), optional
        Frequencies.

    Examples
    --------
    >>> summarize([1.0, 3.0, 5.0, 5.0], [0, 0, 1, 1]).mean
    array([2., 5.])
    """
    x = column("psi", psi)
    codes = np.asarray(batch)
    if codes.shape != x.shape or codes.dtype.kind not in "iu" or int(codes.min()) < 0:
        raise DataError("batch must have one code 0, 1, … per unit, in time order.")
    c = frequencies(count, len(x))
    size: Floats = np.bincount(codes, weights=c).astype(np.float64)
    if size.min() <= 1:
        b = int(np.argmin(size))
        raise DataError(
            f"batch {b} has {size[b]:g} units; every batch needs at least 2 for a variance. "
            "Merge small batches with their neighbors."
        )
    mean = np.bincount(codes, weights=c * x) / size
    squares = np.bincount(codes, weights=c * (x - mean[codes]) ** 2)
    return Batches(size, mean, squares / (size - 1))


def pooled(batches: Batches) -> Combined:
    """Combine batches by size, h_b = n_b/N, with the martingale variance.

    >>> p = pooled(summarize([1.0, 3.0, 5.0, 5.0], [0, 0, 1, 1]))
    >>> p.estimate, p.std_error
    (3.5, 0.5)
    """
    note = "normal only if the variances of the batches converge; see stabilized weights"
    return _combine(batches, batches.size, "batch-pooled", note)


def stabilized(batches: Batches, scale: ArrayLike | None = None) -> Combined:
    """Combine batches with h_b = n_b/σ̃_b, σ̃_b known before the outcomes of batch b.

    Parameters
    ----------
    batches : Batches
        Output of `summarize`.
    scale : array of shape (B,), optional
        Predictable scale σ̃_b of the scores, up to a common factor, such as √E[w²] from the policies of
        the batch. By default the standard deviation of the previous batch (not below a tenth of that
        of all earlier batches); the first batch then only sets the scale and gets no weight.

    Examples
    --------
    >>> b = summarize([1.0, 3.0, 5.0, 5.5], [0, 0, 1, 1])
    >>> stabilized(b, scale=[2.0, 1.0]).weights.round(3)
    array([0.333, 0.667])
    """
    if scale is None:
        sigma = past_scale(batches)
        note = "weighted by the spread of the previous batch; the first batch only sets the scale"
    else:
        sigma = column("scale", scale, len(batches.size))
        note = "weighted by a scale known before each batch"
        if not sigma.min() > 0:
            raise UsageError("The 'scale' of every batch must be positive.")
    note += "; assumes that the value is the same in every batch, which these data do not contradict"
    made = _combine(batches, batches.size / sigma, "batch-stabilized", note)
    return replace(made, contradiction=_season(batches, made.weights))


def _season(batches: Batches, share: Floats) -> str:
    """What speaks against one value in all batches: the weighted against the pooled mean, and the means' spread."""
    error = batches.variance / batches.size
    away = share - batches.size / batches.size.sum()
    spread = math.sqrt(float(away**2 @ error))
    gap = float(away @ batches.mean)
    z = gap / spread if spread > 0 else 0.0
    seen = error > 0
    common = float(batches.mean[seen] @ (1 / error[seen])) / float((1 / error[seen]).sum())
    excess = float(((batches.mean[seen] - common) ** 2 / error[seen]).sum())
    p = float(special.chdtrc(max(int(seen.sum()) - 1, 1), excess))
    if 2 * float(special.ndtr(-abs(z))) >= SAME and p >= SPREAD:
        return ""
    return (
        "the value is not the same in every batch (weighting them moves the estimate by "
        f"{gap:.3g}, {abs(z):.1f} standard errors; p = {p:.2g} for the spread of their means), so weighting batches "
        "by their spread estimates a different value. Use the default interval or method='batch-pooled'"
    )


def past_scale(batches: Batches) -> Floats:
    """Scale of each batch from earlier batches only; infinite for the first."""
    size, variance = batches.size, batches.variance
    if len(size) < 2:
        raise UsageError("Weights from the past need at least 2 batches.")
    # A batch without any spread must not get infinite weight later: shrink to the longer past.
    past = np.cumsum(size * variance)[:-1] / np.cumsum(size)[:-1]
    previous = np.maximum(variance[:-1], 0.01 * past)
    if not previous.min() > 0:
        raise UsageError("The first batches have no spread; give a predictable 'scale' instead.")
    return np.concatenate([[math.inf], np.sqrt(previous)])


def _combine(batches: Batches, weights: Floats, method: str, note: str) -> Combined:
    share = weights / weights.sum()
    variance = float(share**2 @ (batches.variance / batches.size))
    return Combined(float(share @ batches.mean), math.sqrt(variance), share, method, note)
