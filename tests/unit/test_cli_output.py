"""What the command line says: in its own words, plainly, and without obeying names from the data."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from offpolicy.cli import main
from offpolicy.cli.terminal import PLAIN, in_flags
from offpolicy.errors import did_you_mean

ROLES = ["--context", "x", "--action", "ad", "--reward", "r"]
RUN = [sys.executable, "-c", "from offpolicy.cli import entry; entry()"]


def frame(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"x": rng.normal(size=n), "ad": rng.choice(["u", "v"], n), "p": 0.5})
    df["r"] = rng.normal(size=n) + 3
    df["user_id"] = rng.integers(100, size=n)
    return df


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    made = frame()
    made.to_csv("log.csv", index=False)
    return made


def evaluate(*more: str) -> int:
    return main(["evaluate", "log.csv", *ROLES, "--policy", "new=always:u", "--estimator", "SNIPW", *more])


def values() -> dict[str, float]:
    return {r["estimator"]: r["value"] for r in json.loads(Path("o.json").read_text())["estimates"]}


def test_check_is_not_green_on_an_alarm(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "log.csv", *ROLES, "--propensity", "p"]) == 0
    out = capsys.readouterr().out
    assert "not run reward_maturity" in out
    assert "ok      reward_maturity" not in out
    log.assign(p=np.where(log["ad"] == "u", 0.9, 0.1)).to_csv("log.csv", index=False)
    assert main(["check", "log.csv", *ROLES, "--propensity", "p", "--json", "f.json"]) == 3
    assert "alarm: " in capsys.readouterr().out
    rows = {f["name"]: f for f in json.loads(Path("f.json").read_text())}
    assert rows["reward_maturity"]["ran"] is False
    assert rows["sample_ratio_mismatch"]["level"] == "alarm"


def test_remedies_name_flags() -> None:
    assert in_flags("reward_model= must be …; n_jobs=4.") == "--reward-model must be …; --jobs 4."
    assert in_flags("the mean of q = 3") == "the mean of q = 3"


def test_typos_go_by_distance() -> None:
    assert did_you_mean("DLM", ["DM", "DML", "DR-full"]) == " Did you mean 'DML'?"
    assert did_you_mean("rewrad", ["reward", "read"]) == " Did you mean 'reward'?"
    assert "Known: " in did_you_mean("zzz", ["reward", "ad"])


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({"r": ["yes", "no"] * 200}, [], "--success yes"),
        ({"r": ["yes", "no"] * 200}, ["--success", "yess"], "has no such value. Did you mean 'yes'?"),
        ({"ad": np.linspace(0, 1, 400)}, [], "cut the quantity into a few ranges"),
        ({}, ["--time", "x"], "is numeric"),
        ({}, ["--time", "ad"], "are not dates in a format offpolicy reads (first: row 0"),
        ({}, ["--time", "day"], "no column 'day'"),
    ],
)
def test_logs_of_another_make_are_explained(
    log: pd.DataFrame,
    change: dict[str, object],
    more: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("offpolicy.cli.changes.MOST_ACTIONS", 100)
    log.assign(**change).to_csv("log.csv", index=False)
    assert evaluate(*more) == 1
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert said in err


def test_lists_as_actions_are_explained(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    log.assign(ad=[["u", "v"]] * len(log)).to_parquet("log.parquet")
    words = ["evaluate", "log.parquet", *ROLES, "--policy", "new=uniform"]
    assert main(words) == 1
    assert "one label per row" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('reward_model = "rf"', "must be one of 'auto', 'linear'"),
        ("folds = true", "must be a whole number"),
        ("folds = 2.5", "must be a whole number"),
        ('level = "high"', "must be a number"),
        ("minimize = 1", "must be true or false"),
        ("log = 3", "must be text"),
        ("context = [[1]]", "must be text in quotes, or a list"),
        ("estimator = 3", "must be text in quotes, or a list"),
        ('decimal = "x"', "must be one of '.', ','"),
        ("policies = 3", "[policies] must be a table"),
        ("[policies]\nnew = 3", "must be text in quotes"),
    ],
)
def test_settings_of_another_kind_are_explained(
    log: pd.DataFrame, setting: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run.toml").write_text(f"{setting}\n")
    assert main(["evaluate", "run.toml"]) == 1
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert said in err


def test_success_words_caps_and_days_are_the_same_by_an_engine(
    log: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    log["day"] = pd.date_range("2026-01-01", periods=len(log), freq="h").strftime("%Y-%m-%d %H:%M:%S")
    words = log.assign(r=np.where(log["r"] > 3, "yes", "no"))
    shared = ["--propensity", "p", "--json", "o.json", "--estimator", "IPW"]
    for held, more, expected in (
        (log, ["--cap-reward", "3.5"], log["r"].clip(upper=3.5)),
        (words, ["--success", "yes"], (log["r"] > 3).astype(float)),
        (log, ["--time", "day"], log["r"]),
    ):
        held.to_csv("log.csv", index=False)
        found = []
        for engine in ([], ["--engine", "duckdb"]):
            assert evaluate(*shared, *more, *engine) == 0
            document = json.loads(Path("o.json").read_text())
            found.append((values()["IPW"], document["log"]["columns"]["batch"], document["log"]["digest"]))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
        assert found[0][1:] == found[1][1:]
        own = (expected * (log["ad"] == "u") / 0.5).mean()
        assert found[0][0] == pytest.approx(own, rel=1e-9)
        said = capsys.readouterr().err
        if "--cap-reward" in more:
            assert said.count(f"{(log['r'] > 3.5).sum():,} of 400 rewards were above 3.5") == 2
    assert found[0][1] == "day of day"


def test_missing_rewards_stay_missing(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    words = np.where(log["r"] > 3, "yes", "no").astype(object)
    words[7] = None
    log.assign(r=words).to_csv("log.csv", index=False)
    assert evaluate("--success", "yes") == 1
    assert "row 7" in capsys.readouterr().err
    log.assign(r=np.where(np.arange(400) == 7, np.nan, log["r"])).to_parquet("log.parquet")
    for engine in ([], ["--engine", "duckdb"]):
        more = ["--policy", "new=always:u", "--cap-reward", "3", *engine]
        assert main(["evaluate", "log.parquet", *ROLES, *more]) == 1
        assert "'r'" in capsys.readouterr().err


def test_costs_are_minimized(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    log.assign(r=log["r"] + 2 * (log["ad"] == "u")).to_csv("log.csv", index=False)
    assert evaluate("--minimize", "--json", "o.json") == 0
    assert json.loads(Path("o.json").read_text())["settings"]["minimize"] is True


def test_sizes_are_in_the_words_of_the_log(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate("--cluster", "user_id", "--propensity", "p") == 0
    out = capsys.readouterr().out
    assert f"400 impressions of {log['user_id'].nunique()} users" in out


def test_names_from_the_data_do_not_steer_the_terminal(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "r\x1b[2J\x1b]0;owned\x07\u202e"
    log.rename(columns={"r": evil}).assign(ad=log["ad"] + "\x1b[31m").to_csv("log.csv", index=False)
    roles = ["--context", "x", "--action", "ad", "--reward", evil]
    for words in (
        ["evaluate", "log.csv", *roles, "--policy", "new=uniform", "--estimator", "SNIPW"],
        ["evaluate", "log.csv", *roles, "--policy", "new=always:\x1b[2J"],
        ["evaluate", "log.csv", *roles, "--policy", "a\x1b[2J\nb=uniform"],
        ["check", "log.csv", *roles, "--actions", "u\x1b[31m,v\x1b[31m,\x1b[0m"],
        ["init", "log.csv", "--action", "ad", "--reward", evil],
    ):
        main(words)
        out, err = capsys.readouterr()
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err)


def on_a_terminal(words: list[str], **env: str) -> str:
    main_end, other = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}}
    process = subprocess.Popen([*RUN, *words], stdout=other, env={"TERM": "xterm", **clean, **env})
    os.close(other)
    text = b""
    while True:
        try:
            part = os.read(main_end, 65536)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        text += part
    process.wait()
    os.close(main_end)
    return text.decode()


def test_color_is_for_terminals_whose_user_wants_it(log: pd.DataFrame) -> None:
    words = ["evaluate", "log.csv", *ROLES, "--policy", "new=always:u", "--estimator", "SNIPW"]
    assert "\x1b[3" in on_a_terminal(words)
    assert "\x1b[3" not in on_a_terminal(words, NO_COLOR="1")
    piped = subprocess.run([*RUN, *words], capture_output=True, check=True)
    assert b"\x1b" not in piped.stdout


def test_stand_ins_are_plain() -> None:
    assert all(text.isascii() and not character.isascii() for character, text in PLAIN.items())


def test_earlier_rows_train_and_later_ones_are_evaluated(log: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    log["day"] = pd.date_range("2026-01-01", periods=len(log), freq="h").strftime("%Y-%m-%d %H:%M:%S")
    log["id"] = np.arange(len(log))[::-1]
    log.to_csv("log.csv", index=False)
    more = ["--propensity", "p", "--time", "day", "--json", "o.json", "--reward-model", "linear"]
    more += ["--estimator", "DM", "--estimator", "DML"]
    late = log[log["day"] >= "2026-01-11"]
    found = []
    for extra in ([], ["--id", "id"]):
        assert evaluate(*more, "--train-before", "2026-01-11", *extra) == 0
        assert f"{len(log) - len(late)} rows before" in capsys.readouterr().err
        document = json.loads(Path("o.json").read_text())
        assert document["log"]["n"] == len(late)
        assert document["logged"]["value"] == pytest.approx(late["r"].mean())
        found.append(values())
    assert found[0] == pytest.approx(found[1])
    # Nothing of the later rewards reaches the model: DM stays as it is when they change.
    log["r"] = np.where(log["day"] >= "2026-01-11", -log["r"], log["r"])
    log.to_csv("log.csv", index=False)
    assert evaluate(*more, "--train-before", "2026-01-11") == 0
    assert values()["DM"] == pytest.approx(found[0]["DM"])
    assert values()["DML"] != pytest.approx(found[0]["DML"])
    capsys.readouterr()
    for wrong, said in (
        (["--train-before", "2026-01-11"], "needs --time"),
        (["--time", "day", "--train-before", "soon"], "write a date"),
        (["--time", "day", "--train-before", "2036-01-11"], "no row is on or after that date"),
        (["--time", "day", "--train-before", "2026-01-11", "--engine", "duckdb"], "read into memory"),
    ):
        assert evaluate(*wrong) == 1
        assert said in capsys.readouterr().err
