"""Spark gives DuckDB's numbers: by cells and by chunks, with two executor processes, one of them killed."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clusters import spark_session
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import DataError, UsageError

pytest.importorskip("duckdb")
pytest.importorskip("ibis")
pyspark = pytest.importorskip("pyspark")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.xdist_group("spark"),
]
NAMED = {"context": ["x", "kind"], "action": "arm", "reward": "r", "propensity": "p", "id": "key"}


@pytest.fixture(scope="module")
def session():
    """A cluster of two executor processes on this machine."""
    made = spark_session(__name__, partitions=3)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four Parquet files of one log: discrete x for cells, continuous y for chunks."""
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    n = 2_000
    x = rng.integers(0, 5, n)
    arm = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "key": rng.permutation(n) * 977 - 5_000,
            "x": x,
            "y": rng.normal(size=n),
            "kind": rng.choice(["a", "b", None], n),
            "arm": np.array(["u", "v", "w"])[arm],
            "r": (rng.random(n) < 0.2 + 0.1 * arm + 0.05 * x).astype(float),
            "p": rng.choice([0.2, 0.4, 0.8], n),
            "user": [f"user{i}" for i in rng.integers(0, n // 4, n)],
            "hour": rng.integers(0, 3, n),
        }
    )
    for i in range(4):
        frame.iloc[i::4].to_parquet(folder / f"part{i}.parquet")
    return folder


def soft(column):
    def probabilities(frame):
        logits = np.outer(np.tanh(frame[column].to_numpy(dtype=float)), np.arange(3))
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    return probabilities


def assert_same(ours, theirs):
    assert ours.estimates.keys() == theirs.estimates.keys()
    for key, e in ours.estimates.items():
        other = theirs.estimates[key]
        assert other.value == pytest.approx(e.value, rel=1e-9, abs=1e-12), key
        assert other.std_error == pytest.approx(e.std_error, rel=1e-9, abs=1e-12), key
        a, b = (e - ours.logged).std_error, (other - theirs.logged).std_error
        assert b == pytest.approx(a, rel=1e-9, abs=1e-12)


def both(session, files, policy, settings, **options):
    with op.scan(str(files / "*.parquet"), **options) as log:
        ours = op.evaluate(log, policy, **settings)
    frame = session.read.parquet(str(files))
    with op.scan(frame, **options) as log:
        theirs = op.evaluate(log, policy, **settings)
    assert theirs.settings["engine"]["engine"] == "spark"
    return ours, theirs


def test_cells_made_by_spark_are_those_of_duckdb(session, files):
    model = op.models.BoostedReward(rounds=10, validation=0, threads=1)
    settings = {"estimators": ["DML", "DR-half", "SNIPW"], "reward_model": model}
    ours, theirs = both(session, files, soft("x"), settings, **NAMED, batch="hour", cluster="user", way="cells")
    assert theirs.problem.log.rows == ours.problem.log.rows
    assert_same(ours, theirs)


def test_scores_summed_by_executors_are_those_of_duckdb(session, files):
    options = {**NAMED, "context": ["y", "kind"], "batch": "hour", "way": "stream"}
    model = op.models.BoostedReward(rounds=10, validation=0, threads=1)
    settings = {"estimators": ["DML", "SNIPW", "DR-half"], "reward_model": model}
    policies = {"soft": soft("y"), "fixed": op.policies.Fixed("v")}
    ours, theirs = both(session, files, policies, settings, **options, cluster="user", chunk_rows=300)
    assert_same(ours, theirs)


@pytest.mark.parametrize("way", ["cells", "stream"])
def test_several_metrics_by_spark_are_those_of_duckdb(session, files, way):
    model = op.models.BoostedReward(rounds=5, validation=0, threads=1)
    settings = {"estimators": ["DML", "IPW"], "reward_model": model}
    options = {**NAMED, "reward": ["r", "hour"], "way": way, "chunk_rows": 700}
    ours, theirs = both(session, files, op.policies.Fixed("v"), settings, **options)
    for metric in ("r", "hour"):
        assert_same(ours.metric(metric), theirs.metric(metric))
    pair = [ev["DML"] - 0.5 * ev.metric("hour")["DML"] for ev in (ours, theirs)]
    assert pair[0].std_error == pytest.approx(pair[1].std_error, rel=1e-9)


