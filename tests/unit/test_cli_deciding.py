"""``offpolicy select`` and ``offpolicy learn``: the library's answers at the command line, however a log is read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.decide.policies import TreePolicy

FLAGS = ["--context", "x", "--action", "a", "--reward", "r", "--propensity", "p"]


def rows(n=1200, seed=0):
    """Action 1 earns more where x > 0, action 0 elsewhere; doing the right thing costs less."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=n).round(1), rng.integers(2, size=n)
    right = a == (x > 0)
    r = (rng.random(n) < 0.2 + 0.5 * right).astype(float)
    cost = 1.0 - 0.5 * right + 0.1 * rng.random(n)
    return pd.DataFrame({"x": x, "a": a, "p": 0.5, "r": r, "cost": cost, "right": 1 * (x > 0), "wrong": 1 * (x <= 0)})


@pytest.fixture
def log(tmp_path):
    rows().to_csv(tmp_path / "log.csv", index=False)
    return tmp_path / "log.csv"


@pytest.fixture
def parts(tmp_path):
    for i, part in enumerate(np.array_split(np.arange(1200), 2)):
        rows().iloc[part].to_parquet(tmp_path / f"part{i}.parquet", index=False)
    return tmp_path / "part*.parquet"


def in_memory():
    return op.BanditLog.from_frame(rows(), context=["x"], action="a", reward="r", propensity="p")


def test_select_adopts_what_is_shown_to_be_better(log, parts, tmp_path, capsys):
    out = tmp_path / "choice.json"
    policies = ["--policy", "right=right", "--policy", "wrong=wrong", "--estimator", "IPW"]
    bounds = []
    for source in (log, parts):
        assert main(["select", str(source), *FLAGS, *policies, "--json", str(out)]) == 0
        assert "Adopt right (wrong adoptions: at most 5%)." in capsys.readouterr().out
        found = json.loads(out.read_text("utf-8"))
        assert found["chosen"] == "right"
        bounds.append([c["bound"] for c in found["candidates"]])
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)
    right, wrong = rows()["right"].to_numpy(), rows()["wrong"].to_numpy()
    ev = op.evaluate(in_memory(), {"right": np.eye(2)[right], "wrong": np.eye(2)[wrong]}, estimators=["IPW"])
    assert bounds[0] == pytest.approx([c.bound for c in op.select(ev).candidates], rel=1e-9)


def test_select_keeps_the_logging_policy_with_another_exit_code(log, tmp_path, capsys):
    page = tmp_path / "choice.html"
    asked = ["--policy", "wrong=wrong", "--estimator", "IPW", "--report", str(page)]
    assert main(["select", str(log), *FLAGS, *asked]) == 4
    assert "Keep the current policy" in capsys.readouterr().out
    assert "What to adopt" in page.read_text("utf-8")


def test_select_goes_by_the_metric_that_is_named(log, capsys):
    flags = ["--context", "x", "--action", "a", "--reward", "r,cost", "--propensity", "p"]
    asked = ["--policy", "right=right", "--policy", "wrong=wrong", "--estimator", "IPW"]
    assert main(["select", str(log), *flags, *asked]) == 1
    assert "the metric that decides, one of r, cost" in capsys.readouterr().err
    assert main(["select", str(log), *flags, *asked, "--metric", "price"]) == 1
    assert "the metrics are r, cost" in capsys.readouterr().err
    less = ["--metric", "cost", "--minimize"]
    assert main(["select", str(log), *flags, *asked, *less]) == 0
    said = capsys.readouterr().out
    assert "at most -" in said
    assert "Adopt right" in said


def test_learn_goes_by_the_metric_that_is_named(log, capsys):
    flags = ["--context", "x", "--action", "a", "--reward", "r,cost", "--propensity", "p"]
    assert main(["learn", str(log), *flags]) == 1
    assert "the metric that decides, one of r, cost" in capsys.readouterr().err
    asked = ["--metric", "cost", "--minimize", "--max-depth", "0", "--reward-model", "linear"]
    assert main(["learn", str(log), *flags, *asked]) == 0
    assert "lower is better" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["select", "--rate", "2", "--policy", "right=right"], "rate= must be between 0 and 1"),
        (["learn", "--learner", "boosted", "--sql", "tree.sql"], "--learner tree"),
        (["learn", "--max-depth", "-1"], "max_depth"),
    ],
)
def test_what_cannot_be_asked_for_is_said_before_anything_is_fitted(log, capsys, words, said):
    command, *rest = words
    assert main([command, str(log), *FLAGS, *rest]) == 1
    assert said in capsys.readouterr().err


def test_learn_prints_rules_and_writes_them(log, parts, tmp_path, capsys):
    tree, sql, page = tmp_path / "tree.json", tmp_path / "tree.sql", tmp_path / "tree.html"
    asked = ["--max-depth", "1", "--reward-model", "linear", "--folds", "2"]
    written = ["--json", str(tree), "--sql", str(sql), "--report", str(page)]
    trees = []
    for source in (log, parts):
        assert main(["learn", str(source), *FLAGS, *asked, *written]) == 0
        said = capsys.readouterr().out
        assert "honest value" in said
        assert "too optimistic" in said
        trees.append(tree.read_text("utf-8"))
    assert trees[0] == trees[1]
    policy = TreePolicy.from_json(trees[0]).bind((0, 1))
    fresh = rows(seed=1)
    assert (policy.choices(fresh[["x"]]) == fresh["right"]).mean() > 0.9
    assert sql.read_text("utf-8").startswith("CASE")
    assert "The learned policy" in page.read_text("utf-8")
    asked = ["--policy", f"tree={tree}", "--estimator", "IPW", "--gate", "lift > 0"]
    assert main(["evaluate", str(log), *FLAGS, *asked]) == 1
    assert "'tree' was learned from these very rows" in capsys.readouterr().err
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    assert main(["evaluate", str(tmp_path / "fresh.csv"), *FLAGS, *asked]) == 0


def test_learn_is_not_for_episodes(log, capsys):
    flags = ["--episode", "x", "--step", "a", "--action", "a", "--reward", "r"]
    assert main(["learn", str(log), *flags]) == 1
    assert "not on episodes" in capsys.readouterr().err


def test_advise_reads_many_files_as_it_reads_one(log, parts, capsys):
    asked = ["--policy", "right=right", "--width", "0.05", "--reward-model", "linear"]
    said = []
    for source in (log, parts):
        assert main(["advise", str(source), *FLAGS, *asked]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
