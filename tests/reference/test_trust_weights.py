"""Checks of the weights: every figure and sentence, by plain loops over rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import drawn
from trust_views import by_name, of_weights, view_of

from offpolicy.inference.intervals.tails import tail_index
from offpolicy.trust import overlap, weights
from offpolicy.trust.check import FITTED, OVERLAP, PROPENSITIES
from offpolicy.trust.moments import exceedances, surely_above


def softened(x, k=3):
    logits = np.outer(x, np.arange(k)[::-1] - 1.0)
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def world(seed=1, n=240, **options):
    d = drawn(seed, n)
    pi = options.pop("pi", softened(d["x"]))
    return d, view_of(pi, options.pop("p", d["p"]), d["a"], options.pop("reward", d["r"]), context=d["x"], **options)


def normal(z, units):
    """A Student statistic as a normal one."""
    return -stats.norm.ppf(stats.t.cdf(-abs(z), units - 1)) * np.sign(z) if units < 1000 else z


def hall(x, null=1.0):
    e = x - x.mean()
    z, skew = ((x.mean() - null) / (math.sqrt((e**2).sum()) / len(x)), (e**3).sum() / (e**2).sum() ** 1.5)
    return normal(z + skew * z**2 / 3 + skew**2 * z**3 / 27 + skew / 6, len(x))


def test_every_figure_of_plain_weights():
    d, view = world()
    w = softened(d["x"])[np.arange(240), d["a"]] / d["p"]
    found = by_name(of_weights(view))
    size = w.sum() ** 2 / (w**2).sum()
    assert found["effective_sample_size"].value == pytest.approx(size)
    assert found["effective_sample_size"].sentence == (
        f"after weighting, the log is worth about {size:.3g} of its 240 units."
    )
    assert found["effective_sample_size"].details == {"share": pytest.approx(size / 240), "units": 240.0}
    assert found["largest_weight"].value == pytest.approx(w.max())
    assert found["largest_weight"].sentence == f"the largest importance weight is {w.max():,.4g}."
    assert found["largest_weight"].details == {}
    share = w.max() / w.sum()
    assert found["largest_weight_share"].value == pytest.approx(share)
    assert found["largest_weight_share"].sentence == f"a single unit carries {100 * share:.3g}% of the total weight."
    top = sum(sorted(w)[-2:]) + 0.4 * sorted(w)[-3]
    assert found["top_share"].value == pytest.approx(top / w.sum())
    assert found["top_share"].sentence == (
        f"the heaviest 1% of the units with a positive weight carry {100 * top / w.sum():.3g}% of the total."
    )
    earned = np.abs(w * d["r"])
    assert found["top_unit_share"].value == pytest.approx(earned.max() / earned.sum())
    assert found["top_unit_share"].sentence == (
        f"a single unit carries {100 * earned.max() / earned.sum():.3g}% of the weighted rewards."
    )
    mean = found["mean_weight"]
    error = w.std() / math.sqrt(240)
    assert mean.value == pytest.approx(w.mean())
    assert mean.sentence == f"the mean weight is {w.mean():.4g} (± {error:.2g}); it should be 1."
    z = hall(w)
    side = "above" if z > 0 else "below"
    assert found["mean_weight_z"].value == pytest.approx(z)
    assert found["mean_weight_z"].sentence == f"the mean weight is {abs(z):.3g} standard errors {side} 1."
    assert (mean.level, mean.remedy, found["mean_weight_z"].level) == ("ok", "", "ok")
    assert found["mean_weight_by_batch"].sentence == "the log has no batches."


def test_large_sizes_are_counted_in_whole_units():
    _, view = world(pi=np.full((240, 3), 1 / 3), p=np.full(240, 1 / 3))
    found = by_name(of_weights(view))
    assert found["effective_sample_size"].sentence == "after weighting, the log is worth about 240 of its 240 units."
    assert overlap._amount(100.0) == "100"
    assert overlap._amount(99.94) == "99.9"
    assert overlap._amount(1234.5) == "1,234"
    assert overlap._percent(0.5) == "50%"
    assert overlap._percent(math.nan) == "none"


def test_units_of_clusters():
    user = np.arange(240) // 3
    d, view = world(cluster=user)
    w = softened(d["x"])[np.arange(240), d["a"]] / d["p"]
    sums = np.bincount(user, w)
    size = sums.sum() ** 2 / (sums**2).sum()
    found = by_name(of_weights(view))
    assert found["effective_sample_size"].sentence == (
        f"after weighting, the log is worth about {size:.3g} of its 80 clusters."
    )
    same = np.repeat(w[:80], 3)
    alone = math.sqrt(((same - same.mean()) ** 2).sum()) / 240
    together = math.sqrt(((3 * w[:80] - 3 * same.mean()) ** 2).sum()) / 240
    _, alike = world(cluster=user, ratio=same)
    assert weights._design(alike) == pytest.approx(together / alone)
    assert together / alone == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize(
    ("factor", "level", "z_level", "known"),
    [(0.5, "alarm", "alarm", True), (1.5, "alarm", "alarm", False), (1.055, "caution", "caution", True)],
)
def test_a_mean_weight_that_is_off(factor, level, z_level, known):
    n = 4000
    w = factor * (1 + 0.9 * np.tile([-1.0, 1.0], n // 2))
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=w, known=known)
    mean, z = weights._mean(view)
    assert (mean.level, z.level) == (level, z_level)
    own = PROPENSITIES if known else FITTED
    assert mean.remedy == z.remedy == (f"{OVERLAP} {own}" if factor < 1 else own)
    assert z.value == pytest.approx((factor - 1) / (0.9 * factor / math.sqrt(n)))  # symmetric, and many


def test_a_mean_weight_is_judged_where_it_is_off_and_surely_so():
    n = 100_000
    even = np.tile([0.5, 1.5], n // 2)
    small = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=1.019 * even)
    mean, z = weights._mean(small)
    assert (mean.level, z.level, z.value > 10) == ("ok", "ok", True)
    few = view_of(np.full((40, 2), 0.5), np.full(40, 0.5), np.arange(40) % 2, np.zeros(40), ratio=1.2 * even[:40])
    mean, z = weights._mean(few)
    assert (mean.value, mean.level, z.level) == (pytest.approx(1.2), "ok", "ok")


def test_top_share_of_units_that_stand_for_several():
    w, m = np.array([5.0, 1.0, 3.0, 0.0]), np.array([2.0, 300.0, 1.0, 999.0])
    every = np.repeat(w, m.astype(int))
    every = np.sort(every[every > 0])[::-1]
    room = 0.01 * len(every)
    expected = sum(every[:3]) + (room - 3) * every[3]
    assert overlap.top_share(w, m) == pytest.approx(expected / every.sum())
    assert overlap.top_share(w, m, 0.5) == pytest.approx(every[: len(every) // 2].sum() / every.sum(), rel=0.01)
    assert math.isnan(overlap.top_share(np.zeros(3), np.ones(3)))
    many = np.arange(1.0, 1001.0)
    assert overlap.top_share(many, np.ones(1000)) == pytest.approx(many[-10:].sum() / many.sum())
    assert overlap.top_share(many, np.ones(1000), 0.1) == pytest.approx(many[-100:].sum() / many.sum())
    assert overlap.top_share(many, np.ones(1000), 0.2) == pytest.approx(many[-200:].sum() / many.sum())


def test_what_one_unit_carries():
    count, weight = np.array([4.0, 1.0, 2.0]), np.array([1.0, 2.0, 0.5])
    view = view_of(np.full((3, 2), 0.5), np.full(3, 0.5), [0, 1, 1], [3.0, 0.0, 2.0], ratio=[1.0, 4.0, 0.5],
                   count=count, weight=weight)  # fmt: skip
    w = np.array([1.0, 4.0, 0.5])
    total = count * weight @ w
    assert overlap.unit_share(view, w) == pytest.approx(max(weight * w) / total)
    assert math.isnan(overlap.unit_share(view, np.zeros(3)))
    none = view_of(np.full((3, 2), 0.5), np.full(3, 0.5), [0, 1, 1], [3.0, 0.0, 2.0], ratio=np.zeros(3))
    assert by_name(of_weights(none))["largest_weight_share"].sentence == (
        "a single unit carries none of the total weight."
    )


def test_rewards_of_two_values_as_in_the_whole_log():
    w = np.array([1.0, 4.0, 0.5, 0.0, 2.0])
    count, weight = np.array([4.0, 1.0, 2.0, 3.0, 1.0]), np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    reward = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    view = view_of(np.full((5, 2), 0.5), np.full(5, 0.5), [0, 1, 1, 0, 1], reward, ratio=w, count=count, weight=weight)
    each = weight * reward
    size = (count @ w) ** 2 / (count @ w**2) * (count @ each) ** 2 / (count @ each**2)
    share, words = overlap._rewards_on_one(view)
    assert share == pytest.approx(min(count.sum() / size, 1.0))
    assert words == "with rewards as in the whole log, a single unit would carry"
    plenty = view_of(
        np.full((90, 2), 0.5), np.full(90, 0.5), np.arange(90) % 2, np.arange(90) % 3 == 0, ratio=np.ones(90)
    )
    assert overlap._rewards_on_one(plenty)[0] == pytest.approx(1 / 30)
    never = view_of(np.full((5, 2), 0.5), np.full(5, 0.5), [0, 1, 1, 0, 1], np.zeros(5), ratio=w)
    assert math.isnan(overlap._rewards_on_one(never)[0])


# -- tails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["heavy", "bounded", "hidden", "light", "levels", "few"])
def test_the_tail_of_the_weights(case):
    rng = np.random.default_rng(2)
    n = 400
    heavy = rng.pareto(0.6, n)
    w = {
        "heavy": heavy, "bounded": heavy, "light": rng.random(n),
        "hidden": np.minimum(rng.pareto(0.9, n), 40.0) + 20.0, "levels": np.ones(n),
        "few": np.r_[np.ones(n - 3), 2, 3, 4],
    }[case]  # fmt: skip
    reach = {"largest": 1e7, "forbidden": 0.0} if case == "bounded" else {}
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=w, reach=reach)
    found = overlap._tail(view)
    if case == "few":
        assert found.sentence == "too few different weights to judge their tail."
        return
    if case == "levels":
        assert (found.value, found.sentence) == (
            -math.inf,
            "the weights have few different values, so they have no tail.",
        )
        return
    k = tail_index(w)
    sure = surely_above(k, exceedances(n))
    assert found.value == pytest.approx(k)
    assert found.details == {"surely_above": pytest.approx(sure)}
    seen = w.max() / w.sum() > min(0.05, 0.3 * n**-0.3)
    ends = {
        "heavy": " (their mean needs k < 0.7).", "bounded": ", and no weight can exceed 1e+07.",
        "light": ", but no unit has as much weight as such a tail would give it.",
        "hidden": ", but no unit has as much weight as such a tail would give it.",
    }[case]  # fmt: skip
    assert seen == (case in {"heavy", "bounded"})
    assert found.sentence == f"the tail of the weights has a Pareto index of {k:.2f}{ends}"
    level = "alarm" if sure > 0.7 else "caution" if sure > 0.5 else "ok"
    assert found.level == (level if case == "heavy" else "ok" if level == "ok" else "note")
    assert (level != "ok") == (case in {"heavy", "bounded"})
    assert found.remedy == ("" if found.level == "ok" else OVERLAP)
