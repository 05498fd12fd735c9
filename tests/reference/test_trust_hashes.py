"""Hashes of rows, their counts and digests, with Python's own integers."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest
from trust_logs import drawn

import offpolicy as op
from offpolicy.trust.hashes import (
    Digest,
    HashCounts,
    _value_hash,
    beside_context,
    column_hashes,
    joined,
    mixed,
    row_hashes,
    text_hash,
    unit_hashes,
)

MASK = (1 << 64) - 1
MISSING = 0x9E3779B97F4A7C15


def splitmix(bits):
    """The finalizer of splitmix64 with Python's integers."""
    bits ^= bits >> 30
    bits = bits * 0xBF58476D1CE4E5B9 & MASK
    bits ^= bits >> 27
    bits = bits * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def of_text(text):
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def of_number(x):
    return splitmix(int(np.float64(x).view(np.uint64)))


def test_mixing_is_splitmix():
    bits = np.array([0, 1, 2**40 + 7, MASK], dtype=np.uint64)
    assert mixed(bits).tolist() == [splitmix(int(b)) for b in bits]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", of_text("a")), ("nan", of_text("nan")), (None, MISSING), (float("nan"), MISSING), (pd.NA, MISSING),
        (pd.NaT, MISSING), (True, of_number(1.0)), (3, of_number(3.0)), (-0.0, of_number(0.0)),
        (Decimal("2.5"), of_number(2.5)), (np.float32(0.5), of_number(0.5)), (np.bool_(True), of_number(1.0)),
        (dt.date(1970, 1, 2), splitmix(86_400_000_000)),
        (dt.datetime.fromisoformat("1970-01-01T00:00:01"), splitmix(1_000_000)),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), splitmix(0)), (b"x", of_text("b'x'")),
    ],
)  # fmt: skip
def test_hashes_of_values(value, expected):
    assert _value_hash(value) == expected


def test_columns_of_every_kind_have_the_same_hashes():
    numbers = np.array([1.0, np.nan, 2.5])
    assert column_hashes(numbers).tolist() == [of_number(1.0), MISSING, of_number(2.5)]
    objects = np.array([1, None, "b", "b", True, 1.0], dtype=object)
    assert column_hashes(objects).tolist() == [
        of_number(1.0), MISSING, of_text("b"), of_text("b"), of_number(1.0), of_number(1.0)
    ]  # fmt: skip
    days = np.array(["1970-01-02", "NaT"], dtype="datetime64[D]")
    assert column_hashes(days).tolist() == [splitmix(86_400_000_000), MISSING]
    spans = np.array([3, "NaT"], dtype="timedelta64[s]")
    assert column_hashes(spans).tolist() == [splitmix(3_000_000), MISSING]
    one, two = column_hashes(np.arange(2.0)), column_hashes(np.array(["x", "y"]))
    expected = [splitmix(splitmix(MISSING ^ int(a)) ^ int(b)) for a, b in zip(one, two, strict=True)]
    assert joined([one, two], 2).tolist() == expected


