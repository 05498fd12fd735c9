"""Readers at their limits: what is read at each bound and just beyond it, and every refusal word by word."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from findings import FLAGS, FRAME, ROLES, TRUTH, scanned, told

import offpolicy as op
from offpolicy import formats
from offpolicy.cli.files import commas_in, first_lines, kind_of, read_table
from offpolicy.engines.csv import common_header, header, read_csv
from offpolicy.engines.files import Fingerprint, common_schema
from offpolicy.errors import ArgumentError, DataError, UsageError
from offpolicy.logs import checks
from offpolicy.logs.actions import refuse_continuous
from offpolicy.logs.formats import lines
from offpolicy.logs.formats import parquet as footers
from offpolicy.logs.frame import as_features, to_float


def refuses(words, call, *args, **kwargs):
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    assert words in str(caught.value)


# -- buffers of reinforcement learning -----------------------------------------------------------------------------


def replay_buffer(dones, timeouts=None, *, full=False, pos=None, envs=1):
    """A replay buffer's arrays, as Stable-Baselines3 lays them out: step by environment."""
    n = len(dones)
    ends = np.repeat(np.asarray(dones, dtype=np.float32)[:, None], envs, axis=1)
    cut = np.zeros_like(ends) if timeouts is None else np.repeat(np.asarray(timeouts)[:, None], envs, axis=1)
    step = np.repeat(np.arange(n)[:, None], envs, axis=1)
    return SimpleNamespace(
        observations=step[..., None].astype(float), actions=step[..., None] % 2, rewards=step.astype(float), dones=ends,
        timeouts=cut, full=full, pos=n if pos is None else pos, buffer_size=n, n_envs=envs,
    )  # fmt: skip


def of(log):
    """Rewards of each episode, and whether it terminated."""
    ends = np.cumsum(log.layout.lengths)
    return [part.tolist() for part in np.split(log.reward, ends[:-1])], log.ended.tolist()


def test_whole_episodes_of_a_replay_buffer():
    log = formats.from_sb3(replay_buffer([0, 1, 0, 0, 1]))
    assert of(log) == ([[0.0, 1.0], [2.0, 3.0, 4.0]], [True, True])
    assert log.notes == ()
    assert log.action.tolist() == [0, 1, 0, 1, 0]
    log = formats.from_sb3(replay_buffer([0, 1, 0, 0, 1, 0]))
    assert of(log)[0] == [[0.0, 1.0], [2.0, 3.0, 4.0]]
    assert "1 of 6 steps of the buffer belong to incomplete episodes" in log.notes[0]
    assert formats.from_sb3(replay_buffer([0, 1, 0, 1], envs=2)).n == 4


def test_a_buffer_that_was_written_over_begins_at_its_position():
    # Steps 0 and 1 are the newest: in order of time 2, 3, 4, 5, 0, 1; the episode that 2 is in has lost its beginning.
    log = formats.from_sb3(replay_buffer([0, 1, 0, 1, 0, 1], full=True, pos=2))
    assert of(log)[0] == [[4.0, 5.0], [0.0, 1.0]]
    assert "2 of 6 steps" in log.notes[0]
    part = replay_buffer([0, 1, 0, 1, 0, 0])
    part.pos = 4
    assert of(formats.from_sb3(part))[0] == [[0.0, 1.0], [2.0, 3.0]]


def test_an_episode_that_ran_out_of_time_is_truncated():
    buffer = replay_buffer([0, 1, 0, 1], [0, 0, 0, 1])
    log = formats.from_sb3(buffer, truncated="end")
    assert of(log) == ([[0.0, 1.0], [2.0, 3.0]], [True, False])
    with pytest.raises(op.errors.OffPolicyError, match="truncated"):
        formats.from_sb3(replay_buffer([0, 0, 1, 0, 1], [0, 0, 0, 0, 1]))


def test_a_buffer_without_a_whole_episode():
    refuses("has no complete episode", formats.from_sb3, replay_buffer([0, 0, 0]))


