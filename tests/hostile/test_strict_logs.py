"""Logs hold what they were given: no mask, row label, type or later change gets lost on the way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import offpolicy as op
from offpolicy.engines.csv import read_csv
from offpolicy.engines.duckdb import DuckDB
from offpolicy.errors import DataError, PolicyError, UsageError
from offpolicy.splits.folds import Plan

N = 40
X = np.linspace(0, 1, N)
A = np.arange(N) % 2
R = X + A
P = np.full(N, 0.5)
ROLES = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}


def frame() -> pd.DataFrame:
    return pd.DataFrame({"x": X, "ad": A, "click": R, "p": P})


# -- nothing changes a log -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["action", "reward", "propensity", "weight", "unit"])
def test_arrays_of_a_log_cannot_be_written(name):
    log = op.BanditLog.from_arrays(X, A, R, P, weight=P, cluster=A)
    with pytest.raises(ValueError, match="read-only"):
        getattr(log, name)[0] = 7


def test_a_change_of_the_callers_arrays_does_not_reach_the_log():
    x, r = X.copy(), R.copy()
    log = op.BanditLog.from_arrays(x, A, r, P)
    x[:], r[:] = 9, 9
    assert log.reward.tolist() == R.tolist()
    assert np.asarray(log.context.table).tolist() == X.tolist()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_change_of_the_callers_frame_does_not_reach_the_log(make):
    data = make({"x": X, "ad": A, "click": R, "p": P, "new": A})
    log = op.BanditLog.from_frame(data, **ROLES)
    before = op.evaluate(log, "new", estimators=["IPW"])["policy", "IPW"].value
    if isinstance(data, pd.DataFrame):
        data["new"], data["x"] = 1 - A, 0.0
    else:
        data.replace_column(4, pl.Series("new", 1 - A))
    assert op.evaluate(log, "new", estimators=["IPW"])["policy", "IPW"].value == before


def test_a_policy_that_writes_into_its_context_does_not_change_the_log():
    log = op.BanditLog.from_frame(frame(), **ROLES)

    def greedy(context):
        context["x"] = 1.0
        context["extra"] = 2.0
        return np.zeros(len(context), dtype=int)

    op.evaluate(log, greedy, estimators=["IPW"])
    assert log.context.table["x"].tolist() == X.tolist()
    assert list(log.context.table.columns) == ["x"]


def test_a_learner_that_centers_its_rewards_in_place_does_not_change_the_log():
    from sklearn.base import BaseEstimator, RegressorMixin

    class Centering(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            y -= y.mean()
            self.mean_ = float(y.mean())
            return self

        def predict(self, X):
            return np.full(len(X), self.mean_)

    log = op.BanditLog.from_arrays(X, A, R, P)
    ev = op.evaluate(log, lambda x: np.ones(len(x), dtype=int), estimators=["DR-full", "DML"],
                     reward_model=Centering())  # fmt: skip
    assert log.reward.tolist() == R.tolist()
    assert ev.logged.value == pytest.approx(R.mean())


# -- masks and row labels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["context", "action", "reward", "propensity", "weight", "cluster"])
def test_masked_entries_are_missing(name):
    values = {"context": X, "action": A, "reward": R, "propensity": P, "weight": P, "cluster": A}
    values[name] = np.ma.array(values[name], mask=np.arange(N) == 3)
    with pytest.raises(DataError, match=f"'{name}': 1 of 40 values .first: row 3. are masked"):
        op.BanditLog.from_arrays(**values)


def test_a_mask_that_hides_nothing_is_no_mask():
    assert op.BanditLog.from_arrays(X, A, np.ma.array(R), P).reward.tolist() == R.tolist()


def test_masked_probabilities_and_episodes_are_missing():
    log = op.BanditLog.from_arrays(X, A, R, P)
    half = np.ma.array(np.full((N, 2), 0.5), mask=np.arange(2 * N).reshape(N, 2) == 9)
    with pytest.raises(PolicyError, match=r"row 4.* masked"):
        op.evaluate(log, half, estimators=["IPW"])
    with pytest.raises(PolicyError, match=r"row 4.* masked"):
        op.evaluate(log, lambda x: half[: len(x)], estimators=["IPW"])
    rewards = [np.ma.array([1.0, 2.0], mask=[False, True]), np.ones(2)]
    with pytest.raises(DataError, match=r"episode 0.* masked"):
        op.Trajectories.from_arrays(np.zeros((2, 2)), [[0, 1], [1, 0]], rewards)


@pytest.mark.parametrize("index", [np.arange(N)[::-1], np.arange(N) + 5, [f"r{i}" for i in range(N)]])
def test_series_of_other_rows_are_refused(index):
    with pytest.raises(DataError, match="'reward' and 'action' have different indexes"):
        op.BanditLog.from_arrays(X, pd.Series(A), pd.Series(R, index=index), P)
    log = op.BanditLog.from_frame(frame(), **ROLES)
    with pytest.raises(PolicyError, match="and the log have different indexes"):
        op.evaluate(log, pd.Series(A, index=index), estimators=["IPW"])


def test_estimates_of_two_logs_are_not_paired():
    one, two = (
        op.evaluate(op.BanditLog.from_arrays(X, A, r, P), A, estimators=["IPW"])["policy", "IPW"] for r in (R, 1 - R)
    )
    for join in (lambda: one - two, lambda: one.lift(two)):
        with pytest.raises(UsageError, match="different logs"):
            join()


# -- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[[1], [2]], [{"a": 1}, {"b": 2}], [np.array([1]), np.array([2])]])
def test_labels_that_cannot_be_labels(labels):
    column = pd.Series(labels * 20)
    with pytest.raises(DataError, match=r"row 0 .* cannot be a label"):
        op.BanditLog.from_frame(frame().assign(ad=column), **ROLES)


def test_true_is_not_one_and_text_is_not_a_number():
    with pytest.raises(DataError, match="both booleans and numbers"):
        op.BanditLog.from_frame(frame().assign(ad=pd.Series([True, 1] * 20, dtype=object)), **ROLES)
    log = op.BanditLog.from_arrays(X, ["1", 1] * 20, R, P)
    assert set(log.actions) == {"1", 1}


def test_continuous_actions_are_refused():
    with pytest.raises(DataError, match="action looks continuous"):
        op.BanditLog.from_arrays(np.zeros(400), np.random.default_rng(0).random(400), np.zeros(400))


def test_absurd_numbers_of_actions_are_refused():
    with pytest.raises(DataError, match="limit is 1,000,000"):
        op.BanditLog.from_arrays(X, A, R, P, actions=range(10**9))


@pytest.mark.parametrize("role", ["reward", "weight"])
def test_integers_beyond_the_floats_are_not_rounded(role):
    values = {"reward": A, "weight": A + 1, role: A + 2**53 + 1}
    with pytest.raises(DataError, match=r"beyond 2.53"):
        op.BanditLog.from_arrays(X, A, values["reward"], P, weight=values["weight"])


def test_large_ids_keep_every_digit(tmp_path):
    ids = np.arange(N) + 2**60
    path = tmp_path / "log.csv"
    frame().assign(id=ids).to_csv(path, index=False)
    assert read_csv(str(path), ["id"])["id"].tolist() == ids.tolist()
    assert op.scan(str(path), id="id", **ROLES).check().n == N


# -- files -------------------------------------------------------------------------------------------------


def written(folder, text, name="log.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("one", "two"),
    [("1e3", "1000"), ("true", "t"), ("2020-01-02", "2020-1-2"), ("007", "7"), ("0.50", "0.5"),
     ("NA", "na"), ("1_000", "1000"), ("inf", "Infinity"), ("9007199254740993", "9007199254740992.0")],
)  # fmt: skip
def test_labels_of_a_csv_are_text_as_written(tmp_path, one, two):
    path = written(tmp_path, f"x,ad,click,p\n1,{one},0,.5\n2,{two},1,0.50\n3,{one},1,5e-1\n")
    assert read_csv(path, ["ad"])["ad"].tolist() == [one, two, one]
    scanned = op.scan(path, **ROLES)
    assert set(scanned.actions) == {one, two}
    assert scanned.engine.table(scanned.table)["p"].to_pylist() == [0.5] * 3


def test_one_reader_for_every_size_and_way(tmp_path):
    rows = "".join(f"{i},{'a' if i % 2 else 'b'},{i % 3},0.5,{'NA' if i == 3 else i}\n" for i in range(30))
    path = written(tmp_path, "x,ad,click,p,z\n" + rows)
    whole = read_csv(path, ["ad"])
    scanned = op.scan(path, **ROLES)
    other = scanned.engine.table(scanned.table).to_pandas()
    pd.testing.assert_frame_equal(whole, other)
    assert np.isnan(whole["z"][3])


def test_rows_of_a_large_csv_keep_their_order(tmp_path):
    n = 400_000
    lines = (
        f"{i},{'ab'[i % 2]},{i % 3},{'NA' if i % 7 == 0 else i / 8},{'null' if i % 5 == 0 else 'x'}\n" for i in range(n)
    )
    path = written(tmp_path, "x,ad,click,z,t\n" + "".join(lines))
    whole = read_csv(path, ["ad"])
    assert whole["x"].tolist() == list(range(n))
    assert whole["z"].isna().sum() == len(range(0, n, 7))
    log = op.scan(path, context=["x", "z"], action="ad", reward="click", way="stream")
    assert [
        x for block in log.opened(Plan.of(2, 1, 0), {}, None, None).blocks() for x in block.context.column("x")
    ] == list(range(n))
    log.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("x,ad,ad\n1,a,b\n", "two columns 'ad'"),
        ("x;ad;click\n1;a;0\n", "separated by semicolons"),
        ("x,ad,click,p\n1,a,0,.5\n2,b\n", "Line: 3"),
        ('x,ad,click,p\n1,a,0,.5\n2,"b,1,.5\n', "quote"),
        ("x,ad,click,p\n1,a,0,.5\n".encode("utf-16"), "UTF-16"),
        ("x,ad,click,p\n1,\xe9,0,.5\n".encode("latin-1"), "not UTF-8"),
    ],
)
def test_csv_files_that_are_none_say_what_they_are(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=words):
        op.scan(path, **ROLES).check()
    with pytest.raises(DataError, match=words):
        read_csv(path)


def test_files_of_a_pattern_are_widened_without_loss(tmp_path):
    table = {"x": [1.0, 2.0], "ad": ["a", "b"], "p": [0.5, 0.5]}
    pq.write_table(pa.table({**table, "click": [0, 1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({**table, "click": [0.5, 1.0]}), tmp_path / "2.parquet")
    scanned = op.scan(str(tmp_path / "*.parquet"), **ROLES)
    assert scanned.engine.table(scanned.table)["click"].to_pylist() == [0.0, 1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"click": ["no", "yes"]}, "holds int64 in .* but string in"),
        ({"click": [0, 1], "new": [1, 2]}, "column 'new' is in"),
        ({"click": [0.5, 1.0]}, "beyond 2.53"),
    ],
)
def test_files_that_cannot_be_reconciled(tmp_path, other, words):
    table = {"x": [1.0, 2.0], "ad": ["a", "b"], "p": [0.5, 0.5]}
    pq.write_table(pa.table({**table, "click": [0, 2**60]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({**table, **other}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=words):
        op.scan(str(tmp_path / "*.parquet"), **ROLES)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_file_that_changes_between_passes(tmp_path, name):
    path = tmp_path / name
    (frame().to_csv if name.endswith("csv") else frame().to_parquet)(path, index=False)
    with op.scan(str(path), way="stream", **ROLES) as log:
        log.check()
        with path.open("ab") as file:
            file.write(b"1,0,0,.5\n")
        with pytest.raises(DataError, match="changed while it was read"):
            op.evaluate(log, lambda x: np.zeros(len(x), dtype=int), estimators=["IPW"])


def test_damaged_parquet(tmp_path):
    path = tmp_path / "log.parquet"
    frame().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a Parquet file, or is cut off"):
        op.scan(str(path), **ROLES)


# -- DuckDB ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["1GB'; COPY (SELECT 1) TO 'x.csv'; --", "lots", "", "80%; LOAD x", 3])
def test_a_memory_limit_is_a_size_and_nothing_else(tmp_path, limit):
    path = written(tmp_path, "x,ad,click,p\n1,a,0,.5\n")
    with pytest.raises(UsageError, match=r"memory_limit= must be (a size|text)"):
        op.scan(path, memory_limit=limit, **ROLES)


@pytest.mark.parametrize("url", ["https://example.org/log.parquet", "s3://bucket/log.csv", "http://x/l.csv"])
def test_network_sources_must_be_asked_for(url):
    with pytest.raises(UsageError, match="network=True"):
        op.scan(url, **ROLES)
    with pytest.raises(UsageError, match="httpfs"):  # not installed, and not installed unasked
        op.scan(url, network=True, **ROLES)


def test_the_connection_reads_its_files_and_nothing_else(tmp_path):
    path = written(tmp_path, "x,ad,click,p\n1,a,0,.5\n")
    written(tmp_path, "a\n1\n", "secret.csv")
    duck = DuckDB(paths=[path])
    try:
        assert duck.query(f"SELECT count(*) FROM '{path}'").fetchall() == [(1,)]
        for sql in (f"SELECT * FROM '{tmp_path}/secret.csv'", "SELECT * FROM read_text('/etc/hostname')"):
            with pytest.raises(DataError, match="operations are disabled"):
                duck.query(sql).fetchall()
        for sql in (f"COPY (SELECT 1) TO '{tmp_path}/out.csv'", "INSTALL httpfs", "LOAD httpfs",
                    f"ATTACH '{tmp_path}/x.db'", "SET memory_limit = '1TB'"):  # fmt: skip
            with pytest.raises(Exception, match=r"disabled|locked|Cannot"):
                duck.connection.execute(sql)
    finally:
        duck.close()
    assert not (tmp_path / "out.csv").exists()
