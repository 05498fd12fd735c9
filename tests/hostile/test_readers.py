"""One reader per format and one rule of types: the same log written another way gives the same answer, or an error."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from findings import FLAGS, FRAME, ROLES, TRUTH, scanned, told, value

import offpolicy as op
from offpolicy.cli import main
from offpolicy.cli.changes import not_numbers, positive
from offpolicy.engines.csv import read_csv
from offpolicy.errors import DataError, PolicyError, UsageError
from offpolicy.logs.formats import from_exposures, from_obp, read_dsjson, read_jsonl, read_router
from offpolicy.logs.formats.lines import read_table

NAMES = {"a": "007", "b": "7", "c": "07"}
B_SEVEN = FRAME.assign(ad=FRAME["ad"].map(NAMES))


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def takes(label):
    return lambda context: np.array([label] * len(context), dtype=object)


# -- 2 and 15: JSON lines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [("007", "7", "07"), ("1", "1.0", "1e0"), (1, "1", "one"), (" 1", "1", "1 "),
     ("12345678901234567890", "12345678901234567891", "3"), ("2024-01-01", "2024-01-02", "2024-1-1"),
     (2**60, 2**60 + 1, 2**60 + 2), (2**64, 2**64 + 1, -1)],
)  # fmt: skip
def test_labels_of_json_lines_are_as_written(tmp_path, labels):
    named = dict(zip("abc", labels, strict=True))
    frame = FRAME.assign(ad=[named[a] for a in FRAME["ad"]])
    path = lines(tmp_path / "log.jsonl", frame.to_dict("records"))
    table = read_table(path)
    assert table["ad"].tolist() == [named[a] for a in FRAME["ad"]]
    assert value(op.BanditLog.from_frame(table, **ROLES), takes(labels[1])) == pytest.approx(TRUTH)
    trace = [{"context": {"x": r["x"]}, "action": r["ad"], "reward": r["click"], "act_prob": r["p"]}
             for r in frame.to_dict("records")]  # fmt: skip
    reading = read_jsonl(lines(tmp_path / "trace.jsonl", trace))
    assert value(reading.log(), takes(labels[1])) == pytest.approx(TRUTH)
    if labels[0] != 1:
        assert told(tmp_path, path, spec=f"always:{labels[1]}") == pytest.approx(TRUTH)


def test_labels_that_are_written_alike_are_not_chosen_by_their_text(tmp_path, capsys):
    frame = FRAME.assign(ad=[{"a": 1, "b": "1", "c": 2}[a] for a in FRAME["ad"]])
    path = lines(tmp_path / "log.jsonl", frame.to_dict("records"))
    assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:1"]) == 1
    assert "look the same as text" in capsys.readouterr().err


def test_ids_with_a_missing_one_keep_their_digits(tmp_path):
    rows = [{"x": 1, "u": 2**53 + 1}, {"x": 2.5, "u": None}, {"x": True, "u": 3}]
    table = read_table(lines(tmp_path / "log.jsonl", rows))
    assert table["u"].tolist() == [2**53 + 1, None, 3]
    assert table["x"].tolist() == [1, 2.5, True]


def test_a_key_twice_is_a_bad_line(tmp_path, capsys):
    sound = '{"context": {"x": 1}, "action": "a", "reward": 0}'
    twice = '{"context": {"x": 1}, "action": "b", "reward": 0, "reward": 99}'
    inner = '{"context": {"x": 1, "x": 2}, "action": "b", "reward": 0}'
    (tmp_path / "trace.jsonl").write_text(f"{sound}\n{twice}\n{inner}\n")
    reading = read_jsonl(tmp_path / "trace.jsonl")
    assert [bad.line for bad in reading.bad] == [2, 3]
    assert "'reward' appears twice" in reading.bad[0].reason
    (tmp_path / "table.jsonl").write_text('{"ad": "a", "click": 1}\n{"ad": "a", "click": 1, "click": 0}\n')
    with pytest.raises(DataError, match=r"table\.jsonl, line 2: the field 'click' appears twice"):
        read_table(tmp_path / "table.jsonl")
    router = '{"candidates": {"s": 0.5, "s": 0.2, "l": 0.5}, "model": "s", "quality": 1}'
    (tmp_path / "router.jsonl").write_text(f'{router}\n{{"candidates": ["s"], "model": "s", "quality": 1}}\n')
    assert "'s' appears twice" in read_router(tmp_path / "router.jsonl").bad[0].reason


# -- 7: policy tables ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [("01", "1", "2"), ("NA", "null", "x"), (1, 2, 3), ("a,b", '"', " a")])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_a_policy_table_is_read_as_the_log_is(tmp_path, labels, kind):
    named = dict(zip("abc", labels, strict=True))
    frame = FRAME.assign(ad=[named[a] for a in FRAME["ad"]], x=["01", "1", "NA"] * 100)
    table = pd.DataFrame({"x": ["01", "1", "NA"], "ad": [labels[1]] * 3, "probability": [1.0] * 3})
    path = tmp_path / f"policy.{kind}"
    _ = table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
    log = op.BanditLog.from_frame(frame, **ROLES)
    assert value(log, str(path)) == pytest.approx(TRUTH)
    if kind == "csv":
        frame.to_csv(tmp_path / "log.csv", index=False)
        assert told(tmp_path, tmp_path / "log.csv", spec=str(path)) == pytest.approx(TRUTH)


def test_a_table_of_numbers_matches_numbers_and_not_their_texts(tmp_path):
    frame = FRAME.assign(x=[0.5, 1.0, 2.0] * 100, new=[True, False, True] * 100)
    path = tmp_path / "policy.csv"
    path.write_text("x,new,ad,probability\n0.50,True,b,1\n1,False,b,1e0\n+2.0,true,b,1.0\n")
    log = op.BanditLog.from_frame(frame, **{**ROLES, "context": ["x", "new"]})
    assert value(log, str(path)) == pytest.approx(TRUTH)
    path.write_text("x,new,ad,probability\n0.5,True,b,1\n0.50,True,b,1\n1,False,b,1\n2,True,b,1\n")
    with pytest.raises(PolicyError, match="appears twice"):
        value(log, str(path))
    path.write_text("x,new,ad,probability\nhalf,True,b,1\n")
    with pytest.raises(PolicyError, match="has 'half' in row 0, but numbers in the log"):
        value(log, str(path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("p.csv", b"", "is empty"), ("p.parquet", b"PAR1", "not a Parquet file"), ("p.csv", b"x,ad\n", "probability"),
     ("p.csv", b"x,ad,probability\n1,b\n", "2 cells for 3 columns"), ("p.csv", b"\xff\xfe", "UTF-8"),
     ("p.csv", b"x,x,ad,probability\n", "two columns 'x'"), ("p.csv", b"x,ad,probability\n1,bb,1\n", "not an action"),
     ("p.csv.gz", b"no gzip", "gzip|CSV file")],
)  # fmt: skip
def test_a_broken_policy_table_is_named(tmp_path, capsys, name, content, words):
    (tmp_path / name).write_bytes(content)
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    flags = [*FLAGS, "--policy", f"new={tmp_path / name}"]
    assert main(["evaluate", str(tmp_path / "log.csv"), *flags]) == 1
    import re

    assert re.search(words, capsys.readouterr().err)


# -- 8 and 9: numbers in other clothes -----------------------------------------------------------------------------


def test_a_point_is_no_decimal_sign_where_the_comma_is(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("x;y\n1.234;0,5\n2.500;1,5\n3.000;1.234,50\n")
    frame = read_csv(str(tmp_path / "log.csv"), separator=";", decimal=",")
    assert frame["x"].tolist() == ["1.234", "2.500", "3.000"]
    assert frame["y"].tolist() == ["0,5", "1,5", "1.234,50"]
    text = FRAME.assign(click=[f"1.{c}00" for c in FRAME["click"]], p=[str(p).replace(".", ",") for p in FRAME["p"]],
                        x=0)  # fmt: skip
    text.to_csv(tmp_path / "eu.csv", index=False, sep=";")
    words = [*FLAGS, "--decimal", ",", "--policy", "new=always:b"]
    assert main(["evaluate", str(tmp_path / "eu.csv"), *words]) == 1
    assert "numbers written as text" in capsys.readouterr().err


def test_every_spelling_of_success_is_named(tmp_path, capsys):
    spelled = [["yes", "Yes", "YES"][i % 3] if c else ["no", "No"][i % 2] for i, c in enumerate(FRAME["click"])]
    path = tmp_path / "log.csv"
    FRAME.assign(click=spelled).to_csv(path, index=False)
    for engine in ([], ["--engine", "duckdb"]):
        assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:b", *engine]) == 1
        said = capsys.readouterr().err
        assert all(f"--success {word}" in said for word in ("yes", "Yes", "YES"))
        assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:b", "--success", "YES", *engine]) == 1
        assert "which would count as 0" in capsys.readouterr().err
        three = ["--success", "yes", "--success", "Yes", "--success", "YES"]
        assert told(tmp_path, path, *three, *engine) == pytest.approx(TRUTH)
    assert positive(["no", "Yes", "yes "]) == ["Yes", "yes "]


@pytest.mark.parametrize(
    ("word", "words"),
    [("1%", "percent"), ("12.5 %", "percent"), ("€1000.0", "currency"), ("5 USD", "currency"), ("−1", "minus"),
     ("0x1", "hexadecimal"), ("1.0D+00", "exponent"), ("1.234,50", "thousands"), ("1 000", "thousands")],
)  # fmt: skip
def test_numbers_in_other_clothes_are_no_words(tmp_path, capsys, word, words):
    assert words in not_numbers("click", [word])
    path = tmp_path / "log.parquet"
    FRAME.assign(click=word).to_parquet(path, index=False)
    assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:b"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "--success" not in said


# -- 10: nothing is stripped ---------------------------------------------------------------------------------------


def test_a_label_keeps_its_blanks(tmp_path):
    named = {"a": "ad", "b": "ad ", "c": " ad"}
    path = tmp_path / "log.csv"
    FRAME.assign(ad=FRAME["ad"].map(named)).to_csv(path, index=False)
    assert told(tmp_path, path, spec="always:ad ") == pytest.approx(TRUTH)
    run = tmp_path / "run.toml"
    run.write_text(
        'log = "log.csv"\ncontext = ["x"]\naction = "ad"\nreward = "click"\npropensity = "p"\njson = "run.json"\n'
        'estimators = ["IPW"]\n[policies]\npolicy = "always:ad "\n'
    )
    assert main(["evaluate", str(run)]) == 0
    result = json.loads((tmp_path / "run.json").read_text())
    assert [r["value"] for r in result["estimates"] if r["estimator"] == "IPW"] == [pytest.approx(TRUTH)]


# -- 12, 13, 14: types and dialects --------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["id", "cluster"])
@pytest.mark.parametrize("way", ["rows", "stream"])
def test_unsigned_hashes_and_uuids_tell_rows_apart(role, way):
    hashes = np.arange(300, dtype=np.uint64) * np.uint64(7919) + np.uint64(2**63 - 150 * 7919)
    frame = FRAME.assign(u=hashes)
    here = op.evaluate(op.BanditLog.from_frame(frame, **ROLES, **{role: "u"}), "always:b", estimators=["IPW-cf"])
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with op.scan(table, **ROLES, **{role: "u"}, way=way) as log:
        there = op.evaluate(log, "always:b", estimators=["IPW-cf"])
    assert there["IPW-cf"].value == pytest.approx(here["IPW-cf"].value, rel=1e-12)
    assert there["IPW-cf"].std_error == pytest.approx(here["IPW-cf"].std_error, rel=1e-12)
    connection = duckdb.connect()
    connection.register("rows", FRAME)
    connection.execute("CREATE TABLE t AS SELECT *, uuid() AS u FROM rows")
    with op.scan(connection, table="t", **ROLES, **{role: "u"}, way=way) as log:
        assert value(log) == pytest.approx(TRUTH)


def test_mixed_line_ends_and_names_that_differ_by_case_are_named(tmp_path):
    rows = FRAME.to_csv(index=False).splitlines()
    mixed = "".join(row + ("\n" if i % 2 else "\r\n") for i, row in enumerate(rows))
    (tmp_path / "mixed.csv").write_bytes(mixed.encode())
    with pytest.raises(DataError, match="end in LF and others in CRLF"):
        scanned(str(tmp_path / "mixed.csv"))
    two = FRAME.rename(columns={"x": "CLICK"})
    two.to_csv(tmp_path / "two.csv", index=False)
    two.to_parquet(tmp_path / "two.parquet", index=False)
    for source in (str(tmp_path / "two.csv"), str(tmp_path / "two.parquet"), two):
        with pytest.raises(DataError, match="differ only in letter case"):
            scanned(source, context=["CLICK"])


@pytest.mark.parametrize("column", ["s", "l", "m"])
def test_nested_columns_are_computed_with_or_named(tmp_path, capsys, column):
    connection = duckdb.connect()
    connection.register("rows", FRAME)
    sql = "SELECT *, {'a': x} AS s, [x, 1.0] AS l, map {'k': x} AS m FROM rows"
    table = connection.sql(sql).to_arrow_table()
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    for way in ("rows", "stream"):
        assert scanned(table, context=["x", column], way=way) == pytest.approx(TRUTH)
        with pytest.raises(DataError, match="not numbers"):
            scanned(table, reward=column, way=way)
    assert told(tmp_path, tmp_path / "log.parquet", "--context", f"x,{column}") == pytest.approx(TRUTH)
    words = [*FLAGS, "--context", f"x,{column}", "--policy", "new=always:b"]
    assert main(["evaluate", str(tmp_path / "log.parquet"), *words]) == 1
    assert "Split them into columns" in capsys.readouterr().err


# -- 16, 17, 18: labels that would be taken for others -------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_floats_are_no_labels_beyond_what_they_hold(kind):
    ids = np.array([2**53, 2**53 + 1, 2**53 + 2], dtype=kind)
    frame = FRAME.assign(ad=ids[["abc".index(a) for a in FRAME["ad"]]])
    log = op.BanditLog.from_frame(frame, **ROLES)
    assert value(log, lambda c: np.full(len(c), ids[1])) == pytest.approx(TRUTH)
    for given in (lambda c: np.full(len(c), 2.0**53 + 1), np.full(300, 2.0**53 + 1), [2.0**53] * 300):
        with pytest.raises((PolicyError, DataError), match=r"beyond 2\^53"):
            value(log, given)


def test_whole_numbers_that_no_type_holds_together_stay_apart():
    labels = [2**63, -1, 2**63 + 1]
    frame = FRAME.assign(ad=pd.Series([labels["abc".index(a)] for a in FRAME["ad"]], dtype=object))
    log = op.BanditLog.from_arrays(FRAME["x"], frame["ad"].tolist(), FRAME["click"], FRAME["p"])
    assert set(log.actions) == set(labels)


@pytest.mark.parametrize("yes", [True, np.True_])
@pytest.mark.parametrize("one", [1, 1.0, np.int64(1), np.float32(1)])
def test_true_and_one_are_not_one_label(yes, one):
    mixed = np.empty(300, dtype=object)
    mixed[:] = [{"a": yes, "b": one, "c": 2}[a] for a in FRAME["ad"]]
    with pytest.raises(DataError, match="both booleans and numbers"):
        op.BanditLog.from_frame(FRAME.assign(ad=mixed), **ROLES)


def test_a_frame_with_a_column_twice_is_refused_everywhere():
    twice = pd.concat([FRAME, 1 - FRAME[["click"]]], axis=1)
    for make in (op.BanditLog.from_frame, op.scan):
        with pytest.raises(DataError, match="click"):
            make(twice, **ROLES)


# -- 5 and 23: joins and records -----------------------------------------------------------------------------------


def test_metrics_of_strangers_are_no_zeros():
    day = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    shown = pd.DataFrame({"user_id": [1, 2, 3], "timestamp": day, "variation_id": [0, 1, 1]})
    sales = pd.DataFrame({"user_id": [2, 2, 9], "timestamp": day, "value": [2.0, 3.0, 4.0]})
    weights = {0: 0.5, 1: 0.5}
    log = from_exposures(shown, sales, weights=weights)
    assert "1 of 3 rows of the metric belong to units that were never exposed" in log.notes[0]
    for other in (sales.assign(user_id=["2", "2", "9"]), sales.assign(user_id=[7, 8, 9])):
        with pytest.raises(DataError, match="no row of the metric belongs to an exposed unit"):
            from_exposures(shown, other, weights=weights)
    with pytest.raises(DataError, match="not times"):
        from_exposures(shown.assign(timestamp=["a", "b", "c"]), sales, weights=weights)
    with pytest.raises(DataError, match="not times"):
        from_exposures(shown, sales.assign(timestamp=["a", "b", "c"]), weights=weights)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"_labelIndex": 0}, "several chosen actions"), ({"_label_Action": 1}, "several chosen actions"),
     ({"a": [1, 2]}, "several chosen actions"), ({"p": [0.9, 0.1]}, "p gives 0.9"),
     ({"_label_COST": -98}, "appears twice"),
     ({"_label_cost": True}, "cost true"), ({"p": [0.50004, 0.49996], "a": [2, 1]}, "")],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_a_bad_line(tmp_path, changes, words):
    event = {"_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1,
             "c": {"x": 1, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]}}  # fmt: skip
    reading = read_dsjson(lines(tmp_path / "log.json", [event, event | changes]))
    assert [bad.line for bad in reading.bad] == ([2] if words else [])
    assert not words or words in reading.bad[0].reason


def test_rounds_of_obp_are_counted():
    feedback = {"n_rounds": 7, "n_actions": 2, "context": [[0.0], [1.0]], "action": [0, 1], "reward": [0, 1]}
    with pytest.raises(DataError, match="n_rounds is 7"):
        from_obp(feedback)


# -- 24 and 26: settings that nobody reads, and small ones ---------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "words"),
    [("cap_reward = nan", "must be a finite number"), ('estimator = "DMLL"', "are the same setting"),
     ('config = "other.toml"', "cannot name another"), ('table = "t"', "database file")],
)  # fmt: skip
def test_a_setting_that_nobody_reads_is_refused(tmp_path, capsys, setting, words):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    run = tmp_path / "run.toml"
    run.write_text(
        'log = "log.csv"\ncontext = ["x"]\naction = "ad"\nreward = "click"\npropensity = "p"\n'
        f'estimators = ["IPW"]\n{setting}\n[policies]\npolicy = "always:b"\n'
    )
    assert main(["evaluate", str(run)]) == 1
    assert words in capsys.readouterr().err


def test_small_ones():
    frame = FRAME.assign(p_a=0.5, p_b=0.3, p_c=0.2)
    roles = {**ROLES, "propensity": {"a": "p_a", "b": "p_b", "c": "p_c", "d": "p"}}
    for make in (op.BanditLog.from_frame, lambda *a, **k: value(op.scan(*a, **k))):
        with pytest.raises(DataError, match="'d', which is not an action"):
            make(frame, **roles)
        with pytest.raises((DataError, UsageError), match="twice"):
            make(frame, **{**ROLES, "propensity": ["p_a", "p_a", "p_c"]})
        for missing in (float("nan"), None):
            with pytest.raises(DataError, match="is a missing value"):
                make(FRAME, **ROLES, actions=["a", "b", "c", missing])
    log = op.BanditLog.from_frame(frame, **ROLES)
    with pytest.raises(PolicyError, match="'p_a' twice"):
        op.evaluate(log, "p_a,p_a,p_c")
    ev = op.evaluate(log, {"new": "always:b", "logged": "always:c"}, estimators=["IPW"])
    with pytest.raises(UsageError, match="means the current policy"):
        ev.gate("new - logged > 0")
    slots = pd.DataFrame({"q": [0, 0, 0, 1, 1, 1], "pos": [1, 2, 3] * 2, "item": list("abcbca"), "r": 1.0, "p": 0.5})
    named = {"slate": "q", "position": "pos", "context": None, "action": "item", "reward": "r", "propensity": "p"}
    for number in (-1, 2, 1.5):
        with pytest.raises(UsageError, match="slots"):
            op.Slates.from_frame(slots, **named, slots=number)


# -- 27: relations that change -------------------------------------------------------------------------------------


def test_a_relation_that_changes_between_passes_is_refused():
    connection = duckdb.connect()
    connection.register("rows", FRAME)
    assert scanned(connection.sql("SELECT * FROM rows")) == pytest.approx(TRUTH)
    for sql in ("SELECT * REPLACE (random() AS x) FROM rows", "SELECT * FROM rows USING SAMPLE 50% (bernoulli)"):
        with pytest.raises(DataError, match="different rows each time"):
            scanned(connection.sql(sql))


# -- types behind an engine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_categories_that_no_row_has_are_no_actions(way):
    frame = FRAME.assign(ad=pd.Categorical(FRAME["ad"], categories=["z", "c", "b", "a"]))
    assert scanned(frame, way=way) == pytest.approx(TRUTH)


def test_sparse_columns_are_read():
    frame = FRAME.assign(click=pd.arrays.SparseArray(FRAME["click"].astype(float)), x=pd.arrays.SparseArray(FRAME["x"]))
    assert scanned(frame) == pytest.approx(TRUTH)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (FRAME.assign(click=FRAME["click"].astype(np.longdouble)), "float128"),
        (pl.from_pandas(FRAME).with_columns(pl.col("click").cast(pl.Int128)), "Int128"),
        (pa.Table.from_pandas(FRAME.astype({"click": "float16"})), "halffloat"),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_a_type_that_the_engine_does_not_know_is_named(frame, kind):
    with pytest.raises(DataError, match=f"column 'click' holds {kind}, which DuckDB cannot read"):
        scanned(frame)


def test_what_can_be_read_once_is_refused():
    with pytest.raises(DataError, match="RecordBatchReader can be read only once"):
        scanned(pa.Table.from_pandas(FRAME).to_reader())


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, 1), ("True", True)])
def test_labels_of_two_types_are_not_made_one_by_an_engine(one, other):
    labels = pd.Series([one if a == "a" else other for a in FRAME["ad"]], dtype=object)
    with pytest.raises(DataError, match=r"column 'ad' holds .* and .*, which an engine would make one type"):
        scanned(FRAME.assign(ad=labels))


@pytest.mark.parametrize("name", ["*", "^x.*$", "^.*$"])
def test_a_name_is_no_pattern_of_polars(name):
    frame = pl.from_pandas(FRAME.rename(columns={"x": name}))
    assert value(op.BanditLog.from_frame(frame, **{**ROLES, "context": [name]})) == pytest.approx(TRUTH)


# -- rows by the numbers of their owner ----------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["a", "r", "p"])
@pytest.mark.parametrize("door", ["episodes", "slates", "single"])
def test_rows_are_called_by_the_numbers_of_their_owner(column, door):
    n = 60
    frame = pd.DataFrame(
        {"u": np.repeat(range(n), 2), "t": [0, 1] * n, "s": 0.5, "a": ["x", "y"] * n, "r": 1.0, "p": 0.5}
    )
    frame["i"] = range(2 * n)
    frame = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    frame[column] = frame[column].astype(object).where(frame.index != 17, None)
    roles = {"action": "a", "reward": "r", "propensity": "p"}
    opened = {
        "episodes": lambda: op.Trajectories.from_frame(frame, episode="u", step="t", state=["s"], **roles),
        "slates": lambda: op.Slates.from_frame(frame, slate="u", position="t", context=["s"], **roles),
        "single": lambda: op.BanditLog.from_frame(frame, context=["s"], id="i", **roles),
    }
    with pytest.raises(DataError, match=r"1 of 120 values \(first: row 17"):
        opened[door]()


def test_a_weight_that_changes_inside_an_episode_is_found_in_its_row():
    frame = pd.DataFrame({"u": [2, 1, 2, 1], "t": [1, 1, 0, 0], "a": list("xyxy"), "r": 1.0, "w": [1.0, 2, 1, 3]})
    with pytest.raises(DataError, match=r"the weight changes within an episode in 1 of 4 values \(first: row 1\)"):
        op.Trajectories.from_frame(frame, episode="u", step="t", state=None, action="a", reward="r", weight="w")


def test_a_probability_of_infinity_is_no_rounding():
    with pytest.raises(DataError, match=r"are above 1. A propensity is a probability in .* Check the column"):
        op.BanditLog.from_frame(FRAME.assign(p=np.inf), **ROLES)


def test_half_a_character_is_a_bad_line(tmp_path, capsys):
    rows = FRAME.to_dict("records")
    lines = [json.dumps(row) for row in rows]
    lines[3] = lines[3].replace(json.dumps(rows[3]["ad"]), '"\\ud800"')
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    assert main(["evaluate", str(tmp_path / "log.jsonl"), *FLAGS, "--policy", "new=always:b"]) == 1
    assert "line 4: a text holds '\\ud800', half of a character" in capsys.readouterr().err


def test_a_column_called_c_is_a_column(tmp_path):
    FRAME.assign(c=1.5).to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    assert told(tmp_path, tmp_path / "log.jsonl") == pytest.approx(TRUTH)


@pytest.mark.parametrize("cell", [[1], {"v": 1}, [[1, 2]]])
def test_lists_and_objects_of_json_lines_end_in_a_sentence(tmp_path, capsys, cell):
    rows = [{**row, "click": cell} for row in FRAME.to_dict("records")]
    path = lines(tmp_path / "log.jsonl", rows)
    assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:b"]) == 1
    assert "column 'click'" in capsys.readouterr().err
    assert main(["evaluate", str(path), *FLAGS, "--policy", "new=always:b", "--success", "yes"]) == 1
    for words in (["init", str(path)], ["convert", str(path), str(tmp_path / "out.csv")], ["check", str(path), *FLAGS]):
        main(words)  # whatever comes of it, it is no traceback
