"""Every row of the catalogue gives the number, or the error with the words, that it must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from catalogue import ERROR, LEFT_OUT, Case, cases, counts

from offpolicy.errors import OffPolicyError

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.area}-{c.name}"[:60] for i, c in enumerate(CASES)])
@pytest.mark.filterwarnings("error")
def test_row(case: Case, tmp_path):
    if case.expected == LEFT_OUT:
        assert re.search(str(case.words), case.run(tmp_path))
        return
    if case.expected == ERROR:
        allowed = (OffPolicyError, ValueError) if case.words == "read-only" else OffPolicyError
        with pytest.raises(allowed) as caught:
            case.run(tmp_path)
        assert re.search(str(case.words), str(caught.value)), str(caught.value)
        return
    assert case.run(tmp_path) == pytest.approx(case.words, rel=1e-9)


def test_the_catalogue_is_large_and_its_rows_have_names():
    assert len(CASES) >= 400
    assert len({str(c) for c in CASES}) == len(CASES)


def test_the_page_shows_these_counts():
    assert counts() in PAGE.read_text(encoding="utf-8"), "run: make reliability"
