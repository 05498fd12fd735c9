"""Formats people already have: read, written, read again."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError
from offpolicy.logs.formats import (
    from_obp,
    read_dsjson,
    read_dsjson_slates,
    read_jsonl,
    to_obp,
    write_dsjson,
    write_jsonl,
)

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "vw_dsjson"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the dsjson fixtures are not beside the project")


def event(**changes):
    base = {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": 2,
        "_labelIndex": 1,
        "c": {"user": {"age": 30, "_id": 9}, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]},
    }
    return {**base, **changes}


def write(path, events):
    path.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in events) + "\n")
    return path


def test_an_event_becomes_a_row(tmp_path):
    reading = read_dsjson(
        write(tmp_path / "log.json", [event(), event(_labelIndex=0, _label_Action=1, _label_cost=0.25)])
    )
    log = reading.log()
    assert log.actions == ("coffee", "tea")
    assert [log.actions[c] for c in log.action] == ["coffee", "tea"]
    assert log.reward.tolist() == [1.0, -0.25]
    assert log.propensity.tolist() == [0.5, 0.5]
    assert reading.context == ("user.age",)


def test_bad_lines_are_reported_with_their_numbers_and_fatal_only_when_asked(tmp_path):
    file = write(tmp_path / "log.json", [event(), '{"broken', event(), event(_label_probability=1.5)])
    reading = read_dsjson(file)
    assert [b.line for b in reading.bad] == [2, 4]
    assert "not valid JSON" in reading.bad[0].reason
    assert reading.log().n == 2
    with pytest.raises(DataError, match=r"log\.json, line 2: not valid JSON"):
        read_dsjson(file, on_error="raise")


def test_dropped_lines_weigh_more_and_skipped_lines_are_counted(tmp_path):
    reading = read_dsjson(write(tmp_path / "log.json", [event(pdrop=0.9), event(), event(_skipLearn=True)]))
    assert reading.n_skipped == 1
    np.testing.assert_allclose(reading.log().weight, [10.0, 1.0])


def test_a_file_without_a_usable_line_says_why(tmp_path):
    with pytest.raises(DataError, match="line 1: a continuous action"):
        read_dsjson(write(tmp_path / "log.json", [{"_label_ca": {"action": 1.0}, "c": {}}]))


def test_dsjson_round_trip_through_gzip(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 50),
            "city": rng.choice(["Oslo", "Quito"], 50),
            "ad": rng.choice(["a", "b", "c"], 50),
            "click": rng.integers(0, 2, 50).astype(float),
            "p": rng.uniform(0.1, 0.9, 50),
            "keep": rng.choice([1.0, 0.5], 50),
        }
    )
    log = op.BanditLog.from_frame(
        frame, context=["age", "city"], action="ad", reward="click", propensity="p", keep_probability="keep"
    )
    file = tmp_path / "log.json.gz"
    assert write_dsjson(log, file) == 50
    with gzip.open(file, "rt") as text:
        assert json.loads(next(text))["c"]["city"] in {"Oslo", "Quito"}
    again = read_dsjson(file).log()
    assert again.actions == log.actions
    for part in ("action", "reward", "propensity"):
        np.testing.assert_array_equal(getattr(again, part), getattr(log, part))
    np.testing.assert_allclose(again.weight, log.weight, rtol=1e-12)
    pd.testing.assert_frame_equal(again.context.learner_table, log.context.learner_table)


def test_jsonl_round_trip(tmp_path):
    log = op.BanditLog.from_arrays([[1.5], [2.5], [0.5]], [0, 1, 1], [0.0, 2.0, 1.0], [0.5, 0.25, 1.0])
    file = tmp_path / "trace.jsonl"
    write_jsonl(log, file)
    again = read_jsonl(file).log()
    assert again.actions == (0, 1)
    np.testing.assert_array_equal(again.reward, log.reward)
    np.testing.assert_array_equal(again.propensity, log.propensity)
    np.testing.assert_array_equal(again.context.learner_table["x0"], [1.5, 2.5, 0.5])


def test_jsonl_keep_probability_becomes_weight_and_bad_rewards_are_reported(tmp_path):
    lines = [
        {"context": {"a": 1}, "action": "x", "reward": 1, "act_prob": 0.5, "keep_prob": 0.1},
        {"context": {"a": 1}, "action": "x", "reward": "one", "act_prob": 0.5, "keep_prob": 0.1},
        {"context": {"a": 1}, "reward": 0, "act_prob": 0.5, "keep_prob": 0.1},
    ]
    reading = read_jsonl(write(tmp_path / "trace.jsonl", lines))
    np.testing.assert_allclose(reading.log().weight, [10.0])
    assert [str(b) for b in reading.bad] == ["line 2: the reward 'one' is not a number", "line 3: no field 'action'"]


def test_obp_both_ways():
    rng = np.random.default_rng(1)
    feedback = {
        "n_rounds": 20,
        "n_actions": 4,
        "context": rng.normal(size=(20, 3)),
        "action": rng.integers(3, size=20),
        "reward": rng.integers(2, size=20),
        "pscore": rng.uniform(0.1, 1, size=20),
        "position": None,
    }
    log = from_obp(feedback)
    assert log.actions == (0, 1, 2, 3)
    back = to_obp(log)
    for key in ("context", "action", "reward", "pscore"):
        np.testing.assert_array_equal(back[key], feedback[key])
    assert back["n_actions"] == 4


def test_obp_positions_are_one_at_a_time():
    feedback = {"context": np.zeros((4, 1)), "action": [0, 1, 0, 1], "reward": [1, 0, 0, 1],
                "n_actions": 2, "position": [0, 0, 1, 1]}  # fmt: skip
    with pytest.raises(DataError, match="2 positions"):
        from_obp(feedback)
    assert from_obp(feedback, position=1).reward.tolist() == [0.0, 1.0]


def test_obp_without_a_reward_is_named():
    with pytest.raises(DataError, match=r"no 'reward'.*Did you mean 'rewards'"):
        from_obp({"action": [0], "rewards": [1], "context": [[0]]})


@needs_data
def test_vowpal_wabbits_own_files():
    log = read_dsjson(DATA / "dsjson_cb.json").log()
    assert log.n == 23 - read_dsjson(DATA / "dsjson_cb.json").n_bad
    assert "Latte" in log.actions
    assert read_dsjson(DATA / "cb_simple.json").log().actions == ("1", "2")
    np.testing.assert_allclose(read_dsjson(DATA / "cb_simple_pdrop.json").log().weight, [10.0])


@needs_data
def test_the_first_slot_of_a_ccb_log():
    reading = read_dsjson(DATA / "ccb_data.json")
    assert reading.log().n == 59
    first = reading.frame.iloc[1]
    assert (first["action"], first["reward"], first["propensity"]) == ("Latte", 0.6, 0.25)


@needs_data
def test_malformed_lines_of_a_real_file():
    reading = read_dsjson(DATA / "ccb_data_parse_error.json")
    assert {57, 69} <= {b.line for b in reading.bad}
    assert reading.log().n == 70 - reading.n_bad


@needs_data
def test_skipped_events_and_continuous_actions_of_real_files():
    with pytest.raises(DataError, match="no usable line"):
        read_dsjson(DATA / "cats_room_temp.json")
    with pytest.raises(DataError, match=r"7 bad, 1 skipped.*line 2: no field '_multi'"):
        read_dsjson(DATA / "b1848_dsjson_parser_regression.txt")


@needs_data
def test_all_slots_of_a_ccb_log():
    reading = read_dsjson_slates(DATA / "ccb_data.json")
    log = reading.log()
    assert (log.n, log.rows, log.horizon) == (59, 66, 2)
    assert log.distinct
    second = reading.frame.iloc[3]
    assert (second["action"], second["reward"]) == ("Americano", 0.4)
    assert second["candidates"] == ["Americano", "Cappuccino", "Mocha"]
    first = read_dsjson(DATA / "ccb_data.json").log()
    top = reading.frame[reading.frame["position"] == 0]
    assert first.reward.tolist() == top["reward"].tolist()
    ev = op.evaluate(log, "uniform", estimators=["IPW"])
    assert ev["policy", "IPW"].value == pytest.approx(ev.logged.value, abs=1e-6)
    with pytest.raises(DataError, match="no usable line"):
        read_dsjson_slates(DATA / "cb_simple.json")


def slates_event(cost, first, second):
    return {
        "_label_cost": cost,
        "c": {
            "hour": 9,
            "_multi": [{"_slot_id": 0, "_tag": "a"}, {"_slot_id": 0, "_tag": "b"}, {"_slot_id": 1, "_tag": "x"},
                       {"_slot_id": 1, "_tag": "y"}, {"_slot_id": 1, "_tag": "z"}],
            "_slots": [{}, {}],
        },
        "_outcomes": [{"_a": [first, 1 - first], "_p": [0.5, 0.5]}, {"_a": second, "_p": 0.25}],
        "pdrop": 0.5,
    }  # fmt: skip


def test_slates_with_one_cost(tmp_path):
    rng = np.random.default_rng(0)
    events = [slates_event(-float(a + b), int(a), int(b)) for a, b in rng.integers(2, size=(40, 2))]
    log = read_dsjson_slates(write(tmp_path / "log.json", events)).log()
    assert log.interaction.name == "additive"
    assert log.actions == ("a", "b", "x", "y", "z")
    assert log.eligible[:2].astype(int).tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert set(log.weight.tolist()) == {2.0}
    always = op.evaluate(
        log,
        lambda rows: np.where(rows["position"].to_numpy()[:, None] == 0, [[0, 1.0, 0, 0, 0]], [[0, 0, 0, 1.0, 0]]),
        estimators=["IPW"],
    )["policy", "IPW"]
    loop = [
        (1 + (2 * (e["_outcomes"][0]["_a"][0] == 1) - 1) + (4 * (e["_outcomes"][1]["_a"] == 1) - 1)) * -e["_label_cost"]
        for e in events
    ]
    assert always.value == pytest.approx(np.mean(loop), abs=1e-12)


def test_bad_slots_name_their_line(tmp_path):
    good = slates_event(-1.0, 0, 1)
    bad = slates_event(-1.0, 0, 7)
    reading = read_dsjson_slates(write(tmp_path / "log.json", [good, bad]))
    assert [(b.line, b.reason) for b in reading.bad] == [(2, "slot 1: action 7 is not among its 3 candidates")]
    with pytest.raises(DataError, match="line 2"):
        read_dsjson_slates(tmp_path / "log.json", on_error="raise")
