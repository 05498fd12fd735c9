"""Entries from outside: a toy in under 30 lines gets its row; errors, deaths and silence are refusals."""

import json
import textwrap

import pytest

from offpolicy_bench import entry as entries
from offpolicy_bench.command import main
from offpolicy_bench.runner import lines, results_file, run
from offpolicy_bench.tasks import TASKS

TOY = """\
# /// script
# dependencies = []
# [tool.offpolicy-bench]
# name = "toy"
# kinds = ["bandit"]
# recipe = "Self-normalized weights, delta-method interval"
# ///
import numpy as np


def answer(log):
    if log.propensity is None:
        return {"refused": "needs logged propensities"}
    w = log.target[np.arange(len(log.action)), log.action] / log.propensity
    value = (w * log.reward).sum() / w.sum()
    error = np.sqrt((w**2 * (log.reward - value) ** 2).sum()) / w.sum()
    return {"estimate": value, "low": value - 1.96 * error, "high": value + 1.96 * error}
"""
NAUGHTY = """\
# /// script
# [tool.offpolicy-bench]
# name = "naughty"
# kinds = ["bandit"]
# ///
import os, time
import numpy as np

def answer(log):
    print("noise on the output")
    if log.seed == 0:
        raise ValueError("no")
    if log.seed == 1:
        os._exit(3)
    if log.seed == 2:
        time.sleep(60)
    return {"estimate": np.nan if log.seed == 3 else 1.0}
"""


def quiet(text):
    """No progress in tests."""


def test_a_toy_from_outside_gets_its_row(tmp_path, monkeypatch):
    """Run, score and page, as a stranger would call them."""
    monkeypatch.chdir(tmp_path)
    assert len(TOY.splitlines()) <= 30
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    tasks = ["--task", "clicks", "--task", "unknown-linear", "--task", "slates", "--task", "corrupted-values"]
    assert main(["run", "--entry", "toy.py", "--quick", "--logs", "6", *tasks]) == 0
    assert main(["score", "--quick"]) == 0
    (tmp_path / "docs").mkdir()
    assert main(["page"]) == 0
    summary = json.loads((tmp_path / "bench/results/summary.json").read_text(encoding="utf-8"))
    row = summary["tasks"]["clicks"]["entries"]["toy"]
    assert row["logs"] == row["estimates"] == row["intervals"] == 6
    assert row["relative"] == 1.0
    assert 0 < row["rmse"] < 0.05
    assert summary["tasks"]["unknown-linear"]["entries"]["toy"]["refused"] == 1.0
    assert "slates" not in summary["tasks"]
    assert summary["overall"]["toy"]["answered"] == 0.5  # what is not a number is no answer
    assert "| toy | 1.00" in (tmp_path / "docs/bench.md").read_text(encoding="utf-8")


def test_errors_deaths_and_silence_are_refusals(tmp_path):
    (tmp_path / "naughty.py").write_text(NAUGHTY, encoding="utf-8")
    naughty = entries.read(str(tmp_path / "naughty.py"))
    found = run(naughty, [TASKS["clicks"]], size="quick", logs=5, folder=tmp_path, limit=2.0, say=quiet)
    by_log = {r["log"]: r for r in found}
    assert by_log[0]["refused"] == "ValueError: no"
    assert by_log[0]["raised"]
    assert by_log[1]["refused"] == "the process ended with code 3"
    assert by_log[2]["refused"] == "no answer within 2 s"
    assert by_log[3]["refused"] == "the estimate is not a number"
    assert by_log[4]["refused"] is None
    assert by_log[4]["seconds"] is not None
    assert by_log[4]["peak_mb"] > 1


def test_a_run_goes_on_from_what_is_there(tmp_path):
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    toy = entries.read(str(tmp_path / "toy.py"))
    said = []
    run(toy, [TASKS["clicks"]], size="quick", logs=2, folder=tmp_path, say=quiet)
    place = results_file(tmp_path, "toy", "quick")
    with place.open("a", encoding="utf-8") as stream:
        stream.write('{"cut sho')
    found = run(toy, [TASKS["clicks"]], size="quick", logs=3, folder=tmp_path, say=said.append)
    assert [r["log"] for r in lines(place)] == [0, 1, 2]
    assert "1/1" in said[-1]
    run(toy, [TASKS["clicks"]], size="quick", logs=3, folder=tmp_path, say=said.append)
    assert "done before" in said[-1]
    # A changed adapter is another entry.
    (tmp_path / "toy.py").write_text(TOY.replace("1.96", "2.5"), encoding="utf-8")
    changed = entries.read(str(tmp_path / "toy.py"))
    wider = run(changed, [TASKS["clicks"]], size="quick", logs=1, folder=tmp_path, say=quiet)
    assert wider[0]["high"] > found[0]["high"]


def test_a_command_in_another_language_may_enter(tmp_path):
    """Here the shell: it answers 0.06 whatever it is asked."""
    (tmp_path / "shell.toml").write_text(
        textwrap.dedent("""
            name = "shell"
            kinds = ["bandit"]
            recipe = "Always the same"
            command = ["sh", "-c", 'while read line; do echo "{\\"estimate\\": 0.06}"; done']
        """),
        encoding="utf-8",
    )
    shell = entries.read(str(tmp_path / "shell.toml"))
    found = run(shell, [TASKS["clicks"]], size="quick", logs=2, folder=tmp_path, say=quiet)
    assert [r["estimate"] for r in found] == [0.06, 0.06]


@pytest.mark.parametrize("name", sorted(entries.shipped()))
def test_adapters_are_short_and_pinned(name):
    found = entries.read(name)
    assert len(found.path.read_text(encoding="utf-8").splitlines()) <= 80
    assert found.recipe
    assert all("==" in requirement for requirement in found.requires)


def test_mistakes_in_entries_are_named(tmp_path):
    with pytest.raises(ValueError, match="no entry is called 'nobody'"):
        entries.read("nobody")
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="inline script metadata"):
        entries.read(str(tmp_path / "a.py"))
    (tmp_path / "b.toml").write_text('name = "b"\nkinds = ["chess"]\n', encoding="utf-8")
    with pytest.raises(ValueError, match="`kinds` must be"):
        entries.read(str(tmp_path / "b.toml"))


def test_the_library_answers_and_refuses(tmp_path):
    """Our own entry, in this environment."""
    tasks = [TASKS["clicks"], TASKS["corrupted-values"]]
    found = run(entries.read("offpolicy"), tasks, size="quick", logs=1, folder=tmp_path, say=quiet)
    clean, broken = found
    assert clean["refused"] is None
    assert clean["low"] < clean["estimate"] < clean["high"]
    assert "DataError" in broken["refused"]


def test_results_of_a_package_under_development_are_kept_only_while_it_stays_the_same(tmp_path, monkeypatch):
    package = tmp_path / "somebody"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "toy.py").write_text(TOY.replace('"toy"', '"toy"\n# package = "somebody"'), encoding="utf-8")
    before = entries.read(str(tmp_path / "toy.py")).code
    assert entries.read(str(tmp_path / "toy.py")).code == before
    (package / "__init__.py").write_text("VALUE = 2.0\n", encoding="utf-8")
    assert entries.read(str(tmp_path / "toy.py")).code != before
    (tmp_path / "toy.py").write_text(TOY.replace('"toy"', '"toy"\n# package = "nobody_at_all"'), encoding="utf-8")
    with pytest.raises(ValueError, match="not installed here"):
        _ = entries.read(str(tmp_path / "toy.py")).code
