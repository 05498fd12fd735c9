"""Checks at their edges: limits that are reached, spreads that are small or none, batches without rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from trust_episodes import Steps, view_of_steps
from trust_logs import asked, table
from trust_views import checked, smoothed, view_of

import offpolicy as op
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.score_table import Units
from offpolicy.scores.catalog import named
from offpolicy.trust import horizon, models, stability, weights
from offpolicy.trust.mismatch import mismatch


def test_a_batch_in_which_nobody_was_scored():
    psi = np.random.default_rng(2).normal(size=90) + np.repeat([0.0, 3.0, 0.0], 30)
    view = view_of(np.full((90, 2), 0.5), np.full(90, 0.5), np.arange(90) % 2, psi, batch=np.repeat([0, 1, 2], 30))
    p = checked("batch_drift", view).value
    gap = replace(view)
    gap.problem.units = replace(view.units, batch=np.repeat([0, 2, 3], 30))
    assert stability._largest_contrast(gap, gap.units.batch) == pytest.approx(
        4 / 3 * stability._largest_contrast(view, np.repeat([0, 1, 2], 30))
    )
    assert p < 0.001


def test_two_estimates_that_are_one_standard_error_apart():
    units = Units(16)
    psi = np.tile([1.0, -1.0], 8)
    for shift, level in ((0.25, "note"), (0.2500001, "alarm")):
        given = {"DML": Estimate.from_scores(psi, units=units), "IPW": Estimate.from_scores(psi + shift, units=units)}
        found = stability.disagreement(given, [named("DML"), named("IPW")])
        assert (found.value, found.level) == (0.0, level)
        assert found.details["apart"] == pytest.approx(4 * shift)


def test_skill_between_a_constant_and_none():
    s = Steps(6, 30)
    flat = replace(s, v=np.zeros_like(s.v), q=np.full_like(s.q, s.reward.mean() + 0.3))
    value = horizon.skill(view_of_steps(flat).decisions)
    assert -1 < value < 0
    assert horizon._skill(view_of_steps(flat)).sentence.startswith("q explains none of the variance")
    small = replace(s, v=1e-4 * s.v, q=1e-4 * s.q, reward=1e-4 * s.reward)
    assert horizon.skill(small.decisions()) == pytest.approx(horizon.skill(s.decisions()))
    assert horizon.step_skill(small.decisions()) == pytest.approx(horizon.step_skill(s.decisions()), nan_ok=True)


def test_propensities_that_are_constant_but_for_rounding():
    p = np.full(400, 0.5)
    a, r = np.arange(400) % 2, np.zeros(400)
    for off, method in ((4e-7, "Pearson χ² by batch"), (6e-7, "mean of 1{A = a} / propensity")):
        moved = p + off * (np.arange(400) % 3 == 0)
        found = asked(mismatch, op.BanditLog.from_arrays(None, a, r, moved))
        assert found.details["method"].startswith(method)
    for given in ({"weight": np.ones(400)}, {"eligible": np.ones((400, 2), bool)}):
        found = asked(mismatch, op.BanditLog.from_arrays(None, a, r, p, **given))
        assert found.details["method"].startswith("mean of 1{A = a} / propensity")


def test_an_action_that_one_batch_never_took():
    log = table([300, 300, 600], [0.5, 0.5, 1.0], action=[0, 1, 0], batch=[0, 0, 1])
    found = asked(mismatch, log)
    assert found.details["batches"] == {0: 1.0}
    assert found.value == 1.0


def test_rewards_that_are_all_equal_and_higher():
    from offpolicy.trust.rewards import maturity

    r = np.r_[np.tile([0.0, 1.0], 100), np.ones(50)]
    log = op.BanditLog.from_arrays(None, np.arange(250) % 2, r, batch=np.arange(250) // 50)
    found = maturity(log)
    assert (found.value, found.details["z"], found.level) == (2.0, math.inf, "ok")


def test_a_model_that_explains_a_little():
    r = np.array([0.0, 1.0, 0.0, 1.0])
    assert models.skill(r, np.full(4, 0.5), np.ones(4)) == 0.0
    assert models.skill(1e-6 * r, 1e-6 * r * 0.9, np.ones(4)) == pytest.approx(models.skill(r, 0.9 * r, np.ones(4)))
    assert math.isnan(models.skill(np.full(200, 0.1), np.full(200, 0.2), np.ones(200)))


def test_weights_below_one_in_batches():
    batch = np.repeat([0, 1], 40)
    w = np.tile([0.5, 1.5], 40)
    view = view_of(np.full((80, 2), 0.5), np.full(80, 0.5), np.arange(80) % 2, np.zeros(80), ratio=w, batch=batch)
    light = view_of(np.full((80, 2), 0.5), np.full(80, 0.5), np.arange(80) % 2, np.zeros(80), ratio=w, batch=batch,
                    weight=np.full(80, 1e-3))  # fmt: skip
    assert weights._batch_z(light, batch) == pytest.approx(weights._batch_z(view, batch))


def test_a_score_that_is_somewhat_better_than_the_bound_is_left_alone():
    r = (np.arange(400) < 47) * 1.0
    view = view_of(np.full((400, 2), 0.5), np.full(400, 0.5), np.arange(400) % 2, r, q=np.full(400, 0.2),
                   v=np.full(400, 0.2), ratio=np.ones(400))  # fmt: skip
    found = checked("efficiency_ratio", view)
    assert models._surely_less_noise(view)
    assert (found.level, 0.5 < found.value < 1) == ("ok", True)


@pytest.mark.parametrize(("z", "level"), [(3.2, "ok"), (3.4, "alarm")])
def test_a_shortfall_counts_beyond_3_3_standard_errors(z, level):

    n = 2000
    even = np.tile([-1.0, 1.0], n // 2)
    short = z * 0.5 / math.sqrt(n)
    view = view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, np.zeros(n), ratio=1 - short + 0.5 * even)
    assert (checked("unsupported_mass", view).value > 0) == (level != "ok")
    mean, _ = weights._mean(view)
    assert (mean.level != "ok") == (level != "ok")


@pytest.mark.parametrize("z", [-3.2, -3.4])
def test_late_rewards_count_beyond_3_3_standard_errors(z):
    from offpolicy.trust.rewards import maturity

    even = np.tile([-1.0, 1.0], 50)
    error = 1.0 / 10
    last = 5.0 + z * math.sqrt(2) * error + even
    r = np.r_[np.tile(5.0 + even, 4), last]
    log = op.BanditLog.from_arrays(None, np.arange(500) % 2, r, batch=np.arange(500) // 100)
    found = maturity(log)
    assert found.details["z"] == pytest.approx(z)
    assert (found.value < 1) == (z < -3.3)


@pytest.mark.parametrize("z", [3.2, 3.4])
def test_smoothing_counts_beyond_3_3_standard_errors(z):

    units = Units(100)
    even = np.tile([-1.0, 1.0], 50)
    fine = Estimate.from_scores(0.5 * even - z * 0.05, units=units)
    e = replace(Estimate.from_scores(np.zeros(100) + even, units=units), smoothed=Smoothed(fine))
    found = smoothed({"IPW": e}, [named("IPW")])
    assert found.details["z"] == pytest.approx(z)
    assert (found.value > 0) == (z > 3.3)


def test_how_many_columns_are_left_out_one_by_one():
    from offpolicy.trust.sums import log_sums

    for columns, number in ((1, 1), (2, 3), (20, 21), (21, 1)):
        log = op.BanditLog.from_arrays(np.ones((6, columns)), [0, 1] * 3, np.arange(6.0), np.full(6, 0.5))
        names = [name for name, _ in log_sums(log).twins]
        assert len(names) == number
        assert names[0] is None
    clustered = op.BanditLog.from_arrays(np.ones((6, 2)), [0, 1] * 3, np.arange(6.0), cluster=np.arange(6))
    assert log_sums(clustered).twins == ()


def test_a_difference_that_no_hidden_cause_explains():

    a = (np.arange(3000) % 30 > 0) * 1
    pi = np.zeros((3000, 2))
    pi[:, 1] = 1.0
    r = np.where(a == 1, 30.0, 0.0) + 0.1 * np.random.default_rng(0).normal(size=3000)
    found = checked("confounding", view_of(pi, np.where(a == 1, 29 / 30, 1 / 30), a, r, known=False))
    assert (found.value, found.level) == (math.inf, "ok")
    assert "by a factor more than 20 could explain" in found.sentence


def test_noise_is_weighed_by_squared_ratios():
    ratio = np.tile([0.5, 3.0], 200)
    q = np.tile([0.1, 0.3], 200)
    for step in range(0, 60, 3):
        r = np.zeros(400)
        r[: 2 * step : 2], r[1 : 1 + step : 2] = 1.0, 1.0
        view = view_of(np.full((400, 2), 0.5), np.full(400, 0.5), np.arange(400) % 2, r, q=q, v=q, ratio=ratio)
        gap = sum(w**2 * ((x - y) ** 2 - y * (1 - y)) for w, x, y in zip(ratio, r, q, strict=True))
        variance = sum(w**4 * y * (1 - y) * (1 - 2 * y) ** 2 for w, y in zip(ratio, q, strict=True))
        assert models._surely_less_noise(view) == (gap < -4 * math.sqrt(variance))


def test_a_constant_explains_nothing():
    s = Steps(6, 30)
    step = np.concatenate([np.arange(n) for n in s.lengths])
    reward = np.zeros(len(step))
    for t in range(4):
        rows = np.flatnonzero(step == t)
        reward[rows[: len(rows) // 2 * 2]] = np.tile([-1.0, 1.0], len(rows) // 2)
    flat = replace(s, reward=reward, v=np.zeros(len(step)), q=np.zeros(len(step)))
    assert horizon.skill(flat.decisions()) == 0.0
    assert horizon._skill(view_of_steps(flat)).sentence.startswith("q explains none of the variance")


def test_steps_of_an_episode_weigh_what_it_weighs():
    from offpolicy.trust.view import decision_mass, draws_of

    log = op.Trajectories.from_arrays(np.zeros((2, 3)), np.zeros((2, 3), int), np.zeros((2, 3)), weight=[1.0, 2.5])
    assert decision_mass(log).tolist() == [1.0] * 3 + [2.5] * 3
    assert draws_of(log).square.tolist() == [1.0] * 3 + [6.25] * 3
