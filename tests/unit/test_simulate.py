"""`op.testing.simulate`: what it says of estimators whose behavior is known in closed form."""

import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError

N, P = 400, 0.3


def world(rng):
    action = (rng.random(N) < 0.5).astype(int)
    reward = (rng.random(N) < P * action).astype(float)
    return op.BanditLog.from_arrays(None, action, reward, np.full(N, 0.5)), "always:1", P


def test_bias_error_and_coverage_are_those_of_the_theory():
    row = op.testing.simulate(world, ["IPW"], logs=300).rows()[0]
    sd = math.sqrt((P / 0.5 - P**2) / N)  # of the mean of 2 · 1{A = 1} R
    assert abs(row["bias"]) < 4 * row["bias_error"]
    assert row["bias_error"] == pytest.approx(sd / math.sqrt(300), rel=0.15)
    assert row["rmse"] == pytest.approx(sd, abs=4 * row["rmse_error"])
    assert row["std_error"] == pytest.approx(sd, rel=0.05)
    assert row["coverage"] > 0.95 - 3 * row["coverage_error"]
    assert row["refused"] == 0


def test_a_wrong_truth_shows_as_bias_and_lost_coverage():
    def shifted(rng):
        log, policy, truth = world(rng)
        return log, policy, truth + 0.3

    row = op.testing.simulate(shifted, ["SNIPW"], logs=30).rows()[0]
    assert row["bias"] == pytest.approx(-0.3, abs=0.05)
    assert row["coverage"] < 0.1


def test_the_same_seed_gives_the_same_answers_and_more_logs_add_to_them():
    few, many = (op.testing.simulate(world, ["DM", "DML"], logs=n) for n in (3, 5))
    for name in ("DM", "DML"):
        np.testing.assert_array_equal(few.answers[name], many.answers[name][:3])


def test_a_refused_interval_counts_as_refused_and_not_as_covering():
    def silent(rng):
        return op.BanditLog.from_arrays(None, [0] * 50, [1.0] * 50, [1.0] * 50, actions=[0, 1]), "always:1", 0.5

    row = op.testing.simulate(silent, ["SNIPW"], logs=3).rows()[0]
    assert (row["refused"], math.isnan(row["coverage"])) == (1.0, True)


def test_it_prints_a_table():
    lines = str(op.testing.simulate(world, ["IPW", "DML"], logs=3)).splitlines()
    assert "coverage_error" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["IPW", "DML"]


@pytest.mark.parametrize("logs", [0, 1])
def test_too_few_logs_are_refused(logs):
    with pytest.raises(UsageError, match="logs="):
        op.testing.simulate(world, logs=logs)


def test_a_world_without_a_truth_is_refused():
    with pytest.raises(UsageError, match="true value"):
        op.testing.simulate(lambda rng: world(rng)[:2], logs=2)
