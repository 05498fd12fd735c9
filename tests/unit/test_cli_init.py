"""`offpolicy init`: roles from names and values, and a run file that works as it is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from offpolicy.cli import main
from offpolicy.cli.guess import guess
from offpolicy.cli.init import ColumnFacts, facts_of


def ads(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"age": rng.integers(18, 70, n), "device": rng.choice(["phone", "desktop"], n)})
    df["ad"] = rng.choice(["music", "sport", "travel"], n, p=[0.2, 0.5, 0.3])
    df["p"] = df["ad"].map({"music": 0.2, "sport": 0.5, "travel": 0.3})
    df["click"] = (rng.random(n) < 0.2 + 0.2 * (df["ad"] == "music")).astype(int)
    df["recommended_ad"] = np.where(df["age"] < 40, "music", "sport")
    return df


def roles(frame: pd.DataFrame, **given: str) -> tuple[dict[str, object], dict[str, str]]:
    made = guess(facts_of(frame), lambda c: bool(np.allclose(frame[list(c)].sum(axis=1), 1)), given)
    return made.roles, made.policies


def test_plain_names() -> None:
    assert roles(ads()) == (
        {
            "reward": "click", "action": "ad", "propensity": "p", "context": ["age", "device"],
        },
        {"recommended_ad": "recommended_ad"},
    )  # fmt: skip


def test_names_that_say_nothing_are_told_by_their_values() -> None:
    frame = ads().rename(columns={"ad": "shown", "recommended_ad": "alternative", "p": "q7"})
    found, policies = roles(frame)
    assert (found["action"], found["propensity"]) == ("shown", "q7")
    assert policies == {"alternative": "alternative"}


def test_a_share_that_is_no_propensity_stays_in_the_context() -> None:
    frame = ads().drop(columns="p").assign(battery=np.linspace(0.3, 0.99, 400))
    found, _ = roles(frame)
    assert "propensity" not in found
    assert "battery" in found["context"]


def test_a_propensity_out_of_range_is_none() -> None:
    found, _ = roles(ads().assign(p=lambda d: 1000 * d["p"]))
    assert "propensity" not in found
    found, _ = roles(ads().assign(p=lambda d: 1 + d["p"]))  # not near the number of actions, in percent either
    assert "propensity" not in found
    assert "p" not in found["context"]


def test_a_propensity_in_percent_is_one_and_no_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = ads().assign(p_pct=lambda d: 100 * d["p"]).drop(columns="p")
    found, _ = roles(frame)
    assert (found["propensity"], found["propensity_unit"]) == ("p_pct", "percent")
    assert "p_pct" not in found["context"]
    frame.to_csv(tmp_path / "log.csv", index=False)
    ads().to_csv(tmp_path / "plain.csv", index=False)
    values = []
    for name in ("log", "plain"):
        run = tmp_path / f"{name}.toml"
        assert main(["init", str(tmp_path / f"{name}.csv"), "--output", str(run)]) == 0
        out = str(tmp_path / f"{name}.json")
        assert main(["evaluate", str(run), "--estimator", "IPW", "--json", out]) == 0
        values.append(json.loads(Path(out).read_text())["estimates"][0]["value"])
    assert values[0] == pytest.approx(values[1])
    capsys.readouterr()
    flags = [
        "--context",
        "age",
        "--action",
        "ad",
        "--reward",
        "click",
        "--propensity",
        "p",
        "--policy",
        "uniform=uniform",
    ]
    assert main(["evaluate", str(tmp_path / "plain.csv"), *flags, "--propensity-unit", "percent"]) == 1
    assert "look like probabilities" in capsys.readouterr().err


def test_times_in_another_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = pd.date_range("2026-01-01", periods=400, freq="3h")
    frame = ads().assign(shown_at=days.strftime("%d.%m.%Y %H:%M"))
    found, _ = roles(frame)
    assert (found["time"], found["time_format"]) == ("shown_at", "%d.%m.%Y %H:%M")
    few = ads().assign(shown_at=(pd.Series(["01/02/2026", "03/02/2026"] * 200)))  # the day or the month may come first
    made = guess(facts_of(few))
    assert "time" not in made.roles
    assert any("--time-format" in line for line in made.advice)
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    flags = ["--context", "age", "--action", "ad", "--reward", "click", "--propensity", "p", "--time", "shown_at"]
    assert main(["check", str(path), *flags]) == 1
    assert "--time-format" in capsys.readouterr().err
    answers = []
    for engine in ([], ["--engine", "duckdb"]):
        assert main(["check", str(path), *flags, "--time-format", "%d.%m.%Y %H:%M", *engine]) in {0, 3}
        answers.append(capsys.readouterr().out)
    assert "batches" in answers[0]
    assert answers[0] == answers[1]
    run = tmp_path / "run.toml"
    assert main(["init", str(path), "--output", str(run)]) == 0
    assert tomllib.loads(run.read_text())["time_format"] == "%d.%m.%Y %H:%M"


def test_json_as_text_is_left_out() -> None:
    made = guess(facts_of(ads().assign(extra=['{"a": 1}', "[1, 2]"] * 200)))
    assert "extra" in made.left_out
    assert "JSON" in made.why["extra"]


def test_labels_that_differ_by_spaces_or_case_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = ads()
    frame.loc[::7, "ad"] = frame.loc[::7, "ad"] + " "
    made = guess(facts_of(frame))
    assert any("spaces or letter case" in line and "'sport '" in line for line in made.advice)
    assert not any("spaces" in line for line in guess(facts_of(ads())).advice)
    frame.to_csv(tmp_path / "log.csv", index=False)
    flags = ["--context", "age", "--action", "ad", "--reward", "click", "--propensity", "p"]
    main(["check", str(tmp_path / "log.csv"), *flags])
    assert "labels of 'ad' differ only by spaces or letter case" in capsys.readouterr().err


def test_a_column_that_tells_the_action_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = ads().assign(slot=lambda d: d["ad"].map({"music": 3, "sport": 1, "travel": 2}), hour=np.arange(400) % 24)
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert main(["init", str(tmp_path / "log.csv"), "--output", str(tmp_path / "run.toml")]) == 0
    said = capsys.readouterr().out
    assert "slot tells the ad" in said
    context = tomllib.loads((tmp_path / "run.toml").read_text())["context"]
    assert context == ["age", "device", "hour"]


def test_implausible_propensities_are_pointed_out() -> None:
    made = guess(facts_of(ads().assign(p=0.01)))
    assert any("1/p" in line for line in made.advice)


def test_probability_columns_of_a_policy_and_of_the_log() -> None:
    frame = ads().drop(columns="p")
    for label, new, old in (("music", 0.5, 0.2), ("sport", 0.25, 0.5), ("travel", 0.25, 0.3)):
        frame[f"new_{label}"], frame[f"logging_{label}"] = new, old
    found, policies = roles(frame)
    assert found["propensity"] == ["logging_music", "logging_sport", "logging_travel"]
    assert policies["new"] == "new_music,new_sport,new_travel"
    frame["new_music"] = 0.9
    assert "new" not in roles(frame)[1]


def test_dates_ids_long_text_and_later_outcomes_stay_out_of_the_context() -> None:
    n = 400
    frame = ads().assign(
        user_id=np.arange(n) % 90,
        timestamp=pd.date_range("2026-01-01", periods=n, freq="h").astype(str),
        birthday="31.01.1990",
        session=[f"s{i:04d}" for i in range(n)],
        request_id=range(n),
        comment=[f"text {i // 2}" for i in range(n)],
        revenue=np.linspace(0.5, 3, n),
        nothing=np.nan,
    )
    frame["birthday"] = [f"{1 + i % 28:02d}.01.1990" for i in range(n)]
    made = guess(facts_of(frame))
    assert made.roles["context"] == ["age", "device"]
    assert (made.roles["cluster"], made.roles["time"]) == ("user_id", "timestamp")
    left = {"birthday", "session", "request_id", "comment", "revenue", "nothing"}
    assert set(made.left_out) == left
    assert all(made.why[c] for c in left)


def test_numbers_as_actions_and_quantities() -> None:
    rng = np.random.default_rng(1)
    frame = ads().drop(columns=["ad", "recommended_ad"]).assign(arm=rng.integers(4, size=400))
    made = guess(facts_of(frame))
    assert made.roles["action"] == "arm"
    assert any("labels, without order" in line for line in made.advice)
    priced = frame.drop(columns="arm").assign(price=rng.random(400).round(4))
    assert "action" not in guess(facts_of(priced)).roles


def test_episodes() -> None:
    frame = pd.DataFrame({"episode": np.repeat(np.arange(30), 4), "t": np.tile(np.arange(4), 30)})
    rng = np.random.default_rng(0)
    frame["x"], frame["action"] = rng.normal(size=120), rng.integers(2, size=120)
    frame["reward"], frame["done"] = rng.normal(size=120), frame["t"] == 3
    found, _ = roles(frame)
    assert {k: found[k] for k in ("episode", "step", "terminated", "state")} == {
        "episode": "episode", "step": "t", "terminated": "done", "state": ["x"],
    }  # fmt: skip


def test_what_is_given_is_kept() -> None:
    assert roles(ads(), action="device")[0]["action"] == "device"


def test_facts_of_a_column() -> None:
    frame = pd.DataFrame({"w": [1.0, 2.0, None], "l": [[1], [2], [3]], "t": ["true", "False", "true"]})
    by_name = {f.name: f for f in facts_of(frame)}
    assert (by_name["w"].kind, by_name["w"].missing) == ("whole", 1)
    assert (by_name["l"].kind, by_name["t"].kind) == ("list", "truth")
    assert ColumnFacts("x", "empty", 3).describe() == "nothing"


def test_the_run_file_is_beside_the_log_or_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "runs"):
        Path(folder).mkdir()
    ads().to_csv("data/log.csv", index=False)
    assert main(["init", "data/log.csv", "--output", "runs/first.toml"]) == 0
    assert "recommended_ad" in capsys.readouterr().out
    made = tomllib.loads(Path("runs/first.toml").read_text(encoding="utf-8"))
    assert made["log"] == "../data/log.csv"
    assert main(["init", "data/log.csv", "--output", "runs/first.toml"]) == 1
    assert "--force" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path / "data")
    more = ["--estimator", "SNIPW"]
    assert main(["evaluate", "../runs/first.toml", *more]) == 0
    Path("../runs/first.toml").write_text(Path("../runs/first.toml").read_text().replace("# json = ", "json = "))
    assert main(["evaluate", "../runs/first.toml", *more]) == 0
    assert json.loads(Path("../runs/result.json").read_text())["log"]["n"] == 400


def test_what_cannot_be_guessed_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "k": rng.integers(3, size=90), "z": rng.normal(size=90)})
    frame.to_csv("log.csv", index=False)
    assert main(["init", "log.csv"]) == 1
    assert "--action COL --reward COL" in capsys.readouterr().err
    assert not Path("run.toml").exists()
    assert main(["init", "log.csv", "--action", "k", "--reward", "zz"]) == 1
    assert main(["init", "log.csv", "--action", "k", "--reward", "z"]) == 0
    assert main(["evaluate", "run.toml", "--estimator", "SNIPW"]) == 0


def test_names_with_quotes_and_escapes_reach_the_run_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = 'a "quoted" # name\x1b[31m'
    ads().rename(columns={"age": odd}).to_csv("log.csv", index=False)
    assert main(["init", "log.csv"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    text = Path("run.toml").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert odd in tomllib.loads(text)["context"]


def test_ids_are_no_context_and_repeated_ones_are_clusters() -> None:
    households = np.arange(400) % 90
    assert roles(ads().assign(hh_id=households % 12))[0]["cluster"] == "hh_id"
    assert roles(ads().assign(tenant_id=households))[0]["cluster"] == "tenant_id"
    both = roles(ads().assign(hh_id=households, cluster=households % 30))[0]
    assert both["cluster"] == "cluster"
    assert both["context"] == ["age", "device"]
    assert roles(ads().assign(shop_id=households % 7))[0]["context"] == ["age", "device"]


def test_score_columns_are_a_policy() -> None:
    scores = {f"score_{ad}": np.linspace(-2, 5, 400) for ad in ("travel", "music", "sport")}
    found, policies = roles(ads().assign(**scores))
    assert found["context"] == ["age", "device"]
    assert policies["score"] == "greedy:score_music,score_sport,score_travel"


def test_a_column_that_tells_which_rows_have_a_reward_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = ads().assign(minutes_watched=lambda d: d["click"] * d["age"] / 10).rename(columns={"click": "played"})
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert main(["init", str(tmp_path / "log.csv"), "--output", str(tmp_path / "run.toml")]) == 0
    run = tomllib.loads((tmp_path / "run.toml").read_text())
    assert (run["reward"], run["context"]) == ("minutes_watched", ["age", "device"])
    assert "tells which rows have a nonzero minutes_watched" in capsys.readouterr().out
