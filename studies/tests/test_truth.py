"""The truth battery: its worlds say what is true, and its judge notices what is false."""

from __future__ import annotations

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy_studies.truth.answers import LEVELS, answers
from offpolicy_studies.truth.question import Question
from offpolicy_studies.truth.study import Args, Cell, replicate, reproduce
from offpolicy_studies.truth.worlds import SHOPS, WORLDS


def test_at_least_eighty_worlds_and_thirty_of_them_new():
    assert len(WORLDS) >= 80
    assert len(SHOPS) >= 30


@pytest.mark.parametrize(
    "name", ["stars", "rare losses / softmax", "sticky sessions", "downsampled zeros / spend"]
)
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


def test_the_judge_sees_a_wrong_answer():
    q = SHOPS["stars"].ask(np.random.default_rng(2))
    ev = op.evaluate(q.log, q.policies, **q.models)
    wrong = Question(q.log, q.policies, {"new": 0.0}, 9.0, q.models, dict.fromkeys(q.segments, 0.0))
    found = answers(ev, wrong, np.random.default_rng(0))["held"]
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
