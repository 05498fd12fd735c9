"""The command line, run as a user would: files in, exit codes and files out."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from offpolicy.cli import main


@pytest.fixture
def log_file(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "device": rng.choice(["phone", "desktop"], n),
            "ad": rng.choice(["a", "b"], n),
            "p": 0.5,
        }
    )
    frame["click"] = ((frame["ad"] == "b") * 0.3 + 0.2 > rng.random(n)).astype(int)
    frame["new"] = "b"
    frame["p_a"], frame["p_b"] = 0.25, 0.75
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    return path


def arguments(path, *more):
    roles = ["--context", "age,device", "--action", "ad", "--reward", "click", "--propensity", "p"]
    return ["evaluate", str(path), *roles, *more]


def test_evaluate_a_csv_prints_the_estimates_and_writes_json(log_file, tmp_path, capsys):
    out = tmp_path / "result.json"
    options = ["--policy", "new=new", "--policy", "mix=p_a,p_b", "--estimator", "IPW", "--estimator", "DML"]
    assert main(arguments(log_file, *options, "--json", str(out), "--reward-model", "linear")) == 0
    text = capsys.readouterr().out
    assert "new" in text
    assert "DML" in text
    result = json.loads(out.read_text())
    assert result["schema"] == "offpolicy.evaluation.result/5"
    rows = {(r["policy"], r["estimator"]): r for r in result["estimates"]}
    frame = pd.read_csv(log_file)
    expected = (frame["click"] * (frame["ad"] == "b") / 0.5).mean()
    assert rows["new", "IPW"]["value"] == pytest.approx(expected, rel=1e-12)
    assert set(rows) == {(p, e) for p in ("new", "mix") for e in ("IPW", "DML")}


def test_parquet_and_csv_agree(log_file, tmp_path):
    parquet = tmp_path / "log.parquet"
    pd.read_csv(log_file).to_parquet(parquet)
    values = []
    for path in (log_file, parquet):
        out = tmp_path / "out.json"
        assert main(arguments(path, "--policy", "new=new", "--estimator", "SNIPW", "--json", str(out))) == 0
        values.append(json.loads(out.read_text())["estimates"][0]["value"])
    assert values[0] == values[1]


def test_a_run_file_says_the_same_as_flags(log_file, tmp_path):
    run = tmp_path / "run.toml"
    run.write_text(
        'log = "log.csv"\ncontext = ["age", "device"]\naction = "ad"\nreward = "click"\npropensity = "p"\n'
        'estimators = ["SNIPW"]\n[policies]\nnew = "always:b"\n'
    )
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert main(["evaluate", "--config", str(run), "--json", str(first)]) == 0
    assert main(arguments(log_file, "--policy", "new=always:b", "--estimator", "SNIPW", "--json", str(second))) == 0
    assert json.loads(first.read_text())["estimates"] == json.loads(second.read_text())["estimates"]


def test_a_misspelled_setting_in_a_run_file_is_named(tmp_path, capsys):
    run = tmp_path / "run.toml"
    run.write_text('log = "log.csv"\nrewards = "click"\n')
    assert main(["evaluate", "--config", str(run)]) == 1
    assert "unknown setting 'rewards'. Did you mean 'reward'?" in capsys.readouterr().err


def test_a_function_is_imported_from_the_working_folder(log_file, tmp_path, monkeypatch):
    (tmp_path / "mine_policies.py").write_text(
        "def choose(context):\n    return ['b' if a > 0 else 'a' for a in context['age']]\n"
    )
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out.json"
    code = main(arguments(log_file, "--policy", "new=mine_policies:choose", "--estimator", "IPW", "--json", str(out)))
    assert code == 0
    frame = pd.read_csv(log_file)
    chosen = np.where(frame["age"] > 0, "b", "a")
    expected = (frame["click"] * (frame["ad"] == chosen) / 0.5).mean()
    assert json.loads(out.read_text())["estimates"][0]["value"] == pytest.approx(expected, rel=1e-12)


def test_a_policy_table_file(log_file, tmp_path):
    table = tmp_path / "policy.csv"
    pd.DataFrame(
        {"device": ["phone", "phone", "desktop"], "ad": ["a", "b", "b"], "probability": [0.4, 0.6, 1.0]}
    ).to_csv(table, index=False)
    out = tmp_path / "out.json"
    assert main(arguments(log_file, "--policy", f"t={table}", "--estimator", "IPW", "--json", str(out))) == 0
    frame = pd.read_csv(log_file)
    pi = np.where(frame["device"] == "desktop", (frame["ad"] == "b") * 1.0, np.where(frame["ad"] == "b", 0.6, 0.4))
    expected = (frame["click"] * pi / 0.5).mean()
    assert json.loads(out.read_text())["estimates"][0]["value"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--reward", "clik"], "--reward 'clik': the frame has no such column. Did you mean 'click'?"),
        (["--policy", "new"], "write name=SPEC"),
        (["--policy", "new=nwe"], "Did you mean 'new'?"),
        (["--policy", "new=no_such_module:f"], "cannot import 'no_such_module'"),
        (["--estimator", "DLM"], "no estimator is called 'DLM'"),
        (["--propensity", "age"], "column 'age'"),
    ],
)
def test_bad_usage_is_exit_code_1_with_a_remedy(log_file, capsys, change, message):
    base = arguments(log_file, *change)
    if change[0] != "--policy":
        base += ["--policy", "new=new"]
    assert main(base) == 1
    assert message in capsys.readouterr().err


def test_a_missing_file_is_named(capsys):
    assert main(["evaluate", "nowhere.csv", "--action", "a", "--reward", "r", "--policy", "x=y"]) == 1
    assert "no file 'nowhere.csv'" in capsys.readouterr().err


def test_gates_pass_fail_or_cannot_tell(log_file, capsys):
    def code(expression):
        return main(arguments(log_file, "--policy", "new=new", "--reward-model", "linear", "--gate", expression))

    assert code("value > 0.01") == 0
    assert code("value > 0.99") == 3
    value = json.loads("0.5")
    assert code(f"value > {value}") == 4
    assert code("valeu > 1") == 1


def test_check_prints_findings(log_file, capsys):
    roles = ["--context", "age,device", "--action", "ad", "--reward", "click", "--propensity", "p"]
    assert main(["check", str(log_file), *roles]) == 0
    assert "sample" in capsys.readouterr().out.lower()


def test_convert_a_table_to_dsjson_and_back(log_file, tmp_path, capsys):
    roles = ["--context", "age,device", "--action", "ad", "--reward", "click", "--propensity", "p"]
    events, table = tmp_path / "log.json.gz", tmp_path / "again.parquet"
    assert main(["convert", str(log_file), str(events), "--to", "dsjson", *roles]) == 0
    assert main(["convert", str(events), str(table), "--from", "dsjson"]) == 0
    first, again = pd.read_csv(log_file), pd.read_parquet(table)
    np.testing.assert_array_equal(again["reward"], first["click"])
    np.testing.assert_array_equal(again["action"], first["ad"])
    assert "context columns: age,device" in capsys.readouterr().out


def test_the_installed_command_answers():
    done = subprocess.run(
        [sys.executable, "-c", "from offpolicy.cli import entry; entry()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("offpolicy ")


def test_the_demo_prints_the_truth_beside_the_estimates(capsys):
    assert main(["demo", "--impressions", "3000"]) == 0
    out = capsys.readouterr().out
    assert "truth" in out
    assert out.count("DML") >= 2


def test_a_pattern_goes_through_the_engine_and_agrees_with_memory(log_file, tmp_path):
    frame = pd.read_csv(log_file)
    (tmp_path / "parts").mkdir()
    frame.iloc[:250].to_parquet(tmp_path / "parts" / "a.parquet")
    frame.iloc[250:].to_parquet(tmp_path / "parts" / "b.parquet")
    values = []
    for path in (log_file, tmp_path / "parts" / "*.parquet"):
        out = tmp_path / "out.json"
        options = ["--policy", "new=new", "--estimator", "SNIPW", "--json", str(out)]
        assert main(arguments(path, *options)) == 0
        result = json.loads(out.read_text())
        values.append(result["estimates"][0]["value"])
    assert result["settings"]["engine"]["engine"] == "duckdb"
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_episodes_from_a_table(tmp_path):
    rng = np.random.default_rng(0)
    n, steps = 200, 3
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(n), steps),
            "t": np.tile(np.arange(steps), n),
            "s": rng.integers(2, size=n * steps),
            "a": rng.integers(2, size=n * steps),
            "p": 0.5,
        }
    )
    frame["r"] = frame["a"] + rng.normal(size=len(frame))
    frame["new"] = 1
    path, out = tmp_path / "episodes.parquet", tmp_path / "out.json"
    frame.to_parquet(path)
    roles = ["--episode", "id", "--step", "t", "--state", "s", "--action", "a", "--reward", "r"]
    options = ["--propensity", "p", "--policy", "new=always:1", "--estimator", "DML", "--value-model", "tabular"]
    assert main(["evaluate", str(path), *roles, *options, "--json", str(out)]) == 0
    result = json.loads(out.read_text())["estimates"][0]
    assert abs(result["value"] - 3.0) < 4 * result["std_error"]