def rollout_buffer(starts, logp=None, *, ready=False):
    n = len(starts)
    step = np.arange(n)[:, None]
    logs = np.full((n, 1), np.log(0.5)) if logp is None else np.asarray(logp)[:, None]
    flat = {"observations": step[..., None].astype(float), "actions": step[..., None] % 2, "log_probs": logs}
    if ready:  # laid out flat, one environment after another
        flat = {name: array.swapaxes(0, 1).reshape(n, *array.shape[2:]) for name, array in flat.items()}
    return SimpleNamespace(
        **flat, rewards=step.astype(float), episode_starts=np.asarray(starts, dtype=np.float32)[:, None], full=True,
        pos=n, buffer_size=n, n_envs=1, generator_ready=ready,
    )  # fmt: skip


@pytest.mark.parametrize("ready", [False, True])
def test_a_rollout_buffer_says_where_episodes_begin(ready):
    log = formats.from_sb3(rollout_buffer([0, 1, 0, 1, 0, 0, 1], ready=ready))
    assert of(log)[0] == [[1.0, 2.0], [3.0, 4.0, 5.0]]
    assert log.propensity == pytest.approx(0.5)
    refuses("no complete episode", formats.from_sb3, rollout_buffer([0, 0, 0], ready=ready))


def test_logarithms_above_0_are_no_probabilities():
    assert formats.from_sb3(rollout_buffer([1, 0, 1], [1e-9, -1.0, -1.0])).propensity[0] == 1.0
    refuses("log-probabilities up to 2 are above 0", formats.from_sb3, rollout_buffer([1, 0, 1], [2.0, -1.0, -1.0]))


def rllib(**changes):
    rows = {"eps_id": [7, 7, 3], "obs": [[0.0], [1.0], [2.0]], "actions": [0, 1, 1], "rewards": [1.0, 2.0, 3.0],
            "terminateds": [False, True, True], "truncateds": [False] * 3, "action_logp": [-0.5] * 3}  # fmt: skip
    return pd.DataFrame({**rows, **changes})


def test_flags_are_flags():
    assert of(formats.from_rllib(rllib()))[0] == [[1.0, 2.0], [3.0]]
    assert of(formats.from_rllib(rllib(terminateds=[0, 1, 1])))[0] == [[1.0, 2.0], [3.0]]
    refuses("column 'terminateds' must be True or False. Got ['False', 'True', 'True'] instead", formats.from_rllib,
            rllib(terminateds=["False", "True", "True"]))  # fmt: skip
    refuses(
        "1 episodes are neither terminated nor truncated", formats.from_rllib, rllib(terminateds=[False, True, False])
    )
    refuses("differ in shape from row to row", formats.from_rllib, rllib(obs=[[0.0], [1.0, 2.0], [2.0]]))
    step = {"state": 0, "action": 1, "reward": 1.0, "terminated": True, "truncated": False}
    refuses("transition 1: 'truncated' must be True or False. Got ['no'] instead", formats.from_transitions,
            [step, {**step, "truncated": "no"}])  # fmt: skip


def test_transitions_are_whole():
    step = {"state": 0, "action": 1, "reward": 1.0, "terminated": True, "truncated": False}
    refuses("transition 1 has no 'reward'", formats.from_transitions, [step, {"state": 1, "action": 0}])
    refuses("it has no transitions", formats.from_transitions, [])
    refuses("some transitions have a propensity", formats.from_transitions, [step, {**step, "propensity": 0.5}])
    refuses("after 2 steps it is neither", formats.from_transitions, [step, *[{**step, "terminated": False}] * 2])
    assert formats.from_transitions([{**step, "propensity": 0.5}] * 3).propensity.tolist() == [0.5] * 3


