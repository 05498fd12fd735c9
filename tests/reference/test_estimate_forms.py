"""Estimates, their arithmetic and the tables of scores behind them, against plain formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import said
from scipy import stats

from offpolicy.inference.confidence import is_plentiful
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Difference, Multiple, Smoothed, is_same, joint_evidence, stretched
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.score_table import Units, embedded

RNG = np.random.default_rng(41)


def scores(n=300, mean=1.0, spread=1.0):
    return RNG.normal(mean, spread, size=n)


# -- one estimate ------------------------------------------------------------------------------------------


def test_repetitions_are_averaged_unit_by_unit():
    psi = RNG.normal(size=(3, 50))
    e = Estimate.from_scores(psi, label="x")
    assert e.values == pytest.approx(psi.mean(axis=1))
    assert e.std_error == pytest.approx(psi.mean(axis=0).std() / math.sqrt(50))
    assert e.fold_spread == pytest.approx(psi.mean(axis=1).std(ddof=1))
    assert math.isnan(Estimate.from_scores(psi[0]).fold_spread)
    assert e.variance == pytest.approx(50 * e.std_error**2)
    assert (e.n, e.n_independent, e.is_defined) == (50, 50, True)
    nothing = Estimate.from_scores([math.nan, 1.0])
    assert (nothing.n_independent, nothing.is_defined) == (0, False)
    assert math.isnan(nothing.std_error)
    again = nothing.interval()
    assert (again.note, again.sufficient, again.method) == ("no estimate", False, "auto")
    assert repr(nothing) == "Estimate(estimate: no estimate)"
    assert repr(replace(nothing, notes=("no overlap",))).endswith("no estimate: no overlap)")
    flat = Estimate.from_scores([1.0] * 3000)
    assert "refused: " in repr(flat)
    assert repr(flat).endswith("n = 3,000)")


def test_units_by_weights_counts_and_clusters():
    psi = np.array([1.0, 2.0, 4.0, 8.0])
    u = Units(
        4, count=np.array([2.0, 1.0, 1.0, 3.0]), weight=np.array([1.0, 2.0, 1.0, 0.5]), cluster=np.array([5, 5, 9, 9])
    )
    mass = np.array([2.0, 2.0, 1.0, 1.5])
    assert u.mean(psi) == pytest.approx(psi @ mass / mass.sum())
    s = u.sample(psi)
    unit = 7 / 6.5  # analysis weights have no unit: their mean over the seven units is 1
    assert s.numerator.tolist() == pytest.approx([6.0 * unit, 16.0 * unit])
    assert s.denominator.tolist() == pytest.approx([4.0 * unit, 2.5 * unit])
    assert (u.total(), u.total(np.array([True, False, False, True]))) == (7, 5)
    assert (Units(4).total(), Units(4).total(np.array([True, False, False, True]))) == (4, 2)
    assert not u.are_plain
    assert Units(4, count=np.ones(4)).are_plain
    assert not Units(4, weight=np.ones(4)).are_plain
    part = u.part(np.array([True, False, True, False]))
    assert (part.n_rows, part.count.tolist(), part.cluster.tolist()) == (2, [2.0, 1.0], [5, 9])
    assert not part.has_batches
    assert u.part(np.array([3, 0])).weight.tolist() == [0.5, 1.0]
    assert Units(4, weight=u.weight).mass is u.weight
    scored = u.sample(psi, np.array([True, True, False, False]))
    assert (scored.numerator.tolist(), scored.denominator.tolist()) == ([4.5], [3.0])  # of three units


def test_smoothing_widens_every_interval():
    units = Units(300)
    whole = Estimate.from_scores(scores(), units=units, label="w")
    half = Estimate.from_scores(whole.psi[0] - 0.3 + 0.1 * RNG.normal(size=300), units=units)
    e = replace(whole, smoothed=Smoothed(half, 4 / 3))
    gap = whole.psi[0] - half.psi[0]
    bias, error = 4 / 3 * gap.mean(), 4 / 3 * gap.std() / math.sqrt(300)
    assert e.smoothing == pytest.approx((bias, error))
    assert e.allowance == pytest.approx(bias + error)
    room = bias + error
    for method in ("auto", "normal", "t", "bca", "empirical-likelihood"):
        wide, plain = e.interval(method=method), whole.interval(method=method)
        assert (wide.low, wide.high) == pytest.approx((plain.low - room, plain.high + room))
        assert wide.note.endswith(f"widened by {room:.3g} on both sides to allow for smoothing bias")
    assert whole.smoothing == (0.0, 0.0)
    lost = replace(whole, smoothed=Smoothed(Estimate.from_scores([math.nan] * 300, units=units)))
    assert lost.smoothing == (0.0, 0.0)
    other = Estimate.from_scores(scores(), units=units)
    for made, gap in ((e - other, e.psi[0] - half.psi[0]), (other - e, half.psi[0] - e.psi[0])):
        assert made.smoothing[0] == pytest.approx(4 / 3 * gap.mean())
    assert (2 * e).allowance == pytest.approx(2 * room)
    assert e.p_value(e.value + 0.9 * room) == 1.0
    z = 2.5
    null = e.value - room - z * e.score_error
    assert e.p_value(null) == pytest.approx(2 * stats.norm.sf(z), rel=1e-6)
    assert e.p_value(e.value + room + z * e.score_error) == pytest.approx(2 * stats.norm.sf(z), rel=1e-6)


def test_scores_of_some_units_as_scores_of_all():
    units = Units(6, weight=np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0]))
    rows, psi = np.array([1, 3, 4]), np.array([2.0, 5.0, 1.0])
    made, scored = embedded(psi, units, rows)
    value = (2 * 2 + 3 * 5 + 1) / 6
    assert scored.tolist() == [False, True, False, True, True, False]
    assert made[~scored] == pytest.approx([value] * 3)
    assert made[rows] == pytest.approx(value + 10 / 6 * (psi - value))


def test_a_subgroup_of_units(ev):
    e = ev["one", "IPW"]
    members = np.arange(400) % 3 == 0
    part = e.within(members)
    assert part.value == pytest.approx(e.psi[0][members].mean())
    assert part.n == 134
    assert e.within(np.zeros(400, dtype=bool)) is None
    assert part.evidence.levels == e.table.levels(e.evidence)
    half = ev["one", "DR-half"]
    scored = half.table.columns[half.scored]
    own = half.within(members)
    stretch = 400 / scored.sum()
    expected = half.value + (half.psi[0][members & scored] - half.value) / stretch
    assert own.value == pytest.approx(expected.mean())
    assert own.n == int((members & scored).sum())


# -- arithmetic --------------------------------------------------------------------------------------------


def test_lifts_of_any_sign():
    units = Units(200)
    for a, b in ((3.0, 2.0), (-1.5, -2.0), (1.0, -2.0)):
        x, y = scores(200, a, 0.1), scores(200, b, 0.1)
        e, base = (Estimate.from_scores(x, units=units, label="e"), Estimate.from_scores(y, units=units, label="b"))
        found = e.lift(base)
        assert found.value == pytest.approx((x.mean() - y.mean()) / abs(y.mean()))
        linear = (x - x.mean() / y.mean() * y) / abs(y.mean())
        assert found.std_error == pytest.approx(linear.std() / math.sqrt(200))
        assert found.label == "lift of e over b"
        for factor in (3.0, -3.0):
            scaled = (factor * e).lift(factor * base)
            assert scaled.value == pytest.approx(math.copysign(1.0, factor) * found.value)
        assert found.looks_at_others
        assert e.lift(base) is found
    assert said(lambda: e.lift(0 * base)) == "the lift over 0 · b is undefined: its value is 0."


def test_texts_and_terms_of_sums():
    units = Units(100)
    a, b, c = (Estimate.from_scores(scores(100), units=units, label=k) for k in "abc")
    texts = {
        "2 · a": 2 * a, "−a": -a, "−0.5 · a": a / -2, "a − b": a - b, "a + b": a + b,
        "a + b − 3 · c": a + b - 3 * c, "−a + 2 · b": 2 * b - a if False else -a + 2 * b,
    }  # fmt: skip
    assert {text: e.label for text, e in texts.items()} == {text: text for text in texts}
    assert (2 * (3 * a)).of.factors == (6.0,)
    assert ((a + b) - b) is a
    assert (a + b - a - b).value == 0.0
    assert sum([a, b], 0).value == pytest.approx(a.value + b.value)
    assert isinstance((2 * a - 2 * b).of, Multiple)
    assert isinstance((2 * a - 2 * b).of.parts[0].of, Difference)
    assert (2 * b - 2 * a).value == pytest.approx(2 * (b.value - a.value))
    assert (1 * a) is a
    for factor in (0.1, -0.3, 1 / 3, 7.7):  # to the last digit
        assert (factor * a).value == factor * a.value
        assert (factor * a).std_error == abs(factor) * a.std_error
    assert said(lambda: a * math.inf) == "an estimate cannot be multiplied by inf."
    assert said(lambda: a / 0) == "an estimate cannot be divided by 0."
    for wrong in (lambda: a * True, lambda: a / True, lambda: a * "x", lambda: a + 1, lambda: a - 1, lambda: 1 + a):
        with pytest.raises(TypeError):
            wrong()


def test_intervals_of_multiples_and_sums():
    i = Interval(-1.0, 3.0, 0.9, "t", "why")
    assert tuple(stretched(i, 2.0)) == (-2.0, 6.0)
    assert tuple(stretched(i, -2.0)) == (-6.0, 2.0)
    zero = stretched(i, 0)
    assert (*zero, zero.method, zero.note) == (0.0, 0.0, "exact", "0 times anything")
    units = Units(300)
    a = Estimate.from_scores(scores(), units=units, label="a")
    b = Estimate.from_scores(scores(mean=2.0), units=units, label="b")
    balanced = (a + b).interval(0.9)
    s = a.psi[0] + b.psi[0]
    half = stats.norm.ppf(0.95) * s.std() / math.sqrt(300)
    assert tuple(balanced) == pytest.approx((s.mean() - half, s.mean() + half))
    rare = np.zeros(300)
    rare[:30] = RNG.random(30) + 0.5
    few = Estimate.from_scores(rare, units=units, label="few")
    made = (2 * a - 3 * few).interval(0.9)
    one, two = a.interval(0.95), few.interval(0.95)
    assert tuple(made) == pytest.approx((2 * one.low - 3 * two.high, 2 * one.high - 3 * two.low))
    assert (made.method, made.level) == ("bonferroni", 0.9)
    assert made.note == (
        f"a few large scores drive one term; combined from the intervals of all 2 terms (normal, {two.method})"
    )
    lone = Estimate.from_scores(np.eye(300)[0], units=units, label="lone")
    refused = (a + 2 * lone).interval(0.9)
    assert (refused.low, refused.high, refused.method, refused.sufficient) == (-math.inf, math.inf, "none", False)
    assert refused.note == f"lone has no interval: {lone.interval(0.95).reason}"
    assert [is_plentiful(e, 0.9) for e in (a, few, lone)] == [True, False, False]


def test_evidence_of_differences(ev):
    a, b = ev["one", "IPW"], ev["two", "IPW"]
    joint = (a - b).evidence
    heavier = min((a, b), key=lambda e: e.table.effective_size(e.evidence.weight))
    assert (joint.weight, joint.scale, joint.is_value, joint.is_product) == (heavier.evidence.weight, 1.0, False, False)
    assert joint.weight_high == max(a.evidence.weight_high, b.evidence.weight_high)
    carried = a.table.scores(joint.carried)
    w = [e.table.columns[e.evidence.weight] for e in (a, b)]
    assert carried == pytest.approx(w[0] - w[1])
    lifted = a.lift(b).evidence
    assert lifted.scale == pytest.approx(abs(b.value))
    assert a.table.scores(lifted.carried) == pytest.approx((w[0] - a.value / b.value * w[1]) / abs(b.value))
    unknown = replace(b, evidence=replace(b.evidence, weight_high=None))
    assert (a - unknown).evidence.weight_high is None
    assert joint_evidence(replace(a, evidence=None), replace(b, evidence=None)) is None
    single = joint_evidence(a, replace(b, evidence=None))
    assert single.carried == a.evidence.carried
    assert not is_same(a, b)
    assert is_same(a, replace(a, label="other"))
    assert not is_same(a, replace(a, evidence=None))
    assert a.known().weights == pytest.approx(w[0])
    assert replace(a, evidence=replace(a.evidence, is_plain=False)).known() is None
