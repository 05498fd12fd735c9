"""The truth battery: its worlds say what is true, and its judge notices what is false."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy_studies.truth import seeds
from offpolicy_studies.truth.answers import LEVELS, answers
from offpolicy_studies.truth.laws import Coin, Normal, Rating
from offpolicy_studies.truth.question import Question
from offpolicy_studies.truth.streams import compared
from offpolicy_studies.truth.study import Args, Cell, replicate, reproduce
from offpolicy_studies.truth.worlds import SHOPS, WORLDS


def test_at_least_eighty_worlds_and_thirty_of_them_new():
    assert len(WORLDS) >= 80
    assert len(SHOPS) >= 30


@pytest.mark.parametrize("name", ["stars", "rare losses / softmax", "sticky sessions", "downsampled zeros / spend"])
def test_the_truth_of_a_world_is_what_its_logs_average_to(name):
    values, logged = [], []
    for i in range(40):
        q = SHOPS[name].ask(np.random.default_rng([5, i]))
        ev = op.evaluate(q.log, q.policies, estimators=["IPW"])
        values.append(ev["new", "IPW"].value)
        logged.append(ev.logged.value)
    for found, truth in ((values, q.truths["new"]), (logged, q.logged)):
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        assert abs(np.mean(found) - truth) < 4 * error


def test_hidden_causes_move_the_odds_by_the_gamma_that_is_told():
    q = SHOPS["unknown / hidden cause"].ask(np.random.default_rng(0))
    assert 1 < q.gamma < 2


@pytest.mark.parametrize("law", [Normal(2.0, 1.0), Coin(), Rating()])
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_worst_that_a_hidden_cause_can_do_is_a_reweighting_by_gamma(law, gamma):
    """The mean under weights in [1/Γ, Γ] that average 1, the largest rewards having the largest."""
    rewards = np.sort(law.draw(np.full(200_000, 0.3), np.random.default_rng(0)))
    top = max(gamma, 1 / gamma)
    heavy = np.arange(len(rewards)) >= len(rewards) * top / (1 + top)
    weight = np.where(heavy, top, 1 / top) if gamma > 1 else np.where(heavy[::-1], top, 1 / top)
    expected = float((weight * rewards).sum() / weight.sum())
    assert law.largest(np.array([0.3]), gamma)[0] == pytest.approx(expected, abs=0.02)


def test_bounds_that_leave_out_sampling_error_are_seen_to_miss():
    q = SHOPS["unknown / clicks of 38%"].ask(np.random.default_rng(2))
    ev = op.evaluate(q.log, q.policies, **q.models)
    assert answers(ev, q)["held"]["Γ"] == [True] * len(LEVELS)
    narrow = Question(q.log, q.policies, q.truths, q.logged, gamma=1.01, worst=q.worst)
    assert answers(ev, narrow)["held"]["Γ"] == [False] * len(LEVELS)


@pytest.mark.parametrize("name", ["stars", "sticky users", "spend of 1%"])
def test_the_variance_of_an_arm_is_what_its_rewards_have(name):
    """The mean reward of logs, over and over: n times its variance is the spread per unit."""
    means, units = [], 0
    for i in range(200):
        q = SHOPS[name].ask(np.random.default_rng([6, i]))
        units = int(q.log.cluster.max()) + 1 if q.log.has_clusters else q.log.n
        means.append(q.log.reward.mean())
    assert units * np.var(means) == pytest.approx(q.spread(None), rel=0.35)


@pytest.mark.parametrize("name", ["unknown / classifier", "sticky users", "3 policies"])
def test_a_streamed_log_prints_the_same_numbers(name):
    found = compared(SHOPS[name].ask(np.random.default_rng(3)), 2, 7)
    assert found["numbers"] > 100
    assert found["difference"] < 1e-9


def test_episodes_are_not_streamed():
    q = WORLDS["episodes / 3 steps"].ask(np.random.default_rng(3))
    assert "episodes" in compared(q, 2, 7)["refused"]


def test_a_log_with_many_seeds():
    world = seeds.World(200, "cubic", "DML", seeds=3)
    found = seeds.replicate(world, np.random.default_rng(37))
    assert found["moves"] > 0.1
    assert found["bare"] or not found["best"]


def test_the_judge_sees_a_wrong_answer():
    q = SHOPS["stars"].ask(np.random.default_rng(2))
    ev = op.evaluate(q.log, q.policies, **q.models)
    wrong = Question(q.log, q.policies, {"new": 0.0}, 9.0, q.models, dict.fromkeys(q.segments, 0.0))
    found = answers(ev, wrong)["held"]
    for quantity in ("value", "difference", "lift", "p-value", "segments", "gate"):
        assert found[quantity] == [False] * len(LEVELS), quantity


def test_one_log_of_a_family():
    found = replicate(Cell("3 policies", 2), np.random.default_rng(0))
    assert {"family of values", "family of differences", "leader", "best"} <= set(found["held"])


def test_the_battery_resumes_and_shows_its_table(tmp_path):
    options = Args(replications=2, worlds=("stars", "rare arm / 1000"), workers=1, out=tmp_path)
    first = reproduce(options)
    assert reproduce(options) == first
    assert "| stars |" in (tmp_path / "table.md").read_text(encoding="utf-8")