def test_episodes_of_a_dataset():
    def episode(**changes):
        whole = {"observations": [[0.0], [1.0], [2.0]], "actions": [0, 1], "rewards": [1.0, 2.0], "terminated": True}
        return SimpleNamespace(**{**whole, **changes})

    log = formats.from_d3rlpy([episode(), episode(actions=np.array([[1], [0]]))])
    assert log.action.tolist() == [0, 1, 1, 0]
    assert log.rows == 4
    refuses("observations are a dict or tuple", formats.from_d3rlpy, [episode(observations={"x": 1})])
    refuses("episode 1: actions have shape (2,) and type float64", formats.from_d3rlpy,
            [episode(), episode(actions=[0.5, 1.0])])  # fmt: skip
    refuses("episode 0: actions have shape (2, 2)", formats.from_d3rlpy, [episode(actions=[[0, 1], [1, 0]])])
    refuses("the dataset has no episodes", formats.from_d3rlpy, [])
    asked = formats.from_d3rlpy([episode()], propensity=lambda states, taken: np.full(len(taken), 0.25))
    assert asked.propensity.tolist() == [0.25, 0.25]


# -- JSON lines ----------------------------------------------------------------------------------------------------


def nested(depth):
    return json.loads("[" * depth + "1" + "]" * depth)


def test_fields_are_as_deep_and_as_many_as_is_said():
    assert lines.MOST_DEPTH == 32
    assert lines.MOST_FIELDS == 10_000
    assert len(lines.flatten({"a": nested(31)})) == 1
    refuses("nested more than 32 levels deep", lines.flatten, {"a": nested(32)})
    assert lines.flatten({"a": [{"b": 1}, {"c": [2, 3]}]}) == {"a.b": 1, "a.c.0": 2, "a.c.1": 3}
    refuses("two fields are called 'a.b'", lines.flatten, {"a": [{"b": 1}, {"b": 2}]})
    refuses("two fields are called 'a.b'", lines.flatten, {"a": {"b": 1}, "a.b": 2})


def test_tables_of_ten_thousand_fields(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({f"f{i}": i for i in range(10_000)}))
    assert lines.read_table(path).shape == (1, 10_000)
    path.write_text(json.dumps({f"f{i}": i for i in range(10_001)}))
    refuses("more than 10,000 different fields", lines.read_table, path)
    path.write_text("\n \n")
    refuses("log.jsonl: no usable line.", lines.read_table, path)
    refuses("is a folder. Name a file, or a pattern", lines.read_table, tmp_path)


def test_whole_numbers_keep_their_digits():
    assert lines.column_of([2**63 - 1, -(2**63)]).dtype == "int64"
    assert lines.column_of([-5, 2**60]).dtype == "int64"
    assert lines.column_of([2**63, 0]).dtype == object
    assert lines.column_of([-(2**63) - 1, 0]).dtype == object
    assert lines.column_of([2**53, None]).dtype == "float64"
    assert lines.column_of([2**53 + 1, None]).dtype == object
    assert lines.column_of([True, False]).dtype == bool
    assert lines.column_of([True, 1]).dtype == object


def test_a_gzip_file_that_is_damaged_or_much_too_large(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-9])
    refuses("log.jsonl.gz is cut off or damaged", lines.read_table, path)
    assert lines.BOMB_SAMPLE == 64_000_000
    assert lines.MOST_EXPANSION == 400
    path.write_bytes(gzip.compress(b" " * 64_000_000))
    refuses("unpacks to more than 400 times its size", lines.read_table, path)


@pytest.mark.parametrize("write", [formats.write_jsonl, formats.write_dsjson])
def test_weights_are_written_as_probabilities(write, tmp_path):
    path = tmp_path / "out.json"

    def log(weight):
        return op.BanditLog.from_frame(FRAME.assign(w=weight), weight="w", **ROLES)

    write(log(np.where(FRAME.index % 2, 4.0, 1.0)), path)
    first, second = (json.loads(line) for line in path.read_text().splitlines()[:2])
    if write is formats.write_jsonl:
        assert (first["keep_prob"], second["keep_prob"]) == (1.0, 0.25)
    else:
        assert ("pdrop" in first, second["pdrop"]) == (False, 0.75)
    again = formats.read(path).log()
    assert again.weight[:2].tolist() == [1.0, 4.0]
    refuses("row 1: a weight below 1 cannot be written", write, log(np.where(FRAME.index % 2, 0.5, 1.0)), path)
    counted = op.BanditLog.from_frame(FRAME.assign(n=2), count="n", **ROLES)
    refuses("have counts", write, counted, path)


