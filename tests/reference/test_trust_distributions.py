"""The whole logged distribution, level by level, and what is said of rounded and of certain propensities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import asked, checked_log, drawn, table

import offpolicy as op
from offpolicy.trust.balance import design_effects
from offpolicy.trust.check import CHECKS, PROPENSITIES
from offpolicy.trust.mismatch import distribution_sums, mismatch
from offpolicy.trust.weights import calibration, decimals, deterministic, rounded

EDGES = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]


def level_of(p: float) -> int:
    """Which level holds p: the lower end belongs to the one below."""
    return next(b for b in range(10) if p <= EDGES[b + 1])


def loops(whole, action, weight):
    """Expected, variance and seen, by action and by level."""
    n, k = whole.shape
    actions, levels = np.zeros((3, k)), np.zeros((3, 10))
    for i in range(n):
        for a in range(k):
            p, m = whole[i, a], weight[i]
            took = m * (action[i] == a)
            for where, at in ((actions, a), (levels, level_of(p))):
                where[:, at] += (m * p, m**2 * p * (1 - p), took)
    return actions, levels


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_the_distribution_by_a_loop(weighted):
    rows = [[0.5, 0.3, 0.1, 0.1], [0.05, 0.05, 0.2, 0.7], [0.01, 0.02, 0.07, 0.9], [0.25] * 4]
    d, whole = drawn(1, 60, k=4), np.array(rows)[np.arange(60) % 4]
    weight = np.arange(60) % 3 + 1.0 if weighted else np.ones(60)
    log = op.BanditLog.from_arrays(d["x"], d["a"], d["r"], whole, weight=weight if weighted else None)
    actions, levels = loops(whole, d["a"], weight)
    made = distribution_sums(log, weight, weight**2)
    assert made.expected == pytest.approx(actions[0])
    assert made.variance == pytest.approx(actions[1])
    assert made.levels == pytest.approx(levels)
    half = [distribution_sums(log.take(part), weight[part], weight[part] ** 2)
            for part in (np.arange(20), np.arange(20, 60))]  # fmt: skip
    both = half[0] + half[1]
    assert both.levels == pytest.approx(levels)
    assert both.variance == pytest.approx(actions[1])


def whole_log(counts, shares):
    """Rows with one distribution, and each action as often as is said."""
    k = len(counts)
    return table(counts, np.tile(shares, (k, 1)), context=np.arange(k))


def test_counts_against_the_sum_of_propensities():
    shares = [0.5, 0.3, 0.19, 0.01]
    counts = np.array([470, 350, 175, 5])
    found = asked(mismatch, whole_log(counts, shares))
    expected = 1000 * np.array(shares)
    z = (counts - expected) / np.sqrt(expected * (1 - np.array(shares)))
    value = min(1.0, 3 * 2 * stats.norm.sf(abs(z[1])))  # ten of the last are expected: too few
    assert found.details["actions"] == {a: pytest.approx(z[a]) for a in range(3)}
    assert found.value == pytest.approx(value)
    assert found.details["method"] == "counts compared with the sum of propensities"
    assert found.details["deviation"] == pytest.approx(1 / 6)
    assert found.sentence == f"action 1 was logged 16.7% more often than its propensities say (p = {value:.2g})."
    assert found.level == "caution"
    fewer = asked(mismatch, whole_log([410, 390, 195, 5], shares))
    assert fewer.level == "alarm"
    assert fewer.sentence.startswith("action 1 was logged 30% more often")
    less = asked(mismatch, whole_log([600, 200, 190, 10], shares))
    assert less.sentence.startswith("action 1 was logged 33.3% less often than its propensities say")
    assert less.level == "alarm"  # what was possible is known
    few = asked(mismatch, whole_log([20, 11, 8], [0.49, 0.3, 0.21]))
    assert few.sentence == "too few rows to compare shares of actions."
    assert asked(mismatch, whole_log([20, 12, 8], [0.5, 0.3, 0.2])).ran
    sure = asked(mismatch, table([100], [[1.0, 0.0]], actions=[0, 1]))
    assert (sure.value, sure.level) == (1.0, "ok")


def test_a_large_log_makes_a_small_deviation_a_caution():
    found = asked(mismatch, whole_log([510_000, 490_000], [0.5, 0.5]))
    assert (found.level, found.details["deviation"]) == ("caution", pytest.approx(0.02))


def test_calibration_by_level():
    shares = [0.6, 0.25, 0.15]
    counts = np.array([520, 330, 150])
    found = asked(calibration, whole_log(counts, shares))
    expected = 1000 * np.array(shares)
    z = (counts - expected) / np.sqrt(expected * (1 - np.array(shares)))
    rows = {(row["from"], row["to"]): row for row in found.details["table"]}
    assert list(rows) == [(0.1, 0.2), (0.2, 0.3), (0.5, 0.7)]
    for a, key in ((0, (0.5, 0.7)), (1, (0.2, 0.3)), (2, (0.1, 0.2))):
        assert rows[key]["expected"] == pytest.approx(expected[a])
        assert rows[key]["observed"] == counts[a]
        assert rows[key]["z"] == pytest.approx(z[a])
    value = stats.norm.isf(3 * stats.norm.sf(z[1]))
    assert found.value == pytest.approx(value)
    assert found.level == "caution"
    assert found.sentence == (
        f"actions with propensities from 0.2 to 0.3 were taken 32% more often than they should (z = {z[1]:.3g})."
    )
    assert found.remedy == PROPENSITIES
    calm = asked(calibration, whole_log([595, 255, 150], shares))
    assert (calm.value, calm.level) == (0.0, "ok")
    assert calm.sentence == "actions were taken as often as their propensities say, for propensities of every size."
    # Far beyond chance, and not more than 5%: not held against the log.
    assert asked(calibration, whole_log([620_000, 240_000, 140_000], shares)).details["table"]
    small = asked(calibration, whole_log([580_000, 262_000, 157_000], shares))
    assert (small.value, small.level) == (0.0, "ok")
    assert asked(calibration, whole_log([580_000, 263_000, 157_000], shares)).level == "alarm"


def test_calibration_needs_twenty_expected_and_a_choice():
    few = asked(calibration, whole_log([10, 9], [0.5, 0.5]))
    assert few.sentence == "too few rows to compare propensities with frequencies."
    assert asked(calibration, whole_log([10, 10], [0.5, 0.5])).ran
    assert not asked(calibration, table([100], [[1.0, 0.0]], actions=[0, 1])).ran
    unknown = checked_log("propensity_calibration", op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0]))
    assert unknown.sentence == "propensities were not logged."


def test_the_mean_of_inverse_propensities():
    p = np.r_[np.full(90, 0.5), np.full(10, 0.1)]
    a = np.arange(100) % 2
    found = asked(calibration, op.BanditLog.from_arrays(None, a, np.zeros(100), p))
    inverse = 1 / p - 2
    z = inverse.mean() / (inverse.std() / 10)
    assert found.value == pytest.approx(z)
    assert found.sentence == f"the mean of 1/propensity is 2.8, and the number of actions is 2 (z = {z:.2g})."
    assert found.details == {"mean_inverse": pytest.approx(2.8), "actions": 2.0}
    less = asked(calibration, op.BanditLog.from_arrays(None, a, np.zeros(100), np.full(100, 0.9)))
    assert (less.value, less.level) == (0.0, "ok")
    assert less.sentence == "the mean of 1/propensity is 1.111, and the number of actions is 2: no contradiction."
    same = asked(calibration, op.BanditLog.from_arrays(None, a, np.zeros(100), np.full(100, 0.4)))
    assert (same.value, same.level) == (math.inf, "alarm")
    slightly = asked(calibration, op.BanditLog.from_arrays(None, a, np.zeros(100), np.full(100, 0.48)))
    assert (slightly.value, slightly.sentence[-17:]) == (0.0, "no contradiction.")
    exact = asked(calibration, op.BanditLog.from_arrays(None, a, np.zeros(100), np.full(100, 0.5)))
    assert (exact.value, exact.sentence[-17:]) == (0.0, "no contradiction.")


def test_the_mean_of_inverse_propensities_of_those_that_were_possible():
    p = np.r_[np.full(60, 0.3), np.full(40, 0.2)]
    a = np.arange(100) % 2
    able = np.ones((100, 3), bool)
    able[:50, 2] = False
    weight = np.arange(100) % 2 + 1.0
    log = op.BanditLog.from_arrays(None, a, np.zeros(100), p, eligible=able, actions=range(3), weight=weight)
    found = asked(calibration, log)
    gap = 1 / p - able.sum(axis=1)
    total = weight.sum()
    mean, level = weight @ gap / total, weight @ able.sum(axis=1) / total
    z = mean / (math.sqrt(weight**2 @ (gap - mean) ** 2) / total)
    assert found.value == pytest.approx(z)
    assert found.details == {"mean_inverse": pytest.approx(level + mean), "actions": pytest.approx(level)}


def test_decimals_that_all_values_have():
    assert decimals(np.array([0.5, 0.25])) == 2
    assert decimals(np.array([0.1])) == 1
    assert decimals(np.array([0.1234, 0.5])) == 4
    assert decimals(np.array([0.12345])) is None
    assert decimals(np.array([0.12345]), most=5) == 5
    assert decimals(np.array([0.5 + 9e-8])) == 1
    assert decimals(np.array([0.5 + 2e-7])) is None


def test_rounded_propensities():
    p = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75])
    eight = rounded(op.BanditLog.from_arrays(None, np.arange(8) % 2, np.zeros(8), p))
    assert eight.value == pytest.approx(0.25)
    assert eight.sentence == (
        "all propensities have at most 2 decimals, so a weight may be off by up to 25% (smallest propensity 0.02)."
    )
    assert eight.details == {"decimals": 2, "distinct": 8}
    assert eight.remedy == CHECKS["rounded_propensities"].limits.remedy
    seven = rounded(op.BanditLog.from_arrays(None, np.arange(7) % 2, np.zeros(7), p[1:]))
    assert (seven.value, seven.level) == (0.0, "ok")
    assert seven.sentence == "the propensities do not look rounded."
    fine = rounded(op.BanditLog.from_arrays(None, np.arange(8) % 2, np.zeros(8), p + 1e-5))
    assert fine.value == 0.0
    unknown = op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0])
    assert checked_log("rounded_propensities", unknown).sentence == "propensities were not logged."


def test_certain_actions():
    p = np.array([1.0, 1.0 - 1e-10, 1.0 - 1e-8, 0.5])
    log = table([1, 2, 3, 4], p, action=[0, 1, 0, 1])
    found = deterministic(log)
    assert (found.value, found.level) == (pytest.approx(0.3), "note")
    assert found.sentence == "30% of rows have propensity 1, so other actions cannot be evaluated there."
    able = np.array([[True, False], [True, True], [True, True], [True, True]])
    known = deterministic(table([1, 2, 3, 4], p, action=[0, 1, 0, 1], eligible=able))
    assert known.value == pytest.approx(0.2)
    free = deterministic(table([1, 1], [0.5, 0.5]))
    assert (free.value, free.sentence) == (0.0, "the logging policy could choose in every row.")
    one = deterministic(op.BanditLog.from_arrays(None, ["b"] * 3, np.zeros(3), actions=["a", "b"]))
    assert (one.value, one.level) == (1.0, "alarm")
    assert one.sentence == "every row has the action 'b', so the value of any other action cannot be estimated."
    alone = deterministic(op.BanditLog.from_arrays(None, ["b"] * 3, np.zeros(3), np.full(3, 0.5)))
    assert alone.value == 0.0
    unknown = deterministic(op.BanditLog.from_arrays(None, [0, 1], np.zeros(2)))
    assert unknown.sentence == "propensities were not logged. Judged by the behavior model."


def test_rows_of_a_user_move_together():
    d = drawn(3, 300)
    user = np.arange(300) // 3
    a = np.where(np.arange(300) % 3 == 2, d["a"], np.repeat(d["a"][::3], 3))  # two of three rows alike
    log = op.BanditLog.from_arrays(d["x"], a, d["r"], d["whole"], cluster=user, actions=range(3))
    effects = design_effects(log)[0]
    assert effects.max() > 1.2
    expected = d["whole"].sum(axis=0)
    spread = (d["whole"] * (1 - d["whole"])).sum(axis=0)
    z = (np.bincount(a, minlength=3) - expected) / np.sqrt(spread * effects)
    assert asked(mismatch, log).details["actions"] == {b: pytest.approx(z[b]) for b in range(3)}
    levels = loops(d["whole"], a, np.ones(300))[1]
    for row in asked(calibration, log).details["table"]:
        b = EDGES.index(row["from"])
        own = (levels[2, b] - levels[0, b]) / math.sqrt(levels[1, b] * effects.max())
        assert row["z"] == pytest.approx(own)
