"""The whole online-ads study at a thousandth of its size: end to end, resumable, reproducible."""

import json
from dataclasses import replace

import pytest

from offpolicy.errors import UsageError
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.estimate import BEHAVIOR, ESTIMATORS
from offpolicy_studies.ads.study import Args, reproduce, show
from offpolicy_studies.ads.work import Job, estimate, simulate


def options(folder, **changes):
    base = {"scale": 0.001, "seed": 0, "out": folder, "workers": 1, "draws": 500}
    return Args(**{**base, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ads")
    return folder, reproduce(options(folder))


def test_everything_is_written(finished):
    folder, result = finished
    for name in ("results.json", "table.md", "figure2.svg", "figure2.png", "cells.jsonl"):
        assert (folder / name).stat().st_size > 0
    stored = json.loads((folder / "results.json").read_text())
    assert stored["summary"]["cells"] == 112
    assert stored["summary"]["mab_impressions"] == 40_101
    assert stored["summary"]["cb_impressions"] == 299_342
    for behavior in BEHAVIOR:
        assert set(stored["summary"]["estimators"][behavior]) == set(ESTIMATORS)
        assert set(stored["summary"]["against_dml"][behavior]) == set(ESTIMATORS) - {"DML"}
    assert [p["campaign"] for p in stored["figure"]] == [0, 1, 2]
    assert set(result["seconds"]) == {"data", "estimates", "metrics", "drawing"}
    assert set(result["cpu_seconds"]) == {"data", "estimates", "policy"}
    assert not (folder / "data").exists()


def test_both_bars_of_figure_2_are_dml_with_proposition_1(finished):
    """The normal interval is the estimate ± 1.96 standard errors, for the logging policy as for the new one."""
    for panel in finished[1]["figure"]:
        for name in ("new", "logged"):
            low, high = panel[name]["normal"]
            assert panel[name]["value"] == pytest.approx((low + high) / 2, abs=1e-12)
            assert set(panel[name]) == {"value", "normal", "automatic"}


def test_table_stands_beside_the_papers(finished):
    text = (finished[0] / "table.md").read_text()
    assert "| DML | 0.566 (0.030) |" in text
    assert "the true value itself" in text
    shown = show(finished[1])
    assert shown.startswith(text)
    assert shown.count("last batch") == 3


def test_default_intervals_cover_in_small_cells(finished):
    """About 360 impressions in a cell and hardly a click: the interval must know that rewards end at 1."""
    for behavior in BEHAVIOR:
        kinds = finished[1]["summary"]["dml_intervals"][behavior]
        assert kinds["automatic"]["coverage"] > 0.9
        assert kinds["normal"]["coverage"] < 0.7


def test_interrupted_run_is_taken_up(finished, tmp_path):
    folder, result = finished
    lines = (folder / "cells.jsonl").read_text().splitlines(keepends=True)
    marked = json.loads(lines[0])
    marked["n"] += 1_000_000  # a finished cell is not computed again, so the mark survives
    tmp_path.joinpath("run.json").write_text((folder / "run.json").read_text())
    tmp_path.joinpath("figure2.jsonl").write_text((folder / "figure2.jsonl").read_text())
    kept = json.dumps(marked) + "\n" + "".join(lines[1:100]) + lines[100][:30]
    tmp_path.joinpath("cells.jsonl").write_text(kept)
    again = reproduce(options(tmp_path))
    assert again["summary"]["mab_impressions"] == 1_040_101
    assert again["summary"]["estimators"] == result["summary"]["estimators"]


def test_finished_run_is_only_summarized(finished):
    folder, result = finished
    again = reproduce(options(folder))
    assert again["summary"] == result["summary"]
    assert "data" not in again["seconds"]


def test_two_runs_do_not_share_a_folder(finished):
    with pytest.raises(UsageError, match="seed = 0, now 1"):
        reproduce(options(finished[0], seed=1))


def test_through_the_engine_of_large_logs(tmp_path):
    config = replace(AdConfig().scaled(0.001), batches=2)
    found = []
    for rows in (False, True):
        job = Job(config, seed=0, folds=2, data=str(tmp_path), rows=rows)
        simulate(job, 3)
        found.append(estimate(job, (3, 1))["estimates"])
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    for behavior in BEHAVIOR:
        counted, scanned = (f[behavior]["IPW"] for f in found)
        assert scanned == pytest.approx(counted, rel=1e-9)


def test_workers_do_not_change_the_result(finished, tmp_path):
    again = reproduce(options(tmp_path, workers=2, figure=False))
    assert again["summary"] == finished[1]["summary"]
    assert again["figure"] == []


@pytest.mark.parametrize(
    ("change", "message"), [({"folds": 1}, "folds"), ({"workers": -1}, "workers"), ({"scale": 2.0}, "scale")]
)
def test_bad_options(tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        reproduce(options(tmp_path / "x", **change))
