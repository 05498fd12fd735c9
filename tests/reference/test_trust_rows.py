"""Checks of rows and rewards: copies, leaks, text columns, rare and late rewards, by plain loops over pairs."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.trust import leaks, log_side
from offpolicy.trust.sums import log_sums
from offpolicy.trust.thresholds import THRESHOLDS
from offpolicy.trust.twins import Twins, thinning

sys.path.insert(0, str(Path(__file__).parent))

from trust_logs import drawn, table


def normal(z, units):
    return math.copysign(-stats.norm.ppf(stats.t.cdf(-abs(z), units - 1)), z)


# -- copies ----------------------------------------------------------------------------------------------------------


def excess(outer, inner, chance):
    """z and share of copies, pair by pair."""
    groups = {}
    for i, key in enumerate(outer):
        groups.setdefault(key, []).append(i)
    t, pairs, expected, null = [], 0.0, 0.0, 0.0
    for rows in groups.values():
        if len(rows) < 2:
            continue
        each = list(itertools.combinations(rows, 2))
        likely = sum((chance[i] + chance[j]) / 2 for i, j in each)
        t.append(sum(inner[i] == inner[j] for i, j in each) - likely)
        pairs, expected = pairs + len(each), expected + likely
        null += likely * (1 - likely / len(each))
    t = np.array(t)
    z = t.sum() / math.sqrt(max((t**2).sum(), null))
    return normal(z, max(2, len(t))), max(0.0, t.sum() / (pairs - expected) * pairs / len(outer))


@pytest.mark.parametrize("copied", [0, 25])
def test_pairs_of_rows_that_agree_by_a_loop(copied):
    rng = np.random.default_rng(4)
    outer, inner = rng.integers(40, size=120), rng.integers(3, size=120)
    chance = rng.choice([0.2, 0.5, 0.3], size=120)
    outer, inner, chance = (np.r_[x, x[:copied]] for x in (outer, inner, chance))
    z, share = excess(outer.tolist(), inner.tolist(), chance)
    given = [np.asarray(x).astype(np.uint64) for x in (outer, inner)]
    twins = Twins.of(*given, np.ones(len(outer)), chance)
    assert twins.excess() == pytest.approx((z, share))
    assert twins.excess(0.4) == pytest.approx(
        excess(outer.tolist(), inner.tolist(), np.full(len(outer), 0.4))
    )
    pairs = [
        (i, j) for i, j in itertools.combinations(range(len(outer)), 2) if outer[i] == outer[j]
    ]
    agreed = sum(inner[i] == inner[j] for i, j in pairs)
    assert twins.pairs() == (len(pairs), agreed)
    half = len(outer) // 2
    parts = [
        Twins.of(given[0][s], given[1][s], np.ones(len(outer))[s], chance[s])
        for s in (slice(half), slice(half, None))
    ]
    both = parts[0] + parts[1]
    assert both.excess() == pytest.approx((z, share))
    assert both.outer.tolist() == twins.outer.tolist()


def test_rows_that_stand_for_several():
    one = np.array([5, 5, 9], dtype=np.uint64)
    act = np.array([1, 2, 1], dtype=np.uint64)
    twins = Twins.of(one, act, np.array([3.0, 2.0, 4.0]), np.array([1.5, 1.0, 2.0]))
    assert twins.pairs() == (10 + 6, 3 + 1 + 6)
    every = (np.repeat([5, 5, 9], [3, 2, 4]), np.repeat([1, 2, 1], [3, 2, 4]), np.full(9, 0.5))
    assert twins.excess() == pytest.approx(excess(*(x.tolist() for x in every)))


def test_no_pairs_say_nothing():
    nothing = np.empty(0, dtype=np.uint64)
    empty = Twins.of(nothing, nothing, np.empty(0), np.empty(0))
    assert (empty.pairs(), empty.excess()) == ((0.0, 0.0), (0.0, 0.0))
    apart = np.arange(4).astype(np.uint64)
    assert Twins.of(apart, apart, np.ones(4), np.full(4, 0.5)).excess() == (0.0, 0.0)
    # Always the same action, by a probability of 1: nothing to tell copies by.
    same = np.zeros(4, dtype=np.uint64)
    assert Twins.of(same, same, np.ones(4), np.ones(4)).excess() == (0.0, 0.0)
    never = Twins.of(same, apart, np.ones(4), np.zeros(4))
    assert never.excess() == (0.0, 0.0)


def test_only_some_of_many_rows_are_compared():
    assert [thinning(n) for n in (0, 1, 2**17, 2**17 + 1, 2**18, 2**18 + 1, 2**20)] == [
        0,
        0,
        0,
        2,
        2,
        3,
        4,
    ]
    outer = np.random.default_rng(1).integers(2**63, size=4000).astype(np.uint64)
    all_of = Twins.of(outer, outer, np.ones(4000), np.zeros(4000))
    some = Twins.of(outer, outer, np.ones(4000), np.zeros(4000), bits=3)
    assert some.bits == 3
    assert 400 < len(some.outer) < 600
    assert set(some.outer.tolist()) <= set(all_of.outer.tolist())
    mask = (1 << 64) - 1
    kept = sum(((int(h) * 0x9E3779B97F4A7C15) & mask) < 1 << 61 for h in outer)
    assert len(some.outer) == kept
    assert (some + some).bits == 3


def checked(log):
    return {f.name: f for f in log_side.duplicates(log, log_sums(log))}


def test_copies_of_rows_and_of_all_but_a_column():
    d = drawn(2, 300)
    x = np.column_stack([d["x"], np.arange(300) % 7, np.random.default_rng(0).random(300)])
    again = np.r_[np.arange(300), np.arange(60)]
    rows = (x[again], d["a"][again], d["r"][again], d["p"][again])
    found = checked(op.BanditLog.from_arrays(*rows))
    z, share = excess([tuple(r) for r in x[again].tolist()], d["a"][again].tolist(), d["p"][again])
    whole = found["duplicates"]
    assert whole.value == pytest.approx(share)
    assert whole.details == {"z": pytest.approx(z), "column": None}
    assert whole.sentence == (
        f"{100 * share:.3g}% of the rows are copies of another one: rows that agree in all else took the same action "
        f"far more often than their propensities make likely (z = {z:.3g})."
    )
    jittered = x[again].copy()
    jittered[300:, 2] += 1e-3
    found = checked(op.BanditLog.from_arrays(jittered, *rows[1:]))
    assert found["duplicates"].value == 0.0
    near = found["near_duplicates"]
    assert near.details["column"] == "column 2"
    assert near.value == pytest.approx(share)
    assert near.sentence.startswith(
        f"{100 * share:.3g}% of the rows are copies of another one but for column 'column 2':"
    )
    clean = checked(op.BanditLog.from_arrays(x, d["a"], d["r"], d["p"]))
    calm = "rows that are alike took the same action no more often than chance makes likely."
    assert [f.sentence for f in clean.values()] == [calm, calm]
    assert [f.value for f in clean.values()] == [0.0, 0.0]


def test_copies_are_believed_beyond_four_standard_errors():
    made = log_side._copies("duplicates", [(None, 4.01, 0.2)])
    assert (made.value, made.level) == (0.2, "alarm")
    assert log_side._copies("duplicates", [(None, 4.0, 0.2)]).value == 0.0
    several = log_side._copies("near_duplicates", [("a", 1.0, 0.1), ("b", 4.05, 0.2)])
    assert (several.value, several.details["column"]) == (0.0, "b")
    assert log_side._copies("near_duplicates", [("a", -9.0, 0.1)]).value == 0.0
    assert log_side._copies("near_duplicates", []).sentence == (
        "there are no context columns to leave out one by one."
    )


def test_where_copies_are_not_looked_for():
    d = drawn(2, 60)
    alike = "rows of a cluster may be alike; the standard error allows for it."
    clusters = checked(op.BanditLog.from_arrays(d["x"], d["a"], d["r"], cluster=np.arange(60) // 2))
    assert [f.sentence for f in clusters.values()] == [alike, alike]
    price = op.BanditLog.from_arrays(d["x"], d["x"], d["r"], np.ones(60), action_kind="continuous")
    assert checked(price)["near_duplicates"].sentence == "looked for among labels only."
    assert checked(price)["duplicates"].value == 0.0
    twice = np.r_[np.arange(60), np.arange(15)]
    doubled = op.BanditLog.from_arrays(
        d["x"][twice], d["x"][twice], d["r"][twice], np.ones(75), action_kind="continuous"
    )
    assert checked(doubled)["duplicates"].value == pytest.approx(15 / 75)
    assert checked(doubled)["duplicates"].sentence == "20% of the rows repeat an earlier one."
    coarse = op.BanditLog.from_arrays(
        np.zeros(60), np.arange(60) % 19 * 1.0, d["r"], np.ones(60), action_kind="continuous"
    )
    assert (
        checked(coarse)["duplicates"].sentence
        == "contexts and actions repeat, so equal rows are to be expected."
    )
    third = op.BanditLog.from_arrays(
        np.zeros(60), np.arange(60) % 20 * 1.0, d["r"], np.ones(60), action_kind="continuous"
    )
    assert checked(third)["duplicates"].ran


def test_chance_agreement_without_propensities():
    log = table([6, 3, 1], None, action=[0, 1, 1], reward=[0.0, 1.0, 1.0])
    action, reward = np.array([0.6, 0.4]), np.array([0.6, 0.4])
    expected = (action @ (1 + action)) / 2 * (reward @ (1 + reward)) / 2
    assert log_side._agreement(log) == pytest.approx(expected)
    rare = table([1980, 19, 1], None, action=[0, 1, 2], reward=np.zeros(3))
    assert log_side._agreement(rare) == pytest.approx(0.99 * 1.99 / 2)
    one = table([99, 1], None, action=[0, 1], reward=np.zeros(2))
    shares = np.array([0.99, 0.01])
    assert log_side._agreement(one) == pytest.approx(shares @ (1 + shares) / 2)


# -- leaks -------------------------------------------------------------------------------------------------------------


def leak(context, reward, **options):
    n = len(reward)
    log = op.BanditLog.from_arrays(context, np.arange(n) % 2, reward, np.full(n, 0.5), **options)
    return leaks.finding(log, log_sums(log).leaks)


def test_a_column_that_is_the_reward():
    rng = np.random.default_rng(1)
    r = rng.normal(size=200)
    weight = np.arange(200) % 3 + 1.0
    x = np.column_stack([rng.normal(size=200), 3 - 2 * r, rng.normal(size=200)])
    found = leak(x, r, weight=weight)
    assert (found.value, found.level, found.decides) == (1.0, "alarm", True)
    assert found.details == {"column": "column 1", "correlation": pytest.approx(1.0)}
    assert found.sentence == (
        "the context column 'column 1' is the reward but for a linear map: no policy can have seen it when it chose, "
        "and a model that sees it predicts without error."
    )
    assert found.remedy == THRESHOLDS["leaks"].remedy
    log = op.BanditLog.from_arrays(x, np.arange(200) % 2, r, weight=weight)
    squares = leaks.correlations(log_sums(log).leaks)
    for j in range(3):
        c = np.cov(x[:, j], r, aweights=weight)
        assert squares[j] == pytest.approx(c[0, 1] ** 2 / (c[0, 0] * c[1, 1]))
    noise = rng.normal(size=200)
    for size, same in ((0.025, True), (0.045, False)):
        made = leak(r + size * noise, r)
        square = np.corrcoef(r + size * noise, r)[0, 1] ** 2
        assert (square > 0.999, made.value) == (same, float(same))


def test_a_column_that_determines_the_reward():
    levels = np.arange(300) % 6
    r = (levels % 3 == 0) * 1.0
    found = leak(levels * 1.0, r)
    assert found.value == 1.0
    assert "the context column 'column 0' determines the reward: no policy" in found.sentence
    mixed = r.copy()
    mixed[:40] = 1 - mixed[:40]
    calm = leak(levels * 1.0, mixed)
    assert (calm.value, calm.sentence) == (0.0, "no context column determines the reward.")
    assert leak(None, r).sentence == "the context has no columns."
    assert leak(levels * 1.0, np.full(300, 2.0)).sentence == "rewards do not vary."
    text = leak(np.array([f"v{x}" for x in levels]), r)
    assert text.value == 1.0
    assert text.details["correlation"] == 0.0
    part = np.where(np.arange(300) % 4 == 0, np.nan, 2 * np.random.default_rng(0).normal(size=300))
    known = np.isfinite(part)
    noisy = np.where(known, part, 7.0) + np.random.default_rng(1).normal(size=300)
    gaps = op.BanditLog.from_arrays(part, np.arange(300) % 2, noisy)
    square = np.corrcoef(part[known], noisy[known])[0, 1] ** 2
    assert leaks.correlations(log_sums(gaps).leaks)[0] == pytest.approx(square)
    missing = np.where(levels == 0, np.nan, 5.0)
    assert leak(missing, r).value == 0.0


def pairs_of(sizes, agree):
    """Twins of groups of so many rows, of which so many agree with each other."""
    outer, inner, count = [], [], []
    for g, (size, alike) in enumerate(zip(sizes, agree, strict=True)):
        outer += [g, g] if alike < size else [g]
        inner += [1, 2] if alike < size else [1]
        count += [alike, size - alike] if alike < size else [size]
    as_hash = [np.array(x, dtype=np.uint64) for x in (outer, inner)]
    return Twins.of(*as_hash, np.array(count, float), np.zeros(len(count)))


def test_how_many_pairs_it_takes():
    determined = leaks._determined
    assert determined(pairs_of([12], [12]), 0.5) == 1.0  # 66 pairs, 33 expected to differ
    assert determined(pairs_of([11], [11]), 0.5) == 0.0  # 55 pairs: 27.5
    assert (
        determined(pairs_of([5] * 6, [5] * 6), 0.5) == 1.0
    )  # 60 pairs: 30, and five rows share a value
    assert determined(pairs_of([5] * 6, [5] * 6), 0.499) == 0.0
    assert (
        determined(pairs_of([5] * 10, [5] * 10), 0.5) == 1.0
    )  # five rows share a value: 100 pairs of 50 rows
    assert (
        determined(pairs_of([4] * 40, [4] * 40), 0.5) == 0.0
    )  # copies of rows agree in everything
    assert determined(pairs_of([5, 4] * 40, [5, 4] * 40), 0.5) == 0.0
    # Up to 1% of those that are expected to differ may: 100 rows have 4,950 pairs.
    assert determined(pairs_of([100] * 4, [100, 100, 100, 99]), 0.5) == 1.0  # 99 of 9,900
    assert determined(pairs_of([100] * 4, [100, 100, 100, 99]), 0.499) == 0.0
