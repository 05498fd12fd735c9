"""What a newcomer types in the first minutes, as processes of its own: README, own files, gates, an old terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = [sys.executable, "-c", "from offpolicy.cli import entry; entry()"]
N = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log of the README and five CSVs of different make."""
    place = tmp_path_factory.mktemp("first")
    log = ads()
    log.to_csv(place / "log.csv", index=False)
    for name, (frame, how) in makes(log).items():
        frame.to_csv(place / f"{name}.csv", index=False, **how)
    events = [json.dumps(event(i)) for i in range(200)]
    (place / "decisions.json").write_text("\n".join(events) + "\n")
    return place


def ads() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"age": rng.integers(18, 70, N), "device": rng.choice(["phone", "desktop"], N)})
    df["ad"] = rng.choice(["music", "sport", "travel"], N, p=[0.3, 0.4, 0.3])
    df["p"] = df["ad"].map({"music": 0.3, "sport": 0.4, "travel": 0.3})
    df["click"] = (rng.random(N) < 0.2 + 0.5 * (df["ad"] == "music")).astype(int)
    df["recommended_ad"] = np.where(df["age"] < 60, "music", "sport")
    return df


def makes(log: pd.DataFrame) -> dict[str, tuple[pd.DataFrame, dict[str, str]]]:
    rng = np.random.default_rng(1)
    days = pd.date_range("2026-01-01", periods=N, freq="h").astype(str)
    return {
        "semicolons": (log, {"sep": ";"}),
        "decimal_commas": (log.assign(income=rng.normal(3, 1, N).round(2)), {"sep": ";", "decimal": ","}),
        "yes_and_no": (log.assign(click=log["click"].map({0: "no", 1: "yes"})), {}),
        "dates_and_ids": (
            log.assign(user_id=rng.integers(120, size=N), seen=days, request=[f"r{i}" for i in range(N)]),
            {},
        ),
        "no_propensities": (log.drop(columns=["p", "recommended_ad"]), {}),
    }


def event(i: int) -> dict[str, object]:
    chosen = i % 2
    return {
        "_label_cost": -float(i % 3 == 0), "_label_probability": 0.5, "_labelIndex": chosen,
        "a": [chosen + 1, 2 - chosen], "p": [0.5, 0.5],
        "c": {"hour": i % 24, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]},
    }  # fmt: skip


def typed(words: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {k: v for k, v in os.environ.items() if k not in {"GITHUB_STEP_SUMMARY", "PYTHONIOENCODING"}}
    return subprocess.run([*RUN, *words], cwd=folder, capture_output=True, check=False, env={**clean, **env})


def shell_commands() -> list[list[str]]:
    """Commands in the README's fences that begin with offpolicy."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = []
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language in {"", "bash", "sh", "shell", "console"}:
            lines = body.replace("\\\n", " ").splitlines()
            found += [shlex.split(line.lstrip("$ "), comments=True) for line in lines]
    return [words[1:] for words in found if words[:1] == ["offpolicy"]]


def test_the_readme_shows_commands() -> None:
    assert {words[0] for words in shell_commands()} >= {"check", "evaluate"}


def test_the_commands_of_the_readme_work(folder: Path) -> None:
    for words in shell_commands():
        done = typed(words, folder)
        assert done.returncode in {0, 3, 4}, (words, done.stderr.decode())
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("make", ["semicolons", "decimal_commas", "yes_and_no", "dates_and_ids", "no_propensities"])
def test_init_then_evaluate(folder: Path, make: str) -> None:
    first = typed(["init", f"{make}.csv", "--output", f"{make}.toml"], folder)
    assert (first.returncode, first.stderr) == (0, b"")
    words = ["evaluate", f"{make}.toml", "--json", f"{make}.json", "--report", f"{make}.html"]
    done = typed(words, folder)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    result = json.loads((folder / f"{make}.json").read_text())
    assert result["log"]["n"] == N
    assert result["log"]["columns"]["action"] == "ad"
    assert {"age", "device"} <= set(result["log"]["columns"]["context"])
    assert 0 < result["logged"]["value"] < 1
    assert result["log"]["propensities"] == ("unknown" if make == "no_propensities" else "logged")
    assert (folder / f"{make}.html").stat().st_size > 10_000


def test_two_gates(folder: Path) -> None:
    base = "evaluate log.csv --context age,device --action ad --reward click --propensity p --estimator SNIPW"
    words = [*base.split(), "--policy", "new=recommended_ad"]
    good, bad = ["--gate", "value > 0.1"], ["--gate", "value > 0.99"]
    assert typed([*words, *good, *good], folder).returncode == 0
    assert typed([*words, *bad, *good], folder).returncode == 3
    assert typed([*words, *good, "--gate", ""], folder).returncode == 1


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_an_old_terminal(folder: Path, env: dict[str, str]) -> None:
    roles = ["log.csv", "--context", "age,device", "--action", "ad", "--reward", "click"]
    more = ["--policy", "новая=recommended_ad", "--estimator", "DML", "--reward-model", "linear"]
    commands = [
        ["evaluate", *roles, *more, "--gate", "'новая' lift > 0"],
        ["check", *roles],
        ["evaluate", *roles, "--policy", "new=нет"],
        ["evaluate", "--help"],
    ]
    for words in commands if env.get("PYTHONIOENCODING") == "ascii" else commands[:1]:
        done = typed(words, folder, **env)
        assert done.returncode in {0, 1, 3, 4}
        assert b"Traceback" not in done.stderr
        assert done.stdout or done.stderr
        encoding = env.get("PYTHONIOENCODING", "ascii")
        (done.stdout + done.stderr).decode(encoding)


def test_dsjson_goes_straight_in(folder: Path) -> None:
    words = ["evaluate", "decisions.json", "--policy", "new=always:tea", "--estimator", "SNIPW"]
    done = typed([*words, "--json", "tea.json"], folder)
    assert (done.returncode, done.stderr) == (0, b"")
    result = json.loads((folder / "tea.json").read_text())
    costs = [event(i)["_label_cost"] for i in range(0, 200, 2)]
    value = next(r["value"] for r in result["estimates"] if r["estimator"] == "SNIPW")
    assert value == pytest.approx(-np.mean(costs))
