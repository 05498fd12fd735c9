"""Policies by several metrics: joint intervals, who is worse in all of them, and where it is shown."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.inference.family import together
from offpolicy.show.schema import published
from offpolicy.show.tracking import metrics as tracked
from offpolicy.show.tracking import verdicts

LOGGED = "(logging policy)"


def frame(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ad = rng.choice(["a", "b", "c"], n)
    k = np.array(["abc".index(x) for x in ad])
    return pd.DataFrame(
        {
            "device": rng.integers(4, size=n),
            "ad": ad,
            "revenue": np.array([2.0, 3.0, 1.0])[k] + rng.normal(size=n),
            "cost": np.array([1.0, 2.0, 3.0])[k] + 0.2 * rng.normal(size=n),
            "p": 1 / 3,
        }
    )


ROLES = {"context": ["device"], "action": "ad", "propensity": "p"}
POLICIES = {name: op.policies.Fixed(name) for name in "abc"}


@pytest.fixture(scope="module")
def ev() -> op.Evaluation:
    log = op.BanditLog.from_frame(frame(), reward=["revenue", "cost"], **ROLES)
    return op.evaluate(log, POLICIES, estimators=["SNIPW", "IPW"], minimize=["cost"])


def test_who_is_worse_in_every_metric(ev):
    found = ev.pareto()
    # c earns least and costs most; a and b are a trade-off; the log mixes all three.
    assert set(found.dominated["c"]) == {"a", "b", LOGGED}
    assert "a" in found.front
    assert "b" in found.front
    assert "c than a and b" in found.statement
    assert "c" in str(found)


def test_the_direction_turns_the_claim():
    log = op.BanditLog.from_frame(frame(), reward=["revenue", "cost"], **ROLES)
    found = op.evaluate(log, POLICIES, estimators=["SNIPW"]).pareto()
    assert "c" not in found.dominated  # it earns least, but has most of the other
    assert "b" in found.dominated.get("a", ())


def test_intervals_are_one_family(ev):
    found = ev.pareto(0.9)
    own = together(list(found.values.values()), 0.9).intervals
    assert [tuple(i) for i in own] == [tuple(i) for i in found.intervals.values()]
    for key, interval in found.intervals.items():
        alone = found.values[key].interval(0.9)
        assert interval.low < alone.low
        assert interval.high > alone.high
    assert len(found.rows()) == 8


def test_one_metric_that_is_the_same_does_not_hide_the_other():
    n = 2000
    rng = np.random.default_rng(1)
    a = rng.integers(2, size=n)
    log = op.BanditLog.from_arrays(
        None, a, {"win": a + rng.normal(size=n), "cost": 1 + rng.normal(size=n)}, np.full(n, 0.5)
    )
    policies = {"one": op.policies.Fixed(1), "same": op.policies.Fixed(1)}
    found = op.evaluate(log, policies, estimators=["SNIPW"], minimize=["cost"]).pareto()
    assert not found.dominated  # nobody is beaten by a policy that does the same
    assert "No policy is clearly worse" in found.statement


def test_the_json_holds_every_metric(ev):
    gates = [ev.gate("a revenue > 0 and a cost < 9")]
    document = json.loads(ev.to_json(gates=gates), parse_constant=pytest.fail)
    jsonschema.validate(document, json.loads(published()))
    assert document["metric"] == "revenue"
    assert [m["metric"] for m in document["metrics"]] == ["cost"]
    assert document["metrics"][0]["better"] == "lower"
    own = {(r["policy"], r["estimator"]): r["value"] for r in document["metrics"][0]["estimates"]}
    assert own["a", "SNIPW"] == ev.metric("cost")["a", "SNIPW"].value
    assert set(document["pareto"]["dominated"]["c"]) == {"a", "b", LOGGED}
    assert len(document["gates"][0]["conditions"]) == 2
    alone = json.loads(ev.metric("cost").to_json())
    jsonschema.validate(alone, json.loads(published()))
    assert (alone["metric"], alone["metrics"], alone["pareto"]) == ("cost", [], None)


def test_trackers_get_every_metric(ev):
    numbers = tracked(ev, 0.95)
    assert numbers["cost/a/SNIPW/value"] == ev.metric("cost")["a", "SNIPW"].value
    assert numbers["revenue/logged/value"] == ev.logged.value
    assert verdicts(ev)["offpolicy.verdict.cost.a"] == ev.metric("cost").verdict("a").level
    assert "a/SNIPW/value" in tracked(ev.metric("cost"), 0.95)


def test_report_and_plot_show_the_trade_off(ev, tmp_path):
    text = ev.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "All metrics" in text
    assert "cost (lower is better)" in text
    alone = ev.metric("cost").report(tmp_path / "c.html").read_text(encoding="utf-8")
    assert "All metrics" not in alone
    axes = ev.plot("pareto")
    assert axes.get_xlabel() == "cost (lower is better)"
    assert axes.get_ylabel() == "revenue (higher is better)"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame(1200).to_csv("log.csv", index=False)
    frame(1200).to_parquet("log.parquet")
    return tmp_path


FLAGS = ["--context", "device", "--action", "ad", "--propensity", "p", "--estimator", "SNIPW"]
TWO = ["--policy", "a=always:a", "--policy", "c=always:c"]


@pytest.mark.parametrize("log", ["log.csv", "*.parquet"])
def test_the_command_line_takes_several_rewards(here, capsys, log):
    rewards = ["--reward", "revenue", "--reward", "cost", "--minimize-metric", "cost"]
    gates = ["--gate", "revenue a lift > -50% and cost a lift < 0", "--json", "o.json"]
    assert main(["evaluate", log, *FLAGS, *rewards, *TWO, *gates]) == 0
    shown = capsys.readouterr().out
    assert "cost (lower is better)" in shown
    assert "Worse in every metric: c than" in shown
    document = json.loads(Path("o.json").read_text(encoding="utf-8"))
    assert document["metrics"][0]["metric"] == "cost"
    assert document["gates"][0]["passed"] is True
    failing = ["--gate", "revenue a lift > -50% and cost c lift < 0"]
    assert main(["evaluate", log, *FLAGS, *rewards, *TWO, *failing]) == 3


def test_a_run_file_lists_rewards(here, capsys):
    assert main(["init", "log.csv", "--reward", "revenue,cost", "--propensity", "p"]) == 0
    run = tomllib.loads(Path("run.toml").read_text(encoding="utf-8"))
    assert run["reward"] == ["revenue", "cost"]
    assert "cost" not in run["context"]
    capsys.readouterr()
    assert main(["evaluate", "run.toml", "--estimator", "SNIPW", "--minimize-metric", "cost"]) == 0
    assert "cost (lower is better)" in capsys.readouterr().out
    assert main(["evaluate", "run.toml", "--minimize"]) == 1
    assert "--minimize-metric cost" in capsys.readouterr().err
    assert main(["evaluate", "run.toml", "--cap-reward", "2"]) == 1
    assert "takes one reward" in capsys.readouterr().err


def test_a_gate_over_an_unknown_metric_is_refused_before_any_fit(here, capsys):
    flags = [*FLAGS, "--reward", "revenue,cost", *TWO]
    assert main(["evaluate", "log.csv", *flags, "--gate", "costs a lift < 0"]) == 1
    assert "Did you mean 'cost'" in capsys.readouterr().err


def test_the_log_is_checked_by_every_metric(here, capsys):
    data = frame(1200)
    data["cost"] = data["device"] * 1.0  # the context tells this metric
    data.to_csv("leak.csv", index=False)
    flags = [*FLAGS[:6], "--reward", "revenue", "--json", "found.json"]
    assert main(["check", "leak.csv", *flags]) == 0
    alone = capsys.readouterr().out
    assert main(["check", "leak.csv", *flags, "--reward", "cost"]) in {0, 3}
    both = capsys.readouterr().out
    assert "cost\n════" in both
    assert both.count("sample_ratio_mismatch") == alone.count("sample_ratio_mismatch")
    rows = json.loads(Path("found.json").read_text(encoding="utf-8"))
    levels = {(r["metric"], r["name"]): r["level"] for r in rows}
    assert levels["revenue", "leaks"] == "ok"
    assert levels["cost", "leaks"] != "ok"


def test_a_notebook_says_which_metric_it_shows(ev):
    assert "Metric: revenue (higher is better)" in ev._repr_html_()
    assert "Metric: cost (lower is better)" in ev.metric("cost")._repr_html_()