def test_a_row_is_all_that_is_said_of_it():
    d = drawn(1, 12)
    able = np.ones((12, 3), bool)
    roles = {
        "batch": np.arange(12) // 4,
        "cluster": np.arange(12) // 2,
        "weight": np.arange(12) % 2 + 1.0,
        "eligible": able,
    }
    log = op.BanditLog.from_arrays(d["x"], d["a"], d["r"], d["whole"], actions=range(3), **roles)
    context = [splitmix(MISSING ^ of_number(x)) for x in d["x"]]

    def row(i):
        out = context[i]
        whole, could = MISSING, MISSING
        for a in range(3):
            whole = splitmix(whole ^ of_number(d["whole"][i, a]))
            could = splitmix(could ^ of_number(1.0))
        parts = {
            "action": of_number(d["a"][i]), "reward": of_number(d["r"][i]), "distribution": whole, "eligible": could,
            "batch": of_number(i // 4), "cluster": of_number(float(log.units[i])), "weight": of_number(i % 2 + 1.0),
        }  # fmt: skip
        for name, value in parts.items():
            out = splitmix(out ^ value ^ of_text(name))
        return out

    made = row_hashes(log)
    assert made.tolist() == [row(i) for i in range(12)]
    assert unit_hashes(log, made).tolist() == made.tolist()
    beside = [x.tolist() for x in beside_context(log)]
    assert beside == [[of_number(i // 4) for i in range(12)], [of_number(i % 2 + 1.0) for i in range(12)],
                      *[[of_number(1.0)] * 12] * 3]  # fmt: skip


def test_counts_of_hashes():
    given = np.array([3, 3, 5, MASK], dtype=np.uint64)
    counts = HashCounts.of(given, np.array([1.0, 2.0, 4.0, 1.0]))
    assert (counts.hashes.tolist(), counts.counts.tolist(), counts.bits) == ([3, 5, MASK], [3.0, 4.0, 1.0], 0)
    assert counts.repeated_share == pytest.approx(5 / 8)
    half = HashCounts.of(given, np.ones(4), bits=1)
    assert (half.hashes.tolist(), half.distinct) == ([3, 5], 4.0)
    assert (half + counts).bits == 1
    nothing = HashCounts.of(np.empty(0, dtype=np.uint64), np.empty(0))
    assert (nothing.distinct, math.isnan(nothing.repeated_share)) == (0.0, True)
    edge = np.array([2**63 - 1, 2**63], dtype=np.uint64)
    assert HashCounts.of(edge, np.ones(2), bits=1).hashes.tolist() == [2**63 - 1]


def test_many_different_hashes_are_thinned():
    many = mixed(np.arange(2**17 + 1, dtype=np.uint64))
    counts = HashCounts.of(many, np.ones(len(many)))
    assert counts.bits == 1
    assert counts.hashes.tolist() == sorted(h for h in many.tolist() if h < 2**63)
    assert counts.distinct == 2 * len(counts.hashes)
    whole = HashCounts.of(many[:-1], np.ones(len(many) - 1))
    assert (whole.bits, whole.distinct) == (0, 2.0**17)


def test_digests_add_up():
    rows = np.array([7, 8, MASK], dtype=np.uint64)
    count = np.array([2.0, 1.0, 3.0])
    expected = [
        sum(splitmix(int(h) ^ of_text(seed)) * int(c) for h, c in zip(rows, count, strict=True)) & MASK
        for seed in ("first", "second")
    ]
    whole = Digest.of(rows, count)
    assert [whole.first, whole.second] == expected
    parts = Digest.of(rows[:1], count[:1]) + Digest.of(rows[1:], count[1:])
    assert parts == whole
    assert str(whole) == f"{expected[0]:016x}{expected[1]:016x}"
    assert text_hash("first") == of_text("first")


def test_an_episode_is_its_steps():
    states, actions = np.arange(6.0).reshape(2, 3), np.array([[0, 1, 0], [1, 1, 0]])
    rewards, given = np.arange(6.0).reshape(2, 3) / 2, np.full((2, 3), 0.5)
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=given, weight=[1.0, 2.0])
    made = row_hashes(log)
    total = [0, 0]
    for i in range(6):
        u, t = divmod(i, 3)
        out = splitmix(MISSING ^ of_number(float(i)))
        parts = {
            "action": of_number(actions[u, t]), "reward": of_number(rewards[u, t]), "step": of_number(t),
            "propensity": of_number(0.5), "weight": of_number(u + 1.0),
        }  # fmt: skip
        for name, value in parts.items():
            out = splitmix(out ^ value ^ of_text(name))
        assert int(made[i]) == out
        total[u] = (total[u] + out) & MASK
    assert unit_hashes(log, made).tolist() == [splitmix(x) for x in total]


def test_several_metrics_in_any_order():
    one = op.BanditLog.from_arrays(None, [0, 1], {"a": [1.0, 2.0], "b": [3.0, 4.0]})
    two = op.BanditLog.from_arrays(None, [0, 1], {"b": [3.0, 4.0], "a": [1.0, 2.0]})
    other = op.BanditLog.from_arrays(None, [0, 1], {"a": [3.0, 4.0], "b": [1.0, 2.0]})
    assert row_hashes(one).tolist() == row_hashes(two).tolist()
    assert set(row_hashes(one).tolist()).isdisjoint(row_hashes(other).tolist())


def test_contexts_of_a_table_are_counted_where_they_come():
    from offpolicy.trust.sums import _context_counts

    table = np.array([9, 5, 7, 5], dtype=np.uint64)
    rows = _context_counts(table, None, None, 0)
    assert (rows.hashes.tolist(), rows.counts.tolist()) == ([5, 7, 9], [2.0, 1.0, 1.0])
    counted = _context_counts(table, None, np.array([1.0, 2.0, 3.0, 4.0]), 0)
    assert counted.counts.tolist() == [6.0, 3.0, 1.0]
    index = np.array([0, 0, 2])
    used = _context_counts(table, index, None, 0)  # the others never came
    assert (used.hashes.tolist(), used.counts.tolist()) == ([7, 9], [1.0, 2.0])
    assert _context_counts(table, index, np.array([0.5, 2.0, 3.0]), 0).counts.tolist() == [3.0, 2.5]