def test_a_log_without_propensities_is_no_dsjson(tmp_path):
    log = op.BanditLog.from_frame(FRAME, context=["x"], action="ad", reward="click")
    refuses("needs the propensity", formats.write_dsjson, log, tmp_path / "out.json")


EVENT = {"_label_cost": -1, "_label_probability": 0.5, "_label_Action": 2, "_labelIndex": 1,
         "c": {"_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]}}  # fmt: skip


def dsjson(tmp_path, *events):
    path = tmp_path / "log.json"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"_label_cost": None, "_label_probability": 0.5}, "cost None is not a number"),
        ({"_label_Action": 3, "_labelIndex": 2}, "the chosen action 2 is not among the 2 candidates"),
        ({"_label_Action": 0, "_labelIndex": -1}, "the chosen action -1 is not among the 2 candidates"),
        ({"_label_Action": None, "_labelIndex": None}, "neither _labelIndex nor _label_Action"),
        ({"_label_probability": 0}, "probability"),
        ({"p": [0.4]}, "_label_probability is 0.5, but p gives 0.4"),
        ({"c": {"_multi": [{"_tag": ["a"]}, {"_tag": "b"}]}}, "is not text or a number"),
        ({"_label_ca": []}, "a continuous action"),
    ],
)
def test_events_that_cannot_be_used(tmp_path, changes, words):
    reading = formats.read_dsjson(dsjson(tmp_path, EVENT, {**EVENT, **changes}))
    assert [bad.line for bad in reading.bad] == [2]
    assert words in reading.bad[0].reason
    assert reading.frame["action"].tolist() == ["coffee"]


@pytest.mark.parametrize("field", ["_label_cost", "_label_probability"])
def test_events_without_a_label(tmp_path, field):
    short = {k: v for k, v in EVENT.items() if k != field}
    reading = formats.read_dsjson(dsjson(tmp_path, EVENT, short, {**EVENT, "_skipLearn": True}))
    assert f"no label: the event has no {field}" in reading.bad[0].reason
    assert (reading.n_bad, reading.n_skipped) == (1, 1)


def test_slates_of_dsjson(tmp_path):
    outcome = [{"_label_cost": -1, "_a": [1, 0], "_p": [0.5, 0.5]}, {"_label_cost": 0, "_a": [0], "_p": [1.0]}]
    event = {"c": {"_multi": [{"_tag": "tea"}, {"_tag": "coffee"}], "_slots": [{}, {}]}, "_outcomes": outcome}
    reading = formats.read_dsjson_slates(
        dsjson(tmp_path, event, {**event, "_outcomes": []}, {**event, "_skipLearn": 1})
    )
    assert (reading.n_bad, reading.n_skipped, len(reading.frame)) == (1, 1, 2)
    assert "no slots: _outcomes is empty" in reading.bad[0].reason
    assert reading.frame["position"].tolist() == [0, 1] or reading.frame["position"].tolist() == [1, 2]


