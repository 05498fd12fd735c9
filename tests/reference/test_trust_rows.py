"""Rows that come twice, by plain loops over pairs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import checked_log, drawn, table

import offpolicy as op
from offpolicy.trust import duplicates
from offpolicy.trust.duplicates import Twins, thinning
from offpolicy.trust.sums import log_sums


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
    assert twins.excess(0.4) == pytest.approx(excess(outer.tolist(), inner.tolist(), np.full(len(outer), 0.4)))
    pairs = [(i, j) for i, j in itertools.combinations(range(len(outer)), 2) if outer[i] == outer[j]]
    agreed = sum(inner[i] == inner[j] for i, j in pairs)
    assert twins.pairs() == (len(pairs), agreed)
    half = len(outer) // 2
    parts = [
        Twins.of(given[0][s], given[1][s], np.ones(len(outer))[s], chance[s]) for s in (slice(half), slice(half, None))
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
    assert [thinning(n) for n in (0, 1, 2**17, 2**17 + 1, 2**18, 2**18 + 1, 2**20)] == [0, 0, 0, 2, 2, 3, 4]
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


def both(log):
    """Copies of rows, and near copies."""
    sums = log_sums(log)
    return duplicates.duplicates(log, sums), duplicates.near_duplicates(log, sums)


def checked(log):
    return {f.name: f for f in both(log)}


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
        f"{100 * share:.3g}% of rows are copies of another row: otherwise equal rows have the "
        f"same action far more often than their propensities allow (z = {z:.3g})."
    )
    jittered = x[again].copy()
    jittered[300:, 2] += 1e-3
    found = checked(op.BanditLog.from_arrays(jittered, *rows[1:]))
    assert found["duplicates"].value == 0.0
    near = found["near_duplicates"]
    assert near.details["column"] == "column 2"
    assert near.value == pytest.approx(share)
    assert near.sentence.startswith(
        f"{100 * share:.3g}% of rows are copies of another row except in column 'column 2':"
    )
    clean = checked(op.BanditLog.from_arrays(x, d["a"], d["r"], d["p"]))
    calm = "equal rows have the same action no more often than expected by chance."
    assert [f.sentence for f in clean.values()] == [calm, calm]
    assert [f.value for f in clean.values()] == [0.0, 0.0]


def test_copies_are_believed_beyond_four_standard_errors():
    made = duplicates._copies("duplicates", [(None, 4.01, 0.2)])
    assert (made.value, made.level) == (0.2, "alarm")
    assert duplicates._copies("duplicates", [(None, 4.0, 0.2)]).value == 0.0
    several = duplicates._copies("near_duplicates", [("a", 1.0, 0.1), ("b", 4.05, 0.2)])
    assert (several.value, several.details["column"]) == (0.0, "b")
    assert duplicates._copies("near_duplicates", [("a", -9.0, 0.1)]).value == 0.0
    assert duplicates._copies("near_duplicates", []).sentence == (
        "there are no context columns to leave out one by one."
    )


def test_where_copies_are_not_looked_for():
    d = drawn(2, 60)
    alike = "rows of a cluster may be equal; the standard error allows for it."
    clusters = checked(op.BanditLog.from_arrays(d["x"], d["a"], d["r"], cluster=np.arange(60) // 2))
    assert [f.sentence for f in clusters.values()] == [alike, alike]
    price = op.BanditLog.from_arrays(d["x"], d["x"], d["r"], np.ones(60), action_kind="continuous")
    assert checked(price)["near_duplicates"].sentence == "this check is for actions that are labels."
    assert checked(price)["duplicates"].value == 0.0
    twice = np.r_[np.arange(60), np.arange(15)]
    doubled = op.BanditLog.from_arrays(
        d["x"][twice], d["x"][twice], d["r"][twice], np.ones(75), action_kind="continuous"
    )
    assert checked(doubled)["duplicates"].value == pytest.approx(15 / 75)
    assert checked(doubled)["duplicates"].sentence == "20% of rows repeat an earlier one."
    coarse = op.BanditLog.from_arrays(
        np.zeros(60), np.arange(60) % 19 * 1.0, d["r"], np.ones(60), action_kind="continuous"
    )
    assert checked(coarse)["duplicates"].sentence == "contexts and actions repeat, so equal rows are normal."
    third = op.BanditLog.from_arrays(
        np.zeros(60), np.arange(60) % 20 * 1.0, d["r"], np.ones(60), action_kind="continuous"
    )
    assert checked(third)["duplicates"].ran


def test_chance_agreement_without_propensities():
    log = table([6, 3, 1], None, action=[0, 1, 1], reward=[0.0, 1.0, 1.0])
    action, reward = np.array([0.6, 0.4]), np.array([0.6, 0.4])
    expected = (action @ (1 + action)) / 2 * (reward @ (1 + reward)) / 2
    assert duplicates._agreement(log) == pytest.approx(expected)
    rare = table([1980, 19, 1], None, action=[0, 1, 2], reward=np.zeros(3))
    assert duplicates._agreement(rare) == pytest.approx(0.99 * 1.99 / 2)
    one = table([99, 1], None, action=[0, 1], reward=np.zeros(2))
    shares = np.array([0.99, 0.01])
    assert duplicates._agreement(one) == pytest.approx(shares @ (1 + shares) / 2)


def test_episodes_that_repeat():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(20, 2))
    again = np.r_[np.arange(20), np.arange(5)]
    actions, rewards = np.arange(40).reshape(20, 2) % 2, np.arange(40.0).reshape(20, 2)
    log = op.Trajectories.from_arrays(states[again], actions[again], rewards[again])
    whole, near = (checked_log(name, log) for name in ("duplicates", "near_duplicates"))
    assert (whole.name, whole.value) == ("duplicates", pytest.approx(5 / 25))
    assert whole.sentence == "20% of episodes repeat an earlier one step by step."
    assert (near.name, near.sentence) == ("near_duplicates", "this check is for single decisions.")
    coarse = op.Trajectories.from_arrays(np.arange(40).reshape(20, 2) % 3 * 1.0, actions, rewards)
    assert checked_log("duplicates", coarse).sentence == ("states repeat, so equal episodes are normal.")
