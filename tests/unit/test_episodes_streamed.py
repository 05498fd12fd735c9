"""Episodes behind an engine: read whole or in blocks of whole episodes, the answer is that of a frame."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import DataError, UsageError

ROLES = {"episode": "id", "step": "t", "state": ["x", "kind"], "action": "a", "reward": "r", "propensity": "p"}
FEW = {
    "estimators": ["DM", "IPW", "WDR", "DML"],
    "value_model": op.FittedQ(LinearRegression()),
    "discount": 0.9,
    "seed": 3,
}


def episodes(n=90, longest=4, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n)
    lengths[:7] = longest
    rows = int(lengths.sum())
    x = np.round(rng.normal(size=rows), 6)
    kind = rng.choice(["new", "old"], rows)
    p_b = np.where(kind == "new", 0.7, 0.4)
    right = rng.random(rows) < p_b
    last = np.cumsum(lengths) - 1
    ended = np.zeros(rows, dtype=bool)
    ended[last] = True
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(n), lengths),
            "t": np.concatenate([np.arange(k) for k in lengths]),
            "x": x,
            "kind": kind,
            "a": np.where(right, "right", "left"),
            "r": np.round(x * right + rng.normal(size=rows), 6),
            "cost": rng.integers(0, 3, rows),
            "p": np.where(right, p_b, 1 - p_b),
            "done": ended & ~(np.repeat(lengths, lengths) == longest),
            "cut": ended & (np.repeat(lengths, lengths) == longest),
            "user": np.repeat(np.arange(n) // 3, lengths),
            "w": np.repeat(np.round(rng.uniform(0.5, 2, n), 3), lengths),
        }
    )
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


def softly(rows):
    right = np.where(rows["x"].to_numpy() > 0, 0.8, 0.3)
    return np.column_stack([1 - right, right])


@pytest.fixture(scope="module")
def frame():
    return episodes()


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    file = tmp_path_factory.mktemp("episodes") / "log.parquet"
    frame.to_parquet(file)
    return str(file)


def same(one, other):
    assert one.settings["estimand"] == other.settings["estimand"]
    for policy in one.policies:
        for name in FEW["estimators"]:
            a, b = one[policy, name], other[policy, name]
            assert a.value == pytest.approx(b.value, rel=1e-9), name
            assert a.std_error == pytest.approx(b.std_error, rel=1e-9), name
            assert a.interval().low == pytest.approx(b.interval().low, rel=1e-9, nan_ok=True), name
        assert one.verdict(policy).reasons == other.verdict(policy).reasons
    first, last = one.diagnostics.rows(), other.diagnostics.rows()
    assert [(r["name"], r["level"]) for r in first] == [(r["name"], r["level"]) for r in last]


@pytest.mark.parametrize(
    "roles",
    [
        {},
        {"terminated": "done"},
        {"terminated": "done", "horizon": 2},
        {"truncated": "cut"},
        {"horizon": 3, "cluster": "user", "weight": "w"},
        {"propensity": None},
        {"reward": ["r", "cost"]},
    ],
    ids=["plain", "flags", "horizon", "cut off", "clusters and weights", "fitted", "metrics"],
)
def test_a_frame_a_stream_and_duckdb_give_the_same(frame, path, roles):
    import duckdb

    named = {**ROLES, **roles}
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE steps AS SELECT * FROM '{path}'")
    logs = (
        op.Trajectories.from_frame(frame, **named),
        op.Trajectories.scan(path, way="rows", **named),
        op.Trajectories.scan(path, way="stream", chunk_rows=40, **named),
        op.Trajectories.scan(connection, table="steps", way="stream", chunk_rows=64, **named),
    )
    policies = {"soft": softly, "even": "uniform"}
    few = {**FEW, "behavior_model": None if named["propensity"] else "shares"}
    memory, *others = [op.evaluate(log, policies, **few) for log in logs]
    assert others[1].settings["engine"]["way"] == "stream"
    for other in others:
        same(memory, other)


def test_a_horizon_asked_for_later_is_the_same(frame, path):
    whole = op.evaluate(op.Trajectories.from_frame(frame, **ROLES).up_to(2), softly, **FEW)
    log = op.Trajectories.scan(path, way="stream", chunk_rows=40, **ROLES)
    same(whole, op.evaluate(log.up_to(2), softly, **FEW))


def test_blocks_hold_whole_episodes_and_parts_of_them_keep_their_shape(frame, path):
    scan = op.Trajectories.scan(path, way="stream", chunk_rows=40, **ROLES)
    log = op.evaluate(scan, softly, estimators=["IPW"]).problem.log
    parts = list(log.blocks())
    assert len(parts) > 3
    assert sum(part.n for part in parts) == frame["id"].nunique() == log.n
    assert not any(part.layout.is_single for part in parts)
    assert np.array_equal(np.concatenate([part.action for part in parts]), log.action)
    some = log.take(np.arange(5, 20))
    assert np.array_equal(np.concatenate([b.reward for b in some.blocks()]), some.reward)


def test_what_blocks_cannot_do_is_refused(frame, path):
    ids = op.Trajectories.scan(path, way="stream", **{**ROLES, "state": ["kind"]})
    with pytest.raises(UsageError, match="discrete=False"):
        op.evaluate(ids, "uniform", estimators=["IPW"])
    assert op.evaluate(
        op.Trajectories.scan(path, **{**ROLES, "state": ["kind"]}), "uniform", estimators=["IPW"]
    ).problem.log.is_discrete
    scan = op.Trajectories.scan(path, way="stream", **ROLES)
    with pytest.raises(UsageError, match="DRL fits models to the weights of all units at once"):
        op.evaluate(scan, "uniform", estimators=["DRL"], value_model=FEW["value_model"])
    with pytest.raises(UsageError, match="needs step="):
        op.Trajectories.scan(path, **{**ROLES, "step": None})
    able = frame.assign(able=[[0, 1, 2]] * len(frame))
    with pytest.raises(UsageError, match="eligible= contains lists"):
        op.evaluate(op.Trajectories.scan(able, way="stream", **ROLES, eligible="able"), "uniform")
    with pytest.raises(UsageError, match=r"no argument 'chunk_row'. Did you mean 'chunk_rows'"):
        op.Trajectories.scan(path, **ROLES, chunk_row=3)
    with pytest.raises(DataError, match="Did you mean 'id'"):
        op.Trajectories.scan(path, **{**ROLES, "episode": "idd"})


def test_bad_episodes_are_refused_on_streams(frame, tmp_path):
    for change, said in (
        (lambda f: f.assign(t=np.where(f["id"] == 80, f["t"] + 1, f["t"])), "start"),
        (lambda f: f.assign(p=np.where(f.index == 5, 1.5, f["p"])), "column 'p'"),
        (lambda f: f.assign(w=f["w"] + (f["t"] == 1)), "the weight changes within an episode"),
    ):
        change(frame).to_parquet(tmp_path / "bad.parquet")
        scan = op.Trajectories.scan(str(tmp_path / "bad.parquet"), way="stream", chunk_rows=64, weight="w", **ROLES)
        with pytest.raises(DataError, match=said):
            op.evaluate(scan, "uniform", estimators=["IPW"])


def test_the_command_line_reads_episodes_with_an_engine(path, capsys):
    from offpolicy.cli import main

    roles = ["--episode", "id", "--step", "t", "--state", "x", "--action", "a", "--reward", "r"]
    told = []
    for engine in ([], ["--engine", "duckdb"]):
        call = ["evaluate", path, *roles, "--propensity", "p", "--policy", "even=uniform", *engine]
        assert main([*call, "--estimator", "IPW"]) == 0
        told.append([line for line in capsys.readouterr().out.splitlines() if "IPW" in line])
    assert told[0]
    assert told[0] == told[1]
