"""The matrix itself: equal answers pass, and a difference of any kind is seen."""

import copy

import pytest
from matrix import worlds
from matrix.answers import ASPECTS, assert_same, differences, same_text
from matrix.paths import WARNINGS, start_spark

import offpolicy as op

pytestmark = WARNINGS
FEW = ("auto", "DML", "SNIPW", "IPW", "DM", "DR-half")


def answer(engines, route, world):
    ev = op.evaluate(
        engines.open(route, world, id=False),
        world.policies,
        estimators=FEW,
        reward_model=worlds.linear(),
        **world.settings,
    )
    return {what: say(ev, world) for what, say in ASPECTS.items()}


@pytest.fixture(scope="module")
def reference(engines):
    return answer(engines, "pandas", worlds.world("rare"))


@pytest.mark.parametrize("route", ["pandas", "polars", "arrow"])
def test_frames_of_three_libraries_agree(engines, reference, route):
    assert_same(reference, answer(engines, route, worlds.world("rare")), what=route)


def test_one_reward_is_seen_in_every_aspect(engines, reference):
    made = worlds.world("rare")
    reward = made.frame["r"].to_numpy().copy()
    row = int((made.frame["arm"].to_numpy() == made.frame["choice"].to_numpy()).argmax())
    reward[row] = 1 - reward[row]
    other = answer(engines, "pandas", worlds.changed(made, r=reward))
    for what in ASPECTS:
        assert differences(reference[what], other[what]), what


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda a: a["values"]["sharp", "DML"].update(value=1.0), "sharp DML › value"),
        (lambda a: a["values"].pop(("sharp", "DML")), "sharp DML: only here"),
        (lambda a: a["values"]["sharp", "DML"].update(n=1_199), "sharp DML › n"),
        (lambda a: a["intervals"]["soft", "IPW", "t"].update(sufficient=None), "› sufficient"),
        (lambda a: a["findings"][None, "duplicates"].update(sentence="no"), "› sentence"),
    ],
)
def test_a_difference_is_named(reference, change, seen):
    other = copy.deepcopy(reference)
    change(other)
    found = differences(reference, other)
    assert len(found) == 1
    assert seen in found[0]


def test_numbers_count_by_their_scale():
    row = {"low": 0.0, "high": 1e-3, "value": 5e-4}
    assert differences(row, {**row, "low": 1e-13}) == []
    assert differences(row, {**row, "low": 1e-10})
    assert differences({"x": 1e6}, {"x": 1e6 + 1e-4}) == []
    assert differences({"x": float("nan")}, {"x": float("nan")}) == []
    assert differences({"x": float("nan")}, {"x": 0.0})
    assert differences({"x": True}, {"x": False})
    assert differences({"x": 3}, {"x": 4}, tolerance=1e-6)


def test_words_count_exactly_and_numbers_to_the_last_digit():
    assert same_text("0.0123 to 0.0456 of 1,200", "0.0124 to 0.0456 of 1,200")
    assert not same_text("0.0123 to 0.0456", "0.0125 to 0.0456")
    assert not same_text("of 1,200 rows", "of 1,201 rows")
    assert not same_text("1.0 rows", "1.0 cells")
    assert same_text("by −1.23e-05", "by −1.24e-05")


# Scores that every engine could sum before scores were kept: these paths agreed from the beginning.
SUMMED = ("DML", "SNIPW", "IPW", "DM", "DR-half", "DR-full", "SNDR")


@pytest.mark.parametrize("world", ["hours", pytest.param("money", marks=pytest.mark.verify)])
@pytest.mark.parametrize(
    "route",
    [
        "parquet-cells",
        "parquet-stream",
        "csv-stream",
        "glob",
        "duckdb-stream",
        "postgres",
        "postgres-stream",
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.verify]),
        pytest.param("spark-stream", marks=[pytest.mark.spark, pytest.mark.verify]),
    ],
)
def test_scans_agree_with_each_other(answers, route, world):
    ours, theirs = (answers.say("values", r, world, estimators=SUMMED) for r in ("parquet-rows", route))
    assert_same(ours, theirs, what=f"{world}: parquet-rows ≠ {route}")


@pytest.mark.spark
def test_spark_has_two_executors(engines):
    log = engines.open("spark", worlds.world("rare"))
    assert log.n == 1_200
    status = start_spark(engines.stack).sparkContext._jsc.sc().getExecutorMemoryStatus()
    assert status.size() == 3  # and the driver
