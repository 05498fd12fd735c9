"""Logs of a router among language models: read, refused by line, and evaluated by metric."""

from __future__ import annotations

import json

import numpy as np
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import read_router

LINE = {
    "request": "r1",
    "candidates": ["small", "large"],
    "model": "small",
    "propensity": 0.9,
    "quality": 1,
    "cost": 0.1,
    "latency": 0.5,
    "context": {"domain": "law", "size": {"words": 30}},
}


def requests(n=300, seed=0):
    """Law goes to the large model; every third request has a third candidate."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        domain = ("law", "chat")[int(rng.integers(2))]
        models = ["small", "large", "code"] if i % 3 == 0 else ["small", "large"]
        best = "large" if domain == "law" else "small"
        shares = {m: 0.3 / len(models) + 0.7 * (m == best) for m in models}
        chosen = str(rng.choice(models, p=list(shares.values())))
        lines.append(
            {
                "request": i,
                "user": i // 2,
                "candidates": models,
                "model": chosen,
                "propensity": shares[chosen],
                "quality": float(rng.random() < (0.8 if chosen == "large" else 0.5)),
                "cost": 10.0 if chosen == "large" else 1.0,
                "latency": 1.0 + rng.random(),
                "context": {"domain": domain, "words": int(rng.integers(5, 90))},
            }
        )
    return lines


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def router(tmp_path):
    return written(tmp_path / "router.jsonl", requests())


def test_candidates_become_eligible_actions_and_outcomes_stay_out_of_the_context(router):
    log = op.read_router_log(router)
    assert log.actions == ("code", "large", "small")
    assert log.eligible.sum(axis=1).tolist()[:4] == [3, 2, 2, 3]
    assert log.context.names == ("domain", "words")
    assert log.reward.tolist() == [line["quality"] for line in requests()]
    assert log.propensity.tolist() == [line["propensity"] for line in requests()]


def test_any_outcome_can_be_the_reward_and_several_make_metrics(router):
    assert op.read_router_log(router, reward="cost").reward.max() == 10.0
    log = op.read_router_log(router, reward=["quality", "cost", "latency"], cluster="user")
    ev = op.evaluate(log, {"small": "always:small"}, estimators=["IPW"], minimize=["cost", "latency"])
    alone = op.evaluate(op.read_router_log(router, reward="cost", cluster="user"), "always:small", estimators=["IPW"])
    assert ev.metric("cost")["small", "IPW"].value == alone["policy", "IPW"].value
    assert alone.logged.value > alone["policy", "IPW"].value


def test_a_mapping_of_candidates_says_the_propensity(tmp_path):
    shares = {"small": 0.9, "large": 0.1}
    line = {k: v for k, v in LINE.items() if k != "propensity"} | {"candidates": shares}
    log = op.read_router_log(written(tmp_path / "r.jsonl", [line, line | {"model": "large"}]))
    assert log.propensity.tolist() == [0.9, 0.1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "huge"}, "'huge' is not among the candidates"),
        ({"candidates": []}, "not a list of models"),
        ({"candidates": ["small", "small"]}, "named twice"),
        ({"candidates": {"small": 0.5, "large": 0.4}}, "add up to 0.9"),
        ({"candidates": {"small": 0.5, "large": 0.5}}, "the candidates give 0.5"),
        ({"propensity": 0.0}, "not in \\(0, 1\\]"),
        ({"propensity": "0.5"}, "not a number"),
        ({"quality": "good"}, "the quality 'good' is not a number"),
        ({"context": "law"}, "not an object"),
    ],
)
def test_bad_lines_are_named(tmp_path, change, words):
    path = written(tmp_path / "r.jsonl", [LINE, LINE | {"model": "large"}, LINE | change])
    with pytest.raises(DataError, match=f"line 3: .*{words}"):
        op.read_router_log(path)
    reading = read_router(path)
    assert [bad.line for bad in reading.bad] == [3]
    log = op.read_router_log(path, on_error="report")
    assert log.n == 2
    assert "1 lines could not be read and were left out (first: line 3" in log.notes[-1]


def test_a_propensity_in_some_lines_only_and_a_missing_outcome_are_refused(tmp_path):
    bare = {k: v for k, v in LINE.items() if k not in {"propensity", "cost"}}
    path = written(tmp_path / "r.jsonl", [LINE, bare])
    with pytest.raises(DataError, match=r"1 of 2 lines have no propensity \(first: line 2\)"):
        op.read_router_log(path)
    path = written(tmp_path / "r.jsonl", [LINE, bare | {"propensity": 0.5}])
    with pytest.raises(DataError, match=r"reward='cost': 1 lines do not have it \(first: line 2\)"):
        op.read_router_log(path, reward="cost")
    with pytest.raises(DataError, match=r"no line has such a field.*Did you mean 'quality'"):
        op.read_router_log(path, reward="qualty")


def test_fields_called_otherwise_are_named(tmp_path):
    renamed = {"chosen" if k == "model" else k: v for k, v in LINE.items()}
    path = written(tmp_path / "r.jsonl", [renamed, renamed])
    assert op.read_router_log(path, fields={"model": "chosen"}, actions=["small", "large"]).n == 2
    with pytest.raises(UsageError, match="Did you mean 'model'"):
        op.read_router_log(path, fields={"modl": "chosen"})


def test_the_command_line_knows_a_router_log(router, capsys):
    question = ["--policy", "small=always:small", "--estimator", "IPW", "--estimator", "DML"]
    assert main(["evaluate", str(router), *question, "--reward-model", "linear"]) == 0
    assert "small" in capsys.readouterr().out
    assert main(["evaluate", str(router), *question[:4], "--reward", "cost"]) == 0
    table = router.with_suffix(".parquet")
    assert main(["convert", str(router), str(table), "--from", "router"]) == 0


def test_the_command_line_advises(router, capsys, tmp_path):
    out = tmp_path / "advice.json"
    flags = ["--policy", "large=always:large", "--width", "0.1", "--reward-model", "linear"]
    assert main(["advise", str(router), *flags, "--exploration", "0.1,0.5", "--json", str(out)]) == 0
    said = capsys.readouterr().out
    assert "rows for a width of 0.1" in said
    assert "50% more" in said
    assert json.loads(out.read_text())["policies"][0]["plans"][1]["exploration"] == 0.1


def test_a_router_that_never_explores_gets_advice_and_no_answer(tmp_path, capsys):
    lines = [line | {"propensity": 1.0, "model": line["candidates"][0]} for line in requests()]
    path = written(tmp_path / "r.jsonl", lines)
    assert main(["advise", str(path), "--policy", "large=always:large", "--width", "0.1"]) == 4
    said = capsys.readouterr().out
    assert "the log has no exploration" in said
    assert "no number is enough" in said
