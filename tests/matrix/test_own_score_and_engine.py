"""A score of one's own runs where the rows are: streamed, on Spark, in SQLite."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from matrix import worlds
from matrix.answers import ASPECTS, assert_same
from matrix.paths import WARNINGS

import offpolicy as op

pytestmark = WARNINGS


def linear_score(d):
    return d.sum(d.gamma * d.rho * (d.reward - d.q)) + d.v


def ranked_score(d):
    """Looks at all rewards at once: those above the 90% quantile are cut off."""
    limit = np.sort(d.reward)[int(0.9 * len(d.reward))] if len(d.reward) else 0.0
    return d.sum(d.rho * (np.minimum(d.reward, limit) - d.q)) + d.v


def normalized_score(d):
    """Sees other units through one mean only."""
    return d.sum(d.rho * (d.reward - d.q)) / d.mean(d.rho) + d.v


MINE = op.Estimator("mine", linear_score, linear_in_reward=True)
RANKED = op.Estimator("ranked", ranked_score)
MEANS = op.Estimator("means", normalized_score, whole_log_means=True)
HALF = op.Estimator("mine-half", linear_score, "half", linear_in_reward=True)
OWN = (MINE, RANKED, MEANS, HALF, "DML")
ROUTES = [
    "parquet-stream",
    "parquet-rows",
    "glob-stream",
    "duckdb-stream",
    "sqlite",
    "sqlite-stream",
    "postgres-stream",
    pytest.param("spark-stream", marks=pytest.mark.spark),
    pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.verify]),
]
WORLDS = ["money", *(pytest.param(w, marks=pytest.mark.verify) for w in ("users", "weighted", "hours"))]


@pytest.fixture(autouse=True)
def _by_value():
    """What this file defines travels to Spark's executors by value."""
    if find_spec("pyspark") is not None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("route", ROUTES)
def test_own_scores_give_the_number_of_memory(answers, route, world):
    for what in ("values", "table"):
        ours, theirs = (answers.say(what, r, world, estimators=OWN) for r in ("pandas", route))
        assert_same(ours, theirs, what=f"own scores of {world}: pandas ≠ {route}")
    # The linear one is the doubly robust score.
    for policy in ("sharp", "soft"):
        ev = answers.evaluation(route, world, estimators=OWN)
        assert ev[policy, "mine"].value == pytest.approx(ev[policy, "DML"].value, rel=1e-12)


@pytest.mark.parametrize("route", ["parquet-cells", "duckdb", "sqlite"])
def test_a_score_that_ranks_rows_counts_cells_or_is_refused(answers, route):
    """A cell stands for many rows, which an undeclared score cannot know: the number of memory, or none."""
    ours = answers.say("values", "pandas", "hours", estimators=(RANKED,))
    try:
        theirs = answers.say("values", route, "hours", estimators=(RANKED,))
    except op.errors.UsageError:
        return
    assert_same(ours, theirs, what=f"ranked: pandas ≠ {route}")


@pytest.mark.parametrize("world", ["hours", "weighted", pytest.param("money", marks=pytest.mark.verify)])
@pytest.mark.parametrize("way", ["cells", "rows", "stream"])
def test_sqlite_through_ibis(engines, way, world):
    made = worlds.world(world)
    settings = {"estimators": ("auto", "DML", "SNIPW"), "reward_model": worlds.linear()}
    found = [
        ASPECTS["values"](op.evaluate(log, made.policies, **settings), made)
        for log in (engines.open("pandas", made), engines.open("sqlite", made, way=way, chunk_rows=200))
    ]
    assert_same(*found, what=f"{world} in SQLite, {way}")


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_a_result_outlives_its_scan(engines, way):
    """Intervals, checks and the report are made when asked for, also after the log was closed."""
    made = worlds.world("rare")
    file = engines.path("parquet", made)
    settings = {"estimators": ("auto", "DML"), "reward_model": worlds.linear()}
    with op.scan(file, **made.named(), way=way, chunk_rows=200) as log:
        ev = op.evaluate(log, made.policies, **settings)
    ours = op.evaluate(engines.open("pandas", made), made.policies, **settings)
    for what in ("intervals", "contrasts", "verdicts", "findings", "document"):
        assert_same(ASPECTS[what](ours, made), ASPECTS[what](ev, made), what=f"{what} after close, {way}")
