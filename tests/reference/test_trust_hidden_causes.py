"""Bounds on what hidden causes may do, by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trust_logs import drawn
from trust_views import checked, view_of

from offpolicy.trust import confounding


def quantile(values, share):
    """Smallest value at or below which the share lies."""
    ordered = np.sort(values)
    return ordered[max(math.ceil((share - 1e-12) * len(ordered)) - 1, 0)]


@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 1.5, 1 / 1.5, 4.0])
def test_bounds_by_a_loop(model, binary, gamma):
    d = drawn(12, 150)
    r = np.where(d["r"] > 0.3, 2.0, -1.0) if binary else d["r"]
    q = (0.5 + 0.4 * d["x"] if binary else 0.3 * d["a"] + 0.2 * d["x"]).round(6)
    v = 0.2 * d["x"]
    pi = np.full((150, 3), [0.2, 0.3, 0.5])
    options = {"q": q, "v": v} if model else {}
    view = view_of(pi, d["p"], d["a"], r, known=False, **options)
    e, pe = d["p"], pi[np.arange(150), d["a"]]
    level = gamma / (1 + gamma)
    if binary:
        center = q if model else np.full(150, r.mean())
        cut = np.where((center + 1.0) / 3.0 > 1 - level, 2.0, -1.0)
    else:
        center = q if model else np.zeros(150)
        cut = center + quantile(r - center, level)
    h = np.array([c + (gamma if x > c else 1 / gamma) * (x - c) for x, c in zip(r, cut, strict=True)])
    psi = pe * (r + (1 / e - 1) * h)
    w = pe / e
    if model:
        mass = pe * (1 / e - 1)
        slope, height = np.polyfit(q, h, 1, w=np.sqrt(mass))
        expected = (psi + slope * (v - w * q) + height * (1 - w)).mean()
    else:
        expected = psi.mean() / w.mean()
    bounds = confounding.Sensitivity.of(view)
    assert bounds.bound(gamma).value == pytest.approx(expected)
    assert bounds.gap(gamma).value == pytest.approx(expected - r.mean())


def test_straight_lines():
    x, y, m = np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.0, 5.0]), np.array([1.0, 2.0, 0.5])
    slope, level = np.polyfit(x, y, 1, w=np.sqrt(m))
    assert confounding.line(x, y, m) == pytest.approx((slope, level))
    assert confounding.line(np.full(3, 0.1), y, m) == (0.0, pytest.approx(m @ y / m.sum()))
    assert confounding.line(x, y, np.zeros(3)) == (1.0, 0.0)
    assert confounding.line(x * 1e-9, y, m) == pytest.approx((slope * 1e9, level))


def test_how_wrong_propensities_would_have_to_be():
    n = 4000
    rng = np.random.default_rng(1)
    a = np.arange(n) % 2
    r = (rng.random(n) < np.where(a == 1, 0.6, 0.2)) * 1.0
    pi = np.zeros((n, 2))
    pi[:, 1] = 1.0
    view = view_of(pi, np.full(n, 0.5), a, r, known=False)
    found = checked("confounding", view)
    bounds = confounding.Sensitivity.of(view)
    gamma = found.value
    assert bounds.difference(gamma / 1.01)[0] > 0 >= bounds.difference(gamma)[0]
    assert found.sentence == (
        f"an unobserved cause that changes the odds of the logged action by a factor {gamma:.3g} "
        "could explain the whole difference from the logged value."
    )
    assert [row["gamma"] for row in found.details["curve"]] == [1.0, 1.1, 1.25, 1.5, 2.0, 3.0]
    for row in found.details["curve"]:
        g = row["gamma"]
        assert (row["low"], row["high"]) == (bounds.bound(1 / g).value, bounds.bound(g).value)
        assert (row["interval_low"], row["interval_high"]) == bounds.ends(g)
    worse = checked("confounding", view_of(pi, np.full(n, 0.5), a, 1 - r, known=False))
    assert worse.value == pytest.approx(gamma, rel=0.02)
    even = checked("confounding", view_of(np.full((n, 2), 0.5), np.full(n, 0.5), a, r, known=False))
    assert (math.isnan(even.value), even.level) == (True, "ok")
    assert even.sentence == (
        "the difference from the logged value may be 0 anyway, so a hidden cause has nothing to explain."
    )
    assert even.details["curve"]
    never = view_of(pi, np.full(n, 0.5), a, a * 1.0 + 50.0 * (a == 1) + 0.01 * rng.normal(size=n), known=False)
    assert checked("confounding", never).value > 3


def test_a_difference_that_nothing_explains():
    a = np.arange(2000) % 2
    pi = np.zeros((2000, 2))
    pi[:, 1] = 1.0
    r = np.where(a == 1, 30.0, 0.0) + np.random.default_rng(0).normal(size=2000)
    found = checked("confounding", view_of(pi, np.where(a == 1, 0.97, 0.03), a, r, known=False))
    assert found.level == "ok"
    assert (found.value == math.inf) == ("more than 20" in found.sentence)


def test_where_bounds_say_nothing():
    pi = np.full((40, 2), 0.5)
    a = np.arange(40) % 2
    logged = checked("confounding", view_of(pi, np.full(40, 0.5), a, np.arange(40.0)))
    assert logged.sentence == "propensities were logged, so no unobserved cause can have decided the action."
    none = checked("confounding", view_of(pi, np.full(40, 0.5), a, np.arange(40.0), known=False, ratio=np.zeros(40)))
    assert none.sentence == "there is no overlap."
    thin = view_of(pi, np.full(40, 0.5), a, np.r_[1.0, np.zeros(39)], known=False)
    assert confounding.breaking_point(confounding.Sensitivity.of(thin)) == 1.0
    low, high = confounding.Sensitivity.of(thin).ends(2.0)
    assert low <= high