def test_formats_of_your_own(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", list(formats.FORMATS))
    with pytest.raises(UsageError, match=r"suffixes= must be file endings"):
        formats.register(formats.Format("mine", ("log",), formats.read_jsonl))
    with pytest.raises(UsageError, match=r"suffixes= must be file endings"):
        formats.register(formats.Format("mine", (), formats.read_jsonl))
    formats.register(formats.Format("mine", (".mine",), formats.read_jsonl))
    formats.register(formats.Format("mine", (".mine",), formats.read_jsonl))
    assert [each.name for each in formats.FORMATS].count("mine") == 1
    (tmp_path / "log.mine").write_text('{"context": {"x": 1}, "action": "b", "reward": 1}\n')
    assert formats.read(tmp_path / "log.mine").log().n == 1
    refuses(
        "log.txt has an unknown format. Known formats: mine, dsjson, router, trace", formats.read, tmp_path / "log.txt"
    )


# -- tables of other tools -----------------------------------------------------------------------------------------


def exposed(**changes):
    day = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    shown = pd.DataFrame({"user_id": [1, 2, 3], "timestamp": day, "variation_id": [0, 1, 1]})
    sales = pd.DataFrame({"user_id": [1, 2, 2, 9], "timestamp": [*day, day[2]], "value": [5.0, 2.0, 3.0, 7.0]})
    return {"exposures": shown, "metric": sales, "weights": {0: 0.5, 1: 0.5}, **changes}


def test_exposures():
    log = formats.from_exposures(**exposed())
    assert log.reward.tolist() == [5.0, 5.0, 0.0]
    log = formats.from_exposures(**exposed(), window=pd.Timedelta(days=0))
    assert log.reward.tolist() == [5.0, 2.0, 0.0]
    early = exposed()
    early["metric"] = early["metric"].assign(timestamp=pd.Timestamp("2023-12-31"))
    assert formats.from_exposures(**early).reward.tolist() == [0.0, 0.0, 0.0]
    gone = exposed()
    gone["metric"] = gone["metric"].assign(value=[np.nan, 2.0, 3.0, 7.0])
    refuses("column 'value': 1 of 4 values (first: row 0) of the metric are missing", formats.from_exposures, **gone)
    gone["metric"] = gone["metric"].assign(value=[1.0, 2.0, 3.0, np.nan])  # of a stranger: does not count
    assert formats.from_exposures(**gone).reward.tolist() == [1.0, 5.0, 0.0]
    refuses("weights= has [0, 2, 3, 4, 5]; labels", formats.from_exposures,
            **exposed(weights={0: 0.5, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.1, 6: 0.1}))  # fmt: skip
    refuses("were shown with weight 0", formats.from_exposures, **exposed(weights={0: 0.0, 1: 1.0}))
    refuses("have no column 'experiment_id'", formats.from_exposures, **exposed(), experiment="a")
    with pytest.raises(UsageError, match="weights= must"):
        formats.from_exposures(**exposed(weights={}))
    with pytest.raises(UsageError, match=r"sum to 1.2"):
        formats.from_exposures(**exposed(weights={0: 0.5, 1: 0.7}))


def test_dictionaries_of_obp():
    text = op.BanditLog.from_frame(FRAME.assign(x="a"), **ROLES)
    refuses("OBP takes numeric contexts only", formats.to_obp, text)
    counted = op.BanditLog.from_frame(FRAME.assign(n=2), count="n", **ROLES)
    refuses("have counts, which OBP cannot store", formats.to_obp, counted)
    given = formats.to_obp(op.BanditLog.from_frame(FRAME, **ROLES))
    assert given["context"][:, 0] == pytest.approx(FRAME["x"].to_numpy())


# -- CSV and Parquet -----------------------------------------------------------------------------------------------


def test_the_line_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"a,b\n1,2\n\xe9,3\n")
    refuses("is not UTF-8 text (line 3)", header, str(path))