@pytest.mark.parametrize("way", ["cells", "stream"])
@pytest.mark.parametrize("given", [None, {"u": 0.3, "v": 0.3, "w": 0.4}], ids=["fitted", "policy"])
def test_ratios_of_cells_by_spark_are_those_of_duckdb(session, files, way, given):
    model = op.models.BoostedReward(rounds=5, validation=0, threads=1)
    settings = {
        "estimators": ["DML", "IPW"], "reward_model": model, "behavior_model": given,
        "ratio": op.CoarseRatio(),
    }  # fmt: skip
    table = {"u": {"age": "old"}, "v": {"age": "old"}, "w": {"age": "new"}}
    options = {**NAMED, "propensity": None, "action_features": table, "way": way}
    ours, theirs = both(session, files, soft("x"), settings, **options, chunk_rows=700)
    assert theirs.problem.cells.n == 2
    assert_same(ours, theirs)


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the executor in /proc")
def test_an_executor_killed_in_the_middle_changes_nothing(session, files, tmp_path):
    folder = str(tmp_path)

    def slow(frame):
        import os
        import time
        from pathlib import Path

        import numpy as np

        if "spark" in os.environ.get("PYTHONPATH", "") or "SPARK_HOME" in os.environ:
            Path(folder, f"worker{os.getpid()}").touch()
            patience = time.monotonic() + 60
            while not Path(folder, "killed").exists() and time.monotonic() < patience:
                time.sleep(0.05)
        logits = np.outer(frame["y"].to_numpy(), np.arange(3))
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    options = {**NAMED, "context": ["y"], "way": "stream"}
    with op.scan(str(files / "*.parquet"), **options) as log:
        ours = op.evaluate(log, soft_of_y, estimators=["IPW"])
    killed = []

    def kill():
        while not (workers := list(tmp_path.glob("worker*"))):
            time.sleep(0.05)
        pid = executor_of(int(workers[0].name.removeprefix("worker")))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)
        time.sleep(0.5)
        Path(folder, "killed").touch()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    with op.scan(session.read.parquet(str(files)), **options) as log:
        theirs = op.evaluate(log, slow, estimators=["IPW"])
    thread.join(timeout=60)
    assert len(killed) == 1
    assert not Path(f"/proc/{killed[0]}/cmdline").exists() or executor_gone(killed[0])
    assert theirs["IPW"].value == pytest.approx(ours["IPW"].value, rel=1e-9)
    assert theirs["IPW"].std_error == pytest.approx(ours["IPW"].std_error, rel=1e-9)


def soft_of_y(frame):
    logits = np.outer(frame["y"].to_numpy(), np.arange(3))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def executor_of(pid):
    """The executor process that a Python worker belongs to: an ancestor of it."""
    while pid > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(next(x for x in status.splitlines() if x.startswith("PPid:")).split()[1])
    raise AssertionError("no executor above the worker")


