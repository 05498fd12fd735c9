"""The study of labels: resumable, with a table."""

import pytest

from offpolicy.errors import UsageError
from offpolicy_studies import labels


def test_a_run_is_taken_up_and_sums_up(tmp_path):
    args = labels.Args(parts=("judges", "delays"), replications=1, out=tmp_path)
    labels.reproduce(args)
    first = (tmp_path / "logs.jsonl").read_text()
    result = labels.reproduce(labels.Args(parts=("judges", "delays"), replications=2, out=tmp_path))
    assert (tmp_path / "logs.jsonl").read_text().startswith(first)
    rows = {(r["part"], r["setting"], r["way"]) for r in result["table"]}
    assert ("judges", "0.2", "useless judge") in rows
    assert ("delays", "heavy", "Delayed") in rows
    assert {r["logs"] for r in result["table"]} == {2}
    assert "| delays | by action |" in labels.show(result)


def test_real_data_have_to_be_somewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFPOLICY_DATA", raising=False)
    with pytest.raises(UsageError, match="OFFPOLICY_DATA"):
        labels.reproduce(labels.Args(parts=("router",), replications=1, out=tmp_path))