def test_files_of_one_log_have_the_same_columns(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n1,2\n")
    refuses("2.csv' and", common_header, [str(tmp_path / "1.csv"), str(tmp_path / "2.csv")])
    assert common_header([str(tmp_path / "1.csv")] * 2) == ["a", "b"]


def test_large_integers_beside_missing_ones(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(f"a,b\n{2**53},x\n,y\n")
    assert read_csv(str(path), [])["a"][0] == 2**53
    path.write_text(f"a,b\n{2**53 + 1},x\n,y\n")
    refuses("column 'a' has integers beyond 2^53 and missing values", read_csv, str(path), [])


def test_integers_that_another_file_makes_floats(tmp_path):
    one, two, three = (str(tmp_path / f"{i}.parquet") for i in range(3))
    pq.write_table(pa.table({"v": pa.array([1.5])}), one)
    pq.write_table(pa.table({"v": pa.array([1], pa.int32())}), two)
    pq.write_table(pa.table({"v": pa.array([2**53 + 1])}), three)
    assert common_schema([one, two]).field("v").type == pa.float64()
    refuses("column 'v' has integers beyond 2^53", common_schema, [one, two, three])
    pq.write_table(pa.table({"v": pa.array([2**53])}), three)
    assert common_schema([one, two, three]).field("v").type == pa.float64()


def test_keys_of_folders(tmp_path):
    for name in ("day=1/day=2", "day=1/DAY=2"):
        place = tmp_path / name.replace("/", "-") / name
        place.mkdir(parents=True)
        FRAME.to_parquet(place / "log.parquet")
        refuses("a key appears twice in its folder names", scanned, str(place.parents[1]))
    for name in ("a/day=1", "a/month=1"):
        (tmp_path / name).mkdir(parents=True)
        FRAME.to_parquet(tmp_path / name / "log.parquet")
    refuses("and", scanned, str(tmp_path / "a"))


def test_a_file_that_is_gone_is_named(tmp_path):
    refuses("none.csv' cannot be read: No such file", Fingerprint.of, [str(tmp_path / "none.csv")])


def test_several_files_on_the_command_line(tmp_path):
    FRAME[:100].to_parquet(tmp_path / "1.parquet")
    FRAME[100:].to_parquet(tmp_path / "2.parquet")
    assert told(tmp_path, tmp_path / "*.parquet") == pytest.approx(TRUTH)
    table = read_table(str(tmp_path / "*.parquet")).frame
    assert table.index.tolist() == list(range(300))
    FRAME[100:].assign(more=1).to_parquet(tmp_path / "2.parquet")
    refuses("columns", read_table, str(tmp_path / "*.parquet"))


def test_kinds_of_files(tmp_path):
    (tmp_path / "log.xyz").write_text("a")
    refuses("log.xyz: unknown file type", kind_of, tmp_path / "log.xyz")
    assert commas_in(["p;x", "0,5;1", "0,25;2"], ";") == ["p"]
    assert commas_in(["p,x", "0,5"], ",") == []
    assert commas_in([], ";") == []
    assert commas_in(["p;x", "0,5;1", ";2"], ";") == ["p"]
    assert commas_in(["p;x", "0,5;1", "b;2"], ";") == []
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"a,b\n\n1,2\n3,4\n"))
    assert first_lines(tmp_path / "log.csv.gz", 3) == ["a,b\n", "1,2\n"]


def test_texts_of_a_small_parquet_file_at_their_bounds(tmp_path, monkeypatch):
    assert footers.LONGEST_TEXT == 1_000_000
    assert footers.MOST_TEXT == 64_000_000
    monkeypatch.setattr(footers, "LONGEST_TEXT", 1000)
    monkeypatch.setattr(footers, "MOST_TEXT", 100_000)
    monkeypatch.setattr(footers, "MOST_EXPANSION", 1)
    path = str(tmp_path / "log.parquet")

    def write(length, rows):
        pq.write_table(pa.table({"t": ["x" * length] * rows}), path, compression="zstd")

    write(1000, 100)  # exactly as long, and exactly as much
    footers.refuse_large_texts([path])
    write(1001, 100)
    refuses("a text in column 't' has 1,001 bytes; the limit is 1,000", footers.refuse_large_texts, [path])
    write(1000, 101)
    refuses("the texts in column 't' would take more than 1 times that", footers.refuse_large_texts, [path])
    write(10, 3)
    footers.refuse_large_texts([path])


def test_a_damaged_file_is_said_in_one_line(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"no parquet at all, though long enough")
    with pytest.raises(DataError) as caught:
        footers.schema_of(str(path))
    assert "\n" not in str(caught.value)
    assert "Parquet magic bytes not found in footer" in str(caught.value)


# -- scans ---------------------------------------------------------------------------------------------------------