def executor_gone(pid):
    """A killed process whose parent has not collected it is a zombie without a command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes() == b""


def test_trees_fitted_by_the_executors_are_as_good_as_here(session, files):
    pytest.importorskip("xgboost")
    from offpolicy.engines.spark_boosted import SparkBoosted

    settings = {"estimators": ["DML", "DM-cf"], "reward_model": SparkBoosted(rounds=15, depth=3)}
    options = {**NAMED, "context": ["y", "x", "kind"], "way": "stream"}
    ours, theirs = both(session, files, soft("y"), settings, **options)
    quality = []
    for ev in (ours, theirs):
        predicted = ev.problem.decisions(ev.targets["policy"], ev.estimators[0]).q
        quality.append(np.var(ev.problem.log.reward - predicted) / np.var(ev.problem.log.reward))
    assert max(quality) < 0.99
    assert quality[1] == pytest.approx(quality[0], rel=0.02)
    gap = abs(theirs["DML"].value - ours["DML"].value)
    assert gap < 0.3 * ours["DML"].std_error


def test_bad_rows_are_counted_by_spark(session, files):
    frame = session.read.parquet(str(files)).selectExpr(
        "*", "IF(key < 0, 25.0D, p) AS percent", "CAST(NULL AS INT) AS nothing"
    )
    named = {**NAMED, "propensity": "percent"}
    with op.scan(frame, **named) as log, pytest.raises(DataError, match="divide by 100"):
        log.check()
    with op.scan(frame, **NAMED, batch="nothing") as log, pytest.raises(DataError, match="2,000 of 2,000"):
        log.check()
    without = {k: v for k, v in NAMED.items() if k != "id"}
    with op.scan(frame, **without, way="stream") as log, pytest.raises(UsageError, match="no fixed order"):
        op.evaluate(log, soft_of_y, estimators=["IPW"])


@pytest.mark.parametrize(
    "given", ["frame", "csv", *(pytest.param(g, marks=pytest.mark.verify) for g in ("ibis", "parquet"))]
)
def test_files_that_change_between_two_passes_of_spark(session, files, tmp_path, given):
    frame = pd.read_parquet(files)
    path = tmp_path / f"log.{'csv' if given == 'csv' else 'parquet'}"
    (frame.to_csv if given == "csv" else frame.to_parquet)(path, index=False)
    source, options = str(path), {"engine": "spark"}
    if given in {"frame", "ibis"}:
        source, options = session.read.parquet(str(path)), {}
    if given == "ibis":
        import ibis

        source.createOrReplaceTempView("changing")
        source = ibis.pyspark.connect(session).table("changing")
    with op.scan(source, **NAMED, way="stream", **options) as log:
        log.check()
        with path.open("ab") as file:
            file.write(b"1,2,3\n")
        with pytest.raises(DataError, match="changed while it was read"):
            op.evaluate(log, soft("x"), estimators=["IPW"])


def test_spark_takes_no_file_for_all(session, files, tmp_path):
    """Where files of a pattern do not agree, Spark would go by one of them."""
    frame = pd.read_parquet(files).assign(r=lambda f: f.r.astype(int))
    half = frame.assign(r=0.5, key=frame.key + 10**7)
    frame.to_parquet(tmp_path / "1.parquet")
    half.to_parquet(tmp_path / "2.parquet")
    with op.scan(str(tmp_path / "*.parquet"), **NAMED, engine="spark") as log:
        ev = op.evaluate(log, "uniform", estimators=["IPW"])
        expected = pd.concat([frame.r, half.r]).mean()
        assert ev.logged.value == pytest.approx(expected, rel=1e-12)
    half.drop(columns="y").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match="'y' is in"):
        op.scan(str(tmp_path / "*.parquet"), **NAMED, engine="spark")
    frame.to_csv(tmp_path / "1.csv", index=False)
    half[half.columns[::-1]].to_csv(tmp_path / "2.csv", index=False)
    with pytest.raises(DataError, match="different order"):
        op.scan(str(tmp_path / "*.csv"), **NAMED, engine="spark")
    for name in ("*.tsv", "none.parquet"):
        with pytest.raises(DataError, match="no file"):
            op.scan(str(tmp_path / name), **NAMED, engine="spark")


def price_of(context):
    """One price per row."""
    return 5.2 + 0.5 * np.asarray(context["x"], dtype=float)


def test_numbers_give_what_they_give_in_memory(session, tmp_path):
    rng = np.random.default_rng(4)
    n = 400
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "key": np.arange(n)})
    frame["price"] = 5 + frame["x"] + 1.5 * rng.normal(size=n)
    u = (frame["price"] - 5 - frame["x"]) / 1.5
    frame["density"] = np.exp(-u * u / 2) / (1.5 * np.sqrt(2 * np.pi))
    frame["r"] = np.sin(frame["price"]) + 0.3 * rng.normal(size=n)
    frame.to_parquet(tmp_path / "log.parquet")
    names = {
        "context": ["x"],
        "action": "price",
        "reward": "r",
        "propensity": "density",
        "id": "key",
        "action_kind": "continuous",
    }
    policies = {"own": price_of, "drawn": op.policies.Normal(5.5, 0.7)}
    settings = {"reward_model": op.models.SplineReward(), "estimators": ["DML", "SNIPW"]}
    memory = op.evaluate(op.BanditLog.from_frame(frame, **names), policies, **settings)
    scanned = op.scan(session.read.parquet(str(tmp_path)), **names, way="stream", chunk_rows=150)
    spark = op.evaluate(scanned, policies, **settings)
    columns = ["value", "std_error", "low", "high"]
    np.testing.assert_allclose(spark.frame()[columns], memory.frame()[columns], rtol=1e-9)
    assert spark.settings["bandwidths"] == memory.settings["bandwidths"]


def test_slates_by_spark_are_those_in_memory(session, tmp_path):
    rng = np.random.default_rng(2)
    rows = [
        (i, k + 1, float(x), "abcd"[a], float(rng.uniform() < 0.2 + 0.15 * a), 1 / (4 - k))
        for i in range(90)
        for x in rng.normal(size=1)
        for k, a in enumerate(rng.permutation(4)[: rng.integers(1, 4)].tolist())
    ]
    frame = pd.DataFrame(rows, columns=["request", "pos", "x", "item", "click", "p"])
    frame.sample(frac=1.0, random_state=0).to_parquet(tmp_path / "slates.parquet")
    roles = {
        "slate": "request", "position": "pos", "context": ["x"], "action": "item", "reward": "click", "propensity": "p",
    }  # fmt: skip
    asked = {"estimators": ["DML", "IPW"]}
    memory = op.evaluate(op.Slates.from_frame(frame, **roles), "uniform", **asked)
    source = session.read.parquet(str(tmp_path / "slates.parquet"))
    for way in ("rows", "stream"):
        scan = op.Slates.scan(source, way=way, chunk_rows=50, **roles)
        spark = op.evaluate(scan, "uniform", **asked)
        assert spark.settings["engine"]["engine"] == "spark"
        columns = ["value", "std_error", "low", "high"]
        np.testing.assert_allclose(spark.frame()[columns], memory.frame()[columns], rtol=1e-9)
        assert str(spark.diagnostics) == str(memory.diagnostics)
        assert spark.verdict().reasons == memory.verdict().reasons


def lean(rows):
    """A policy over two actions that looks at the context."""
    high = 1 / (1 + np.exp(-rows["x"].to_numpy(dtype=float)))
    return np.column_stack([1 - high, high])


def steps_of(n, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    unit = np.repeat(np.arange(n), lengths)
    step = np.arange(len(unit)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    frame = pd.DataFrame({"unit": [f"u{u:05d}" for u in unit], "step": step, "x": rng.normal(size=len(unit))})
    frame["a"] = rng.integers(0, 2, len(unit))
    frame["p"] = 0.5
    frame["r"] = rng.normal(size=len(unit)) + frame["a"] * frame["x"]
    frame["who"] = [f"w{u % 90}" for u in unit]
    frame["group"] = frame["who"].str[-1]
    return frame.sample(frac=1, random_state=seed)


@pytest.mark.parametrize("fold", [None, "group"])
@pytest.mark.parametrize("kind", ["episodes", "slates"])
def test_units_are_predicted_by_the_executors(session, kind, fold):
    frame = steps_of(400, 5)
    shared = {"action": "a", "reward": "r", "propensity": "p", "cluster": "who", "fold": fold}
    if kind == "episodes":
        build, named = op.Trajectories, {"episode": "unit", "step": "step", "state": ["x"], "truncated": "end"}
    else:
        build, named = op.Slates, {"slate": "unit", "position": "step", "context": ["x"], "distinct": False}
    settings = {"estimators": ["IPW", "DML", "DM"], "value_model": op.FittedQ(LinearRegression())}
    here = op.evaluate(build.from_frame(frame, **named, **shared), {"lean": lean}, **settings)
    assert len(frame) > 900
    with build.scan(session.createDataFrame(frame), **named, **shared, way="stream", chunk_rows=150) as log:
        ran = []
        run = log.engine.run
        log.engine.run = lambda *given: ran.append(given[2]) or run(*given)
        there = op.evaluate(log, {"lean": lean}, **settings)
        assert ran
        assert set(ran) == {("unit", "step")}
        for name in settings["estimators"]:
            ours, theirs = here["lean", name], there["lean", name]
            assert theirs.value == pytest.approx(ours.value, rel=1e-9)
            assert theirs.std_error == pytest.approx(ours.std_error, rel=1e-9)
            assert theirs.n == ours.n
