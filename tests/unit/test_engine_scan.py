"""Scanned logs: sources, checks by queries, temporary files, progress, sums, and the way chosen."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, PolicyError, UsageError

duckdb = pytest.importorskip("duckdb")
ibis = pytest.importorskip("ibis")

NAMED = {"context": ["x", "kind"], "action": "arm", "reward": "r", "propensity": "p"}


def make(n=400, seed=0):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "key": np.arange(n),
            "x": rng.integers(0, 4, n),
            "kind": rng.choice(["a", "b"], n),
            "arm": np.array(["u", "v", "w"])[arm],
            "r": rng.integers(0, 2, n).astype(float),
            "money": rng.normal(size=n) + arm,
            "p": rng.choice([0.25, 0.5], n),
            "w": rng.choice([0.5, 1.5], n),
            "user": rng.integers(0, 50, n),
            "hour": rng.integers(0, 3, n),
        }
    )


def soft(frame):
    logits = np.outer(frame["x"].to_numpy(dtype=float) / 3, np.arange(3))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def value(log, **settings):
    ev = op.evaluate(log, soft, estimators=["SNIPW", "IPW-cf"], **settings)
    return [(e.value, e.std_error) for e in ev.estimates.values()]


def sources(frame, folder):
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    for i in range(2):
        frame.iloc[i::2].to_parquet(folder / f"log{i}.parquet")
    frame.to_csv(folder / "log.csv", index=False)
    frame.to_csv(folder / "zipped.csv.gz", index=False)
    with duckdb.connect(str(folder / "log.duckdb")) as con:
        con.execute("CREATE TABLE clicks AS SELECT * FROM frame")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE clicks AS FROM '{folder}/log*.parquet'")
    back = ibis.duckdb.from_connection(con)
    yield "pattern", str(folder / "log*.parquet"), {}
    yield "folder", str(folder), {}
    yield "path", folder / "log.csv", {}
    yield "gzip", str(folder / "zipped.csv.gz"), {}
    yield "database", str(folder / "log.duckdb"), {"table": "clicks"}
    yield "connection", con, {"table": "clicks"}
    yield "relation", con.sql("SELECT * FROM clicks WHERE key >= 0"), {}
    yield "dataset", ds.dataset(sorted(folder.glob("*.parquet"))), {}
    yield "arrow", pa.Table.from_pandas(frame), {}
    yield "polars", pl.from_pandas(frame), {}
    yield "ibis", back.table("clicks").filter(ibis._.key >= 0), {}


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_source_gives_the_same_number(tmp_path):
    frame = make()
    with op.scan(frame, **NAMED, id="key", batch="hour") as log:
        expected = value(log)
    for name, source, more in sources(frame, tmp_path):
        with op.scan(source, **NAMED, id="key", batch="hour", **more) as log:
            assert log.n == 400, name
            assert np.ravel(value(log)) == pytest.approx(np.ravel(expected), rel=1e-12), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r": np.nan}, r"column 'r': 2 of 400 values \(first: id 3 = (nan|None).*missing or infinite"),
        ({"r": -np.inf}, r"id 3 = -inf, id 5 = -inf\) are missing or infinite"),
        ({"p": 0.0}, r"column 'p': 2 of 400 values \(first: id 3 = 0\.0.*zero or negative"),
        ({"p": 25.0}, r"are above 1.*divide by 100"),
        ({"p": np.nan}, r"propensity is missing in 2 of 400"),
        ({"w": -1.0}, r"column 'w': 2 of 400 .*are negative"),
        ({"w": np.inf}, r"column 'w': .*missing or infinite"),
        ({"arm": None}, r"column 'arm': the action is missing in 2 of 400"),
        ({"hour": None}, r"column 'hour': the batch is missing in 2 of 400"),
        ({"user": None}, r"column 'user': the cluster is missing in 2 of 400"),
    ],
)
def test_bad_rows_are_counted_and_shown(change, message):
    frame = make()
    for column, bad in change.items():
        if bad is None:
            frame[column] = frame[column].astype(object)
        frame.loc[[3, 5], column] = bad
    if frame["user"].dtype == object:
        frame["user"] = frame["user"].astype("Int64")
    if frame["hour"].dtype == object:
        frame["hour"] = frame["hour"].astype("Int64")
    named = {**NAMED, "weight": "w", "batch": "hour", "cluster": "user", "id": "key"}
    with op.scan(frame, **named) as log, pytest.raises(DataError, match=message):
        log.check()


def test_columns_that_do_not_fit():
    frame = make()
    with pytest.raises(DataError, match=r"no such column\. Did you mean 'arm'"):
        op.scan(frame, **{**NAMED, "action": "arn"})
    with pytest.raises(DataError, match="contains the reward column"):
        op.scan(frame, **{**NAMED, "context": ["x", "r"]})
    with (
        op.scan(frame, **{**NAMED, "context": ["x"], "reward": "kind"}) as log,
        pytest.raises(DataError, match="holds string, not numbers"),
    ):
        log.check()
    with (
        op.scan(frame, **NAMED, actions=["u", "v"]) as log,
        pytest.raises(DataError, match="not in the list of actions"),
    ):
        log.check()
    with op.scan(frame[frame["x"] > 9], **NAMED) as log, pytest.raises(DataError, match="no rows"):
        log.check()
    with op.scan(frame.assign(w=0.0), **NAMED, weight="w") as log, pytest.raises(DataError, match="every weight is 0"):
        log.check()


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="no file matches"):
        op.scan(str(tmp_path / "none*.parquet"), **NAMED)
    with pytest.raises(DataError, match="unknown kind of file"):
        op.scan("log.xlsx", **NAMED)
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    with pytest.raises(UsageError, match="Name one with table="):
        op.scan(str(tmp_path / "a.duckdb"), **NAMED)
    with pytest.raises(DataError, match="cannot scan"):
        op.scan(3, **NAMED)
    with pytest.raises(UsageError, match="memory_limit= must be a size"):
        op.scan(make(), **NAMED, memory_limit="lots")
    with pytest.raises(UsageError, match="engine= must be"):
        op.scan("a.parquet", **NAMED, engine="flink")


def test_what_a_scan_cannot_do():
    with op.scan(make(), **NAMED, id="key") as log:
        with pytest.raises(PolicyError, match="an array needs one row per logged row"):
            op.evaluate(log, np.full((400, 3), 1 / 3))
        with pytest.raises(UsageError, match="reward_model= as an array"):
            op.evaluate(log, soft, reward_model=np.zeros((400, 3)))
        with pytest.raises(UsageError, match="labels in a column"):
            op.evaluate(log, soft, folds=np.arange(400) % 2)
        with pytest.raises(UsageError, match="stratify"):
            op.evaluate(log, soft, folds=op.KFold(2, stratify="action"))
        with pytest.raises(PolicyError, match=r"'nope'.*no such column"):
            op.evaluate(log, "nope")


def test_the_way_follows_from_the_log():
    frame = make(3_000)
    frame["z"] = np.random.default_rng(1).normal(size=3_000)
    for columns, reward, limits, way in (
        (["x"], "r", {}, "cells"),
        (["x", "z"], "r", {}, "rows"),
        (["x", "z"], "r", {"max_rows": 1_000}, "stream"),
        (["x"], "money", {"max_rows": 1_000}, "stream"),
        (["x"], "r", {"max_rows": 1_000, "max_cells": 10}, "stream"),
    ):
        named = {**NAMED, "context": columns, "reward": reward}
        with op.scan(frame, **named, id="key", **limits) as log:
            ev = op.evaluate(log, soft, estimators=["SNIPW"])
            assert ev.settings["engine"]["way"] == way
    with (
        op.scan(frame, **NAMED, id="key", max_cells=10, way="cells") as log,
        pytest.raises(UsageError, match="more than 10 cells"),
    ):
        op.evaluate(log, soft, estimators=["SNIPW"])


def test_folds_of_a_column_are_used():
    frame = make().assign(part=lambda f: np.where(f["key"] % 3 == 0, "one", "two"))
    log = op.BanditLog.from_frame(frame, **NAMED, fold="part")
    rows = op.evaluate(log, soft, estimators=["DML"], reward_model=op.models.BoostedReward(5, validation=0))
    with op.scan(frame, **NAMED, fold="part", way="cells") as scanned:
        cells = op.evaluate(scanned, soft, estimators=["DR-half"], reward_model=Zero())
    zero = op.evaluate(log, soft, estimators=["DR-half"], reward_model=Zero())
    assert cells["DR-half"].value == pytest.approx(zero["DR-half"].value, rel=1e-12)
    assert cells["DR-half"].n == zero["DR-half"].n != rows["DML"].n


class Zero:
    def fit_reward(self, data, seed):
        return self

    def predict(self, X, codes):
        return np.zeros(len(codes))


def test_another_behavior_model_refits_no_reward_model():
    log = op.BanditLog.from_frame(make(), **NAMED, batch="hour")
    model = op.models.BoostedReward(rounds=5, validation=0, threads=1)
    known = op.evaluate(log, soft, estimators=["DML", "IPW"], reward_model=model)
    estimated = known.with_behavior("shares")
    direct = op.evaluate(log, soft, estimators=["DML", "IPW"], reward_model=model, behavior_model="shares")
    for name in ("DML", "IPW"):
        assert estimated[name].value == direct[name].value != known[name].value
        assert estimated[name].std_error == direct[name].std_error
    before, after = (ev.problem.fits.own for ev in (known, estimated))
    kept = [k for k in before if k[0] == 1]
    assert all(after[k] is before[k] for k in kept)
    assert len(kept) == 2


def test_progress_is_reported():
    seen = []
    with op.scan(make(), **NAMED, id="key", way="stream", chunk_rows=100, progress=lambda *a: seen.append(a)) as log:
        op.evaluate(log, soft, estimators=["IPW"])
    stages = [stage for stage, _ in seen]
    assert stages == sorted(stages, key=["check", "fit", "score"].index)
    assert [done for stage, done in seen if stage == "score"][-1] == 1.0


def test_temporary_files_go_when_the_scan_is_closed(tmp_path):
    with op.scan(make(), **NAMED, id="key", temp_directory=tmp_path) as log:
        value(log)
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    log = op.scan(make(), **NAMED, id="key", temp_directory=tmp_path)
    del log
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_temporary_files_go_after_an_interrupt(tmp_path):
    script = textwrap.dedent(f"""
        import numpy as np, pandas as pd, time, offpolicy as op
        from pathlib import Path
        n = 2000
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({{"x": rng.normal(size=n), "a": rng.integers(0, 2, n), "r": rng.random(n)}})
        def policy(context):
            Path({str(tmp_path / "started")!r}).touch()
            time.sleep(30)
        log = op.scan(frame, context="x", action="a", reward="r", way="stream",
                      temp_directory={str(tmp_path / "spill")!r})
        op.evaluate(log, policy, estimators=["SNIPW"], behavior_model="shares")
    """)
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) as process:
        for _ in range(1_200):
            if (tmp_path / "started").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        assert list((tmp_path / "spill").iterdir())
        os.kill(process.pid, signal.SIGINT)
        error = process.communicate(timeout=120)[1]
    assert b"KeyboardInterrupt" in error
    assert not list(Path(tmp_path / "spill").iterdir())


@pytest.mark.parametrize("way", ["cells", "rows", "stream"])
def test_the_default_set_is_the_same_on_every_path(way):
    model = op.models.BoostedReward(rounds=3, validation=0, threads=1)
    with op.scan(make(), **NAMED, id="key", way=way) as log:
        ev = op.evaluate(log, op.policies.Uniform(), reward_model=model)
    names = [name for _, name in ev.estimates]
    assert names == ["auto", "DML", "SNDR", "SNIPW", "IPW", "DM"]
    assert ev.verdict().reasons


@pytest.mark.parametrize("way", ["memory", "cells", "rows", "stream"])
@pytest.mark.parametrize("more", [{}, {"cluster": "hour"}], ids=str)
def test_more_folds_than_units_are_refused_on_every_path(way, more):
    frame = make()
    log = (
        op.BanditLog.from_frame(frame, **NAMED, id="key", **more)
        if way == "memory"
        else op.scan(frame, **NAMED, id="key", way=way, **more)
    )
    with pytest.raises(UsageError, match="needs at least 500"):
        op.evaluate(log, soft, estimators=["DML"], folds=500)


def test_ids_that_are_neither_integers_nor_text_are_refused_in_memory_and_elsewhere():
    frame = make().assign(key=lambda f: f["key"] + 0.5)
    with pytest.raises(DataError, match="integer or text"):
        op.BanditLog.from_frame(frame, **NAMED, id="key")
    with op.scan(frame, **NAMED, id="key") as log, pytest.raises(DataError, match="integer or text"):
        op.evaluate(log, soft)