def test_sources_that_cannot_be_scanned(tmp_path):
    refuses("there is no file", scanned, str(tmp_path / "no.duckdb"))
    (tmp_path / "empty").mkdir()
    refuses("has no Parquet files", scanned, str(tmp_path / "empty"))
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    for options, words in [
        ({"source": ["a", "b"]}, "give files as one pattern"),
        ({"source": str(tmp_path / "log.csv"), "table": "t"}, "table= is for DuckDB files"),
        ({"source": FRAME, "engine": "spark"}, "engine='spark…' reads files"),
        (
            {"source": str(tmp_path / "log.csv"), "engine": "spark", "memory_limit": "1GB"},
            "memory_limit= is for DuckDB",
        ),
        ({"source": str(tmp_path / "log.csv"), "engine": "mysql"}, "engine= must be 'duckdb', 'spark'"),
    ]:
        with pytest.raises(UsageError, match=words):
            op.scan(**options, **ROLES)
    with pytest.raises(ArgumentError, match="no argument 'chunk_row'"):
        op.scan(FRAME, chunk_row=3, **ROLES)
    assert "chunk_rows" in str(op.scan.__signature__)


# -- columns -------------------------------------------------------------------------------------------------------


def test_the_first_date_is_shown():
    days = np.array(["2024-01-02", "2025-01-01"], dtype="datetime64[D]")
    refuses("first: row 0 = 2024-01-02", to_float, days, "r", "reward")


def test_how_ids_become_features():
    assert as_features(np.arange(1_000)).shape == (1_000, 1_000)
    wide = as_features(np.arange(1_001))
    assert wide.shape == (1_001, 1)
    assert wide.dtype == np.float64
    assert as_features(np.array([f"{i}" for i in range(1_001)])).shape == (1_001, 1_001)


def test_fractions_are_labels_where_they_repeat():
    labels = [i + 0.5 for i in range(101)]
    refuse_continuous(labels, 1010, "a")
    refuses("has 101 different numbers (such as 0.5) in 1,009 rows", refuse_continuous, labels, 1009, "a")
    refuse_continuous(labels, 1009, "a", given=labels)
    refuse_continuous([float(i) for i in range(101)], 101, "a")


@pytest.mark.parametrize(
    ("largest", "remedy"),
    [
        (1.001, "They exceed 1 only by rounding: set them to 1."),
        (1.0011, "They look like percentages"),
        (100.0, "They look like percentages: divide by 100."),
        (100.5, "Check the column."),
        (np.inf, "Check the column."),
    ],
)
def test_probabilities_above_1(largest, remedy):
    refuses(remedy, checks.check, np.array([0.5, largest]), "p", "propensity")
    assert checks.check(np.array([1.0]), "p", "propensity").tolist() == [1.0]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (np.nan, "missing or infinite"),
        (np.inf, "missing or infinite"),
        (0.0, "are not counts"),
        (1.5, "are not counts"),
        (-1.0, "are not counts"),
    ],
)
def test_counts_are_whole(count, words):
    refuses(words, checks.check, np.array([1.0, count]), "n", "count")


def test_contexts_of_many_ids_stay_rows():
    ids = range(40)
    frame = pd.DataFrame({"e": ids, "t": 0, "s": ids, "u": ids, "a": [0, 1] * 20, "r": 1.0})
    log = op.Trajectories.from_frame(frame, episode="e", step="t", state=["s", "u"], action="a", reward="r")
    assert not log.is_discrete


def test_flags_of_the_command_line_name_the_same_columns(tmp_path):
    FRAME.rename(columns={"x": "y"}).to_csv(tmp_path / "log.csv", index=False)
    from offpolicy.cli import main

    assert main(["evaluate", str(tmp_path / "log.csv"), *FLAGS, "--policy", "a=always:b"]) == 1


def test_columns_of_ids_are_states_where_asked_or_where_they_repeat():
    ids = list(range(40))
    frame = pd.DataFrame({"e": ids, "t": 0, "s": ids, "u": [i % 2 for i in ids], "a": [0, 1] * 20, "r": 1.0})

    def log(state, discrete=None):
        return op.Trajectories.from_frame(
            frame, episode="e", step="t", state=state, action="a", reward="r", discrete=discrete
        )

    assert log(["s"]).is_discrete  # one column of ids, each once
    assert log(["u"]).context.n_table == 2
    assert log(["s", "u"], discrete=True).context.n_table == 40
    assert not log(["s", "u"]).is_discrete
    assert not log(["u"], discrete=False).is_discrete
    frame["s"] = [i % 10 for i in ids]
    assert log(["s", "u"]).context.n_table == 10


