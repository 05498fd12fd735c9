"""Weights by action and by batch, and the mass that the log does not reach, by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_logs import drawn
from trust_views import all_on, checked, view_of

from offpolicy.trust import weights
from offpolicy.trust.check import CHECKS, FITTED, PROPENSITIES
from offpolicy.trust.moments import symmetric


def adjusted(z, tests):
    """|z| of a Bonferroni-adjusted p-value."""
    return max(0.0, stats.norm.isf(min(1.0, tests * 2 * stats.norm.sf(abs(z))) / 2))


def by_action(pi, p, action, mass, square):
    """z and relative distance of each action's weights, row by row."""
    n, k = pi.shape
    w = pi[np.arange(n), action] / p
    gain, spread, heavy = np.zeros(k), np.zeros(k), np.zeros(k)
    inverse = np.zeros(k)
    for a in range(k):
        mine = action == a
        expected = (mass * pi[:, a]).sum()
        gain[a] = (mass * w)[mine].sum() - expected
        # Σ m² (1{A = a} w − π_e(a))²
        spread[a] = (square * (mine * w - pi[:, a]) ** 2).sum()
        if (mass * w)[mine].sum() > 0:
            heavy[a] = (square * w**2)[mine].sum() / (mass * w)[mine].sum()
        if mine.any():
            inverse[a] = (mass / p**2)[mine].sum() / (mass / p)[mine].sum()
    out = {}
    for a in range(k):
        expected = (mass * pi[:, a]).sum()
        if expected == 0:
            continue
        own = heavy[a] if (mass * w)[action == a].sum() > 0 else heavy.max()
        s = max(spread[a], expected * own, (square * pi[:, a] ** 2).sum() * max(inverse[a] - 1, 0.0))
        z = gain[a] / math.sqrt(s)
        if z < 0:  # large weights may not have come yet
            third = (square**2 / mass * w**3)[action == a].sum()
            z = min(0.0, symmetric(z, third / s**1.5))
        out[a] = (z, gain[a] / expected)
    return out


@pytest.mark.parametrize("case", ["right", "wrong", "never", "weighted", "choice"])
def test_weights_of_each_action_by_a_loop(case):
    d = drawn(4, 400, k=4)
    n, a, p = 400, d["a"], d["p"].copy()
    pi = np.full((n, 4), [0.4, 0.3, 0.2, 0.1])
    roles = {}
    if case == "wrong":
        p[a == 1] *= 0.2
    if case == "never":
        keep = a != 3
        a, p, pi, n = a[keep], p[keep], pi[keep], int(keep.sum())
    if case == "weighted":
        roles = {"count": np.arange(n) % 3 + 1.0, "weight": np.arange(n) % 2 + 1.0}
    if case == "choice":
        pi = all_on(2, n, 4)
    count, weight = roles.get("count", np.ones(n)), roles.get("weight", np.ones(n))
    loop = by_action(pi, p, a, count * weight, count * weight**2)
    view = view_of(pi, p, a, np.zeros(n), **roles)
    found = checked("mean_weight_by_action", view)
    assert found.details["z"] == {b: pytest.approx(z) for b, (z, _) in loop.items()}
    material = {b: z for b, (z, off) in loop.items() if abs(off) > 0.02}
    worst = max(material, key=lambda b: abs(material[b]))
    value = adjusted(material[worst] / weights._design(view), len(loop))
    assert found.value == pytest.approx(value, abs=1e-9)
    assert (value > 4) == (case == "wrong")
    if case == "wrong":
        off = loop[worst][1]
        assert found.sentence == (
            f"the weights of action {worst} are off by {100 * off:+.1f}% (z = {loop[worst][0]:.2g})."
        )
        assert (worst, found.level) == (1, "caution" if value <= 6 else "alarm")
        assert found.remedy == PROPENSITIES
    else:
        assert found.level == "ok"
        assert found.sentence == f"the weights of every action have about the expected mean (largest z {value:.2g})."


def test_a_model_in_place_of_propensities_is_to_blame():
    d = drawn(4, 400)
    p = np.where(d["a"] == 1, d["p"] * 0.3, d["p"])
    view = view_of(np.full((400, 3), 1 / 3), p, d["a"], np.zeros(400), known=False)
    assert checked("mean_weight_by_action", view).remedy == FITTED


