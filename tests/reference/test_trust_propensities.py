"""Propensities against the actions that were logged: every way through the check, by plain loops and exact tails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import asked, checked_log, drawn, table

import offpolicy as op
from offpolicy.trust.check import CHECKS
from offpolicy.trust.mismatch import exact_p, mismatch, sample_ratio
from offpolicy.trust.moments import symmetric

REMEDY = CHECKS["sample_ratio_mismatch"].limits.remedy
FINE = "actions were logged as often as their propensities say (p = {:.2g})."


# -- Pearson's test and the exact one ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "shares", "seen", "expected"),
    [
        ([210, 330, 460], [0.2, 0.3, 0.5], [210, 330, 460], [200, 300, 500]),
        ([400, 400], [0.4, 0.4], [400, 400, 0], [320, 320, 160]),  # what is left was never seen
        ([60, 35, 3, 2], [0.6, 0.35, 0.03, 0.02], [60, 35, 5], [60, 35, 5]),
        ([60, 36, 3, 1], [0.6, 0.36, 0.03, 0.01], [60, 40], [60, 40]),  # too few even together
        ([3, 60, 36, 1], [0.03, 0.6, 0.36, 0.01], [60, 40], [60, 40]),
        ([4, 95, 1], [0.05, 0.9, 0.05], [4, 95, 1], [5, 90, 5]),  # exactly five are enough
    ],
)
def test_pearsons_test_of_cells_that_are_large_enough(counts, shares, seen, expected):
    test = sample_ratio(np.array(counts, float), np.array(shares))
    known = stats.chisquare(seen, expected)
    assert (test.statistic, test.p_value) == pytest.approx((known.statistic, known.pvalue))
    assert test.degrees == len(seen) - 1
    off = max(abs(s / e - 1) for s, e in zip(seen, expected, strict=True))
    assert test.deviation == pytest.approx(off)


def test_pearsons_test_where_there_is_nothing_to_compare():
    for counts, shares in (([9.0], [1.0]), ([2.0, 2.0], [0.5, 0.5]), ([2.0], [1 - 1e-7])):
        test = sample_ratio(np.array(counts), np.array(shares))
        assert (test.statistic, test.degrees, test.p_value, test.deviation) == (0.0, 0, 1.0, 0.0)
    too_much = sample_ratio(np.array([50.0, 50.0]), np.array([0.5, 0.6]))
    assert (too_much.statistic, too_much.degrees, too_much.p_value) == (math.inf, 1, 0.0)
    assert too_much.deviation == pytest.approx(0.1)
    assert sample_ratio(np.array([50.0]), np.array([1.01])).degrees == 1
    assert sample_ratio(np.array([5.0] * 4), np.array([0.3] * 4)).degrees == 3
    # A hair more than 1 in all is rounding, more than 1e-4 is not.
    assert sample_ratio(np.array([50.0, 50.0]), np.array([0.5, 0.50005])).p_value > 0.9
    assert sample_ratio(np.array([50.0, 50.0]), np.array([0.5, 0.5002])).p_value == 0.0
    rest = sample_ratio(np.array([5e7, 5e7]), np.array([0.5, 0.5 - 2e-6]))
    assert rest.degrees == 2
    assert sample_ratio(np.array([5e7, 5e7]), np.array([0.5, 0.5 - 5e-7])).degrees == 1


def tails(seen: int, n: int, share: float) -> float:
    """The smaller tail of a count, given that there is one."""
    above = stats.binom.sf(seen - 1, n, share)
    below = stats.binom.cdf(seen, n, share) - stats.binom.pmf(0, n, share)
    return min(above, below, 0.5) / (1 - stats.binom.pmf(0, n, share))


@pytest.mark.parametrize(
    ("counts", "shares"),
    [([12, 3, 1], [0.5, 0.3, 0.2]), ([9, 7], [0.3, 0.2]), ([30, 1, 2], [0.2, 0.5, 0.3]), ([5], [0.9])],
)
def test_the_least_likely_count_by_binomial_tails(counts, shares):
    n = sum(counts)
    each = [tails(c, n, s) for c, s in zip(counts, shares, strict=True)]
    tests = 1 if len(counts) == 2 and sum(shares) > 1 - 1e-9 else len(counts)
    assert exact_p(np.array(counts, float), np.array(shares)) == pytest.approx(
        min(1.0, 2 * tests * min(each)), abs=1e-12
    )


def test_counts_that_are_as_expected_have_a_p_value_of_1():
    assert exact_p(np.array([5.0, 5.0]), np.array([0.5, 0.5])) == 1.0
    assert exact_p(np.array([7.0]), np.array([1.0])) == 1.0


# -- one probability by action and batch ---------------------------------------------------------------------


def test_constant_propensities_are_tested_as_counts():
    log = table([600, 400], [0.5, 0.5])
    found = asked(mismatch, log)
    p = max(stats.chisquare([600, 400]).pvalue, stats.binomtest(600, 1000).pvalue)
    assert found.value == pytest.approx(p)
    assert found.level == "alarm"
    assert found.sentence == (
        f"actions were not logged at the rates of their propensities: off by up to 20% (p = {p:.2g})."
    )
    assert found.remedy == REMEDY
    assert found.details["method"] == "Pearson χ² by batch"
    assert found.details["deviation"] == pytest.approx(0.2)
    assert found.details["batches"] == {"all": pytest.approx(p)}
    fine = asked(mismatch, table([510, 490], [0.5, 0.5]))
    assert (fine.level, fine.remedy) == ("ok", "")
    assert fine.sentence == FINE.format(stats.binomtest(510, 1000).pvalue)


def test_a_large_log_shows_what_does_not_matter():
    small, large = table([520_000, 480_000], [0.5, 0.5]), table([525_001, 474_999], [0.5, 0.5])
    assert asked(mismatch, small).level == "caution"
    assert asked(mismatch, large).level == "alarm"
    half = asked(mismatch, table([1_062_500, 937_500], [0.5, 0.5]))
    assert (half.details["deviation"], half.level) == (0.0625, "alarm")


def test_batches_are_tested_one_by_one():
    counts = np.array([500, 500, 600, 400, 480, 520, 2, 1])
    log = table(counts, np.full(8, 0.5), action=[0, 1] * 4, batch=list("aabbccdd"))
    found = asked(mismatch, log)
    each = {b: stats.binomtest(*pair).pvalue for b, pair in
            {"a": (500, 1000), "b": (600, 1000), "c": (480, 1000)}.items()}  # fmt: skip
    assert found.details["batches"] == {b: pytest.approx(p) for b, p in each.items()}
    assert found.value == pytest.approx(3 * each["b"])
    assert found.sentence == (
        "actions were not logged at the rates of their propensities in batch 'b': off by up to "
        f"20% (p = {3 * each['b']:.2g}); 1 of 3 batches fail at 0.001."
    )
    assert found.details["deviation"] == pytest.approx(0.2)
    calm = asked(mismatch, table([50, 50, 48, 52], np.full(4, 0.5), action=[0, 1] * 2, batch=[1, 1, 2, 2]))
    assert (calm.value, calm.level) == (1.0, "ok")


def test_too_few_rows_of_any_action():
    found = asked(mismatch, table([2, 1], [0.5, 0.5]))
    assert (found.ran, found.level) == (False, "ok")
    assert found.sentence == "too few rows to compare shares of actions."
    assert asked(mismatch, table([9, 9], [0.2, 0.4])).ran  # shares that leave a third action
    few = op.BanditLog.from_arrays(None, [0, 1] * 9, np.zeros(18), np.linspace(0.2, 0.6, 18))
    assert asked(mismatch, few).sentence == "too few rows to compare shares of actions."
    assert checked_log("sample_ratio_mismatch", op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0])).sentence == (
        "propensities were not logged."
    )


# -- one probability by row ----------------------------------------------------------------------------------


def by_inverse(action, p, k, *, weight=None, able=None):
    """z and relative distance of each action and of all others, by a loop."""
    n = len(action)
    m = np.ones(n) if weight is None else weight
    able = np.ones((n, k)) if able is None else able
    seen = p >= 30 / n  # less likely rows say nothing by not coming
    out = {}
    for others in (False, True):
        for a in range(k):
            in_group = ((action != a) if others else (action == a)) & seen
            group = [b for b in range(k) if (b != a) == others]
            first = sum(m[i] / p[i] for i in range(n) if in_group[i])
            second = sum((m[i] / p[i]) ** 2 for i in range(n) if in_group[i])
            expected = sum(m[i] * able[i, b] for i in range(n) for b in group)
            heavy = second / first if first else 0.0
            spread = max(second, expected * heavy) - sum(m**2) * min(first / expected, 1.0) ** 2
            third = sum((m[i] / p[i]) ** 3 for i in range(n) if in_group[i])
            z = (first - expected) / math.sqrt(spread) if spread > 0 else math.inf
            z = min(0.0, symmetric(z, third / spread**1.5)) if z < 0 else z
            off = abs(first / expected - 1)
            tail = (~seen & (action == a)).any() if not others else (~seen).any()
            out[others, a] = (z, off, z > 0 or (not tail and off < 0.5))
    return out


def spoiled(seed=3, n=400, lost=(), **options):
    d = drawn(seed, n)
    rng = np.random.default_rng(seed)
    keep = np.ones(n, bool)
    for a, share in lost:
        keep &= (d["a"] != a) | (rng.random(n) < share)
    log = op.BanditLog.from_arrays(
        d["x"][keep], d["a"][keep], d["r"][keep], d["p"][keep], actions=range(3),
        **{k: v[keep] for k, v in options.items()},
    )  # fmt: skip
    return d["a"][keep], d["p"][keep], log


@pytest.mark.parametrize("lost", [(), ((2, 0.5),), ((0, 0.0),)])
@pytest.mark.parametrize("kind", ["plain", "weight", "eligible"])
def test_inverse_propensities_of_each_action_by_a_loop(kind, lost):
    rng = np.random.default_rng(5)
    options = {
        "plain": {},
        "weight": {"weight": rng.integers(1, 4, 400).astype(float)},
        "eligible": {"eligible": np.ones((400, 3), bool)},
    }[kind]
    a, p, log = spoiled(lost=lost, **options)
    found = asked(mismatch, log)
    loop = by_inverse(a, p, 3, weight=log.weight, able=log.eligible)
    often = [(a == b).sum() >= 10 for b in range(3)]
    usable = {(o, b) for o, b in loop if (any(often[c] for c in range(3) if c != b) if o else often[b])}
    worst = max(sorted(usable), key=lambda key: abs(loop[key][0]) * loop[key][2])
    z, off, counts = loop[worst]
    z *= counts
    value = min(1.0, len(usable) * 2 * stats.norm.sf(abs(z)))
    assert found.value == pytest.approx(value)
    assert found.details["deviation"] == pytest.approx(off)
    assert found.details["actions"] == {b: pytest.approx(loop[False, b][0]) for b in range(3) if often[b]}
    assert found.details["method"].startswith("mean of 1{A = a} / propensity")
    if value > 0.002:
        assert found.sentence == FINE.format(value)
        assert found.level == "ok"
        return
    who, its = ((f"action {worst[1]}", "its"), (f"actions other than {worst[1]}", "their"))[worst[0]]
    was = "were" if worst[0] else "was"
    more = "more" if z > 0 else "less"
    sentence = f"{who} {was} logged {100 * off:.3g}% {more} often than {its} propensities say (p = {value:.2g})."
    known = kind == "eligible"
    if z < 0 and not known:
        sentence += " If it was not always possible, name the rows where it was with eligible=."
    assert found.sentence == sentence
    assert found.level == ("alarm" if (known or z > 0) and value < 1e-4 else "caution")
    assert found.remedy == REMEDY


def test_a_batch_of_users_who_were_drawn_before_is_left_out():
    user = np.r_[np.arange(30), np.arange(30), np.arange(30, 60)]
    log = op.BanditLog.from_arrays(
        None, user % 2, np.zeros(90), np.full(90, 0.5), cluster=user, batch=np.repeat([0, 1, 2], 30)
    )
    found = asked(mismatch, log)
    assert found.details["batches"] == {0: 1.0, 2: 1.0}
    assert found.value == 1.0


def test_a_very_unlikely_action_that_came_once():
    # 1/p of a single row is no evidence: ten rows of an action are needed, each of them likely to be among so many.
    a = np.r_[np.zeros(9, int), np.ones(200, int)]
    p = np.r_[np.full(9, 0.001), np.linspace(0.9, 0.999, 200)]
    log = op.BanditLog.from_arrays(None, a, np.zeros(209), p)
    found = asked(mismatch, log)
    assert list(found.details["actions"]) == [1]
    ten = op.BanditLog.from_arrays(None, np.r_[0, a], np.zeros(210), np.r_[0.001, p])
    assert list(asked(mismatch, ten).details["actions"]) == [1]
    likely = op.BanditLog.from_arrays(None, np.r_[0, a], np.zeros(210), np.r_[np.full(10, 0.15), p[9:]])
    assert list(asked(mismatch, likely).details["actions"]) == [0, 1]
