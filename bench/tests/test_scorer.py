"""The scorer and the schema on lines written by hand."""

import json
from pathlib import Path

import pytest

from offpolicy_bench.page import write
from offpolicy_bench.schema import check, settle
from offpolicy_bench.scorer import overall, score


def line(entry, log, truth=1.0, estimate=1.0, low=0.5, high=1.5, refused=None, task="t", **more):
    return {
        "schema": 1, "entry": entry, "task": task, "size": "quick", "log": log, "code": "x", "truth": truth,
        "estimate": estimate, "low": low, "high": high, "refused": refused, "seconds": 2.0, "peak_mb": 10.0, **more,
    }  # fmt: skip


def test_errors_are_relative_to_the_best_and_the_best_stands_first():
    lines = [line("far", i, estimate=1.2) for i in range(10)] + [line("near", i, estimate=0.9) for i in range(10)]
    table = score(lines)["t"]
    assert list(table) == ["near", "far"]
    assert table["near"]["relative"] == 1.0
    assert table["far"]["relative"] == pytest.approx(2.0)
    assert table["far"]["rmse"] == pytest.approx(0.2)
    assert table["far"]["relative_error"] == pytest.approx(0.0, abs=1e-9)


def test_the_error_of_a_ratio_is_that_of_paired_logs():
    """Squares 4 and 0 against 1 and 1: the ratio of means is 2, its root √2, with an error of half of √2 / √2."""
    far = [line("far", i, estimate=3.0 if i % 2 else 1.0) for i in range(10)]
    table = score(far + [line("near", i, estimate=2.0) for i in range(10)])["t"]
    assert table["far"]["relative"] == pytest.approx(2**0.5)
    assert table["far"]["relative_error"] == pytest.approx(0.5 * 2**-0.5 * 2 / 10**0.5)


def test_nobody_gains_by_refusing_hard_logs():
    easy = [line("picky", i, estimate=1.1) for i in range(5)]
    hard = [line("picky", i, estimate=3.0, refused="hard") for i in range(5, 10)]
    table = score(easy + hard + [line("plain", i, estimate=1.1) for i in range(10)])["t"]
    assert table["plain"]["relative"] == 1.0
    assert table["picky"]["relative"] > 10
    assert table["picky"]["refused"] == 0.5
    # Its coverage, though, is that of the intervals it stands by.
    assert table["picky"]["intervals"] == 5


def test_errors_are_compared_on_common_logs():
    """An entry without estimates on some logs is compared where it has them."""
    missing = [line("some", i, estimate=None, low=None, high=None, refused="no") for i in range(5)]
    some = [line("some", i, estimate=1.2) for i in range(5, 10)]
    other = [line("all", i, estimate=1.4 if i < 5 else 1.1) for i in range(10)]
    table = score(missing + some + other)["t"]
    assert table["some"]["relative"] == 1.0
    assert table["all"]["relative"] == pytest.approx(0.5)


def test_widths_are_compared_with_the_narrowest_that_hold():
    wide = [line("wide", i, low=0.0, high=2.0) for i in range(20)]
    right = [line("right", i, low=0.8, high=1.2) for i in range(20)]
    wrong = [line("wrong", i, low=1.04, high=1.06) for i in range(20)]
    table = score(wide + right + wrong)["t"]
    assert table["wrong"]["coverage"] == 0.0
    assert table["right"]["width"] == 1.0
    assert table["wide"]["width"] == pytest.approx(5.0)
    assert table["wrong"]["width"] == pytest.approx(0.05)
    over = overall({"t": table}, set())
    assert over["wrong"]["short"] == 1
    assert over["right"]["short"] == 0
    assert over["right"]["coverage"] == 1.0


def test_a_refusal_is_right_where_there_is_no_truth():
    fooled = [line("bold", i, truth=None, task="broken") for i in range(4)]
    wary = [line("wary", i, truth=None, refused="no", task="broken") for i in range(4)]
    table = score(fooled + wary)
    assert list(table["broken"]) == ["wary", "bold"]
    over = overall(table, {"broken"})
    assert over["bold"]["answered"] == 1.0
    assert over["wary"]["answered"] == 0.0
    assert over["wary"]["refused"] is None


