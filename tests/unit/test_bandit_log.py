"""`BanditLog`: what comes in, and what is refused with the column, the first bad row and the remedy."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from offpolicy import BanditLog, Trajectories
from offpolicy.errors import DataError


def frame(**changes):
    columns = {
        "age": [20.0, 31.0, 44.0, 52.0],
        "ad": ["a", "b", "a", "c"],
        "click": [0.0, 1.0, 0.0, 1.0],
        "p": [0.5, 0.25, 0.5, 0.25],
        "user": [1, 1, 2, 3],
        "hour": [0, 0, 1, 1],
    }
    return pd.DataFrame({**columns, **changes})


def build(df=None, **changes):
    roles = {"context": ["age"], "action": "ad", "reward": "click", "propensity": "p"}
    return BanditLog.from_frame(frame() if df is None else df, **{**roles, **changes})


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_the_parts_arrive():
    log = build(batch="hour", cluster="user")
    assert log.actions == ("a", "b", "c")
    assert log.action.tolist() == [0, 1, 0, 2]
    assert log.reward.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert log.propensity.tolist() == [0.5, 0.25, 0.5, 0.25]
    assert log.batch.tolist() == [0, 0, 1, 1]
    assert log.cluster.tolist() == [0, 0, 1, 2]
    assert log.n == 4


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_any_kind_of_table_gives_the_same_log(convert):
    one, other = build(), build(convert(frame()))
    assert one.actions == other.actions
    for part in ("action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_a_pandas_index_is_not_mistaken_for_row_numbers():
    shuffled = frame().set_index(pd.Index([9, 9, 3, 1]))
    assert build(shuffled).reward.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_booleans_are_rewards():
    assert build(frame(click=[True, False, True, True])).reward.tolist() == [1.0, 0.0, 1.0, 1.0]


def test_the_whole_distribution_by_list_and_by_mapping():
    df = frame(pa=[0.5, 0.2, 0.5, 0.3], pb=[0.3, 0.5, 0.2, 0.3], pc=[0.2, 0.3, 0.3, 0.4])
    listed = build(df, propensity=["pa", "pb", "pc"])
    mapped = build(df, propensity={"c": "pc", "a": "pa", "b": "pb"})
    assert listed.propensity.tolist() == [0.5, 0.5, 0.5, 0.4]
    np.testing.assert_array_equal(listed.distribution, mapped.distribution)


def test_keep_probability_becomes_a_weight():
    df = frame(keep=[1.0, 0.5, 0.25, 1.0], w=[1.0, 1.0, 2.0, 3.0])
    assert build(df, keep_probability="keep").weight.tolist() == [1.0, 2.0, 4.0, 1.0]
    assert build(df, keep_probability="keep", weight="w").weight.tolist() == [1.0, 2.0, 8.0, 3.0]


def test_counts_stand_for_rows():
    log = build(frame(k=[2, 1, 5, 1]), count="k")
    assert (log.n, log.rows) == (9, 4)


def test_take_keeps_codes_and_rows_together():
    part = build(cluster="user").take(np.array([3, 1]))
    assert part.actions == ("a", "b", "c")
    assert part.action.tolist() == [2, 1]
    assert part.context.native(np.arange(2))["age"].tolist() == [52.0, 31.0]


NAN, INF = float("nan"), float("inf")
BAD_COLUMNS = [
    ({"click": [0.0, NAN, 0.0, 1.0]}, {}, ["'click'", "row 1", "drop"]),
    ({"click": [0.0, 1.0, INF, 1.0]}, {}, ["'click'", "row 2", "finite"]),
    ({"click": [0.0, 1.0, None, 1.0]}, {}, ["'click'", "row 2", "drop"]),
    ({"click": ["0", "1", "0", "1"]}, {}, ["'click'", "row 0", "numeric"]),
    ({"click": [0.0, "yes", 0.0, 1.0]}, {}, ["'click'", "row 1", "'yes'", "numeric"]),
    ({"click": [0.0, "1", 0.0, 1.0]}, {}, ["'click'", "row 1", "text", "numeric"]),
    ({"click": pd.to_datetime(["2024-01-01"] * 4)}, {}, ["'click'", "row 0", "numeric"]),
    ({"p": [0.5, 0.0, 0.5, 0.5]}, {}, ["'p'", "row 1", "cannot be 0"]),
    ({"p": [0.5, 0.5, -0.1, 0.5]}, {}, ["'p'", "row 2", "-0.1", "check the column"]),
    ({"p": [0.5, 0.5, 0.5, 1.5]}, {}, ["'p'", "row 3", "1.5", "(0, 1]"]),
    ({"p": [50.0, 25.0, 50.0, 25.0]}, {}, ["'p'", "row 0", "divide by 100"]),
    ({"p": [0.5, NAN, 0.5, 0.5]}, {}, ["'p'", "row 1", "missing", "estimated"]),
    ({"p": [0.5, INF, 0.5, 0.5]}, {}, ["'p'", "row 1"]),
    ({"p": ["half"] * 4}, {}, ["'p'", "row 0", "numeric"]),
    ({"ad": ["a", None, "a", "c"]}, {}, ["'ad'", "row 1", "missing", "drop"]),
    ({}, {"actions": ["a", "b"]}, ["'ad'", "row 3", "'c'", "actions="]),
    ({"user": [1, NAN, 2, 2]}, {"cluster": "user"}, ["'user'", "row 1", "drop"]),
    ({"hour": [0, 0, None, 1]}, {"batch": "hour"}, ["'hour'", "row 2", "drop"]),
    ({"w": [1.0, -1.0, 1.0, 1.0]}, {"weight": "w"}, ["'w'", "row 1", "at least 0"]),
    ({"w": [0.0] * 4}, {"weight": "w"}, ["'w'", "every weight is 0"]),
    ({"w": [1.0, NAN, 1.0, 1.0]}, {"weight": "w"}, ["'w'", "row 1"]),
    ({"k": [1, 2, 0, 1]}, {"count": "k"}, ["'k'", "row 2", "1, 2, 3"]),
    ({"k": [1, 1.5, 2, 1]}, {"count": "k"}, ["'k'", "row 1", "1.5"]),
    ({"k": [0.5, 2.0, 1.0, 1.0]}, {"keep_probability": "k"}, ["'k'", "row 1", "(0, 1]"]),
    ({"e": [["a"], ["b"], ["a"], None]}, {"eligible": "e"}, ["'e'", "row 3", "list"]),
    ({"e": [["a"], ["a"], ["a"], ["c"]]}, {"eligible": "e"}, ["'e'", "row 1", "repair"]),
    ({"e": [["a", "z"], ["b"], ["a"], ["c"]]}, {"eligible": "e"}, ["'e'", "row 0", "'z'"]),
]


@pytest.mark.parametrize(("columns", "roles", "said"), BAD_COLUMNS)
def test_a_bad_value_is_named_with_its_row_and_remedy(columns, roles, said):
    text = message(lambda: build(frame(**columns), **roles))
    for part in said:
        assert part in text


def test_propensity_columns_that_are_no_distribution():
    df = frame(pa=[0.5, 0.2, 0.5, 0.3], pb=[0.3, 0.5, 0.2, 0.3], pc=[0.2, 0.3, 0.3, 0.5])
    text = message(lambda: build(df, propensity=["pa", "pb", "pc"]))
    assert "row 3" in text
    assert "sum to 1" in text
    assert "3 actions" in message(lambda: build(df, propensity=["pa", "pb"]))
    assert "'b'" in message(lambda: build(df, propensity={"a": "pa", "c": "pc"}))
    zero = frame(pa=[0.0, 0.5, 0.5, 0.5], pb=[1.0, 0.5, 0.5, 0.0], pc=[0.0, 0.0, 0.0, 0.5])
    assert "row 0" in message(lambda: build(zero, propensity=["pa", "pb", "pc"]))


@pytest.mark.parametrize("role", ["action", "reward", "propensity", "batch", "cluster", "weight"])
def test_a_misspelled_column_gets_a_hint(role):
    text = message(lambda: build(**{role: "clik"}))
    assert "'clik'" in text
    assert role in text
    assert "Did you mean 'click'?" in text


def test_context_columns_are_checked():
    assert "Did you mean 'age'?" in message(lambda: build(context=["agee"]))
    assert "twice" in message(lambda: build(context=["age", "age"]))
    assert "reward column 'click'" in message(lambda: build(context=["age", "click"]))
    assert "action column 'ad'" in message(lambda: build(context=["ad"]))


def test_duplicate_columns_and_empty_tables():
    twice = pd.concat([frame(), frame()[["age"]]], axis=1)
    text = message(lambda: build(twice))
    assert "'age'" in text
    assert "Rename" in text
    assert "empty" in message(lambda: build(frame().iloc[:0]))
    assert "empty" in message(lambda: BanditLog.from_arrays(None, [], []))


def test_what_is_not_a_table_is_refused_with_a_way_out():
    assert "scan" in message(lambda: build(pl.from_pandas(frame()).lazy()))
    assert "from_arrays" in message(lambda: build({"age": [1.0]}))


ARRAYS = {"context": np.zeros((3, 2)), "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]}
BAD_ARRAYS = [
    ({"reward": [1.0, 2.0]}, ["'reward'", "2 rows", "3"]),
    ({"context": np.zeros((4, 2))}, ["'context'", "4 rows", "3"]),
    ({"propensity": [0.5, 0.5]}, ["'propensity'", "2 rows", "3"]),
    ({"cluster": [1, 2]}, ["'cluster'", "2 rows"]),
    ({"weight": [1.0]}, ["'weight'", "1 rows"]),
    ({"propensity": np.full((3, 5), 0.2)}, ["'propensity'", "(3, 2)", "(3, 5)"]),
    ({"eligible": np.ones((3, 5))}, ["'eligible'", "(3, 2)", "(3, 5)"]),
    ({"reward": np.ones((3, 1))}, ["'reward'", "(3, 1)"]),
    ({"action": np.zeros((3, 1))}, ["'action'", "(3, 1)"]),
    ({"context": np.array([["a", 1], ["b", 2], ["c", 3]], dtype=object)}, ["from_frame"]),
    ({"context": np.array([["a"], ["b"], ["c"]])}, ["from_frame"]),
    ({"reward": ["1", "2", "3"]}, ["'reward'", "row 0"]),
    ({"reward": np.array(["2020-01-01"] * 3, dtype="M8[ns]")}, ["'reward'", "numeric"]),
    ({"reward": np.array([1j, 1, 1])}, ["'reward'", "row 0"]),
    ({"reward": [1.0, NAN, 1.0]}, ["'reward'", "row 1"]),
    ({"propensity": [0.5, 0.0, 1.0]}, ["'propensity'", "row 1"]),
    ({"action": [0, None, 1]}, ["'action'", "row 1"]),
]


@pytest.mark.parametrize(("changes", "said"), BAD_ARRAYS)
def test_bad_arrays_are_refused(changes, said):
    text = message(lambda: BanditLog.from_arrays(**{**ARRAYS, **changes}))
    for part in said:
        assert part in text


def test_dates_are_labels_like_any_other():
    days = np.array(["2024-01-02", "2024-01-01"], dtype="M8[ns]")
    log = BanditLog.from_arrays(None, days, [1.0, 2.0])
    assert log.actions == (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2))  # noqa: DTZ001


def test_columns_of_units_are_arrays_whether_or_not_they_were_given():
    plain = BanditLog.from_arrays(None, [0, 1, 1], [1.0, 0.0, 2.0])
    given = BanditLog.from_arrays(
        None, [0, 1, 1], [1.0, 0.0, 2.0], cluster=["a", "a", "b"], batch=[1, 1, 1], weight=[1, 1, 1], count=[1, 2, 1],
    )  # fmt: skip
    for log in (plain, plain.take([0, 2]), pickle.loads(pickle.dumps(plain))):
        assert (log.count.tolist(), log.weight.tolist()) == ([1.0] * log.rows, [1.0] * log.rows)
        assert (log.cluster.tolist(), log.batch.tolist()) == ([-1] * log.rows, [-1] * log.rows)
        facts = (log.is_counted, log.is_weighted, log.has_clusters, log.has_batches)
        assert facts == (False,) * 4
        assert log.count.strides == (0,)
        assert not log.count.flags.writeable
    for log in (given, given.take([0, 2]), pickle.loads(pickle.dumps(given))):
        assert log.is_counted
        assert log.is_weighted
        assert log.has_clusters
        assert log.has_batches
    assert given.mass.tolist() == [1.0, 2.0, 1.0]
    episodes = Trajectories.from_arrays([[0, 1], [1]], [[0, 1], [1]], [[1.0, 0.0], [2.0]])
    assert (episodes.count.tolist(), episodes.batch.tolist()) == ([1.0, 1.0], [-1, -1])
    assert not episodes.take([1]).has_clusters
