"""Two estimators on the same data sets: does one have the smaller squared error?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata, ttest_1samp, wilcoxon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy_studies.arrays import Floats


def compare(first: Floats, second: Floats) -> dict[str, float]:
    """Test the errors of two estimators on the same data sets against each other.

    Returns
    -------
    dict
        ``difference`` of the mean squared errors (positive: the second is better), its two-sided
        ``p_value`` by the paired t-test, and ``signed_rank``, the p-value of Wilcoxon's test on the
        differences, which one wild data set cannot decide; 1 where the errors are the same. ``ranks`` is
        positive where that test favors the second, between −1 and 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> got = compare(2 * rng.normal(size=200), rng.normal(size=200))
    >>> got["difference"] > 0, got["p_value"] < 0.01, got["signed_rank"] < 0.01
    (True, True, True)
    >>> compare(np.ones(3), -np.ones(3))["p_value"]
    1.0
    """
    return _tests(_gap(first, second))


def compare_groups(first: Floats, second: Floats, groups: Sequence[Any]) -> dict[str, float]:
    """Test two estimators as `compare` does, on the means over groups of data sets that are not independent.

    Examples
    --------
    >>> one = compare(np.array([2.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0]))
    >>> two = compare_groups(np.array([2.0, 2.0, 1.0, 3.0]), np.ones(4), ["a", "a", "b", "c"])
    >>> one == two
    True
    """
    gap = _gap(first, second)
    _, at = np.unique([str(group) for group in groups], return_inverse=True)
    return _tests(np.bincount(at, gap) / np.bincount(at))


def parts(first: Floats, second: Floats) -> dict[str, float]:
    """Split the difference of two mean squared errors into what biases and what variances contribute.

    >>> parts(np.array([1.0, 3.0]), np.array([-2.0, 2.0]))
    {'bias': 4.0, 'variance': -3.0}
    """
    one, two = (np.asarray(error, dtype=float) for error in (first, second))
    return {"bias": float(one.mean() ** 2 - two.mean() ** 2), "variance": float(one.var() - two.var())}


def _gap(first: Floats, second: Floats) -> Floats:
    gap: Floats = np.asarray(first, dtype=float) ** 2 - np.asarray(second, dtype=float) ** 2
    return gap


def _tests(gap: Floats) -> dict[str, float]:
    if len(gap) < 2 or np.allclose(gap, gap[0], rtol=1e-12, atol=0):
        return {"difference": float(gap.mean()), "p_value": 1.0, "signed_rank": 1.0, "ranks": 0.0}
    ranks = rankdata(np.abs(gap))
    return {
        "difference": float(gap.mean()),
        "p_value": float(ttest_1samp(gap, 0.0).pvalue),
        "signed_rank": float(wilcoxon(gap).pvalue),
        "ranks": float(np.sign(gap) @ ranks / ranks.sum()),
    }


def shift(first: Floats, second: Floats) -> list[float]:
    """Return the mean difference of two estimators' errors and its standard error.

    Of DR-full and DML this is what in-sample fits add to the bias.

    >>> shift(np.array([1.0, 3.0]), np.array([0.0, 0.0]))
    [2.0, 1.0]
    """
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    n = len(difference)
    spread = float(difference.std(ddof=1)) / np.sqrt(n) if n > 1 else float("nan")
    return [float(difference.mean()), float(spread)]
