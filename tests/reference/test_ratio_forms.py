"""Trials, lifts and batches against their forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.inference.intervals import adaptive
from offpolicy.inference.intervals import wald as power
from offpolicy.inference.intervals import wald as ratio
from offpolicy.inference.intervals.sample import Interval, check_level, column

EPS = float(np.finfo(float).eps)
Z90, Z95 = stats.norm.ppf(0.95), stats.norm.ppf(0.975)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


# -- trials, ratios, batches -------------------------------------------------------------------------------


def test_sizes_of_trials():
    found = power.trial_for_means(0.1, 0.5, 2.0, level=0.9, power=0.7, treatment_share=0.2)
    z = Z90 + stats.norm.ppf(0.7)
    total = z**2 * (0.5 / 0.8 + 2.0 / 0.2) / 0.01
    assert (found.control, found.treatment) == (math.ceil(0.8 * total), math.ceil(0.2 * total))
    assert (found.difference, found.level, found.power) == (0.1, 0.9, 0.7)
    assert found.total == found.control + found.treatment
    z = Z95 + stats.norm.ppf(0.8)
    assert power.trial_for_means(-0.1, 0.5).control == math.ceil(z**2 * (0.5 / 0.5 + 0.5 / 0.5) / 0.01 / 2)
    tiny = power.trial_for_means(100.0, 0.0, treatment_share=0.3)
    assert (tiny.control, tiny.treatment) == (2, 1)


def test_lifts_by_hand():
    pair = ratio.Pair(3.0, 2.0, 0.09, 0.04, 0.02)
    error = math.sqrt(0.09 - 2 * 1.5 * 0.02 + 1.5**2 * 0.04)
    assert (pair.lift, pair.std_error) == pytest.approx((0.5, error / 2))
    half = Z90 * error / 2
    assert ends(ratio.delta(pair, 0.9)) == pytest.approx((0.5 - half, 0.5 + half))
    log = Z90 * error / 2 / 1.5
    assert ends(ratio.log_scale(pair, 0.9)) == pytest.approx((1.5 * math.exp(-log) - 1, 1.5 * math.exp(log) - 1))
    assert ratio.Pair(3.0, -2.0, 0.09, 0.04, 0.02).std_error == pytest.approx(math.sqrt(0.09 + 0.06 + 0.09) / 2)
    ratio.Pair(1.0, 1.0, 1.0, 4.0, 2.0)  # as one
    assert ratio.Pair(1.0, 1.0, 1.0, 1.0, 1.0).std_error == 0.0
    for quantile in (None, 2.5):
        z2 = (Z90 if quantile is None else quantile) ** 2
        found = ratio.fieller(pair, 0.9, quantile)
        roots = np.roots([4 - z2 * 0.04, -2 * (6 - z2 * 0.02), 9 - z2 * 0.09]) - 1
        assert ends(found) == pytest.approx(tuple(sorted(roots)))
    note = "unbounded because the baseline cannot be distinguished from 0 at level 0.9; no lift can be excluded"
    assert ratio.fieller(ratio.Pair(0.1, 0.1, 1.0, 1.0), 0.9).note == note
    edge = ratio.fieller(ratio.Pair(3.0, 2.0, 0.09, 1.0), 0.9, 2.0)  # the baseline is exactly 2 errors from 0
    assert edge.note == note


def test_batches_combined_with_a_known_scale():
    b = adaptive.summarize([1.0, 3.0, 5.0, 9.0, 4.0], [0, 0, 1, 1, 1], [1.0, 2.0, 1.0, 3.0, 1.0])
    assert b.size.tolist() == [3.0, 5.0]
    assert b.mean == pytest.approx([7 / 3, 36 / 5])
    assert b.variance == pytest.approx([np.var([1, 3, 3], ddof=1), np.var([5, 9, 9, 9, 4], ddof=1)])
    found = adaptive.stabilized(b, [2.0, 0.5])
    share = np.array([1.5, 10.0]) / 11.5
    assert found.weights == pytest.approx(share)
    assert found.std_error == pytest.approx(math.sqrt(share**2 @ (b.variance / b.size)))
    assert found.note == (
        "weighted by a scale known before each batch; assumes that the value is the same in every batch, "
        "which these data do not contradict"
    )
    by_past = adaptive.stabilized(adaptive.summarize([0.0, 4.0, 5.0, 6.0, 1.0, 2.0], [0, 0, 1, 1, 2, 2]))
    assert by_past.weights == pytest.approx([0.0, 1 / (1 + 4), 4 / 5])
    assert (by_past.method, adaptive.pooled(b).method) == ("batch-stabilized", "batch-pooled")


def test_errors_keep_their_kinds():
    for kind, call in (
        (NotIdentifiedError, lambda: ratio.Pair(1.0, 0.0, 1.0, 1.0).lift),
        (DataError, lambda: column("x", [])),
        (UsageError, lambda: check_level(2)),
    ):
        with pytest.raises(kind):
            call()
