"""Rewards that are rare or late, actions that never came, and text that identifies."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from trust_logs import table

import offpolicy as op
from offpolicy.trust import rewards
from offpolicy.trust import weights as propensities
from offpolicy.trust.hashes import column_hashes
from offpolicy.trust.leaks import identifying, is_text, joined_levels, text_levels
from offpolicy.trust.sums import log_sums


def test_actions_that_never_came():
    log = op.BanditLog.from_arrays(None, [0, 5], np.zeros(2), actions=range(6))
    found = propensities.unlogged(log)
    assert (found.value, found.level) == (4.0, "note")
    assert found.sentence == "4 of 6 actions were never logged (1, 2, 3, …)."
    assert found.details == {"actions": [1, 2, 3, 4]}
    three = op.BanditLog.from_arrays(None, ["a"], [0.0], actions=["a", "b", "c", "d"])
    assert propensities.unlogged(three).sentence == "3 of 4 actions were never logged ('b', 'c', 'd')."
    all_of = propensities.unlogged(op.BanditLog.from_arrays(None, [0, 1], np.zeros(2)))
    assert (all_of.value, all_of.sentence) == (0.0, "all 2 actions were logged.")


def test_rewards_other_than_the_usual():
    found = rewards.rare_rewards(table([1000, 20, 9], None, action=[0, 1, 0], reward=[0.5, 3.0, 1.0]))
    assert (found.value, found.level) == (29.0, "note")
    assert found.sentence == "29 of 1,029 units have a reward other than 0.5."
    assert rewards.rare_rewards(table([1000, 21, 9], None, action=[0, 1, 0], reward=[0.5, 3.0, 1.0])).level == "ok"


# -- late rewards ----------------------------------------------------------------------------------------------------


def maturity(means, size=50, *, weight=None, cluster=None, count=None):
    """Ten rewards of 1 or 0 around each mean, batch after batch."""
    rows, batch = [], []
    for b, mean in enumerate(means):
        ones = round(mean * size)
        rows += [1.0] * ones + [0.0] * (size - ones)
        batch += [b] * size
    n = len(rows)
    log = op.BanditLog.from_arrays(
        None, np.arange(n) % 2, rows, batch=batch, weight=weight, cluster=cluster, count=count
    )
    return log, np.array(rows), np.array(batch)


def error_of(r, m, square, cluster=None):
    mean = m @ r / m.sum()
    if cluster is None:
        return mean, math.sqrt(square @ (r - mean) ** 2) / m.sum()
    return mean, math.sqrt(sum((m * (r - mean))[cluster == c].sum() ** 2 for c in set(cluster))) / m.sum()


@pytest.mark.parametrize("kind", ["plain", "weighted", "clusters", "long"])
@pytest.mark.parametrize("last", [0.5, 0.02])
def test_rewards_of_the_latest_batches_by_a_loop(kind, last):
    means = [0.5, 0.4, 0.44, 0.6, last]
    if kind == "long":
        means = [0.5, 0.4] * 12 + [0.44, last, last]  # 27 batches: three of them are the latest
    n = 50 * len(means)
    weight = np.arange(n) % 2 + 1.0 if kind == "weighted" else None
    count = np.arange(n) % 3 + 1.0 if kind == "weighted" else None
    cluster = np.arange(n) // 2 if kind == "clusters" else None
    log, r, batch = maturity(means, weight=weight, cluster=cluster, count=count)
    c, w = (np.ones(n) if x is None else x for x in (count, weight))
    m, square = c * w, c * w**2
    number = len(means)
    size = max(1, round(0.1 * number))

    def of(rows):
        return error_of(r[rows], m[rows], square[rows], None if cluster is None else cluster[rows])

    new, new_error = of(batch >= number - size)
    old, _ = of(batch < number - size)
    lowest, error = min(of((batch >= b - size) & (batch < b)) for b in range(size, number - size + 1))
    z = (new - lowest) / math.hypot(new_error, error)
    late = new < lowest and z < -3.3
    ratio = new / old
    found = rewards.maturity(log)
    assert found.details == {"ratio": pytest.approx(ratio), "lowest": pytest.approx(lowest), "z": pytest.approx(z)}
    assert found.value == pytest.approx(ratio if late else max(ratio, 1.0))
    assert late == (last < 0.1)
    assert found.sentence == (
        f"rewards of the latest batches average {new:.4g}, those of earlier batches {old:.4g} "
        f"({100 * (ratio - 1):+.3g}%), with a previous low of {lowest:.4g} (z = {z:.2g})."
    )
    assert found.level == ("alarm" if late and ratio < 0.5 else "caution" if late and ratio < 0.8 else "ok")


def test_where_time_cannot_be_looked_at():
    no_batch = op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0])
    assert rewards.maturity(no_batch).sentence == ("the log has no batches, so rewards cannot be compared over time.")
    assert rewards.maturity(maturity([0.5] * 3)[0]).sentence == "3 batches are too few to compare rewards over time."
    assert rewards.maturity(maturity([0.5] * 4)[0]).ran
    none = "the mean reward before the latest batches is not positive."
    assert rewards.maturity(maturity([0.0] * 4)[0]).sentence == none
    assert rewards.maturity(maturity([1.0] * 4)[0]).sentence == none
    gone = rewards.maturity(maturity([0.5, 0.5, 0.5, 0.5, 0.0])[0])
    assert (gone.value, gone.level, gone.details["z"]) == (0.0, "alarm", -math.inf)


# -- text --------------------------------------------------------------------------------------------------------------


def named(frame, **roles):
    log = op.BanditLog.from_frame(frame, context=["who", "x"], action="a", reward="r", **roles)
    return identifying(log, log_sums(log).levels)


def test_text_with_many_levels():
    frame = pd.DataFrame({"who": [f"u{i % 60}" for i in range(3000)], "x": 1.0, "a": [0, 1] * 1500, "r": 0.0})
    found = named(frame)
    assert (found.value, found.level) == (pytest.approx(0.02), "ok")
    assert found.sentence == "context column 'who' is text with 60 different values in 3,000 rows."
    assert found.details == {"column": "who", "levels": 60.0}
    assert named(frame[:2999]).level == "note"
    frame["who"] = [f"u{i % 50}" for i in range(3000)]
    few = named(frame)
    assert (few.value, few.sentence) == (0.0, "no text column of the context has more than 50 levels.")
    frame["who"] = [f"u{i % 51}" for i in range(3000)]
    assert named(frame).value == pytest.approx(51 / 3000)
    frame["who"] = 1.0
    assert named(frame).sentence == "the context has no text columns."
    counted = pd.DataFrame({"who": [f"u{i}" for i in range(60)], "x": 1.0, "a": [0, 1] * 30, "r": 0.0, "c": 5})
    assert named(counted, count="c").value == pytest.approx(60 / 300)
    two = pd.DataFrame(
        {
            "who": [f"u{i % 60}" for i in range(300)],
            "x": [f"v{i % 90}" for i in range(300)],
            "a": [0, 1] * 150,
            "r": 0.0,
        }
    )
    assert named(two).details["column"] == "x"


def test_what_is_text_and_what_two_blocks_know():
    late = np.array([None] * 99 + ["a"], dtype=object)
    assert is_text(late)
    assert not is_text(np.array([None] * 100 + ["a"], dtype=object))
    assert not is_text(np.arange(3))
    values = np.array(["a", "b", "a"])
    one = text_levels([("t", values, column_hashes(values)), ("n", np.arange(3), column_hashes(np.arange(3)))], 0)
    assert list(one) == ["t"]
    assert one["t"].distinct == 2.0
    other = text_levels([("t", values, column_hashes(np.array(["b", "c", "d"])))], 0)
    both = joined_levels(one, {**other, "more": other["t"]})
    assert (both["t"].distinct, both["more"].distinct) == (4.0, 3.0)
    assert joined_levels({**one, "own": one["t"]}, other)["own"].distinct == 2.0
