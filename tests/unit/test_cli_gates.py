"""Gates fail closed: only "all passed" is 0, whatever happens to the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.errors import UsageError
from offpolicy.trust.gate import assumption, check, worst
from offpolicy.trust.gate_text import expressions

ROLES = ["--context", "x", "--action", "ad", "--reward", "r", "--propensity", "p"]
PASS, FAIL, UNSURE = "value > 1", "value > 9", "value > 2.99"
RUN = [sys.executable, "-c", "from offpolicy.cli import entry; entry()"]


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    rng = np.random.default_rng(0)
    n = 400
    df = pd.DataFrame({"x": rng.normal(size=n), "ad": rng.choice(["u", "v"], n), "p": 0.5})
    df["r"] = rng.normal(size=n) + 3
    df["new"] = "u"
    df.to_csv(tmp_path / "log.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return ["evaluate", "log.csv", *ROLES, "--policy", "new=new", "--estimator", "SNIPW"]


def run_file(gate: str) -> str:
    path = Path("run.toml")
    path.write_text(
        'log = "log.csv"\ncontext = ["x"]\naction = "ad"\nreward = "r"\npropensity = "p"\n'
        f'estimators = ["SNIPW"]\n{gate}\n[policies]\nnew = "new"\n'
    )
    return str(path)


@pytest.mark.parametrize(
    ("gates", "code"),
    [([PASS], 0), ([PASS, FAIL], 3), ([FAIL, PASS], 3), ([PASS, UNSURE], 4), ([UNSURE, FAIL, PASS], 3)],
)
def test_the_worst_of_several_gates_counts_by_flags_and_by_run_file(
    flags: list[str], gates: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word for gate in gates for word in ("--gate", gate)]
    assert main([*flags, *given, "--json", "out.json"]) == code
    out = capsys.readouterr().out
    assert all(f"gate {gate!r}: " in out for gate in gates)
    kept = json.loads(Path("out.json").read_text())["gates"]
    assert [g["expression"] for g in kept] == gates
    assert worst([g["exit_code"] for g in kept]) == code
    assert main(["evaluate", run_file(f"gate = {json.dumps(gates)}")]) == code


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_a_blank_gate_is_an_error(flags: list[str], blank: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*flags, "--gate", blank]) == 1
    assert "is empty" in capsys.readouterr().err
    assert main([*flags, "--gate", PASS, "--gate", blank]) == 1


@pytest.mark.parametrize("value", ['""', "false", "0", "[]", '[""]', "true", "[0]", "{}"])
def test_a_run_file_whose_gate_is_none_is_an_error(
    flags: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", run_file(f"gate = {value}")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "gate" in err


@pytest.mark.parametrize(("gate", "code"), [(PASS, 0), (FAIL, 3), (UNSURE, 4)])
@pytest.mark.parametrize("reader", ["true", "head -1"])
def test_a_reader_that_goes_away_changes_nothing(flags: list[str], gate: str, code: int, reader: str) -> None:
    words = [*RUN, *flags, "--gate", gate]
    script = f'set -o pipefail; "$@" | {reader} >/dev/null'
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(("gate", "code"), [(PASS, 0), (FAIL, 3)])
def test_closed_output_changes_nothing(flags: list[str], gate: str, code: int) -> None:
    words = [*RUN, *flags, "--gate", gate]
    for closing in ('"$@" >&-', '"$@" >&- 2>&-'):
        done = subprocess.run(["bash", "-c", closing, "bash", *words], check=False)
        assert done.returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_written_is_never_green(flags: list[str]) -> None:
    for gate, code in ((PASS, 1), (FAIL, 3)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*RUN, *flags, "--gate", gate], stdout=full, check=False)
        assert done.returncode == code


def test_files_that_cannot_be_written_do_not_hide_a_failed_gate(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(Path("nowhere") / "summary.md"))
    assert main([*flags, "--gate", FAIL]) == 3
    assert main([*flags, "--gate", PASS]) == 1
    assert "could not be written" in capsys.readouterr().err


def test_the_summary_goes_to_a_file_and_to_the_step(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    step = Path("step.md")
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert main([*flags, "--gate", FAIL, "--summary", "own.md", "--title", "Ship <it>?"]) == 3
    own = Path("own.md").read_text(encoding="utf-8")
    assert own.startswith("## Ship \\<it\\>?")
    assert "❌ failed" in own
    assert "logged propensities" in own
    assert step.read_text(encoding="utf-8") == f"before\n{own}\n"


def test_only_codes_of_zero_are_green() -> None:
    assert worst([0, 0]) == 0
    assert worst([0, 1]) == 4
    assert worst([0, 3, 4]) == 3
    for nothing in ("", " ", False, 0, [], [None]):
        with pytest.raises(UsageError):
            expressions(nothing, ["new"])


def test_a_gate_names_what_it_rests_on() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(2, size=2000)
    x, r = rng.normal(size=2000), a + rng.normal(size=2000)
    for propensity, word in ((np.full(2000, 0.5), "logged propensities"), (None, "estimated")):
        log = op.BanditLog.from_arrays(x, a, r, propensity)
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
        assert word in assumption(ev)
        assert check(ev, "value > 0.5").sentence.endswith(assumption(ev))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--report", "nowhere/r.html"], "no folder 'nowhere'"),
        (["--report", "r.pdf"], "name the file .html"),
        (["--summary", "."], "is a folder"),
        (["--json", "locked/out.json"], "no permission"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(
    flags: list[str], extra: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = Path("locked")
    locked.mkdir()
    locked.chmod(0o500)
    if "locked" in extra[1] and os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    words = ["evaluate", "no_such_log.csv", *flags[2:], *extra]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
