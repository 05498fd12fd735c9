"""The command line says what is wrong before it fits anything, and does what its flags say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from offpolicy.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    rng = np.random.default_rng(0)
    n = 500
    df = pd.DataFrame({"x": rng.normal(size=n), "ad": rng.choice(["u", "v"], n), "p": 0.5})
    df["r"] = rng.normal(size=n) + 2
    df["new"] = "u"
    df.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "qa_policies.py").write_text("def bad(context):\n    return context['nope']\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    roles = ["--context", "x", "--action", "ad", "--reward", "r", "--propensity", "p"]
    return ["evaluate", "log.csv", *roles, "--policy", "new=new", "--estimator", "IPW"]


def test_level_reaches_table_and_json(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*flags, "--level", "0.8", "--json", "out.json"]) == 0
    assert "80% interval" in capsys.readouterr().out
    with open("out.json", encoding="utf-8") as file:  # noqa: PTH123
        made = json.load(file)
    assert made["level"] == 0.8
    first = made["estimates"][0]
    assert (first["high"] - first["low"]) / first["std_error"] == pytest.approx(2 * 1.2816, rel=0.01)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--level", "95"], "level"),
        (["--gate", "old lift > 0"], "no policy is called 'old'"),
        (["--gate", "lift >"], "one number"),
        (["--json", "nowhere/out.json"], "no folder 'nowhere'"),
        (["--policy", "b=qa_policies:bad"], "policy 'b' failed on row 0 with KeyError: 'nope'"),
        (["--state", "x"], "--state is for episodes"),
        (["--step", "x"], "--step is for episodes"),
        (["--episode", "x", "--batch", "x"], "--batch is not for episodes"),
        (["--episode", "ad", "--state", "x"], "--context is not for episodes"),
        (["--policy", "b=ad"], "is the column of logged actions"),
    ],
)
def test_mistakes_are_said_before_anything_is_printed(
    flags: list[str], extra: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags, *extra]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_logged_propensities_must_be_there(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    unknown = [f for f in flags if f not in {"--propensity", "p"}]
    assert main([*unknown, "--behavior-model", "logged"]) == 1
    assert "has no propensities" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error(flags: list[str]) -> None:
    command = [sys.executable, "-c", "from offpolicy.cli import entry; entry()", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "offpolicy", "--version"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"offpolicy ")


def test_actions_take_the_type_of_their_column(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    log = pd.read_csv("log.csv")
    log.assign(ad=log["ad"] == "u", new=True).to_csv("log.csv", index=False)
    assert main([*flags, "--actions", "true,false"]) == 0
    capsys.readouterr()
    log.assign(ad=(log["ad"] == "u") + 3, new=3).to_csv("log.csv", index=False)
    assert main([*flags, "--actions", "3,4,5"]) == 0
    assert main([*flags, "--engine", "duckdb", "--actions", "3,4,5"]) == 0
    assert main([*flags, "--actions", "u,v"]) == 1
    assert "does not match column 'ad', which contains integers" in capsys.readouterr().err
    wrong = ["nope" if f == "ad" else f for f in flags]
    assert main([*wrong, "--actions", "u,v"]) == 1
    assert "no such column" in capsys.readouterr().err


def test_episodes_in_a_parquet_file_take_their_horizon_and_time_limit_from_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    n, steps = 60, 4
    frame = pd.DataFrame(
        {
            "id": np.repeat(np.arange(n), steps),
            "t": np.tile(np.arange(steps), n),
            "s": rng.integers(3, size=n * steps),
            "a": rng.integers(2, size=n * steps),
            "r": 1.0,
            "p": 0.5,
            "over": np.tile(np.arange(steps) == steps - 1, n) & (np.arange(n * steps) >= 40),
        }
    )  # the first ten episodes were stopped by a limit
    frame.to_parquet(tmp_path / "episodes.parquet")
    monkeypatch.chdir(tmp_path)
    roles = "--episode id --step t --state s --action a --reward r --propensity p --terminated over"
    asked = ["evaluate", "episodes.parquet", *roles.split(), "--policy", "u=uniform"]

    def value(*more: str) -> tuple[float, str]:
        assert main([*asked, "--estimator", "DML", *more, "--json", "out.json"]) == 0
        capsys.readouterr()
        text = (tmp_path / "out.json").read_text(encoding="utf-8")
        return json.loads(text)["estimates"][0]["value"], text

    cut, _ = value("--truncated", "cut")
    assert cut == pytest.approx(4.0, abs=0.05)
    short, text = value("--truncated", "cut", "--horizon", "2")
    assert short == pytest.approx(2.0, abs=0.05)
    assert "value of up to 2 steps" in text
    # What follows the limit is asked of the value model: more than nothing.
    carried, _ = value("--truncated", "bootstrap", "--discount", "0.9")
    ends, _ = value("--truncated", "cut", "--discount", "0.9")
    assert carried > ends + 0.05
