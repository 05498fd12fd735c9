"""Cut weights, smoothing, and bounds on hidden causes, by plain loops."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from offpolicy.inference.bend import Bend
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.units import Units
from offpolicy.scores.catalog import named
from offpolicy.trust import clipping, confounding, smoothing
from offpolicy.trust.thresholds import THRESHOLDS

sys.path.insert(0, str(Path(__file__).parent))

from trust_logs import drawn
from trust_views import view_of

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)


def weighted(w, reward, **options):
    n = len(w)
    return view_of(
        np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, reward, ratio=w, **options
    )


def quantile(values, share):
    """Smallest value at or below which the share lies."""
    ordered = np.sort(values)
    return ordered[max(math.ceil((share - 1e-12) * len(ordered)) - 1, 0)]


@pytest.mark.parametrize("model", [False, True])
def test_the_curve_of_cut_weights_by_a_loop(model):
    rng = np.random.default_rng(6)
    n = 1600
    w = np.where(np.arange(n) % 4 == 0, 0.0, rng.lognormal(sigma=1.0, size=n))
    r = rng.normal(size=n) + w
    q, v = 0.5 + 0.1 * r, rng.normal(size=n)
    view = weighted(w, r, **({"q": q, "v": v} if model else {}))

    def estimate(cap):
        cut = np.minimum(w, cap)
        if model:
            psi = cut * (r - q) + v
        else:
            level = (cut * r).sum() / cut.sum()
            psi = level + cut * (r - level) / cut.mean()
        return psi.mean(), psi.std() / math.sqrt(n)

    found = clipping.finding(view)
    caps = [quantile(w[w > 0], s) for s in SHARES]
    assert [row["cap"] for row in found.details["curve"]] == pytest.approx(caps)
    for row, cap in zip(found.details["curve"], caps, strict=True):
        value, error = estimate(cap)
        assert row["value"] == pytest.approx(value)
        assert row["std_error"] == pytest.approx(error)
        assert row["clipped"] == pytest.approx((w > cap).mean())
    whole, error = estimate(math.inf)
    moved = abs(estimate(caps[7])[0] - whole) / error
    assert found.details["unclipped"] == pytest.approx(whole)
    assert found.value == pytest.approx(moved)
    assert found.level == ("note" if moved > 1 else "ok")
    assert found.sentence == (
        f"cutting the largest 1% of the positive weights moves the estimate by {moved:.2g} of its standard errors."
    )
    marked = [c.is_reference for c in clipping.clipping_curve(view)]
    assert marked == [s == 0.99 for s in SHARES]


def test_a_cut_estimate_borrows_its_interval():
    w = np.tile([0.5, 1.0, 1.5, 4.0], 30)
    r = np.arange(120.0) % 7
    view = weighted(w, r)
    whole = clipping.clipped(view, math.inf)
    assert (whole.clipped, whole.estimate.bias, whole.is_reference) == (0.0, "", False)
    cut = clipping.clipped(view, 1.0, is_reference=True, whole=whole.estimate)
    assert (cut.clipped, cut.is_reference, cut.cap) == (0.5, True, 1.0)
    assert cut.estimate.bias == "its standard error leaves out the bias of cutting weights"
    assert cut.estimate.reference is whole.estimate
    top = clipping.clipped(view, 4.0, whole=whole.estimate)
    assert (top.clipped, top.estimate.bias, top.estimate.reference) == (0.0, "", None)
    # A cap that is a weight but for rounding cuts none of them.
    assert clipping.clipped(view, 4.0 * (1 - 1e-10)).clipped == 0.0
    assert clipping.clipped(view, 4.0 * (1 - 1e-8)).clipped == 0.25
    caps = [c.cap for c in clipping.clipping_curve(view)]
    assert caps == [1.0, 1.5, 4.0]  # equal caps come once


def test_no_weights_to_cut():
    none = weighted(np.zeros(30), np.arange(30.0))
    assert clipping.finding(none).sentence == "there are no weights to clip."
    assert list(clipping.clipping_curve(none)) == []
    same = clipping.finding(weighted(np.ones(30), np.full(30, 2.0)))
    assert (same.value, same.level) == (0.0, "ok")
    huge = weighted(np.r_[np.exp(701.0), np.ones(29)], np.arange(30.0))
    assert clipping.why_not(huge) == "there are no weights to clip."
    assert clipping.why_not(weighted(np.r_[np.exp(699.0), np.ones(29)], np.arange(30.0))) == ""


# -- smoothing -------------------------------------------------------------------------------------------------------

UNITS = Units(200)
BASE = np.random.default_rng(2).normal(size=200)


def smoothed(shift, noise=0.05):
    rng = np.random.default_rng(3)
    fine = Estimate.from_scores(BASE - shift + noise * rng.normal(size=200), units=UNITS)
    return replace(Estimate.from_scores(BASE, units=UNITS), finer=fine, extrapolation=4 / 3)


@pytest.mark.parametrize("shift", [0.0, 0.12, -0.4])
def test_the_bias_of_a_window(shift):
    e = smoothed(shift)
    found = smoothing.finding({"SNDR": e, "IPW": e}, [named("IPW"), named("SNDR")])
    bias = 4 / 3 * (e.value - e.finer.value)
    error = 4 / 3 * (e.psi[0] - e.finer.psi[0]).std() / math.sqrt(200)
    z, size = bias / error, abs(bias) / (BASE.std() / math.sqrt(200))
    assert found.details == {
        "z": pytest.approx(z),
        "bias": pytest.approx(bias),
        "error": pytest.approx(error),
    }
    if abs(z) > 3.3:
        assert shift != 0
        assert found.value == pytest.approx(size)
        assert found.sentence == (
            f"halving the bandwidth moves SNDR by {abs(z):.2g} standard errors of the difference: a bias of "
            f"{bias:+.3g}, {size:.2g} standard errors of the estimate, for which its intervals allow."
        )
    else:
        assert shift == 0
        assert found.value == 0.0
        assert (
            found.sentence
            == f"halving the bandwidth moves SNDR by no more than noise (z = {z:.2g})."
        )


def test_where_nothing_is_smoothed():
    plain = Estimate.from_scores(BASE, units=UNITS)
    assert smoothing.finding({"IPW": plain}, [named("IPW")]) is None
    assert smoothing.finding({}, [named("IPW")]) is None
    still = replace(plain, finer=plain)
    assert smoothing.finding({"IPW": still}, [named("IPW")]).sentence == (
        "the scores do not vary with the bandwidth."
    )
    constant = replace(Estimate.from_scores(np.ones(200), units=UNITS), finer=plain)
    assert not smoothing.finding({"IPW": constant}, [named("IPW")]).ran
    lost = replace(Estimate.from_scores(np.full(200, np.nan), units=UNITS), finer=plain)
    assert smoothing.finding({"IPW": lost}, [named("IPW")]) is None


@pytest.mark.parametrize("value_split", [None, "crossfit"])
def test_breaks_where_a_policy_sits(value_split):
    asked = []

    def says(found):
        def bend(target, probe):
            asked.append(probe.needs)
            return found

        view = SimpleNamespace(
            value_split=value_split,
            split="crossfit",
            target=None,
            problem=SimpleNamespace(bend=bend),
        )
        return smoothing.break_finding(view)

    assert says(None).sentence == "too few rows lie on both sides of the policy's number to tell."
    assert asked[0] == ({"behavior"} if value_split is None else {"value", "behavior"})
    none = says(Bend())
    assert (none.value, none.level) == (0.0, "ok")
    assert (
        none.sentence == "no sign of a corner or a jump of the mean reward at the policy's number."
    )
    assert none.details == {"kind": "none", "size": 0.0}
    corner = says(Bend("corner", -0.75, -5.25))
    assert (corner.value, corner.level) == (5.25, "caution")
    assert corner.sentence == (
        "the slope of the mean reward changes by -0.75 at the policy's number: the bias shrinks with the window only "
        "as fast as the window, which intervals allow for in part (z = -5.2)."
    )
    jump = says(Bend("jump", 0.5, 4.5))
    assert (jump.value, jump.level, jump.decides) == (4.5, "alarm", True)
    assert jump.sentence == (
        "the mean reward jumps by +0.5 at the policy's number: a window around it averages both sides, and intervals "
        "do not allow for a bias of 0.25 (z = 4.5)."
    )
    assert jump.remedy == THRESHOLDS["break_at_policy"].remedy


# -- hidden causes -----------------------------------------------------------------------------------------------------


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
    h = np.array(
        [c + (gamma if x > c else 1 / gamma) * (x - c) for x, c in zip(r, cut, strict=True)]
    )
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
    found = confounding.finding(view)
    bounds = confounding.Sensitivity.of(view)
    gamma = found.value
    assert bounds.difference(gamma / 1.01)[0] > 0 >= bounds.difference(gamma)[0]
    assert found.sentence == (
        f"an unobserved cause that changes the odds of the logged action by a factor {gamma:.3g} could explain the "
        "whole difference to the logged value."
    )
    assert [row["gamma"] for row in found.details["curve"]] == [1.0, 1.1, 1.25, 1.5, 2.0, 3.0]
    for row in found.details["curve"]:
        g = row["gamma"]
        assert (row["low"], row["high"]) == (bounds.bound(1 / g).value, bounds.bound(g).value)
        assert (row["interval_low"], row["interval_high"]) == bounds.ends(g)
    worse = confounding.finding(view_of(pi, np.full(n, 0.5), a, 1 - r, known=False))
    assert worse.value == pytest.approx(gamma, rel=0.02)
    even = confounding.finding(view_of(np.full((n, 2), 0.5), np.full(n, 0.5), a, r, known=False))
    assert (math.isnan(even.value), even.level) == (True, "ok")
    assert even.sentence == (
        "the difference to the logged value may be 0 as it is: a hidden cause has nothing to explain."
    )
    assert even.details["curve"]
    never = view_of(
        pi, np.full(n, 0.5), a, a * 1.0 + 50.0 * (a == 1) + 0.01 * rng.normal(size=n), known=False
    )
    assert confounding.finding(never).value > 3


def test_a_difference_that_nothing_explains():
    a = np.arange(2000) % 2
    pi = np.zeros((2000, 2))
    pi[:, 1] = 1.0
    r = np.where(a == 1, 30.0, 0.0) + np.random.default_rng(0).normal(size=2000)
    found = confounding.finding(view_of(pi, np.where(a == 1, 0.97, 0.03), a, r, known=False))
    assert found.level == "ok"
    assert (found.value == math.inf) == ("more than 20" in found.sentence)


def test_where_bounds_say_nothing():
    pi = np.full((40, 2), 0.5)
    a = np.arange(40) % 2
    logged = confounding.finding(view_of(pi, np.full(40, 0.5), a, np.arange(40.0)))
    assert (
        logged.sentence
        == "propensities were logged, so nothing unobserved can have decided the action."
    )
    none = confounding.finding(
        view_of(pi, np.full(40, 0.5), a, np.arange(40.0), known=False, ratio=np.zeros(40))
    )
    assert none.sentence == "there is no overlap."
    thin = view_of(pi, np.full(40, 0.5), a, np.r_[1.0, np.zeros(39)], known=False)
    assert confounding.breaking_point(confounding.Sensitivity.of(thin)) == 1.0
    low, high = confounding.Sensitivity.of(thin).ends(2.0)
    assert low <= high
