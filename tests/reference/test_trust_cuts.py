"""Cut weights and smoothing, by plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from trust_views import checked, smoothed, view_of

from offpolicy.inference.bend import Bend
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.score_table import Units
from offpolicy.scores.catalog import named
from offpolicy.trust import ratios, stability
from offpolicy.trust.check import CHECKS
from offpolicy.trust.view import View

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)


def weighted(w, reward, **options):
    n = len(w)
    return view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, reward, ratio=w, **options)


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

    found = checked("clipping_sensitivity", view)
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
        f"capping the largest 1% of the positive weights moves the estimate by {moved:.2g} standard errors."
    )
    marked = [c.is_reference for c in stability.clipping_curve(view)]
    assert marked == [s == 0.99 for s in SHARES]


def test_a_cut_estimate_borrows_its_interval():
    w = np.tile([0.5, 1.0, 1.5, 4.0], 30)
    r = np.arange(120.0) % 7
    view = weighted(w, r)
    whole = stability.clipped(view, math.inf)
    assert (whole.clipped, whole.estimate.bias, whole.is_reference) == (0.0, "", False)
    cut = stability.clipped(view, 1.0, is_reference=True, whole=whole.estimate)
    assert (cut.clipped, cut.is_reference, cut.cap) == (0.5, True, 1.0)
    assert cut.estimate.bias == "its standard error ignores the bias from capping weights"
    assert cut.estimate.reference is whole.estimate
    top = stability.clipped(view, 4.0, whole=whole.estimate)
    assert (top.clipped, top.estimate.bias, top.estimate.reference) == (0.0, "", None)
    # A cap that is a weight but for rounding cuts none of them.
    assert stability.clipped(view, 4.0 * (1 - 1e-10)).clipped == 0.0
    assert stability.clipped(view, 4.0 * (1 - 1e-8)).clipped == 0.25
    caps = [c.cap for c in stability.clipping_curve(view)]
    assert caps == [1.0, 1.5, 4.0]  # equal caps come once


def test_no_weights_to_cut():
    none = weighted(np.zeros(30), np.arange(30.0))
    assert checked("clipping_sensitivity", none).sentence == "there are no weights to clip."
    assert list(stability.clipping_curve(none)) == []
    same = checked("clipping_sensitivity", weighted(np.ones(30), np.full(30, 2.0)))
    assert (same.value, same.level) == (0.0, "ok")
    huge = weighted(np.r_[np.exp(701.0), np.ones(29)], np.arange(30.0))
    assert stability.why_not(huge) == "there are no weights to clip."
    assert stability.why_not(weighted(np.r_[np.exp(699.0), np.ones(29)], np.arange(30.0))) == ""


# -- smoothing -------------------------------------------------------------------------------------------------------

UNITS = Units(200)
BASE = np.random.default_rng(2).normal(size=200)


def shifted(shift, noise=0.05):
    rng = np.random.default_rng(3)
    fine = Estimate.from_scores(BASE - shift + noise * rng.normal(size=200), units=UNITS)
    return replace(Estimate.from_scores(BASE, units=UNITS), smoothed=Smoothed(fine, 4 / 3))


@pytest.mark.parametrize("shift", [0.0, 0.12, -0.4])
def test_the_bias_of_a_window(shift):
    e = shifted(shift)
    found = smoothed({"SNDR": e, "IPW": e}, [named("IPW"), named("SNDR")])
    bias = 4 / 3 * (e.value - e.smoothed.finer.value)
    error = 4 / 3 * (e.psi[0] - e.smoothed.finer.psi[0]).std() / math.sqrt(200)
    z, size = bias / error, abs(bias) / (BASE.std() / math.sqrt(200))
    assert found.details == {"z": pytest.approx(z), "bias": pytest.approx(bias), "error": pytest.approx(error)}
    if abs(z) > 3.3:
        assert shift != 0
        assert found.value == pytest.approx(size)
        assert found.sentence == (
            f"halving the bandwidth moves SNDR by {abs(z):.2g} standard errors of the difference. "
            f"That is a bias of {bias:+.3g}, {size:.2g} standard errors of the estimate, which its "
            "intervals allow for."
        )
    else:
        assert shift == 0
        assert found.value == 0.0
        assert found.sentence == f"halving the bandwidth moves SNDR by no more than noise (z = {z:.2g})."


def test_where_nothing_is_smoothed():
    plain = Estimate.from_scores(BASE, units=UNITS)
    assert smoothed({"IPW": plain}, [named("IPW")]) is None
    assert smoothed({}, [named("IPW")]) is None
    still = replace(plain, smoothed=Smoothed(plain))
    assert smoothed({"IPW": still}, [named("IPW")]).sentence == ("the scores do not vary with the bandwidth.")
    constant = replace(Estimate.from_scores(np.ones(200), units=UNITS), smoothed=Smoothed(plain))
    assert not smoothed({"IPW": constant}, [named("IPW")]).ran
    lost = replace(Estimate.from_scores(np.full(200, np.nan), units=UNITS), smoothed=Smoothed(plain))
    assert smoothed({"IPW": lost}, [named("IPW")]) is None


@pytest.mark.parametrize("value_split", [None, "crossfit"])
def test_breaks_where_a_policy_sits(value_split, monkeypatch):
    asked = []

    def says(found):
        def bent(problem, target, probe):
            asked.append(probe.needs)
            return found

        monkeypatch.setattr(ratios, "bent", bent)
        view = View(None, None, "crossfit", value_split)
        return ratios.at_a_break(view)

    assert says(None).sentence == "too few rows are on both sides of the policy's number to tell."
    assert asked[0] == ({"behavior"} if value_split is None else {"value", "behavior"})
    none = says(Bend())
    assert (none.value, none.level) == (0.0, "ok")
    assert none.sentence == "no sign of a corner or a jump of the mean reward at the policy's number."
    assert none.details == {"kind": "none", "size": 0.0}
    corner = says(Bend("corner", -0.75, -5.25))
    assert (corner.value, corner.level) == (5.25, "caution")
    assert corner.sentence == (
        "the slope of the mean reward changes by -0.75 at the policy's number, so the bias is proportional to the "
        "window, which intervals allow for (z = -5.2)."
    )
    jump = says(Bend("jump", 0.5, 4.5))
    assert (jump.value, jump.level, jump.decides) == (4.5, "alarm", True)
    assert jump.sentence == (
        "the mean reward jumps by +0.5 at the policy's number. A window around it averages both "
        "sides, and intervals do not allow for a bias of 0.25 (z = 4.5)."
    )
    assert jump.remedy == CHECKS["break_at_policy"].limits.remedy