def test_weights_of_variations_are_shares():
    with pytest.raises(UsageError, match=r"must be non-negative and sum to 1"):
        formats.from_exposures(**exposed(weights={0: -0.5, 1: 1.5}))
    assert formats.from_exposures(**exposed(weights={0: 0.5, 1: 0.5 + 9e-7})).n == 3


def test_actions_of_obp():
    given = {"context": np.zeros((4, 1)), "action": [0, 2, 0, 1], "reward": [0, 1, 1, 0], "pscore": [0.5] * 4}
    assert formats.from_obp(given).actions == (0, 1, 2)
    assert formats.from_obp({**given, "n_actions": 5}).actions == (0, 1, 2, 3, 4)


def test_the_size_of_a_parquet_file_by_its_footer(tmp_path):
    path = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), path)
    assert footers.row_bytes(path) == 8 * 3 * 2
    pq.write_table(pa.table({"a": [1, 2, 3]}).select([]), path)
    assert footers.row_bytes(path) in {0, 24}


def test_the_file_that_lacks_a_column_is_named(tmp_path):
    one, two = str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")
    for here, there in [(one, two), (two, one)]:
        pq.write_table(pa.table({"a": [1], "b": [2]}), here)
        pq.write_table(pa.table({"a": [1]}), there)
        with pytest.raises(DataError, match="'b'") as caught:
            common_schema([one, two])
        said = str(caught.value)
        assert said.index(here) < said.index(there)


def test_episodes_of_minari_end_with_their_last_step():
    steps = {"observations": np.zeros((4, 1)), "actions": np.array([0, 1, 0]), "rewards": np.ones(3)}
    whole = SimpleNamespace(**steps, terminations=np.array([False, False, True]))
    cut = SimpleNamespace(**steps, terminations=np.array([False, True, False]))
    log = formats.from_minari(SimpleNamespace(iterate_episodes=lambda: iter([whole, cut])), truncated="end")
    assert log.ended.tolist() == [True, False]


def test_actions_of_a_roll_out_follow_the_policy():
    class Game:
        """Five steps; the reward is the action."""

        action_space = SimpleNamespace(n=3, seed=lambda _: None)

        def reset(self, seed=None):
            self.t = 0
            return np.zeros(1), {}

        def step(self, action):
            self.t += 1
            return np.zeros(1), float(action), self.t == 5, False, {}

    for always in range(3):
        log = formats.roll_out(Game(), lambda states, a=always: np.eye(3)[[a] * len(states)], 2)
        assert log.reward.tolist() == [float(always)] * 10
        assert log.propensity.tolist() == [1.0] * 10


# -- arrays, and what is written again -----------------------------------------------------------------------------


def test_arrays_have_one_entry_per_row():
    n = {"action": [0, 1], "reward": [1.0, 0.0]}
    refuses("rows differ in shape", op.BanditLog.from_arrays, [[1.0], [1.0, 2.0]], **n)
    refuses("'cluster' must be one label per row. Got shape (2, 2)", op.BanditLog.from_arrays, None, **n,
            cluster=np.zeros((2, 2)))  # fmt: skip


def test_labels_that_a_file_cannot_hold(tmp_path):
    day = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    log = op.BanditLog.from_arrays(None, day, [1.0, 0.0], [0.5, 0.5])
    refuses("line 1 cannot be written as JSON", formats.write_jsonl, log, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    half = ["\ud800", "b"]
    refuses(r"the label '\ud800' holds half of a character", op.BanditLog.from_arrays, None, half, [1.0, 0.0])


def test_times_of_two_tables_are_of_one_kind():
    mixed = exposed()
    mixed["metric"] = mixed["metric"].assign(timestamp=[1, 2, 3, 4])
    refuses("which cannot be compared. Give both as dates", formats.from_exposures, **mixed)
    none = exposed()
    none["metric"] = none["metric"].iloc[:0]
    refuses("the metric has no rows, so every reward would be 0", formats.from_exposures, **none)
