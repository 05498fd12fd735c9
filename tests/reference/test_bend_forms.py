"""Breaks, reaches of targets and columns in files: by plain loops and at their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.columns.store import Columns, _File
from offpolicy.inference import bend, reach
from offpolicy.inference.score_table import Units

RNG = np.random.default_rng(51)


# -- breaks ------------------------------------------------------------------------------------------------


def test_coefficients_of_a_break_by_least_squares():
    u, y, m = RNG.uniform(-1, 1, 200), RNG.normal(size=200), RNG.integers(1, 3, 200).astype(float)
    for kind, broken in (("corner", np.abs(u)), ("jump", np.sign(u))):
        for cluster in (None, np.arange(200) // 4):
            part = bend._Part(u, y, m, cluster)
            found, covariance = part.fit(3, kind)
            X = np.column_stack([np.polynomial.legendre.legvander(u, 3), broken])
            root = np.sqrt(m)[:, None]
            expected = np.linalg.lstsq(X * root, y * root[:, 0], rcond=None)[0]
            assert found == pytest.approx(expected)
            inverse = np.linalg.inv(X.T @ (m[:, None] * X))
            hat = np.array([m[i] * X[i] @ inverse @ X[i] for i in range(200)])
            score = X * (m * (y - X @ expected) / np.sqrt(1 - hat))[:, None]
            if cluster is not None:
                score = np.array([score[cluster == g].sum(axis=0) for g in range(50)])
            assert covariance == pytest.approx(inverse @ (score.T @ score) @ inverse)
            assert bend._z(found, covariance) == pytest.approx(found[-1] / math.sqrt(covariance[-1, -1]))
    assert bend._z(np.ones(2), np.zeros((2, 2))) == 0.0


def test_rows_inside_a_window():
    apart = np.concatenate([-np.arange(1, 51) / 10, np.arange(1, 52) / 10])
    ones = np.ones(101)
    part = bend._Part.of(apart, ones, ones, np.arange(101) * 7, 5.0)
    assert (len(part.u), part.u.max(), part.u.min()) == (100, 1.0, -1.0)
    assert part.cluster.tolist() == list(range(100))
    assert bend._Part.of(apart, ones, ones, None, 4.9) is None  # 49 on either side are too few
    assert bend._Part.of(apart, ones, np.where(apart == -1.0, 0.0, 1.0), None, 5.0) is None
    assert bend.width_of(np.linspace(2.0, 11.0, 1001)) == pytest.approx(9.0)


@pytest.mark.parametrize(("kind", "shape", "size"), [("corner", np.abs, 2.0), ("jump", np.sign, 2.0)])
def test_breaks_and_their_sizes(kind, shape, size):
    u, rng = np.linspace(-3, 3, 6001), np.random.default_rng(6)
    y = 0.3 * u + shape(u) + 0.2 * rng.normal(size=6001)
    found = bend.bend(u, y, np.ones(6001), None, 6.0)
    assert (found.kind, found.size) == (kind, pytest.approx(size, rel=0.15))
    assert found.z > 4
    assert bend.bend(u, -y, np.ones(6001), None, 6.0).size == pytest.approx(-found.size)
    smooth = bend.bend(u, np.sin(u) + 0.3 * rng.normal(size=6001), np.ones(6001), None, 6.0)
    assert smooth == bend.Bend("none", 0.0, 0.0)
    assert bend.bend(u[:60], y[:60], np.ones(60), None, 6.0) is None
    assert bend.agreed([found, None]) is None
    assert bend.agreed([bend.Bend(), found]) == bend.Bend()
    assert bend.agreed([bend.Bend(kind, 1.0, 5.0), found]) is found


# -- where a target puts its mass --------------------------------------------------------------------------


def test_reaches_add_up():
    one = reach.Reach(2.0, np.array([1.0, 1.0]), np.array([0.5, 0.5]), True, 0.5, 3.0, 0.25)
    two = reach.Reach(3.0, np.array([0.0, 3.0]), np.array([0.0, 3.0]), True, 0.25, 2.0, 1.0)
    both = one + two
    assert (both.total, both.mass.tolist(), both.square.tolist(), both.chooses) == (5.0, [1.0, 4.0], [0.5, 3.5], True)
    assert (both.forbidden, both.largest, both.cut) == (0.75, 3.0, 1.25)
    assert (both.forbidden_share, both.cut_share, both.share.tolist()) == (0.15, 0.25, [0.2, 0.8])
    unknown = one + reach.Reach(1.0, np.zeros(2), np.zeros(2), False)
    assert (unknown.forbidden, unknown.largest, unknown.forbidden_share, unknown.chooses) == (None, None, None, False)
    m, s = reach.masses(Units(2, count=np.array([3.0, 1.0]), weight=np.array([2.0, 0.5])))
    assert (m.tolist(), s.tolist()) == ([6.0, 0.5], [12.0, 0.25])
    plain = reach.masses(Units(2))
    assert [x.tolist() for x in plain] == [[1.0, 1.0], [1.0, 1.0]]


def test_the_largest_weight_that_can_occur():
    log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], [1.0, 0, 0, 1], [0.5, 0.2, 0.2 + 5e-10, 0.5], actions=range(3))
    assert reach.constant_propensities(log) == pytest.approx([0.5, 0.2, math.nan], nan_ok=True)

    def largest(mass, **known):
        return reach.largest_weight(log, reach.Reach(4.0, np.array(mass), np.zeros(3), **known))

    assert largest([4.0, 0, 0], chooses=True) == 2.0
    assert largest([2.0, 2.0, 0], chooses=True) == pytest.approx(5.0)
    assert largest([2.0, 2.0, 0], chooses=False) is None
    assert largest([2.0, 0, 2.0], chooses=True) is None
    assert largest([4.0, 0, 0], chooses=False, forbidden=0.0, largest=7.0) == 7.0
    assert largest([4.0, 0, 0], chooses=False, forbidden=0.0, largest=0.5) == 1.0
    assert largest([4.0, 0, 0], chooses=True, forbidden=0.1, largest=7.0) is None


# -- columns -----------------------------------------------------------------------------------------------


def test_columns_beyond_a_limit_are_files():
    c = Columns(limit=16)
    assert c.blocks == 0
    c.put("a", 0, np.arange(2.0))
    c.put("b", 0, np.arange(3.0))
    c.put("b", 1, np.arange(1.0))
    held = c._shelf.parts

    def in_file(name, block):
        return isinstance(held[(name,)][block], _File)

    assert [in_file(*each) for each in (("a", 0), ("b", 0), ("b", 1))] == [False, True, True]
    c.put("none", 0, np.empty(0))
    assert not in_file("none", 0)
    assert (c["b"].tolist(), c.block("b", 1).tolist(), c.blocks) == ([0.0, 1.0, 2.0, 0.0], [0.0], 2)
    assert (c.has("b", 1), c.has("b", 2), c.has("x", 0), c.get("x"), "a" in c) == (True, False, False, None, True)
    c.alias("c", "a")
    assert c._shelf.held == 16
    c.drop(lambda name: name in {"a", "c"})
    c.put("d", 0, np.arange(2.0))
    assert not in_file("d", 0)
    other = c.under(lambda name: (name, "other"))
    other.put("d", 0, np.arange(2.0))
    assert (list(other), other["d"].tolist(), c._shelf.held) == (["d"], [0.0, 1.0], 16)
    assert isinstance(held["d", "other"][0], _File), "views share one limit"
    other.drop(lambda name: True)
    assert (list(other), "d" in c) == ([], True)
    made = []
    for _ in range(2):
        assert c.keep("k", 0, lambda: made.append(1) or np.ones(1)).tolist() == [1.0]
    assert made == [1]
