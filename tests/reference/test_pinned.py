"""What the library says of small logs of every kind is what it said: see ``pinned.py``."""

from __future__ import annotations

import json

import pinned
import pytest


@pytest.mark.parametrize("name", pinned.WORLDS)
def test_the_answers_are_those_that_were_given(name):
    known = json.loads(pinned.path_of(name).read_text(encoding="utf-8"))
    differences = pinned.moved(known, pinned.answer(name))
    assert not differences, "\n".join(
        [*differences[:10], "meant? run: python tests/reference/pinned.py, and read what moved"]
    )


def test_a_difference_is_found_and_named():
    old = {"a": [1.0, 2.0], "b": "x"}
    assert pinned.moved(old, {"a": [1.0, 2.0 + 1e-9], "b": "x"}) == []
    assert pinned.moved(old, {"a": [1.0, 2.1], "b": "y", "c": 1}) == [
        "/a/1: 2.0 → 2.1",
        "/b: 'x' → 'y'",
        "/c: None → 1",
    ]
