"""`op.replay` of scanned logs: the blocks of a Parquet file or a DuckDB table, one in memory at a time."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import offpolicy as op

L = op.learners
N = 900
ROLES = {"context": ["x", "y", "who"], "action": "a", "reward": ["r", "cost"], "propensity": "p", "id": "id"}
ESTIMATORS = ["auto", "DML", "IPW"]


def frame(n=N, blocks=6):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 2))
    p = 1 / (1 + np.exp(-0.5 * x[:, 0]))
    a = (rng.random(n) < p).astype(int)
    r = 0.3 * x[:, 0] * (2 * a - 1) + 0.3 * rng.normal(size=n)
    made = pd.DataFrame({"x": x[:, 0], "y": x[:, 1], "a": a, "r": r, "cost": 1.0 + a, "id": np.arange(n)})
    made["p"] = np.where(a == 1, p, 1 - p)
    made["who"] = np.where(x[:, 1] > 0, "u", "v")
    made["day"], made["t"] = np.arange(n) // (n // blocks), np.arange(n) // 3
    made["user"] = made["id"] // 2
    return made.sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    import duckdb

    folder = tmp_path_factory.mktemp("logs")
    df = frame()
    df.to_parquet(folder / "log.parquet")
    with duckdb.connect(str(folder / "log.duckdb")) as connection:
        connection.execute("create table log as select * from df")
    return folder


def logs(folder, roles, ways=("rows", "stream", "duckdb")):
    yield "frame", op.BanditLog.from_frame(frame(), **roles)
    for way in ways:
        path, more = ("log.duckdb", {"table": "log"}) if way == "duckdb" else ("log.parquet", {})
        with op.scan(
            str(folder / path), **roles, **more, way="rows" if way == "rows" else "stream", chunk_rows=200
        ) as log:
            yield way, log


def numbers(ev):
    """All that two paths have to agree on."""
    every = [ev[key] for key in ev.estimates] + [ev.metric("cost")[key] for key in ev.estimates]
    made = [[e.value, e.std_error, *e.interval()] for e in every]
    made += [[e.value, *e.interval(), 0.0] for e in (ev["u", "auto"] - ev["e", "auto"],)]
    curve = ev.learning_curve()
    return np.concatenate([np.ravel(made), curve.value, curve.so_far_high])


@pytest.mark.parametrize("how", [{"blocks": "day"}, {"blocks": 5, "time": "t"}], ids=["column", "number"])
@pytest.mark.parametrize("known", [True, False], ids=["logged", "estimated"])
def test_a_stream_is_replayed_like_a_frame(paths, how, known):
    roles = ROLES if known else {**ROLES, "propensity": None}
    ways = ("rows", "stream", "duckdb") if known else ("stream",)
    first = None
    for way, log in logs(paths, roles, ways):
        ev = op.replay(
            log, {"u": L.LinUCB(), "e": L.EpsilonGreedy()}, **how, reward_model="linear", estimators=ESTIMATORS
        )
        found = numbers(ev), {(f["name"], f["policy"]): (f["level"], f["value"]) for f in ev.diagnostics.rows()}
        assert ev.replayed.blocks == ((1, 2, 3, 4, 5) if how == {"blocks": "day"} else (2, 3, 4, 5)), way
        if first is None:
            first = found
            continue
        np.testing.assert_allclose(found[0], first[0], rtol=1e-9, atol=1e-12, err_msg=way)
        assert found[1].keys() == first[1].keys()
        for key, (level, value) in first[1].items():
            assert found[1][key][0] == level, (way, key)
            assert found[1][key][1] == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True), (way, key)


def test_learners_of_other_libraries_are_kept_block_by_block(paths):
    pytest.importorskip("vowpalwabbit")
    values = []
    for _, log in logs(paths, {**ROLES, "reward": "r"}, ("stream",)):
        learners = {"vw": L.VowpalWabbit(), "bag": L.Bagged(Ridge(), bags=3), "soft": L.Softmax()}
        ev = op.replay(log, learners, blocks="day", reward_model=Ridge(), estimators=["DML"])
        values.append([ev[name, "DML"].value for name in learners])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)


def test_reward_models_of_long_logs_see_a_sample(paths):
    with op.scan(str(paths / "log.parquet"), **ROLES, way="stream", fit_rows=300) as log:
        ev = op.replay(log, "linucb", blocks="day", reward_model="linear", estimators=["DML"])
    assert any("at most 300 earlier rows" in note for note in ev["DML"].notes)
    whole = op.replay(op.BanditLog.from_frame(frame(), **ROLES), "linucb", blocks="day", estimators=["DML"])
    assert ev["DML"].value == pytest.approx(whole["DML"].value, abs=0.05)


def test_rejection_reads_a_scan_whole(paths):
    values = []
    for _, log in logs(paths, ROLES, ("stream",)):
        ev = op.replay(log, "linucb", blocks="day", time="t", method="rejection", estimators=["IPW"])
        values.append((ev["IPW"].value, ev.replayed.steps))
    assert values[0] == values[1]


REFUSED = [
    ({}, {"id": None}, {"blocks": "day"}, "needs id="),
    ({"way": "cells"}, {}, {"blocks": "day"}, "loses their order"),
    ({}, {}, {}, "order in time"),
    ({}, {}, {"blocks": 5}, "needs time="),
    ({}, {}, {"blocks": 1, "time": "t"}, "between 2"),
    ({}, {}, {"blocks": "dya"}, "Did you mean 'day'"),
    ({}, {}, {"blocks": np.zeros(N)}, "must name a column"),
    ({"max_rows": 100}, {}, {"blocks": "day"}, "Use shorter blocks"),
    ({"max_rows": 100}, {}, {"blocks": "day", "method": "rejection", "time": "t"}, "use method='progressive'"),
    ({}, {"cluster": "who", "context": ["x"]}, {"blocks": "day"}, "more than one block"),
    ({}, {}, {"blocks": "a", "time": "t"}, "see the future"),
]


@pytest.mark.parametrize(("reading", "roles", "how", "match"), REFUSED, ids=[m for *_, m in REFUSED])
def test_what_cannot_be_streamed_says_so(paths, reading, roles, how, match):
    reading = {"way": "stream", **reading}
    with (
        op.scan(str(paths / "log.parquet"), **{**ROLES, **roles}, **reading) as log,
        pytest.raises(op.errors.OffPolicyError, match=match),
    ):
        op.replay(log, "linucb", **how, estimators=["IPW"])


def test_clusters_inside_blocks_are_units(paths):
    roles = {**ROLES, "cluster": "user"}
    found = [
        op.replay(log, "linucb", blocks="day", reward_model=Ridge(), estimators=["DML"])["DML"]
        for _, log in logs(paths, roles, ("stream",))
    ]
    assert found[0].std_error == pytest.approx(found[1].std_error, rel=1e-9)
    assert found[0].n_independent == 375


def test_labels_are_seen_in_a_scan_as_in_a_frame(tmp_path):
    df = frame()
    seen = np.random.default_rng(0).random(N) < 0.5
    df["label"], df["judge"] = df["r"].where(seen), df["r"] + 0.2
    df.to_parquet(tmp_path / "log.parquet")
    roles = {**ROLES, "reward": "label", "outcome": op.Labeled(proxies=["judge"], probability=0.5)}
    how = {"blocks": "day", "reward_model": Ridge(), "estimators": ["DML"]}
    whole = op.replay(op.BanditLog.from_frame(df, **roles), "linucb", **how)["DML"]
    with op.scan(str(tmp_path / "log.parquet"), **roles, way="stream") as log:
        e = op.replay(log, "linucb", **how)["DML"]
    assert (e.value, e.std_error) == pytest.approx((whole.value, whole.std_error), rel=1e-9)