def test_weights_that_are_off_by_2_percent_are_not_off():
    n = 100_000
    w = np.where(np.arange(n) % 2 == 0, 1.0195, 0.9805)
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=w)
    assert checked("mean_weight_by_action", view).value == 0.0
    w = np.where(np.arange(n) % 2 == 0, 1.03, 0.97)
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=w)
    assert checked("mean_weight_by_action", view).value > 5


def test_no_action_of_the_target_was_logged():
    view = view_of(all_on(2, 30, 3), np.full(30, 0.5), np.arange(30) % 2, np.zeros(30))
    found = checked("mean_weight_by_action", view)
    assert found.sentence == "no action of the policy was logged."
    right = view_of(all_on(1, 30, 2), np.full(30, 0.5), np.arange(30) % 2, np.zeros(30))
    assert checked("mean_weight_by_action", right).details["z"] == {1: 0.0}


# -- batches ---------------------------------------------------------------------------------------------------


def by_batch(pi, p, action, batch, mass, square, count):
    """z of the mean weight of each batch, with the spread that 1/π_b says is to come."""
    n, k = pi.shape
    number = batch.max() + 1
    w = pi[np.arange(n), action] / p
    inverse = np.zeros((number, k))
    for b in range(number):
        for a in range(k):
            mine = (batch == b) & (action == a)
            if mine.any():
                inverse[b, a] = (mass / p**2)[mine].sum() / (mass / p)[mine].sum()
    share = np.array([(square * pi[:, a] ** 2).sum() for a in range(k)]) / square.sum()
    out = []
    for b in range(number):
        mine = batch == b
        if not mine.any():
            out.append(math.nan)
            continue
        filled = [
            inverse[b, a] if inverse[b, a] > 0 else max(inverse[:, a].max(), count[mine].sum() / 3) for a in range(k)
        ]
        m, q = mass[mine], square[mine]
        mean = m @ w[mine] / m.sum()
        spread = max(q @ (w[mine] - mean) ** 2, q.sum() * (np.dot(filled, share) - 1))
        out.append((m @ w[mine] - m.sum()) / math.sqrt(spread))
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_weights_of_batches_by_a_loop(weighted):
    d = drawn(9, 260)
    batch = np.minimum(np.arange(260) // 60, 3)
    batch[-19:] = 4  # too few to be judged
    p = np.where(batch == 2, d["p"] * 0.6, d["p"])
    pi = np.full((260, 3), [0.6, 0.3, 0.1])
    a = np.where((batch == 1) & (d["a"] == 2), 1, d["a"])
    roles = {"count": np.arange(260) % 2 + 1.0, "weight": np.arange(260) % 3 + 1.0} if weighted else {}
    count, weight = roles.get("count", np.ones(260)), roles.get("weight", np.ones(260))
    view = view_of(pi, p, a, np.zeros(260), batch=np.array(list("abcde"))[batch], **roles)
    z = by_batch(pi, p, a, batch, count * weight, count * weight**2, count) / weights._design(view)
    used = [b for b in range(5) if count[batch == b].sum() >= 20]
    assert used == ([0, 1, 2, 3, 4] if weighted else [0, 1, 2, 3])
    found = checked("mean_weight_by_batch", view)
    assert found.details["z"] == {"abcde"[b]: pytest.approx(z[b]) for b in used}
    worst = max(used, key=lambda b: abs(z[b]))
    assert found.value == pytest.approx(adjusted(z[worst], len(used)), abs=1e-9)
    assert found.sentence == (
        f"batch {'abcde'[worst]!r} has the mean weight furthest from 1 (z = {z[worst]:.3g}, the largest of "
        f"{len(used)} batches)."
    )


def test_batches_without_spread_or_rows():
    a = np.zeros(80, int)
    batch = np.repeat([0, 1], 40)
    p = np.ones(80)
    same = view_of(all_on(0, 80, 1), p, a, np.zeros(80), batch=batch)
    assert checked("mean_weight_by_batch", same).details["z"] == {0: 0.0, 1: 0.0}
    half = view_of(all_on(0, 80, 1), p, a, np.zeros(80), batch=batch, ratio=np.full(80, 0.5))
    assert weights._batch_z(half, batch).tolist() == [-math.inf, -math.inf]
    more = view_of(all_on(0, 80, 1), p, a, np.zeros(80), batch=batch, ratio=np.full(80, 1.5))
    assert weights._batch_z(more, batch).tolist() == [math.inf, math.inf]
    gap = view_of(all_on(0, 80, 1), p, a, np.zeros(80), batch=batch)
    assert np.isnan(weights._batch_z(gap, 2 * batch)).tolist() == [False, True, False]
    few = view_of(all_on(0, 30, 1), p[:30], a[:30], np.zeros(30), batch=np.repeat([0, 1], 15))
    assert checked("mean_weight_by_batch", few).sentence == "no batch has 20 rows and some overlap."


# -- reach -----------------------------------------------------------------------------------------------------


def test_mass_on_actions_of_probability_0():
    pi_b = np.array([[0.5, 0.5, 0.0], [0.4, 0.4, 0.2]] * 10)
    view = view_of(np.full((20, 3), [0.25, 0.25, 0.5]), pi_b, np.arange(20) % 2, np.zeros(20))
    found = checked("unsupported_mass", view)
    assert (found.value, found.level) == (pytest.approx(0.25), "alarm")
    assert found.sentence == "25% of the policy's actions have logged probability 0."
    assert found.details["forbidden"] == pytest.approx(0.25)
    assert found.details["never_logged"] == pytest.approx(0.5)
    assert found.remedy == CHECKS["unsupported_mass"].limits.remedy
    calm = checked(
        "unsupported_mass", view_of(np.full((20, 3), [0.5, 0.5, 0.0]), pi_b, np.arange(20) % 2, np.zeros(20))
    )
    assert (calm.value, calm.level) == (0.0, "ok")
    assert calm.sentence == "the logging policy can take every action of this policy."


def test_mass_on_actions_that_never_came():
    view = view_of(np.full((40, 3), [0.45, 0.45, 0.1]), np.full(40, 0.5), np.arange(40) % 2, np.zeros(40))
    found = checked("unsupported_mass", view)
    assert (found.value, found.sentence) == (pytest.approx(0.1), "10% of the policy's actions were never logged.")
    assert found.details == {
        "never_logged": pytest.approx(0.1),
        "shortfall": pytest.approx(0.1),
        "shortfall_error": 0.0,
    }


def test_a_mean_weight_below_1_is_mass_that_is_not_covered():
    n = 4000
    w = 0.7 * np.tile([0.5, 1.5], n // 2)
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=w)
    found = checked("unsupported_mass", view)
    assert found.value == pytest.approx(0.3)
    assert found.sentence == (
        "about 30% of the policy's decisions are not covered by the log (mean weight 0.7 instead of 1)."
    )
    error = 0.7 * 0.5 / math.sqrt(n)
    assert found.details["shortfall_error"] == pytest.approx(error)
    few = checked(
        "unsupported_mass", view_of(np.full((8, 2), 0.5), np.full(8, 0.5), np.arange(8) % 2, np.zeros(8), ratio=w[:8])
    )
    assert (few.value, few.details["shortfall"]) == (0.0, pytest.approx(0.3))
    assert few.sentence == "no sign that the policy takes actions that the logging policy never takes."
    above = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=2 * w)
    assert (checked("unsupported_mass", above).value, checked("unsupported_mass", above).details["shortfall"]) == (
        0.0,
        0.0,
    )


def test_no_overlap_at_all():
    found = checked("unsupported_mass", view_of(all_on(2, 30, 3), np.full(30, 0.5), np.arange(30) % 2, np.zeros(30)))
    assert (found.value, found.level) == (1.0, "alarm")
    assert found.sentence == ("no overlap: the policy never takes a logged action, so its value cannot be estimated.")
    part = view_of(np.full((4, 2), 0.5), np.full(4, 0.5), [0, 1, 0, 1], np.zeros(4), shown=np.ones(4))
    assert checked("unsupported_mass", part).sentence == "the policy has probabilities only for the shown items."
    assert checked("mean_weight_by_action", part).sentence == "the policy has probabilities only for the shown items."
