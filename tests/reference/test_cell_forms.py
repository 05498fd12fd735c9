"""Cells, bins and condensed samples: by plain loops and at their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offpolicy.inference import condense
from offpolicy.inference.intervals import cells, resample
from offpolicy.inference.intervals import cells as quadrature
from offpolicy.inference.intervals.cells import Scale, Table
from offpolicy.inference.intervals.evidence import Evidence
from offpolicy.inference.intervals.sample import Sample

RNG = np.random.default_rng(51)


# -- cells -------------------------------------------------------------------------------------------------


def test_bins_and_blocks():
    z = np.array([-3.0, -0.5, 0.0, 0.7, 100.0])
    expected = [min(int((v / 2 / (1 + abs(v / 2)) + 1) * 50), 99) for v in z]
    assert quadrature.bins(z, 2.0, 100).tolist() == expected
    assert quadrature.bins(z, 0.0, 100).tolist() == quadrature.bins(z, 1.0, 100).tolist()
    assert [(s.start, s.stop) for s in quadrature.blocks(32_769)] == [(0, 32768), (32768, 65536)]
    assert len(list(quadrature.blocks(32_768))) == 1


def test_sums_of_cells_by_loops():
    cell, c = np.array([0, 1, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    a, b = RNG.normal(size=5), RNG.normal(size=5)
    s = quadrature.CellSums.of(cell, 2, a, b, c)
    for k in range(2):
        x, y, m = a[cell == k] - s.origin_a[k], b[cell == k] - s.origin_b[k], c[cell == k]
        assert s.origin_a[k] == a[cell == k][-1]
        for name in ("n", "a", "b", "aa", "ab", "bb", "aaa", "aab", "abb", "bbb"):
            powers = (name.count("a"), name.count("b")) if name != "n" else (0, 0)
            assert getattr(s, name)[k] == pytest.approx(m @ (x ** powers[0] * y ** powers[1]))


def test_two_points_of_given_moments():
    for variance, third in ((2.0, 3.0), (2.0, -3.0), (0.5, 0.0)):
        low, high, share = (float(x[0]) for x in quadrature.two_points(np.array([variance]), np.array([third])))
        for power, moment in ((1, 0.0), (2, variance), (3, third)):
            assert share * low**power + (1 - share) * high**power == pytest.approx(moment, abs=1e-12)
    flat = [float(x[0]) for x in quadrature.two_points(np.array([-1e-20]), np.array([1.0]))]
    assert flat[2] == 1.0
    assert flat[:2] == pytest.approx([0.0, 0.0])


def test_points_of_a_table_have_its_sums():
    n = 30_000
    a, x = RNG.gamma(3.0, size=n), RNG.normal(1.0, 2.0, size=n)
    a[:200], x[200:500] = 0.0, 0.25
    table = Table(a, x, RNG.integers(1, 3, n).astype(float))
    few = cells.pointed(table, Scale(1.0, 2.0, 0.25))
    assert len(few.a) < n
    for f in (
        lambda t: 1.0 + 0 * t.a, lambda t: t.a, lambda t: t.a * t.x, lambda t: t.a**2, lambda t: (t.a * t.x) ** 2,
        lambda t: t.a**2 * t.x, lambda t: t.a**3,
    ):  # fmt: skip
        assert few.count @ f(few) == pytest.approx(table.count @ f(table), rel=1e-6)
    assert few.count[few.a == 0].sum() == pytest.approx(table.count[a == 0].sum())
    for side in (-1, 0, 1):
        assert few.count[np.sign(few.x - 0.25) == side].sum() == pytest.approx(
            table.count[np.sign(x - 0.25) == side].sum()
        )
    assert few.x.min() >= x.min() - 1e-9
    assert (few.a * (few.x - 1)).max() <= (a * (x - 1)).max() * (1 + 1e-9)
    merged = Table(np.array([1.0, 2.0, 1.0, 1.0]), np.array([3.0, 3.0, 3.0, 4.0]), np.arange(4.0) + 1).merged()
    assert (merged.a.tolist(), merged.x.tolist(), merged.count.tolist()) == ([1, 1, 2], [3, 4, 3], [4.0, 4.0, 2.0])


def test_many_cells_are_numbered_by_sorting(monkeypatch):
    table = Table(RNG.gamma(3.0, size=4000), RNG.normal(size=4000), np.ones(4000))
    made = cells.pointed(table, Scale(0.0, 1.0))
    monkeypatch.setattr(cells, "DENSE", 10)
    other = cells.pointed(table, Scale(0.0, 1.0))
    assert np.sort(other.x) == pytest.approx(np.sort(made.x))
    inside = cells._within(np.array([0.0, 1.0, 1 + 1.5e-9, 1 + 0.9e-9, -0.9e-9, -1.5e-9]), 0.0, 1.0)
    assert inside.tolist() == [True, True, False, True, True, False]


def test_the_smallest_keys():
    for key in (
        RNG.normal(size=5000),
        RNG.integers(0, 9, 5000).astype(float),
        np.zeros(300),
        np.append(np.zeros(99), 1.0),
    ):
        for number in (1, 7, 60, len(key) - 1, len(key), len(key) + 5):
            rows = condense._smallest(key, number)
            assert len(rows) == len(set(rows.tolist())) == min(number, len(key))
            assert np.sort(key[rows]).tolist() == np.sort(key)[:number].tolist()
    assert sorted(condense._smallest(np.zeros(300), 7)) == list(range(7))  # of equal keys the first
    clustered = np.concatenate([np.full(4000, 5.0), np.arange(100.0) / 100])
    assert np.sort(clustered[condense._smallest(clustered, 50)]).tolist() == (np.arange(50) / 100).tolist()


def test_what_a_condensed_sample_keeps():
    n = 9000
    s = Sample.of_mean(RNG.gamma(0.5, size=n))
    few = condense.condense(s, 10)
    assert len(few.numerator) < n
    number = max(math.ceil(3 * math.sqrt(n)), resample.TAIL) + condense.MARGIN
    ends = np.sort(s.numerator)
    kept = np.sort(few.numerator)
    assert kept[:number] == pytest.approx(ends[:number])
    assert kept[-number:] == pytest.approx(ends[-number:])
    assert (few.estimate, few.std_error, few.total) == pytest.approx((s.estimate, s.std_error, n))
    assert condense.condense(s, n) is s
    assert condense.condense(Sample.of_mean(s.numerator[:8192]), 10).numerator is not few.numerator
    assert len(condense.condense(Sample.of_mean(s.numerator[:8192]), 10).numerator) == 8192
    w, r = RNG.gamma(1.0, size=n), RNG.normal(size=n)
    e = Evidence(w, r)
    small = condense.condense_evidence(e, 10)
    assert small.units == pytest.approx(n)
    assert small.count @ (small.weights * small.rewards) == pytest.approx(w @ r)
    assert (small.rewards.min(), small.rewards.max(), small.weights.max()) == (r.min(), r.max(), w.max())
    assert condense.condense_evidence(e, n) is e
    assert condense.condense_evidence(Evidence(w), 10).rewards is None
    assert condense.condense_evidence(Evidence(rewards=r), 10).weights is None
