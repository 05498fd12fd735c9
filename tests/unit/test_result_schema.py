"""Every kind of result follows the published JSON Schema, and stands alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.show.schema import published
from offpolicy.trust.gate import check

SCHEMA = json.loads(published())


def frame(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"x": rng.normal(size=n), "user": rng.integers(50, size=n), "p": 0.5})
    df["ad"] = rng.choice(["u", "v"], n)
    df["r"] = rng.normal(size=n) + 3 + (df["ad"] == "u")
    df["id"] = np.arange(n)
    return df


ROLES = {"context": ["x"], "action": "ad", "reward": "r", "propensity": "p"}


def bandit() -> op.Evaluation:
    log = op.BanditLog.from_frame(frame(), **ROLES, cluster="user")
    return op.evaluate(log, {"new": op.policies.Fixed("u")}, reward_model="auto")


def several() -> op.Evaluation:
    log = op.BanditLog.from_frame(frame(), **{**ROLES, "propensity": None})
    policies = {"new": op.policies.Fixed("u"), "old": op.policies.Uniform()}
    return op.evaluate(log, policies, estimators=["SNIPW", "IPW"])


def refused() -> op.Evaluation:
    df = frame(60)
    df["p"] = np.where(df["ad"] == "u", 0.01, 0.99)
    log = op.BanditLog.from_frame(df, **ROLES, actions=["u", "v", "never"])
    policies = {"u": op.policies.Fixed("u"), "never": op.policies.Fixed("never")}
    return op.evaluate(log, policies, estimators=["SNIPW", "IPW"])


def streamed() -> op.Evaluation:
    log = op.scan(frame(), **ROLES, cluster="user", way="stream")
    return op.evaluate(log, {"new": op.policies.Fixed("u")}, estimators=["SNIPW", "IPW"])


def episodes() -> op.Evaluation:
    rng = np.random.default_rng(1)
    states, actions = rng.integers(3, size=(60, 4)), rng.integers(2, size=(60, 4))
    log = op.Trajectories.from_arrays(states, actions, rng.normal(size=(60, 4)), propensities=np.full((60, 4), 0.5))
    return op.evaluate(log, {"one": op.policies.Fixed(1)}, estimators=["DML", "IPW"])


@pytest.mark.parametrize("make", [bandit, several, refused, streamed, episodes])
def test_results_follow_the_schema(make) -> None:
    ev = make()
    gates = [check(ev, f"{ev.policies[0]} value > {bar}") for bar in (-100, 100)]
    document = json.loads(ev.to_json(gates=gates), parse_constant=pytest.fail)
    jsonschema.validate(document, SCHEMA)
    assert document["log"]["clusters"] == (50 if make in {bandit, streamed} else None)
    for row in document["estimates"]:
        e = ev[row["policy"], row["estimator"]]
        assert (row["value"] is None) == math.isnan(e.value)
        missing = row["low"] is None or row["high"] is None
        assert (row["interval"] == "stated") == (not missing)
        assert (row["interval"] in {"refused", "undefined"}) == bool(row["refused"])


def test_the_schema_is_sound_and_refuses_what_lacks_a_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(several().to_json())
    for key in SCHEMA["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in document.items() if k != key}, SCHEMA)
    assert "cannot be told" not in document["comparison"]["statement"]
    assert set(document["comparison"]["candidates"]) <= {"new", "old", "(logging policy)"}


def test_a_result_of_the_command_line_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame().to_csv(tmp_path / "log.csv", index=False)
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "log.csv", "--context", "x", "--action", "ad", "--reward", "r", "--propensity", "p"]
    words += ["--cluster", "user", "--policy", "new=always:u", "--estimator", "SNIPW", "--json", "out.json"]
    words += ["--gate", "new lift > 0"]
    assert main(words) == 0
    document = json.loads(Path("out.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    assert document["origin"]["command"].startswith("offpolicy evaluate log.csv --context x")
    assert "'new lift > 0'" in document["origin"]["command"]
    assert document["origin"]["paths"] == ["log.csv"]
    assert str(tmp_path) not in json.dumps(document)
    assert document["origin"]["made"].endswith("+00:00")
    assert document["log"]["columns"] == {
        "context": ["x"], "action": "ad", "reward": "r", "propensity": "p", "batch": None, "cluster": "user",
    }  # fmt: skip
    assert document["gates"][0]["outcome"] == "passed"
    capsys.readouterr()
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
