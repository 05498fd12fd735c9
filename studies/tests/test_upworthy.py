"""The Upworthy study: arms as a counted log, periods, and the check on a small archive and the real one."""

from pathlib import Path

import numpy as np
import pytest

from offpolicy.errors import DataError, UsageError
from offpolicy_studies import upworthy
from offpolicy_studies.folder import locate

DATA = Path(__file__).parents[3] / "shared" / "data"


def archive(counts, week=201340):
    """One test for each list of impressions, a tenth of which clicked."""
    test = np.repeat([f"t{i}" for i in range(len(counts))], [len(c) for c in counts])
    impressions = np.concatenate([np.asarray(c, dtype=float) for c in counts])
    return upworthy.Tests(test, np.full(len(test), week), impressions, impressions // 10)


def test_the_log_has_every_reader_once_with_one_over_the_number_of_arms():
    log = upworthy.as_log(archive([[100, 110], [50, 60, 70]]))
    assert log.n == 390
    assert set(np.round(log.propensity, 6)) == {0.5, round(1 / 3, 6)}
    assert len(log.actions) == 3
    clicks = log.count[log.reward == 1].sum()
    assert clicks == 10 + 11 + 5 + 6 + 7


def test_a_skewed_test_is_found_and_a_fair_one_is_not():
    from offpolicy.trust import check_log

    log = upworthy.as_log(archive([[1000, 1010, 995], [1000, 1500, 1000]]))
    p = check_log(log)["sample_ratio_mismatch"].details["batches"]
    assert p["t0"] > 0.5
    assert p["t1"] < 1e-10


def test_periods_by_the_weeks_of_the_bug():
    first = np.array([201324, 201325, 201401, 201402, 201324])
    last = np.array([201324, 201325, 201401, 201402, 201325])
    assert upworthy.period(first, last).tolist() == [0, 1, 1, 2, -1]


def test_data_that_are_not_there_are_said_to_be_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    with pytest.raises(UsageError, match="OFFPOLICY_DATA"):
        upworthy.reproduce(upworthy.Args())
    with pytest.raises(DataError, match=r"upworthy_clean\.parquet"):
        upworthy.reproduce(upworthy.Args(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.csv").write_text("")
    assert locate(tmp_path, ["set"], ["a.csv"], "somewhere") == tmp_path / "set"


@pytest.mark.skipif(
    not (DATA / "upworthy").is_dir(), reason="the Upworthy archive is not in ../shared/data beside the repository"
)
def test_the_bug_window_is_flagged_and_later_tests_are_not():
    result = upworthy.reproduce(upworthy.Args(DATA))
    share = {r["period"]: r["share"]["value"] for r in result["periods"]}
    assert share["bug window"] > 0.6
    assert share["after the bug"] < 0.01
    assert "| bug window | 1,058 |" in upworthy.show(result)
