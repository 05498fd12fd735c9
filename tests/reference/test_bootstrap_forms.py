"""Bootstrap replicates, urns and BCa shares by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forms import said
from scipy import special, stats

from offpolicy.inference.intervals import resample
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.wald import NO_VARIATION

RNG = np.random.default_rng(51)


# -- bootstrap ---------------------------------------------------------------------------------------------


def drawn(sample, number, seed):
    """Replicates of few units, drawn by the rank of their residuals, one replicate after another."""
    c = sample.counts.astype(int)
    order = np.lexsort((sample.denominator, sample.residual))
    units = np.repeat(order, c[order])
    rng = np.random.default_rng(seed)
    places = rng.integers(0, len(units), size=number * len(units)).reshape(number, -1)
    num, den = (x[units][places].sum(axis=1) for x in (sample.numerator, sample.denominator))
    return num / den


def test_replicates_of_few_units():
    for s in (
        Sample.of_mean(RNG.gamma(1.0, size=30)),
        Sample(RNG.gamma(1.0, size=12), RNG.integers(1, 5, 12).astype(float), RNG.integers(1, 4, 12).astype(float)),
    ):
        values = resample.replicates(s, number=40, seed=3)
        expected = drawn(s, 40, 3)
        assert values == pytest.approx(expected)
        found = resample.bootstrap(s, 0.8, number=40, seed=3)
        assert tuple(found) == pytest.approx(tuple(np.quantile(expected, [0.1, 0.9])))
        below = np.mean(expected < s.estimate)
        bias = stats.norm.ppf(below)
        rest = s.counts @ s.denominator - s.denominator
        gap = s.residual / rest
        gap -= s.counts @ gap / s.total
        a = s.counts @ gap**3 / (6 * (s.counts @ gap**2) ** 1.5)
        z = bias + stats.norm.ppf([0.1, 0.9])
        shares = stats.norm.cdf(bias + z / (1 - a * z))
        found = resample.bca(s, 0.8, number=40, seed=3)
        assert tuple(found) == pytest.approx(tuple(np.quantile(expected, shares)))
        assert (found.note, found.sufficient) == ("", True)
        assert resample.acceleration(s) == pytest.approx(a)


def test_chunks_of_draws_change_nothing(monkeypatch):
    s = Sample.of_mean(RNG.gamma(1.0, size=30))
    whole = resample.replicates(s, number=7, seed=3)
    for chunk in (60, 61, 90, 10_000):
        monkeypatch.setattr(resample, "CHUNK", chunk)
        assert resample.replicates(s, number=7, seed=3) == pytest.approx(whole)


def test_bootstraps_of_odd_samples():
    flat = resample.bca(Sample.of_mean([2.0, 2.0, 2.0]))
    assert (flat.low, flat.high, flat.note, flat.sufficient) == (2.0, 2.0, NO_VARIATION, False)
    assert len(resample.replicates(Sample.of_mean([1.0, 2.0]), number=1)) == 1
    lost = Sample(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    values = resample.replicates(lost, number=200)
    none = int(np.isnan(values).sum())
    assert 0 < none < 200
    assert resample.bootstrap(lost, number=200).note == f"{none} of 200 replicates had no weight and were left out"
    assert resample.acceleration(lost) == 0.0
    assert resample.acceleration(Sample.of_mean([1.0, 1.0])) == 0.0
    assert (
        said(lambda: resample.replicates(lost, number=0))
        == "The 'number' of replicates must be at least 1. Got 0 instead."
    )
    assert said(lambda: resample.replicates(Sample.of_mean([1.0, 2.0], [1.5, 1.0]))) == (
        "The bootstrap needs whole counts; they sum to 2.5. Counts are frequencies; put fractional weights into the "
        "numerator and denominator."
    )
    assert [resample._whole(x) for x in (3.0 + 2e-6, 0.0)] == [3, 0]
    one_side = resample._shifted(Sample.of_mean([0.0, 1.0]), np.array([0.6, 0.7]), np.array([0.1, 0.9]))
    assert one_side is None
    s = Sample.of_mean([0.0, 1.0])
    half = resample._shifted(s, np.array([0.5, 0.5, 0.4, 0.6, 0.7]), np.array([0.1, 0.9]))
    bias = special.ndtri(0.2 + 0.5 * 0.4)
    z = bias + special.ndtri([0.1, 0.9])
    assert half == pytest.approx(special.ndtr(bias + z))


def test_the_middle_of_an_urn():
    columns, c = (
        np.column_stack([RNG.gamma(1.0, size=40), RNG.gamma(2.0, size=40)]),
        RNG.integers(1, 4, 40).astype(float),
    )
    middle = resample._moments(columns, c)
    long = np.repeat(columns, c.astype(int), axis=0)
    e, d = long.T
    slope = np.cov(e, d, bias=True)[0, 1] / e.var()
    assert middle.mean == pytest.approx(long.mean(axis=0))
    assert (middle.variance, middle.skewness, middle.slope) == pytest.approx((e.var(), stats.skew(e), slope))
    assert middle.spread == pytest.approx((d - d.mean() - slope * (e - e.mean())).std())
    normals = np.array([[0.5, -1.0], [2.0, 0.3], [-1.0, 0.0]])
    number = np.array([25, 0, 1])
    sums = resample._middle_sums(middle, number, normals)
    for row, k, (z, y) in zip(sums, number, normals, strict=True):
        root = math.sqrt(max(k, 1))
        away = root * math.sqrt(middle.variance) * (z + middle.skewness * (z * z - 1) / (6 * root))
        assert row == pytest.approx(k * middle.mean + [away, slope * away + root * middle.spread * y])
    flat = resample._moments(np.column_stack([np.ones(4), np.arange(4.0)]), np.ones(4))
    assert (flat.variance, flat.skewness, flat.slope, flat.spread) == pytest.approx((0.0, 0.0, 0.0, math.sqrt(1.25)))


def test_units_at_either_end_of_counted_rows():
    n = resample.ONE_BY_ONE
    few, many = Sample.of_mean(np.arange(float(n))), Sample.of_mean(np.arange(n + 1.0))
    assert resample._urn(few).middle is None
    assert len(resample._urn(few).units) == n
    urn = resample._urn(many)
    assert (len(urn.units), urn.total) == (2 * resample.TAIL, n + 1)
    x, c = np.array([3.0, 1.0, 2.0]), np.array([3000.0, 1000.0, 6000.0])
    counted = resample._urn(Sample.of_mean(x, c))
    e = np.array([3.0, 1.0, 2.0]) - (c @ x) / c.sum()
    assert counted.units[:, 0] == pytest.approx(np.repeat([e[1], e[2], e[0]], [1000, 1048, 2048]))
    left = np.array([952.0, 0.0, 4952.0])
    assert counted.middle.mean[0] == pytest.approx(left @ e / left.sum())
    rows, taken = resample._first_units(np.array([1, 0, 2]), np.array([2.0, 1.0, 4.0]), 4)
    assert (rows.tolist(), taken.tolist()) == ([1, 0, 0, 2], [2.0, 1.0, 1.0])
    keys = RNG.permutation(5000).astype(float)
    lowest = resample._lowest(keys, np.ones(5000))
    assert keys[lowest].tolist() == list(range(resample.TAIL))
    assert len(resample._lowest(keys, np.full(5000, 0.5))) == 5000
    assert len(resample._lowest(keys[:2048], np.ones(2048))) == 2048


def test_equal_residuals_are_ordered_by_size():
    columns = np.array([[1.0 + 1e-13, 5.0], [1.0, 7.0], [1.0, 6.0], [-3.0, 9.0]])
    assert resample._ranked(columns).tolist() == [3, 0, 2, 1]
