"""Slates behind an engine: the same slates give the same answer in memory, read whole and block by block."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy.cli import main
from offpolicy.errors import DataError, UsageError
from offpolicy.show.schema import document

pytest.importorskip("duckdb")
pytest.importorskip("ibis")

ITEMS = np.array(["a", "b", "c", "d"])
ROLES = {
    "slate": "request", "position": "pos", "context": ["x", "kind"], "action": "item", "reward": "click",
}  # fmt: skip
FEW = {"estimators": ["DML", "IPW"], "value_model": op.FittedQ(Ridge())}


@pytest.fixture(scope="module")
def frame():
    """Ragged slates of distinct items, rows in no order."""
    rng = np.random.default_rng(3)
    rows = []
    for i in range(160):
        x, kind = rng.normal(), str(rng.choice(["new", "old", "very old"]))
        shown = rng.permutation(4)[: rng.integers(1, 4)]
        for k, a in enumerate(shown):
            click = rng.uniform() < 0.2 + 0.15 * a - 0.1 * (k > 0 and shown[k - 1] == 3)
            of_slate = (f"r{i}", i, x, kind, i % 40, 1 + i % 3, i % 3)
            rows.append((*of_slate, k + 1, ITEMS[a], float(click), 1 / (4 - k)))
    names = ["name", "request", "x", "kind", "user", "w", "fold", "pos", "item", "click", "p"]
    made = pd.DataFrame(rows, columns=names)
    made["sale"] = made["click"] * np.round(made["x"].abs(), 2)
    # Shares of all items at a slot: what is above cannot be shown again.
    wide = made.pivot(index="request", columns="pos", values="item")
    for item in ITEMS:
        above = sum(
            ((wide[k] == item).reindex(made["request"]).to_numpy() & (made["pos"] > k)).astype(int) for k in (1, 2, 3)
        )
        made[f"p_{item}"] = np.where(above > 0, 0.0, made["p"])
    return made.sample(frac=1.0, random_state=0).reset_index(drop=True)


@pytest.fixture(scope="module")
def path(frame, tmp_path_factory):
    file = tmp_path_factory.mktemp("slates") / "log.parquet"
    frame.to_parquet(file)
    return str(file)


def softly(rows):
    liked = np.where(rows["x"].to_numpy()[:, None] > 0, [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1])
    return liked + 0.1 * (rows["kind"] == "old").to_numpy()[:, None]


def same(first, second):
    """The same estimates, checks, verdicts and notes, to rounding."""
    left, right = document(first), document(second)
    for one in (left, right):  # how the log was read is all that differs
        one["settings"].pop("engine", None)
        one.pop("made", None)
        one.pop("provenance", None)
    _alike(left, right, "")


def _alike(one, other, where):
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            _alike(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            _alike(a, b, f"{where}[{i}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True), where
    else:
        assert one == other, where


def logs(frame, path, **roles):
    named = {**ROLES, **roles}
    return (
        op.Slates.from_frame(frame, **named),
        op.Slates.scan(path, way="rows", **named),
        op.Slates.scan(path, way="stream", chunk_rows=64, **named),
    )


@pytest.mark.parametrize(
    ("roles", "policies"),
    [
        ({"propensity": "p"}, {"soft": op.policies.PlackettLuce(softly), "even": "uniform"}),
        ({"propensity": "p", "interaction": "full", "cluster": "user", "weight": "w"}, {"even": "uniform"}),
        ({"propensity": "p", "interaction": "independent"}, {"even": "uniform"}),
        ({"propensity": "p", "interaction": np.tri(3, dtype=bool) & ~np.tri(3, k=-2, dtype=bool)}, {"even": "uniform"}),
        ({"propensity": "p", "interaction": "auto"}, {"even": "uniform"}),
        ({"propensity": "p", "slate": "name", "fold": "fold"}, {"even": "uniform"}),
        ({"propensity": ["p_a", "p_b", "p_c", "p_d"]}, {"even": "uniform"}),
        ({"interaction": "cascade"}, {"soft": op.policies.PlackettLuce(softly)}),
        ({"propensity": "p", "reward": ["click", "sale"]}, {"even": "uniform"}),
    ],
    ids=[
        "cascade", "full", "independent", "mask", "auto", "text and folds", "distribution", "fitted", "metrics",
    ],
)  # fmt: skip
def test_in_memory_read_whole_and_streamed_are_the_same(frame, path, roles, policies):
    memory, whole, streamed = logs(frame, path, **roles)
    answers = [op.evaluate(log, policies, **FEW) for log in (memory, whole, streamed)]
    assert answers[2].problem.streams
    assert answers[2].settings["engine"]["way"] == "stream"
    same(answers[0], answers[1])
    same(answers[0], answers[2])
    first, last = (a.diagnostics.rows() for a in (answers[0], answers[2]))
    assert [(row["name"], row["level"]) for row in first] == [(row["name"], row["level"]) for row in last]  # fmt: skip
    for name in policies:
        assert answers[0].verdict(name).reasons == answers[2].verdict(name).reasons
        difference = [(a[name, "DML"] - a.logged).interval() for a in answers]
        assert difference[0].low == pytest.approx(difference[2].low, rel=1e-9)


def test_slate_rewards_and_one_slot_stream_too(frame, tmp_path):
    total = frame.assign(click=frame.groupby("request")["click"].transform("sum"))
    total.to_parquet(tmp_path / "total.parquet")
    roles = {"propensity": "p", "interaction": "additive"}
    memory, _, streamed = logs(total, str(tmp_path / "total.parquet"), **roles)
    same(op.evaluate(memory, "uniform", **FEW), op.evaluate(streamed, "uniform", **FEW))
    one = frame[frame["pos"] == 1]
    one.to_parquet(tmp_path / "one.parquet")
    memory, _, streamed = logs(one, str(tmp_path / "one.parquet"), propensity="p")
    same(op.evaluate(memory, "uniform", **FEW), op.evaluate(streamed, "uniform", **FEW))


def test_blocks_hold_whole_slates_of_the_same_shape(frame, path):
    scan = op.Slates.scan(path, way="stream", chunk_rows=64, propensity="p", **ROLES)
    log = op.evaluate(scan, "uniform", estimators=["IPW"]).problem.log
    parts = list(log.blocks())
    assert len(parts) > 3
    assert sum(part.n for part in parts) == frame["request"].nunique() == log.n
    assert {part.horizon for part in parts} == {3}
    assert all(part.context.names == log.context.names for part in parts)
    assert np.array_equal(np.concatenate([part.action for part in parts]), log.action)


def test_a_part_of_the_slots_fits_models_and_every_estimate_says_so(path):
    scan = op.Slates.scan(path, way="stream", chunk_rows=64, fit_rows=150, propensity="p", **ROLES)
    ev = op.evaluate(scan, "uniform", **FEW)
    assert any("models were fitted on" in note for note in ev["policy", "DML"].notes)


def test_what_needs_all_slates_at_once_is_refused_before_any_fit(path):
    class Loud:
        def fit_values(self, data, seed):
            raise AssertionError("fitted")

    scan = op.Slates.scan(path, way="stream", chunk_rows=64, propensity="p", **ROLES)
    with pytest.raises(UsageError, match="can only predict the rows it was fitted on"):
        op.evaluate(scan, "uniform", value_model=Loud())
    with pytest.raises(UsageError, match="MRDR fits models to the weights"):
        op.evaluate(scan, "uniform", estimators=["MRDR"])
    with pytest.raises(UsageError, match="value_model= as an array"):
        op.evaluate(scan, "uniform", value_model=np.zeros((3, 4)))
    with pytest.raises(UsageError, match="folds= must be an int"):
        op.evaluate(scan, "uniform", folds=np.arange(160) % 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.assign(pos=np.where(f["request"] == 150, f["pos"] + 1, f["pos"])), "start"),
        (lambda f: f.assign(p=np.where(f.index == 5, 1.5, f["p"])), "column 'p'"),
        (lambda f: pd.concat([f, f.iloc[[7]]]), "appears twice"),
        (lambda f: f.assign(w=f["w"] + (f.index == 5)), "the weight changes within a slate"),
        (lambda f: f.assign(item=f["item"].where(f.index != 5)), "column 'item'"),
    ],
)
def test_bad_slates_are_refused_on_streams(frame, tmp_path, change, said):
    change(frame).to_parquet(tmp_path / "bad.parquet")
    roles = {**ROLES, "propensity": "p", "weight": "w"}
    for way in ("rows", "stream"):
        scan = op.Slates.scan(str(tmp_path / "bad.parquet"), way=way, chunk_rows=64, **roles)
        with pytest.raises(DataError, match=said):
            op.evaluate(scan, "uniform", estimators=["IPW"])


def test_a_wrong_column_and_a_wrong_way_are_refused(path):
    with pytest.raises(DataError, match="Did you mean 'pos'"):
        op.Slates.scan(path, **{**ROLES, "position": "poss"})
    with pytest.raises(UsageError, match="way"):
        op.Slates.scan(path, way="cells", **ROLES)


def test_the_command_line_reads_slates(path, tmp_path):
    plain = ["--context", "x,kind", "--action", "item", "--reward", "click", "--propensity", "p"]
    flags = [*plain, "--slate", "request", "--position", "pos", "--interaction", "cascade"]
    ask = ["--policy", "even=uniform", "--estimator", "IPW"]
    whole, scanned = tmp_path / "whole.json", tmp_path / "scanned.json"
    assert main(["evaluate", path, *flags, *ask, "--json", str(whole)]) == 0
    assert main(["evaluate", path, *flags, *ask, "--engine", "duckdb", "--json", str(scanned)]) == 0
    first, second = (json.loads(file.read_text()) for file in (whole, scanned))
    _alike(first["estimates"], second["estimates"], "")
    assert main(["check", path, *flags, "--engine", "duckdb"]) == 0
    assert main(["evaluate", path, *flags, "--batch", "kind", *ask]) == 1
    assert main(["evaluate", path, *plain, "--position", "pos", *ask]) == 1
