"""What methods of intervals ask for, word by word, and intervals made from those of parts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import said

from offpolicy.inference import confidence
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.score_table import Affine, EvidenceColumns, ScoreTable, Units

RNG = np.random.default_rng(41)


def scores(n=300, mean=1.0, spread=1.0):
    return RNG.normal(mean, spread, size=n)


# -- methods -----------------------------------------------------------------------------------------------


def test_what_methods_ask_for(ev):
    e, gap = ev["one", "IPW"], ev["one", "IPW"] - ev["two", "IPW"]
    plain = Estimate.from_scores(scores(), label="p")
    cases = {
        "method='cressie-read' needs the weights and rewards of independent, equally weighted units, which p does not "
        "have. Use 'empirical-likelihood' or 'bca'.": (plain, "cressie-read"),
        "method='clopper-pearson' needs the range of the rewards: reward_range=(low, high).": (e, "clopper-pearson"),
        "method='hoeffding' needs the ranges of rewards and weights: reward_range=(low, high) and weight_high=….":
            (plain, "hoeffding"),
        "method='batch-pooled' needs a log with batch= and without clusters or analysis weights.":
            (plain, "batch-pooled"),
        "method='delta' is for a lift: e.lift(other).interval(method='delta').": (gap, "delta"),
        "method='batch-stabilized' needs scores that are unbiased in every batch, given earlier batches. The scores "
        f"of {ev['one', 'SNIPW'].label} use means over the whole log, so later batches affect earlier ones, and "
        "intervals "
        "get too narrow when an arm is dropped. Use IPW or DML, or the default interval.":
        (ev["one", "SNIPW"], "adaptive"),
        "method='batch-pooled' does not work for half-sample estimates.": (ev["one", "DR-half"], "batch-pooled"),
    }  # fmt: skip
    assert {said(lambda c=case: c[0].interval(method=c[1])) for case in cases.values()} == set(cases)
    assert said(lambda: e.interval(method="magic")).startswith("method='magic': no interval has this name. Known: ")
    ranges = {"reward_range": (0.0, 3.0)}
    open_ended = replace(e, evidence=replace(e.evidence, weight_high=None))
    assert said(lambda: open_ended.interval(method="cressie-read", **ranges)) == (
        "method='cressie-read' needs the largest possible weight: weight_high=…."
    )
    assert (
        said(lambda: gap.interval(method="hoeffding", **ranges)) == "method='hoeffding' is for the value of one policy."
    )
    assert said(lambda: e.interval(reward_range=(0.0, 1.0))).startswith(
        "reward_range=(0, 1): the reward is outside in "
    )
    assert said(lambda: e.interval(2.0)).startswith("The 'level' parameter must be")
    assert said(lambda: e.p_value(0.0, "bigger")) == (
        "alternative= must be 'two-sided', 'greater' or 'less'. Got 'bigger' instead."
    )
    assert said(lambda: plain - Estimate.from_scores(scores(9), label="q")).startswith(
        "p and q come from different units"
    )
    assert said(lambda: e - Estimate.from_scores(scores(400), label="q")).endswith(
        "Evaluate both in one call, or use ev.add(…)."
    )
    twice, thrice = (Estimate.from_scores(RNG.normal(size=(k, 300)), units=plain.units, label=f"r{k}") for k in (2, 3))
    assert said(lambda: twice - thrice) == "r2 has 2 repetitions, but 3 are needed."


def test_bounds_of_weighted_rewards(ev):
    e = ev["one", "IPW"]
    w, r = e.table.columns[e.evidence.weight], e.table.columns[e.evidence.reward]
    found = e.interval(0.9, "hoeffding", reward_range=(0.0, 3.0))
    half = 9.0 * math.sqrt(math.log(20) / 800)
    assert (found.low, found.high) == pytest.approx((max((w * r).mean() - half, 0.0), (w * r).mean() + half))
    assert found.note.endswith("; of the importance-weighted mean")
    other = e.interval(0.9, "bernstein", reward_range=(-1.0, 3.0), weight_high=4.0)
    log, x = math.log(40), w * r
    half = math.sqrt(2 * x.var(ddof=1) * log / 400) + 7 * 16.0 * log / (3 * 399)
    assert (other.low, other.high) == pytest.approx((x.mean() - half, x.mean() + half))


def test_lifts_over_bases_near_zero():
    base = Estimate.from_scores([-1.0, 1.1] * 200, label="b")
    why = confidence.no_base(base, 0.9)
    i = base.interval(0.9)
    assert why == f"the lift is undefined: the 90% interval of b ({i.low:.4g} to {i.high:.4g}) contains 0"
    flat = Estimate.from_scores([1.0] * 20, label="f")
    assert confidence.no_base(flat, 0.9) == f"the lift is undefined: f has no interval ({flat.interval(0.9).reason})"
    assert confidence.no_base(Estimate.from_scores([1.0, 1.2] * 200), 0.9) is None
    refused = Estimate.from_scores([1.0, 2.0] * 200).lift(base).interval(0.9)
    assert (refused.low, refused.high, refused.note, refused.sufficient) == (-math.inf, math.inf, why, False)


def test_brackets_of_rare_parts():
    units = Units(400)
    rare = np.zeros(400)
    rare[:18] = RNG.gamma(1.0, size=18) + 0.5
    few = Estimate.from_scores(rare, units=units, label="few")
    for sign in (1.0, -1.0):
        base = Estimate.from_scores(sign * scores(400, 2.0, 0.2), units=units, label="base")
        i, j = few.interval(0.95), base.interval(0.95)
        near = replace(few.lift(base), evidence=None)
        corners = [(x - y) / abs(y) for x in i for y in j]
        made = confidence._bracket(near.of, 0.9)
        assert tuple(made) == pytest.approx((min(corners), max(corners)))
        assert made.note == f"a few large scores drive it; combined from both intervals ({i.method}, {j.method})"
        gap = confidence._bracket((few - base).of, 0.9)
        assert tuple(gap) == pytest.approx((i.low - j.high, i.high - j.low))
    lone = Estimate.from_scores(np.eye(400)[0], units=units)
    assert confidence._bracket((few - lone).of, 0.9) is None
    around = Estimate.from_scores(scores(400, 0.0), units=units)
    assert confidence._bracket(few.lift(around).of, 0.9) is None
    x = scores(400)
    close = Estimate.from_scores((x - x.mean()) / x.std() + 1.8 / 20, units=units)  # away from 0 at 90%, not at 95%
    assert not close.interval(0.9).covers(0.0)
    assert close.interval(0.95).covers(0.0)
    nothing = few.lift(close).interval(0.9)
    assert (nothing.note, nothing.sufficient) == ("the base may be 0 at the level needed for both parts", False)
    assert lone.lift(close).interval(0.9).note == lone.interval(0.95).reason


def test_biased_estimates_take_the_interval_of_their_reference():
    units = Units(300)
    good = Estimate.from_scores(scores(), units=units, label="DML")
    off = replace(Estimate.from_scores(scores(mean=3.0), units=units, label="DM"), bias="it leans", reference=good)
    made, own = off.interval(0.9), good.interval(0.9)
    assert (made.low, made.high, made.method) == (own.low, off.value, "bias-aware")
    assert made.note == "it leans; the interval is that of DML, widened to contain this value"
    none = replace(off, reference=None).interval(0.9)
    assert (none.low, none.note) == (-math.inf, "it leans. Also compute DML, whose interval bounds it")
    lone = Estimate.from_scores(np.eye(300)[0], units=units, label="L")
    refused = replace(off, reference=lone).interval(0.9)
    assert refused.note == f"it leans, and L: {lone.interval(0.9).reason}"
    gap = off - lone
    assert (gap.bias, gap.reference.value) == ("it leans", pytest.approx(good.value - lone.value))


def test_scores_of_tables():
    table = ScoreTable(Units(3))
    table.put("x", np.array([1.0, 2.0, 3.0]))
    table.put("y", np.array([1.0, 2.0, 3.0 + 2e-12]))
    assert table.scores(Affine.column("x")) is table.columns["x"]
    assert table.scores(Affine(1.0, (("x", 1.0),))).tolist() == [2.0, 3.0, 4.0]
    assert table.scores(Affine(0.0, (("x", 2.0),))).tolist() == [2.0, 4.0, 6.0]
    assert table.scores(Affine(0.0, (("x", 1.0), ("y", -1.0)))).tolist() == [0.0, 0.0, 0.0]
    table.put("z", np.array([1.0, 2.0, 3.0 + 2e-11]))
    assert table.scores(Affine(0.0, (("x", 1.0), ("z", -1.0)))).any()
    assert table.scores(Affine(5.0, (("x", 1e-14),))).tolist() == pytest.approx([5.0] * 3)
    assert (table.stage(), table.stage()) == (1, 2)
    table.put("w", np.array([1.0, 3.0, 0.0]))
    assert table.effective_size("w") == pytest.approx(16 / 10)
    named = EvidenceColumns("w", "x")
    assert table.levels(named) is None
    assert table.levels(replace(named, has_levels=True, levels=(0.0, 1.0))) == (0.0, 1.0)
    known = table.evidence(replace(named, scale=2.0, weight_high=9.0))
    assert (known.rewards.tolist(), known.weight_high, known.is_value, known.is_product) == (
        [0.5, 1.0, 1.5],
        9.0,
        True,
        False,
    )
    table.put("b", np.array([0.0, 4.0, 0.0]))
    two = table.evidence(EvidenceColumns("w", "b", scale=2.0))
    assert (two.reward_low, two.reward_high, two.constant, two.heavy) == (0.0, 2.0, False, False)
    assert not two.bounded_scores
    table.put("s", np.array([True, False, True]))
    some = table.evidence(EvidenceColumns("w", "b", scored="s"))
    assert (some.weights.tolist(), some.rewards.tolist(), some.reward_high) == ([1.0, 0.0], [0.0, 0.0], 4.0)
    table.put("c", np.full(3, 7.0))
    assert table.evidence(EvidenceColumns("w", "c", is_plain=False)).constant
    assert table.evidence(EvidenceColumns("w", "c", is_plain=False)).weights is None
