"""Balance of contexts, design effects, bins of numbers, and draws, by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import checked_log, drawn, table

import offpolicy as op
from offpolicy.trust.balance import balance_sums, binned, design_effects, features, finding
from offpolicy.trust.check import CHECKS
from offpolicy.trust.hashes import column_hashes, table_columns
from offpolicy.trust.moments import symmetric
from offpolicy.trust.view import decision_mass, draws_of


def asked(log):
    return finding(log, balance_sums(log, table_columns(log)), whole=log.distribution is not None)


def loop(h, action, k, p, *, whole=None, able=None, weight=None):
    """{(side, action): (z, size)} row by row: of the mean (side 0), and of an excess of large or small values."""
    n = len(h)
    m = np.ones(n) if weight is None else weight
    center = sum(m * h) / sum(m)
    sd = math.sqrt(sum(m * (h - center) ** 2) / sum(m))
    out = {}
    for side in (0,) if whole is not None else (0, 1, -1):
        for a in range(k):
            gap = spread = level = level_spread = 0.0
            for i in range(n):
                f = ((h[i] - center) / sd + side) ** 2 if side else h[i] - center
                if whole is not None:
                    g, v = (action[i] == a) - whole[i, a], whole[i, a] * (1 - whole[i, a])
                else:
                    could = 1.0 if able is None else float(able[i, a])
                    seen = action[i] == a and p[i] >= 30 / n
                    g = seen / p[i] - could
                    v = seen * (1 / p[i] ** 2 - 2 / p[i]) + could
                gap += m[i] * g * f
                spread += m[i] ** 2 * v * f**2
                level, level_spread = level + m[i] * g, level_spread + m[i] ** 2 * v
            z, size = gap / math.sqrt(spread), abs(gap) / (sum(m) * (2 if side else sd))
            if side == 0 and whole is None:
                tail = ((action == a) & (p < 30 / n)).any()
                seldom = able is None and level / math.sqrt(level_spread) <= -3
                if tail or seldom:
                    continue
                off = 1 / p[action == a] - 1
                skew = (off**3).sum() / ((off**2).sum() + (action != a).sum()) ** 1.5
                z = max(0.0, min(abs(z), -symmetric(-abs(z), skew)))
            out[side, a] = (z if side else abs(z), size)
    return out


@pytest.mark.parametrize("kind", ["one", "whole", "eligible", "weight"])
@pytest.mark.parametrize("spoil", [False, True])
def test_out_of_balance_by_a_loop(kind, spoil):
    d = drawn(7, 300)
    x, a, p, whole = d["x"], d["a"], d["p"], d["whole"]
    if spoil:  # a column that was written after the action
        x = x + 0.9 * (a == 2)
    able, weight = None, None
    if kind == "eligible":
        able = np.ones((300, 3), bool)
        able[(np.arange(300) % 5 == 0) & (a != 1), 1] = False
    if kind == "weight":
        weight = np.arange(300) % 3 + 1.0
    given = whole if kind == "whole" else p
    log = op.BanditLog.from_arrays(x, a, d["r"], given, eligible=able, weight=weight)
    found = asked(log)
    table_of = loop(np.arcsinh(x), a, 3, p, whole=whole if kind == "whole" else None, able=able, weight=weight)
    worst = max(table_of, key=lambda key: table_of[key][0])
    (side, label), (z, off) = worst, table_of[worst]
    tests = found.details["tests"]
    as_normal = -stats.norm.ppf(stats.t.cdf(-z, 299))
    value = min(1.0, tests * (1 if side else 2) * stats.norm.sf(as_normal))
    assert tests == len(table_of)
    assert found.details["z"] == pytest.approx(z)
    assert found.details["off"] == pytest.approx(off)
    assert (found.details["column"], found.details["action"]) == ("column 0", label)
    assert found.value == pytest.approx(value)
    if value >= 0.001:
        assert not spoil
        assert found.level == "ok"
        assert found.sentence == (
            f"after weighting, context columns have the same means for every action (p = {value:.2g} "
            f"of {tests} comparisons)."
        )
    else:
        assert spoil
        assert found.level == ("alarm" if value < 1e-4 else "caution")
        assert found.remedy == CHECKS["balance"].limits.remedy
        said = f"{'large' if side > 0 else 'small'} values are {100 * off:.3g}% too frequent"
        if side == 0:
            said = f"its mean is off by {off:.2g} standard deviations"
        assert found.sentence == (
            f"column 'column 0' is out of balance: among rows of action {label}, weighted by "
            f"1/propensity, {said} (p = {value:.2g} of {tests} comparisons)."
        )


def test_what_is_significant_and_small_is_a_note():
    # Two actions at one half, and a column whose mean differs by little among very many rows.
    counts, x = np.array([506_000, 500_000, 500_000, 506_000]), np.array([0.0, 1.0, 0.0, 1.0])
    log = table(counts, np.full(4, 0.5), action=[0, 0, 1, 1], context=x)
    found = asked(log)
    share = 1_006_000 / 2_012_000
    off = abs((506_000 - 500_000) / 2_012_000 * share * 2) / 0.5
    assert found.details["off"] == pytest.approx(off, rel=0.01)
    assert (found.level, found.value < 0.001) == ("note", True)
    more = np.array([520_000, 500_000, 500_000, 520_000])
    assert asked(table(more, np.full(4, 0.5), action=[0, 0, 1, 1], context=x)).level == "alarm"


def test_where_there_is_nothing_to_balance():
    a, r = np.arange(80) % 2, np.zeros(80)
    half = np.full(80, 0.5)
    assert checked_log("balance", op.BanditLog.from_arrays(None, a, r)).sentence == "propensities were not logged."
    assert asked(op.BanditLog.from_arrays(None, a, r, half)).sentence == "the context has no columns."
    same = asked(op.BanditLog.from_arrays(np.full(80, 3.0), a, r, half))
    assert same.sentence == "no column varies enough to compare it between actions."
    x = np.arange(80.0) % 7
    assert asked(op.BanditLog.from_arrays(x, a, r, half)).ran
    few = asked(op.BanditLog.from_arrays(x[:59], a[:59], r[:59], half[:59]))
    assert few.details["tests"] == 2  # an excess on either side: thirty rows of one action, 29 of the other
    assert not asked(op.BanditLog.from_arrays(x[:58], a[:58], r[:58], half[:58])).ran
    assert asked(op.BanditLog.from_arrays(1e4 + 1e-9 * x, a, r, half)).ran is False
    small, usual = (asked(op.BanditLog.from_arrays(unit * x, a, r, half)) for unit in (1e-9, 1e-6))
    assert small.value == pytest.approx(usual.value)


def test_too_few_rows_of_an_action_contradict_nothing():
    # 40 rows of action 2 at propensity 0.5 among 400: it was possible in some contexts only.
    a = np.r_[np.zeros(180, int), np.ones(180, int), np.full(40, 2)]
    p = np.r_[np.full(360, 0.45), np.full(40, 0.5)]
    x = np.r_[np.arange(360) % 11, np.full(20, 3.0), np.full(20, 4.0)]
    log = op.BanditLog.from_arrays(x, a, np.zeros(400), p)
    made = balance_sums(log, table_columns(log))
    assert made.gap[0, :, 0] == pytest.approx([0.0, 0.0, 80 - 400])
    assert asked(log).level == "ok"


def test_functions_of_the_context():
    numbers, labels = np.array([0.0, -2.0, np.inf, np.nan]), np.array(["a", "b", "c", "a"])
    hashes = column_hashes(labels)
    made = features([("x", numbers, column_hashes(numbers)), ("who", labels, hashes)])
    assert [name for name, _ in made] == ["x", "who", "who"]
    assert made[0][1].tolist() == [0.0, np.arcsinh(-2.0), 0.0, 0.0]
    for (_, signs), bit in zip(made[1:], (40, 52), strict=True):
        assert signs.tolist() == [(int(h) >> bit) & 1 for h in hashes]


def test_sums_of_two_blocks_add_up():
    d = drawn(5, 90)
    log = op.BanditLog.from_arrays(d["x"], d["a"], d["r"], d["p"])
    whole = balance_sums(log, table_columns(log))
    parts = [log.take(rows) for rows in (np.arange(30), np.arange(30, 90))]
    one, two = (balance_sums(part, table_columns(part), 90.0) for part in parts)
    for name in ("level", "gap", "spread"):
        assert getattr(one + two, name) == pytest.approx(getattr(whole, name))
    assert (one + two).names == whole.names


def test_design_effects_by_a_loop():
    d = drawn(11, 120)
    user = np.arange(120) // 4
    weight = np.arange(120) % 2 + 1.0
    log = op.BanditLog.from_arrays(d["x"], np.repeat(d["a"][:30], 4), d["r"], d["p"], cluster=user, weight=weight)
    effects, units = design_effects(log)
    for a in range(3):
        g = (log.action == a) / d["p"] - 1
        mean = weight @ g / weight.sum()
        u = weight * (g - mean)
        together = sum(u[user == c].sum() ** 2 for c in range(30))
        assert effects[a] == pytest.approx(max(1.0, together / (u**2).sum()))
    assert units == 30.0
    assert effects.max() > 2
    alone, size = design_effects(table([3, 4], [0.5, 0.5]))
    assert (alone.tolist(), size) == ([1.0, 1.0], 7.0)


def test_numbers_in_four_intervals():
    action = np.array([0.0, 2.0, 2.5, 3.9, 4.0, 5.99, 6.0, 8.0])
    density = np.full(8, 0.125)
    log = op.BanditLog.from_arrays(None, action, np.zeros(8), density, action_kind="continuous")
    made = binned(log)
    assert made.actions == ("2 to 3", "3 to 4", "4 to 5", "5 to 6")
    assert made.action.tolist() == [0, 0, 0, 1, 2, 3, 0, 0]
    assert made.propensity.tolist() == [np.inf, 0.125, 0.125, 0.125, 0.125, 0.125, np.inf, np.inf]
    assert (made.action_range, made.space.finite) == (None, True)


def test_users_who_keep_their_action_are_one_draw():
    user, batch = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 0, 1, 1])
    a = np.array([0, 0, 0, 1, 1, 0])
    log = op.BanditLog.from_arrays(None, a, np.zeros(6), np.full(6, 0.5), cluster=user, batch=batch)
    draws = draws_of(log)
    assert draws.number.tolist() == [0.5, 0.5, 0.0, 1.0, 0.0, 1.0]
    assert not draws.are_rows
    no_batch = draws_of(op.BanditLog.from_arrays(None, a, np.zeros(6), cluster=user, weight=[2.0] * 6))
    assert no_batch.number == pytest.approx([1 / 3] * 3 + [0.5] * 2 + [1.0])
    assert no_batch.mass == pytest.approx([2 / 3] * 3 + [1.0] * 2 + [2.0])
    assert no_batch.square == pytest.approx([4 / 3] * 3 + [2.0] * 2 + [4.0])
    moves = draws_of(op.BanditLog.from_arrays(None, [0, 1, 0, 1, 1, 0], np.zeros(6), cluster=user))
    assert (moves.number.tolist(), moves.are_rows) == ([1.0] * 6, True)
    alone = draws_of(op.BanditLog.from_arrays(None, a, np.zeros(6), cluster=np.arange(6)))
    assert alone.are_rows
    kept = op.BanditLog.from_arrays(None, [0, 1], [0.0, 1.0], count=[3.0, 2.0], weight=[1.0, 4.0])
    assert decision_mass(kept).tolist() == [3.0, 8.0]
    assert draws_of(kept).square.tolist() == [3.0, 32.0]
