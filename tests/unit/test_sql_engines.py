"""The queries of an evaluation in other dialects, and a real PostgreSQL that gives the same number."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.engines.duckdb import DuckDB
from offpolicy.engines.table import fold_columns, normalized
from offpolicy.errors import DataError
from offpolicy.logs.roles import Roles
from offpolicy.splits.folds import Plan
from offpolicy.splits.hashing import hash_folds

pytest.importorskip("duckdb")
ibis = pytest.importorskip("ibis")

DIALECTS = ["bigquery", "snowflake", "postgres"]


def make(n=600, seed=0):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "key": rng.permutation(n) * 12_345_678_901 - 10**12,
            "x": rng.integers(0, 4, n),
            "kind": rng.choice(["a", "b", None], n),
            "arm": np.array(["u", "v", "w"])[arm],
            "r": rng.integers(0, 2, n).astype(float),
            "money": rng.normal(size=n),
            "p": rng.choice([0.25, 0.5], n),
            "user": [f"user{i}" for i in rng.integers(0, n // 4, n)],
            "hour": rng.integers(0, 3, n),
            "w": rng.choice([0.5, 1.5], n),
            "keep": rng.choice([0.5, 1.0], n),
            "p_u": np.full(n, 0.25),
            "p_v": np.full(n, 0.25),
            "p_w": np.full(n, 0.5),
        }
    )


NAMED = {"context": ["x", "kind"], "action": "arm", "reward": "r", "propensity": "p", "batch": "hour", "id": "key"}


def soft(frame):
    logits = np.outer(frame["x"].to_numpy(dtype=float) / 3, np.arange(3))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


class EveryDialect(DuckDB):
    """DuckDB that also compiles what it runs for engines that are not here."""

    compiled = 0

    def compile(self, expression):
        for dialect in DIALECTS:
            assert ibis.to_sql(expression, dialect=dialect)
            type(self).compiled += 1
        return super().compile(expression)


@pytest.mark.parametrize("way", ["cells", "rows", "stream"])
@pytest.mark.parametrize("unit", [{}, {"cluster": "user", "weight": "w", "keep_probability": "keep"}])
def test_every_query_compiles_for_warehouses(way, unit, monkeypatch):
    monkeypatch.setattr("offpolicy.engines.reading.DuckDB", EveryDialect)
    before = EveryDialect.compiled
    for propensity in ("p", ["p_u", "p_v", "p_w"], None):
        with op.scan(make(), **{**NAMED, "propensity": propensity}, **unit, way=way) as log:
            behavior = "shares" if propensity is None else None
            ev = op.evaluate(log, soft, estimators=["IPW", "DML"], behavior_model=behavior)
            assert np.isfinite(ev["DML"].value)
    assert EveryDialect.compiled > before + 9


def test_examples_of_bad_rows_compile_for_warehouses(monkeypatch):
    monkeypatch.setattr("offpolicy.engines.reading.DuckDB", EveryDialect)
    frame = make()
    frame.loc[3, "p"] = 25.0
    with op.scan(frame, **NAMED) as log, pytest.raises(DataError, match=r"id .* = 25\.0"):
        log.check()


def test_bigquery_reads_a_digest_as_text():
    table = ibis.table({"user": "string", "arm": "string", "r": "int64"}, name="log")
    roles = Roles.of("bandit", {"action": "arm", "reward": "r", "cluster": "user"})
    rows = normalized(table, roles, None, dialect="bigquery")
    sql = ibis.to_sql(rows.mutate(**fold_columns(rows, Plan.of(2))), dialect="bigquery")
    assert "to_hex(md5(" in sql.lower()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """A PostgreSQL server of this test's own, on a socket in a temporary folder."""
    pytest.importorskip("psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    binary = shutil.which("initdb") or (found[-1] if found else None)
    if binary is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    bin_folder = Path(binary).parent
    # A short path: the name of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    prefix = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot run PostgreSQL, and setpriv is missing")
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(folder, 65534, 65534)
    data = folder / "data"

    def run(*command):
        subprocess.run([*prefix, *map(str, command)], check=True, capture_output=True, cwd=folder, timeout=120)

    run(bin_folder / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
    with subprocess.Popen(
        [
            *prefix,
            str(bin_folder / "postgres"),
            *("-D", str(data), "-k", str(folder), "-c", "listen_addresses="),
            *("-c", "fsync=off"),
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            for _ in range(600):
                if (folder / ".s.PGSQL.5432").exists():
                    break
                time.sleep(0.1)
            time.sleep(0.5)
            connection = ibis.postgres.connect(host=str(folder), user="tester", database="postgres")
            yield connection
            connection.disconnect()
        finally:
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients to leave
            server.wait(timeout=60)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def table(postgres):
    return postgres.create_table("log", ibis.memtable(make()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", ["cells", "rows", "stream"])
@pytest.mark.parametrize("unit", [{}, {"cluster": "user"}])
def test_postgresql_gives_the_same_number(table, way, unit):
    settings = {
        "estimators": ["DML", "SNIPW"],
        "reward_model": op.models.BoostedReward(rounds=5, validation=0, threads=1),
    }
    values = []
    for source in (make(), table):
        with op.scan(source, **{**NAMED, **unit}, way=way) as log:
            ev = op.evaluate(log, soft, **settings)
        values += [[(e.value, e.std_error) for e in ev.estimates.values()]]
    assert np.ravel(values[1]) == pytest.approx(np.ravel(values[0]), rel=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_folds_are_the_same_everywhere(table):
    frame = make()
    for unit in ("key", "user"):
        expected = hash_folds(frame[unit].to_numpy(), 5, 7, repeat=1)
        for source in (table,):
            roles = Roles.of("bandit", {"action": "arm", "reward": "r", "id": unit})
            rows = normalized(source, roles, None)
            found = source.mutate(number=normalized_id(source, unit), fold=fold_of(source, unit)).execute()
            known = dict(zip(frame[unit], expected, strict=True))
            assert [known[u] for u in found[unit]] == found["fold"].tolist()
            assert "id" in rows.columns


def normalized_id(source, unit):
    from offpolicy.engines.table import integer_id

    return integer_id(source[unit], source)


def fold_of(source, unit):
    from offpolicy.splits import hashing

    return hashing.fold_of(normalized_id(source, unit), 5, hashing.hash_constants(7, 1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_postgresql_counts_bad_rows(postgres):
    frame = make()
    frame.loc[[3, 5], "r"] = [np.inf, np.nan]
    bad = postgres.create_table("bad", ibis.memtable(frame))
    with op.scan(bad, **NAMED) as log, pytest.raises(DataError, match="2 of 600 values"):
        log.check()