def test_a_leader_has_at_least_half_of_the_estimates():
    """One lucky estimate does not set the standard."""
    lucky = [line("lucky", 0, estimate=1.0001)]
    lucky += [line("lucky", i, estimate=None, low=None, high=None, refused="no") for i in range(1, 10)]
    table = score(lucky + [line("steady", i, estimate=1.1) for i in range(10)])["t"]
    assert table["steady"]["relative"] == 1.0


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"size": "huge"}, {"log": -1}, {"estimate": "1"}, {"low": True}, {"seconds": -1.0}, {"more": 1}],
)
def test_the_schema_refuses(change):
    check(line("a", 0))
    with pytest.raises(ValueError, match="result"):
        check(line("a", 0) | change)


def test_the_schema_is_json_schema():
    """What `check` accepts and refuses is what the standard's own reading does."""
    jsonschema = pytest.importorskip("jsonschema")
    from offpolicy_bench.schema import SCHEMA

    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(line("a", 0), SCHEMA)
    for change in ({"schema": 2}, {"estimate": "1"}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(line("a", 0) | change, SCHEMA)


def test_answers_are_made_whole():
    assert settle({"estimate": None})["refused"] == "the estimate is not a number"
    assert settle({"estimate": 1.0, "low": 0.0})["low"] is None
    with pytest.raises(ValueError, match="an answer may have"):
        settle({"value": 1.0})


def test_the_page_is_made_from_the_summary_alone(tmp_path):
    table = score([line("a", i, estimate=1.1) for i in range(10)] + [line("b", i, estimate=1.3) for i in range(10)])
    broken = score([line("a", i, truth=None, refused="a | b", task="broken") for i in range(3)])
    about = {"title": "A task", "kind": "bandit", "about": "About.", "rows": 5}
    entry = {"kinds": ["bandit"], "requires": [], "recipe": "r", "version": "this checkout", "full_hours": 1.5}
    summary = {
        "made": {"size": "quick", "logs": 10, "results": 20, "commit": "abc", "date": "2026-01-01", "machine": "m"},
        "overall": overall(table | broken, {"broken"}),
        "tasks": {
            "t": {**about, "refuse": False, "entries": table["t"]},
            "broken": {**about, "refuse": True, "entries": broken["broken"]},
        },
        "entries": {"a": entry, "b": entry},
        "absent": {"c": "does not install"},
        "limits": ["one"],
        "left_out": ["Another task"],
    }
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "bench.md"
    write(json.loads(json.dumps(summary)), page, tmp_path / "docs" / "pictures")
    text = page.read_text(encoding="utf-8")
    assert text.index("| a | 1.00 |") < text.index("| b | 3.00 ")
    assert "does not install" in text
    assert "Each of 2 tasks was run on 3 to 10 logs" in text
    assert "without a row: Another task." in text
    assert "a / b" in text
    assert {p.name for p in (tmp_path / "docs" / "pictures").iterdir()} == {"overall.svg", "t.svg", "broken.svg"}


def test_every_figure_of_the_committed_page_is_in_the_committed_summary(tmp_path):
    """docs/bench.md and its pictures are what the summary gives, to the letter."""
    root = Path(__file__).parents[2]
    summary = json.loads((root / "bench/results/summary.json").read_text(encoding="utf-8"))
    write(summary, tmp_path / "bench.md", tmp_path / "pictures" / "bench")
    assert (tmp_path / "bench.md").read_text("utf-8") == (root / "docs/bench.md").read_text("utf-8")
    committed = {p.name: p.read_text("utf-8") for p in (root / "docs/pictures/bench").iterdir()}
    assert {p.name: p.read_text("utf-8") for p in (tmp_path / "pictures/bench").iterdir()} == committed
